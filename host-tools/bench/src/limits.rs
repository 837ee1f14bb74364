//! What ours must keep to, and whether it does.

use crate::run::Results;

/// The limits on p99 for each family that has them: over the best rival, and over the oracle.
const P99: [(&str, f64, f64); 5] =
    [("lan", 0.5, 1.5), ("asym", 0.3, 1.6), ("wifi", 0.7, 4.0), ("temp", 0.4, 5.0), ("burst", 0.2, 4.5)];
/// Half the interval over half of the smallest round trip.
const HALF_WIDTH: f64 = 1.1;
/// Holdover on `lan`: after so long, at most so much.
const HOLDOVER: [(usize, &str, f64); 2] = [(1, "600", 10.0), (2, "1,800", 40.0)];
/// Over fewer seeds a ratio says too little to be judged.
pub const SEEDS_MIN: usize = 5;

/// One limit, and what was measured.
#[derive(Clone, PartialEq, Debug)]
pub struct Verdict {
    /// Which.
    pub family: &'static str,
    /// What of.
    pub what: String,
    /// What was measured; nothing if it was not.
    pub got: Option<f64>,
    /// At most this.
    pub limit: f64,
    /// Judged: a promise always is, a ratio only over enough seeds.
    pub judged: bool,
}

impl Verdict {
    /// Kept, or not judged.
    #[must_use]
    pub fn held(&self) -> bool {
        !self.judged || self.got.is_some_and(|got| got <= self.limit)
    }
}

/// Judges ours on every family that was run.
#[must_use]
pub fn judge(results: &[Results], seeds: usize) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for of in results {
        let family = of.family.name;
        let Some(ours) = of.row("ours") else { continue };
        let mut add = |what: String, got: Option<f64>, limit: f64, judged: bool| {
            verdicts.push(Verdict { family, what, got, limit, judged });
        };
        add("backward steps".to_owned(), Some(ours.measured.backward_steps as f64), 0.0, true);
        add("bound violations".to_owned(), ours.measured.bound_violations.map(|count| count as f64), 0.0, true);
        let certain = ours.measured.certain_violations.map(|count| count as f64);
        add("violations of the certain bound".to_owned(), certain, 0.0, true);
        let Some((_, rival, oracle)) = P99.iter().find(|(name, ..)| *name == family) else { continue };
        let enough = seeds >= SEEDS_MIN;
        if let Some(best) = of.best_rival() {
            add(format!("p99 over the best peer's ({})", best.peer), of.ours_over(best), *rival, enough);
        }
        if let Some(limit) = of.row("oracle") {
            add("p99 over the oracle's".to_owned(), of.ours_over(limit), *oracle, enough);
        }
        add(
            "half width over half of the smallest round trip".to_owned(),
            ours.measured.half_width_ratio,
            HALF_WIDTH,
            enough,
        );
        if family == "lan" {
            for (at, after, limit) in HOLDOVER {
                add(
                    format!("µs off {after} s after the last exchange"),
                    Some(ours.measured.holdover_us[at]),
                    limit,
                    enough,
                );
            }
        }
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        families::by_name,
        measure::Measured,
        run::{Results, Row},
    };

    /// Ours, one rival and the oracle on `lan`, with what a test wants of ours.
    fn lan(ours: Measured) -> Vec<Results> {
        let family = by_name("lan").expect("there is this family");
        let p99 = |p99_us: f64| Measured { p99_us, ..Measured::default() };
        let row = |peer, rival, measured| Row { peer, rival, measured };
        let rows = vec![
            row("ours", false, ours),
            row("cristian-step", false, p99(0.1)),
            row("ntp-proto", true, p99(12.0)),
            row("clock-bound", true, p99(6.0)),
            row("oracle", false, p99(2.0)),
        ];
        vec![Results { family, rows }]
    }

    fn good() -> Measured {
        Measured {
            p99_us: 3.0,
            bound_violations: Some(0),
            certain_violations: Some(0),
            half_width_ratio: Some(1.1),
            holdover_us: [1.0, 10.0, 40.0],
            ..Measured::default()
        }
    }

    fn broken(ours: Measured, seeds: usize) -> Vec<String> {
        let verdicts = judge(&lan(ours), seeds);
        verdicts.into_iter().filter(|verdict| !verdict.held()).map(|verdict| verdict.what).collect()
    }

    #[test]
    fn what_is_just_within_its_limits_holds() {
        assert_eq!(broken(good(), 5), Vec::<String>::new());
        assert_eq!(judge(&lan(good()), 5).len(), 8);
    }

    #[test]
    fn each_limit_can_be_broken_alone() {
        let cases = [
            (Measured { backward_steps: 1, ..good() }, "backward steps"),
            (Measured { bound_violations: Some(1), ..good() }, "bound violations"),
            (Measured { bound_violations: None, ..good() }, "bound violations"),
            (Measured { certain_violations: Some(1), ..good() }, "violations of the certain bound"),
            (Measured { half_width_ratio: Some(1.101), ..good() }, "half width over half of the smallest round trip"),
            (Measured { holdover_us: [1.0, 10.1, 40.0], ..good() }, "µs off 600 s after the last exchange"),
            (Measured { holdover_us: [1.0, 10.0, 40.1], ..good() }, "µs off 1,800 s after the last exchange"),
        ];
        for (ours, what) in cases {
            assert_eq!(broken(ours, 5), [what]);
        }
        let both = ["p99 over the best peer's (clock-bound)", "p99 over the oracle's"];
        assert_eq!(broken(Measured { p99_us: 3.1, ..good() }, 5), both);
        assert_eq!(broken(Measured { p99_us: f64::INFINITY, ..good() }, 5), both);
    }

    #[test]
    fn a_ratio_over_few_seeds_is_not_judged_but_a_promise_is() {
        assert_eq!(broken(Measured { p99_us: 99.0, ..good() }, 4), Vec::<String>::new());
        assert_eq!(broken(Measured { backward_steps: 1, ..good() }, 1), ["backward steps"]);
    }
}
