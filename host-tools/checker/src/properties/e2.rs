//! E2: an election ends: whoever calls one names a leader, unless it crashes first.

use crate::{cluster::Cluster, findings::Findings, index::Trace, trace::Event};

pub(super) fn check(trace: &Trace<'_>, findings: &mut Findings) {
    let at_end = Cluster::after(&trace.setting.ids, trace.faults.iter().map(|(_, fault)| *fault));
    let mut calls = 0;
    for ((node, inc), stream) in &trace.streams {
        let mut open: Option<usize> = None;
        for index in stream.iter().copied() {
            match trace.event(index).event {
                Event::ElectionStart { .. } => {
                    calls += 1;
                    open = open.or(Some(index));
                }
                Event::Leader { .. } => open = None,
                _ => {}
            }
        }
        let Some(call) = open else { continue };
        if trace.next_life(*node, *inc).is_some() || at_end.is_crashed(*node) {
            continue;
        }
        let event = trace.event(call);
        let waited = trace.end_us.zip(event.true_us).map(|(end, called)| end - called);
        if trace.setting.known && !trace.ended {
            findings.not_checked("E2", "the run was interrupted during an election", 1);
        } else if waited.is_some_and(|waited| trace.setting.known && waited < trace.setting.settle_us()) {
            findings.not_checked("E2", "an election was under way when the run ended", 1);
        } else if !at_end.is_live(*node)
            || (trace.setting.known && trace.setting.hardening && !at_end.has_majority(*node))
        {
            findings.not_checked("E2", "a node was paused or without a majority at the end", 1);
        } else {
            findings.violation(
                "E2",
                event.at_us(),
                vec![*node],
                format!("{node} called an election and never named a leader"),
                trace.names(&[call]),
            );
        }
    }
    findings.decided("E2", calls);
    if calls == 0 {
        let none = trace.setting.election.as_deref() == Some("none");
        findings.not_checked("E2", if none { "no election in this run" } else { "nobody called an election" }, 1);
    }
}
