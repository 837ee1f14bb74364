//! commit: a transaction happens everywhere or nowhere.
//!
//! - Nobody commits what another aborts, and nobody decides twice differently, over restarts too.
//! - What is committed, every participant had voted for before. A yes is not taken back.
//! - What every participant voted for is committed, unless a time-out or a change of view explains the abort: a
//!   coordinator that has all votes before its patience can have ended, and leads on, has no reason for another end.
//! - Nobody is blocked: whoever voted yes learns the decision once the last fault has settled, also if
//!   it crashed and returned in between.

use super::unique;
use crate::{
    cluster::{Cluster, disturbs},
    findings::Findings,
    index::Trace,
    trace::Event,
};
use std::collections::BTreeMap;

/// What the trace says about one transaction.
#[derive(Default)]
struct Case<'a> {
    participants: Option<&'a [u16]>,
    /// Where it began.
    begun: Option<usize>,
    /// Each node's votes, in order.
    votes: BTreeMap<u16, Vec<(usize, bool)>>,
    /// Who decided, and whether to commit.
    decided: Vec<(usize, u16, bool)>,
}

pub(super) fn check(trace: &Trace<'_>, findings: &mut Findings) {
    let cases = cases(trace);
    if cases.is_empty() {
        findings.not_checked("commit", "no transaction in this run", 1);
        return;
    }
    for (transaction, case) in &cases {
        if !split(trace, *transaction, case, findings) {
            unanimous(trace, *transaction, case, findings);
            needless(trace, *transaction, case, findings);
        }
        firm(trace, *transaction, case, findings);
    }
    blocked(trace, &cases, findings);
}

fn cases<'a>(trace: &Trace<'a>) -> BTreeMap<u64, Case<'a>> {
    let mut cases: BTreeMap<u64, Case<'a>> = BTreeMap::new();
    for index in trace.streams.values().flatten().copied() {
        let event = trace.event(index);
        let Some(node) = event.node_id() else { continue };
        match &event.event {
            Event::Transaction { transaction, participants } => {
                let case = cases.entry(*transaction).or_default();
                (case.participants, case.begun) = (Some(participants.as_slice()), Some(index));
            }
            Event::Voted { transaction, yes } => {
                cases.entry(*transaction).or_default().votes.entry(node).or_default().push((index, *yes));
            }
            Event::Decided { transaction, commit } => {
                cases.entry(*transaction).or_default().decided.push((index, node, *commit));
            }
            _ => {}
        }
    }
    cases
}

/// Whether a transaction was decided in both ways.
fn split(trace: &Trace<'_>, transaction: u64, case: &Case<'_>, findings: &mut Findings) -> bool {
    let aborted = case.decided.iter().find(|(_, _, commit)| !*commit).copied();
    let committed = || case.decided.iter().filter(|(_, _, commit)| *commit);
    let by_the_same = committed().find(|(_, node, _)| aborted.is_some_and(|(_, other, _)| other == *node));
    match (by_the_same.or(committed().next()).copied(), aborted) {
        (Some((committed, x, _)), Some((aborted, y, _))) => {
            let at_us = trace.event(committed).at_us().max(trace.event(aborted).at_us());
            let what = if x == y { "decided twice" } else { "split" };
            findings.violation(
                "commit",
                at_us,
                unique([x, y]),
                format!("transaction {transaction} is {what}: {x} committed it, {y} aborted it"),
                trace.names(&[committed, aborted]),
            );
            true
        }
        (Some(_), None) | (None, Some(_)) => {
            findings.decided("commit", 1);
            false
        }
        (None, None) => false,
    }
}

/// What is committed, every participant had voted for before.
fn unanimous(trace: &Trace<'_>, transaction: u64, case: &Case<'_>, findings: &mut Findings) {
    let Some((decided, node, _)) = case.decided.iter().find(|(_, _, commit)| *commit).copied() else { return };
    let Some(participants) = case.participants else {
        findings.not_checked("commit", "the trace does not say whose votes a transaction needs", 1);
        return;
    };
    for participant in participants {
        let votes = case.votes.get(participant).map_or(&[][..], Vec::as_slice);
        let agreed = votes.iter().any(|(vote, yes)| *yes && trace.before(*vote, decided));
        let refused = votes.iter().find(|(_, yes)| !*yes);
        let gap = trace.gaps.keys().any(|(of, _)| of == participant);
        if agreed && refused.is_none() {
            findings.decided("commit", 1);
        } else if gap && refused.is_none() {
            findings.not_checked("commit", "a vote may lie in a counted gap", 1);
        } else {
            let why = if refused.is_some() { "voted no" } else { "had not voted yes" };
            let events: Vec<usize> = refused.map(|(vote, _)| *vote).into_iter().chain([decided]).collect();
            findings.violation(
                "commit",
                trace.event(decided).at_us(),
                unique([node, *participant]),
                format!("{node} committed transaction {transaction}, but {participant} {why}"),
                trace.names(&events),
            );
        }
    }
}

