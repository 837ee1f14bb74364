//! UTC: told once a second, where cluster time is the host's.

use crate::node::Node;
use compasso_algorithms::time::utc::SECOND_US;
use compasso_wire::{ClusterTime, Event, Instant, Leap, config::TimeSource};

impl Node {
    /// A leap second was announced.
    pub(crate) fn handle_leap(&mut self, leap: Leap) {
        self.time.leaps.announce(leap);
    }

    /// Whoever serves the host's time also passes on what the host announced.
    pub(crate) fn learn_leap(&mut self, leap: Option<Leap>) {
        if let (TimeSource::Host, Some(leap)) = (self.config.time_source, leap) {
            self.time.leaps.announce(leap);
        }
    }

    /// When the clock shows the next whole second.
    pub(crate) fn next_utc_at(&self) -> Option<Instant> {
        let second = self.time.next_second?;
        self.clock.when(ClusterTime(second.saturating_mul(SECOND_US)))
    }

    /// Tells the second that has begun.
    pub(crate) fn tell_utc(&mut self, now: Instant) {
        let Some(shown) = self.clock.read(now).filter(|_| self.config.time_source == TimeSource::Host) else { return };
        let second = shown.0.div_euclid(SECOND_US);
        let due = *self.time.next_second.get_or_insert(second + 1);
        if second < due {
            return;
        }
        self.time.next_second = Some(second + 1);
        let utc = self.time.leaps.utc(shown);
        // Whoever learns of a leap second too late waits until UTC has caught up with what it said.
        if self.time.told.is_none_or(|told| told < utc) {
            self.time.told = Some(utc);
            self.record(now, Event::Utc { seconds: utc.seconds, leap: utc.is_leap });
        }
    }
}
