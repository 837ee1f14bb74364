//! One hypothesis about the crystal, and what follows from it: where the reference's time is, as a bell
//! curve that is cut off.
//!
//! The reference is `θ` ahead of the hardware clock, gains `r` µs a second, and `r` itself changes by `c`
//! a second. Nothing crosses the network in less than the shortest delay `d`, so a request says
//! `θ + d ≤ T2 − H1`, an answer `−θ + d ≤ H4 − T3`. The two are bounds, not measurements with an error
//! around zero: what lies beyond is delay. So each one **cuts off** the part of the bell curve beyond it,
//! and leans what is left towards it, as delays that fade exponentially demand: a point near the bound is
//! likelier than one that leaves the request a long delay. What is left is described by its mean and
//! variances again. A bound far outside the curve cuts nothing off, costs next to nothing to reckon with,
//! and most are such; the few that graze it are what tells the time.
//!
//! This is the envelope of the two directions with a memory that fades exactly as fast as the hypothesis
//! says that crystals wander (the noises below). Both directions share `d`: once the long run has shown
//! it, each direction tells the time by itself, and the one that jitters less tells it better.

use super::fixed::{ONE_Q16, Root, TAIL_MAX, Tail, mul, times_q8};

/// How a crystal wanders.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Wander {
    /// Variance that the rate gains a second, (µs/s)²/s. q40.
    pub rate_q40: i64,
    /// Variance that the change of the rate gains a second, (µs/s²)²/s. q48. None: the rate has no trend.
    pub trend_q48: i64,
}

/// After such a gap trends are over.
pub(super) const GAP_Q32: i64 = 32 << 32;

/// A trend is forgotten within about so many seconds: 2¹⁰.
const TREND_S_LOG2: u32 = 10;

/// The shortest delay may wander by 0.01 µs in a second: (µs)²/s, q24.
const DELAY_WANDER_Q24: i64 = 1678;

/// What whole microseconds hide: the variance of the difference of two of them, 1/6. q24.
pub(super) const ROUNDING_Q24: i64 = (1 << 24) / 6;

/// A delay beyond so many usual ones says that the network was busy, and nothing else.
const FAR: i64 = 6;

/// A bound so many deviations outside of what is believed cuts nothing off: a ten-thousandth of one.
const CUTS: i64 = 4;

/// A bound so many deviations inside of what was believed is no chance.
const EARLY: i64 = 6;

/// A bound so many deviations inside says that they are too small: all of them are doubled until it is not.
const SURPRISING: i64 = 3;
const DOUBLINGS_MAX: u32 = 8;

/// No deviation of `θ` or `d` is taken for greater: 2¹⁷ µs, squared, q24.
const VARIANCE_MAX_Q24: i64 = 1 << 58;

/// No deviation of `r` is taken for greater: 2¹⁰ ppm, squared, q40.
const RATE_VARIANCE_MAX_Q40: i64 = 1 << 60;

/// No deviation of `c` is taken for greater: 1 ppm in a second, squared, q48.
const TREND_VARIANCE_MAX_Q48: i64 = 1 << 48;

/// No offset or delay is greater: an hour, µs. q24.
pub(super) const OFFSET_MAX_Q24: i64 = 1 << 56;
/// No two crystals part faster: 2000 ppm. µs/s, q32.
const RATE_MAX_Q32: i64 = 2000 << 32;
/// No rate changes faster: 1 ppm in a second. µs/s², q36.
const TREND_MAX_Q36: i64 = 1 << 36;

/// A logarithm of a likelihood below this is as bad as any.
const COST_MAX_Q16: i64 = 64 << 16;

/// Which way a stamp travelled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    /// With the request: bounds `θ` from above.
    There,
    /// With the answer: bounds `θ` from below.
    Back,
}

/// What is usual on one way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Usual {
    /// The usual delay beyond the shortest, µs. q8.
    pub delay_q8: i64,
    /// One by that. q32.
    pub inverse_q32: i64,
    /// The variance of a stamp's own error, µs². q24.
    pub blur_q24: i64,
    /// Whether delays come near the shortest at present. While none does, they say nothing about it.
    pub leans: bool,
}

