//! When a node that does something by itself does it next.

use compasso_wire::{Duration, Instant};

/// Moments at random intervals: each pause is between half and one and a half times the mean.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    every: Option<Duration>,
    next_at: Option<Instant>,
    random: u32,
}

impl Pace {
    /// The first pause begins now; without a mean there are no moments.
    #[must_use]
    pub fn new(every: Option<Duration>, seed: u32, now: Instant) -> Pace {
        // An xorshift generator must not start at zero.
        let mut pace = Pace { every, next_at: None, random: seed | 1 };
        pace.rest(now);
        pace
    }

    /// Whether a moment has come; then the next pause begins.
    pub fn is_due(&mut self, now: Instant) -> bool {
        let due = self.next_at.is_some_and(|at| now >= at);
        if due {
            self.rest(now);
        }
        due
    }

    /// No further moments.
    pub fn stop(&mut self) {
        (self.every, self.next_at) = (None, None);
    }

    /// When the next moment is.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.next_at
    }

    fn rest(&mut self, now: Instant) {
        self.next_at = self.every.map(|every| {
            self.random ^= self.random << 13;
            self.random ^= self.random >> 17;
            self.random ^= self.random << 5;
            now + Duration(every.0 / 2 + every.0 * u64::from(self.random % 1024) / 1024)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_stay_around_the_mean_and_stop_when_told() {
        let mut pace = Pace::new(Some(Duration(1000)), 3, Instant(0));
        let mut before = Instant(0);
        for _ in 0..100 {
            let at = pace.poll_timeout().unwrap();
            assert!((500..1500).contains(&at.since(before).0));
            assert!(!pace.is_due(at - Duration(1)) && pace.is_due(at));
            before = at;
        }
        pace.stop();
        assert!(pace.poll_timeout().is_none() && !pace.is_due(Instant(u64::MAX)));
    }
}
