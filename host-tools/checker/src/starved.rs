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
/// algorithm allows, or they were not granted before the end although there was time. Who has just returned waits for a
/// view that admits it: until then it has no turn that others could take from it.
#[must_use]
pub(crate) fn starved(trace: &Trace<'_>, entries: &Entries) -> u64 {
    let troubles = troubles(trace);
    let fair = PASSES_MAX * trace.setting.ids.len().saturating_sub(1);
    let mut count = 0;
    for list in entries.by_resource.values() {
        for (place, entry) in list.iter().enumerate() {
            let Some(request) = entry.request else { continue };
            count += u64::from(passed_over(trace, &list[..place], request, &troubles) > fair);
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
        count += u64::from(in_vain || passed_over(trace, list, request, &troubles) > fair);
    }
    count
}

/// How many of these visits are of others and began while a request waited, without trouble between them.
fn passed_over(trace: &Trace<'_>, visits: &[Entry], request: usize, troubles: &[i64]) -> usize {
    let at = |index: usize| trace.event(index).true_us.unwrap_or(trace.lamport(index) as i64);
    let node = trace.event(request).node_id();
    let since = at(request).max(admitted(trace, request).map_or(i64::MIN, at));
    let first = visits.partition_point(|other| at(other.enter) < since);
    let (mut passed, mut most, mut before) = (0, 0, since);
    for other in visits.iter().skip(first).filter(|other| Some(other.node) != node) {
        let now = at(other.enter);
        let next = troubles.partition_point(|trouble| *trouble < before);
        let quiet = troubles.get(next).is_none_or(|trouble| *trouble > now);
        passed = if quiet { passed + 1 } else { 0 };
        most = most.max(passed);
        before = now;
    }
    most
}

/// The first view of the life in which a request was made, if there are views.
fn admitted(trace: &Trace<'_>, request: usize) -> Option<usize> {
    let event = trace.event(request);
    let stream = trace.streams.get(&(event.node_id()?, event.inc))?;
    stream.iter().copied().find(|index| matches!(trace.event(*index).event, Event::View { .. }))
}
