//! True time: when did it happen, on the one clock of the host?
//!
//! A board writes its unbent counter into the shared page, and reads it between two counts that it writes there too.
//! So a host that saw the earlier count at one look and the counter at a later one knows that it was read between
//! the two: `earlier − raw ≤ offset ≤ later − raw`. The emulator's clock is the host's own minus a constant: one
//! offset holds for the whole incarnation, and of all looks the closest on either side decide. Preempted readers and
//! writers only widen their own look. What is left between the sides is how well true time is known: every run
//! measures it.

use std::collections::BTreeMap;

/// The emulator counts in 40 ns and may round either way.
const TICK_NS: i64 = 40;
/// Hardware time and true time are both cut to whole microseconds.
const CUT_US: i64 = 2;

/// The relation of one incarnation's unbent counter to the host's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Anchor {
    /// Between which times of the host the counter stood at zero.
    between_ns: Option<(i64, i64)>,
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
    /// Takes a sample: the counter showed `raw_ns` between these times of the host.
    pub fn observe(&mut self, (earlier_ns, later_ns): (u64, u64), raw_ns: u64) {
        let zero = |host_ns: u64| host_ns as i64 - raw_ns as i64;
        let (low, high) = (zero(earlier_ns) - TICK_NS, zero(later_ns) + TICK_NS);
        let narrowed = |(least, most): (i64, i64)| (least.max(low), most.min(high));
        self.between_ns = Some(self.between_ns.map_or((low, high), narrowed));
        self.samples += 1;
    }

    /// The host's time at which the counter stood at zero, as well as it is known. Nothing if samples contradict each
    /// other: then the counter did not keep the host's rate, as after a pause of more than its 171 s.
    #[must_use]
    pub fn offset_ns(&self) -> Option<i64> {
        self.between_ns.filter(|(low, high)| low <= high).map(|(low, high)| low + (high - low) / 2)
    }

    /// The offset is wrong by at most this.
    #[must_use]
    pub fn wrong_by_ns(&self) -> Option<i64> {
        self.between_ns.filter(|(low, high)| low <= high).map(|(low, high)| (high - low + 1) / 2)
    }

    /// How many samples there were.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// The host's time, in microseconds, at which the board's bent clock showed `hw_us`.
    #[must_use]
    pub fn true_us(&self, reading: &Reading, hw_us: u64) -> Option<i64> {
        Some((self.offset_ns()? + reading.raw_ns_at(hw_us)).div_euclid(1000))
    }
}

/// How far true time may be off between two events of different lives: nothing if it is known of none.
#[must_use]
pub fn tolerance_us<K>(anchors: &BTreeMap<K, Anchor>) -> Option<i64> {
    let mut wrong_by: Vec<i64> = anchors.values().filter_map(Anchor::wrong_by_ns).collect();
    wrong_by.sort_unstable_by(|a, b| b.cmp(a));
    let worst_ns = (!wrong_by.is_empty()).then(|| wrong_by.iter().take(2).sum::<i64>())?;
    Some((worst_ns + 999) / 1000 + CUT_US)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_look_on_either_side_decides_and_slow_ones_do_no_harm() {
        let mut anchor = Anchor::default();
        assert_eq!((anchor.true_us(&Reading::at_boot(0), 5), anchor.wrong_by_ns()), (None, None), "nothing is known");
        for (raw_ms, early_us, late_us) in [(1, 1000, 900), (2, 3, 20_000), (3, 990, 7), (4, 700, 350)] {
            let read_at = 500_000_000 + raw_ms * 1_000_000;
            anchor.observe((read_at - early_us * 1000, read_at + late_us * 1000), raw_ms * 1_000_000);
        }
        assert_eq!(anchor.offset_ns(), Some(500_002_000), "between 3 us before and 7 us after");
        assert_eq!(anchor.wrong_by_ns(), Some(5_000 + TICK_NS));
        assert_eq!(anchor.samples(), 4);
    }

    #[test]
    fn a_counter_that_lost_time_has_no_true_time() {
        let mut anchor = Anchor::default();
        anchor.observe((1_000_000, 1_002_000), 1_000_000);
        assert_eq!(anchor.offset_ns(), Some(1_000));
        anchor.observe((5_000_000, 5_002_000), 1_000_000);
        assert_eq!((anchor.offset_ns(), anchor.wrong_by_ns()), (None, None));
    }

    #[test]
    fn two_lives_compare_as_well_as_the_two_worst_are_known() {
        let within = |half_us: u64| {
            let mut anchor = Anchor::default();
            anchor.observe((0, 2 * half_us * 1000 - 2 * TICK_NS as u64), 0);
            anchor
        };
        assert_eq!(tolerance_us(&BTreeMap::<u8, Anchor>::new()), None);
        assert_eq!(tolerance_us(&BTreeMap::from([(1, Anchor::default())])), None);
        assert_eq!(tolerance_us(&BTreeMap::from([(1, within(7))])), Some(7 + CUT_US));
        assert_eq!(tolerance_us(&BTreeMap::from([(1, within(7)), (2, within(90)), (3, within(5))])), Some(97 + CUT_US));
    }

    #[test]
    fn a_bent_clock_is_bent_back() {
        let mut anchor = Anchor::default();
        anchor.observe((2_000_000_000, 2_000_000_000), 1_000_000_000);
        // 100 ppm fast: in 10 s of true time it counts 10.001 s.
        let reading = Reading { hw_us: 11_001_100, raw_ns: 11_000_000_000, rate_ppb: 100_000 };
        assert_eq!(anchor.true_us(&reading, 11_001_100), Some(12_000_000));
        assert_eq!(anchor.true_us(&reading, 1_000_100), Some(2_000_000), "before the reading");
        assert_eq!(anchor.true_us(&reading, 21_002_100), Some(22_000_000), "and after it");
    }

    #[test]
    fn before_the_first_batch_the_boot_itself_is_the_reading() {
        let mut anchor = Anchor::default();
        anchor.observe((1_000_000, 1_000_000), 0);
        assert_eq!(anchor.true_us(&Reading::at_boot(-50_000), 999_950), Some(1_001_000));
    }
}
