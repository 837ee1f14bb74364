//! What every run must keep, one file a property.
//!
//! A property that the trace's algorithms do not promise, or for which the trace holds no
//! evidence, is listed as not checked with the reason, never passed silently.

mod cache;
mod causality;
mod clock_bound;
mod clock_monotonic;
mod commit;
mod e1;
mod e2;
mod fence;
mod me1;
mod me2;
mod me3;
mod token;
mod waits;

use crate::{
    bounds::{Claim, claims},
    entries::Entries,
    findings::{Findings, NotChecked, Violation},
    index::Trace,
    trace::TraceEvent,
};
use serde::Serialize;

/// All properties, by their names in a violation.
pub const PROPERTIES: [&str; 14] = [
    "ME1",
    "ME2",
    "ME3",
    "E1",
    "E2",
    "token",
    "fence",
    "clock-monotonic",
    "clock-bound",
    "causality",
    "cut",
    "deadlock",
    "commit",
    "cache",
];

/// The verdict on a trace.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct CheckReport {
    /// How many events it has.
    pub events: usize,
    /// What was not kept.
    pub violations: Vec<Violation>,
    /// What was not decided, and why.
    pub not_checked: Vec<NotChecked>,
    /// Properties of which at least one case was decided.
    pub checked: Vec<String>,
}

impl CheckReport {
    /// 0 if every promise was kept, else 1.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        u8::from(!self.violations.is_empty())
    }
}

/// Judges a trace by what is in it.
#[must_use]
pub fn check(events: &[TraceEvent]) -> CheckReport {
    let trace = Trace::new(events, None);
    let findings = check_all(&trace, &Entries::of(&trace), &claims(&trace));
    CheckReport {
        events: events.len(),
        checked: findings.checked(),
        violations: findings.violations,
        not_checked: findings.not_checked,
    }
}

pub(crate) fn check_all(trace: &Trace<'_>, entries: &Entries, claims: &[Claim]) -> Findings {
    let mut findings = Findings::default();
    causality::check(trace, &mut findings);
    me1::check(trace, entries, &mut findings);
    me2::check(trace, entries, &mut findings);
    me3::check(trace, entries, &mut findings);
    e1::check(trace, &mut findings);
    e2::check(trace, &mut findings);
    token::check(trace, &mut findings);
    fence::check(trace, entries, &mut findings);
    clock_monotonic::check(trace, &mut findings);
    commit::check(trace, &mut findings);
    cache::check(trace, &mut findings);
    clock_bound::check(trace, claims, &mut findings);
    unpromised(trace, &mut findings);
    findings.finish();
    findings
}

fn unpromised(trace: &Trace<'_>, findings: &mut Findings) {
    let has = |wanted: &str| trace.events.iter().any(|event| event.event.name() == wanted);
    let cut = if has("snapshot") { "this version does not check snapshots" } else { "no snapshot was taken" };
    findings.not_checked("cut", cut, 1);
    let waits = has("wait") || has("deadlock");
    let deadlock = if waits { "this version does not check deadlocks" } else { "no deadlock strategy in this run" };
    findings.not_checked("deadlock", deadlock, 1);
}

/// Nodes in order, each once.
pub(crate) fn unique(nodes: impl IntoIterator<Item = u16>) -> Vec<u16> {
    nodes.into_iter().collect::<std::collections::BTreeSet<_>>().into_iter().collect()
}
