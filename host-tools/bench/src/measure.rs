//! What is measured of a clock on a trace.
//!
//! - **Error**: what the clock shows minus what the reference shows at the moment at which the counter reaches a
//!   tick (so that rounding down to a tick costs nobody anything), [`SAMPLES_A_SECOND`] times a second anywhere
//!   between the exchanges, from [`SETTLED_S`] on.
//! - **Converged**: the first second from which every error of a minute is at most half of the family's shortest
//!   possible delay there and back.
//! - **Backward steps**: readings lower than the one before, from the first on; the clock is read at the samples,
//!   and just before and after each exchange.
//! - **Bound violations**: readings at which the reference does not show a time of the interval at some moment of
//!   the tick.
//! - **Half-width ratio**: the median half width once locked, from [`SETTLED_S`] on, over half of the smallest
//!   round trip among the stamps.
//! - Both also of the **certain** interval, of a clock that has one which assumes nothing but the declared drift.
//! - **Holdover**: the absolute error 60, 600 and 1,800 s after the last exchange: the median of ten runs that lose
//!   the reference after 1,800, 2,400, … 7,200 s of the same trace, and read the clock every second from then on.
//!   Backward steps and bound violations count there too.

use crate::{
    families::{LENGTH_S, REFERENCE_START_US, SAMPLES_A_SECOND, Trace},
    peer::{Fine, Peer},
};

/// Errors count from here.
pub const SETTLED_S: usize = 600;
/// So long after the last exchange the holdover is measured.
pub const HOLDOVER_AT_S: [usize; 3] = [60, 600, 1_800];
/// When the reference is lost: the ten runs of a clock whose temperature swings begin at different phases.
const LOST_FROM_S: usize = 1_800;
const LOST_EVERY_S: usize = 600;
const CONVERGED_FOR_S: usize = 60;

/// What was measured.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Measured {
    /// Half of the absolute errors are at most this.
    pub median_us: f64,
    /// 99 % are.
    pub p99_us: f64,
    /// All are.
    pub max_us: f64,
    /// Seconds until the clock is there; nothing if it never is.
    pub converged_s: Option<f64>,
    /// Readings lower than the one before.
    pub backward_steps: u64,
    /// Readings whose interval does not hold the reference's time; nothing if the clock gives none.
    pub bound_violations: Option<u64>,
    /// How wide the interval is.
    pub half_width_ratio: Option<f64>,
    /// The same of the certain interval.
    pub certain_violations: Option<u64>,
    /// The same of the certain interval.
    pub certain_ratio: Option<f64>,
    /// The absolute errors at [`HOLDOVER_AT_S`].
    pub holdover_us: [f64; 3],
    /// The errors of all samples, signed.
    pub errors_us: Vec<f32>,
}

/// Runs a clock over a trace and measures it.
pub fn measure(trace: &Trace, make: &dyn Fn(&Trace) -> Box<dyn Peer>) -> Measured {
    let mut watch = Watch::new(trace, make(trace));
    let mut lost: Vec<[f64; 3]> = Vec::new();
    for at in (LOST_FROM_S..=LENGTH_S).step_by(LOST_EVERY_S) {
        watch.follow(at);
        let mut other = match watch.peer.fork() {
            Some(peer) => Watch { last: watch.last, ..Watch::new(trace, peer) },
            None => {
                let mut other = Watch::new(trace, make(trace));
                other.follow(at);
                Watch { last: other.last, ..Watch::new(trace, other.peer) }
            }
        };
        lost.push(other.hold_over(at));
        watch.backward_steps += other.backward_steps;
        watch.narrow.add(&other.narrow);
        watch.certain.add(&other.certain);
    }
    let mut measured = watch.measured();
    for (at, held) in measured.holdover_us.iter_mut().enumerate() {
        *held = rank(&mut lost.iter().map(|run| run[at]).collect::<Vec<_>>(), 0.5);
    }
    measured
}

/// The value that a share of all values does not exceed (nearest rank); nothing is infinitely much.
pub fn rank(values: &mut [f64], share: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let at = (values.len() as f64 * share).ceil() as usize;
    values.get(at.max(1) - 1).copied().unwrap_or(f64::INFINITY)
}

/// Intervals of one sort.
#[derive(Default)]
struct Intervals {
    count: u64,
    violations: u64,
    half_widths_us: Vec<f64>,
}

impl Intervals {
    /// Takes one, and from when to when the tick lasted by the reference.
    fn take(&mut self, (earliest, latest): (Fine, Fine), (from_us, to_us): (f64, f64), is_judged: bool) {
        self.count += 1;
        self.violations += u64::from(earliest.us() > from_us || latest.us() < to_us.floor());
        if is_judged {
            self.half_widths_us.push((latest.us() - earliest.us()) / 2.0);
        }
    }

    fn add(&mut self, other: &Intervals) {
        self.count += other.count;
        self.violations += other.violations;
    }

    fn violations(&self) -> Option<u64> {
        (self.count > 0).then_some(self.violations)
    }

