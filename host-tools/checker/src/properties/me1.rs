//! ME1: at most one node is inside.
//!
//! Decided by causality: of two entries, the end of the earlier one happened before the later one
//! began. An entry also ends with its node's crash or with its lease; that leaves no message, so
//! there true time decides, where it is known. An entry whose fence was refused did no harm.
//!
//! And only who has asked is let in: each entry answers a request that its node made in the same life.

use super::unique;
use crate::{
    entries::{Entries, Entry},
    findings::Findings,
    index::Trace,
    render::span,
    trace::Event,
};

pub(super) fn check(trace: &Trace<'_>, entries: &Entries, findings: &mut Findings) {
    if entries.count() == 0 {
        let reason = if trace.setting.mutex.as_deref() == Some("none") {
            "no mutual exclusion in this run"
        } else {
            "nobody entered"
        };
        findings.not_checked("ME1", reason, 1);
        return;
    }
    for (resource, list) in &entries.by_resource {
        let counted: Vec<&Entry> = list.iter().filter(|entry| entry.fenced.is_none()).collect();
        findings.decided("ME1", counted.len() as u64);
        list.iter().filter(|entry| entry.request.is_none()).for_each(|entry| unasked(trace, resource, entry, findings));
        for pair in counted.windows(2) {
            if let [first, second] = pair
                && (first.node, first.inc) != (second.node, second.inc)
            {
                compare(trace, resource, first, second, findings);
            }
        }
    }
}

/// A node that is let in without having asked holds what it knows nothing of.
fn unasked(trace: &Trace<'_>, resource: &str, entry: &Entry, findings: &mut Findings) {
    let tells = trace.setting.known || trace.events.iter().any(|event| matches!(event.event, Event::Request { .. }));
    if !tells {
        findings.not_checked("ME1", "whether who entered had asked: the trace tells of no request", 1);
    } else if trace.gaps.contains_key(&(entry.node, entry.inc)) {
        findings.not_checked("ME1", "whether who entered had asked: the request may lie in a counted gap", 1);
    } else {
        let detail = format!("{} entered \"{resource}\" without having asked for it", entry.node);
        let at_us = trace.event(entry.enter).at_us();
        findings.violation("ME1", at_us, vec![entry.node], detail, trace.names(&[entry.enter]));
    }
}

enum Verdict {
    Apart,
    Together(String),
    Unknown,
}

fn compare(trace: &Trace<'_>, resource: &str, first: &Entry, second: &Entry, findings: &mut Findings) {
    let verdict = match verdict(trace, first, second) {
        // Without exact true time the list's order is only a guess: the other way round may be right.
        Verdict::Together(_)
            if !trace.setting.is_exact() && second.exit.is_some_and(|exit| trace.before(exit, first.enter)) =>
        {
            Verdict::Apart
        }
        verdict => verdict,
    };
    match verdict {
        Verdict::Apart => {}
        Verdict::Unknown => {
            findings.not_checked("ME1", "an entry without exit has a lease, and no true time says when that ended", 1);
        }
        Verdict::Together(why) => {
            let mut events = vec![first.enter];
            events.extend(first.exit);
            events.push(second.enter);
            findings.violation(
                "ME1",
                trace.event(second.enter).at_us(),
                unique([first.node, second.node]),
                format!("{} entered \"{resource}\" while {} was inside: {why}", second.node, first.node),
                trace.names(&events),
            );
        }
    }
}

fn verdict(trace: &Trace<'_>, first: &Entry, second: &Entry) -> Verdict {
    let ordered = first.exit.is_some_and(|exit| trace.before(exit, second.enter));
    let entered = trace.event(second.enter).true_us;
    if let (Some(entered), true) = (entered, trace.event(first.enter).true_us.is_some()) {
        let setting = &trace.setting;
        let lease_slack = if first.leased { setting.lease_us * setting.drift_ppm / 1_000_000 } else { 0 };
        let slack = setting.tolerance_us() + lease_slack;
        return match first.end_us(trace) {
            _ if ordered && !setting.is_exact() => Verdict::Apart,
            Some(end) if end > entered + slack => {
                Verdict::Together(format!("its visit lasted {} longer by true time", span(end - entered)))
            }
            None => Verdict::Together("it had not left, its node had not crashed, and it had no lease".to_owned()),
            Some(_) if ordered => Verdict::Apart,
            Some(end) => over_without_message(trace, first, end, entered + slack),
        };
    }
    if ordered || (first.exit.is_none() && trace.next_life(first.node, first.inc).is_some()) {
        Verdict::Apart
    } else if first.exit.is_none() && first.leased {
        Verdict::Unknown
    } else {
        Verdict::Together("no message tells that it had left".to_owned())
    }
}

/// The first visit was over by true time, but nothing told the second node so: only a crash or the
/// end of the lease makes that more than luck.
fn over_without_message(trace: &Trace<'_>, first: &Entry, end: i64, entered: i64) -> Verdict {
    let begun = trace.event(first.enter).true_us.unwrap_or(end);
    let dead = trace.death_us(first.node, first.inc, begun).is_some_and(|death| death <= entered);
    let expired = first.lease_end_us.is_some_and(|lease_end| lease_end <= entered);
    if dead || expired {
        Verdict::Apart
    } else {
        Verdict::Together("it had left, but no message told so and its lease had not ended".to_owned())
    }
}
