//! The two intervals that hold the reference's time, whatever the asymmetry of the delays.
//!
//! When a request arrives, the reference's time is not earlier than when it left: `T2 − H1` bounds the
//! offset from above, and `T3 − H4` from below, without any assumption about delays. A bound is carried on
//! until a tighter one comes. Three pairs of bounds are, and differ in how fast they are carried:
//!
//! - **certain**: as fast as two crystals at the ends of the declared drift part. Nothing else is assumed.
//! - **envelope**: at the estimated rate, widened by what that may be wrong.
//! - **braced**: at that rate and a leap of it on top.
//!
//! The certain pair is the certain interval. The narrow one is the envelope, but reaches at least to the braced
//! pair less a margin on each side: if no way is shorter than its margin, what was carried was off by the margin
//! at least, and a rate that has leapt by no more than the brace has not used it up. So on ways longer
//! than that the narrow interval survives leaps, noticed or not. Margin and leap are chosen so that the brace seldom
//! shows (see [`Bound::brace`]): the shorter and the more jittery a way, the smaller the leap.
//!
//! How wrong may the rate be? In the first minutes nothing is believed but proof: if the offset was below
//! this and is above that so many seconds later, the rate lies between. Such a proof leaves about one round
//! trip by the time that passed. After [`PROVING_Q32`] the estimates' own deviations are smaller, and are
//! believed as long as exchanges touch the envelope; without them the doubt grows up to the declared drift.
//!
//! Where the envelope is contradicted, or the models see an exchange that came earlier than could be, the rate
//! has leapt: only what is certain is believed, and proof counts again. Where the certain pair is contradicted,
//! the reference has leapt, or a crystal is worse than declared: the caller begins anew.

use super::fixed::mul;

/// This much of every rate is doubted: 20 ppb. µs/s, q32.
const DOUBT_MIN_Q32: i64 = (1 << 32) / 50;
/// A rate changes by at most 50 ppb a second unseen, as crystals do that are blown at. µs/s², q32.
const CHANGE_Q32: i64 = ((super::CHANGE_PPB as i64) << 32) / 1000;
/// After so long without an exchange the brace is for any leap within the declared drift.
const WATCHED_Q32: i64 = (super::WATCHED_S as i64) << 32;
/// For so long only proof counts.
const PROVING_Q32: i64 = 512 << 32;

/// The brace shows at one reading in e^c, each side; twice that c, times eight.
const SELDOM_Q3: i64 = 32;
/// The margins are at most so many eighths of half the envelope.
const MARGIN_EIGHTHS: i64 = 7;
/// No gap between exchanges is taken for longer: 16 s. Also what makes a product fit.
const GAP_MAX_Q8: i64 = 16 << 8;
/// Nor any jitter: 65 ms.
const JITTER_MAX_US: i64 = 1 << 16;

/// Offsets between which the reference is, µs from the same zero as the models'. q16.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pair {
    pub above_q16: i64,
    pub below_q16: i64,
}

impl Pair {
    const ZERO: Pair = Pair { above_q16: 0, below_q16: 0 };

    /// Moved, and widened by what rounding hides.
    fn moved(&self, above_q16: i64, below_q16: i64) -> Pair {
        Pair { above_q16: self.above_q16 + above_q16 + 1, below_q16: self.below_q16 + below_q16 - 1 }
    }

    /// What both hold.
    fn and(&self, other: &Pair) -> Pair {
        Pair { above_q16: self.above_q16.min(other.above_q16), below_q16: self.below_q16.max(other.below_q16) }
    }

    fn width_q16(&self) -> i64 {
        self.above_q16 - self.below_q16
    }

    fn rebase(&mut self, by_us: i64) {
        self.above_q16 -= by_us << 16;
        self.below_q16 -= by_us << 16;
    }
}

/// How fast bounds move. µs/s, q32.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Rates {
    above_q32: i64,
    below_q32: i64,
}

