//! ME3: if one request happened before another, it is granted first.
//!
//! Promised by Lamport 1978 and Ricart-Agrawala, between requests that were both made and granted in one
//! view: a request that outlives its view is made again in the next, and counted as not checked.
//! The view of an entry is the epoch of its fence.

use super::unique;
use crate::{
    entries::{Entries, Entry},
    findings::Findings,
    index::Trace,
    trace::Event,
};
use compasso_wire::Fence;
use std::collections::BTreeMap;

pub(super) fn check(trace: &Trace<'_>, entries: &Entries, findings: &mut Findings) {
    match trace.setting.mutex.as_deref() {
        Some("lamport" | "ricart-agrawala") if !trace.setting.by_priority => {}
        Some("none") => return findings.not_checked("ME3", "no mutual exclusion in this run", 1),
        Some("ricart-agrawala") => {
            return findings.not_checked("ME3", "priorities promise nothing of the order of requests", 1);
        }
        Some(algorithm) => {
            return findings.not_checked("ME3", &format!("{algorithm} does not promise the order of requests"), 1);
        }
        None => return findings.not_checked("ME3", "the trace does not say which algorithm it comes from", 1),
    }
    let mut decided = 0;
    let mut outlived = 0;
    for (resource, list) in &entries.by_resource {
        let mut views: BTreeMap<u32, Vec<Asked<'_>>> = BTreeMap::new();
        for (place, entry) in list.iter().enumerate() {
            match entry.request {
                Some(request) if !outlived_its_view(trace, entry, request) => {
                    let asked = Asked { place, request, entry };
                    views.entry(Fence(entry.fence).epoch()).or_default().push(asked);
                    decided += 1;
                }
                Some(_) => outlived += 1,
                None => {}
            }
        }
        for view in views.values() {
            in_order(trace, resource, view, findings);
        }
    }
    findings.decided("ME3", decided);
    if outlived > 0 {
        findings.not_checked("ME3", "a request was made in one view and granted in a later one", outlived);
    }
    if decided + outlived == 0 {
        findings.not_checked("ME3", "nobody entered", 1);
    }
}

struct Asked<'e> {
    /// The how-manieth entry.
    place: usize,
    request: usize,
    entry: &'e Entry,
}

/// Whether a view came into force here between the request and the entry.
fn outlived_its_view(trace: &Trace<'_>, entry: &Entry, request: usize) -> bool {
    let Some(stream) = trace.streams.get(&(entry.node, entry.inc)) else { return false };
    let (from, until) = (trace.event(request).seq, trace.event(entry.enter).seq);
    let first = stream.partition_point(|index| trace.event(*index).seq <= from);
    let between = stream.iter().skip(first).take_while(|index| trace.event(**index).seq < until);
    between.into_iter().any(|index| matches!(trace.event(*index).event, Event::View { .. }))
}

/// Of every node, the last request that happened before this one was granted before it. That is
/// enough: a node has one request at a time.
fn in_order(trace: &Trace<'_>, resource: &str, view: &[Asked<'_>], findings: &mut Findings) {
    let mut by_node: BTreeMap<u16, Vec<&Asked<'_>>> = BTreeMap::new();
    for asked in view {
        by_node.entry(asked.entry.node).or_default().push(asked);
    }
    for requests in by_node.values_mut() {
        requests.sort_by_key(|asked| trace.event(asked.request).stamp());
    }
    for later in view {
        let known = trace.vector(later.request);
        for (node, requests) in by_node.iter().filter(|(node, _)| **node != later.entry.node) {
            let count = requests.partition_point(|asked| trace.event(asked.request).stamp() <= known.get(*node));
            let Some(earlier) = count.checked_sub(1).and_then(|last| requests.get(last)) else { continue };
            if earlier.place > later.place {
                findings.violation(
                    "ME3",
                    trace.event(later.entry.enter).at_us(),
                    unique([*node, later.entry.node]),
                    format!(
                        "{} entered \"{resource}\" before {node}, whose request had happened before its own",
                        later.entry.node
                    ),
                    trace.names(&[earlier.request, later.request, later.entry.enter, earlier.entry.enter]),
                );
            }
        }
    }
}
