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
    STEP_MIN_US, Taken, WATCHED_S,
    claim::{ahead_us, behind_us, signed, whole},
    fixed::{mul, seconds_q32},
    shown::Shown,
    since_us,
    sources::agreed,
};
use compasso_wire::{ClusterTime, Duration, Instant, Interval, limits::HOSTS_MAX, telemetry::Course};
use heapless::Vec;

/// So many sources are asked at most.
pub const SOURCES_MAX: usize = HOSTS_MAX;

/// Most of several sources are heard so many times before they set the clock.
const FIRST_EXCHANGES: u32 = 4;

/// What most sources agreed on, and how that goes on: times minus the hardware time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Agreement {
    at: Instant,
    narrow: Ends,
    certain: Ends,
    pace: Pace,
}

/// Two ends of an interval, µs ahead of the hardware time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Ends {
    earliest_us: i64,
    latest_us: i64,
}

/// How fast ends move against the hardware clock, in parts per billion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Pace {
    /// The earlier end of the narrow interval at least, the later one at most,
    slow: i64,
    fast: i64,
    /// and by such a leap on top of it.
    leap: i64,
    /// Both of the certain interval at most.
    certain: i64,
}

impl Ends {
    fn of(at: Instant, earliest: ClusterTime, latest: ClusterTime) -> Ends {
        let from = |time: ClusterTime| time.0.wrapping_sub(at.0 as i64);
        Ends { earliest_us: from(earliest), latest_us: from(latest) }
    }

    /// Moved by so many nanoseconds, and widened by what rounding hides.
    fn moved(&self, earlier_ns: i64, later_ns: i64) -> Ends {
        Ends {
            earliest_us: self.earliest_us.saturating_add(earlier_ns.div_euclid(1000) - 1),
            latest_us: self.latest_us.saturating_add(later_ns.div_euclid(1000) + 2),
        }
    }

    fn around(&self, at: Instant, best: ClusterTime) -> Interval {
        let at = |offset_us: i64| ClusterTime((at.0 as i64).wrapping_add(offset_us));
        Interval { earliest: at(self.earliest_us).min(best), best, latest: at(self.latest_us).max(best) }
    }
}

impl Pace {
    /// The widest of all these servos'.
    fn of<'s>(servos: impl Iterator<Item = &'s Disciplined>) -> Pace {
        let none = Pace { slow: i64::MAX, fast: i64::MIN, leap: 0, certain: 0 };
        servos.fold(none, |widest, servo| {
            let (slow, fast) = servo.bound_ppb();
            Pace {
                slow: widest.slow.min(slow),
                fast: widest.fast.max(fast),
                leap: widest.leap.max(servo.bears_ppb() + 1),
                certain: widest.certain.max(servo.certain_ppb()),
            }
        })
    }
}

impl Agreement {
    /// After a while without another one: the doubt about a rate grows, and unwatched it may have leapt to any within
    /// `limit_ppb`.
    fn carried(&self, now: Instant, limit_ppb: i64) -> Agreement {
        let span_us = since_us(now, self.at).max(0) as u64;
        let span_q32 = seconds_q32(span_us);
        let unwatched_q32 = seconds_q32(span_us.saturating_sub(u64::from(WATCHED_S) * 1_000_000));
        let doubt_ppb = mul::<32>(span_q32, i64::from(CHANGE_PPB));
        // Nanoseconds; on the way the doubt is half of what it is at the end.
        let widened_ns = |outwards_ppb: i64| {
            let ppb = outwards_ppb.saturating_add(doubt_ppb / 2).min(limit_ppb);
            let room_ppb = limit_ppb - ppb;
            let leap_ppb = self.pace.leap.min(room_ppb);
            mul::<32>(span_q32, ppb + leap_ppb) + mul::<32>(unwatched_q32, room_ppb - leap_ppb)
        };
        let certain_ns = mul::<32>(span_q32, self.pace.certain);
        Agreement {
            at: now,
            narrow: self.narrow.moved(-widened_ns(-self.pace.slow), widened_ns(self.pace.fast)),
            certain: self.certain.moved(-certain_ns, certain_ns),
            pace: Pace {
                slow: self.pace.slow.saturating_sub(doubt_ppb).max(-limit_ppb),
                fast: self.pace.fast.saturating_add(doubt_ppb).min(limit_ppb),
                ..self.pace
            },
        }
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
        let capped_ppm = if drift_ppm > DRIFT_MAX_PPM { DRIFT_MAX_PPM } else { drift_ppm } as i64;
        Ensemble {
            servos: [Disciplined::new(drift_ppm), Disciplined::new(drift_ppm), Disciplined::new(drift_ppm)],
            sources: 1,
            shown: Shown::UNSET,
            is_locked: false,
            agreement: None,
            is_false: [false; SOURCES_MAX],
            // A second of the slower crystal is longer than one.
            limit_ppb: 2000 * capped_ppm + 4 * capped_ppm * capped_ppm / 1000 + 1,
        }
    }

