//! Several sources of one time, of which some lie: a servo for each, and one clock that is shown.
//! Promise: as long as more than half of the sources tell the truth, the interval holds it, wherever the others are;
//! and what is shown aims between what the truthful ones say, so that a liar moves it by no more than they differ.
//! Never backwards, at most 500 ppm from the crystal, as the servo.
//! Assumes of each truthful source what the servo assumes of its reference, and that all of them tell the same time.
//!
//! The interval is what most servos' intervals agree on (`sources.rs`). A source outside of it is a *falseticker*, and
//! is not asked for its opinion any more; the clock aims at the **median** of the others. With one liar among three:
//! while it is inside, the median of three is between the two others; once it is outside, it has no part.
//! Where no majority agrees nothing new is believed: the last agreement is carried on, and widens as the servo's does.
//!
//! Of one source the clock is its servo's, to the last bit: there is nothing to agree on.

use super::{
    CHANGE_PPB, DRIFT_DEFAULT_PPM, DRIFT_MAX_PPM, Disciplined, Exchange, FAR_MAX_US, LOCK_EXCHANGES, Role, SIZE_MAX,
    STEP_MIN_US, Taken,
    fixed::{mul, seconds_q32},
    shown::Shown,
    since_us,
    sources::agreed,
};
use compasso_wire::{ClusterTime, Duration, Instant, Interval, limits::HOSTS_MAX};
use heapless::Vec;

/// So many sources are asked at most.
pub const SOURCES_MAX: usize = HOSTS_MAX;

/// Most of several sources are heard so many times before they set the clock.
const FIRST_EXCHANGES: u32 = 4;

/// What most sources agreed on, and how that goes on: times minus the hardware time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Agreement {
    at: Instant,
    earliest_us: i64,
    latest_us: i64,
    /// The earlier end moves at least so fast against the hardware clock, the later one at most.
    slow_ppb: i64,
    fast_ppb: i64,
}

impl Agreement {
    /// Its ends and rates after a while without another one: the doubt about a rate grows, up to `limit_ppb`.
    fn carried(&self, now: Instant, limit_ppb: i64) -> Agreement {
        let span_q32 = seconds_q32(since_us(now, self.at).max(0) as u64);
        let doubt_ppb = mul::<32>(span_q32, i64::from(CHANGE_PPB));
        // Nanoseconds; on the way the doubt is half of what it is at the end.
        let moved_ns = |ppb: i64| mul::<32>(span_q32, ppb.clamp(-limit_ppb, limit_ppb));
        let slow_ns = moved_ns(self.slow_ppb.saturating_sub(doubt_ppb / 2));
        let fast_ns = moved_ns(self.fast_ppb.saturating_add(doubt_ppb / 2));
        Agreement {
            at: now,
            earliest_us: self.earliest_us.saturating_add(slow_ns.div_euclid(1000) - 1),
            latest_us: self.latest_us.saturating_add(fast_ns.div_euclid(1000) + 2),
            slow_ppb: self.slow_ppb.saturating_sub(doubt_ppb).max(-limit_ppb),
            fast_ppb: self.fast_ppb.saturating_add(doubt_ppb).min(limit_ppb),
        }
    }

    fn of(at: Instant, earliest: ClusterTime, latest: ClusterTime, slow_ppb: i64, fast_ppb: i64) -> Agreement {
        let from = |time: ClusterTime| time.0.wrapping_sub(at.0 as i64);
        Agreement { at, earliest_us: from(earliest), latest_us: from(latest), slow_ppb, fast_ppb }
    }

    fn ends(&self) -> (ClusterTime, ClusterTime) {
        let at = |offset_us: i64| ClusterTime((self.at.0 as i64).wrapping_add(offset_us));
        (at(self.earliest_us), at(self.latest_us))
    }
}

/// The servos and the clock. An exchange goes in within 10 ms of its arrival; readings may be taken at any time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ensemble {
    /// Each takes for its own what is shown here.
    servos: [Disciplined; SOURCES_MAX],
    /// So many of them have a source.
    sources: usize,
    shown: Shown,
    is_locked: bool,
    /// Nothing while the first servo's interval is all there is.
    agreement: Option<Agreement>,
    is_false: [bool; SOURCES_MAX],
    limit_ppb: i64,
}

const _: () = assert!(size_of::<Ensemble>() <= SIZE_MAX);