    fn ratio(&mut self, half_us: f64) -> Option<f64> {
        (!self.half_widths_us.is_empty()).then(|| rank(&mut self.half_widths_us, 0.5) / half_us)
    }
}

/// A clock under observation.
struct Watch<'a> {
    trace: &'a Trace,
    peer: Box<dyn Peer>,
    /// So many exchanges were fed.
    fed: usize,
    last: Option<Fine>,
    errors_us: Vec<f32>,
    backward_steps: u64,
    narrow: Intervals,
    certain: Intervals,
    settled_from: u64,
}

impl<'a> Watch<'a> {
    fn new(trace: &'a Trace, peer: Box<dyn Peer>) -> Watch<'a> {
        Watch {
            trace,
            peer,
            fed: 0,
            last: None,
            errors_us: Vec::with_capacity(trace.samples.len()),
            backward_steps: 0,
            narrow: Intervals::default(),
            certain: Intervals::default(),
            settled_from: trace.crystal.counter_at(SETTLED_S as f64 * 1e6) as u64,
        }
    }

    /// Feeds the exchanges up to `seconds` that were not fed yet, and reads the samples among them, in the
    /// counter's order.
    fn follow(&mut self, seconds: usize) {
        let trace = self.trace;
        let mut samples = trace.samples[self.errors_us.len()..seconds * SAMPLES_A_SECOND].iter().copied().peekable();
        for exchange in trace.exchanges[self.fed..].iter().take_while(|exchange| exchange.second < seconds) {
            while let Some(tick) = samples.next_if(|tick| *tick < exchange.h4) {
                self.sample(tick);
            }
            self.read(exchange.h4);
            self.peer.exchange(exchange);
            self.fed += 1;
            self.read(exchange.h4);
        }
        for tick in samples {
            self.sample(tick);
        }
    }

    fn read(&mut self, tick: u64) -> Option<Fine> {
        let shown = self.peer.read(tick);
        if let (Some(shown), Some(last)) = (shown, self.last)
            && shown < last
        {
            self.backward_steps += 1;
        }
        self.last = shown.or(self.last);
        let is_judged = tick >= self.settled_from && self.peer.is_locked();
        if let Some(interval) = self.peer.interval(tick) {
            let lasted = (self.trace.crystal.reference_at(tick), self.trace.crystal.reference_at(tick + 1));
            self.narrow.take(interval, lasted, is_judged);
            if let Some(interval) = self.peer.certain(tick) {
                self.certain.take(interval, lasted, is_judged);
            }
        }
        shown
    }

    fn error_us(&mut self, tick: u64) -> f64 {
        let reference = self.trace.crystal.reference_at(tick);
        self.read(tick).map_or(f64::INFINITY, |shown| shown.us() - reference)
    }

    fn sample(&mut self, tick: u64) {
        let error = self.error_us(tick);
        self.errors_us.push(error as f32);
    }

    /// Reads on, once a second, after the reference was lost.
    fn hold_over(&mut self, lost_at: usize) -> [f64; 3] {
        let mut held = [f64::INFINITY; 3];
        for after in 1..=HOLDOVER_AT_S[2] {
            let tick = self.trace.crystal.counter_at((lost_at + after) as f64 * 1e6).ceil() as u64;
            let error = self.error_us(tick);
            if let Some(at) = HOLDOVER_AT_S.iter().position(|at| *at == after) {
                held[at] = error.abs();
            }
        }
        held
    }

    fn measured(mut self) -> Measured {
        let settled = &self.errors_us[SETTLED_S * SAMPLES_A_SECOND..];
        let mut absolute: Vec<f64> = settled.iter().map(|error| f64::from(error.abs())).collect();
        let half_us = self.trace.rtt_min_us() as f64 / 2.0;
        Measured {
            median_us: rank(&mut absolute, 0.5),
            p99_us: rank(&mut absolute, 0.99),
            max_us: rank(&mut absolute, 1.0),
            converged_s: converged(self.trace, &self.errors_us),
            backward_steps: self.backward_steps,
            bound_violations: self.narrow.violations(),
            half_width_ratio: self.narrow.ratio(half_us),
            certain_violations: self.certain.violations(),
            certain_ratio: self.certain.ratio(half_us),
            holdover_us: [f64::INFINITY; 3],
            errors_us: self.errors_us,
        }
    }
}

fn converged(trace: &Trace, errors_us: &[f32]) -> Option<f64> {
    let limit = (trace.family.ways[0].minimal_us + trace.family.ways[1].minimal_us) / 2.0;
    let mut held = 0;
    for (at, error) in errors_us.iter().enumerate() {
        held = if f64::from(error.abs()) <= limit { held + 1 } else { 0 };
        if held == CONVERGED_FOR_S * SAMPLES_A_SECOND {
            let tick = trace.samples[at + 1 - held];
            let since = trace.crystal.reference_at(tick) - REFERENCE_START_US as f64;
            return Some((since / 1e6 * 10.0).round() / 10.0);
        }
    }
    None
}

#[cfg(test)]
#[path = "measure_tests.rs"]
mod tests;
