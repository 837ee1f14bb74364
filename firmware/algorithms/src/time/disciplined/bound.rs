//! The interval that holds the reference's time for certain, whatever the asymmetry of the delays.
//!
//! When a request arrives, the reference's time is not earlier than when it left: `T2 − H1` bounds the
//! offset from above, and `T3 − H4` from below, without any assumption about delays. A bound is carried on
//! until a tighter one comes: at the estimated rate, widened by what that may be wrong, but never by more
//! than two crystals at the ends of the declared drift can part.
//!
//! How wrong may the rate be? In the first minutes nothing is believed but proof: if the offset was below
//! this and is above that so many seconds later, the rate lies between. Such a proof leaves about one round
//! trip by the time that passed. After [`PROVING_Q32`] the estimates' own deviations are smaller, and are
//! believed as long as exchanges touch the envelope; without them the doubt grows up to the declared drift.
//!
//! Bounds that cross prove that the rate or the reference leapt: the caller begins anew. Where the models see
//! an exchange that came earlier than could be, it makes this one forget what was carried.

use super::fixed::mul;

/// This much of every rate is doubted: 20 ppb. µs/s, q32.
const DOUBT_MIN_Q32: i64 = (1 << 32) / 50;
/// A rate changes by at most 50 ppb a second unseen, as crystals do that are blown at. µs/s², q32.
const CHANGE_Q32: i64 = ((super::CHANGE_PPB as i64) << 32) / 1000;
/// For so long only proof counts.
const PROVING_Q32: i64 = 512 << 32;

/// Offsets between which the reference is, µs from the same zero as the models'. q16.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Pair {
    above_q16: i64,
    below_q16: i64,
}

/// The two bounds, how fast they move, and the proof of the rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bound {
    now: Pair,
    /// µs/s, q32.
    above_rate_q32: i64,
    below_rate_q32: i64,
    /// Two crystals part by no more. µs/s, q32.
    limit_q32: i64,
    is_set: bool,
    /// The narrowest exchange at the beginning, and how long ago it was.
    first: Pair,
    first_age_q32: i64,
    /// Between these the rate has been since. µs/s, q32.
    most_q32: i64,
    least_q32: i64,
}

impl Bound {
    pub(super) const fn new(drift_ppm: u32) -> Bound {
        let limit_q32 = (2 * drift_ppm as i64) << 32;
        let nothing = Pair { above_q16: 0, below_q16: 0 };
        Bound {
            now: nothing,
            above_rate_q32: limit_q32,
            below_rate_q32: -limit_q32,
            limit_q32,
            is_set: false,
            first: nothing,
            first_age_q32: 0,
            most_q32: limit_q32,
            least_q32: -limit_q32,
        }
    }

    /// What was known of another reference's time says nothing about the next one's.
    pub(super) fn forget(&mut self) {
        self.is_set = false;
    }

    /// The reference was this node: its time is known, and from now on its rate is not.
    pub(super) fn pin(&mut self) {
        self.now = Pair { above_q16: 1 << 16, below_q16: 0 };
        (self.above_rate_q32, self.below_rate_q32) = (self.limit_q32, -self.limit_q32);
    }

    pub(super) fn rebase(&mut self, by_us: i64) {
        for pair in [&mut self.now, &mut self.first] {
            pair.above_q16 -= by_us << 16;
            pair.below_q16 -= by_us << 16;
        }
    }

    /// Above and below after `dt`, q16.
    pub(super) fn after(&self, dt_q32: i64) -> (i64, i64) {
        let pair = self.carried(dt_q32);
        (pair.above_q16, pair.below_q16)
    }

    /// How fast the lower and the upper bound move from now on, before doubt grows. µs/s, q32.
    pub(super) fn rates_q32(&self) -> (i64, i64) {
        (self.below_rate_q32, self.above_rate_q32)
    }

    fn carried(&self, dt_q32: i64) -> Pair {
        // The doubt grows on the way: by half of the change at its end, on average.
        let change = mul::<32>(CHANGE_Q32 / 2, dt_q32);
        let above_rate = self.above_rate_q32.saturating_add(change).min(self.limit_q32);
        let below_rate = self.below_rate_q32.saturating_sub(change).max(-self.limit_q32);
        Pair {
            above_q16: self.now.above_q16 + mul::<48>(above_rate, dt_q32) + 1,
            below_q16: self.now.below_q16 + mul::<48>(below_rate, dt_q32) - 1,
        }
    }

    /// Lets `dt` pass and takes the bounds of an exchange that took `span`. True if they contradict what was
    /// known; then nothing is taken.
    pub(super) fn exchange(&mut self, dt_q32: i64, above_us: i64, below_us: i64, span_q32: i64) -> bool {
        // The request's bound is as old as the exchange.
        let aged_q16 = mul::<48>(self.limit_q32, span_q32) + 1;
        let new = Pair { above_q16: (above_us << 16) + aged_q16, below_q16: below_us << 16 };
        if !self.is_set {
            (self.now, self.is_set) = (new, true);
            (self.first, self.first_age_q32) = (new, 0);
            (self.most_q32, self.least_q32) = (self.limit_q32, -self.limit_q32);
            return false;
        }
        let old = self.carried(dt_q32);
        if new.above_q16 < old.below_q16 || new.below_q16 > old.above_q16 {
            return true;
        }
        self.now = Pair { above_q16: new.above_q16.min(old.above_q16), below_q16: new.below_q16.max(old.below_q16) };
        self.first_age_q32 = self.first_age_q32.saturating_add(dt_q32);
        if self.first_age_q32 <= PROVING_Q32 {
            self.prove(&new);
        }
        false
    }

    fn prove(&mut self, new: &Pair) {
        let width = |pair: &Pair| pair.above_q16 - pair.below_q16;
        // In the first seconds a narrower one is the better beginning.
        if self.first_age_q32 < 8 << 32 && width(new) < width(&self.first) {
            (self.first, self.first_age_q32) = (*new, 0);
            return;
        }
        if self.first_age_q32 < 1 << 32 {
            return; // A second at least: else the rate would not fit.
        }
        let age_q16 = self.first_age_q32 >> 16;
        let a_second = |gained_q16: i64| ((gained_q16.clamp(-(1 << 46), 1 << 46) << 16) / age_q16) << 16;
        self.most_q32 = self.most_q32.min(a_second(new.above_q16 - self.first.below_q16) + (1 << 16));
        self.least_q32 = self.least_q32.max(a_second(new.below_q16 - self.first.above_q16) - (1 << 16));
    }

    /// The least and the greatest rate that estimates allow, µs/s, q32; something touched the envelope
    /// `unproven` seconds ago.
    pub(super) fn tell_rate(&mut self, least_q32: i64, most_q32: i64, unproven_q32: i64) {
        let doubt = mul::<32>(CHANGE_Q32, unproven_q32).min(2 * self.limit_q32) + DOUBT_MIN_Q32;
        self.above_rate_q32 = most_q32.saturating_add(doubt).min(self.limit_q32);
        self.below_rate_q32 = least_q32.saturating_sub(doubt).max(-self.limit_q32);
        if self.first_age_q32 <= PROVING_Q32 {
            self.above_rate_q32 = self.above_rate_q32.max(self.most_q32);
            self.below_rate_q32 = self.below_rate_q32.min(self.least_q32);
        }
    }
}