impl Ensemble {
    /// A clock that was never set, of one source, on a crystal that is at most `drift_ppm` off; so is the reference's.
    #[must_use]
    pub const fn new(drift_ppm: u32) -> Ensemble {
        let capped_ppm = if drift_ppm > DRIFT_MAX_PPM { DRIFT_MAX_PPM } else { drift_ppm };
        Ensemble {
            servos: [Disciplined::new(drift_ppm), Disciplined::new(drift_ppm), Disciplined::new(drift_ppm)],
            sources: 1,
            shown: Shown::UNSET,
            is_locked: false,
            agreement: None,
            is_false: [false; SOURCES_MAX],
            limit_ppb: 2000 * capped_ppm as i64,
        }
    }

    /// Takes the stamps of one exchange with this source, by its number.
    ///
    /// # Panics
    /// If there is no such source.
    pub fn exchange(&mut self, source: usize, exchange: &Exchange) -> Taken {
        let Some(servo) = self.servos.iter_mut().take(self.sources).nth(source) else {
            panic!("an exchange with a source that is not asked");
        };
        servo.shown = self.shown;
        let taken = servo.exchange(exchange);
        if taken.refused.is_some() {
            return taken;
        }
        if self.sources == 1 {
            (self.shown, self.is_locked, self.agreement) = (servo.shown, servo.is_locked, None);
        } else if self.agree(exchange.arrived) {
            self.show(exchange.arrived);
        }
        taken
    }

    /// What the clock shows; never less than before.
    #[must_use]
    pub fn read(&self, now: Instant) -> Option<ClusterTime> {
        self.shown.read(now).map(|(shown_us, _)| ClusterTime(shown_us))
    }

    /// Where the references' time lies, if more than half of them tell it.
    #[must_use]
    pub fn interval(&self, now: Instant) -> Option<Interval> {
        let best = self.read(now)?;
        let Some(agreement) = self.agreement else { return self.first().interval(now) };
        let (earliest, latest) = agreement.carried(now, self.limit_ppb).ends();
        Some(Interval { earliest: earliest.min(best), best, latest: latest.max(best) })
    }

    /// How much faster the references run than this crystal, in parts per billion.
    #[must_use]
    pub fn rate_ppb(&self) -> Option<i64> {
        let rates = self.trusted().filter_map(|(_, servo)| servo.rate_ppb());
        median(&rates.collect::<Vec<_, SOURCES_MAX>>())
    }

    /// How fast the ends of the interval move against the hardware clock from now on, in parts per billion: the
    /// earlier one at least, the later one at most, before doubt grows by [`CHANGE_PPB`] a second up to twice the drift.
    #[must_use]
    pub fn bound_ppb(&self, now: Instant) -> (i64, i64) {
        let Some(agreement) = self.agreement else { return self.first().bound_ppb() };
        let carried = agreement.carried(now, self.limit_ppb);
        (carried.slow_ppb, carried.fast_ppb)
    }

    /// What the clock has yet to make up for, either way.
    #[must_use]
    pub fn pending_us(&self, now: Instant) -> u64 {
        self.shown.pending_us(now)
    }

    /// The first hardware time, as far as is known now, at which the clock shows `time`.
    #[must_use]
    pub fn when(&self, time: ClusterTime) -> Option<Instant> {
        self.shown.when(time.0)
    }

