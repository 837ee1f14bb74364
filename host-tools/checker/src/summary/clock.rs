//! How far the clocks were apart, sampled on a grid of true time.

use super::{
    leadership::Leadership,
    messages::Messages,
    sections::{ClockSection, Skew},
    stats::{RoundTrip, Stats},
    textbook,
};
use crate::{
    index::Trace,
    intervals::Claim,
    trace::{Event, TraceEvent, host_name},
};
use compasso_scenario::{Scenario, clock_name};
use compasso_wire::NodeId;
use std::collections::BTreeMap;

/// Distance of two samples.
const GRID_US: i64 = 20_000;
/// No more samples than this: longer runs get a wider grid.
const SAMPLES_MAX: i64 = 50_000;
/// A clock is read between two events of its node only if they are this close.
const NEIGHBOURS_US: i64 = 300_000;
/// Clocks have converged when they stay together this long.
const CALM_US: i64 = 1_000_000;

pub(super) fn section(
    scenario: &Scenario,
    trace: &Trace<'_>,
    leadership: &Leadership,
    messages: &Messages,
    claims: &[Claim],
) -> ClockSection {
    let round_trips: Vec<i64> = trace
        .events
        .iter()
        .filter_map(|event| match event.event {
            // A coordinator that begins to serve its own clock has no round trip.
            Event::Sync { rtt_us, source, .. } if source != event.node_id() => Some(rtt_us as i64),
            _ => None,
        })
        .collect();
    let syncs = round_trips.len() as u64;
    let quickest = round_trips.iter().min().copied();
    let rtt_us = RoundTrip::of(round_trips);
    let samples = sample(trace, leadership);
    let locked_us = locked(trace);
    let converged_us = rtt_us.and_then(|rtt| converged(&samples, rtt.median));
    let errors = |from: i64| {
        samples
            .iter()
            .filter(|sample| sample.at_us >= from)
            .flat_map(|sample| sample.errors_us.iter().map(|(_, error)| error.abs()))
            .collect()
    };
    let by_textbook = |from: i64| {
        samples.iter().filter(|sample| sample.at_us >= from).flat_map(|sample| sample.textbook_us.clone()).collect()
    };
    ClockSection {
        algorithm: clock_name(scenario.clock.sync).to_owned(),
        source: if trace.setting.host_origin_us.is_some() { "host" } else { "coordinator" }.to_owned(),
        error_us: Stats::of(errors(i64::MIN)),
        after_convergence: converged_us.and_then(|from| Stats::of(errors(from))),
        after_lock: locked_us.and_then(|from| Stats::of(errors(from))),
        cristian_us: locked_us.and_then(|from| Stats::of(by_textbook(from))),
        converged_us,
        spread_us: Stats::of(samples.iter().filter_map(|sample| sample.spread_us).collect()),
        raw_spread_us: raw_spread(scenario),
        rtt_us,
        jitter_us: rtt_us.zip(quickest).map(|(rtt, quickest)| rtt.p99 - quickest),
        bound_us: RoundTrip::of(claims.iter().map(|claim| claim.half_us).collect()),
        bound_broken: claims.iter().any(|claim| claim.outside_us.is_some()).then(|| broken(claims)),
        backward_steps: backward_steps(trace),
        falsetickers: falsetickers(trace),
        skew_ppm: scenario.ids.iter().map(|id| (*id, skew(scenario, trace, *id))).collect(),
        messages: messages.clock(),
        syncs,
        tolerance_us: trace.end_us.map(|_| trace.setting.tolerance_us()),
    }
}

fn falsetickers(trace: &Trace<'_>) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    for event in trace.events {
        if let Event::Falseticker { source, lies: true } = event.event
            && let Some(number) = NodeId(source).host_number()
        {
            *found.entry(host_name(number)).or_default() += 1;
        }
    }
    found
}

fn broken(claims: &[Claim]) -> u64 {
    claims.iter().filter(|claim| claim.outside_us.is_some_and(|outside| outside > 0)).count() as u64
}

fn skew(scenario: &Scenario, trace: &Trace<'_>, id: u16) -> Skew {
    let set = trace.setting.stage != "boards";
    Skew { real: set.then(|| scenario.skew_ppm(id)), estimated: estimated_ppm(scenario, trace, id) }
}