/// What a bound did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Met {
    /// The delay beyond the shortest, as expected before. q24.
    pub delay_q24: i64,
    /// It came as near to the shortest delay as one in four or five does.
    pub is_near: bool,
    /// It said that the network was busy.
    pub is_far: bool,
    /// It came so early that something must have leapt.
    pub is_early: bool,
}

/// Mean, variances and how well it has foretold.
///
/// Scales: a mean and its covariance with `θ` or `d` have the same one; the others follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Model {
    wander: Wander,
    /// `θ`, µs. q24.
    pub offset_q24: i64,
    /// `r`, µs/s. q32.
    pub rate_q32: i64,
    /// `c`, µs/s². q36.
    pub trend_q36: i64,
    /// `d`, µs. q24.
    pub delay_q24: i64,
    /// The logarithm of the likelihood, fading. q16.
    pub merit_q16: i64,
    tt: i64, // θθ q24
    tr: i64, // θr q32
    tc: i64, // θc q36
    td: i64, // θd q24
    rr: i64, // q40
    rc: i64, // q44
    rd: i64, // q32
    cc: i64, // q48
    cd: i64, // q36
    dd: i64, // q24
}

/// The covariances of all four with the bounded sum, its own variance, and the root of that.
struct Seen {
    offset: i64,
    rate: i64,
    trend: i64,
    delay: i64,
    variance_q24: i64,
    root_q12: Root,
}

impl Model {
    /// Knows nothing but that the rates differ by about `drift_ppm`.
    pub(super) const fn new(wander: Wander, drift_ppm: u32) -> Model {
        let drift = drift_ppm as i64;
        Model {
            wander,
            offset_q24: 0,
            rate_q32: 0,
            trend_q36: 0,
            delay_q24: 0,
            merit_q16: 0,
            tt: 0,
            tr: 0,
            tc: 0,
            td: 0,
            rr: (drift * drift) << 40,
            rc: 0,
            rd: 0,
            cc: Model::settled_trend(wander),
            cd: 0,
            dd: 0,
        }
    }

    /// Where noise and forgetting balance.
    const fn settled_trend(wander: Wander) -> i64 {
        wander.trend_q48 << (TREND_S_LOG2 - 1)
    }

    /// Nothing goes with anything: after numbers so wild that their roundings contradict each other.
    fn scatter(&mut self) {
        (self.tr, self.tc, self.td, self.rc, self.rd, self.cd) = (0, 0, 0, 0, 0, 0);
    }

    /// Begins with another reference: the rate is kept but ages, `θ` and `d` are guessed anew.
    pub(super) fn restart(&mut self, offset_q24: i64, delay_q24: i64, spread_us: i64, idle_q32: i64) {
        self.rr = self.rr.saturating_add(mul::<32>(self.wander.rate_q40, idle_q32)).min(RATE_VARIANCE_MAX_Q40);
        (self.offset_q24, self.delay_q24, self.trend_q36) = (offset_q24, delay_q24, 0);
        self.scatter();
        self.cc = Model::settled_trend(self.wander);
        let spread = spread_us.clamp(1, 1 << 17);
        self.tt = (spread * spread) << 24;
        self.dd = (spread * spread) << 22;
        self.merit_q16 = 0;
    }

    /// The path has changed: moves `d`, and doubts it.
    pub(super) fn lengthen(&mut self, delay_q24: i64, doubt_q24: i64) {
        self.delay_q24 = (self.delay_q24 + delay_q24).clamp(0, OFFSET_MAX_Q24);
        self.dd = self.dd.saturating_add(mul::<24>(doubt_q24, doubt_q24)).min(VARIANCE_MAX_Q24);
    }

    /// The reference's rate is this crystal's, to 1 ppm.
    pub(super) fn know_rate(&mut self) {
        (self.rate_q32, self.rr) = (0, 1 << 40);
    }

    /// Doubts the rate by 10 ppm: something happened that nothing explains.
    pub(super) fn doubt_rate(&mut self) {
        self.rr = self.rr.max(100 << 40);
    }

    /// The variance of the rate, (µs/s)². q40.
    pub(super) fn rate_variance_q40(&self) -> i64 {
        self.rr
    }

