//! Several sources of time, of which some lie: what most of them agree on (Marzullo).
//! Promise: as long as more than half of the intervals hold the true time, so does the result, wherever
//! the others are; and it reaches no farther than those that tell the truth.
//! Assumes that all intervals are of the same moment.
//!
//! Each end of an interval is a place where the number of sources that agree changes. The result reaches
//! from the first place where more than half agree to the last one: narrower, one liar could choose among
//! truths.

use compasso_wire::{ClusterTime, Interval};

/// From the lowest to the highest time at which more than half of the intervals agree, and its middle as
/// the best; nothing if they never do.
#[must_use]
pub fn agreed(intervals: &[Interval]) -> Option<Interval> {
    let agrees = |time: ClusterTime| {
        let holding = intervals.iter().filter(|i| i.earliest <= time && time <= i.latest).count();
        holding * 2 > intervals.len()
    };
    // Agreement begins at some interval's beginning and ends at some interval's end.
    let earliest = intervals.iter().map(|i| i.earliest).filter(|time| agrees(*time)).min()?;
    let latest = intervals.iter().map(|i| i.latest).filter(|time| agrees(*time)).max()?;
    let middle = earliest.0.wrapping_add((latest.0.abs_diff(earliest.0) / 2) as i64);
    Some(Interval { earliest, best: ClusterTime(middle), latest })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between(earliest: i64, latest: i64) -> Interval {
        let best = ClusterTime(earliest.midpoint(latest));
        Interval { earliest: ClusterTime(earliest), best, latest: ClusterTime(latest) }
    }

    #[test]
    fn two_that_agree_outvote_one_that_lies_wherever_it_is() {
        let (a, b) = (between(100, 140), between(110, 160));
        for liar in [between(0, 50), between(1000, 1001), between(i64::MIN, i64::MIN), between(i64::MAX, i64::MAX)] {
            assert_eq!(agreed(&[a, liar, b]), Some(between(110, 140)));
        }
    }

    #[test]
    fn a_liar_that_overlaps_cannot_push_the_truth_out() {
        let truth = 125;
        let honest = [between(100, 140), between(110, 160)];
        for start in 0..200 {
            for width in [0, 1, 10, 30, 60, 200] {
                let agreed = agreed(&[honest[0], honest[1], between(start, start + width)]).unwrap();
                assert!(agreed.earliest.0 <= truth && truth <= agreed.latest.0, "{start}+{width}: {agreed:?}");
                assert!(agreed.earliest.0 >= 100 && agreed.latest.0 <= 160, "farther than the honest ones");
                assert!((agreed.best.0 - truth).abs() <= 30);
            }
        }
    }

    #[test]
    fn without_a_majority_there_is_no_time() {
        assert_eq!(agreed(&[]), None);
        assert_eq!(agreed(&[between(0, 10), between(20, 30)]), None);
        assert_eq!(agreed(&[between(0, 10), between(20, 30), between(40, 50)]), None);
        assert_eq!(agreed(&[between(5, 9)]), Some(between(5, 9)));
    }

    #[test]
    fn intervals_that_touch_agree_where_they_touch() {
        assert_eq!(agreed(&[between(0, 10), between(10, 20)]), Some(between(10, 10)));
    }
}
