//! A board's crystal: its cycles against true time, exactly, also when its rate is changed.

use crate::bus::CYCLES_PER_US;

const BILLION: i128 = 1_000_000_000;

/// The relation of one life's cycles to true time.
#[derive(Clone, Debug)]
pub struct Crystal {
    /// From when on it ran at which rate; never empty.
    spans: Vec<Span>,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    true_ns: u64,
    cycles: u64,
    ppb: i32,
}

impl Crystal {
    /// A board is switched on; its crystal is off by so many parts per billion.
    #[must_use]
    pub fn new(true_ns: u64, ppb: i32) -> Crystal {
        Crystal { spans: vec![Span { true_ns, cycles: 0, ppb }] }
    }

    /// From this cycle on it runs at another rate.
    pub fn bend(&mut self, cycles: u64, ppb: i32) {
        let true_ns = self.true_ns(cycles);
        self.spans.push(Span { true_ns, cycles, ppb });
    }

    /// How far it is off.
    #[must_use]
    pub fn ppb(&self) -> i32 {
        self.last().ppb
    }

    /// The first cycle that begins at or after a true time not before the last change of rate.
    #[must_use]
    pub fn cycles(&self, true_ns: u64) -> u64 {
        let span = self.last();
        let elapsed = i128::from(true_ns.saturating_sub(span.true_ns));
        let numerator = elapsed * (BILLION + i128::from(span.ppb)) * i128::from(CYCLES_PER_US);
        span.cycles + div_ceil(numerator, BILLION * 1000) as u64
    }

    /// The true time at which a cycle begins, rounded down to nanoseconds.
    #[must_use]
    pub fn true_ns(&self, cycles: u64) -> u64 {
        let index = self.spans.partition_point(|span| span.cycles <= cycles).saturating_sub(1);
        let span = self.spans[index];
        let elapsed = i128::from(cycles) - i128::from(span.cycles);
        let ns = elapsed * BILLION * 1000 / (i128::from(CYCLES_PER_US) * (BILLION + i128::from(span.ppb)));
        span.true_ns + ns as u64
    }

    fn last(&self) -> Span {
        self.spans[self.spans.len() - 1]
    }
}

fn div_ceil(a: i128, b: i128) -> i128 {
    (a + b - 1) / b
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crystal_is_off_by_exactly_its_rate() {
        let hour_ns = 3_600_000_000_000;
        for (ppb, extra) in [(0, 0), (30_000, 13_500_000), (-30_000, -13_500_000i64)] {
            let crystal = Crystal::new(500, ppb);
            let expected = (450_000_000_000i64 + extra) as u64;
            assert_eq!(crystal.cycles(500 + hour_ns), expected);
            assert!(crystal.true_ns(expected).abs_diff(500 + hour_ns) <= 8);
        }
    }

    #[test]
    fn a_change_of_rate_bends_time_without_breaking_it() {
        let mut crystal = Crystal::new(0, 40_000);
        let mut last = 0;
        for (step, ppb) in [-60_000, 0, 25_000, 100_000].into_iter().enumerate() {
            let cycles = 1_000_000_007 * (step as u64 + 1);
            let before = crystal.true_ns(cycles);
            crystal.bend(cycles, ppb);
            assert_eq!(crystal.true_ns(cycles), before);
            assert!(before > last && crystal.cycles(before).abs_diff(cycles) <= 1);
            last = before;
        }
        assert_eq!(crystal.true_ns(125), 999, "the first span stays as it was: 1 µs of a fast crystal");
    }
}
