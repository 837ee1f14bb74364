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

/// [`mul`] by a power of two that is not known beforehand.
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
    let low = (middle << 32) | (lowest & u64::from(u32::MAX));
    let (rounded, carry) = low.overflowing_add(1 << (shift - 1));
    high += u64::from(carry);
    let magnitude = if high >> (shift - 1) != 0 {
        i64::MAX // Also where it would have been the one more that a negative number may have.
    } else {
        ((high << (64 - shift)) | (rounded >> shift)) as i64
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
    fn an_hour_is_an_hour_to_a_billionth() {
        for us in [1, 999_999, 1_000_000, 60_000_000, HOUR_US] {
            let error = seconds_q32(us) as f64 / 2f64.powi(32) - us as f64 / 1e6;
            assert!(error.abs() < 1e-9 + us as f64 * 1e-15 * 4.0, "{us} µs: off by {error} s");
        }
        assert_eq!(seconds_q32(86_400_000_000), 86_401 << 32);
        assert_eq!(seconds_q32(u64::MAX), 1 << 62);
    }
}
