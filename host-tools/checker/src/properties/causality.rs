//! causality: every receive has a send that happened before it, and the stamps agree with the
//! real order. No life takes in one datagram twice, where hardening promises it. A receive whose send lies in a counted
//! gap of the sender's stream is not checked.

use super::unique;
use crate::{
    findings::Findings,
    index::Trace,
    trace::{Event, is_host},
};
use std::collections::HashMap;

pub(super) fn check(trace: &Trace<'_>, findings: &mut Findings) {
    let mut decided = 0;
    for ((node, inc), stream) in &trace.streams {
        numbering(trace, *node, *inc, stream, findings);
        let mut previous: Option<usize> = None;
        let mut taken: HashMap<usize, usize> = HashMap::new();
        for index in stream.iter().copied() {
            decided += u64::from(
                trace.event(index).vector.is_some() || matches!(trace.event(index).event, Event::Recv { .. }),
            );
            own_stamps(trace, *node, previous, index, findings);
            // The host's commands come from outside the experiment: it sends no trace.
            if let Event::Recv { from, from_inc, .. } = &trace.event(index).event
                && !is_host(*from)
            {
                receive(trace, *node, previous, index, (*from, *from_inc), findings);
                if trace.setting.known && trace.setting.hardening {
                    once(trace, *node, &mut taken, index, findings);
                }
            }
            previous = Some(index);
        }
        rebirth(trace, *node, *inc, stream, findings);
    }
    findings.decided("causality", decided);
    if decided == 0 {
        findings.not_checked("causality", "the trace has neither receives nor stamps", 1);
    }
    if !trace.events.iter().any(|event| event.node_id().is_some() && event.vector.is_some()) {
        findings.not_checked(
            "causality",
            "the trace has no stamps of its own: they were computed from sends and receives",
            1,
        );
    }
}

fn wrong(trace: &Trace<'_>, detail: String, events: &[usize], findings: &mut Findings) {
    let at_us = events.last().map_or(0, |last| trace.event(*last).at_us());
    let nodes = unique(events.iter().filter_map(|index| trace.event(*index).node_id()));
    findings.violation("causality", at_us, nodes, detail, trace.names(events));
}

/// A stream counts from 1 without holes, except for those that a gap declares.
fn numbering(trace: &Trace<'_>, node: u16, inc: u32, stream: &[usize], findings: &mut Findings) {
    let declared = trace.gaps.get(&(node, inc)).copied().unwrap_or(0);
    let mut missing = 0;
    let mut last = 0;
    for index in stream.iter().copied() {
        let seq = trace.event(index).seq;
        if seq <= last {
            wrong(trace, format!("{node} has two events number {seq} in one life"), &[index], findings);
        } else {
            missing += seq - last - 1;
        }
        if missing > declared {
            wrong(
                trace,
                format!("events of {node} before number {seq} are missing, and no gap declares them"),
                &[index],
                findings,
            );
            return;
        }
        last = seq;
    }
    if missing > 0 {
        findings.not_checked("causality", "events in a counted gap", missing);
    }
}

fn own_stamps(trace: &Trace<'_>, node: u16, previous: Option<usize>, index: usize, findings: &mut Findings) {
    let event = trace.event(index);
    if let Some(vector) = &event.vector {
        if vector.get(node) != event.stamp() {
            let (inc, count) = vector.get(node);
            wrong(
                trace,
                format!(
                    "the own entry of a vector is {inc}.{count}, but the event is number {}.{}",
                    event.inc, event.seq
                ),
                &[index],
                findings,
            );
        }
        if let Some(before) = previous
            && let Some(known) = &trace.event(before).vector
        {
            let adjacent = trace.event(before).seq + 1 == event.seq;
            if !vector.covers(known) {
                wrong(trace, format!("{node} forgot what its vector already knew"), &[before, index], findings);
            } else if adjacent
                && !matches!(event.event, Event::Recv { .. } | Event::Drop { .. })
                && vector.iter().any(|(other, stamp)| other != node && stamp != known.get(other))
            {
                wrong(
                    trace,
                    format!("the vector of {node} learned something without a receive"),
                    &[before, index],
                    findings,
                );
            }
        }
    }
    if let (Some(lamport), Some(before)) = (event.lamport, previous)
        && trace.event(before).lamport.is_some_and(|earlier| earlier >= lamport)
    {
        wrong(trace, format!("the Lamport time of {node} did not grow"), &[before, index], findings);
    }
}

fn receive(
    trace: &Trace<'_>,
    node: u16,
    previous: Option<usize>,
    index: usize,
    sender: (u16, u32),
    findings: &mut Findings,
) {
    let event = trace.event(index);
    let Some(send) = trace.send_of(index) else {
        if trace.gaps.get(&sender).is_some_and(|missed| *missed > 0) {
            findings.not_checked("causality", "the send of a receive lies in a counted gap", 1);
        } else {
            wrong(trace, format!("{node} received what {} never sent", sender.0), &[index], findings);
        }
        return;
    };
    let sent = trace.event(send);
    if let (Some(known), Some(carried)) = (&event.vector, &sent.vector)
        && !known.covers(carried)
    {
        wrong(trace, format!("a receive of {node} does not know what its send knew"), &[send, index], findings);
    }
    if let (Some(known), Some(carried)) = (&event.vector, &sent.vector)
        && let Some(before) = previous.filter(|before| trace.event(*before).seq + 1 == event.seq)
        && let Some(own) = &trace.event(before).vector
        && known.iter().any(|(other, stamp)| other != node && stamp > own.get(other).max(carried.get(other)))
    {
        wrong(trace, format!("a receive of {node} knows what neither it nor its send knew"), &[send, index], findings);
    }
    if let (Some(received), Some(departed)) = (event.lamport, sent.lamport)
        && received <= departed
    {
        wrong(
            trace,
            format!("a receive of {node} has Lamport time {received}, its send {departed}"),
            &[send, index],
            findings,
        );
    }
    if sent.vector.is_none() && event.vector.is_none() && !trace.before(send, index) {
        wrong(trace, format!("{node} received what {} sent only afterwards", sender.0), &[send, index], findings);
    }
    if let (Some(received), Some(departed)) = (event.true_us, sent.true_us)
        && received < departed - trace.setting.tolerance_us()
    {
        wrong(
            trace,
            format!("{node} received {} us before {} sent", departed - received, sender.0),
            &[send, index],
            findings,
        );
    }
}

/// A datagram may arrive twice, but is taken in once: the second is refused as a replay.
fn once(trace: &Trace<'_>, node: u16, taken: &mut HashMap<usize, usize>, index: usize, findings: &mut Findings) {
    let Some(send) = trace.send_of(index) else { return };
    if let Some(first) = taken.insert(send, index) {
        wrong(trace, format!("{node} took in one datagram twice"), &[send, first, index], findings);
    }
}

/// A life begins after the one before it.
fn rebirth(trace: &Trace<'_>, node: u16, inc: u32, stream: &[usize], findings: &mut Findings) {
    let (Some(last), Some(boot)) = (stream.last().copied(), trace.next_life(node, inc)) else { return };
    if let (Some(lived), Some(born)) = (trace.event(last).true_us, trace.event(boot).true_us)
        && born < lived - trace.setting.tolerance_us()
    {
        wrong(trace, format!("{node} was born again before its earlier life ended"), &[last, boot], findings);
    }
}
