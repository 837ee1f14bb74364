//! Deadlocks among voters: a circle of requests that were never granted, each waiting for a vote that the next has.
//!
//! To whom a voter has given its vote is in the trace, except to itself: that takes no message. A voter that has
//! given its vote to nobody else, and asks for entry itself, has given it to itself, for a vote is never kept back.

use super::{deadlock::in_words, unique};
use crate::{cluster::Cluster, entries::Entries, findings::Findings, index::Trace, trace::Event};
use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

/// Judges a run of Maekawa's algorithm. False if it is another one.
pub(super) fn check(trace: &Trace<'_>, entries: &Entries, findings: &mut Findings) -> bool {
    if !matches!(trace.setting.mutex.as_deref(), Some("maekawa-plain" | "maekawa")) || entries.requests == 0 {
        return false;
    }
    findings.decided("deadlock", entries.requests - entries.outstanding.len() as u64);
    let at_end = Cluster::after(&trace.setting.ids, trace.faults.iter().map(|(_, fault)| *fault));
    let mut asking: BTreeMap<u16, usize> = BTreeMap::new();
    for index in entries.outstanding.iter().copied() {
        let event = trace.event(index);
        let Some(node) = event.node_id() else { continue };
        if at_end.is_live(node) && trace.next_life(node, event.inc).is_none() && trace.ended {
            asking.insert(node, index);
        }
    }
    let waits: BTreeMap<u16, BTreeSet<u16>> =
        asking.iter().map(|(node, request)| (*node, waits_for(trace, *node, *request, &asking))).collect();
    let mut told: BTreeSet<u16> = BTreeSet::new();
    for node in asking.keys().copied() {
        if told.contains(&node) {
            continue;
        }
        let Some(circle) = circle(node, &waits) else { continue };
        told.extend(&circle);
        let events: Vec<usize> = circle.iter().filter_map(|node| asking.get(node).copied()).collect();
        let at = events.iter().map(|index| trace.event(*index).at_us()).max().unwrap_or(0);
        let detail = format!("a deadlock: {}, each for a vote that the next one has", in_words(&circle));
        findings.violation("deadlock", at, unique(circle.iter().copied()), detail, trace.names(&events));
    }
    true
}

/// Who has the votes that this request lacks.
fn waits_for(trace: &Trace<'_>, node: u16, request: usize, asking: &BTreeMap<u16, usize>) -> BTreeSet<u16> {
    let event = trace.event(request);
    let mut missing: BTreeSet<u16> = BTreeSet::new();
    for index in trace.streams.get(&(node, event.inc)).into_iter().flatten() {
        let later = trace.event(*index);
        if later.seq <= event.seq {
            continue;
        }
        match &later.event {
            Event::Send { to, kind, .. } if kind == "request" => drop(missing.insert(*to)),
            Event::Recv { from, kind, .. } if kind == "grant" => drop(missing.remove(from)),
            _ => {}
        }
    }
    let own = std::iter::once(node).filter(|node| voted_for(trace, *node).is_some());
    let voters = missing.into_iter().chain(own);
    let has = |voter: u16| voted_for(trace, voter).or_else(|| asking.contains_key(&voter).then_some(voter));
    voters.filter_map(has).filter(|other| *other != node).collect()
}

/// To whom else a voter has given its vote, at the end.
fn voted_for(trace: &Trace<'_>, voter: u16) -> Option<u16> {
    let (_, stream) = trace.streams.range((voter, 0)..=(voter, u32::MAX)).next_back()?;
    let mut vote = None;
    for index in stream {
        match &trace.event(*index).event {
            Event::Send { to, kind, again: false, .. } if kind == "grant" => vote = Some(*to),
            Event::Recv { from, kind, .. } if (kind == "release" || kind == "yield") && vote == Some(*from) => {
                vote = None
            }
            Event::View { .. } => vote = None,
            _ => {}
        }
    }
    vote
}

fn circle(node: u16, waits: &BTreeMap<u16, BTreeSet<u16>>) -> Option<Vec<u16>> {
    let mut came_from: BTreeMap<u16, u16> = BTreeMap::new();
    let mut reached = vec![node];
    while let Some(at) = reached.pop() {
        for next in waits.get(&at).into_iter().flatten().copied() {
            if next == node {
                let mut circle = vec![at];
                while let Some(before) = circle.last().filter(|id| **id != node).and_then(|id| came_from.get(id)) {
                    circle.push(*before);
                }
                circle.reverse();
                return Some(circle);
            }
            if let Entry::Vacant(place) = came_from.entry(next) {
                place.insert(at);
                reached.push(next);
            }
        }
    }
    None
}
