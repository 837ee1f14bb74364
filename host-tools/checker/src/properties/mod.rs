//! What every run must keep, one file a property.
//!
//! A property that the trace's algorithms do not promise, or for which the trace holds no
//! evidence, is listed as not checked with the reason, never passed silently.

mod cache;
mod causality;
mod claims;
mod clock_bound;
mod clock_monotonic;
mod commit;
mod cut;
pub(crate) mod deadlock;
mod e1;
mod e2;
mod fence;
pub(crate) mod make;
mod me1;
mod me2;
mod me3;
mod token;
mod votes;
mod waits;

use crate::{
    entries::Entries,
    findings::{Findings, NotChecked, Violation},
    index::Trace,
    intervals::{Claim, claims},
    trace::TraceEvent,
};
use serde::Serialize;
use std::collections::BTreeMap;

pub(crate) use me2::{has_time_left, troubles};

/// All properties, by their names in a violation.
pub const PROPERTIES: [&str; 15] = [
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
    "make",
];

/// The verdict on a trace.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct CheckReport {
    /// How many events it has.
    pub events: usize,
    /// What was not kept; of each property the first ones.
    pub violations: Vec<Violation>,
    /// Further violations, counted by property.
    pub untold: BTreeMap<String, u64>,
    /// What was not decided, and why.
    pub not_checked: Vec<NotChecked>,
    /// Properties of which at least one case was decided.
    pub checked: Vec<String>,
}

impl CheckReport {
    /// How many violations there are, told and untold.
    #[must_use]
    pub fn broken(&self) -> u64 {
        self.violations.len() as u64 + self.untold.values().sum::<u64>()
    }

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
        untold: findings.untold(),
        violations: findings.violations,
        not_checked: findings.not_checked,
    }
}

pub(crate) fn check_all(trace: &Trace<'_>, entries: &Entries, claims: &[Claim]) -> Findings {
    let mut findings = Findings::default();
    causality::check(trace, &mut findings);
    me1::check(trace, entries, &mut findings);
    let turns = entries.of_turns(trace);
    me2::check(trace, &turns, &mut findings);
    me3::check(trace, &turns, &mut findings);
    e1::check(trace, &mut findings);
    e2::check(trace, &mut findings);
    token::check(trace, &mut findings);
    fence::check(trace, entries, &mut findings);
    clock_monotonic::check(trace, &mut findings);
    deadlock::check(trace, entries, &mut findings);
    commit::check(trace, &mut findings);
    cache::check(trace, &mut findings);
    make::check(trace, &mut findings);
    clock_bound::check(trace, claims, &mut findings);
    cut::check(trace, entries, &mut findings);
    findings.finish();
    findings
}

/// Nodes in order, each once.
pub(crate) fn unique(nodes: impl IntoIterator<Item = u16>) -> Vec<u16> {
    nodes.into_iter().collect::<std::collections::BTreeSet<_>>().into_iter().collect()
}
