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
//! - Voting starts over at random: no bound. It promises ME2 with probability one, so that no request that
//!   still waits breaks it; the summary counts who starves.
//!
//! Bounded in time by what delays, loss and time-outs allow (`bounds.rs`): a request that still waits at the
//! end breaks ME2 only if it has waited longer than that since it was made and since the last fault. It
//! waits in vain for somebody who is rightly inside: ME2 supposes that everybody leaves. In the simulator
//! also those that were granted must have been granted in time.

use super::waits::Waits;
use crate::{
    cluster::{Cluster, disturbs},
    entries::{Entries, Entry},
    findings::Findings,
    index::Trace,
    render::span,
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
    let troubles = troubles(trace);
    outstanding(trace, entries, &waits, &troubles, findings);
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
            for (resource, list) in &entries.by_resource {
                overtaking(trace, resource, list, (since, &waits), &troubles, findings);
            }
        }
        Err(reason) => findings.not_checked("ME2", reason, 1),
    }
    if trace.setting.is_simulated() && !is_random(trace) && unbounded(trace).is_none() {
        in_time(trace, entries, findings);
    }
}

/// From when on a request counts as waiting.
#[derive(Clone, Copy, PartialEq)]
enum Since {
    /// From when it was made.
    Made,
    /// From when all who were asked have heard of it.
    Heard,
}

fn is_random(trace: &Trace<'_>) -> bool {
    trace.setting.mutex.as_deref() == Some("voting")
}

/// Why no time is promised.
fn unbounded(trace: &Trace<'_>) -> Option<String> {
    trace
        .setting
        .leaseless()
        .map(str::to_owned)
        .or_else(|| trace.setting.restless().filter(|_| trace.setting.hardening))
}

fn outstanding(trace: &Trace<'_>, entries: &Entries, waits: &Waits<'_, '_>, troubles: &[i64], findings: &mut Findings) {
    let at_end = Cluster::after(&trace.setting.ids, trace.faults.iter().map(|(_, fault)| *fault));
    for index in entries.outstanding.iter().copied() {
        let event = trace.event(index);
        let (Some(node), Event::Request { resource }) = (event.node_id(), &event.event) else { continue };
        if trace.next_life(node, event.inc).is_some() || at_end.is_crashed(node) {
            findings.decided("ME2", 1);
            continue;
        }
        let inside = entries.inside_at_end(trace, resource);
        let stuck = inside.and_then(|entry| stuck(trace, entry));
        if trace.setting.known && !trace.ended {
            findings.not_checked("ME2", "the run was interrupted while a request waited", 1);
        } else if !at_end.is_live(node) || (trace.setting.hardening && !at_end.has_majority(node)) {
            findings.not_checked("ME2", "a node was paused or without a majority at the end", 1);
        } else if is_random(trace) {
            let reason = "voting promises ME2 only with probability one: a request was not granted before the end";
            findings.not_checked("ME2", reason, 1);
        } else if inside.is_some() && stuck.is_none() {
            findings.not_checked("ME2", "somebody was still inside when the run ended", 1);
        } else if let Some(reason) = unbounded(trace) {
            findings.not_checked("ME2", &reason, 1);
        } else if stuck.is_none() && trace.setting.known && has_time_left(trace, entries, index, troubles) {
            findings.not_checked("ME2", "the run ended before a request had waited as long as it may", 1);
        } else {
            let why = stuck.unwrap_or_else(|| waits.reason(index, &entries.outstanding, &at_end));
            findings.violation(
                "ME2",
                event.at_us(),
                vec![node],
                format!("the request of {node} was never granted{why}{}", trace.setting.excuse()),
                trace.names(&[index]),
            );
        }
    }
}

/// What keeps a request waiting if whoever is inside should have left long ago.
fn stuck(trace: &Trace<'_>, inside: &Entry) -> Option<String> {
    let hold = trace.setting.hold_max_us?;
    let since = trace.end_us? - trace.event(inside.enter).true_us?;
    (since > hold + trace.setting.settle_us()).then(|| {
        format!(": {} is inside for {}, and nobody asked for more than {}", inside.node, span(since), span(hold))
    })
}

/// Whether a request may still wait at the end: it is young, or the last fault is.
pub(crate) fn has_time_left(trace: &Trace<'_>, entries: &Entries, request: usize, troubles: &[i64]) -> bool {
    let event = trace.event(request);
    let (Some(end), Some(asked), Event::Request { resource }) = (trace.end_us, event.true_us, &event.event) else {
        return false;
    };
    let next = troubles.partition_point(|at| *at < asked - trace.setting.lease_us);
    let calm = troubles.get(next).is_none();
    let bound = if calm { trace.setting.calm_wait_us() } else { trace.setting.longest_wait_us() };
    let faults = trace.faults.iter().filter(|(_, fault)| disturbs(fault)).map(|(at, _)| *at);
    let from = faults.max().map_or(asked, |fault| fault.max(asked));
    end - from < bound || entries.idle_us(trace, resource, from, end) < bound
}

/// Moments at which the ring changed or was about to.
pub(crate) fn troubles(trace: &Trace<'_>) -> Vec<i64> {
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
    trace.before(a, b) || (trace.setting.is_exact() && by_time())
}

fn disturbed(trace: &Trace<'_>, request: usize, enter: usize, troubles: &[i64]) -> bool {
    let (Some(from), Some(until)) = (trace.event(request).true_us, trace.event(enter).true_us) else {
        // Where nobody knows true time: whatever did not surely end before the wait nor begin after it.
        let is_meanwhile = |at: usize| !trace.before(at, request) && !trace.before(enter, at);
        let mut events = trace.events.iter().enumerate().filter(|(_, event)| event.node_id().is_some());
        return events.any(|(at, event)| is_trouble(&event.event) && is_meanwhile(at));
    };
    let next = troubles.partition_point(|at| *at < from - trace.setting.lease_us);
    troubles.get(next).is_some_and(|at| *at <= until)
}

/// A request made in quiet times is granted within two rounds of turns, plus the time the cluster may take to
/// correct a wrong suspicion. The time that others are inside is theirs.
fn in_time(trace: &Trace<'_>, entries: &Entries, findings: &mut Findings) {
    let setting = &trace.setting;
    let mut disturbances: Vec<i64> =
        trace.faults.iter().filter(|(_, fault)| disturbs(fault)).map(|(at, _)| *at).collect();
    disturbances.sort_unstable();
    let quiet = |from: i64, until: i64| {
        let next = disturbances.partition_point(|at| *at < from);
        disturbances.get(next).is_none_or(|at| *at > until)
    };
    let bound = setting.longest_wait_us();
    for (resource, list) in &entries.by_resource {
        for entry in list {
            let Some(request) = entry.request else { continue };
            let (Some(asked), Some(got)) = (trace.event(request).true_us, trace.event(entry.enter).true_us) else {
                continue;
            };
            if got - asked <= bound || !quiet(asked - setting.settle_us(), got) {
                continue;
            }
            let idle = entries.idle_us(trace, resource, asked, got);
            if idle > bound {
                findings.violation(
                    "ME2",
                    got,
                    vec![entry.node],
                    format!(
                        "{} waited {} in quiet times while nobody was inside (at most {} are allowed)",
                        entry.node,
                        span(idle),
                        span(bound)
                    ),
                    trace.names(&[request, entry.enter]),
                );
            }
        }
    }
}
