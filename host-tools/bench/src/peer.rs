//! What a clock under test is to the bench.

use crate::families::{Exchange, Trace};

/// Microseconds with 16 fractional bits: fine enough for every clock here, and exact to compare.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Fine(pub i64);

impl Fine {
    /// From microseconds.
    #[must_use]
    pub fn from_us(us: f64) -> Fine {
        Fine((us * 65_536.0).floor() as i64)
    }

    /// In microseconds.
    #[must_use]
    pub fn us(self) -> f64 {
        self.0 as f64 / 65_536.0
    }
}

/// A clock that is fed stamps and read at ticks of the board's counter, in the order of the counter.
pub trait Peer {
    /// The answer has come: the counter is at `exchange.h4`.
    fn exchange(&mut self, exchange: &Exchange);

    /// What the clock shows when the counter is at `tick`; nothing before it was set.
    fn read(&mut self, tick: u64) -> Option<Fine>;

    /// Between what and what the reference's time lies, if this clock says so.
    fn interval(&mut self, tick: u64) -> Option<(Fine, Fine)> {
        let _ = tick;
        None
    }

    /// The same where nothing is assumed but the declared drift, if this clock tells them apart.
    fn certain(&mut self, tick: u64) -> Option<(Fine, Fine)> {
        let _ = tick;
        None
    }

    /// Another clock in the same state; where nothing can be copied, the bench makes one and feeds it the same.
    fn fork(&self) -> Option<Box<dyn Peer>> {
        None
    }

    /// The width of the interval is the one to be judged.
    fn is_locked(&self) -> bool {
        true
    }
}

/// A peer's name, what it was set up with, and how to make one for a trace.
pub struct Contender {
    /// Its name in tables and documents.
    pub name: &'static str,
    /// What it was set up with.
    pub parameters: String,
    /// Only the oracle looks at the trace.
    pub make: fn(&Trace) -> Box<dyn Peer>,
    /// Counts as a peer to be beaten: somebody's product, not a textbook or the limit.
    pub rival: bool,
}
