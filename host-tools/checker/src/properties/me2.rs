//! ME2: every request is granted in the end.
//!
//! Bounded in overtakings: on a ring nobody enters more than once while another waits for the
//! token's round; a second time is allowed for a round that was under way. In the simulator also
//! bounded in time, once the last fault has settled.

use crate::{
    cluster::{Cluster, disturbs},
    entries::{Entries, Entry},
    findings::Findings,
    index::Trace,
    trace::Event,
};
use std::collections::BTreeMap;

/// Another node enters at most this often while a request waits on a ring that nothing disturbs.
const OVERTAKE_MAX: u64 = 2;
/// Of one wait, no more visits of others than this are looked at: a longer one is told long before.
const SCAN_MAX: usize = 4096;

pub(super) fn check(trace: &Trace<'_>, entries: &Entries, findings: &mut Findings) {
    if entries.requests == 0 {
        let none = trace.setting.mutex.as_deref() == Some("none");
        findings.not_checked("ME2", if none { "no mutual exclusion in this run" } else { "nobody asked to enter" }, 1);
        return;
    }
    findings.decided("ME2", entries.requests - entries.outstanding.len() as u64);
    outstanding(trace, entries, findings);
    match trace.setting.mutex.as_deref() {
        Some("token-ring") => {
            let troubles = troubles(trace);
            for (resource, list) in &entries.by_resource {
                overtaking(trace, resource, list, &troubles, findings);
            }
        }
        _ => findings.not_checked("ME2", "the bound on overtakings is known for token-ring only", 1),
    }
    if trace.setting.is_simulated() {
        in_time(trace, entries, findings);
    }
}

fn outstanding(trace: &Trace<'_>, entries: &Entries, findings: &mut Findings) {
    let at_end = Cluster::after(&trace.setting.ids, trace.faults.iter().map(|(_, fault)| *fault));
    let last_fault = trace.faults.iter().filter(|(_, fault)| disturbs(fault)).map(|(at, _)| *at).max();
    let settled = match (trace.end_us, last_fault) {
        (Some(end), Some(fault)) => end - fault >= trace.setting.settle_us(),
        _ => true,
    };
    for index in entries.outstanding.iter().copied() {
        let event = trace.event(index);
        let Some(node) = event.node_id() else { continue };
        if trace.next_life(node, event.inc).is_some() || at_end.is_crashed(node) {
            findings.decided("ME2", 1);
        } else if trace.setting.known && !trace.ended {
            findings.not_checked("ME2", "the run was interrupted while a request waited", 1);
        } else if !at_end.is_live(node) || (trace.setting.hardening && !at_end.has_majority(node)) {
            findings.not_checked("ME2", "a node was paused or without a majority at the end", 1);
        } else if !settled {
            findings.not_checked("ME2", "the last fault had not settled when the run ended", 1);
        } else {
            findings.violation(
                "ME2",
                event.at_us(),
                vec![node],
                format!("the request of {node} was never granted"),
                trace.names(&[index]),
            );
        }
    }
}

/// Moments at which the ring changed or was about to.
fn troubles(trace: &Trace<'_>) -> Vec<i64> {
    let mut troubles: Vec<i64> =
        trace.events.iter().filter(|event| is_trouble(&event.event)).filter_map(|event| event.true_us).collect();
    troubles.sort_unstable();
    troubles
}

fn is_trouble(event: &Event) -> bool {
    matches!(
        event,
        Event::Fault(_)
            | Event::Boot { .. }
            | Event::Suspect { .. }
            | Event::Trust { .. }
            | Event::View { .. }
            | Event::ElectionStart { .. }
            | Event::Leader { .. }
            | Event::TokenRegenerated { .. }
            | Event::TokenDropped { .. }
    )
}

fn overtaking(trace: &Trace<'_>, resource: &str, list: &[Entry], troubles: &[i64], findings: &mut Findings) {
    for (position, entry) in list.iter().enumerate() {
        let Some(request) = entry.request else { continue };
        let mut entered: BTreeMap<u16, u64> = BTreeMap::new();
        let mut own = 0;
        let earlier = list[..position].iter().rev().take(SCAN_MAX);
        for other in earlier.take_while(|other| trace.lamport(other.enter) > trace.lamport(request)) {
            if other.node == entry.node {
                own += 1;
            } else if trace.before(request, other.enter) && trace.before(other.enter, entry.enter) {
                *entered.entry(other.node).or_default() += 1;
            }
        }
        let Some((node, count)) = entered.into_iter().max_by_key(|(_, count)| *count) else { continue };
        if count <= OVERTAKE_MAX * (own + 1) || disturbed(trace, request, entry.enter, troubles) {
            continue;
        }
        findings.violation(
            "ME2",
            trace.event(entry.enter).at_us(),
            vec![entry.node, node],
            format!("{node} entered \"{resource}\" {count} times while the request of {} waited (at most {OVERTAKE_MAX} are allowed)", entry.node),
            trace.names(&[request, entry.enter]),
        );
    }
}

fn disturbed(trace: &Trace<'_>, request: usize, enter: usize, troubles: &[i64]) -> bool {
    let (Some(from), Some(until)) = (trace.event(request).true_us, trace.event(enter).true_us) else { return false };
    let next = troubles.partition_point(|at| *at < from - trace.setting.lease_us);
    troubles.get(next).is_some_and(|at| *at <= until)
}

/// A request made in quiet times is granted within a round of everybody's longest visit, plus the
/// time the cluster may take to correct a wrong suspicion.
fn in_time(trace: &Trace<'_>, entries: &Entries, findings: &mut Findings) {
    let setting = &trace.setting;
    let mut disturbances: Vec<i64> =
        trace.faults.iter().filter(|(_, fault)| disturbs(fault)).map(|(at, _)| *at).collect();
    disturbances.sort_unstable();
    let quiet = |from: i64, until: i64| {
        let next = disturbances.partition_point(|at| *at < from);
        disturbances.get(next).is_none_or(|at| *at > until)
    };
    let lasted = |entry: &Entry| Some(trace.event(entry.exit?).true_us? - trace.event(entry.enter).true_us?);
    for list in entries.by_resource.values() {
        let longest = list.iter().filter_map(lasted).max().unwrap_or(0);
        let round = setting.ids.len() as i64 * (longest + setting.token_rest_us + 10 * setting.delay_max_us);
        for entry in list {
            let Some(request) = entry.request else { continue };
            let (Some(asked), Some(got)) = (trace.event(request).true_us, trace.event(entry.enter).true_us) else {
                continue;
            };
            let bound = setting.settle_us() + 2 * round;
            if got - asked > bound && quiet(asked - setting.settle_us(), got) {
                findings.violation(
                    "ME2",
                    got,
                    vec![entry.node],
                    format!("{} waited {} us in quiet times (at most {bound} are allowed)", entry.node, got - asked),
                    trace.names(&[request, entry.enter]),
                );
            }
        }
    }
}