    /// The rate, and so many deviations of it, µs/s. q32.
    pub(super) fn rate_within(&self, deviations: i64) -> (i64, i64) {
        let deviation_q32 = Root::of(self.rr.max(1)).root << 12;
        (self.rate_q32 - deviations * deviation_q32, self.rate_q32 + deviations * deviation_q32)
    }

    /// Lets `dt` pass, however long.
    pub(super) fn pass(&mut self, dt_q32: i64) {
        if dt_q32 > GAP_Q32 {
            self.coast(dt_q32);
        } else {
            self.predict(dt_q32);
        }
    }

    /// Lets `dt` pass: at most half a minute, as trends do not outlast more.
    fn predict(&mut self, dt_q32: i64) {
        let dt_q8 = dt_q32 >> 24;
        let has_trend = self.wander.trend_q48 != 0;
        // θ += r·dt
        self.offset_q24 += mul::<40>(self.rate_q32, dt_q32);
        let before = self.tr;
        self.tr += mul::<40>(self.rr, dt_q32);
        self.tt += mul::<40>(before + self.tr, dt_q32);
        self.td += mul::<40>(self.rd, dt_q32);
        if has_trend {
            self.tc += mul::<40>(self.rc, dt_q32);
            self.bend(dt_q32);
            self.fade(dt_q8);
            self.cc += times_q8(self.wander.trend_q48, dt_q8);
        }
        self.rr += times_q8(self.wander.rate_q40, dt_q8);
        self.dd += times_q8(DELAY_WANDER_Q24, dt_q8);
        if self.tt > VARIANCE_MAX_Q24 {
            // All is forgotten, also what goes with what.
            (self.tt, self.tr, self.tc, self.td) = (VARIANCE_MAX_Q24, 0, 0, 0);
        }
        self.rr = self.rr.min(RATE_VARIANCE_MAX_Q40);
        self.dd = self.dd.min(VARIANCE_MAX_Q24);
    }

    /// `r += c·dt`.
    fn bend(&mut self, dt_q32: i64) {
        self.rate_q32 += mul::<36>(self.trend_q36, dt_q32);
        let before = self.rc;
        self.rc += mul::<36>(self.cc, dt_q32);
        self.rr += mul::<36>(before + self.rc, dt_q32);
        self.tr += mul::<36>(self.tc, dt_q32);
        self.rd += mul::<36>(self.cd, dt_q32);
    }

    /// `c` goes back to 0.
    fn fade(&mut self, dt_q8: i64) {
        let part = |value: i64| times_q8(value >> TREND_S_LOG2, dt_q8);
        self.trend_q36 -= part(self.trend_q36);
        self.tc -= part(self.tc);
        self.rc -= part(self.rc);
        self.cd -= part(self.cd);
        self.cc -= 2 * part(self.cc);
    }

    /// A long time without a word: the trend is over, `dt` passes, the noise of the rate adds up.
    fn coast(&mut self, dt_q32: i64) {
        (self.trend_q36, self.tc, self.rc, self.cd) = (0, 0, 0, 0);
        let wander = self.wander;
        self.wander.trend_q48 = 0;
        self.predict(dt_q32);
        self.wander = wander;
        // ∫∫ of the rate's noise: a third of what it would be if all came at once.
        let dt_s = dt_q32 >> 32;
        self.tt = self.tt.saturating_add((wander.rate_q40 * dt_s * dt_s * dt_s / 3) >> 16).min(VARIANCE_MAX_Q24);
        self.cc = Model::settled_trend(wander);
    }

    /// Keeps what wild stamps claim within what can be reckoned with.
    fn confine(&mut self) {
        self.offset_q24 = self.offset_q24.clamp(-OFFSET_MAX_Q24, OFFSET_MAX_Q24);
        self.rate_q32 = self.rate_q32.clamp(-RATE_MAX_Q32, RATE_MAX_Q32);
        self.trend_q36 = self.trend_q36.clamp(-TREND_MAX_Q36, TREND_MAX_Q36);
        self.delay_q24 = self.delay_q24.clamp(0, OFFSET_MAX_Q24);
    }

