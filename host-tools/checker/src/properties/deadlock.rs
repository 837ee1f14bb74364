//! deadlock: none is reported that never was, and none is left standing.
//!
//! The wait-for graph is what the trace shows of requests, visits, crashes and leases, not what nodes believed.
//!
//! - A reported circle must have existed at some moment of the reporter's present wait; in the textbook's form, which
//!   looks at nothing but the probe that returned, at any moment before.
//! - Whoever gives back as a victim was named as one before, in a report that had not been obeyed yet.
//! - Where deadlocks are to be found, a circle must be broken within [`crate::Setting::found_within_us`] of quiet.
//! - Wait-die and wound-wait let a circle close for as long as it takes to tell who has to give up:
//!   [`crate::Setting::prevented_within_us`] of quiet.
//! - With a global order or declared claims no circle ever closes.
//! - Where deadlocks are ignored, one that stands is a violation all the same: that is what ignoring costs.
//!
//! Quiet is when no fault has happened for as long as the cluster needs to settle, and no view has changed.

use super::{unique, votes};
use crate::{
    cluster::disturbs,
    entries::Entries,
    findings::Findings,
    index::Trace,
    trace::Event,
    wait_for::{Circle, Moment, WaitFor, same_nodes},
};
use std::collections::BTreeMap;

pub(super) fn check(trace: &Trace<'_>, entries: &Entries, findings: &mut Findings) {
    let voting = votes::check(trace, entries, findings);
    let graph = WaitFor::of(trace, entries);
    let reports = trace.events.iter().any(|event| matches!(event.event, Event::Deadlock { .. }));
    let timed = trace.end_us.is_some();
    if !timed && (graph.requests > 0 || reports) {
        return findings.not_checked("deadlock", "no true time says who waited for whom at one moment", 1);
    }
    if graph.requests == 0 && !reports {
        if !voting {
            let reason = match trace.setting.strategy.as_deref() {
                None if trace.setting.known => "no deadlock strategy in this run",
                None => "nobody asked for what can be locked",
                Some(_) => "nobody asked for anything",
            };
            findings.not_checked("deadlock", reason, 1);
        }
        return;
    }
    findings.decided("deadlock", graph.requests);
    let circles = graph.circles();
    reported(trace, &graph, findings);
    victims(trace, findings);
    standing(trace, &graph, &circles, findings);
}

fn reported(trace: &Trace<'_>, graph: &WaitFor, findings: &mut Findings) {
    for (index, event) in trace.events.iter().enumerate() {
        let Event::Deadlock { cycle, victim } = &event.event else { continue };
        let (Some(node), Some(at)) = (event.node_id(), event.true_us) else { continue };
        let names: Vec<String> = cycle.iter().map(u16::to_string).collect();
        if victim.is_some_and(|victim| !cycle.contains(&victim)) {
            let detail =
                format!("{node} reported a deadlock of {}, but its victim is not one of them", names.join(", "));
            findings.violation("deadlock", at, vec![node], detail, trace.names(&[index]));
        }
        let since = if trace.setting.hardening { wait_began(trace, index) } else { (i64::MIN, 0) };
        let by = (at, index);
        if graph.stood_in_circle(cycle, since, by, trace.setting.tolerance_us()).is_some() {
            findings.decided("deadlock", 1);
        } else {
            let detail = format!(
                "{node} reported a deadlock of {}, but there was no moment at which they waited for each other in a circle",
                names.join(", ")
            );
            findings.violation(
                "deadlock",
                at,
                unique(cycle.iter().copied().chain([node])),
                detail,
                trace.names(&[index]),
            );
        }
    }
}

/// A victim that nobody named gave back for nothing, or a deadlock was found that nobody told of.
fn victims(trace: &Trace<'_>, findings: &mut Findings) {
    let mut reports: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
    for (index, event) in trace.events.iter().enumerate() {
        if let Event::Deadlock { victim: Some(victim), .. } = event.event {
            reports.entry(victim).or_default().push(index);
        }
    }
    for ((node, _), stream) in &trace.streams {
        let reports = reports.get(node).map_or(&[][..], Vec::as_slice);
        let mut obeyed: Option<usize> = None;
        for index in stream.iter().copied() {
            if !matches!(&trace.event(index).event, Event::Abandon { reason } if reason == "victim") {
                continue;
            }
            let is_new = |report: &usize| obeyed.is_none_or(|obeyed| !trace.before(*report, obeyed));
            if reports.iter().rev().any(|report| is_new(report) && trace.before(*report, index)) {
                findings.decided("deadlock", 1);
            } else if trace.gaps.is_empty() {
                let detail = format!("{node} gave back as the victim of a deadlock that nobody had reported");
                findings.violation("deadlock", trace.event(index).at_us(), vec![*node], detail, trace.names(&[index]));
            } else {
                findings.not_checked("deadlock", "the report that names a victim may lie in a counted gap", 1);
            }
            obeyed = Some(index);
        }
    }
}