/// How fast a crystal runs by its own last estimate. What it knows is how much faster cluster time runs; that
/// began with some board's crystal and goes on at its rate, or is the host's.
fn estimated_ppm(scenario: &Scenario, trace: &Trace<'_>, id: u16) -> Option<f64> {
    let (_, stream) = trace.streams.range((id, 0)..=(id, u32::MAX)).next_back()?;
    let rate_ppb = stream.iter().rev().find_map(|index| match trace.event(*index).event {
        Event::Sync { course: Some(course), .. } if course.locked => Some(course.rate_ppb),
        _ => None,
    })?;
    let began = trace.events.iter().find_map(|event| match event.event {
        Event::Sync { source: Some(source), .. } if event.node_id() == Some(source) => Some(source),
        _ => None,
    });
    let is_told = trace.setting.host_origin_us.is_none() && trace.setting.stage != "boards";
    let began_ppm = began.filter(|_| is_told).map_or(0.0, |first| scenario.skew_ppm(first));
    Some(((1.0 + began_ppm / 1e6) / (1.0 + rate_ppb as f64 / 1e9) - 1.0) * 1e6)
}

/// From when on every disciplined clock had found its rate, as far as first lives tell.
fn locked(trace: &Trace<'_>) -> Option<i64> {
    let first_lock = |stream: &Vec<usize>| {
        stream.iter().map(|index| trace.event(*index)).find_map(|event| match event.event {
            Event::Sync { course: Some(course), .. } if course.locked => event.true_us,
            _ => None,
        })
    };
    let firsts = trace.setting.ids.iter().filter_map(|id| trace.streams.range((*id, 0)..=(*id, u32::MAX)).next());
    firsts.map(|(_, stream)| first_lock(stream)).collect::<Option<Vec<i64>>>()?.into_iter().max()
}

/// All clocks at one instant.
struct Sample {
    at_us: i64,
    /// How far each node's clock is ahead of the coordinator's, if somebody led, or of true time if the host serves it.
    errors_us: Vec<(u16, i64)>,
    /// How far Cristian's clocks would be, from the same exchanges.
    textbook_us: Vec<i64>,
    /// Largest distance between two clocks, if there are two.
    spread_us: Option<i64>,
    /// Nodes that were alive but showed no time.
    silent: bool,
}

/// How far every node's clock was ahead of the coordinator's, on a grid of true time; nothing while nobody led.
#[must_use]
pub fn clock_errors(events: &[TraceEvent]) -> Vec<(i64, Vec<(u16, i64)>)> {
    let trace = Trace::new(events, None);
    let samples = sample(&trace, &Leadership::of(&trace));
    samples.into_iter().map(|sample| (sample.at_us, sample.errors_us)).collect()
}

/// One life's clock: (true, cluster) readings, and a cursor.
struct Readings {
    node: u16,
    points: Vec<(i64, i64)>,
    /// What Cristian's clock would have shown at each of the points, if the clock was a disciplined one.
    textbook: Vec<Option<i64>>,
    /// When it began to go by its own clock, and when by somebody else's.
    serves: Vec<(i64, bool)>,
    from_us: i64,
    until_us: i64,
    cursor: usize,
}

impl Readings {
    /// The clock at `at`, if events close by tell. Called with growing `at`.
    fn read(&mut self, at: i64) -> Option<i64> {
        while self.points.get(self.cursor + 1).is_some_and(|next| next.0 <= at) {
            self.cursor += 1;
        }
        let (&(t0, c0), &(t1, c1)) = (self.points.get(self.cursor)?, self.points.get(self.cursor + 1)?);
        let near = t0 <= at && t1 - t0 < NEIGHBOURS_US && t1 > t0;
        near.then(|| between((t0, c0), (t1, c1), at))
    }

    /// Whether this clock is what others go by: not while it is itself learning the time.
    fn serves(&self, at: i64) -> bool {
        let after = self.serves.partition_point(|(from, _)| *from <= at);
        after.checked_sub(1).and_then(|last| self.serves.get(last)).is_none_or(|(_, serves)| *serves)
    }

    /// Cristian's clock at the instant that was just read.
    fn textbook(&self, at: i64) -> Option<i64> {
        let told = |index: usize| Some((self.points.get(index)?.0, (*self.textbook.get(index)?)?));
        Some(between(told(self.cursor)?, told(self.cursor + 1)?, at))
    }
}

fn between((t0, c0): (i64, i64), (t1, c1): (i64, i64), at: i64) -> i64 {
    c0 + ((c1 - c0) as i128 * (at - t0) as i128 / (t1 - t0) as i128) as i64
}

