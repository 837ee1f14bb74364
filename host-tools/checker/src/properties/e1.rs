//! E1: (a) no term has two leaders, and two lives of one node are two; (b) nobody goes back to a
//! leader of a lower term; (c) a stated time after a fault every live node of the majority's side
//! names its highest live id; and a side without a majority has no authority: nobody enters there
//! once the leases have ended. Without hardening there is no majority to need: (c) holds on each side.

use super::unique;
use crate::{
    cluster::{Cluster, disturbs},
    findings::Findings,
    index::Trace,
    trace::{Event, Fault},
};
use std::collections::BTreeMap;

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

/// Without a majority nobody enters, once the longest lease has ended: a leader's authority outlasts its
/// majority by one lease at most, and the last lease that it grants outlasts that authority by another.
fn authority(trace: &Trace<'_>, findings: &mut Findings) {
    let setting = &trace.setting;
    let mut entries: Vec<(i64, u16, usize)> = Vec::new();
    for (index, event) in trace.events.iter().enumerate() {
        if let (Event::CsEnter { .. }, Some(at), Some(node)) = (&event.event, event.true_us, event.node_id()) {
            entries.push((at, node, index));
        }
    }
    entries.sort_unstable();
    let widened = setting.lease_us + setting.lease_us * setting.drift_ppm * 2 / 1_000_000;
    let grace = 2 * widened + setting.tolerance_us();
    let mut cluster = Cluster::whole(&setting.ids);
    let mut without_since: BTreeMap<u16, i64> = BTreeMap::new();
    let mut faults = trace.faults.iter().peekable();
    for (at, node, index) in entries {
        while let Some((when, fault)) = faults.next_if(|(when, _)| *when <= at) {
            cluster.apply(fault);
            let side = cluster.majority().unwrap_or_default();
            for id in &setting.ids {
                if side.contains(id) {
                    without_since.remove(id);
                } else {
                    without_since.entry(*id).or_insert(*when);
                }
            }
        }
        if let Some(since) = without_since.get(&node)
            && at > since + grace
        {
            let detail = format!(
                "{node} entered {} ms after it had lost the majority: its side has no authority",
                (at - since) / 1000
            );
            findings.violation("E1", at, vec![node], detail, trace.names(&[index]));
        }
    }
}
