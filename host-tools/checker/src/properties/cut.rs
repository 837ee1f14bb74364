//! cut: a snapshot is a consistent cut, tokens are conserved over it, and nothing has two holders in it.
//!
//! Two recorded states are compatible iff neither knows more of the other's node than the other had done by then. Of
//! each resource and epoch there is at most one token, in some node's hands or on its way, and exactly one of the
//! highest epoch, unless it was lost before. Of each resource there is at most one holder, unless the lease of the
//! other had ended: that sends no message, so a consistent cut may show both.

use crate::{
    entries::{Entries, Entry},
    findings::Findings,
    index::Trace,
    snapshot::Snapshot,
    trace::Event,
};
use std::collections::BTreeMap;

pub(super) fn check(trace: &Trace<'_>, entries: &Entries, findings: &mut Findings) {
    let snapshots = Snapshot::all(trace);
    if snapshots.is_empty() {
        return findings.not_checked("cut", "no snapshot was taken", 1);
    }
    for snapshot in &snapshots {
        if snapshot.aborted {
            findings.not_checked("cut", "the snapshot met a crash or a change of view, and says so", 1);
            continue;
        }
        findings.decided("cut", 1);
        if let Some((first, second)) = snapshot.incompatible(trace) {
            let (before, after) = (trace.event(first), trace.event(second));
            findings.violation(
                "cut",
                after.at_us(),
                [before, after].into_iter().filter_map(|event| event.node_id()).collect(),
                format!(
                    "snapshot {} is of no moment: {} had heard from {} of what came after {}'s part",
                    snapshot.id, after.node, before.node, before.node
                ),
                trace.names(&[first, second]),
            );
        }
        holders(trace, entries, snapshot, findings);
        if snapshot.complete {
            tokens(trace, snapshot, findings);
        } else {
            findings.not_checked("cut", "the snapshot did not end: its tokens were not counted", 1);
        }
    }
}

fn holders(trace: &Trace<'_>, entries: &Entries, snapshot: &Snapshot, findings: &mut Findings) {
    let mut held: BTreeMap<&str, Vec<u16>> = BTreeMap::new();
    for (node, state) in &snapshot.nodes {
        state.holds.iter().for_each(|resource| held.entry(resource).or_default().push(*node));
    }
    for (resource, nodes) in held {
        let visit = |node: &u16| visit(trace, entries, resource, snapshot.parts[node]);
        let excused = |first: &u16, second: &u16| match (visit(first), visit(second)) {
            (Some(first), Some(second)) => is_over(trace, first, second) || is_over(trace, second, first),
            _ => false,
        };
        let pairs = nodes.iter().enumerate().flat_map(|(at, first)| nodes[at + 1..].iter().map(move |it| (first, it)));
        for (first, second) in pairs.filter(|(first, second)| !excused(first, second)) {
            findings.violation(
                "cut",
                snapshot.done_us,
                vec![*first, *second],
                format!("in snapshot {} both {first} and {second} hold \"{resource}\"", snapshot.id),
                trace.names(&[snapshot.parts[first], snapshot.parts[second]]),
            );
        }
    }
}

/// The visit during which a node recorded its part.
fn visit<'a>(trace: &Trace<'_>, entries: &'a Entries, resource: &str, part: usize) -> Option<&'a Entry> {
    let event = trace.event(part);
    entries.by_resource.get(resource)?.iter().find(|entry| {
        (Some(entry.node), entry.inc) == (event.node_id(), event.inc)
            && trace.before(entry.enter, part)
            && entry.exit.is_none_or(|exit| trace.before(part, exit))
    })
}

/// Whether the first visit ended without a message before the second began: by its lease, or by a crash.
fn is_over(trace: &Trace<'_>, first: &Entry, second: &Entry) -> bool {
    let entered = trace.event(second.enter).true_us;
    let slack = trace.setting.tolerance_us() + trace.setting.lease_us * trace.setting.drift_ppm / 1_000_000;
    match (first.end_us(trace), entered) {
        (Some(end), Some(entered)) => end <= entered + slack,
        _ => first.leased || first.fenced.is_some(),
    }
}

fn tokens(trace: &Trace<'_>, snapshot: &Snapshot, findings: &mut Findings) {
    let mut counted: BTreeMap<(&str, u64), u64> = BTreeMap::new();
    for state in snapshot.nodes.values() {
        for resource in &state.tokens {
            *counted.entry((resource, state.epoch)).or_default() += 1;
        }
    }
    for (resource, epoch) in snapshot.in_flight.iter().filter_map(|message| message.token.as_ref()) {
        *counted.entry((resource, *epoch)).or_default() += 1;
    }
    let names = || snapshot.parts.values().map(|part| trace.event(*part).name()).collect::<Vec<_>>();
    let nodes = || snapshot.nodes.keys().copied().collect::<Vec<_>>();
    for ((resource, epoch), count) in counted.iter().filter(|(_, count)| **count > 1) {
        let detail = format!("snapshot {} holds {count} tokens of \"{resource}\", epoch {epoch}", snapshot.id);
        findings.violation("cut", snapshot.done_us, nodes(), detail, names());
    }
    let Some(highest) = snapshot.nodes.values().map(|state| state.epoch).max() else { return };
    for resource in circulating(trace, highest) {
        let is_there = counted.contains_key(&(resource, highest));
        if !is_there && !is_lost(trace, resource, highest, snapshot.done_us) {
            let detail = format!("snapshot {} holds no token of \"{resource}\", epoch {highest}", snapshot.id);
            findings.violation("cut", snapshot.done_us, nodes(), detail, names());
        }
    }
}

/// The resources that have a token in this epoch.
fn circulating<'a>(trace: &Trace<'a>, wanted: u64) -> Vec<&'a str> {
    let mut resources: Vec<&str> = trace
        .events
        .iter()
        .filter_map(|event| match &event.event {
            Event::Token { resource, epoch, .. } if *epoch == wanted => Some(resource.as_ref()),
            _ => None,
        })
        .collect();
    resources.sort_unstable();
    resources.dedup();
    resources
}

fn is_lost(trace: &Trace<'_>, wanted: &str, of: u64, by_us: i64) -> bool {
    trace.events.iter().any(|event| match &event.event {
        Event::TokenDropped { resource, epoch } => resource == wanted && *epoch == of && event.at_us() <= by_us,
        _ => false,
    })
}
