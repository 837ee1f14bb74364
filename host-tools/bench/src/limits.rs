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
