//! The application that comes with the node: requests at random intervals.

use compasso_wire::{Duration, Instant, config::Workload};

/// Requests by itself: each pause is between half and one and a half times the mean.
#[derive(Clone, Copy, Debug)]
pub struct Requests {
    workload: Option<Workload>,
    request_at: Option<Instant>,
    random: u32,
    /// The resource that was requested last.
    pub(crate) chosen: usize,
}

impl Requests {
    /// The workload of a node that boots now.
    #[must_use]
    pub fn new(workload: Option<Workload>, seed: u32, now: Instant) -> Requests {
        // An xorshift generator must not start at zero.
        let mut requests = Requests { workload, request_at: None, random: seed | 1, chosen: 0 };
        requests.rest(now);
        requests
    }

    /// How long to stay inside, if it is time to request.
    pub fn poll(&mut self, now: Instant) -> Option<Duration> {
        let due = self.request_at.is_some_and(|at| now >= at);
        if due {
            self.request_at = None;
        }
        self.workload.filter(|_| due).map(|workload| workload.hold)
    }

    /// The last request was served: pause, then make the next.
    pub fn rest(&mut self, now: Instant) {
        self.request_at = self.workload.map(|workload| {
            self.random ^= self.random << 13;
            self.random ^= self.random >> 17;
            self.random ^= self.random << 5;
            let share = u64::from(self.random % 1024);
            now + Duration(workload.every.0 / 2 + workload.every.0 * share / 1024)
        });
    }

    /// Makes no further requests.
    pub fn stop(&mut self) {
        self.workload = None;
        self.request_at = None;
    }

    /// When the next request is made.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.request_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_stay_around_the_mean_and_stop_when_told() {
        let every = Duration(1000);
        let workload = Workload { every, hold: Duration(7) };
        let mut requests = Requests::new(Some(workload), 3, Instant(0));
        for _ in 0..100 {
            let at = requests.poll_timeout().unwrap();
            assert_eq!(requests.poll(at - Duration(1)), None);
            assert_eq!(requests.poll(at), Some(Duration(7)));
            requests.rest(at);
            let pause = requests.poll_timeout().unwrap().since(at);
            assert!(pause >= Duration(500) && pause < Duration(1500));
        }
        requests.stop();
        assert_eq!(requests.poll_timeout(), None);
    }
}
