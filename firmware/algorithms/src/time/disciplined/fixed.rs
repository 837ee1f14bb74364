//! Fixed point: products that keep 128 bits in between, seconds from microseconds, and the tail of the
//! bell curve from a table.
//! Every quantity says its scale: `q24` counts in 1/2²⁴.

/// `a · b / 2^SHIFT`, rounded to the nearest; what does not fit is cut off at the ends of `i64`.
///
/// By hand, since the processor multiplies 32 bits and most factors have no upper half: a third of what
/// `i128` costs. `SHIFT` is known beforehand for the same reason.
#[inline(never)]
pub(super) fn mul<const SHIFT: u32>(a: i64, b: i64) -> i64 {
    scaled(a, b, SHIFT)
}

/// [`mul`] by a power of two that is not known beforehand, from 2 to 2⁶³.
#[inline(always)]
pub(super) fn scaled(a: i64, b: i64, shift: u32) -> i64 {
    let (x, y) = (a.unsigned_abs(), b.unsigned_abs());
    let (x_high, x_low, y_high, y_low) = ((x >> 32) as u32, x as u32, (y >> 32) as u32, y as u32);
    let lowest = wide(x_low, y_low);
    // At most 2⁶⁴ − 2: a high half is at most 2³¹.
    let mut middle = lowest >> 32;
    let mut high = 0;
    if x_high != 0 {
        middle += wide(x_high, y_low);
    }
    if y_high != 0 {
        middle += wide(x_low, y_high);
        high = wide(x_high, y_high);
    }
    high += middle >> 32;
    // From here on in words, each moved by less than its width: moving a pair of them is a call.
    let (first, second, third, fourth) = (lowest as u32, middle as u32, high as u32, (high >> 32) as u32);
    let by = (shift - 1) & 31;
    let (low, between, upper, beyond) =
        if shift > 32 { (second, third, fourth, 0) } else { (first, second, third, fourth) };
    let join = |low: u32, upper: u32| (low >> by) | ((upper << 1) << (31 - by));
    let twice = (u64::from(join(between, upper)) << 32) | u64::from(join(low, between));
    let magnitude = if upper >> by != 0 || beyond != 0 || twice == u64::MAX {
        i64::MAX // Also where it would have been the one more that a negative number may have.
    } else {
        ((twice + 1) >> 1) as i64
    };
    if (a < 0) == (b < 0) { magnitude } else { -magnitude }
}

/// The whole product, from quarters.
#[inline(never)]
fn wide(a: u32, b: u32) -> u64 {
    let (a_high, a_low, b_high, b_low) = (a >> 16, a & 0xffff, b >> 16, b & 0xffff);
    let lowest = a_low * b_low;
    let middle = a_high * b_low + (lowest >> 16);
    let other = a_low * b_high + (middle & 0xffff);
    let high = a_high * b_high + (middle >> 16) + (other >> 16);
    (u64::from(high) << 32) | u64::from((other << 16) | (lowest & 0xffff))
}

/// The upper half of a product: of `a / 2^i` and `b / 2^j`, `2^(i + j − 32)` times.
fn high(a: u32, b: u32) -> u32 {
    (wide(a, b) >> 32) as u32
}

/// The root of a number, and one by both, without a division: the processor has none, and these are what the models
/// divide by. Exact to a millionth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Root {
    /// `√value`, rounded down or one below.
    pub root: i64,
    /// By how much the value was moved to the left to fill 64 bits but for one at most: even.
    shift: u32,
    /// `1/√x`, q30, where `x` is the value moved, as a share of 2⁶⁴: from a quarter to 1.
    inverse_root_q30: u32,
}

impl Root {
    /// Of a number above 0.
    pub(super) fn of(value: i64) -> Root {
        let shift = value.leading_zeros() & !1;
        let share_q32 = ((value as u64) << shift >> 32) as u32;
        let guess = INVERSE_ROOTS.get((share_q32 >> 26) as usize - 16).copied().unwrap_or(u8::MAX);
        // Newton: y(3 − xy²)/2. The guess is good to 2⁻⁶, each round doubles that.
        let mut y_q30 = u32::from(guess) << 23;
        for _ in 0..2 {
            let square_q28 = high(y_q30, y_q30);
            let off_q28 = (3 << 28) - high(share_q32, square_q28);
            y_q30 = (wide(y_q30, off_q28) >> 29) as u32;
        }
        let root_q30 = u64::from(high(share_q32, y_q30));
        let root = (root_q30 << 2) >> (shift / 2);
        Root { root: root as i64, shift, inverse_root_q30: y_q30 }
    }

    /// `a / √value`.
    pub(super) fn divide(&self, a: i64) -> i64 {
        scaled(a, i64::from(self.inverse_root_q30), 62 - self.shift / 2)
    }

    /// One by the value, as a factor for [`Root::share_q30`].
    pub(super) fn inverse(&self) -> Inverse {
        let mantissa = (wide(self.inverse_root_q30, self.inverse_root_q30) >> 31) as u32;
        Inverse { mantissa, shift: 63 - self.shift }
    }
}

