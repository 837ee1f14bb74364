//! Runs every clock over every trace, on all cores, and puts the seeds together.

use crate::{
    families::{Family, Trace},
    measure::{Measured, measure, rank},
    peer::Contender,
};
use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// A clock on a family: what was measured, the median over the seeds; what must not happen, summed up.
#[derive(Clone, Debug)]
pub struct Row {
    /// Who.
    pub peer: &'static str,
    /// Somebody's product.
    pub rival: bool,
    /// Medians, sums, and the errors of the first seed.
    pub measured: Measured,
}

/// All clocks on one family.
#[derive(Clone, Debug)]
pub struct Results {
    /// Which.
    pub family: &'static Family,
    /// One each, in the order of the contenders.
    pub rows: Vec<Row>,
}

impl Results {
    /// The row of this clock.
    #[must_use]
    pub fn row(&self, peer: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.peer == peer)
    }

    /// The rival with the smallest p99.
    #[must_use]
    pub fn best_rival(&self) -> Option<&Row> {
        let rivals = self.rows.iter().filter(|row| row.rival);
        rivals.min_by(|a, b| a.measured.p99_us.total_cmp(&b.measured.p99_us))
    }

    /// How many times the p99 of `other` ours is.
    #[must_use]
    pub fn ours_over(&self, other: &Row) -> Option<f64> {
        Some(self.row("ours")?.measured.p99_us / other.measured.p99_us)
    }
}

/// Runs them all; `done` hears after each run how many of how many are done.
#[must_use]
pub fn run(
    families: &[&'static Family],
    seeds: &[u64],
    contenders: &[Contender],
    done: &(dyn Fn(usize, usize) + Sync),
) -> Vec<Results> {
    let total = families.len() * seeds.len() * contenders.len();
    let (next, finished) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let measured: Mutex<Vec<Option<Measured>>> = Mutex::new(vec![None; total]);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= total {
                        return;
                    }
                    let (family, rest) = (at / (seeds.len() * contenders.len()), at % (seeds.len() * contenders.len()));
                    let trace = Trace::new(families[family], seeds[rest / contenders.len()]);
                    let mut one = measure(&trace, &contenders[rest % contenders.len()].make);
                    if rest >= contenders.len() {
                        one.errors_us = Vec::new();
                    }
                    measured.lock().unwrap_or_else(PoisonError::into_inner)[at] = Some(one);
                    done(finished.fetch_add(1, Ordering::Relaxed) + 1, total);
                }
            });
        }
    });
    let measured = measured.into_inner().unwrap_or_else(PoisonError::into_inner);
    let of_family = |(at, family): (usize, &&'static Family)| {
        let row = |(peer, contender): (usize, &Contender)| {
            let runs = (0..seeds.len()).map(|seed| (at * seeds.len() + seed) * contenders.len() + peer);
            let runs: Vec<&Measured> = runs.filter_map(|run| measured[run].as_ref()).collect();
            Row { peer: contender.name, rival: contender.rival, measured: together(&runs) }
        };
        Results { family, rows: contenders.iter().enumerate().map(row).collect() }
    };
    families.iter().enumerate().map(of_family).collect()
}

/// The median over the seeds of what is better small, the sum of what must not be; a clock that did not converge
/// with one seed may still have with most.
fn together(runs: &[&Measured]) -> Measured {
    let median = |of: &dyn Fn(&Measured) -> f64| rank(&mut runs.iter().map(|run| of(run)).collect::<Vec<_>>(), 0.5);
    let some = |value: f64| value.is_finite().then_some(value);
    Measured {
        median_us: median(&|run| run.median_us),
        p99_us: median(&|run| run.p99_us),
        max_us: median(&|run| run.max_us),
        converged_s: some(median(&|run| run.converged_s.unwrap_or(f64::INFINITY))),
        backward_steps: runs.iter().map(|run| run.backward_steps).sum(),
        bound_violations: runs.iter().map(|run| run.bound_violations).sum(),
        half_width_ratio: some(median(&|run| run.half_width_ratio.unwrap_or(f64::INFINITY))),
        certain_violations: runs.iter().map(|run| run.certain_violations).sum(),
        certain_ratio: some(median(&|run| run.certain_ratio.unwrap_or(f64::INFINITY))),
        holdover_us: [0, 1, 2].map(|at| median(&|run| run.holdover_us[at])),
        errors_us: runs.first().map(|run| run.errors_us.clone()).unwrap_or_default(),
    }
}
