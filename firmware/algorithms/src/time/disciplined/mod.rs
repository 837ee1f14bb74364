//! The disciplined clock: follows a reference to microseconds over a network that jitters by hundreds.
//! Promise: never backwards; slews by at most 500 ppm; its certain interval holds the reference's time whatever the
//! asymmetry of the delays, as long as no crystal is farther off than declared; so does its narrow one as long as
//! no rate leaps by more than it bears (see `bound.rs`).
//! Assumes four stamps an exchange, and for what it shows (not for the interval) that the shortest delays
//! of both directions are alike.
//!
//! | file | rule |
//! |---|---|
//! | `model.rs` | a bound cuts the bell curve of what is possible: offset, rate, its trend, shortest delay |
//! | `bank.rs` | three hypotheses about the crystal, the best one tells the time; usual delays; a path that changed |
//! | `bound.rs` | the two intervals: a narrow one, and one that is certain |
//! | `claim.rs` | what the clock says of itself |
//! | `shown.rs` | what the clock shows: straight pieces that never step back |
//! | `sources.rs` | what most of several references agree on |
//! | `ensemble.rs` | several references, one of which may lie: a servo each, and one clock |
//! | `counter.rs` | a hardware counter of 32 bits that wraps around |
//! | `fixed.rs` | fixed-point arithmetic |

use bank::Bank;
use bound::{Bound, Stamped, Verdict};
use compasso_wire::{ClusterTime, Duration, Instant};
pub use ensemble::{Ensemble, SOURCES_MAX};
use fixed::{mul, seconds_q32};
use shown::Shown;

mod bank;
mod bound;
#[cfg(test)]
mod bound_tests;
mod claim;
pub mod counter;
mod ensemble;
mod fixed;
mod model;
mod shown;
pub mod sources;
#[cfg(test)]
mod tests;

/// The drift that is assumed of a crystal where nothing is declared.
pub const DRIFT_DEFAULT_PPM: u32 = 100;

/// No crystal is worse.
pub const DRIFT_MAX_PPM: u32 = 1000;

/// An exchange that took longer says too little.
pub const RTT_MAX: Duration = Duration(2_000_000);

/// An exchange is handled within this time from its arrival.
pub const HANDLED_WITHIN: Duration = Duration(shown::HANDLED_WITHIN_US);

/// After so long without an exchange everything but the rate is measured anew.
const GAP_MAX_US: u64 = 512_000_000;

/// Exchanges that a lock takes at least; as many pass after a hand-over before the clock is corrected.
const LOCK_EXCHANGES: u32 = 16;

/// After so many a clock is locked, however sure it is: where delays surprise it again and again, that takes for ever.
const LOCK_EXCHANGES_MAX: u32 = 480;

/// Exchanges after which a rate that is sure of itself is believed enough to lead by: before, too few have come near
/// the shortest delay to tell.
const FIT_EXCHANGES_MIN: u32 = 512;

/// After so many a clock that is locked leads, however sure it is: it will not know its rate much better soon.
const FIT_EXCHANGES_MAX: u32 = 1024;

/// Sure is a rate that the models believe to know to a tenth of a ppm: (µs/s)², q40.
const FIT_VARIANCE_Q40: i64 = LOCK_VARIANCE_Q40 / 100;

/// The rate is known to 1 ppm at the lock: (µs/s)², q40.
const LOCK_VARIANCE_Q40: i64 = 1 << 40;

/// A rate that is known to 10 ppm is better than none: (µs/s)², q40.
const COAST_VARIANCE_Q40: i64 = 100 << 40;

/// A clock that is behind by more than this at its first lock is set forward, once.
const STEP_MIN_US: i64 = 500;

/// The brace is set anew every so many exchanges.
const BRACE_EVERY: u32 = 16;

/// Exchanges after which a steady crystal is asked for less often.
const SETTLED_EXCHANGES: u32 = 600;

/// A rate changes unseen by at most this much a second: so grows the doubt about it.
pub const CHANGE_PPB: u32 = 50;

