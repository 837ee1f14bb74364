//! Cristian as the textbook has it, on the software clock of `firmware/algorithms`: every answer counts, its round
//! trip is halved, and the clock is set to it (as sntp does) or brought there without running backwards.

use crate::{
    families::{Exchange, Trace},
    peer::{Contender, Fine, Peer},
};
use compasso_algorithms::time::SoftwareClock;
use compasso_wire::{ClusterTime, Instant};

#[derive(Clone)]
struct Cristian {
    clock: SoftwareClock,
    slews: bool,
}

/// The contenders.
pub fn both() -> [Contender; 2] {
    [
        Contender {
            name: "cristian-step",
            parameters: "set to every answer; what sntpc does too".to_owned(),
            make: |_: &Trace| Box::new(Cristian { clock: SoftwareClock::Unset, slews: false }),
            rival: false,
        },
        Contender {
            name: "cristian-slew",
            parameters: "every answer spread over at least 50 ms, by at most half the rate".to_owned(),
            make: |_: &Trace| Box::new(Cristian { clock: SoftwareClock::Unset, slews: true }),
            rival: false,
        },
    ]
}

impl Peer for Cristian {
    fn exchange(&mut self, exchange: &Exchange) {
        let (now, time) = (Instant(exchange.h4), ClusterTime(exchange.middle_half_us() / 2));
        match self.clock.read(now) {
            Some(shown) if self.slews => {
                self.clock.correct(now, time.0 - shown.0);
            }
            Some(_) | None => self.clock.set(now, time),
        }
    }

    fn fork(&self) -> Option<Box<dyn Peer>> {
        Some(Box::new(self.clone()))
    }

    fn read(&mut self, tick: u64) -> Option<Fine> {
        self.clock.read(Instant(tick)).map(|shown| Fine(shown.0 << 16))
    }
}