/// One by a number: a mantissa, and how far a product with it is to be moved for 30 fractional bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Inverse {
    mantissa: u32,
    shift: u32,
}

impl Inverse {
    /// `a / value`, q30.
    pub(super) fn times_q30(&self, a: i64) -> i64 {
        scaled(a, i64::from(self.mantissa), self.shift)
    }
}

/// `1/√x`, q7, in the middle of each 64th of `x` from a quarter on.
#[rustfmt::skip]
const INVERSE_ROOTS: [u8; 48] = [
    252, 245, 238, 232, 226, 221, 216, 211, 207, 203, 199, 195, 192, 189, 185, 182, 180, 177, 174, 172, 169, 167, 165, 163,
    161, 159, 157, 155, 154, 152, 150, 149, 147, 146, 144, 143, 141, 140, 139, 137, 136, 135, 134, 133, 132, 131, 130, 129,
];

/// `a` times a span in seconds, q8, for what has room for it.
pub(super) fn times_q8(a: i64, seconds_q8: i64) -> i64 {
    (a * seconds_q8) >> 8
}

/// Microseconds as seconds, q32: exact to a billionth for up to an hour, then to the next whole second.
pub(super) fn seconds_q32(us: u64) -> i64 {
    if us <= HOUR_US { ((us * SECONDS_Q48) >> 16) as i64 } else { ((us / 1_000_000 + 1).min(1 << 30) as i64) << 32 }
}

/// An hour.
pub(super) const HOUR_US: u64 = 3_600_000_000;

/// A millionth, q48.
const SECONDS_Q48: u64 = (1 << 48) / 1_000_000 + 1;

/// Nothing in the table is farther out, in deviations.
pub(super) const TAIL_MAX: i64 = 8;

/// A bell curve cut off on the right, `alpha` deviations from its middle.
pub(super) struct Tail {
    /// By how many deviations its mean is moved to the left: `λ = φ(α)/Φ(α)`. q16.
    pub mean_q16: i64,
    /// Which part of its variance is gone: `λ(λ + α)`. q16.
    pub narrowed_q16: i64,
    /// Minus the logarithm of what is left of it: `−ln Φ(α)`. q16.
    pub cost_q16: i64,
}

impl Tail {
    /// For `alpha` from −8 to 8.
    pub(super) fn at(alpha_q12: i64) -> Tail {
        let alpha_q12 = alpha_q12.clamp(-TAIL_MAX << 12, TAIL_MAX << 12);
        let from_left = alpha_q12 + (TAIL_MAX << 12);
        let (index, rest) = ((from_left >> 9) as usize, from_left & 511);
        let between = |table: &[u32; POINTS]| {
            let at = |index: usize| i64::from(table.get(index).copied().unwrap_or(0));
            at(index) + (((at(index + 1) - at(index)) * rest) >> 9)
        };
        let mean_q16 = between(&MEAN_Q16);
        let narrowed_q16 = (mean_q16 * (mean_q16 + (alpha_q12 << 4))) >> 16;
        Tail { mean_q16, narrowed_q16: narrowed_q16.clamp(0, ONE_Q16), cost_q16: between(&COST_Q16) }
    }
}

/// One, q16.
pub(super) const ONE_Q16: i64 = 1 << 16;

/// Eight a deviation, from −8 to 8.
const POINTS: usize = 129;

/// `φ(α)/Φ(α)`, q16.
#[rustfmt::skip]
const MEAN_Q16: [u32; POINTS] = [
    532_242, 524_169, 516_100, 508_034, 499_972, 491_914, 483_860, 475_811, 467_766, 459_726, 451_691, 443_662,
    435_638, 427_619, 419_607, 411_601, 403_602, 395_610, 387_626, 379_650, 371_682, 363_722, 355_772, 347_832,
    339_903, 331_984, 324_077, 316_183, 308_302, 300_435, 292_584, 284_748, 276_929, 269_129, 261_348, 253_589,
    245_851, 238_138, 230_450, 222_791, 215_161, 207_564, 200_001, 192_476, 184_991, 177_551, 170_158, 162_816,
    155_531, 148_306, 141_148, 134_061, 127_053, 120_130, 113_300, 106_570, 99_951, 93_452, 87_083, 80_855, 74_782,
    68_875, 63_147, 57_615, 52_290, 47_189, 42_326, 37_714, 33_368, 29_300, 25_519, 22_033, 18_848, 15_966, 13_384,
    11_097, 9096, 7366, 5890, 4649, 3621, 2781, 2106, 1572, 1156, 838, 598, 420, 291, 198, 133, 88, 57, 37, 23, 14, 9,
    5, 3, 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
];

