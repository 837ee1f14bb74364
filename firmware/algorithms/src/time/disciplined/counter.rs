//! A hardware counter of 32 bits wraps around after 71 minutes: this one does not.
//! Promise: hardware times in the order in which the counter was read.
//! Assumes that it is read at least once in half a round, 35 minutes.

use compasso_wire::Instant;

/// The counter's rounds so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counter32 {
    latest: u64,
}

impl Counter32 {
    /// The hardware time of a reading. One slightly older than the latest, as of a datagram that waited,
    /// is told from one a round later by being nearer.
    pub fn extend(&mut self, raw: u32) -> Instant {
        let ahead = raw.wrapping_sub(self.latest as u32) as i32;
        let time = self.latest.wrapping_add_signed(i64::from(ahead));
        if ahead > 0 {
            self.latest = time;
        }
        Instant(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_time_goes_on_where_the_counter_begins_again() {
        let mut counter = Counter32::default();
        let mut last = None;
        for step in 0..20_000u64 {
            let time = step * 1_000_000_007 / 1000;
            let extended = counter.extend(time as u32);
            assert_eq!(extended, Instant(time));
            assert!(last < Some(extended) || step == 0);
            last = Some(extended);
        }
        assert!(last > Some(Instant(4 << 32)), "four rounds");
    }

    #[test]
    fn an_older_stamp_keeps_its_place_across_the_end() {
        let mut counter = Counter32::default();
        for raw in [1 << 30, 1 << 31, 3 << 30, u32::MAX - 5] {
            counter.extend(raw);
        }
        assert_eq!(counter.extend(10), Instant((1 << 32) + 10));
        assert_eq!(counter.extend(u32::MAX - 2), Instant((1 << 32) - 3), "it was stamped before the end");
        assert_eq!(counter.extend(11), Instant((1 << 32) + 11));
    }
}
