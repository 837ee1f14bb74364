//! A window of sequence numbers: each is taken once, also when datagrams overtake each other.

/// How far behind the newest a datagram may lag and still be told apart from a repeat.
pub const REPLAY_WINDOW: u32 = 64;

/// The window for one sender's one incarnation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplayWindow {
    newest: u32,
    /// Bit `i` set: `newest - i` was seen.
    seen: u64,
}

impl ReplayWindow {
    /// A window in which `newest` and everything before it counts as seen.
    #[must_use]
    pub fn starting_after(newest: u32) -> ReplayWindow {
        ReplayWindow { newest, seen: u64::MAX }
    }

    /// Takes `sequence` if it is new. A repeat, or one too old to tell, is refused.
    #[must_use]
    pub fn take(&mut self, sequence: u32) -> bool {
        if sequence > self.newest {
            let ahead = sequence - self.newest;
            self.seen = if ahead >= REPLAY_WINDOW { 1 } else { self.seen << ahead | 1 };
            self.newest = sequence;
            return true;
        }
        let behind = self.newest - sequence;
        if behind >= REPLAY_WINDOW || self.seen >> behind & 1 == 1 {
            return false;
        }
        self.seen |= 1 << behind;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_taken_once_in_any_order() {
        let mut window = ReplayWindow::starting_after(9);
        for sequence in [10, 13, 11, 12] {
            assert!(window.take(sequence));
            assert!(!window.take(sequence));
        }
        assert!(!window.take(9), "before the start");
        assert!(window.take(1000));
        assert!(!window.take(1000 - REPLAY_WINDOW), "too old to tell");
        assert!(window.take(1000 - REPLAY_WINDOW + 1));
        assert!(window.take(u32::MAX));
        assert!(!window.take(u32::MAX));
    }
}
