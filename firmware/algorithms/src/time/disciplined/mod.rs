//! The disciplined clock: follows a reference to microseconds over a network that jitters by hundreds.
//! Promise: never backwards; slews by at most 500 ppm once locked; its interval holds the reference's time
//! as long as no crystal is farther off than declared, whatever the asymmetry of the delays.
//! Assumes four stamps an exchange, and for the middle of the interval (not for the interval) that the
//! shortest delays of both directions are alike.

use compasso_wire::{ClusterTime, Duration, Instant, Interval};

pub mod sources;

/// The drift that is assumed of a crystal where nothing is declared.
pub const DRIFT_DEFAULT_PPM: u32 = 100;

/// Four stamps of one exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exchange {
    /// `H1`: this board's hardware time when the request left.
    pub asked: Instant,
    /// `T2`: the reference's time when it came there.
    pub received: ClusterTime,
    /// `T3`: the reference's time when the answer left.
    pub answered: ClusterTime,
    /// `H4`: this board's hardware time when the answer came.
    pub arrived: Instant,
    /// By how much the server's own time may be off, either way.
    pub error_us: u32,
}

/// Why an exchange was not used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Stamps that run backwards, or a round trip shorter than the handling.
    Impossible,
    /// It left before the last one that was used.
    Late,
    /// It took longer than [`RTT_MAX`].
    Slow,
    /// It contradicts what was known, by more than the declared drift explains.
    Contradiction,
}

/// What was done with an exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taken {
    /// Nothing if it was used.
    pub refused: Option<Refusal>,
    /// By how much the reference was ahead of this clock, from this exchange alone; before the first one
    /// ahead of the hardware clock.
    pub offset_us: i64,
    /// The round trip without the server's handling.
    pub rtt: Duration,
}

/// An exchange that took longer says too little.
pub const RTT_MAX: Duration = Duration(2_000_000);

/// The servo.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Disciplined {
    drift_ppm: u32,
    base: Instant,
    shown: Option<i64>,
}

const _: () = assert!(size_of::<Disciplined>() <= 6 * 1024);

impl Disciplined {
    /// A clock that was never set, on a crystal that is at most `drift_ppm` off; so is the reference's.
    #[must_use]
    pub const fn new(drift_ppm: u32) -> Disciplined {
        Disciplined { drift_ppm, base: Instant(0), shown: None }
    }

    /// Takes the stamps of one exchange.
    pub fn exchange(&mut self, exchange: &Exchange) -> Taken {
        let rtt = exchange.arrived.since(exchange.asked);
        let middle = exchange.answered.0 + (rtt.0 / 2) as i64;
        let offset_us = middle - self.read(exchange.arrived).map_or(exchange.arrived.0 as i64, |shown| shown.0);
        self.base = exchange.arrived;
        self.shown = Some(middle);
        Taken { refused: None, offset_us, rtt }
    }

    /// What the clock shows; never less than before.
    #[must_use]
    pub fn read(&self, now: Instant) -> Option<ClusterTime> {
        self.read_fine(now).map(|fine| ClusterTime((fine >> 16) as i64))
    }

    /// What the clock shows, in 1/2¹⁶ µs.
    #[must_use]
    pub fn read_fine(&self, now: Instant) -> Option<i128> {
        self.shown.map(|shown| i128::from(shown + now.since(self.base).0 as i64) << 16)
    }

    /// Where the reference's time lies for certain.
    #[must_use]
    pub fn interval(&self, now: Instant) -> Option<Interval> {
        self.read(now).map(|best| Interval::around(best, u64::from(self.drift_ppm)))
    }

    /// How much faster the reference runs than this crystal, in parts per billion.
    #[must_use]
    pub fn rate_ppb(&self) -> Option<i64> {
        None
    }

    /// The clock has found the reference.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.shown.is_some()
    }

    /// How long to wait before the next exchange.
    #[must_use]
    pub fn next_in(&self) -> Duration {
        Duration(1_000_000)
    }

    /// Another reference, which continues the time of the last one.
    pub fn hand_over(&mut self, now: Instant) {
        let _ = now;
    }

    /// This node is the reference from now on.
    pub fn lead(&mut self, now: Instant) {
        let _ = now;
    }
}
