//! Three hypotheses about the crystal side by side, and which one foretells best; what delays are usual;
//! and when a path has changed.
//!
//! A quiet crystal deserves a long memory, one that warms up a short one, and nobody says which this is.
//! So all three are reckoned, each is credited with the likelihood of what came, and the best one tells the
//! time. Credit fades within about two minutes. The steadier one is preferred: a more nervous one must have done
//! better by more than chance does.
//!
//! Delays: the usual one is the median beyond the shortest, which congestion moves little. Where nothing
//! comes near the shortest any more, on both ways for minutes or on one for long, it is not congestion:
//! the path is longer. A round trip shorter than any before proves a shorter path: crystals have no part in it.
//! Either way the shortest delay moves and the time does not: no path moves a clock. Where one way alone came
//! early just before, and it looked as if the crystal had leapt, that is undone.

use super::fixed::{Root, times_q8};
use super::model::{GAP_Q32, Met, Model, OFFSET_MAX_Q24, ROUNDING_Q24, Usual, Wander, Way};

/// From the steadiest to the most nervous; in ppb/√s and, for the trend, ppb/s/√s: 1 and 0, 3 and 0.3,
/// 100 and 2.
const WANDERS: [Wander; 3] = [
    Wander { rate_q40: 1_099_512, trend_q48: 0 },
    Wander { rate_q40: 9_895_605, trend_q48: 25_332_748 },
    Wander { rate_q40: 10_995_116_278, trend_q48: 1_125_899_907 },
];

/// By how much a more nervous hypothesis must have done better: e⁴. q16.
const PREFERENCE_Q16: i64 = 4 << 16;

/// And by how much any other, so that chance does not swing them: e. q16.
const INERTIA_Q16: i64 = 1 << 16;

/// Credit fades within so many seconds: 2⁷.
const FADING_S_LOG2: u32 = 7;

/// And within as many exchanges: more of them say more by chance too. A second each, q32.
const FADING_MIN_Q32: i64 = 1 << 32;

/// So many deviations of the rate are doubted: of the best hypothesis's, and of the second one's.
const DEVIATIONS: i64 = 3;
const DEVIATIONS_WARMING: i64 = 2;

/// Exchanges in which what is usual is still being learnt.
const LEARNING: u32 = 64;
/// The part by which each exchange then corrects it.
const LEARNT: u32 = 50;

/// So many without a near one: they are not believed to lean on the envelope.
const QUIET_LEANS: u32 = 24;
/// So many exchanges without a near one on both ways: the path has changed.
const QUIET_BOTH: u32 = 128;
/// The same on one way. A one-way congestion may last that long and costs nothing.
const QUIET_ONE: u32 = 1024;

/// What came early is undone if so few exchanges later a shorter path is proven.
const UNDONE_WITHIN: u32 = 32;

/// So many round trips show which is the shortest.
const TRIPS: u32 = 256;

/// A path is not shorter by less, µs.
const TRIP_MIN_US: i64 = 8;

/// Stamps that are off by more are none.
const BLUR_MAX_US: i64 = 10_000;

/// What is known of one way's delays beyond the shortest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Delays {
    /// The mean that goes with the median, µs. q8.
    usual_q8: u32,
    /// Exchanges it was learnt from.
    learnt: u32,
    /// Exchanges since one was near the shortest.
    quiet: u32,
    /// The least since.
    least_q24: i64,
}

impl Delays {
    const NONE: Delays = Delays { usual_q8: 256, learnt: 0, quiet: 0, least_q24: i64::MAX };

    fn usual(&self, blur_q24: i64) -> Usual {
        let delay_q8 = i64::from(self.usual_q8.max(USUAL_MIN_Q8));
        // Three quarters of what delays that fade exponentially demand: where all are alike likely, it would be half.
        let inverse_q32 = Root::of(delay_q8).inverse().times_q30(3 << 8);
        Usual { delay_q8, inverse_q32, blur_q24, leans: self.quiet < QUIET_LEANS }
    }