fn serves(trace: &Trace<'_>, stream: &[usize]) -> Vec<(i64, bool)> {
    let syncs = stream.iter().map(|index| trace.event(*index)).filter_map(|event| match event.event {
        Event::Sync { source, course: Some(_), .. } => Some((event.true_us?, source == event.node_id())),
        _ => None,
    });
    syncs.collect()
}

fn readings(trace: &Trace<'_>) -> Vec<Readings> {
    let lives = trace.streams.iter().filter_map(|((node, inc), stream)| {
        let known = |index: &usize| trace.event(*index).true_us;
        let from_us = stream.iter().find_map(known)?;
        let last = stream.iter().rev().find_map(known)?;
        Some(Readings {
            node: *node,
            points: stream
                .iter()
                .filter_map(|index| trace.event(*index).true_us.zip(trace.event(*index).cluster_us))
                .collect(),
            textbook: textbook::readings(trace, stream),
            serves: serves(trace, stream),
            from_us,
            until_us: trace.death_us(*node, *inc, from_us).unwrap_or(last),
            cursor: 0,
        })
    });
    lives.collect()
}

fn sample(trace: &Trace<'_>, leadership: &Leadership) -> Vec<Sample> {
    let mut lives = readings(trace);
    let end = trace.end_us.unwrap_or(0);
    let step = GRID_US.max(end / SAMPLES_MAX);
    let mut samples = Vec::new();
    let mut at = 0;
    while at <= end {
        let leader = leadership.at(at);
        let mut shown: Vec<(u16, i64)> = Vec::new();
        let mut textbook: Vec<(u16, i64)> = Vec::new();
        let mut learning = false;
        let mut silent = false;
        for life in lives.iter_mut().filter(|life| (life.from_us..life.until_us).contains(&at)) {
            match life.read(at) {
                Some(time) => {
                    shown.push((life.node, time));
                    learning |= Some(life.node) == leader && !life.serves(at);
                    textbook.extend(life.textbook(at).map(|time| (life.node, time)));
                }
                None => silent = true,
            }
        }
        let served = trace.setting.host_origin_us.map(|origin| origin + at);
        let leads = |node: u16| served.is_none() && Some(node) == leader;
        let led = shown.iter().find(|(node, _)| leads(*node) && !learning).map(|(_, time)| *time);
        let reference = served.or(led);
        let from_reference = |clocks: &[(u16, i64)]| -> Vec<(u16, i64)> {
            let others = clocks.iter().filter(|(node, _)| !leads(*node));
            others.filter_map(|(node, time)| Some((*node, time - reference?))).collect()
        };
        let errors_us = from_reference(&shown);
        let textbook_us = from_reference(&textbook).into_iter().map(|(_, error)| error.abs()).collect();
        let times = || shown.iter().map(|(_, time)| *time);
        let spread_us = times().max().zip(times().min()).map(|(max, min)| max - min).filter(|_| shown.len() > 1);
        samples.push(Sample { at_us: at, errors_us, textbook_us, spread_us, silent });
        at += step;
    }
    samples
}

/// The first instant from which on, for a second, every live clock is within `within` of all others.
fn converged(samples: &[Sample], within: i64) -> Option<i64> {
    let mut since: Option<i64> = None;
    for sample in samples {
        if !sample.silent && sample.spread_us.is_some_and(|spread| spread <= within) {
            let from = *since.get_or_insert(sample.at_us);
            if sample.at_us - from >= CALM_US {
                return Some(from);
            }
        } else {
            since = None;
        }
    }
    None
}

/// What wrong clocks at boot and the crystals alone would make of the run.
fn raw_spread(scenario: &Scenario) -> i64 {
    let spread = |elapsed: f64| {
        let shown = scenario
            .ids
            .iter()
            .map(|id| scenario.wrong_clock_us(*id, 1) as f64 + elapsed * (1.0 + scenario.skew_ppm(*id) / 1e6));
        let (min, max) = shown.fold((f64::MAX, f64::MIN), |(min, max), time| (min.min(time), max.max(time)));
        (max - min).round() as i64
    };
    spread(0.0).max(spread(scenario.duration.0 as f64))
}

fn backward_steps(trace: &Trace<'_>) -> u64 {
    let mut steps = 0;
    let mut last: BTreeMap<(u16, u32), i64> = BTreeMap::new();
    for (life, stream) in &trace.streams {
        for now in stream.iter().filter_map(|index| trace.event(*index).cluster_us) {
            steps += u64::from(last.insert(*life, now).is_some_and(|before| now < before));
        }
    }
    steps
}
