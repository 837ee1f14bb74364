//! fence: per resource, the fences of entries only grow along causality, and along true time
//! except for an entry whose fence was refused: that refusal is what fences are for.

use super::unique;
use crate::{
    entries::{Entries, Entry},
    findings::Findings,
    index::Trace,
};
use std::collections::BTreeMap;

pub(super) fn check(trace: &Trace<'_>, entries: &Entries, findings: &mut Findings) {
    if !trace.setting.hardening {
        findings.not_checked("fence", "the bare textbook rules promise no fences", 1);
        return;
    }
    let mut decided = 0;
    for (resource, list) in &entries.by_resource {
        let fenced: Vec<&Entry> = list.iter().filter(|entry| entry.fence > 0).collect();
        decided += fenced.len() as u64;
        along_causality(trace, resource, &fenced, findings);
        if trace.setting.is_exact() {
            along_true_time(trace, resource, &fenced, findings);
        }
    }
    if decided == 0 {
        let reason = if entries.count() == 0 { "nobody entered" } else { "the entries have no fences" };
        findings.not_checked("fence", reason, 1);
    }
    findings.decided("fence", decided);
}

fn along_causality(trace: &Trace<'_>, resource: &str, list: &[&Entry], findings: &mut Findings) {
    // Each node's entries in its own order, each with the highest fence so far.
    let mut histories: BTreeMap<u16, Vec<(usize, usize)>> = BTreeMap::new();
    for (at, entry) in list.iter().enumerate() {
        histories.entry(entry.node).or_default().push((at, at));
    }
    for history in histories.values_mut() {
        history.sort_by_key(|(at, _)| trace.event(list[*at].enter).stamp());
        for position in 1..history.len() {
            let highest = history[position - 1].1;
            if list[highest].fence > list[history[position].0].fence {
                history[position].1 = highest;
            }
        }
    }
    for entry in list {
        let vector = trace.vector(entry.enter);
        let own = trace.event(entry.enter).stamp();
        for (node, history) in &histories {
            let known = if *node == entry.node { (own.0, own.1.saturating_sub(1)) } else { vector.get(*node) };
            let count = history.partition_point(|(at, _)| trace.event(list[*at].enter).stamp() <= known);
            let Some((_, highest)) = count.checked_sub(1).and_then(|last| history.get(last)) else { continue };
            report_unless_grown(trace, resource, list[*highest], entry, "happened before", findings);
        }
    }
}

fn along_true_time(trace: &Trace<'_>, resource: &str, list: &[&Entry], findings: &mut Findings) {
    let mut highest: Option<&Entry> = None;
    for entry in list.iter().filter(|entry| entry.fenced.is_none() && trace.event(entry.enter).true_us.is_some()) {
        match highest {
            Some(before) if before.fence >= entry.fence => {
                // What causality already showed is not told twice.
                if !trace.before(before.enter, entry.enter) {
                    report_unless_grown(trace, resource, before, entry, "was earlier than", findings);
                }
            }
            _ => highest = Some(entry),
        }
    }
}

fn report_unless_grown(
    trace: &Trace<'_>,
    resource: &str,
    before: &Entry,
    after: &Entry,
    how: &str,
    findings: &mut Findings,
) {
    if before.fence >= after.fence {
        findings.violation(
            "fence",
            trace.event(after.enter).at_us(),
            unique([before.node, after.node]),
            format!(
                "the entry of {} to \"{resource}\" with fence {} {how} that of {} with fence {}",
                before.node, before.fence, after.node, after.fence
            ),
            trace.names(&[before.enter, after.enter]),
        );
    }
}