/// What the bounds of one exchange are to the pairs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// They agree with all.
    Agrees,
    /// The rate must have leapt: only what is certain was kept.
    RateLeapt,
    /// The reference itself must have: nothing was taken.
    Contradicts,
}

/// One exchange as a bound: whole microseconds from the zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stamped {
    pub above_us: i64,
    pub below_us: i64,
    /// By how much the server may be off: as its narrow interval says,
    pub error_us: i64,
    /// and for certain.
    pub certain_us: i64,
    /// How long the exchange took: the request's bound is as old.
    pub span_q32: i64,
}

/// How fast an offset grows at most where two clocks are off by `ppm` together, in µs a second of the slower one,
/// which is longer than a second. q32.
const fn parting_q32(ppm: u32) -> i64 {
    let ppm = ppm as i64;
    (ppm << 32) + ((ppm * ppm) << 32) / 1_000_000
}

/// The pairs, how fast they move, and the proof of the rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bound {
    envelope: Pair,
    braced: Pair,
    certain: Pair,
    rates: Rates,
    /// Two crystals part by no more. µs/s, q32.
    limit_q32: i64,
    /// Nor this one and the reference's clock, which may run at a rate that was learnt. µs/s, q32.
    certain_q32: i64,
    is_set: bool,
    /// A leap of the rate that the brace bears, µs/s, q32; and what each way takes at least for that, µs, q16.
    leap_q32: i64,
    margin: Pair,
    /// From one exchange to the next, on average. s, q8.
    gap_q8: i64,
    /// The narrowest exchange at the beginning, and how long ago it was.
    first: Pair,
    first_age_q32: i64,
    /// Between these the rate has been since.
    proven: Rates,
}

impl Bound {
    pub(super) const fn new(drift_ppm: u32) -> Bound {
        let limit_q32 = parting_q32(2 * drift_ppm);
        let unknown = Rates { above_q32: limit_q32, below_q32: -limit_q32 };
        Bound {
            envelope: Pair::ZERO,
            braced: Pair::ZERO,
            certain: Pair::ZERO,
            rates: unknown,
            limit_q32,
            certain_q32: limit_q32,
            is_set: false,
            leap_q32: 0,
            margin: Pair::ZERO,
            gap_q8: 1 << 8,
            first: Pair::ZERO,
            first_age_q32: 0,
            proven: unknown,
        }
    }

    /// This crystal and the reference's clock part by up to so much.
    pub(super) const fn parting_by(mut self, ppm: u32) -> Bound {
        self.certain_q32 = parting_q32(ppm);
        self
    }

    const fn unknown(&self) -> Rates {
        Rates { above_q32: self.limit_q32, below_q32: -self.limit_q32 }
    }

    /// What was known of another reference's time says nothing about the next one's.
    pub(super) fn forget(&mut self) {
        self.is_set = false;
    }

    /// The reference was this node: its time is known, and from now on its rate is not.
    pub(super) fn pin(&mut self) {
        let known = Pair { above_q16: 1 << 16, below_q16: 0 };
        (self.envelope, self.braced, self.certain) = (known, known, known);
        self.rates = self.unknown();
    }

    /// The rate has leapt: what was carried at it is void.
    pub(super) fn doubt(&mut self) {
        (self.envelope, self.braced) = (self.certain, self.certain);
        (self.first, self.first_age_q32) = (self.certain, 0);
        (self.rates, self.proven) = (self.unknown(), self.unknown());
    }

    pub(super) fn rebase(&mut self, by_us: i64) {
        for pair in [&mut self.envelope, &mut self.braced, &mut self.certain, &mut self.first] {
            pair.rebase(by_us);
        }
    }

    /// The narrow interval after `dt`.
    pub(super) fn narrow(&self, dt_q32: i64) -> Pair {
        let (envelope, braced) = self.carried(dt_q32);
        let braced = self.less_margins(&braced);
        Pair {
            above_q16: envelope.above_q16.max(braced.above_q16),
            below_q16: envelope.below_q16.min(braced.below_q16),
        }
    }

