//! Two kinds of time that must not be mixed: the crystal's and the cluster's.

use core::ops::{Add, AddAssign, Sub};
use serde::{Deserialize, Serialize};

/// A reading of this board's own hardware clock, in its microseconds since it booted.
///
/// It drives every deadline. Nobody adjusts it, and no two boards' readings compare.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub struct Instant(pub u64);

/// A span of hardware time in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub struct Duration(pub u64);

/// A reading of the synchronized clock, in microseconds: what users read and compare.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub struct ClusterTime(pub i64);

/// What the synchronized clock knows: its reference's time is no earlier and no later than this.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Interval {
    /// The reference shows at least this.
    pub earliest: ClusterTime,
    /// What the clock shows.
    pub best: ClusterTime,
    /// The reference shows at most this.
    pub latest: ClusterTime,
}

/// A second more or less in UTC than in cluster time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Leap {
    /// Cluster time (TAI) at which the first second with the new difference would begin without it.
    pub at: ClusterTime,
    /// 1: a second is inserted, −1: one is left out.
    pub by: i8,
}

impl Interval {
    /// From `half_us` before to `half_us` after what the clock shows.
    #[must_use]
    pub fn around(best: ClusterTime, half_us: u64) -> Interval {
        let half = i64::try_from(half_us).unwrap_or(i64::MAX);
        Interval {
            earliest: ClusterTime(best.0.saturating_sub(half)),
            best,
            latest: ClusterTime(best.0.saturating_add(half)),
        }
    }

    /// The farther of its ends, seen from what the clock shows.
    #[must_use]
    pub fn half_us(&self) -> i64 {
        self.best.ahead_of_us(self.earliest).max(self.latest.ahead_of_us(self.best))
    }
}

impl Instant {
    /// How long ago `earlier` was; nothing if it is yet to come.
    #[must_use]
    pub fn since(self, earlier: Instant) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

impl Duration {
    /// No time at all.
    pub const ZERO: Duration = Duration(0);

    /// So many milliseconds.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Duration {
        Duration(millis * 1000)
    }

    /// This span as the slowest or fastest crystal within `drift_ppm` may count it, and one more.
    ///
    /// Both ends of a lease may be off by the drift in opposite directions, hence twice.
    #[must_use]
    pub fn widened(self, drift_ppm: u32) -> Duration {
        Duration(self.0 + self.0 * u64::from(drift_ppm) * 2 / 1_000_000 + 1)
    }

    /// So many times this span.
    #[must_use]
    pub const fn times(self, factor: u64) -> Duration {
        Duration(self.0.saturating_mul(factor))
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;
    fn add(self, span: Duration) -> Instant {
        Instant(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;
    fn sub(self, span: Duration) -> Instant {
        Instant(self.0.saturating_sub(span.0))
    }
}

impl Add for Duration {
    type Output = Duration;
    fn add(self, other: Duration) -> Duration {
        Duration(self.0.saturating_add(other.0))
    }
}

impl ClusterTime {
    /// How far this reading is ahead of `other`, in microseconds.
    #[must_use]
    pub fn ahead_of_us(self, other: ClusterTime) -> i64 {
        self.0.saturating_sub(other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_widened_lease_outlasts_two_crystals_that_disagree() {
        let lease = Duration::from_millis(1000);
        let holder_sees_us = lease.0 as f64 / (1.0 - 100e-6);
        let granter_waits_us = lease.widened(100).0 as f64 / (1.0 + 100e-6);
        assert!(granter_waits_us >= holder_sees_us);
    }
}