    fn learn(&mut self, met: &Met) {
        if met.is_near {
            (self.quiet, self.least_q24) = (0, i64::MAX);
        } else {
            self.quiet = self.quiet.saturating_add(1);
            // The first ones may have come before the change.
            if self.quiet > QUIET_LEANS {
                self.least_q24 = self.least_q24.min(met.delay_q24);
            }
        }
        self.learnt = self.learnt.saturating_add(1);
        if met.is_far && self.learnt > LEARNING {
            return;
        }
        let part = (self.learnt + 1).min(LEARNT);
        let median_q8 = i64::from(self.usual_q8) * 177 / 256; // ln 2
        if met.delay_q24 >> 16 > median_q8 {
            self.usual_q8 = (self.usual_q8 + self.usual_q8 / part + 1).min(USUAL_MAX_Q8);
        } else {
            self.usual_q8 -= self.usual_q8 / (part + 1);
        }
    }
}

/// Half a microsecond: less cannot be told with stamps of one.
const USUAL_MIN_Q8: u32 = 128;
/// Four seconds.
const USUAL_MAX_Q8: u32 = 1 << 30;

/// What an exchange did to the envelope.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Touched {
    /// It came near the shortest delay.
    pub is_near: bool,
    /// It came earlier than could be: the rate, the path or the reference has leapt.
    pub is_leap: bool,
}

/// The hypotheses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Bank {
    steady: Model,
    warming: Model,
    nervous: Model,
    best: Best,
    /// The variance of a stamp's own error, µs². q24.
    blur_q24: i64,
    there: Delays,
    back: Delays,
    /// By how much more the way there is longer than the way back since paths changed, halved. µs, q24.
    aside_q24: i64,
    trips: Trips,
    /// What was believed before something came earlier than could be, and how long ago that was.
    before: Before,
}

/// The models at some time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Before {
    models: [Model; 3],
    best: Best,
    age_q32: i64,
    /// So many exchanges more they are kept; then it was a leap.
    kept: u32,
}

/// The shortest round trips, which no crystal has a part in. µs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Trips {
    shortest_us: i64,
    count: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Best {
    Steady,
    Warming,
    Nervous,
}

impl Trips {
    const NONE: Trips = Trips { shortest_us: i64::MAX, count: 0 };

    /// By more than chance, where so much jitter is usual.
    fn is_shorter(&self, trip_us: i64, jitter_us: u32) -> bool {
        self.count >= TRIPS && trip_us < self.shortest_us - (i64::from(jitter_us) >> 3).max(TRIP_MIN_US)
    }

    fn learn(&mut self, trip_us: i64) {
        self.shortest_us = self.shortest_us.min(trip_us);
        self.count = self.count.saturating_add(1);
    }
}

impl Bank {
    pub(super) const fn new(drift_ppm: u32) -> Bank {
        let [steady, warming, nervous] = WANDERS;
        Bank {
            steady: Model::new(steady, drift_ppm),
            warming: Model::new(warming, drift_ppm),
            nervous: Model::new(nervous, drift_ppm),
            best: Best::Steady,
            blur_q24: ROUNDING_Q24,
            there: Delays::NONE,
            back: Delays::NONE,
            aside_q24: 0,
            trips: Trips::NONE,
            before: Before {
                models: [Model::new(steady, drift_ppm), Model::new(warming, drift_ppm), Model::new(nervous, drift_ppm)],
                best: Best::Steady,
                age_q32: 0,
                kept: 0,
            },
        }
    }

    /// Stamps are off by about so much, besides being whole.
    pub(super) fn blur(&mut self, by_us: u32) {
        let by_us = i64::from(by_us).min(BLUR_MAX_US);
        self.blur_q24 = ROUNDING_Q24 + ((by_us * by_us) << 24);
    }

    /// What the best one believes.
    pub(super) fn best(&self) -> &Model {
        match self.best {
            Best::Steady => &self.steady,
            Best::Warming => &self.warming,
            Best::Nervous => &self.nervous,
        }
    }

