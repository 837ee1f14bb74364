//! cache: no stale read is served.
//!
//! A read is stale if a newer version had been acknowledged before, or had been read by anybody. "Before"
//! is decided by causality, and by true time where that is known and tells the two apart.

use super::unique;
use crate::{
    findings::Findings,
    index::Trace,
    trace::{Event, Stamp},
};
use std::collections::BTreeMap;

/// An event after which nobody may read an older version.
#[derive(Clone, Copy)]
struct Fact {
    index: usize,
    version: u64,
    read: bool,
}

/// For each node its facts in order, each with the one of the highest version so far.
type Histories = BTreeMap<u16, Vec<(Stamp, Fact)>>;

pub(super) fn check(trace: &Trace<'_>, findings: &mut Findings) {
    let facts = facts(trace);
    let reads: Vec<Fact> = facts.iter().filter(|fact| fact.read).copied().collect();
    if reads.is_empty() {
        let reason = if facts.is_empty() { "no cache in this run" } else { "nobody read the cached value" };
        findings.not_checked("cache", reason, 1);
        return;
    }
    let histories = histories(trace, &facts);
    let newest = newest_by_time(trace, &facts, &reads);
    let mut decided = 0;
    for read in reads {
        let by_cause = newest_by_cause(trace, &histories, read);
        let by_time = newest.get(&read.index).copied();
        let stale = |fact: &Fact| fact.version > read.version;
        match by_cause.filter(stale).or(by_time.filter(stale)) {
            Some(newer) => tell(trace, read, newer, findings),
            None => decided += 1,
        }
    }
    findings.decided("cache", decided);
}

fn facts(trace: &Trace<'_>) -> Vec<Fact> {
    let fact = |index: usize| match trace.event(index).event {
        Event::Read { version, .. } => Some(Fact { index, version, read: true }),
        Event::Written { version, .. } => Some(Fact { index, version, read: false }),
        _ => None,
    };
    trace.streams.values().flatten().copied().filter_map(fact).collect()
}

fn higher(one: Fact, other: Fact) -> Fact {
    if other.version > one.version { other } else { one }
}

fn histories(trace: &Trace<'_>, facts: &[Fact]) -> Histories {
    let mut histories = Histories::new();
    for fact in facts {
        let event = trace.event(fact.index);
        let Some(node) = event.node_id() else { continue };
        let history = histories.entry(node).or_default();
        let highest = history.last().map_or(*fact, |(_, before)| higher(*before, *fact));
        history.push((event.stamp(), highest));
    }
    histories
}

/// The highest version of which the reader could have known.
fn newest_by_cause(trace: &Trace<'_>, histories: &Histories, read: Fact) -> Option<Fact> {
    let event = trace.event(read.index);
    let reader = event.node_id()?;
    let known = |(node, history): (&u16, &Vec<(Stamp, Fact)>)| {
        let until = if *node == reader { event.stamp() } else { trace.vector(read.index).get(*node) };
        // Its own event is none that was before it.
        let before = history.partition_point(|(stamp, _)| *stamp < until || (*stamp == until && *node != reader));
        before.checked_sub(1).map(|at| history[at].1)
    };
    histories.iter().filter_map(known).max_by_key(|fact| fact.version)
}

/// For each read the highest version of an event that was earlier by true time, beyond doubt.
fn newest_by_time(trace: &Trace<'_>, facts: &[Fact], reads: &[Fact]) -> BTreeMap<usize, Fact> {
    let timed = |fact: &Fact| trace.event(fact.index).true_us.map(|at| (at, *fact));
    let mut all: Vec<(i64, Fact)> = facts.iter().filter_map(timed).collect();
    let mut reads: Vec<(i64, Fact)> = reads.iter().filter_map(timed).collect();
    all.sort_by_key(|(at, _)| *at);
    reads.sort_by_key(|(at, _)| *at);
    let mut earlier = all.into_iter().peekable();
    let mut highest: Option<Fact> = None;
    let mut newest = BTreeMap::new();
    for (at, read) in reads {
        while let Some((_, fact)) = earlier.next_if(|(then, _)| *then < at - trace.setting.tolerance_us()) {
            highest = Some(highest.map_or(fact, |highest| higher(highest, fact)));
        }
        if let Some(highest) = highest {
            newest.insert(read.index, highest);
        }
    }
    newest
}

fn tell(trace: &Trace<'_>, read: Fact, newer: Fact, findings: &mut Findings) {
    let (event, other) = (trace.event(read.index), trace.event(newer.index));
    let (node, by) = (event.node_id().unwrap_or_default(), other.node_id().unwrap_or_default());
    let what = if newer.read { format!("{by} had read") } else { format!("{by} had acknowledged") };
    let before =
        event.true_us.zip(other.true_us).map_or(String::new(), |(at, then)| format!(", {} us before", at - then));
    findings.violation(
        "cache",
        event.at_us(),
        unique([node, by]),
        format!("stale: {node} read version {}, but {what} version {}{before}", read.version, newer.version),
        trace.names(&[newer.index, read.index]),
    );
}
