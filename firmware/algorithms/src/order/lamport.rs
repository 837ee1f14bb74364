//! Lamport's logical clock.
//! Promise: if `a` happened before `b`, then `C(a) < C(b)`; not the converse.
//! Assumes nothing of the network.

/// One node's counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LamportClock(u64);

impl LamportClock {
    /// Before each event: `C += 1`. Returns the event's stamp.
    pub fn tick(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }

    /// On receipt: `C = max(C, C_msg)`; the receive event's own [`Self::tick`] follows.
    pub fn merge(&mut self, message: u64) {
        self.0 = self.0.max(message);
    }

    /// The stamp of the last event.
    #[must_use]
    pub fn read(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receive_is_stamped_later_than_its_send_and_than_all_before_it() {
        let (mut a, mut b) = (LamportClock::default(), LamportClock::default());
        let sent = (0..5).map(|_| a.tick()).last().unwrap();
        b.tick();
        b.merge(sent);
        assert_eq!(b.tick(), 6);
        b.merge(2);
        assert_eq!(b.tick(), 7, "an old message does not turn the clock back");
    }
}
