//! The software clock that never runs backwards: `S = (1+a)·H + b`.
//! Promise: once set, later readings are never smaller; a correction is spread over some ticks.
//! Assumes that the hardware clock `H` itself never runs backwards.
//!
//! Before its first synchronization there is nothing to show; the first one sets the clock, in
//! either direction. All arithmetic is 64-bit fixed point: `a` has 32 fractional bits.

use compasso_wire::{ClusterTime, Duration, Instant};

/// The scale of a rate: `1 << 32` stands for 1.
pub const RATE_ONE: i64 = 1 << 32;

/// A clock that is behind by more than this is set forward instead of being sped up.
pub const STEP_FORWARD_US: i64 = 10_000_000;

/// No clock is set farther from 0: a hundred thousand years later it still does not overflow.
pub const SHOWN_MAX_US: i64 = 1 << 62;

/// A correction is spread over at least so many ticks, however small it is.
const SLEW_MIN_US: i64 = 50_000;
/// A correction uses at most this rate where it can choose: one tenth.
const SLEW_TICKS_A_MICROSECOND: i64 = 10;

/// The two numbers of `S = (1+a)·H + b`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slew {
    /// `a`, scaled by [`RATE_ONE`].
    pub a: i64,
    /// `b`, in ticks.
    pub b: i64,
}

/// At `H = h` the clock shows `l` while the true time is `t`; which `a` and `b` make it show the
/// true time again after `n` more ticks, that is `t + n`?
///
/// `a = (t − l)/n`, `b = l − (1+a)·h`. Nothing if `n` is 0 or the numbers leave 64 bits.
#[must_use]
pub fn slew(l: i64, t: i64, h: i64, n: i64) -> Option<Slew> {
    let a = t.checked_sub(l)?.checked_mul(RATE_ONE)?.checked_div(n)?;
    let stretched = h.checked_add(i64::try_from((i128::from(h) * i128::from(a)) >> 32).ok()?)?;
    Some(Slew { a, b: l.checked_sub(stretched)? })
}

/// A clock that is unset, or runs from a base and may be slewing until some tick.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SoftwareClock {
    /// Nothing to show yet.
    Unset,
    /// Showing `shown` at `base`, at rate `1 + a` until `until`, at the crystal's rate after.
    Running {
        /// Hardware time from which this piece counts.
        base: Instant,
        /// What the clock showed then.
        shown: i64,
        /// The correction of the rate, scaled by [`RATE_ONE`].
        a: i64,
        /// When the correction is complete and `a` is 0 again.
        until: Instant,
    },
}

impl SoftwareClock {
    /// The reading at `now`, once there is one.
    #[must_use]
    pub fn read(&self, now: Instant) -> Option<ClusterTime> {
        match self {
            SoftwareClock::Unset => None,
            SoftwareClock::Running { base, shown, a, until } => {
                let ticks = now.since(*base).0 as i64;
                let slewed = now.min(*until).since(*base).0 as i64;
                Some(ClusterTime(shown + ticks + ((slewed * a) >> 32)))
            }
        }
    }

    /// What is still to be added to the clock until its correction is complete.
    #[must_use]
    pub fn pending_us(&self, now: Instant) -> i64 {
        match self {
            SoftwareClock::Unset => 0,
            SoftwareClock::Running { base, a, until, .. } => {
                let slewed = |at: Instant| (at.min(*until).since(*base).0 as i64 * a) >> 32;
                slewed(*until) - slewed(now)
            }
        }
    }

    /// The first hardware time, as far as is known now, at which the clock shows `time`.
    #[must_use]
    pub fn when(&self, time: ClusterTime) -> Option<Instant> {
        let SoftwareClock::Running { base, shown, a, until } = self else { return None };
        let ahead = time.0.checked_sub(*shown)?;
        if ahead <= 0 {
            return Some(*base);
        }
        let slewing = until.since(*base).0 as i64;
        let gained = (slewing * a) >> 32;
        if ahead >= slewing + gained {
            return Some(*base + Duration((ahead - gained) as u64));
        }
        let rate = i128::from(RATE_ONE + a);
        let ticks = ((i128::from(ahead) << 32) + rate - 1) / rate;
        u64::try_from(ticks).ok().map(|ticks| *base + Duration(ticks))
    }

    /// Sets the clock, in either direction, but not beyond [`SHOWN_MAX_US`].
    pub fn set(&mut self, now: Instant, time: ClusterTime) {
        let shown = time.0.clamp(-SHOWN_MAX_US, SHOWN_MAX_US);
        *self = SoftwareClock::Running { base: now, shown, a: 0, until: now };
    }

