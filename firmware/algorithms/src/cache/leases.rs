//! Leases: a copy may be read until a time, and a writer waits for that time instead of asking.
//!
//! Safety: nobody reads an old copy after the writer has gone on. The reader stops while its clock's
//! interval is still wholly before the end of the lease, the writer goes on when its own is wholly past
//! it. Both intervals hold the same clock's time, so between the two lies at least nothing, however wide
//! they are: the uncertainty costs waiting, not safety.
//! Assumes that intervals hold what they promise: a crystal that is farther off than declared breaks it.

use compasso_wire::{ClusterTime, Duration, Interval, limits::MEMBERS_MAX};
use heapless::Vec;

/// The end of a lease that was never given.
const NEVER: ClusterTime = ClusterTime(i64::MIN);

/// A reader's copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Held {
    /// Its version.
    pub version: u64,
    /// What it says.
    pub value: u64,
    /// Until when it may be read.
    pub until: ClusterTime,
}

impl Held {
    /// Whether it may be read: for certain the end has not come yet.
    #[must_use]
    pub fn is_valid(&self, clock: Interval) -> bool {
        clock.latest < self.until
    }
}

/// Which reader may read its copy until when, as the server knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Leases {
    until: Vec<ClusterTime, MEMBERS_MAX>,
}

impl Leases {
    /// Nobody of `count` has a copy.
    #[must_use]
    pub fn new(count: usize) -> Leases {
        Leases { until: (0..count.min(MEMBERS_MAX)).map(|_| NEVER).collect() }
    }

    /// Gives a lease from now on: its end.
    pub fn grant(&mut self, position: usize, clock: Interval, lease: Duration) -> ClusterTime {
        let span = i64::try_from(lease.0).unwrap_or(i64::MAX);
        let end = ClusterTime(clock.best.0.saturating_add(span));
        match self.until.get_mut(position) {
            Some(until) => {
                *until = (*until).max(end);
                *until
            }
            None => NEVER,
        }
    }

    /// The reader has given its copy up.
    pub fn give_up(&mut self, position: usize) {
        if let Some(until) = self.until.get_mut(position) {
            *until = NEVER;
        }
    }

    /// Who may still read a copy, as far as is known.
    pub fn holders(&self, clock: Interval) -> impl Iterator<Item = usize> + '_ {
        let alive = move |(_, until): &(usize, &ClusterTime)| clock.earliest < **until;
        self.until.iter().enumerate().filter(alive).map(|(position, _)| position)
    }

    /// The latest end of all.
    #[must_use]
    pub fn last(&self) -> Option<ClusterTime> {
        self.until.iter().copied().max().filter(|until| *until != NEVER)
    }

    /// The latest end that may not have come yet; nothing if a writer may go on.
    #[must_use]
    pub fn outstanding(&self, clock: Interval) -> Option<ClusterTime> {
        self.last().filter(|until| clock.earliest < *until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(reference: i64, offset: i64, half: u64) -> Interval {
        assert!(offset.unsigned_abs() <= half, "an interval that holds the reference");
        Interval::around(ClusterTime(reference + offset), half)
    }

    #[test]
    fn no_reader_reads_once_the_writer_may_go_on_whatever_the_clocks_show_within_their_bounds() {
        for half in [0, 1, 7, 40] {
            for (granted_at, read_at, written_at) in [-1, 0, 1].map(|edge| edge * half as i64).iter().flat_map(|a| {
                [-1, 0, 1].iter().flat_map(move |b| [-1, 1].map(|c| (*a, b * half as i64, c * half as i64)))
            }) {
                let mut leases = Leases::new(2);
                let until = leases.grant(1, clock(1000, granted_at, half), Duration(100));
                let held = Held { version: 1, value: 1, until };
                for now in 900..1300 {
                    let reads = held.is_valid(clock(now, read_at, half));
                    let goes_on = leases.outstanding(clock(now, written_at, half)).is_none();
                    assert!(!(reads && goes_on), "at {now} with {half}");
                }
                assert!(held.is_valid(clock(1000, read_at, half)) || half >= 40, "a lease is good for something");
                assert_eq!(leases.outstanding(clock(1300, written_at, half)), None, "the wait ends");
            }
        }
    }

    #[test]
    fn with_intervals_that_do_not_hold_the_reference_an_old_copy_is_read() {
        let mut leases = Leases::new(1);
        let until = leases.grant(0, clock(1000, 0, 0), Duration(100));
        let slow = Interval::around(ClusterTime(1110 - 20), 0);
        assert!(Held { version: 1, value: 1, until }.is_valid(slow) && leases.outstanding(clock(1110, 0, 0)).is_none());
    }

    #[test]
    fn who_gives_up_is_not_waited_for_and_a_renewal_counts_from_the_last() {
        let mut leases = Leases::new(3);
        let at = |now| clock(now, 0, 0);
        leases.grant(0, at(0), Duration(100));
        leases.grant(2, at(0), Duration(100));
        assert_eq!(leases.grant(2, at(50), Duration(100)), ClusterTime(150));
        assert_eq!(leases.holders(at(99)).collect::<std::vec::Vec<_>>(), [0, 2]);
        leases.give_up(2);
        assert_eq!(leases.outstanding(at(60)), Some(ClusterTime(100)));
        assert_eq!(leases.outstanding(at(100)), None);
        assert_eq!(leases.grant(9, at(0), Duration(100)), NEVER, "a stranger");
    }
}