/// After so long without an exchange any leap of a rate within the declared drift is reckoned with.
pub const WATCHED_S: u32 = 8;

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
    /// By how much the server's own time may be off, either way: as its narrow interval says,
    pub error_us: u32,
    /// and as its certain one does.
    pub certain_us: u32,
    /// From `T3` until the answer had left the server's board, at least, but for a few. What is shown goes by it; the
    /// certain interval does not, and the narrow one only by the rate that is learnt so.
    pub leaves_us: u32,
}

/// Why an exchange was not used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Stamps that run backwards, or a round trip shorter than the handling.
    Impossible,
    /// It arrived before the last one that was used.
    Late,
    /// It took longer than [`RTT_MAX`].
    Slow,
}

/// What was done with an exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taken {
    /// Nothing if it was used.
    pub refused: Option<Refusal>,
    /// It contradicted what was known: a rate or the reference leapt, and the envelope was begun anew.
    pub contradicted: bool,
    /// By how much the reference was ahead of this clock, from this exchange alone; before the first one
    /// ahead of the hardware clock.
    pub offset_us: i64,
    /// The round trip without the server's handling.
    pub rtt: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    /// The next exchange is the first with its reference.
    Waiting,
    Following,
    Leading,
}

/// The servo. An exchange goes in within 10 ms of its arrival; readings may be taken at any time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Disciplined {
    role: Role,
    is_locked: bool,
    /// Offsets count from here: the reference's time minus the hardware time, whole microseconds.
    zero_us: i64,
    last: Instant,
    /// The last exchange that touched the envelope.
    proven: Instant,
    /// With this reference.
    exchanges: u32,
    /// From which the rate was learnt, with whatever reference.
    learnt: u32,
    bank: Bank,
    bound: Bound,
    shown: Shown,
}

/// What it may cost at most.
const SIZE_MAX: usize = 6 * 1024;
const _: () = assert!(size_of::<Disciplined>() <= SIZE_MAX);

impl Disciplined {
    /// A clock that was never set, on a crystal that is at most `drift_ppm` off; so is the reference's.
    #[must_use]
    pub const fn new(drift_ppm: u32) -> Disciplined {
        let drift_ppm = if drift_ppm > DRIFT_MAX_PPM { DRIFT_MAX_PPM } else { drift_ppm };
        Disciplined {
            role: Role::Waiting,
            is_locked: false,
            zero_us: 0,
            last: Instant(0),
            proven: Instant(0),
            exchanges: 0,
            learnt: 0,
            bank: Bank::new(drift_ppm),
            bound: Bound::new(drift_ppm),
            shown: Shown::UNSET,
        }
    }

    /// The same where the reference's clock and this crystal part by up to `ppm`, which is more than the drift of
    /// two crystals: a reference that runs at a rate it learnt. Only the certain interval is the wider for it.
    #[must_use]
    pub const fn parting_by(mut self, ppm: u32) -> Disciplined {
        self.bound = self.bound.parting_by(ppm);
        self
    }

    /// Stamps are off by about so much from one datagram to the next: what takes them may be busy. What is shown then
    /// believes no single one to the microsecond. The certain interval does not change: no stamp claims too much.
    pub fn blur(&mut self, by_us: u32) {
        self.bank.blur(by_us);
    }

    /// Takes the stamps of one exchange.
    pub fn exchange(&mut self, exchange: &Exchange) -> Taken {
        let rtt_us = round_trip_us(exchange);
        let middle_us = self.middle_us(exchange);
        let shown_us = self.read(exchange.arrived).map_or(exchange.arrived.0 as i64, |shown| shown.0);
        let mut taken = Taken {
            refused: None,
            contradicted: false,
            offset_us: middle_us.wrapping_add(exchange.arrived.0 as i64).wrapping_sub(shown_us),
            rtt: Duration(rtt_us.max(0) as u64),
        };
        taken.refused = self.refuse(exchange, rtt_us);
        if taken.refused.is_some() {
            return taken;
        }
        let mut gap_us = since_us(exchange.arrived, self.last) as u64;
        if self.role != Role::Following || gap_us > GAP_MAX_US {
            self.begin(exchange, rtt_us);
            gap_us = 0;
        }
        taken.contradicted = self.take(exchange, rtt_us, seconds_q32(gap_us));
        self.show(exchange.arrived);
        taken
    }