    /// Brings the clock to `offset_us` from where it is, without ever showing less than before.
    ///
    /// Ahead, it slows to no less than half its rate; behind, it speeds up by no more than half, or
    /// steps forward when it is farther behind than [`STEP_FORWARD_US`]. Returns what is left for later
    /// corrections: a clock that is farther ahead than that is brought back in parts.
    pub fn correct(&mut self, now: Instant, offset_us: i64) -> i64 {
        let Some(ClusterTime(shown)) = self.read(now) else { return 0 };
        if offset_us > STEP_FORWARD_US {
            self.set(now, ClusterTime(shown.saturating_add(offset_us)));
            return 0;
        }
        let left_us = offset_us.min(-STEP_FORWARD_US) + STEP_FORWARD_US;
        let offset_us = offset_us.max(-STEP_FORWARD_US);
        let ticks = (offset_us.abs() * SLEW_TICKS_A_MICROSECOND)
            .clamp(SLEW_MIN_US, SLEW_MIN_US * SLEW_TICKS_A_MICROSECOND)
            .max(offset_us.abs() * 2);
        if let Some(Slew { a, .. }) = slew(shown, shown + offset_us, 0, ticks) {
            *self = SoftwareClock::Running { base: now, shown, a, until: now + Duration(ticks as u64) };
        }
        left_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slew_of_the_textbook_catches_up_in_twenty_ticks() {
        let Slew { a, b } = slew(100, 110, 50, 20).unwrap();
        assert_eq!((a, b), (RATE_ONE / 2, 25));
        let shows = |h: i64| h + ((h * a) >> 32) + b;
        assert_eq!(shows(50), 100);
        assert_eq!(shows(70), 130);
        assert!((50..70).all(|h| shows(h + 1) > shows(h)));
    }

    #[test]
    fn a_clock_that_is_ahead_slows_down_and_is_never_set_back() {
        let Slew { a, b } = slew(110, 100, 50, 20).unwrap();
        assert_eq!(a, -RATE_ONE / 2);
        let shows = |h: i64| h + ((h * a) >> 32) + b;
        assert_eq!(shows(70), 120);
        assert!((50..70).all(|h| shows(h + 1) >= shows(h)));
        assert_eq!(slew(1, 2, 3, 0), None);
    }

    #[test]
    fn no_correction_ever_turns_the_clock_back_and_each_arrives() {
        for offset_us in [-9_000_000, -200_000, -300, -1, 0, 1, 300, 200_000, 9_000_000, 20_000_000] {
            let mut clock = SoftwareClock::Unset;
            let start = Instant(5_000_000);
            clock.set(start, ClusterTime(1_000_000));
            clock.correct(start, offset_us);
            let mut last = clock.read(start).unwrap();
            for step in 0..250_000u64 {
                let now = clock.read(start + Duration(step * 100)).unwrap();
                assert!(now >= last, "{offset_us}: back at {step}");
                last = now;
            }
            assert!((clock.pending_us(start) - if offset_us > STEP_FORWARD_US { 0 } else { offset_us }).abs() <= 1);
            assert_eq!(clock.pending_us(start + Duration(25_000_000)), 0);
            for ahead in [0, 1, 77, 49_999, 50_000, 1_000_000, 20_000_000] {
                let wanted = ClusterTime(1_000_000 + offset_us.max(0) + ahead);
                let at = clock.when(wanted).unwrap();
                assert!(clock.read(at).unwrap() >= wanted, "{offset_us}: {wanted:?} is not reached at {at:?}");
                assert!(
                    at <= start || clock.read(at - Duration(2)).unwrap() < wanted,
                    "{offset_us}: {wanted:?} was reached before {at:?}"
                );
            }
            let later = Duration(25_000_000);
            let error = clock.read(start + later).unwrap().0 - (1_000_000 + offset_us + 25_000_000);
            assert!(error.abs() <= 1, "{offset_us} arrives, off by {error}");
        }
    }

    #[test]
    fn before_the_first_synchronization_there_is_nothing_to_read_or_correct() {
        let mut clock = SoftwareClock::Unset;
        assert_eq!(clock.correct(Instant(1), 5), 0);
        assert_eq!(clock.read(Instant(2)), None);
        assert_eq!((clock.pending_us(Instant(2)), clock.when(ClusterTime(5))), (0, None));
    }

    #[test]
    fn a_clock_that_is_far_ahead_is_brought_back_in_parts() {
        let mut clock = SoftwareClock::Unset;
        clock.set(Instant(0), ClusterTime(0));
        assert_eq!(clock.correct(Instant(0), -25_000_000), -15_000_000);
        assert!((clock.pending_us(Instant(0)) + 10_000_000).abs() <= 1);
    }
}