    /// Whose rate to go on at without a reference: the steadiest one has the longest memory, and is only given up
    /// if the best one contradicts it.
    pub(super) fn lasting(&self) -> &Model {
        let (least, most) = self.best().rate_within(DEVIATIONS);
        if (least..=most).contains(&self.steady.rate_q32) { &self.steady } else { self.best() }
    }

    /// Between which the rate is, µs/s, q32: what the best one believes, and also what the one believes that
    /// would notice first if the crystal began to warm up.
    pub(super) fn rate_within(&self) -> (i64, i64) {
        let (least, most) = self.best().rate_within(DEVIATIONS);
        let (least_warming, most_warming) = self.warming.rate_within(DEVIATIONS_WARMING);
        (least.min(least_warming), most.max(most_warming))
    }

    /// The usual delays beyond the shortest, there and back, µs.
    pub(super) fn usual_us(&self) -> (i64, i64) {
        (i64::from(self.there.usual_q8 >> 8), i64::from(self.back.usual_q8 >> 8))
    }

    /// The crystal behaves as the steadiest hypothesis says.
    pub(super) fn is_steady(&self) -> bool {
        self.best == Best::Steady
    }

    fn all(&mut self) -> [&mut Model; 3] {
        [&mut self.steady, &mut self.warming, &mut self.nervous]
    }

    /// A new reference, `offset_q24` ahead as far as is known, after `idle` without one: the rate is kept.
    pub(super) fn restart(&mut self, offset_q24: i64, rtt_us: i64, spread_us: i64, idle_q32: i64) {
        // The shortest delay is unknown, but below half of this round trip.
        let delay_q24 = (rtt_us << 23) / 5 * 4;
        self.all().into_iter().for_each(|model| model.restart(offset_q24, delay_q24, spread_us, idle_q32));
        // At first half of the round trip counts as jitter: too little trust costs a while, too much much longer.
        let usual_q8 = (rtt_us << 7).clamp(i64::from(USUAL_MIN_Q8), i64::from(USUAL_MAX_Q8)) as u32;
        (self.there, self.back) = (Delays { usual_q8, ..Delays::NONE }, Delays { usual_q8, ..Delays::NONE });
        (self.aside_q24, self.trips, self.before.kept) = (0, Trips::NONE, 0);
    }

    /// Time began with this crystal: who follows it continues its rate.
    pub(super) fn know_rate(&mut self) {
        self.all().into_iter().for_each(Model::know_rate);
    }

    /// Something happened that the rate does not explain.
    pub(super) fn doubt_rate(&mut self) {
        self.all().into_iter().for_each(Model::doubt_rate);
    }

    /// The zero from which offsets count moves forward by whole microseconds.
    pub(super) fn rebase(&mut self, by_us: i64) {
        self.all().into_iter().for_each(|model| model.offset_q24 -= by_us << 24);
        if self.before.kept > 0 {
            self.before.models.iter_mut().for_each(|model| model.offset_q24 -= by_us << 24);
        }
    }

