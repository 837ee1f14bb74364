//! Drift: how a board's bare crystal runs against true time, or against its reference where nobody knows that.
//!
//! The raw offset is the hardware clock minus the other one. Its slope is the crystal's rate; how it strays from the
//! straight line, over longer and longer spans, is the Allan deviation.

use crate::{
    index::Trace,
    trace::{Event, TraceEvent},
};
use serde::Serialize;

/// Spans of the Allan deviation, in seconds.
const SPANS_S: [u64; 10] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];
/// Readings on a line that are worth a rate.
const POINTS_MIN: usize = 3;
/// Two-sided, 95 %.
const DEVIATIONS: f64 = 1.96;

/// What the hardware clock is compared with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Against {
    /// True time, which the stage knows.
    TrueTime,
    /// What the reference showed, by the clock's own exchanges: with the network's jitter.
    Reference,
}

/// The Allan deviation over one span.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Allan {
    /// The span, in seconds.
    pub span_s: u64,
    /// The deviation of the mean rate from one such span to the next, in ppm.
    pub deviation_ppm: f64,
}

/// One life's crystal.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Drift {
    /// Whose.
    pub node: u16,
    /// Which of its lives.
    pub incarnation: u32,
    /// Compared with what.
    pub against: Against,
    /// Seconds from the first reading to the last.
    pub seconds: f64,
    /// How much faster than that it runs.
    pub ppm: f64,
    /// The rate is this sure, either way, with 95 %, as far as what strays from the line does so by chance each time.
    pub plus_minus_ppm: f64,
    /// Overlapping Allan deviation, where the run is long enough.
    pub allan: Vec<Allan>,
    /// How warm the board was, where it has a sensor.
    pub temperature: Option<Temperature>,
    /// (seconds, raw offset in µs).
    #[serde(skip)]
    pub points: Vec<(f64, f64)>,
}

/// What a board's sensor said, in degrees Celsius.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Temperature {
    /// The coldest.
    pub least_c: f64,
    /// The warmest.
    pub most_c: f64,
    /// (seconds by its own crystal since its first event, degrees).
    #[serde(skip)]
    pub points: Vec<(f64, f64)>,
}

impl Temperature {
    fn of<'e>(life: impl Iterator<Item = &'e TraceEvent>) -> Option<Temperature> {
        let mut began = None;
        let points = life.filter_map(|event| {
            let at = event.hw_us?;
            let since = at - *began.get_or_insert(at);
            match event.event {
                Event::Temperature { milli_celsius } => Some((since as f64 / 1e6, milli_celsius as f64 / 1e3)),
                _ => None,
            }
        });
        let points: Vec<(f64, f64)> = points.collect();
        let degrees = || points.iter().map(|point| point.1);
        let (least_c, most_c) = (degrees().reduce(f64::min)?, degrees().reduce(f64::max)?);
        Some(Temperature { least_c, most_c, points })
    }
}

/// Every life that has enough readings.
#[must_use]
pub fn drift(events: &[TraceEvent]) -> Vec<Drift> {
    let trace = Trace::new(events, None);
    let mut found = Vec::new();
    for ((node, incarnation), stream) in &trace.streams {
        let of = || stream.iter().map(|index| trace.event(*index));
        let by_truth: Vec<(i64, i64)> = of().filter_map(|event| event.true_us.zip(event.hw_us)).collect();
        let exchanges = of().filter_map(|event| match event.event {
            Event::Sync { offset_us, source, .. } if source != event.node_id() => {
                Some((event.cluster_us? + offset_us, event.hw_us?))
            }
            _ => None,
        });
        // True time of emulated boards is their hardware time bent back: it would only say what was set.
        let is_circular = trace.setting.stage == "qemu";
        let (against, readings) = match by_truth.is_empty() || is_circular {
            false => (Against::TrueTime, by_truth),
            // The first exchange finds a clock that shows nothing to be compared with.
            true => (Against::Reference, exchanges.skip(1).collect()),
        };
        let Some((first, _)) = readings.first().copied() else { continue };
        let points: Vec<(f64, f64)> =
            readings.iter().map(|(at, hw)| ((at - first) as f64 / 1e6, (hw - at) as f64)).collect();
        let Some((ppm, plus_minus_ppm)) = rate(&points) else { continue };
        let seconds = points.last().map_or(0.0, |(at, _)| *at);
        let allan = allan(&points);
        found.push(Drift {
            node: *node,
            incarnation: *incarnation,
            against,
            seconds,
            ppm,
            plus_minus_ppm,
            allan,
            temperature: Temperature::of(of()),
            points,
        });
    }
    found
}