    fn see(&self, way: Way, usual: &Usual) -> Seen {
        let signed = |value: i64| if way == Way::There { value } else { -value };
        let (offset, delay) = (signed(self.tt) + self.td, signed(self.td) + self.dd);
        let variance_q24 = (signed(offset) + delay).max(0) + usual.blur_q24;
        Seen {
            offset,
            rate: signed(self.tr) + self.rd,
            trend: signed(self.tc) + self.cd,
            delay,
            variance_q24,
            root_q12: Root::of(variance_q24),
        }
    }

    /// Takes a bound: on that way, `bound` is at least the shortest delay plus or minus `θ`.
    pub(super) fn bound(&mut self, way: Way, bound_q24: i64, usual: &Usual) -> Met {
        let mut seen = self.see(way, usual);
        let expected = if way == Way::There { self.offset_q24 } else { -self.offset_q24 } + self.delay_q24;
        let delay_q24 = bound_q24 - expected;
        let usual_q24 = usual.delay_q8 << 16;
        let is_early = -delay_q24 > EARLY * (seen.root_q12.root << 12);
        if -delay_q24 > SURPRISING * (seen.root_q12.root << 12) {
            let out_q12 = seen.root_q12.divide(delay_q24).clamp(-COST_MAX_Q16, COST_MAX_Q16);
            self.merit_q16 -= ((out_q12 * out_q12) >> 9).min(COST_MAX_Q16);
            self.widen(-delay_q24, SURPRISING * (seen.root_q12.root << 12));
            seen = self.see(way, usual);
        }
        let deviation_q24 = seen.root_q12.root << 12;
        let is_beyond = |q24: i64, deviations: i64| q24 > deviations * deviation_q24;
        let is_near = !is_beyond(delay_q24 - (usual_q24 >> 2), 3);
        let is_far = is_beyond(delay_q24 - FAR * usual_q24, 6);
        if is_far {
            self.merit_q16 -= if usual.leans { FAR << 16 } else { 0 };
            return Met { delay_q24, is_near, is_far, is_early };
        }
        let inverse_q32 = if usual.leans { usual.inverse_q32 } else { 0 };
        let lean_q24 = mul::<32>(seen.variance_q24, inverse_q32);
        if is_beyond(delay_q24 - lean_q24, CUTS) {
            // Nothing is cut off; what is there leans.
            self.lean(&seen, inverse_q32);
            self.merit_q16 += mul::<40>(lean_q24 / 2 - delay_q24, inverse_q32);
        } else {
            self.cut(&seen, delay_q24, lean_q24, inverse_q32);
        }
        Met { delay_q24, is_near, is_far, is_early }
    }

    /// Whoever is surprised was too sure: what goes with what stays, all deviations grow until `surprise` is within
    /// what was `allowed`. A bound that cut a curve that narrow would leave a narrower one in the wrong place.
    fn widen(&mut self, surprise_q24: i64, allowed_q24: i64) {
        let is_small = |value: i64, most: i64| value <= most >> 1;
        let mut allowed_q24 = allowed_q24;
        for _ in 0..DOUBLINGS_MAX {
            let fits = is_small(self.tt, VARIANCE_MAX_Q24)
                && is_small(self.dd, VARIANCE_MAX_Q24)
                && is_small(self.rr, RATE_VARIANCE_MAX_Q40)
                && is_small(self.cc, TREND_VARIANCE_MAX_Q48);
            if surprise_q24 <= allowed_q24 || !fits {
                return;
            }
            let all = [
                &mut self.tt,
                &mut self.tr,
                &mut self.tc,
                &mut self.td,
                &mut self.rr,
                &mut self.rc,
                &mut self.rd,
                &mut self.cc,
                &mut self.cd,
                &mut self.dd,
            ];
            all.into_iter().for_each(|value| *value = value.saturating_mul(2));
            allowed_q24 += allowed_q24 * 53 / 128; // √2
        }
    }

    fn lean(&mut self, seen: &Seen, inverse_q32: i64) {
        self.offset_q24 += mul::<32>(seen.offset, inverse_q32);
        self.rate_q32 += mul::<32>(seen.rate, inverse_q32);
        self.delay_q24 += mul::<32>(seen.delay, inverse_q32);
        if self.wander.trend_q48 != 0 {
            self.trend_q36 += mul::<32>(seen.trend, inverse_q32);
        }
    }