/// A coordinator waits for each vote at least so many times as long as a datagram takes one way.
const PATIENCE: i64 = 8;

/// What everybody voted for is aborted only if votes were late or the view changed.
fn needless(trace: &Trace<'_>, transaction: u64, case: &Case<'_>, findings: &mut Findings) {
    let (Some(begun), Some(participants)) = (case.begun, case.participants) else { return };
    let (coordinator, life) = (trace.event(begun).node_id().unwrap_or_default(), trace.event(begun).inc);
    let own = |of: &&(usize, u16, bool)| of.1 == coordinator && trace.event(of.0).inc == life && !of.2;
    let Some((aborted, ..)) = case.decided.iter().find(own).copied() else { return };
    let agreed = |id: &u16| case.votes.get(id).is_some_and(|votes| votes.iter().all(|(_, yes)| *yes));
    if !participants.iter().all(agreed) || case.votes.values().flatten().any(|(_, yes)| !*yes) {
        return;
    }
    let (from, until) = (trace.event(begun), trace.event(aborted));
    let elapsed = match (from.hw_us, until.hw_us) {
        (Some(from), Some(until)) => until - from,
        _ => until.at_us() - from.at_us(),
    };
    let between = |index: &&usize| (from.seq..until.seq).contains(&trace.event(**index).seq);
    let unsettles = |index: &usize| {
        matches!(trace.event(*index).event, Event::View { .. } | Event::ElectionStart { .. } | Event::Leader { .. })
    };
    let stream = trace.streams.get(&(coordinator, life)).map_or(&[][..], Vec::as_slice);
    let changed = stream.iter().filter(between).any(unsettles);
    if changed || elapsed >= PATIENCE * trace.setting.trans_us {
        findings.decided("commit", 1);
    } else {
        findings.violation(
            "commit",
            until.at_us(),
            vec![coordinator],
            format!("{coordinator} aborted transaction {transaction}, though everybody had voted yes in time"),
            trace.names(&[begun, aborted]),
        );
    }
}

/// A yes is a promise: it is not taken back.
fn firm(trace: &Trace<'_>, transaction: u64, case: &Case<'_>, findings: &mut Findings) {
    for (node, votes) in &case.votes {
        let yes = votes.iter().find(|(_, yes)| *yes).map(|(vote, _)| *vote);
        let no = votes.iter().find(|(_, yes)| !*yes).map(|(vote, _)| *vote);
        if let (Some(yes), Some(no)) = (yes, no) {
            findings.violation(
                "commit",
                trace.event(no).at_us(),
                vec![*node],
                format!("{node} voted yes and no on transaction {transaction}"),
                trace.names(&[yes, no]),
            );
        }
    }
}

/// Whoever voted yes learns the decision.
fn blocked(trace: &Trace<'_>, cases: &BTreeMap<u64, Case<'_>>, findings: &mut Findings) {
    let at_end = Cluster::after(&trace.setting.ids, trace.faults.iter().map(|(_, fault)| *fault));
    let last_fault = trace.faults.iter().filter(|(_, fault)| disturbs(fault)).map(|(at, _)| *at).max();
    for (transaction, case) in cases {
        for (node, votes) in &case.votes {
            let Some((vote, _)) = votes.iter().find(|(_, yes)| *yes) else { continue };
            if case.decided.iter().any(|(_, of, _)| of == node) {
                findings.decided("commit", 1);
                continue;
            }
            let voted_us = trace.event(*vote).at_us();
            let quiet_since = last_fault.map_or(voted_us, |fault| fault.max(voted_us));
            let unsettled = trace.end_us.is_some_and(|end| end - quiet_since < trace.setting.settle_us());
            if trace.setting.known && !trace.ended {
                findings.not_checked("commit", "the run was interrupted while a participant waited", 1);
            } else if !at_end.is_live(*node)
                || (trace.setting.known && trace.setting.hardening && !at_end.has_majority(*node))
            {
                findings.not_checked("commit", "a participant was off, paused or without a majority at the end", 1);
            } else if trace.setting.known && unsettled {
                findings.not_checked("commit", "a participant waited when the run ended", 1);
            } else if trace.gaps.keys().any(|(of, _)| of == node) {
                findings.not_checked("commit", "a decision may lie in a counted gap", 1);
            } else {
                findings.violation(
                    "commit",
                    voted_us,
                    vec![*node],
                    format!("{node} voted yes on transaction {transaction} and never learned the decision: blocked"),
                    trace.names(&[*vote]),
                );
            }
        }
    }
}