/// `−ln Φ(α)`, q16.
#[rustfmt::skip]
const COST_Q16: [u32; POINTS] = [
    2_294_641, 2_228_615, 2_163_598, 2_099_590, 2_036_590, 1_974_597, 1_913_611, 1_853_631, 1_794_658, 1_736_690,
    1_679_726, 1_623_767, 1_568_811, 1_514_857, 1_461_905, 1_409_955, 1_359_005, 1_309_054, 1_260_102, 1_212_147,
    1_165_189, 1_119_227, 1_074_258, 1_030_283, 987_300, 945_307, 904_303, 864_287, 825_257, 787_211, 750_147,
    714_064, 678_960, 644_831, 611_677, 579_493, 548_278, 518_029, 488_743, 460_416, 433_044, 406_624, 381_152,
    356_622, 333_031, 310_372, 288_641, 267_831, 247_935, 228_946, 210_855, 193_656, 177_337, 161_889, 147_300,
    133_560, 120_653, 108_567, 97_285, 86_790, 77_065, 68_088, 59_838, 52_293, 45_426, 39_211, 33_619, 28_619, 24_179,
    20_265, 16_842, 13_874, 11_322, 9149, 7318, 5791, 4531, 3505, 2679, 2023, 1508, 1110, 806, 578, 408, 285, 196,
    133, 89, 58, 38, 24, 15, 9, 6, 3, 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0,
];

#[cfg(test)]
mod tests {
    use super::*;

    /// `Φ` by adding up the density, from far on the left.
    fn left_of(alpha: f64) -> f64 {
        let density = |x: f64| (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
        let step = 1e-4;
        (0..200_000).map(|i| density(alpha - (f64::from(i) + 0.5) * step) * step).sum()
    }

    #[test]
    fn the_tables_hold_the_bell_curve() {
        for alpha in [-8.0, -5.3, -2.0, -0.7, 0.0, 0.4, 1.9, 3.3] {
            let tail = Tail::at((alpha * 4096.0) as i64);
            let left = left_of(alpha);
            let mean = (-alpha * alpha / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() / left;
            let near = |q16: i64, exact: f64, within: f64| (q16 as f64 / 65536.0 - exact).abs() < within;
            assert!(near(tail.mean_q16, mean, 2e-3), "λ({alpha}) = {mean}, not {}", tail.mean_q16);
            assert!(near(tail.narrowed_q16, mean * (mean + alpha), 1e-2), "{alpha}");
            assert!(near(tail.cost_q16, -left.ln(), 1e-2), "ln Φ({alpha}) = {}, not {}", left.ln(), tail.cost_q16);
        }
    }

    #[test]
    fn products_are_those_of_128_bits_rounded_to_the_nearest_and_stop_at_the_ends() {
        assert_eq!((mul::<1>(3, 5), mul::<2>(3, 5), mul::<2>(-5, 5)), (8, 4, -6));
        let edges = [0, 1, 2, 77, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 32) + 1, 1 << 46, i64::MAX - 1, i64::MAX];
        let both = edges.into_iter().chain(edges.map(|edge| -edge)).chain([i64::MIN]);
        for a in both.clone() {
            for b in both.clone() {
                for shift in [1, 16, 30, 31, 32, 33, 40, 48, 63] {
                    let exact = (i128::from(a) * i128::from(b)).unsigned_abs();
                    let rounded = i64::try_from((exact + (1 << (shift - 1))) >> shift).unwrap_or(i64::MAX);
                    let expected = if (a < 0) == (b < 0) { rounded } else { -rounded };
                    assert_eq!(scaled(a, b, shift), expected, "{a} · {b} / 2^{shift}");
                }
            }
        }
    }

    #[test]
    fn roots_and_what_is_divided_by_them_are_exact_to_a_millionth() {
        let mut value = 1i64;
        while value < i64::MAX / 3 {
            for value in [value, value + 1, value + value / 3, value * 2 - 1] {
                let (root, exact) = (Root::of(value), (value as f64).sqrt());
                assert!((root.root as f64 - exact).abs() <= 1.0 + exact * 1e-6, "√{value}: {root:?}");
                for a in [1i64, -77, 1 << 20, -(1 << 40), 3 << 50] {
                    let near = |got: i64, exact: f64| {
                        exact.abs() > 9e18 || (got as f64 - exact).abs() <= 1.0 + exact.abs() * 1e-6
                    };
                    assert!(near(root.divide(a), a as f64 / exact), "{a}/√{value}: {}", root.divide(a));
                    let shares = root.inverse().times_q30(a);
                    assert!(near(shares, a as f64 * 2f64.powi(30) / value as f64), "{a}/{value}: {shares}");
                }
            }
            value *= 2;
        }
    }

    #[test]
    fn an_hour_is_an_hour_to_a_billionth() {
        for us in [1, 999_999, 1_000_000, 60_000_000, HOUR_US] {
            let error = seconds_q32(us) as f64 / 2f64.powi(32) - us as f64 / 1e6;
            assert!(error.abs() < 1e-9 + us as f64 * 1e-15 * 4.0, "{us} µs: off by {error} s");
        }
        assert_eq!(seconds_q32(86_400_000_000), 86_401 << 32);
        assert_eq!(seconds_q32(u64::MAX), 1 << 62);
    }
}
