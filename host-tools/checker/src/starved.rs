//! Who starves, whether or not the algorithm promises that nobody does.

use crate::{
    cluster::Cluster,
    entries::{Entries, Entry},
    index::Trace,
    properties::{has_time_left, troubles},
    trace::Event,
};

/// A fair algorithm lets everybody else in at most this often while a request waits.
const PASSES_MAX: usize = 2;

/// Requests that starved: while they waited in quiet times, others went in more often than a fair
/// algorithm allows, or they were not granted before the end although there was time.
#[must_use]
pub(crate) fn starved(trace: &Trace<'_>, entries: &Entries) -> u64 {
    let troubles = troubles(trace);
    let fair = PASSES_MAX * trace.setting.ids.len().saturating_sub(1);
    let mut count = 0;
    for list in entries.by_resource.values() {
        for (place, entry) in list.iter().enumerate() {
            let Some(request) = entry.request else { continue };
            let passed = passed_over(trace, &list[..place], request);
            count += u64::from(passed > fair && is_quiet(trace, request, Some(entry.enter), &troubles));
        }
    }
    let at_end = Cluster::after(&trace.setting.ids, trace.faults.iter().map(|(_, fault)| *fault));
    for request in entries.outstanding.iter().copied() {
        let event = trace.event(request);
        let (Some(node), Event::Request { resource }) = (event.node_id(), &event.event) else { continue };
        let reborn = trace.next_life(node, event.inc).is_some();
        let can_enter = at_end.is_live(node) && (!trace.setting.hardening || at_end.has_majority(node));
        if reborn || !can_enter {
            continue;
        }
        let list = entries.by_resource.get(resource.as_ref()).map_or(&[][..], Vec::as_slice);
        let in_vain = trace.end_us.is_some() && !has_time_left(trace, entries, request, &troubles);
        let passed = passed_over(trace, list, request) > fair && is_quiet(trace, request, None, &troubles);
        count += u64::from(in_vain || passed);
    }
    count
}

/// How many visits of others began after a request, among these.
fn passed_over(trace: &Trace<'_>, visits: &[Entry], request: usize) -> usize {
    let at = |index: usize| trace.event(index).true_us.unwrap_or(trace.lamport(index) as i64);
    let first = visits.partition_point(|other| at(other.enter) < at(request));
    let node = trace.event(request).node_id();
    visits.iter().skip(first).filter(|other| Some(other.node) != node).count()
}

fn is_quiet(trace: &Trace<'_>, request: usize, until: Option<usize>, troubles: &[i64]) -> bool {
    let at = |index: usize| trace.event(index).true_us;
    let Some(from) = at(request) else { return true };
    let until = until.and_then(at).or(trace.end_us).unwrap_or(from);
    let next = troubles.partition_point(|trouble| *trouble < from - trace.setting.lease_us);
    troubles.get(next).is_none_or(|trouble| *trouble > until)
}