    /// The braced pair less its margins after `dt`: where the narrow interval reaches at least.
    pub(super) fn braced(&self, dt_q32: i64) -> Pair {
        self.less_margins(&self.carried(dt_q32).1)
    }

    fn less_margins(&self, braced: &Pair) -> Pair {
        Pair {
            above_q16: braced.above_q16 - self.margin.above_q16,
            below_q16: braced.below_q16 + self.margin.below_q16,
        }
    }

    /// A rate that two crystals can part by.
    pub(super) fn confine(&self, rate_q32: i64) -> i64 {
        rate_q32.clamp(-self.limit_q32, self.limit_q32)
    }

    /// The certain interval after `dt`.
    pub(super) fn certain(&self, dt_q32: i64) -> Pair {
        let apart_q16 = mul::<48>(self.certain_q32, dt_q32);
        self.certain.moved(apart_q16, -apart_q16)
    }

    /// How fast the lower and the upper end of the envelope move from now on, before doubt grows. µs/s, q32.
    pub(super) fn rates_q32(&self) -> (i64, i64) {
        (self.rates.below_q32, self.rates.above_q32)
    }

    /// The leap of the rate that the narrow interval bears. µs/s, q32.
    pub(super) fn leap_q32(&self) -> i64 {
        self.leap_q32
    }

    /// How fast the ends of the certain interval part from the middle. µs/s, q32.
    pub(super) fn certain_q32(&self) -> i64 {
        self.certain_q32
    }

    /// Envelope and braced pair after `dt`.
    fn carried(&self, dt_q32: i64) -> (Pair, Pair) {
        // The doubt grows on the way: by half of the change at its end, on average.
        let change = mul::<32>(CHANGE_Q32 / 2, dt_q32);
        let above_q32 = self.rates.above_q32.saturating_add(change).min(self.limit_q32);
        let below_q32 = self.rates.below_q32.saturating_sub(change).max(-self.limit_q32);
        let (above_q16, below_q16) = (mul::<48>(above_q32, dt_q32), mul::<48>(below_q32, dt_q32));
        let unwatched_q32 = (dt_q32 - WATCHED_Q32).max(0);
        let leapt = |room_q32: i64| {
            let leap_q32 = self.leap_q32.min(room_q32);
            let later_q16 = if unwatched_q32 > 0 { mul::<48>(room_q32 - leap_q32, unwatched_q32) } else { 0 };
            mul::<48>(leap_q32, dt_q32) + later_q16
        };
        let (leapt_above, leapt_below) = (leapt(self.limit_q32 - above_q32), leapt(self.limit_q32 + below_q32));
        let envelope = self.envelope.moved(above_q16, below_q16);
        (envelope, self.braced.moved(above_q16 + leapt_above, below_q16 - leapt_below))
    }

    /// Lets `dt` pass and takes the bounds of an exchange.
    pub(super) fn exchange(&mut self, dt_q32: i64, stamped: &Stamped) -> Verdict {
        let new = |error_us: i64| {
            let aged_q16 = mul::<48>(self.certain_q32, stamped.span_q32) + 1;
            Pair {
                above_q16: ((stamped.above_us + error_us) << 16) + aged_q16,
                below_q16: (stamped.below_us - error_us) << 16,
            }
        };
        let (narrow, certain) = (new(stamped.error_us), new(stamped.certain_us.max(stamped.error_us)));
        if !self.is_set {
            (self.certain, self.is_set) = (certain, true);
            self.doubt();
            (self.envelope, self.braced, self.first) = (narrow, narrow, narrow);
            return Verdict::Agrees;
        }
        let certain = certain.and(&self.certain(dt_q32));
        if certain.width_q16() < 0 {
            return Verdict::Contradicts;
        }
        let (envelope, braced) = self.carried(dt_q32);
        (self.certain, self.envelope, self.braced) = (certain, envelope.and(&narrow), braced.and(&narrow));
        self.gap_q8 += ((dt_q32 >> 24).min(GAP_MAX_Q8) - self.gap_q8) >> 4;
        if self.envelope.width_q16() < 0 {
            self.doubt();
            return Verdict::RateLeapt;
        }
        if self.braced.width_q16() < 0 {
            self.braced = self.envelope;
        }
        self.first_age_q32 = self.first_age_q32.saturating_add(dt_q32);
        if self.first_age_q32 <= PROVING_Q32 {
            self.prove(&narrow);
        }
        Verdict::Agrees
    }

