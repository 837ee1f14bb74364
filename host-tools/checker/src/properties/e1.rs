//! E1: (a) no term has two leaders, and two lives of one node are two; (b) nobody goes back to a
//! leader of a lower term; (c) a stated time after a fault every live node of the majority's side
//! names its highest live id; and a side without a majority has no authority: nobody enters there
//! once the leases have ended. Without hardening there is no majority to need: (c) holds on each side.
//! (d), in `claims.rs`: whoever is named has claimed the term before.

use super::{claims, unique};
use crate::{
    cluster::{Cluster, disturbs},
    findings::Findings,
    index::Trace,
    trace::{Event, Fault},
};
use std::collections::{BTreeMap, BTreeSet};

/// A node names a leader: when, whom, and the event. `None` at boot.
type Naming = (i64, Option<u16>, usize);

pub(super) fn check(trace: &Trace<'_>, findings: &mut Findings) {
    if trace.setting.election.as_deref() == Some("none") {
        findings.not_checked("E1", "no election in this run", 1);
        return;
    }
    let named = terms(trace, findings);
    findings.decided("E1", named);
    if named == 0 {
        if let Some(reason) = trace.setting.restless() {
            findings.not_checked("E1", &format!("nobody named a leader: {reason}"), 1);
        } else if trace.setting.election.is_some() && trace.ended && trace.end_us >= Some(trace.setting.settle_us()) {
            let nodes = trace.setting.ids.clone();
            findings.violation(
                "E1",
                trace.end_us.unwrap_or(0),
                nodes,
                "nobody ever named a leader".to_owned(),
                Vec::new(),
            );
        } else {
            findings.not_checked("E1", "nobody named a leader before the end", 1);
        }
        return;
    }
    if let (true, Some(reason)) = (trace.setting.known, trace.setting.restless()) {
        findings.not_checked("E1", &format!("agreement on the highest live id: {reason}"), 1);
    } else if trace.setting.known && trace.end_us.is_some() {
        agreement(trace, findings);
    } else {
        findings.not_checked(
            "E1",
            "agreement on the highest live id: without a scenario line nobody knows who was alive",
            1,
        );
    }
    if trace.setting.known {
        claims::check(trace, findings);
    }
    if trace.setting.known && trace.setting.hardening {
        authority(trace, findings);
    }
}

/// (a) and (b).
fn terms(trace: &Trace<'_>, findings: &mut Findings) -> u64 {
    let mut leaders: BTreeMap<u64, (u16, usize)> = BTreeMap::new();
    let mut reigns: BTreeMap<u64, (u32, usize)> = BTreeMap::new();
    let mut named = 0;
    for ((node, inc), stream) in &trace.streams {
        let mut highest: Option<(u64, usize)> = None;
        for index in stream.iter().copied() {
            let Event::Leader { id, term } = trace.event(index).event else { continue };
            named += 1;
            let (first, whose) = *leaders.entry(term).or_insert((id, index));
            if first != id {
                findings.violation(
                    "E1",
                    trace.event(index).at_us(),
                    unique([first, id]),
                    format!("term {term} has two leaders: {first} and {id}"),
                    trace.names(&[whose, index]),
                );
            }
            let (life, claimed) =
                if id == *node { *reigns.entry(term).or_insert((*inc, index)) } else { (*inc, index) };
            if first == id && life != *inc {
                findings.violation(
                    "E1",
                    trace.event(index).at_us(),
                    vec![id],
                    format!("term {term} has two leaders: {id} in its life {life}, and {id} in its life {inc}"),
                    trace.names(&[claimed, index]),
                );
            }
            if let Some((seen, before)) = highest
                && term < seen
            {
                findings.violation(
                    "E1",
                    trace.event(index).at_us(),
                    vec![*node],
                    format!("{node} named {id} of term {term} after a leader of term {seen}"),
                    trace.names(&[before, index]),
                );
            }
            highest = highest.max(Some((term, index)));
        }
    }
    named
}

/// (c), at the end of every time that was quiet long enough.
fn agreement(trace: &Trace<'_>, findings: &mut Findings) {
    let settle = trace.setting.settle_us();
    let namings = namings(trace);
    let scripted = trace.setting.detector.as_deref() == Some("scripted");
    let mut cluster = Cluster::whole(&trace.setting.ids);
    let mut from = 0;
    let disturbing = trace.faults.iter().filter(|(_, fault)| disturbs(fault)).map(|(at, fault)| (*at, Some(*fault)));
    let end = trace.end_us.unwrap_or(0);
    for (until, fault) in disturbing.chain([(end, None::<&Fault>)]) {
        if until - from < settle {
            findings.not_checked(
                "E1",
                "agreement on the highest live id: the time between two faults, or to the end, was too short",
                1,
            );
        } else if scripted && !elected_between(trace, from, until) {
            findings.not_checked(
                "E1",
                "agreement on the highest live id: with a scripted detector nobody notices a fault by itself",
                1,
            );
        } else if !trace.setting.hardening {
            for side in cluster.components() {
                agree(trace, &namings, &side, (until - settle, until), findings);
            }
        } else if let Some(side) = cluster.majority() {
            agree(trace, &namings, &side, (until - settle, until), findings);
        } else {
            findings.not_checked("E1", "agreement on the highest live id: no side had a majority", 1);
        }
        if let Some(fault) = fault {
            cluster.apply(fault);
        }
        from = until;
    }
}