    /// Lets `dt` pass, then takes the bounds of one exchange: from above, and from below.
    pub(super) fn exchange(&mut self, dt_q32: i64, above_us: i64, below_us: i64) -> Touched {
        let (there, back) = (self.there.usual(self.blur_q24), self.back.usual(self.blur_q24));
        let fading_q8 = dt_q32.clamp(FADING_MIN_Q32, GAP_Q32) >> 24;
        for model in self.all() {
            model.merit_q16 -= times_q8(model.merit_q16 >> FADING_S_LOG2, fading_q8);
            model.pass(dt_q32);
        }
        self.before.age_q32 = self.before.age_q32.saturating_add(dt_q32);
        self.before.kept = self.before.kept.saturating_sub(1);
        let believed = [self.steady, self.warming, self.nervous];
        if self.trips.is_shorter(above_us - below_us, self.there.usual_q8.saturating_add(self.back.usual_q8) >> 8) {
            self.shorten(above_us - below_us);
        }
        self.trips.learn(above_us - below_us);
        let (above_q24, below_q24) = ((above_us << 24) - self.aside_q24, (below_us << 24) - self.aside_q24);
        let best = self.best;
        let [steady, warming, nervous] = self.all().map(|model| {
            let met_there = model.bound(Way::There, above_q24, &there);
            (met_there, model.bound(Way::Back, -below_q24, &back))
        });
        let (met_there, met_back) = match best {
            Best::Steady => steady,
            Best::Warming => warming,
            Best::Nervous => nervous,
        };
        self.there.learn(&met_there);
        self.back.learn(&met_back);
        self.choose();
        self.redraw_if_quiet();
        let is_leap = met_there.is_early || met_back.is_early;
        if is_leap {
            // The one that is to catch up.
            self.nervous.doubt_rate();
        }
        if is_leap && self.before.kept == 0 {
            self.before = Before { models: believed, best, age_q32: 0, kept: UNDONE_WITHIN };
        }
        Touched { is_near: met_there.is_near || met_back.is_near, is_leap }
    }

    /// A round trip shorter than any before proves a shorter path, which moves no clock. What one way alone seemed to
    /// say just before is undone.
    fn shorten(&mut self, trip_us: i64) {
        if self.before.kept > 0 {
            [self.steady, self.warming, self.nervous] = self.before.models;
            self.best = self.before.best;
            let age_q32 = self.before.age_q32;
            self.all().into_iter().for_each(|model| model.pass(age_q32));
            self.before.kept = 0;
        }
        // The shortest path there is has ways that are alike.
        self.aside_q24 = 0;
        let half_q24 = (trip_us - self.trips.shortest_us) << 23;
        self.all().into_iter().for_each(|model| model.lengthen(half_q24, half_q24));
    }

    /// The shortest delays have changed by so much. Paths move no clock: where time is, the rate tells.
    fn lengthen(&mut self, there_q24: i64, back_q24: i64) {
        let delay_q24 = (there_q24 + back_q24) >> 1;
        let aside_q24 = self.aside_q24 + ((there_q24 - back_q24) >> 1);
        self.aside_q24 = aside_q24.clamp(-OFFSET_MAX_Q24, OFFSET_MAX_Q24);
        self.all().into_iter().for_each(|model| model.lengthen(delay_q24, delay_q24 >> 3));
        self.trips.shortest_us = self.best().delay_q24 >> 23;
        // What is less than a few of so many exchanges tell is no asymmetry.
        let blur_q24 = i64::from(self.there.usual_q8.saturating_add(self.back.usual_q8)) << 11;
        if self.aside_q24.abs() < blur_q24 {
            self.aside_q24 = 0;
        }
    }

    fn choose(&mut self) {
        let merit = |best: Best| match best {
            Best::Steady => self.steady.merit_q16,
            Best::Warming => self.warming.merit_q16 - PREFERENCE_Q16,
            Best::Nervous => self.nervous.merit_q16 - 2 * PREFERENCE_Q16,
        };
        for other in [Best::Steady, Best::Warming, Best::Nervous] {
            if merit(other) > merit(self.best) + INERTIA_Q16 {
                self.best = other;
            }
        }
    }

    fn redraw_if_quiet(&mut self) {
        let (there, back) = (self.there.quiet, self.back.quiet);
        let is_longer = there.min(back) >= QUIET_BOTH || there.max(back) >= QUIET_ONE;
        if !is_longer {
            return;
        }
        let least = |delays: &Delays| if delays.quiet >= QUIET_BOTH { delays.least_q24.max(0) } else { 0 };
        let (there, back) = (least(&self.there), least(&self.back));
        self.lengthen(there, back);
        for delays in [&mut self.there, &mut self.back] {
            (delays.quiet, delays.least_q24, delays.learnt) = (0, i64::MAX, 0);
        }
    }
}
