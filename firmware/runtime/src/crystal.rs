//! An emulated crystal: it turns a counter's ticks into microseconds that run fast or slow.
//!
//! All embassy timers and all of the node's stamps are made of these microseconds, so that they
//! drift together, as with a real crystal. A change of rate bends time without breaking it: no
//! jump, never backwards. The arithmetic is exact to 2^-64 µs a tick and outlasts the counter.

/// No crystal is bent farther than this: 10 %.
pub const RATE_PPB_MAX: i32 = 100_000_000;

/// No alarm is set farther ahead than this; a later one is set again when it has passed.
///
/// It must be far below the wrap of a 32-bit counter (171 s at 25 MHz), which is extended to
/// 64 bits by being read more often than it wraps.
pub const ALARM_AHEAD_MAX_US: u64 = 60_000_000;

const BILLION: i64 = 1_000_000_000;

/// A crystal whose rate can be bent.
#[derive(Clone, Copy, Debug)]
pub struct Crystal {
    nominal_ticks_per_us: u32,
    rate_ppb: i32,
    /// Counter and time at the last change of rate; the fraction is in 2^-64 µs.
    bent_at_ticks: u64,
    bent_at_us: u64,
    bent_at_fraction: u64,
    /// In 2^-64 µs.
    us_per_tick: u64,
    /// In 2^-32 ticks.
    ticks_per_us: u64,
}

impl Crystal {
    /// An exact crystal whose counter stands at zero.
    #[must_use]
    pub const fn new(ticks_per_us: u32) -> Crystal {
        assert!(ticks_per_us > 1 && ticks_per_us <= 64, "the arithmetic has room for 2 to 64 MHz");
        let mut crystal = Crystal {
            nominal_ticks_per_us: ticks_per_us,
            rate_ppb: 0,
            bent_at_ticks: 0,
            bent_at_us: 0,
            bent_at_fraction: 0,
            us_per_tick: 0,
            ticks_per_us: 0,
        };
        crystal.bend(0);
        crystal
    }

    /// From the counter's reading `ticks` on, runs so much faster than nominal.
    /// What is beyond [`RATE_PPB_MAX`] is cut off.
    pub fn set_rate_ppb(&mut self, ticks: u64, ppb: i32) {
        let (us, fraction) = self.exact(ticks);
        self.bent_at_ticks = ticks;
        self.bent_at_us = us;
        self.bent_at_fraction = fraction;
        self.bend(ppb.clamp(-RATE_PPB_MAX, RATE_PPB_MAX));
    }

    /// How much faster than nominal it runs.
    #[must_use]
    pub const fn rate_ppb(&self) -> i32 {
        self.rate_ppb
    }

    /// Time when the counter reads `ticks`, which must not lie before the last change of rate.
    #[must_use]
    pub fn micros(&self, ticks: u64) -> u64 {
        self.exact(ticks).0
    }

    /// How many ticks after `ticks` it will be `at_us`: not too few, except that no answer lies
    /// farther ahead than [`ALARM_AHEAD_MAX_US`].
    #[must_use]
    pub fn ticks_until(&self, ticks: u64, at_us: u64) -> u32 {
        let ahead_us = at_us.saturating_sub(self.micros(ticks)).min(ALARM_AHEAD_MAX_US);
        // Below 2^26 × 2^38: fits. One more, because the division was rounded down.
        (((ahead_us * self.ticks_per_us) >> 32) + 1) as u32
    }

    fn exact(&self, ticks: u64) -> (u64, u64) {
        let elapsed =
            u128::from(ticks - self.bent_at_ticks) * u128::from(self.us_per_tick) + u128::from(self.bent_at_fraction);
        (self.bent_at_us + (elapsed >> 64) as u64, elapsed as u64)
    }

    const fn bend(&mut self, ppb: i32) {
        let rate = (BILLION + ppb as i64) as u64;
        let nominal = self.nominal_ticks_per_us as u64;
        self.rate_ppb = ppb;
        self.us_per_tick = (((rate as u128) << 64) / (nominal as u128 * BILLION as u128)) as u64;
        self.ticks_per_us = (((nominal as u128 * BILLION as u128) << 32) / rate as u128) as u64;
    }
}

// Alarms fit a 32-bit counter and the products fit 64 bits, with the slowest crystal at 64 MHz.
const _: () = assert!(ALARM_AHEAD_MAX_US < 1 << 26);

#[cfg(test)]
mod tests {
    use super::*;

    const MHZ: u64 = 25;
    const SECOND: u64 = 1_000_000;

    #[test]
    fn a_bent_crystal_is_off_by_exactly_its_rate_after_a_century() {
        let century_us = 100 * 365 * 86_400 * SECOND;
        for ppb in [0, 1, -1, 60_000, -60_000, RATE_PPB_MAX, -RATE_PPB_MAX] {
            let mut crystal = Crystal::new(MHZ as u32);
            crystal.set_rate_ppb(0, ppb);
            let expected = i128::from(century_us) * i128::from(BILLION + i64::from(ppb)) / i128::from(BILLION);
            let error = i128::from(crystal.micros(century_us * MHZ)) - expected;
            assert!(error.abs() <= 1, "{ppb} ppb is off by {error} µs");
        }
    }

    #[test]
    fn a_change_of_rate_neither_jumps_nor_runs_backwards() {
        let mut crystal = Crystal::new(MHZ as u32);
        let (mut ticks, mut before) = (0, 0);
        for step in 0..200_000_u64 {
            ticks += step % 97;
            let old = crystal.micros(ticks);
            let ppb = ((step * 7919) % 200_001) as i32 - 100_000;
            crystal.set_rate_ppb(ticks, ppb);
            assert_eq!(crystal.micros(ticks), old);
            assert!(old >= before);
            before = old;
        }
        // The rates average to nothing, and no fraction was lost on the way.
        let exact = ticks / MHZ;
        assert!(crystal.micros(ticks).abs_diff(exact) < exact / 10_000);
    }

    #[test]
    fn an_alarm_is_never_early_and_hardly_late() {
        for ppb in [0, 60_000, -60_000, RATE_PPB_MAX, -RATE_PPB_MAX] {
            let mut crystal = Crystal::new(MHZ as u32);
            crystal.set_rate_ppb(12_345, ppb);
            let start = 3_600 * SECOND * MHZ + 7;
            for ahead in [0, 1, 2, 999, 50_000, SECOND, 59 * SECOND] {
                let at = crystal.micros(start) + ahead;
                let rang = crystal.micros(start + u64::from(crystal.ticks_until(start, at)));
                assert!(rang >= at && rang <= at + 2, "{ppb} ppb, {ahead} µs ahead: {rang} for {at}");
            }
        }
    }

    #[test]
    fn a_distant_alarm_is_cut_to_what_the_counter_can_wait() {
        let mut crystal = Crystal::new(MHZ as u32);
        crystal.set_rate_ppb(0, -RATE_PPB_MAX);
        let ticks = crystal.ticks_until(0, u64::MAX);
        assert!(crystal.micros(u64::from(ticks)) >= ALARM_AHEAD_MAX_US);
        assert!(ticks < u32::MAX / 2);
    }
}