/// The slope of the best straight line, in µs a second, and how sure it is.
fn rate(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let count = points.len() as f64;
    let mean = |part: fn(&(f64, f64)) -> f64| points.iter().map(part).sum::<f64>() / count;
    let (at, offset) = (mean(|point| point.0), mean(|point| point.1));
    let spread: f64 = points.iter().map(|point| (point.0 - at).powi(2)).sum();
    if points.len() < POINTS_MIN || spread < 1.0 {
        return None;
    }
    let slope = points.iter().map(|point| (point.0 - at) * (point.1 - offset)).sum::<f64>() / spread;
    let strays: f64 = points.iter().map(|point| (point.1 - offset - slope * (point.0 - at)).powi(2)).sum();
    Some((slope, DEVIATIONS * (strays / (count - 2.0) / spread).sqrt()))
}

/// The overlapping Allan deviation of readings that are put on a grid as fine as they are, but not below a second.
fn allan(points: &[(f64, f64)]) -> Vec<Allan> {
    let Some((last, _)) = points.last().copied() else { return Vec::new() };
    let step_s = (last / points.len() as f64).ceil().max(1.0);
    let mut grid: Vec<f64> = Vec::new();
    let mut next = 0;
    let mut at = 0.0;
    while at <= last {
        while points.get(next + 1).is_some_and(|point| point.0 <= at) {
            next += 1;
        }
        let (Some((t0, x0)), later) = (points.get(next).copied(), points.get(next + 1).copied()) else { break };
        let (t1, x1) = later.unwrap_or((t0, x0));
        grid.push(if t1 > t0 { x0 + (x1 - x0) * (at - t0) / (t1 - t0) } else { x0 });
        at += step_s;
    }
    let steps = SPANS_S.into_iter().filter(|span| (*span as f64 / step_s).fract() == 0.0);
    let spans = steps.map(|span| (span, (span as f64 / step_s) as usize)).filter(|(_, n)| grid.len() > 3 * n);
    spans
        .map(|(span_s, n)| {
            let bends = grid.windows(2 * n + 1).map(|x| (x[2 * n] - 2.0 * x[n] + x[0]).powi(2));
            let mean = bends.sum::<f64>() / (grid.len() - 2 * n) as f64;
            Allan { span_s, deviation_ppm: (mean / 2.0).sqrt() / span_s as f64 }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Readings once a second of a crystal `ppm` fast, each wrong by chance.
    fn readings(ppm: f64, noise_us: f64, seconds: u32) -> Vec<(f64, f64)> {
        let mut state: u64 = 7;
        let mut chance = move || {
            let sum: f64 = (0..12)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (state >> 11) as f64 / (1_u64 << 53) as f64
                })
                .sum();
            sum - 6.0
        };
        (0..seconds).map(|at| (f64::from(at), ppm * f64::from(at) + noise_us * chance())).collect()
    }

    #[test]
    fn a_known_rate_is_measured_back_within_what_is_claimed() {
        for ppm in [-80.0, 0.0, 0.3, 40.0] {
            let (found, sure) = rate(&readings(ppm, 50.0, 600)).unwrap();
            assert!((found - ppm).abs() < 2.0 * sure && sure < 0.1, "{found} ± {sure} of {ppm}");
        }
        assert_eq!(rate(&readings(1.0, 0.0, 2)), None, "two readings are no line");
    }

    #[test]
    fn noise_of_each_reading_falls_off_with_the_span_and_a_rate_alone_is_no_deviation() {
        let found = allan(&readings(40.0, 10.0, 7200));
        assert_eq!(found.iter().map(|allan| allan.span_s).collect::<Vec<_>>(), SPANS_S);
        for allan in &found {
            // White noise of the readings: √3 times it, by the span.
            let expected = 3.0_f64.sqrt() * 10.0 / allan.span_s as f64;
            assert!((allan.deviation_ppm / expected - 1.0).abs() < 0.2, "{allan:?}, not {expected}");
        }
        assert!(allan(&readings(40.0, 0.0, 7200)).iter().all(|allan| allan.deviation_ppm < 1e-6));
        assert_eq!(allan(&readings(1.0, 1.0, 100)).last().map(|allan| allan.span_s), Some(20), "too short for more");
    }
}
