//! The disciplined clock of `firmware/algorithms`, as it runs on the boards.

use crate::{
    families::{Exchange, Trace},
    peer::{Contender, Fine, Peer},
};
use compasso_algorithms::time::disciplined::{self, DRIFT_DEFAULT_PPM, Disciplined};
use compasso_wire::{ClusterTime, Instant, Interval};

#[derive(Clone)]
struct Ours(Disciplined);

/// The contender.
pub fn ours() -> Contender {
    Contender {
        name: "ours",
        parameters: format!("declared drift {DRIFT_DEFAULT_PPM} ppm"),
        make: |_: &Trace| Box::new(Ours(Disciplined::new(DRIFT_DEFAULT_PPM))),
        rival: false,
    }
}

fn ends(interval: Interval) -> (Fine, Fine) {
    (Fine(interval.earliest.0 << 16), Fine(interval.latest.0 << 16))
}

impl Peer for Ours {
    fn exchange(&mut self, exchange: &Exchange) {
        self.0.exchange(&disciplined::Exchange {
            asked: Instant(exchange.h1),
            received: ClusterTime(exchange.t2),
            answered: ClusterTime(exchange.t3),
            arrived: Instant(exchange.h4),
            error_us: 0,
            certain_us: 0,
            leaves_us: 0,
        });
    }

    fn fork(&self) -> Option<Box<dyn Peer>> {
        Some(Box::new(self.clone()))
    }

    fn read(&mut self, tick: u64) -> Option<Fine> {
        self.0.read_fine(Instant(tick)).map(|fine| Fine(fine as i64))
    }

    fn interval(&mut self, tick: u64) -> Option<(Fine, Fine)> {
        self.0.interval(Instant(tick)).map(ends)
    }

    fn certain(&mut self, tick: u64) -> Option<(Fine, Fine)> {
        self.0.certain(Instant(tick)).map(ends)
    }

    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}