    /// What the clock shows; never less than before.
    #[must_use]
    pub fn read(&self, now: Instant) -> Option<ClusterTime> {
        self.shown.read(now).map(|(shown_us, _)| ClusterTime(shown_us))
    }

    /// What the clock shows, in 1/2¹⁶ µs.
    #[must_use]
    pub fn read_fine(&self, now: Instant) -> Option<i128> {
        self.shown
            .read(now)
            .map(|(shown_us, fraction_q32)| (i128::from(shown_us) << 16) + i128::from(fraction_q32 >> 16))
    }

    /// How much faster the reference runs than this crystal, in parts per billion.
    #[must_use]
    pub fn rate_ppb(&self) -> Option<i64> {
        let told = if self.role == Role::Leading { self.bank.lasting() } else { self.bank.best() };
        self.shown.is_set().then(|| mul::<32>(told.rate_q32, 1000))
    }

    /// What the clock has yet to make up for, either way.
    #[must_use]
    pub fn pending_us(&self, now: Instant) -> u64 {
        self.shown.pending_us(now)
    }

    /// The first hardware time, as far as is known now, at which the clock shows `time`.
    #[must_use]
    pub fn when(&self, time: ClusterTime) -> Option<Instant> {
        self.shown.when(time.0)
    }

    /// The clock shows a time.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.shown.is_set()
    }

    /// The clock has found its first reference; from then on it is never set any more.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.is_locked
    }

    /// Others may go by this clock: it leads already, is sure of its rate, or will not know it much better soon.
    #[must_use]
    pub fn is_fit(&self) -> bool {
        let is_sure = self.bank.lasting().rate_variance_q40() <= FIT_VARIANCE_Q40;
        let wanted = if is_sure { FIT_EXCHANGES_MIN } else { FIT_EXCHANGES_MAX };
        self.is_locked && (self.role == Role::Leading || self.learnt >= wanted)
    }

    /// It has kept the time of its reference for a while, or is one.
    #[must_use]
    pub fn has_followed(&self) -> bool {
        self.role == Role::Leading || self.exchanges >= LOCK_EXCHANGES
    }

    /// How long to wait before the next exchange.
    #[must_use]
    pub fn next_in(&self) -> Duration {
        if !self.is_locked || self.exchanges < LOCK_EXCHANGES || !self.is_fit() {
            Duration::from_millis(125)
        } else if self.bank.is_steady() && self.exchanges > SETTLED_EXCHANGES {
            Duration::from_millis(2000)
        } else {
            Duration::from_millis(1000)
        }
    }

    /// Another reference, which continues the time of the last one: the rate is kept, the envelope begins
    /// anew, and what the clock shows goes on.
    pub fn hand_over(&mut self, now: Instant) {
        if self.role == Role::Leading
            && let Some((shown_us, _)) = self.shown.read(now)
        {
            self.zero_us = shown_us.wrapping_sub(now.0 as i64);
            self.last = now;
            self.bound.pin();
        }
        self.exchanges = 0;
        self.role = Role::Waiting;
        self.coast(now);
    }

    /// This node is the reference from now on: a correction under way is finished, and time goes on at the
    /// rate that was learnt. Where there was no time yet, it begins with this.
    pub fn lead(&mut self, now: Instant, begin: ClusterTime) {
        if self.is_vague() {
            self.bank.know_rate();
        }
        if !self.shown.is_set() {
            self.shown.set(now, begin.0, 0, 0);
            self.last = now;
        } else if self.role != Role::Leading {
            self.shown.go_on(now, self.bank.lasting().rate_q32);
        }
        self.role = Role::Leading;
        self.is_locked = true;
    }

    /// A rate that is hardly known is worse than the crystal's own, which is within what is declared.
    fn is_vague(&self) -> bool {
        !self.is_locked && self.bank.best().rate_variance_q40() > COAST_VARIANCE_Q40
    }

    /// Nobody tells the time for a while.
    fn coast(&mut self, now: Instant) {
        if self.is_vague() && self.shown.is_set() {
            self.shown.follow(now, 0, 0);
        }
    }

    fn refuse(&self, exchange: &Exchange, rtt_us: i64) -> Option<Refusal> {
        let (asked, arrived) = (exchange.asked, exchange.arrived);
        let handling_us = exchange.answered.0.wrapping_sub(exchange.received.0);
        let is_backwards = since_us(arrived, asked) < 0 || handling_us < 0;
        // Crystals within the declared drift count the handling differently, and stamps are whole.
        let least_us = -2 - mul::<20>(handling_us, i64::from(2 * DRIFT_MAX_PPM));
        if is_backwards || rtt_us < least_us {
            Some(Refusal::Impossible)
        } else if self.role == Role::Following && since_us(arrived, self.last) <= 0 {
            Some(Refusal::Late)
        } else if since_us(arrived, asked) as u64 > RTT_MAX.0 {
            Some(Refusal::Slow)
        } else {
            None
        }
    }

    /// The first exchange with a reference. What is shown is the best guess, unless there is none.
    fn begin(&mut self, exchange: &Exchange, rtt_us: i64) {
        let middle_us = self.middle_us(exchange);
        let arrived_us = exchange.arrived.0 as i64;
        if !self.shown.is_set() {
            self.shown.set(exchange.arrived, arrived_us.wrapping_add(middle_us), 0, 0);
            self.last = exchange.arrived;
        }
        let (shown_us, fraction_q32) = self.shown.read(exchange.arrived).unwrap_or((0, 0));
        self.zero_us = shown_us.wrapping_sub(arrived_us);
        let off_us = middle_us.wrapping_sub(self.zero_us);
        let spread_us = off_us.saturating_abs().saturating_add(rtt_us / 2 + 1);
        let guess_q24 = if spread_us < SPREAD_MAX_US {
            fraction_q32 >> 8
        } else {
            self.zero_us = middle_us;
            0
        };
        let idle_us = since_us(exchange.arrived, self.last).max(0) as u64;
        self.bank.restart(guess_q24, rtt_us.max(1), spread_us, seconds_q32(idle_us));
        self.bound.forget();
        self.exchanges = 0;
        self.proven = exchange.arrived;
        self.role = Role::Following;
    }

    /// Bounds into envelope and models. True if they contradict what was known.
    fn take(&mut self, exchange: &Exchange, rtt_us: i64, gap_q32: i64) -> bool {
        let from_zero = |time: ClusterTime, at: Instant| {
            time.0.wrapping_sub(at.0 as i64).wrapping_sub(self.zero_us).clamp(-OFFSET_MAX_US, OFFSET_MAX_US)
        };
        let above_us = from_zero(exchange.received, exchange.asked);
        let below_us = from_zero(exchange.answered, exchange.arrived);
        let stamped = Stamped {
            above_us,
            below_us,
            // Stamps are whole microseconds.
            error_us: i64::from(exchange.error_us) + 1,
            certain_us: i64::from(exchange.certain_us) + 1,
            span_q32: seconds_q32(since_us(exchange.arrived, exchange.asked) as u64),
        };
        let mut contradicted = false;
        match self.bound.exchange(gap_q32, &stamped) {
            Verdict::Agrees => {}
            Verdict::RateLeapt => {
                self.bank.doubt_rate();
                self.learnt = 0;
                contradicted = true;
            }
            Verdict::Contradicts => {
                self.begin(exchange, rtt_us);
                self.bank.doubt_rate();
                self.learnt = 0;
                self.take(exchange, rtt_us, 0);
                return true;
            }
        }
        let touched = self.bank.exchange(gap_q32, above_us, below_us + leaving_us(exchange));
        if touched.is_near {
            self.proven = exchange.arrived;
        }
        if touched.is_leap {
            self.bound.doubt();
        }
        self.last = exchange.arrived;
        self.exchanges = self.exchanges.saturating_add(1);
        self.learnt = self.learnt.saturating_add(1);
        let whole_us = self.bank.best().offset_q24 >> 24;
        self.zero_us = self.zero_us.wrapping_add(whole_us);
        self.bank.rebase(whole_us);
        self.bound.rebase(whole_us);
        let (least_q32, most_q32) = self.bank.rate_within();
        let unproven_q32 = seconds_q32(since_us(self.last, self.proven) as u64);
        self.bound.tell_rate(least_q32, most_q32, unproven_q32);
        if self.exchanges.is_multiple_of(BRACE_EVERY) {
            let (there_us, back_us) = self.bank.usual_us();
            self.bound.brace(there_us, back_us);
        }
        contradicted
    }

    /// Bends what is shown towards what is known.
    fn show(&mut self, arrived: Instant) {
        if self.shown.is_bending(arrived) {
            return; // Two answers came at almost the same time: the next one makes up for this one.
        }
        let best = self.bank.best();
        // Who follows a clock that runs at a learnt rate relies on how far that may be from its crystal's.
        let rate_q32 = self.bound.confine(best.rate_q32);
        let offset_q24 = best.offset_q24;
        let wanted = if best.rate_variance_q40() <= LOCK_VARIANCE_Q40 { LOCK_EXCHANGES } else { LOCK_EXCHANGES_MAX };
        let locks = self.exchanges >= wanted;
        let begins = Shown::begins(arrived);
        let Some((shown_us, fraction_q32)) = self.shown.read(begins) else { return };
        let target_us = (begins.0 as i64).wrapping_add(self.zero_us);
        let then_q24 = offset_q24 + mul::<40>(rate_q32, seconds_q32(since_us(begins, arrived) as u64));
        let far_us = target_us.wrapping_sub(shown_us).clamp(-FAR_MAX_US, FAR_MAX_US);
        let missing_q24 = (far_us << 24) + then_q24 - (fraction_q32 >> 8);
        if !self.is_locked && locks {
            self.is_locked = true;
            if missing_q24 >> 24 > STEP_MIN_US {
                let fraction_q32 = (then_q24 & 0xff_ffff) << 8;
                return self.shown.set(begins, target_us.wrapping_add(then_q24 >> 24), fraction_q32, rate_q32);
            }
        }
        // After a hand-over the envelope is still wide: the rate is what is known.
        let is_coasting = self.is_locked && self.exchanges < LOCK_EXCHANGES;
        self.shown.follow(begins, rate_q32, if is_coasting { 0 } else { missing_q24 });
    }

    /// The reference's time minus the hardware time, if both delays were alike.
    fn middle_us(&self, exchange: &Exchange) -> i64 {
        let above_us = exchange.received.0.wrapping_sub(exchange.asked.0 as i64);
        let below_us = exchange.answered.0.wrapping_sub(exchange.arrived.0 as i64).wrapping_add(leaving_us(exchange));
        below_us.wrapping_add(above_us.wrapping_sub(below_us) / 2)
    }
}

impl Default for Disciplined {
    fn default() -> Disciplined {
        Disciplined::new(DRIFT_DEFAULT_PPM)
    }
}

/// A guess that is farther off is no guess.
const SPREAD_MAX_US: i64 = 100_000;

/// What is farther off contradicts everything, however far it is: an hour.
const OFFSET_MAX_US: i64 = 1 << 32;

/// A correction of more is cut off: it takes weeks in any case.
const FAR_MAX_US: i64 = 1 << 36;

/// Hardware time from `earlier` to `later`, also across the counter's end.
fn since_us(later: Instant, earlier: Instant) -> i64 {
    later.0.wrapping_sub(earlier.0) as i64
}

/// Round trip without the handling, in microseconds.
#[must_use]
pub fn round_trip_us(exchange: &Exchange) -> i64 {
    since_us(exchange.arrived, exchange.asked).wrapping_sub(exchange.answered.0.wrapping_sub(exchange.received.0))
}

/// From `T3` until the answer had left, as is told; never so much that nothing remains for its way.
fn leaving_us(exchange: &Exchange) -> i64 {
    i64::from(exchange.leaves_us).min(round_trip_us(exchange).max(0) / 2)
}