/// When the reporter last got, gave back or asked for anything.
fn wait_began(trace: &Trace<'_>, report: usize) -> Moment {
    let event = trace.event(report);
    let stream = event.node_id().and_then(|node| trace.streams.get(&(node, event.inc))).map_or(&[][..], Vec::as_slice);
    let before = stream.partition_point(|index| trace.event(*index).seq < event.seq);
    let last = stream[..before].iter().rev().copied().find(|index| match &trace.event(*index).event {
        Event::Request { resource }
        | Event::CsEnter { resource, .. }
        | Event::CsExit { resource, .. }
        | Event::Withdraw { resource } => trace.setting.is_lock(resource),
        _ => false,
    });
    last.and_then(|index| Some((trace.event(index).true_us?, index))).unwrap_or((i64::MIN, 0))
}

fn standing(trace: &Trace<'_>, graph: &WaitFor, circles: &[Circle], findings: &mut Findings) {
    let setting = &trace.setting;
    let Some(strategy) = setting.strategy.as_deref() else {
        return findings.not_checked("deadlock", "the trace does not say what was to be done about deadlocks", 1);
    };
    // Two boards' clocks make a circle of waits that did not overlap.
    let never_us = 2 * setting.tolerance_us();
    let allowed_us = match strategy {
        "prevent-order" | "avoid" => None,
        "wait-die" | "wound-wait" => Some(setting.prevented_within_us()),
        _ => Some(setting.found_within_us()),
    };
    if let (Some(why), Some(_)) = (setting.restless(), allowed_us) {
        return findings.not_checked("deadlock", &why, 1);
    }
    let end = trace.end_us.unwrap_or(0);
    let disturbances = disturbances(trace);
    for circle in circles {
        let (from, until) = (circle.from.0, circle.until.0.min(end));
        let broken = match allowed_us {
            None => until - from >= never_us,
            Some(allowed) => longest_quiet(&disturbances, from, until, setting.settle_us()) > allowed,
        };
        if !broken {
            findings.decided("deadlock", 1);
            continue;
        }
        let reported = trace.events.iter().any(|event| {
            let within = event.true_us.is_some_and(|at| at >= from && at <= until);
            within && matches!(&event.event, Event::Deadlock { cycle, .. } if same_nodes(cycle, &circle.nodes))
        });
        let why = match (strategy, circle.until.0 > end, reported) {
            ("prevent-order" | "avoid", ..) => format!("{strategy} lets no circle close"),
            ("wait-die" | "wound-wait", ..) => format!("{strategy} lets no circle stand"),
            ("detect", _, false) => "nobody reported it".to_owned(),
            ("detect", _, true) => "it was reported, but nobody gave back".to_owned(),
            (_, true, _) => "nobody does anything about it, and so it stands to the end".to_owned(),
            (_, false, _) => "nobody did anything about it".to_owned(),
        };
        let events: Vec<usize> = circle.edges.iter().map(|edge| graph.edges[*edge].request).collect();
        let detail = format!("a deadlock: {}; {why}", in_words(&circle.nodes));
        findings.violation("deadlock", from, unique(circle.nodes.iter().copied()), detail, trace.names(&events));
    }
}

/// "0 waits for 1, 1 waits for 0".
pub(super) fn in_words(circle: &[u16]) -> String {
    let next = circle.iter().skip(1).chain(circle.first());
    circle.iter().zip(next).map(|(node, next)| format!("{node} waits for {next}")).collect::<Vec<_>>().join(", ")
}

/// Faults and whatever the cluster did about them, each with how long it disturbs.
fn disturbances(trace: &Trace<'_>) -> Vec<(i64, bool)> {
    let mut list: Vec<(i64, bool)> = trace
        .events
        .iter()
        .filter_map(|event| match &event.event {
            Event::Fault(fault) if disturbs(fault) => Some((event.at_us(), true)),
            Event::Boot { .. }
            | Event::View { .. }
            | Event::Suspect { .. }
            | Event::Trust { .. }
            | Event::ElectionStart { .. } => Some((event.true_us?, false)),
            _ => None,
        })
        .collect();
    list.sort_unstable();
    list
}

/// The longest time within these bounds in which nothing disturbed.
fn longest_quiet(disturbances: &[(i64, bool)], from: i64, until: i64, settle_us: i64) -> i64 {
    let first = disturbances.partition_point(|(at, _)| *at < from - settle_us);
    let (mut quiet_from, mut longest) = (from, 0);
    for (at, is_fault) in disturbances[first..].iter().take_while(|(at, _)| *at < until) {
        longest = longest.max(at - quiet_from);
        quiet_from = quiet_from.max(if *is_fault { at + settle_us } else { *at });
    }
    longest.max(until - quiet_from)
}
