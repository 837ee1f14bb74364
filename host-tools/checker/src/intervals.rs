//! What clocks claim: at every event, between which times the reference's clock is.
//!
//! A `sync` tells how wrong the clock could be right after it, and what it had yet to slew. From then on
//! the interval widens as fast as two crystals may come apart, and narrows as the clock is slewed. So one
//! field of the `sync` tells the interval at every later event. A disciplined clock tells how the ends of its
//! interval move, and a second interval that is certain.
//!
//! The reference is the clock of the node that was asked, as it went on from there: if that node dies,
//! or sets its own clock by somebody else's, it goes on at the rate that its crystal promises.

use crate::{
    index::Trace,
    trace::{Course, Event, is_host},
};
use compasso_wire::config::HANDED_OVER_PPM;
use std::collections::BTreeMap;

/// Readings are cut to whole microseconds.
const GRAIN_US: i64 = 4;

/// One event at which a clock claimed something about its reference.
pub struct Claim {
    /// The event.
    pub index: usize,
    /// The event of the `sync` that it rests on.
    pub sync: usize,
    /// Whose time it is about.
    pub source: u16,
    /// Half the width of the interval.
    pub half_us: i64,
    /// How far outside of it the reference was; nothing where that cannot be told.
    pub outside_us: Option<i64>,
    /// The clock claims another interval for certain. Otherwise its only one is.
    pub has_certain: bool,
    /// Half the width of the certain interval.
    pub certain_half_us: i64,
    /// How far outside of that one the reference was.
    pub certain_outside_us: Option<i64>,
}

/// What a `sync` claimed.
#[derive(Clone, Copy)]
struct Basis {
    sync: usize,
    source: u16,
    hw_us: i64,
    /// What the clock would show then if it were slewed already.
    aim_us: i64,
    error_us: i64,
    /// What the clock showed, and how a disciplined one goes on.
    shown_us: i64,
    course: Option<Course>,
    /// What it had yet to slew.
    pending_us: i64,
}

/// Doubt about a rate grows unseen by so much a second.
const DOUBT_PPB: i64 = compasso_algorithms::time::disciplined::CHANGE_PPB as i64;

/// So long without an exchange a disciplined clock reckons only with the leap that it tells.
const WATCHED_US: i64 = compasso_algorithms::time::disciplined::WATCHED_S as i64 * 1_000_000;

/// Every claim in the trace about somebody else's time.
#[must_use]
pub fn claims(trace: &Trace<'_>) -> Vec<Claim> {
    let timelines: BTreeMap<(u16, u32), Timeline> =
        trace.streams.iter().map(|(life, stream)| (*life, Timeline::of(trace, life.0, stream))).collect();
    let mut claims = Vec::new();
    for ((node, _), stream) in &trace.streams {
        let mut basis: Option<Basis> = None;
        for index in stream.iter().copied() {
            let event = trace.event(index);
            let (Some(hw), Some(shown)) = (event.hw_us, event.cluster_us) else { continue };
            if let Event::Sync { offset_us, error_us, bound_us: Some(bound), source: Some(source), course, .. } =
                event.event
            {
                let (error_us, bound_us) = (error_us as i64, bound as i64);
                let pending_us = (bound_us - error_us).max(0);
                let aim_us = shown + offset_us.signum() * pending_us;
                let shown_us = shown;
                basis = Some(Basis { sync: index, source, hw_us: hw, aim_us, error_us, pending_us, shown_us, course });
            }
            let Some(basis) = basis.filter(|basis| basis.source != *node) else { continue };
            let narrow = basis.within(trace.setting.bound_ppm, hw, shown);
            let claimed = basis.certain(hw, shown);
            let certain = claimed.unwrap_or(narrow);
            let reference = reference_us(trace, &timelines, &basis, event.true_us);
            let half_us = |(earliest, latest): (i64, i64)| (shown - earliest).max(latest - shown);
            let outside_us = |(earliest, latest): (i64, i64)| {
                reference.map(|(low, high)| (low - latest).max(earliest - high).max(0))
            };
            claims.push(Claim {
                index,
                sync: basis.sync,
                source: basis.source,
                half_us: half_us(narrow),
                outside_us: outside_us(narrow),
                has_certain: claimed.is_some(),
                certain_half_us: half_us(certain),
                certain_outside_us: outside_us(certain),
            });
        }
    }
    claims
}

