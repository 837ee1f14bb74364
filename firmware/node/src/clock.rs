//! The clock that is shown: the textbook's software clock, or the disciplined one, of one source or several.
//!
//! Whoever reads the time, waits for it or serves it need not know which. A software clock is corrected by
//! whoever compared it; a disciplined clock corrects itself from the stamps of its exchanges.

use compasso_algorithms::time::{Ensemble, SoftwareClock};
use compasso_wire::{
    ClusterTime, Instant,
    config::{Adjustment, ClockChoice, HANDED_OVER_PPM, TimeSource},
};

/// What a node shows as cluster time.
// One a node, in place: what the larger one takes is there in any case.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Clock {
    Software(SoftwareClock),
    Disciplined(Ensemble),
}

impl Clock {
    pub(crate) fn new(choice: ClockChoice, drift_ppm: u32, source: TimeSource) -> Clock {
        match choice {
            ClockChoice::None | ClockChoice::Cristian | ClockChoice::Berkeley => Clock::Software(SoftwareClock::Unset),
            ClockChoice::Disciplined => {
                let parting_ppm = choice.certain_ppm(drift_ppm, source);
                Clock::Disciplined(Ensemble::parting(drift_ppm.saturating_add(HANDED_OVER_PPM), parting_ppm))
            }
        }
    }

    pub(crate) fn is_set(&self) -> bool {
        match self {
            Clock::Software(clock) => *clock != SoftwareClock::Unset,
            Clock::Disciplined(clock) => clock.is_set(),
        }
    }

    pub(crate) fn read(&self, now: Instant) -> Option<ClusterTime> {
        match self {
            Clock::Software(clock) => clock.read(now),
            Clock::Disciplined(clock) => clock.read(now),
        }
    }

    /// What it has yet to make up for, either way.
    pub(crate) fn pending_us(&self, now: Instant) -> u64 {
        match self {
            Clock::Software(clock) => clock.pending_us(now).unsigned_abs(),
            Clock::Disciplined(clock) => clock.pending_us(now),
        }
    }

    /// The first hardware time, as far as is known now, at which it shows `time`.
    pub(crate) fn when(&self, time: ClusterTime) -> Option<Instant> {
        match self {
            Clock::Software(clock) => clock.when(time),
            Clock::Disciplined(clock) => clock.when(time),
        }
    }

    /// How long it took from then to now by what is told: in cluster time where the clock's rate is its own.
    pub(crate) fn elapsed_us(&self, since: Instant, now: Instant) -> u64 {
        match self {
            Clock::Software(_) => now.since(since).0,
            Clock::Disciplined(clock) => match (clock.read(since), clock.read(now)) {
                (Some(then), Some(shown)) => shown.ahead_of_us(then).max(0) as u64,
                (_, _) => now.since(since).0,
            },
        }
    }

    /// Nobody has cluster time, and it begins with this here.
    pub(crate) fn begin(&mut self, now: Instant, time: ClusterTime) {
        match self {
            Clock::Software(clock) => clock.set(now, time),
            Clock::Disciplined(clock) => clock.lead(now, time),
        }
    }

    /// Corrects a clock that does not do so itself. Returns what is left for later corrections.
    pub(crate) fn adjust(&mut self, now: Instant, target: ClusterTime, by_us: i64, how: Adjustment) -> i64 {
        match (self, how) {
            (Clock::Software(clock @ SoftwareClock::Unset), _) | (Clock::Software(clock), Adjustment::Step) => {
                clock.set(now, target);
                0
            }
            (Clock::Software(clock), Adjustment::Slew) => clock.correct(now, by_us),
            (Clock::Disciplined(_), _) => 0,
        }
    }

    pub(crate) fn disciplined(&self) -> Option<&Ensemble> {
        match self {
            Clock::Software(_) => None,
            Clock::Disciplined(clock) => Some(clock),
        }
    }

    pub(crate) fn disciplined_mut(&mut self) -> Option<&mut Ensemble> {
        match self {
            Clock::Software(_) => None,
            Clock::Disciplined(clock) => Some(clock),
        }
    }
}
