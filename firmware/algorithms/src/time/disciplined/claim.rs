//! What the clock says of itself: the two intervals at any time, and all that is needed to tell them later.

use super::{
    Disciplined, Role,
    bound::Pair,
    fixed::{mul, seconds_q32},
    since_us,
};
use compasso_wire::{ClusterTime, Instant, Interval, telemetry::Course};

impl Disciplined {
    /// Where the reference's time lies, that of the last exchange, also after a hand-over, until the first one
    /// with the new reference. Narrow: it trusts a rate that was learnt for minutes not to leap by more than
    /// [`Disciplined::bears_ppb`].
    #[must_use]
    pub fn interval(&self, now: Instant) -> Option<Interval> {
        self.within(now, |age_q32| self.bound.narrow(age_q32))
    }

    /// The same for certain, whatever the crystals do within what is declared: for whoever decides by it.
    #[must_use]
    pub fn certain(&self, now: Instant) -> Option<Interval> {
        self.within(now, |age_q32| self.bound.certain(age_q32))
    }

    /// The leap of a rate that the narrow interval bears though nothing notices it, in parts per billion.
    #[must_use]
    pub fn bears_ppb(&self) -> i64 {
        ppb(self.bound.leap_q32())
    }

    /// Both intervals from now on, until the next exchange.
    #[must_use]
    pub fn course(&self, now: Instant) -> Option<Course> {
        let (narrow, certain) = (self.interval(now)?, self.certain(now)?);
        let braced = self.placed(now, |age_q32| self.bound.braced(age_q32))?;
        let (slow_ppb, fast_ppb) = self.bound_ppb();
        Some(Course {
            rate_ppb: signed(self.rate_ppb()?),
            behind_us: whole(behind_us(&narrow)),
            ahead_us: whole(ahead_us(&narrow)),
            slow_ppb: signed(slow_ppb),
            fast_ppb: signed(fast_ppb),
            locked: self.is_locked,
            braced_behind_us: signed(behind_us(&braced)),
            braced_ahead_us: signed(ahead_us(&braced)),
            leap_ppb: signed(self.bears_ppb() + 1),
            certain_behind_us: whole(behind_us(&certain)),
            certain_ahead_us: whole(ahead_us(&certain)),
            certain_ppb: whole(self.certain_ppb()),
        })
    }

    fn within(&self, now: Instant, pair: impl FnOnce(i64) -> Pair) -> Option<Interval> {
        let Interval { earliest, best, latest } = self.placed(now, pair)?;
        Some(Interval { earliest: earliest.min(best), best, latest: latest.max(best) })
    }

    /// Ends that may both be on the same side of what is shown.
    fn placed(&self, now: Instant, pair: impl FnOnce(i64) -> Pair) -> Option<Interval> {
        let best = self.read(now)?;
        if self.role == Role::Leading {
            return Some(Interval::around(best, 0));
        }
        let (earliest, latest) = self.ends(now, pair);
        Some(Interval { earliest, best, latest })
    }

    /// Between which times the reference is by one of the pairs, whatever is shown.
    pub(super) fn ends(&self, now: Instant, pair: impl FnOnce(i64) -> Pair) -> (ClusterTime, ClusterTime) {
        let age_us = since_us(now, self.last).max(0) as u64;
        let pair = pair(seconds_q32(age_us));
        let at = |offset_us: i64| ClusterTime((now.0 as i64).wrapping_add(self.zero_us).wrapping_add(offset_us));
        // Upwards, and a microsecond more, as the hardware time is only known to one.
        (at(pair.below_q16 >> 16), at((pair.above_q16 >> 16) + 2))
    }

    /// How fast the ends of the narrow interval move against the hardware clock, in parts per billion: the earlier one
    /// at least, the later one at most, before doubt grows by [`CHANGE_PPB`](super::CHANGE_PPB) a second.
    pub(super) fn bound_ppb(&self) -> (i64, i64) {
        let (below_q32, above_q32) = self.bound.rates_q32();
        (ppb(below_q32) - 1, ppb(above_q32) + 1)
    }

    /// How fast the ends of the certain interval move at most.
    pub(super) fn certain_ppb(&self) -> i64 {
        if self.role == Role::Leading { 0 } else { ppb(self.bound.certain_q32()) + 1 }
    }
}

pub(super) fn behind_us(within: &Interval) -> i64 {
    within.best.ahead_of_us(within.earliest)
}

pub(super) fn ahead_us(within: &Interval) -> i64 {
    within.latest.ahead_of_us(within.best)
}

pub(super) fn whole(value: i64) -> u32 {
    value.clamp(0, u32::MAX.into()) as u32
}

pub(super) fn signed(value: i64) -> i32 {
    value.clamp(i32::MIN.into(), i32::MAX.into()) as i32
}

/// From µs/s, q32, to parts per billion.
pub(super) fn ppb(rate_q32: i64) -> i64 {
    mul::<32>(rate_q32, 1000)
}