    /// The same where the references' clocks and this crystal part by up to `ppm`: see [`Disciplined::parting_by`].
    #[must_use]
    pub fn parting(drift_ppm: u32, ppm: u32) -> Ensemble {
        let mut clock = Ensemble::new(drift_ppm);
        // In place: a board has little room for copies while it makes its node.
        clock.servos.iter_mut().for_each(|servo| servo.bound = servo.bound.parting_by(ppm));
        clock
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

    /// How much stamps are off: see [`Disciplined::blur`].
    pub fn blur(&mut self, by_us: u32) {
        self.servos.iter_mut().for_each(|servo| servo.blur(by_us));
    }

    /// Where the references' time lies, if more than half of them tell it: see [`Disciplined::interval`].
    #[must_use]
    pub fn interval(&self, now: Instant) -> Option<Interval> {
        let best = self.read(now)?;
        let Some(agreement) = self.agreement else { return self.first().interval(now) };
        Some(agreement.carried(now, self.limit_ppb).narrow.around(now, best))
    }

    /// The same for certain, whatever the crystals do within what is declared: see [`Disciplined::certain`].
    #[must_use]
    pub fn certain(&self, now: Instant) -> Option<Interval> {
        let best = self.read(now)?;
        let Some(agreement) = self.agreement else { return self.first().certain(now) };
        Some(agreement.carried(now, self.limit_ppb).certain.around(now, best))
    }

    /// Both intervals from now on, until the next exchange.
    #[must_use]
    pub fn course(&self, now: Instant) -> Option<Course> {
        let Some(agreement) = self.agreement else { return self.first().course(now) };
        let Pace { slow, fast, leap, certain: certain_ppb } = agreement.carried(now, self.limit_ppb).pace;
        let (narrow, certain) = (self.interval(now)?, self.certain(now)?);
        Some(Course {
            rate_ppb: signed(self.rate_ppb()?),
            behind_us: whole(behind_us(&narrow)),
            ahead_us: whole(ahead_us(&narrow)),
            slow_ppb: signed(slow),
            fast_ppb: signed(fast),
            locked: self.is_locked,
            braced_behind_us: signed(behind_us(&narrow)),
            braced_ahead_us: signed(ahead_us(&narrow)),
            leap_ppb: signed(leap),
            certain_behind_us: whole(behind_us(&certain)),
            certain_ahead_us: whole(ahead_us(&certain)),
            certain_ppb: whole(certain_ppb),
        })
    }

    /// How much faster the references run than this crystal, in parts per billion.
    #[must_use]
    pub fn rate_ppb(&self) -> Option<i64> {
        let rates = self.trusted().filter_map(|(_, servo)| servo.rate_ppb());
        median(&rates.collect::<Vec<_, SOURCES_MAX>>())
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

    /// It has kept the time of its references, most of them, for a while.
    #[must_use]
    pub fn has_followed(&self) -> bool {
        self.is_set() && self.most(Disciplined::has_followed)
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
            let first = self.first();
            let alone = first.interval(now).zip(first.certain(now)).map(|(narrow, certain)| Agreement {
                at: now,
                narrow: Ends::of(now, narrow.earliest, narrow.latest),
                certain: Ends::of(now, certain.earliest, certain.latest),
                pace: Pace::of(core::iter::once(first)),
            });
            self.agreement = self.agreement.or(alone);
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
        let narrow_of = |servo: &Disciplined| servo.ends(now, |age_q32| servo.bound.narrow(age_q32));
        let certain_of = |servo: &Disciplined| servo.ends(now, |age_q32| servo.bound.certain(age_q32));
        let (Some(narrow), Some(certain)) = (self.agreed(narrow_of), self.agreed(certain_of)) else { return false };
        for (servo, is_false) in self.servos.iter().zip(&mut self.is_false).take(self.sources) {
            let (earliest, latest) = narrow_of(servo);
            *is_false = servo.is_heard() && (latest < narrow.earliest || narrow.latest < earliest);
        }
        self.agreement = Some(Agreement {
            at: now,
            narrow: Ends::of(now, narrow.earliest, narrow.latest),
            certain: Ends::of(now, certain.earliest, certain.latest),
            pace: Pace::of(self.heard()),
        });
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
        let Ends { earliest_us, latest_us } = agreement.carried(at, self.limit_ppb).narrow;
        let ahead = |end_us: i64| far((at.0 as i64).wrapping_add(end_us).wrapping_sub(shown_us)) << 24;
        ahead_q24.max(ahead(earliest_us)).min(ahead(latest_us))
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
