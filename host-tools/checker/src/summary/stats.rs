//! Medians and percentiles.

use serde::Serialize;

/// Median, 99th percentile and largest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Stats {
    /// The middle one.
    pub median: i64,
    /// All but one in a hundred are at most this.
    pub p99: i64,
    /// The largest.
    pub max: i64,
}

/// Median and largest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct MedianMax {
    /// The middle one.
    pub median: i64,
    /// The largest.
    pub max: i64,
}

/// Median and 99th percentile.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct RoundTrip {
    /// The middle one.
    pub median: i64,
    /// All but one in a hundred are at most this.
    pub p99: i64,
}

impl Stats {
    /// Of these samples; nothing if there are none.
    #[must_use]
    pub fn of(mut samples: Vec<i64>) -> Option<Stats> {
        samples.sort_unstable();
        Some(Stats { median: rank(&samples, 50)?, p99: rank(&samples, 99)?, max: *samples.last()? })
    }
}

impl MedianMax {
    /// Of these samples; nothing if there are none.
    #[must_use]
    pub fn of(samples: Vec<i64>) -> Option<MedianMax> {
        Stats::of(samples).map(|stats| MedianMax { median: stats.median, max: stats.max })
    }
}

impl RoundTrip {
    /// Of these samples; nothing if there are none.
    #[must_use]
    pub fn of(samples: Vec<i64>) -> Option<RoundTrip> {
        Stats::of(samples).map(|stats| RoundTrip { median: stats.median, p99: stats.p99 })
    }
}

/// The smallest sample that at least `percent` of all samples do not exceed.
fn rank(sorted: &[i64], percent: usize) -> Option<i64> {
    let at = (sorted.len() * percent).div_ceil(100).max(1) - 1;
    sorted.get(at).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_samples() {
        let stats = Stats::of((1..=200).collect()).expect("samples");
        assert_eq!((stats.median, stats.p99, stats.max), (100, 198, 200));
        assert_eq!(Stats::of(vec![7]), Some(Stats { median: 7, p99: 7, max: 7 }));
        assert_eq!(Stats::of(Vec::new()), None);
    }
}
