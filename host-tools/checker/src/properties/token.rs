//! token: one live token per resource and epoch.
//!
//! A token's serial grows with each hop, so one serial is at one node, and each visit happened
//! after the one before it. An epoch is begun by one node, and whoever saw a later epoch never
//! takes a token of an earlier one.

use super::unique;
use crate::{findings::Findings, index::Trace, trace::Event};
use std::collections::BTreeMap;

pub(super) fn check(trace: &Trace<'_>, findings: &mut Findings) {
    let mut visits: BTreeMap<(&str, u64), Vec<(u64, usize)>> = BTreeMap::new();
    let mut makers: BTreeMap<(&str, u64), Vec<usize>> = BTreeMap::new();
    for ((node, _), stream) in &trace.streams {
        let mut newest: BTreeMap<&str, (u64, u64, usize)> = BTreeMap::new();
        for index in stream.iter().copied() {
            match &trace.event(index).event {
                Event::Token { resource, epoch, serial } => {
                    visits.entry((resource, *epoch)).or_default().push((*serial, index));
                    if let Some((last_epoch, last_serial, before)) = newest.get(resource.as_ref()).copied()
                        && (*epoch, *serial) < (last_epoch, last_serial)
                    {
                        findings.violation(
                            "token",
                            trace.event(index).at_us(),
                            vec![*node],
                            format!("{node} took token {epoch}.{serial} after it had seen {last_epoch}.{last_serial}"),
                            trace.names(&[before, index]),
                        );
                    }
                    newest.insert(resource, (*epoch, *serial, index));
                }
                Event::TokenRegenerated { resource, epoch } => {
                    makers.entry((resource, *epoch)).or_default().push(index)
                }
                _ => {}
            }
        }
    }
    findings.decided("token", visits.values().map(|list| list.len() as u64).sum());
    if visits.is_empty() {
        findings.not_checked("token", "the trace has no token", 1);
    }
    for ((_, epoch), list) in &mut visits {
        list.sort_by_key(|(serial, index)| (*serial, trace.lamport(*index)));
        for pair in list.windows(2) {
            if let [(serial, first), (next, second)] = pair {
                successive(trace, *epoch, (*serial, *first), (*next, *second), findings);
            }
        }
    }
    for ((resource, epoch), list) in makers.iter().filter(|(_, list)| list.len() > 1) {
        findings.violation(
            "token",
            trace.event(list[1]).at_us(),
            unique(list.iter().filter_map(|index| trace.event(*index).node_id())),
            format!("epoch {epoch} of \"{resource}\" was begun {} times", list.len()),
            trace.names(list),
        );
    }
}

fn successive(trace: &Trace<'_>, epoch: u64, first: (u64, usize), second: (u64, usize), findings: &mut Findings) {
    let (before, after) = (trace.event(first.1), trace.event(second.1));
    let detail = if first.0 == second.0 && before.node != after.node {
        format!("token {epoch}.{} was at {} and at {}: two tokens of one epoch", first.0, before.node, after.node)
    } else if first.0 != second.0 && !trace.before(first.1, second.1) {
        format!("token {epoch}.{} at {} did not come from {epoch}.{} at {}", second.0, after.node, first.0, before.node)
    } else {
        return;
    };
    let nodes = unique([before, after].into_iter().filter_map(|event| event.node_id()));
    findings.violation("token", after.at_us(), nodes, detail, trace.names(&[first.1, second.1]));
}
