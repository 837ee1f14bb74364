//! A crystal that is off by some parts per billion.

const BILLION: i128 = 1_000_000_000;

/// Relates true time to a board's hardware time; the rate may change while it runs.
#[derive(Clone, Copy, Debug)]
pub struct Crystal {
    base_true_ns: u64,
    base_hw_ns: u64,
    rate_ppb: i32,
}

impl Crystal {
    /// A crystal that starts to count at `true_ns`.
    #[must_use]
    pub fn new(true_ns: u64, rate_ppb: i32) -> Crystal {
        Crystal { base_true_ns: true_ns, base_hw_ns: 0, rate_ppb }
    }

    /// Hardware microseconds at a true instant.
    #[must_use]
    pub fn read_us(&self, true_ns: u64) -> u64 {
        self.read_ns(true_ns) / 1000
    }

    /// The first true instant at which the hardware shows `hw_us`.
    #[must_use]
    pub fn true_ns_at(&self, hw_us: u64) -> u64 {
        let ahead = i128::from(hw_us) * 1000 - i128::from(self.base_hw_ns);
        if ahead <= 0 {
            return self.base_true_ns;
        }
        let rate = BILLION + i128::from(self.rate_ppb);
        let span = (ahead * BILLION + rate - 1) / rate;
        self.base_true_ns.saturating_add(u64::try_from(span).unwrap_or(u64::MAX))
    }

    /// Bends the crystal from now on, without a jump.
    pub fn set_rate(&mut self, true_ns: u64, rate_ppb: i32) {
        *self = Crystal { base_true_ns: true_ns, base_hw_ns: self.read_ns(true_ns), rate_ppb };
    }

    fn read_ns(&self, true_ns: u64) -> u64 {
        let span = i128::from(true_ns.saturating_sub(self.base_true_ns));
        let counted = span * (BILLION + i128::from(self.rate_ppb)) / BILLION;
        self.base_hw_ns + u64::try_from(counted).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fast_crystal_gains_as_many_microseconds_as_it_is_off() {
        let crystal = Crystal::new(5_000, 40_000);
        assert_eq!(crystal.read_us(5_000 + 10_000_000_000), 10_000_400);
    }

    #[test]
    fn a_deadline_is_reached_at_the_first_instant_that_shows_it_also_after_bending() {
        for rate in [-60_000, 0, 60_000] {
            let mut crystal = Crystal::new(123, rate);
            crystal.set_rate(77_000_123, -rate);
            for hw_us in [100_000, 1_234_567, 999_999_999] {
                let at = crystal.true_ns_at(hw_us);
                assert_eq!(crystal.read_us(at), hw_us);
                assert!(crystal.read_us(at - 1) < hw_us);
            }
        }
    }
}