impl Basis {
    /// The interval that is claimed at this hardware time, when the clock shows this.
    fn within(&self, rate_ppm: i64, hw_us: i64, shown_us: i64) -> (i64, i64) {
        let elapsed = (hw_us - self.hw_us).max(0);
        if let Some(course) = self.course {
            let doubt_ppb = (i128::from(elapsed) * i128::from(DOUBT_PPB) / 2_000_000) as i64;
            // A second of the slower crystal is longer than one.
            let limit_ppb = rate_ppm * 1000 + rate_ppm * rate_ppm / 1000 + 1;
            let (slow, fast) =
                ((course.slow_ppb - doubt_ppb).max(-limit_ppb), (course.fast_ppb + doubt_ppb).min(limit_ppb));
            let at = self.shown_us + elapsed;
            let mut earliest = at - course.behind_us + moved(elapsed, slow) - GRAIN_US;
            let mut latest = at + course.ahead_us + moved(elapsed, fast) + GRAIN_US;
            if let Some(brace) = course.brace {
                // After a while without an exchange, any leap.
                let unwatched = (elapsed - WATCHED_US).max(0);
                let leapt = |room_ppb: i64| {
                    let leap_ppb = brace.leap_ppb.min(room_ppb);
                    moved(elapsed, leap_ppb) + moved(unwatched, room_ppb - leap_ppb)
                };
                let (later, sooner) = (leapt(limit_ppb - fast), leapt(limit_ppb + slow));
                earliest = earliest.min(at - brace.behind_us + moved(elapsed, slow) - sooner - GRAIN_US);
                latest = latest.max(at + brace.ahead_us + moved(elapsed, fast) + later + GRAIN_US);
            }
            return (earliest.min(shown_us), latest.max(shown_us));
        }
        // Slewing only lessens what is pending: a clock that is farther from its aim has leapt, and claimed nothing of it.
        let widened = share(elapsed, rate_ppm);
        let pending = (self.aim_us + elapsed - shown_us).abs().min(self.pending_us + widened);
        let half_us = self.error_us + widened + pending + GRAIN_US;
        (shown_us - half_us, shown_us + half_us)
    }

    /// The interval that is claimed for certain, if the clock tells it apart.
    fn certain(&self, hw_us: i64, shown_us: i64) -> Option<(i64, i64)> {
        let certain = self.course?.certain?;
        let elapsed = (hw_us - self.hw_us).max(0);
        let (at, apart) = (self.shown_us + elapsed, moved(elapsed, certain.ppb) + GRAIN_US);
        Some(((at - certain.behind_us - apart).min(shown_us), (at + certain.ahead_us + apart).max(shown_us)))
    }
}

/// How far a rate carries in a span, rounded down.
fn moved(span_us: i64, ppb: i64) -> i64 {
    (i128::from(span_us) * i128::from(ppb)).div_euclid(1_000_000_000) as i64
}

/// Between which times the reference was at a true instant.
fn reference_us(
    trace: &Trace<'_>,
    timelines: &BTreeMap<(u16, u32), Timeline>,
    basis: &Basis,
    at_us: Option<i64>,
) -> Option<(i64, i64)> {
    let at = at_us?;
    let tolerance = trace.setting.tolerance_us() + GRAIN_US;
    let (low, high) = match (trace.setting.host_origin_us, basis.source) {
        (Some(origin), _) => (origin + at, origin + at),
        (None, source) if is_host(source) => return None,
        (None, source) => {
            let synced_us = trace.event(basis.sync).true_us?;
            let lives = timelines.range((source, 0)..=(source, u32::MAX));
            let (_, timeline) = lives.rev().find(|(_, timeline)| timeline.began_by(synced_us))?;
            let is_disciplined = basis.course.is_some();
            let learnt_ppm = if is_disciplined { i64::from(HANDED_OVER_PPM) } else { 0 };
            timeline.at(at, synced_us, trace.setting.drift_ppm + learnt_ppm)?
        }
    };
    Some((low - tolerance, high + tolerance))
}

/// One life's clock as it was shown, with the places at which it was set by somebody else's.
struct Timeline {
    /// (true, shown), in order.
    points: Vec<(i64, i64)>,
    /// Indices of the first points after the clock was set by another.
    breaks: Vec<usize>,
}

impl Timeline {
    fn of(trace: &Trace<'_>, node: u16, stream: &[usize]) -> Timeline {
        let mut timeline = Timeline { points: Vec::new(), breaks: Vec::new() };
        for event in stream.iter().map(|index| trace.event(*index)) {
            let (Some(at), Some(shown)) = (event.true_us, event.cluster_us) else { continue };
            if matches!(event.event, Event::Sync { source, .. } if source != Some(node)) {
                timeline.breaks.push(timeline.points.len());
            }
            timeline.points.push((at, shown));
        }
        timeline
    }

    fn began_by(&self, at_us: i64) -> bool {
        self.points.first().is_some_and(|(first, _)| *first <= at_us)
    }

    /// Between which times the clock was, as it went on from `since_us` without being set by another.
    fn at(&self, at_us: i64, since_us: i64, drift_ppm: i64) -> Option<(i64, i64)> {
        let asked = self.points.partition_point(|(at, _)| *at <= since_us);
        let later = self.breaks.partition_point(|at| *at < asked);
        let end = self.breaks.get(later).copied().unwrap_or(self.points.len());
        let known = self.points.get(..end)?;
        let next = known.partition_point(|(at, _)| *at <= at_us);
        let (t0, c0) = *known.get(next.checked_sub(1)?)?;
        let even = c0 + (at_us - t0);
        let Some((t1, c1)) = known.get(next) else {
            let drift = share(at_us - t0, drift_ppm);
            return Some((even - drift, even + drift));
        };
        // Between two events a clock is slewed in one direction, at the latest until the second of them.
        let slewed = (c1 - c0) - (t1 - t0);
        let drift = share(t1 - t0, drift_ppm);
        Some((even + slewed.min(0) - drift, even + slewed.max(0) + drift))
    }
}

/// So many parts per million of a span, rounded up.
fn share(span_us: i64, ppm: i64) -> i64 {
    (i128::from(span_us) * i128::from(ppm)).unsigned_abs().div_ceil(1_000_000) as i64
}