fn elected_between(trace: &Trace<'_>, from: i64, until: i64) -> bool {
    trace.events.iter().any(|event| {
        matches!(event.event, Event::ElectionStart { .. })
            && event.true_us.is_some_and(|at| (from..=until).contains(&at))
    })
}

fn namings(trace: &Trace<'_>) -> BTreeMap<u16, Vec<Naming>> {
    let mut namings: BTreeMap<u16, Vec<Naming>> = BTreeMap::new();
    for ((node, _), stream) in &trace.streams {
        for index in stream.iter().copied() {
            let event = trace.event(index);
            let whom = match event.event {
                Event::Leader { id, .. } => Some(id),
                Event::Boot { .. } => None,
                _ => continue,
            };
            namings.entry(*node).or_default().push((event.true_us.unwrap_or(0), whom, index));
        }
    }
    namings
}

/// A wrong suspicion may move the lead for a moment; naming another all through the window is wrong.
fn agree(
    trace: &Trace<'_>,
    namings: &BTreeMap<u16, Vec<Naming>>,
    side: &[u16],
    window: (i64, i64),
    findings: &mut Findings,
) {
    let Some(highest) = side.iter().max().copied() else { return };
    for node in side {
        findings.decided("E1", 1);
        let history = namings.get(node).map_or(&[][..], Vec::as_slice);
        let begun = history.partition_point(|(at, ..)| *at <= window.0).saturating_sub(1);
        let within = || history.iter().skip(begun).take_while(|(at, ..)| *at <= window.1);
        if within().any(|(_, whom, _)| *whom == Some(highest)) {
            continue;
        }
        let (detail, events) = match within().last() {
            Some((_, Some(whom), index)) => {
                (format!("{node} named {whom}, but {highest} was alive in its component"), trace.names(&[*index]))
            }
            Some((_, None, _)) | None => {
                (format!("{node} named no leader, but {highest} was alive in its component"), Vec::new())
            }
        };
        let settle = trace.setting.settle_us() / 1000;
        findings.violation(
            "E1",
            window.1,
            unique([*node, highest]),
            format!("{detail}, {settle} ms after the last fault{}", trace.setting.excuse()),
            events,
        );
    }
}

/// A time in which nobody was killed, paused, cut off or brought back.
struct Span {
    from: i64,
    sides: Vec<Vec<u16>>,
}

/// The sides of the cluster, from each fault to the next.
fn spans(trace: &Trace<'_>) -> Vec<Span> {
    let mut cluster = Cluster::whole(&trace.setting.ids);
    let mut spans = vec![Span { from: i64::MIN, sides: cluster.components() }];
    for (at, fault) in &trace.faults {
        cluster.apply(fault);
        spans.push(Span { from: *at, sides: cluster.components() });
    }
    spans
}

/// Those who were on this node's side at some moment after `from`, up to `until`.
fn met(spans: &[Span], node: u16, from: i64, until: i64) -> BTreeSet<u16> {
    let first = spans.partition_point(|span| span.from <= from).saturating_sub(1);
    let within = spans[first..].iter().take_while(|span| span.from <= until);
    let sides = within.flat_map(|span| &span.sides).filter(|side| side.contains(&node));
    sides.flatten().copied().collect()
}

/// Without a majority nobody enters, once the leases have ended. A leader may grant for one lease after it heard from
/// each node of a majority, though not from all at one moment, and what it grants lasts for one lease more.
fn authority(trace: &Trace<'_>, findings: &mut Findings) {
    let setting = &trace.setting;
    let lease = setting.lease_us + setting.lease_us * setting.drift_ppm * 2 / 1_000_000 + setting.tolerance_us();
    let spans = spans(trace);
    for (index, event) in trace.events.iter().enumerate() {
        let (Event::CsEnter { .. }, Some(at), Some(node)) = (&event.event, event.true_us, event.node_id()) else {
            continue;
        };
        let is_majority = |side: &BTreeSet<u16>| 2 * side.len() > setting.ids.len();
        let leaders = met(&spans, node, at - lease, at);
        let leads = |leader: &u16| {
            let heard_from = at - if *leader == node { lease } else { 2 * lease };
            is_majority(&met(&spans, *leader, heard_from, at))
        };
        if leaders.iter().any(leads) {
            continue;
        }
        let had =
            |span: &Span| span.sides.iter().any(|side| side.contains(&node) && 2 * side.len() > setting.ids.len());
        let lost = spans.partition_point(|span| span.from <= at);
        let since = spans[..lost].windows(2).rev().find(|pair| had(&pair[0])).map_or(0, |pair| pair[1].from);
        let ago = (at - since) / 1000;
        let detail = format!("{node} entered {ago} ms after it had lost the majority: its side has no authority");
        findings.violation("E1", at, vec![node], detail, trace.names(&[index]));
    }
}