    /// The clock shows a time.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.shown.is_set()
    }

    /// The clock has found its first references; from then on it is never set any more.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.is_locked
    }

    /// Others may go by this clock: most of its servos would say so.
    #[must_use]
    pub fn is_fit(&self) -> bool {
        self.is_locked && self.most(Disciplined::is_fit)
    }

    /// How long to wait before the next exchange with this source.
    #[must_use]
    pub fn next_in(&self, source: usize) -> Duration {
        self.servos.get(source).unwrap_or(self.first()).next_in()
    }

    /// How many sources there are.
    #[must_use]
    pub fn sources(&self) -> usize {
        self.sources
    }

    /// Which sources are outside of what most of them agree on.
    #[must_use]
    pub fn falsetickers(&self) -> [bool; SOURCES_MAX] {
        self.is_false
    }

    /// Other references, so many, which continue the time of the last ones: the rate is kept, the envelopes begin
    /// anew, and what the clock shows goes on.
    pub fn hand_over(&mut self, now: Instant, sources: usize) {
        if self.sources > 1 || sources > 1 {
            // All go on from the one that no liar has made.
            let middle = self.middle();
            self.servos.swap(0, middle);
            if let Some((first, others)) = self.servos.split_first_mut() {
                others.iter_mut().for_each(|other| other.clone_from(first));
            }
        }
        for servo in &mut self.servos {
            (servo.shown, servo.is_locked) = (self.shown, self.is_locked);
            servo.hand_over(now);
        }
        self.shown = self.first().shown;
        if sources > 1 {
            let first = self.first().interval(now).map(|within| {
                let (slow_ppb, fast_ppb) = self.first().bound_ppb();
                Agreement::of(now, within.earliest, within.latest, slow_ppb, fast_ppb)
            });
            self.agreement = self.agreement.or(first);
        }
        self.sources = sources.clamp(1, SOURCES_MAX);
        self.is_false = [false; SOURCES_MAX];
    }

    /// This node is the reference from now on: see [`Disciplined::lead`].
    pub fn lead(&mut self, now: Instant, begin: ClusterTime) {
        if self.sources > 1 {
            self.hand_over(now, 1);
        }
        let [first, ..] = &mut self.servos;
        first.lead(now, begin);
        (self.shown, self.is_locked, self.agreement) = (first.shown, first.is_locked, None);
    }

    fn first(&self) -> &Disciplined {
        let [first, ..] = &self.servos;
        first
    }

    /// The servos that have a source which is not known to lie.
    fn trusted(&self) -> impl Iterator<Item = (usize, &Disciplined)> {
        let servos = self.servos.iter().enumerate().take(self.sources);
        servos.zip(self.is_false).filter(|(_, is_false)| !is_false).map(|(servo, _)| servo)
    }

    /// More than half of all sources are trusted and like this.
    fn most(&self, like: impl Fn(&Disciplined) -> bool) -> bool {
        self.trusted().filter(|(_, servo)| like(servo)).count() * 2 > self.sources
    }

    /// Those of them that were heard.
    fn heard(&self) -> impl Iterator<Item = &Disciplined> {
        self.trusted().map(|(_, servo)| servo).filter(|servo| servo.is_heard())
    }

    /// What the middle one of them says.
    fn middle_of(&self, says: impl Fn(&Disciplined) -> i64) -> i64 {
        median(&self.heard().map(says).collect::<Vec<_, SOURCES_MAX>>()).unwrap_or(0)
    }

    /// The servo with the middle rate: that of a truthful source, or between those of two.
    fn middle(&self) -> usize {
        let rate_q32 = |servo: &Disciplined| servo.bank.best().rate_q32;
        let middle_q32 = self.middle_of(rate_q32);
        let heard = self.trusted().filter(|(_, servo)| servo.is_heard());
        heard.min_by_key(|(_, servo)| rate_q32(servo).abs_diff(middle_q32)).map_or(0, |(index, _)| index)
    }

    /// What most sources agree on, of these intervals of theirs; nothing while most of them were not heard, or disagree.
    /// One that was not heard may say anything: of two that were, one may be the liar, and only both of their intervals
    /// together hold the truth.
    fn agreed(&self, of: impl Fn(&Disciplined) -> (ClusterTime, ClusterTime)) -> Option<Interval> {
        let (mut said, mut heard): (Vec<Interval, SOURCES_MAX>, Vec<Interval, SOURCES_MAX>) = (Vec::new(), Vec::new());
        for servo in self.servos.iter().take(self.sources) {
            let is_heard = servo.is_heard();
            let (earliest, latest) = if is_heard { of(servo) } else { (ClusterTime(i64::MIN), ClusterTime(i64::MAX)) };
            let within = Interval { earliest, best: earliest, latest };
            let is_full = said.push(within).is_err() || (is_heard && heard.push(within).is_err());
            assert!(!is_full, "there is room for every source");
        }
        agreed(&heard).filter(|_| heard.len() * 2 > self.sources)?;
        agreed(&said)
    }

    /// Looks for another agreement; false if there is none.
    fn agree(&mut self, now: Instant) -> bool {
        let Some(agreed) = self.agreed(|servo| servo.bounds(now)) else { return false };
        for (servo, is_false) in self.servos.iter().zip(&mut self.is_false).take(self.sources) {
            let (earliest, latest) = servo.bounds(now);
            *is_false = servo.is_heard() && (latest < agreed.earliest || agreed.latest < earliest);
        }
        let rates = self.heard().map(Disciplined::bound_ppb);
        let (slow_ppb, fast_ppb) =
            rates.fold((i64::MAX, i64::MIN), |(slow, fast), (slowest, fastest)| (slow.min(slowest), fast.max(fastest)));
        self.agreement = Some(Agreement::of(now, agreed.earliest, agreed.latest, slow_ppb, fast_ppb));
        true
    }

    /// Bends what is shown towards the median of those that are trusted.
    fn show(&mut self, arrived: Instant) {
        if self.shown.is_bending(arrived) {
            return; // Two answers came at almost the same time: the next one makes up for this one.
        }
        let begins = if self.shown.is_set() { Shown::begins(arrived) } else { arrived };
        let Some(zero_us) = self.heard().map(|servo| servo.zero_us).next() else { return };
        let guess = ((begins.0 as i64).wrapping_add(zero_us), 0);
        let (shown_us, fraction_q32) = self.shown.read(begins).unwrap_or(guess);
        let rate_q32 = self.middle_of(|servo| servo.bank.best().rate_q32);
        let ahead_q24 = self.within(begins, shown_us, self.middle_of(|servo| servo.ahead_q24(begins, shown_us)));
        let set = |shown: &mut Shown, rate_q32: i64| {
            shown.set(begins, shown_us.wrapping_add(ahead_q24 >> 24), (ahead_q24 & 0xff_ffff) << 8, rate_q32);
        };
        if !self.shown.is_set() {
            // Each answer narrows what its source may have meant: one slow answer must not set the clock.
            if self.most(|servo| servo.exchanges >= FIRST_EXCHANGES) {
                set(&mut self.shown, 0);
            }
            return;
        }
        let missing_q24 = ahead_q24 - (fraction_q32 >> 8);
        if !self.is_locked && self.most(Disciplined::is_locked) {
            self.is_locked = true;
            if missing_q24 >> 24 > STEP_MIN_US {
                return set(&mut self.shown, rate_q32);
            }
        }
        // After a hand-over the envelopes are still wide: the rate is what is known.
        let is_coasting = self.is_locked && !self.most(|servo| servo.exchanges >= LOCK_EXCHANGES);
        self.shown.follow(begins, rate_q32, if is_coasting { 0 } else { missing_q24 });
    }

    /// How far ahead of `shown_us` the clock is to be: no farther than what is agreed on.
    fn within(&self, at: Instant, shown_us: i64, ahead_q24: i64) -> i64 {
        let Some(agreement) = self.agreement else { return ahead_q24 };
        let (earliest, latest) = agreement.carried(at, self.limit_ppb).ends();
        let ahead = |end: ClusterTime| far(end.0.wrapping_sub(shown_us)) << 24;
        ahead_q24.max(ahead(earliest)).min(ahead(latest))
    }
}

