//! True time: when did it happen, on the one clock of the host?
//!
//! A board writes its unbent counter into the shared page; the host reads it some time later.
//! So every sample says `host − raw ≥ offset`, and the smallest one seen is the best: preempted
//! readers and writers only push samples up, never down. The counter of an emulated board runs
//! at the host's rate, so one offset holds for the whole incarnation.

/// The relation of one incarnation's unbent counter to the host's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Anchor {
    offset_ns: Option<i64>,
    samples: u64,
}

/// A moment at which a board's bent and unbent clocks were both read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reading {
    /// Bent hardware time in microseconds.
    pub hw_us: u64,
    /// The unbent counter in nanoseconds.
    pub raw_ns: u64,
    /// How far the crystal is bent, in parts per billion.
    pub rate_ppb: i32,
}

impl Reading {
    /// The moment of boot, when both clocks stood at zero.
    #[must_use]
    pub fn at_boot(rate_ppb: i32) -> Reading {
        Reading { hw_us: 0, raw_ns: 0, rate_ppb }
    }

    /// The unbent counter when the bent clock showed `hw_us`, in nanoseconds.
    #[must_use]
    pub fn raw_ns_at(&self, hw_us: u64) -> i64 {
        let elapsed_ns = (i128::from(hw_us) - i128::from(self.hw_us)) * 1000;
        let unbent = elapsed_ns * 1_000_000_000 / (1_000_000_000 + i128::from(self.rate_ppb));
        (i128::from(self.raw_ns) + unbent) as i64
    }
}

impl Anchor {
    /// Takes a sample: the counter showed `raw_ns` at or before the host's `host_ns`.
    pub fn observe(&mut self, host_ns: u64, raw_ns: u64) {
        let offset = host_ns as i64 - raw_ns as i64;
        self.offset_ns = Some(self.offset_ns.map_or(offset, |best| best.min(offset)));
        self.samples += 1;
    }

    /// The host's time at which the counter stood at zero, as well as it is known.
    #[must_use]
    pub fn offset_ns(&self) -> Option<i64> {
        self.offset_ns
    }

    /// How many samples there were.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// The host's time, in microseconds, at which the board's bent clock showed `hw_us`.
    #[must_use]
    pub fn true_us(&self, reading: &Reading, hw_us: u64) -> Option<i64> {
        Some((self.offset_ns? + reading.raw_ns_at(hw_us)).div_euclid(1000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_promptest_sample_decides_and_late_ones_do_no_harm() {
        let mut anchor = Anchor::default();
        assert_eq!(anchor.true_us(&Reading::at_boot(0), 5), None, "nothing is known yet");
        for (raw_ms, late_us) in [(1, 900), (2, 20_000), (3, 7), (4, 350)] {
            anchor.observe(500_000_000 + raw_ms * 1_000_000 + late_us * 1000, raw_ms * 1_000_000);
        }
        assert_eq!(anchor.offset_ns(), Some(500_007_000));
        assert_eq!(anchor.samples(), 4);
    }

    #[test]
    fn a_bent_clock_is_bent_back() {
        let mut anchor = Anchor::default();
        anchor.observe(2_000_000_000, 1_000_000_000);
        // 100 ppm fast: in 10 s of true time it counts 10.001 s.
        let reading = Reading { hw_us: 11_001_100, raw_ns: 11_000_000_000, rate_ppb: 100_000 };
        assert_eq!(anchor.true_us(&reading, 11_001_100), Some(12_000_000));
        assert_eq!(anchor.true_us(&reading, 1_000_100), Some(2_000_000), "before the reading");
        assert_eq!(anchor.true_us(&reading, 21_002_100), Some(22_000_000), "and after it");
    }

    #[test]
    fn before_the_first_batch_the_boot_itself_is_the_reading() {
        let mut anchor = Anchor::default();
        anchor.observe(1_000_000, 0);
        assert_eq!(anchor.true_us(&Reading::at_boot(-50_000), 999_950), Some(1_001_000));
    }
}