    fn prove(&mut self, new: &Pair) {
        // In the first seconds a narrower one is the better beginning.
        if self.first_age_q32 < 8 << 32 && new.width_q16() < self.first.width_q16() {
            (self.first, self.first_age_q32) = (*new, 0);
            return;
        }
        if self.first_age_q32 < 1 << 32 {
            return; // A second at least: else the rate would not fit.
        }
        let age_q16 = self.first_age_q32 >> 16;
        let a_second = |gained_q16: i64| ((gained_q16.clamp(-(1 << 46), 1 << 46) << 16) / age_q16) << 16;
        let most_q32 = a_second(new.above_q16 - self.first.below_q16) + (1 << 16);
        let least_q32 = a_second(new.below_q16 - self.first.above_q16) - (1 << 16);
        self.proven.above_q32 = self.proven.above_q32.min(most_q32);
        self.proven.below_q32 = self.proven.below_q32.max(least_q32);
    }

    /// The least and the greatest rate that estimates allow, µs/s, q32; something touched the envelope
    /// `unproven` seconds ago.
    pub(super) fn tell_rate(&mut self, least_q32: i64, most_q32: i64, unproven_q32: i64) {
        let doubt = mul::<32>(CHANGE_Q32, unproven_q32).min(2 * self.limit_q32) + DOUBT_MIN_Q32;
        self.rates.above_q32 = most_q32.saturating_add(doubt).min(self.limit_q32);
        self.rates.below_q32 = least_q32.saturating_sub(doubt).max(-self.limit_q32);
        if self.first_age_q32 <= PROVING_Q32 {
            self.rates.above_q32 = self.rates.above_q32.max(self.proven.above_q32);
            self.rates.below_q32 = self.rates.below_q32.min(self.proven.below_q32);
        }
    }

    /// Sets the brace for the jitter that is usual on both ways, µs.
    ///
    /// The braced pair lies `U = min over exchanges of (jitter + leap · age)` outside of the shortest delay. With
    /// jitter that fades exponentially `P(U > m) = exp(−m² / (2 · leap · gap · jitter))`: so a margin `m` and a leap
    /// go together by `m² = 2c · leap · gap · jitter`.
    pub(super) fn brace(&mut self, there_us: i64, back_us: i64) {
        let most_us = ((self.envelope.width_q16() >> 17).clamp(1, 1 << 20) * MARGIN_EIGHTHS) >> 3;
        let gap_q8 = self.gap_q8.max(1);
        // What a leap of 1 ppm asks for, µs². q3.
        let asks = |jitter_us: i64| (SELDOM_Q3 * jitter_us.clamp(1, JITTER_MAX_US) * gap_q8) >> 8;
        let (there, back) = (asks(there_us), asks(back_us));
        let leap_ppm = ((most_us * most_us) << 3) / there.max(back).max(1);
        // Where nothing jitters it shows once it has come so far between two exchanges.
        let leap_ppm = leap_ppm.min((most_us << 8) / gap_q8).min((2 * self.limit_q32) >> 32);
        let margin_us = |asks: i64| ((asks * leap_ppm) >> 3).isqrt().max((leap_ppm * gap_q8) >> 8).min(most_us);
        let margin_q16 = |asks: i64| margin_us(asks) << 16;
        self.leap_q32 = leap_ppm << 32;
        self.margin = Pair { above_q16: margin_q16(there), below_q16: margin_q16(back) };
    }
}