impl Default for Ensemble {
    fn default() -> Ensemble {
        Ensemble::new(DRIFT_DEFAULT_PPM)
    }
}

impl Disciplined {
    /// The present reference was heard.
    fn is_heard(&self) -> bool {
        self.role == Role::Following
    }

    /// How far what it takes for the time is ahead of `shown_us` then, µs. q24.
    fn ahead_q24(&self, at: Instant, shown_us: i64) -> i64 {
        let best = self.bank.best();
        let zero_us = (at.0 as i64).wrapping_add(self.zero_us).wrapping_sub(shown_us);
        let moved_q24 = mul::<40>(best.rate_q32, seconds_q32(since_us(at, self.last).max(0) as u64));
        (far(zero_us) << 24).saturating_add(best.offset_q24).saturating_add(moved_q24)
    }
}

/// A distance that can be reckoned with: a correction of more takes weeks in any case.
fn far(us: i64) -> i64 {
    us.clamp(-FAR_MAX_US, FAR_MAX_US)
}

/// The middle one, or the middle of the middle two; nothing of nothing.
fn median(values: &[i64]) -> Option<i64> {
    let half = values.len().div_ceil(2);
    let is_upper = |value: &i64| values.iter().filter(|other| *other <= value).count() >= half;
    let is_lower = |value: &i64| values.iter().filter(|other| *other >= value).count() >= half;
    let lower = values.iter().copied().filter(is_upper).min()?;
    let upper = values.iter().copied().filter(is_lower).max()?;
    Some(lower.midpoint(upper))
}
