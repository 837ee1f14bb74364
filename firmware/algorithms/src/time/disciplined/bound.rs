//! The interval that holds the reference's time for certain, whatever the asymmetry of the delays.
//!
//! When a request arrives, the reference's time is not earlier than when it left: `T2 − H1` bounds the
//! offset from above, and `T3 − H4` from below, without any assumption about delays. A bound is carried on
//! until a tighter one comes: at the rate that was measured, widened by what that may be wrong, but never by
//! more than two crystals at the ends of the declared drift can part. Without exchanges that touch the
//! envelope the rate is not proven any more, and its doubt grows until it is that drift.
//!
//! Bounds that cross prove that the rate changed faster than that: both are dropped for the newest ones.

use super::fixed::mul;

/// So many deviations of the rate are doubted.
const DEVIATIONS: i64 = 4;
/// And this much always: 20 ppb. µs/s, q32.
const DOUBT_MIN_Q32: i64 = (1 << 32) / 50;
/// A rate changes by at most 50 ppb a second unseen, as crystals do that are blown at. µs/s², q32.
const CHANGE_Q32: i64 = (1 << 32) / 20;

/// Offsets between which the reference is, as whole microseconds of the same zero as the models', q16.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bound {
    above_q16: i64,
    below_q16: i64,
    /// How fast they move, µs/s. q32.
    above_rate_q32: i64,
    below_rate_q32: i64,
    /// Two crystals part by no more. µs/s, q32.
    limit_q32: i64,
    is_set: bool,
}

impl Bound {
    pub(super) const fn new(drift_ppm: u32) -> Bound {
        let limit_q32 = (2 * drift_ppm as i64) << 32;
        Bound {
            above_q16: 0,
            below_q16: 0,
            above_rate_q32: limit_q32,
            below_rate_q32: -limit_q32,
            limit_q32,
            is_set: false,
        }
    }

    /// What was known of another reference's time says nothing about the next one's.
    pub(super) fn forget(&mut self) {
        self.is_set = false;
    }

    pub(super) fn rebase(&mut self, by_us: i64) {
        self.above_q16 -= by_us << 16;
        self.below_q16 -= by_us << 16;
    }

    /// Above and below after `dt`, q16.
    pub(super) fn after(&self, dt_q32: i64) -> (i64, i64) {
        // The doubt grows on the way: by half of the change at its end, on average.
        let change = mul(CHANGE_Q32 / 2, dt_q32, 32);
        let above_rate = (self.above_rate_q32 + change).min(self.limit_q32);
        let below_rate = (self.below_rate_q32 - change).max(-self.limit_q32);
        (self.above_q16 + mul(above_rate, dt_q32, 48) + 1, self.below_q16 + mul(below_rate, dt_q32, 48) - 1)
    }

    /// Lets `dt` pass and takes the bounds of an exchange of that round trip. True if they contradict what
    /// was known.
    pub(super) fn exchange(&mut self, dt_q32: i64, above_us: i64, below_us: i64, rtt_q32: i64) -> bool {
        // The request's bound is as old as the round trip.
        let aged_q16 = mul(self.limit_q32, rtt_q32, 48) + 1;
        let (above, below) = ((above_us << 16) + aged_q16, below_us << 16);
        let (old_above, old_below) = self.after(dt_q32);
        let contradicts = self.is_set && (above < old_below || below > old_above);
        if self.is_set && !contradicts {
            (self.above_q16, self.below_q16) = (above.min(old_above), below.max(old_below));
        } else {
            (self.above_q16, self.below_q16, self.is_set) = (above, below, true);
        }
        contradicts
    }

    /// The rate as measured, with its variance, `unproven` seconds ago.
    pub(super) fn tell_rate(&mut self, rate_q32: i64, variance_q40: i64, unproven_q32: i64) {
        let deviation_q32 = variance_q40.max(0).isqrt() << 12;
        let doubt = (deviation_q32 * DEVIATIONS + DOUBT_MIN_Q32)
            .saturating_add(mul(CHANGE_Q32, unproven_q32, 32))
            .min(2 * self.limit_q32);
        self.above_rate_q32 = (rate_q32 + doubt).min(self.limit_q32);
        self.below_rate_q32 = (rate_q32 - doubt).max(-self.limit_q32);
    }
}
