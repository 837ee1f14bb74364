//! ME2: every request is granted in the end.
//!
//! Bounded in overtakings: in quiet times nobody enters more than twice while another waits.
//!
//! - Token ring: once in the token's round, and once in a round that was under way.
//! - Lamport, Ricart-Agrawala: once with a permission that was given before the request was made, and
//!   once with one that was given to an older request. That permission carries a later time than the
//!   request's, so whatever its holder asks next is younger.
//! - Central, Suzuki-Kasami, Maekawa: the same, counted from when all who were asked have heard of the
//!   request; what they do before that is the network's fault. Queues are first come first served, or by
//!   time as above.
//! - Voting starts over at random: no bound.
//!
//! In the simulator also bounded in time, once the last fault has settled.

use super::waits::Waits;
use crate::{
    cluster::{Cluster, disturbs},
    entries::{Entries, Entry},
    findings::Findings,
    index::Trace,
    trace::Event,
};
use std::collections::BTreeMap;

/// Another node enters at most this often while a request waits and nothing disturbs.
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
    let waits = Waits::new(trace);
    outstanding(trace, entries, &waits, findings);
    let since = match trace.setting.mutex.as_deref() {
        Some("ricart-agrawala") if trace.setting.by_priority => {
            Err("who has a high priority may overtake without bound")
        }
        Some("token-ring" | "lamport" | "ricart-agrawala") => Ok(Since::Made),
        Some("central" | "suzuki-kasami" | "maekawa" | "maekawa-plain") => Ok(Since::Heard),
        Some("voting") => Err("voting starts over at random: overtakings have no bound"),
        _ => Err("overtakings: the trace does not say which algorithm it comes from"),
    };
    match since {
        Ok(since) => {
            let troubles = troubles(trace);
            for (resource, list) in &entries.by_resource {
                overtaking(trace, resource, list, (since, &waits), &troubles, findings);
            }
        }
        Err(reason) => findings.not_checked("ME2", reason, 1),
    }
    if trace.setting.is_simulated() {
        in_time(trace, entries, findings);
    }
}

/// A request this young at the end says nothing; a workload stops earlier than that.
const YOUNG_US: i64 = 1_000_000;

/// From when on a request counts as waiting.
#[derive(Clone, Copy, PartialEq)]
enum Since {
    /// From when it was made.
    Made,
    /// From when all who were asked have heard of it.
    Heard,
}

fn outstanding(trace: &Trace<'_>, entries: &Entries, waits: &Waits<'_, '_>, findings: &mut Findings) {
    let at_end = Cluster::after(&trace.setting.ids, trace.faults.iter().map(|(_, fault)| *fault));
    let last_fault = trace.faults.iter().filter(|(_, fault)| disturbs(fault)).map(|(at, _)| *at).max();
    let end_us = trace.end_us;
    let settled = match (end_us, last_fault) {
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
        } else if trace.setting.known && end_us.is_some_and(|end| end - event.at_us() < YOUNG_US) {
            findings.not_checked("ME2", "the run ended within a second of a request", 1);
        } else if !settled {
            findings.not_checked("ME2", "the last fault had not settled when the run ended", 1);
        } else {
            findings.violation(
                "ME2",
                event.at_us(),
                vec![node],
                format!(
                    "the request of {node} was never granted{}",
                    waits.reason(index, &entries.outstanding, &at_end)
                ),
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

fn overtaking(
    trace: &Trace<'_>,
    resource: &str,
    list: &[Entry],
    (since, waits): (Since, &Waits<'_, '_>),
    troubles: &[i64],
    findings: &mut Findings,
) {
    for (position, entry) in list.iter().enumerate() {
        let Some(request) = entry.request else { continue };
        let heard = match since {
            Since::Made => Some(Vec::new()),
            Since::Heard => waits.heard_by_all(request, entry.enter),
        };
        let Some(heard) = heard else { continue };
        let waited = |other: &Entry| {
            trace.before(request, other.enter) && heard.iter().all(|heard| earlier(trace, *heard, other.enter))
        };
        let mut entered: BTreeMap<u16, u64> = BTreeMap::new();
        let mut own = 0;
        let before = list[..position].iter().rev().take(SCAN_MAX);
        for other in before.take_while(|other| trace.lamport(other.enter) > trace.lamport(request)) {
            if other.node == entry.node {
                own += 1;
            } else if waited(other) && trace.before(other.enter, entry.enter) {
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

/// By causality, or by true time where that is exact.
fn earlier(trace: &Trace<'_>, a: usize, b: usize) -> bool {
    let by_time = || trace.event(a).true_us.zip(trace.event(b).true_us).is_some_and(|(a, b)| a < b);
    trace.before(a, b) || (trace.setting.is_simulated() && by_time())
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