    fn cut(&mut self, seen: &Seen, delay_q24: i64, lean_q24: i64, inverse_q32: i64) {
        let deviation_q12 = seen.root_q12.root.max(1);
        let alpha_q12 = seen.root_q12.divide(delay_q24 - lean_q24);
        let (moved_q24, narrowed_q16, merit_q16);
        if alpha_q12 > -TAIL_MAX << 12 {
            let tail = Tail::at(alpha_q12);
            moved_q24 = lean_q24 - ((deviation_q12 * tail.mean_q16) >> 4);
            narrowed_q16 = tail.narrowed_q16;
            merit_q16 = mul::<40>(lean_q24 / 2 - delay_q24, inverse_q32) - tail.cost_q16;
        } else {
            // Far out the bell curve is an exponential: it ends at the bound, and its mean is this far inside.
            moved_q24 = delay_q24 - (deviation_q12 << 24) / -alpha_q12;
            let alpha_q6 = (-alpha_q12 >> 6).min(1 << 20);
            narrowed_q16 = ONE_Q16 - (ONE_Q16 << 12) / (alpha_q6 * alpha_q6).max(1);
            let out_q12 = seen.root_q12.divide(delay_q24).clamp(-COST_MAX_Q16, COST_MAX_Q16);
            merit_q16 = -((out_q12 * out_q12) >> 9);
        }
        self.merit_q16 += merit_q16.clamp(-COST_MAX_Q16, COST_MAX_Q16);
        self.apply(seen, moved_q24, narrowed_q16);
    }

    /// Moves the means and narrows the variances, each as far as it goes with what was cut.
    fn apply(&mut self, seen: &Seen, moved_q24: i64, narrowed_q16: i64) {
        // The gains have 30 fractional bits more than their means.
        let inverse = seen.root_q12.inverse();
        let gain = |covariance: i64| inverse.times_q30(covariance);
        let part = |gain: i64| mul::<16>(gain, narrowed_q16);
        let (go, gr, gd) = (gain(seen.offset), gain(seen.rate), gain(seen.delay));
        let (po, pr, pd) = (part(go), part(gr), part(gd));
        let (tt, rr, dd) = (mul::<30>(po, seen.offset), mul::<30>(pr, seen.rate), mul::<30>(pd, seen.delay));
        let has_trend = self.wander.trend_q48 != 0;
        let gc = if has_trend { gain(seen.trend) } else { 0 };
        let cc = if has_trend { mul::<30>(part(gc), seen.trend) } else { 0 };
        let is_too_much = |cut: i64, of: i64| cut > of + (of >> 16) + 1;
        if is_too_much(tt, self.tt) || is_too_much(rr, self.rr) || is_too_much(cc, self.cc) || is_too_much(dd, self.dd)
        {
            return self.scatter();
        }
        self.offset_q24 = self.offset_q24.saturating_add(mul::<30>(go, moved_q24));
        self.rate_q32 = self.rate_q32.saturating_add(mul::<30>(gr, moved_q24));
        self.delay_q24 = self.delay_q24.saturating_add(mul::<30>(gd, moved_q24));
        if has_trend {
            self.trend_q36 = self.trend_q36.saturating_add(mul::<30>(gc, moved_q24));
            self.tc -= mul::<30>(po, seen.trend);
            self.rc -= mul::<30>(pr, seen.trend);
            self.cd -= mul::<30>(pd, seen.trend);
        }
        self.tr -= mul::<30>(po, seen.rate);
        self.td -= mul::<30>(po, seen.delay);
        self.rd -= mul::<30>(pr, seen.delay);
        (self.tt, self.rr, self.cc, self.dd) = (self.tt - tt, self.rr - rr, self.cc - cc, self.dd - dd);
        self.confine();
        // Rounding never makes anything certain.
        self.tt = self.tt.max(1 << 8);
        self.rr = self.rr.max(1 << 8);
        self.cc = self.cc.max(0);
        self.dd = self.dd.max(1 << 8);
    }
}
