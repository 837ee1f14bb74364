//! E2: an election ends: whoever calls one names a leader, unless it crashes first; and when nothing
//! disturbs, elections come to rest. One after another, each of which ends, is an election without end too.

use super::unique;
use crate::{
    cluster::{Cluster, disturbs},
    findings::Findings,
    index::Trace,
    render::{many, span},
    trace::Event,
};

pub(super) fn check(trace: &Trace<'_>, findings: &mut Findings) {
    let at_end = Cluster::after(&trace.setting.ids, trace.faults.iter().map(|(_, fault)| *fault));
    let mut calls = 0;
    for ((node, inc), stream) in &trace.streams {
        let mut open: Option<usize> = None;
        let mut unended = 0;
        for index in stream.iter().copied() {
            match trace.event(index).event {
                Event::ElectionStart { .. } => {
                    calls += 1;
                    unended += 1;
                    open = open.or(Some(index));
                }
                Event::Leader { .. } => {
                    open = None;
                    findings.decided("E2", std::mem::take(&mut unended));
                }
                _ => {}
            }
        }
        match open {
            Some(_) if trace.next_life(*node, *inc).is_some() || at_end.is_crashed(*node) => {
                findings.decided("E2", unended);
            }
            Some(call) => unfinished(trace, *node, call, &at_end, findings),
            None => {}
        }
    }
    if calls == 0 {
        let none = trace.setting.election.as_deref() == Some("none");
        findings.not_checked("E2", if none { "no election in this run" } else { "nobody called an election" }, 1);
    } else if trace.setting.known && trace.ended {
        at_rest(trace, &at_end, findings);
    }
}

/// A call after which its node has named nobody.
fn unfinished(trace: &Trace<'_>, node: u16, call: usize, at_end: &Cluster, findings: &mut Findings) {
    let event = trace.event(call);
    let waited = trace.end_us.zip(event.true_us).map(|(end, called)| end - called);
    let (known, settle) = (trace.setting.known, trace.setting.settle_us());
    if known && !trace.ended {
        findings.not_checked("E2", "the run was interrupted during an election", 1);
    } else if let (true, Some(reason)) = (known, trace.setting.restless()) {
        findings.not_checked("E2", &reason, 1);
    } else if known && waited.is_some_and(|waited| waited < settle) {
        findings.not_checked("E2", "an election was under way when the run ended", 1);
    } else if !at_end.is_live(node) || (known && trace.setting.hardening && !at_end.has_majority(node)) {
        findings.not_checked("E2", "a node was paused or without a majority at the end", 1);
    } else {
        findings.violation(
            "E2",
            event.at_us(),
            vec![node],
            format!("{node} called an election and never named a leader{}", trace.setting.excuse()),
            trace.names(&[call]),
        );
    }
}

/// After the last fault has settled there is a time without a call, on each side that can hold elections.
fn at_rest(trace: &Trace<'_>, at_end: &Cluster, findings: &mut Findings) {
    let Some(end) = trace.end_us else { return };
    let faults = trace.faults.iter().filter(|(_, fault)| disturbs(fault)).map(|(at, _)| *at);
    let disturbed = faults.chain(trace.setting.last_elect_us).max().unwrap_or(0);
    let settle = trace.setting.settle_us();
    let sides = if trace.setting.hardening { at_end.majority().into_iter().collect() } else { at_end.components() };
    for side in sides {
        let calls = calls_since(trace, &side, disturbed + settle);
        let moments = || calls.iter().map(|(at, _)| *at);
        let starts = std::iter::once(disturbed + settle).chain(moments());
        let rests = starts.zip(moments().chain([end])).map(|(from, until)| until - from);
        let longest = rests.max().unwrap_or(0);
        let (Some((_, first)), Some((_, last))) = (calls.first(), calls.last()) else {
            continue;
        };
        if longest >= settle / 2 {
            findings.decided("E2", 1);
        } else if let Some(reason) = trace.setting.restless() {
            findings.not_checked("E2", &reason, 1);
        } else if end - disturbed < 2 * settle {
            findings.not_checked("E2", "elections were being called when the run ended, soon after the last fault", 1);
        } else {
            findings.violation(
                "E2",
                trace.event(*last).at_us(),
                unique(calls.iter().filter_map(|(_, index)| trace.event(*index).node_id())),
                format!(
                    "elections without end: {} in the last {}, though nothing disturbed for {}, and never more than {} of rest{}",
                    many(calls.len() as u64, "call"),
                    span(end - disturbed - settle),
                    span(end - disturbed),
                    span(longest),
                    trace.setting.excuse(),
                ),
                trace.names(&[*first, *last]),
            );
        }
    }
}

/// The calls of these nodes after a moment, in order of time.
fn calls_since(trace: &Trace<'_>, side: &[u16], from: i64) -> Vec<(i64, usize)> {
    let mut calls: Vec<(i64, usize)> = trace
        .events
        .iter()
        .enumerate()
        .filter(|(_, event)| matches!(event.event, Event::ElectionStart { .. }))
        .filter(|(_, event)| event.node_id().is_some_and(|node| side.contains(&node)))
        .filter_map(|(index, event)| event.true_us.filter(|at| *at >= from).map(|at| (at, index)))
        .collect();
    calls.sort_unstable();
    calls
}
