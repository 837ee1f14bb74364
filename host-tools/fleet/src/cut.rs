//! Where a record of real boards begins and ends: nobody stops them in one moment, and some have lived before.
//!
//! A stream may begin in the middle of a life, and a life may end before its last words were taken: such holes
//! are declared as gaps. At the end of the collection some boards have told more than others: the trace is cut
//! so that whatever an event knows of is in it.

use compasso_checker::{Event, NodeRef, TraceEvent};
use std::collections::{BTreeMap, BTreeSet};

/// A node in one of its lives.
pub type Life = (u16, u32);

/// Cuts the trace back to a consistent cut. Only lives in `talking` are cut, and only by each other: whoever
/// fell silent before the end has said all that will ever be heard of it.
#[must_use]
pub fn consistent(mut trace: Vec<TraceEvent>, talking: &BTreeSet<Life>) -> Vec<TraceEvent> {
    let mut last: BTreeMap<Life, u64> = BTreeMap::new();
    for (life, seq) in trace.iter().filter_map(of_node) {
        let end = last.entry(life).or_default();
        *end = (*end).max(seq);
    }
    loop {
        let mut changed = false;
        for event in &trace {
            let (Some((life, seq)), Some(vector)) = (of_node(event), &event.vector) else { continue };
            let is_kept = last.get(&life).is_some_and(|end| seq <= *end);
            let knows_too_much = vector.iter().any(|(node, (inc, count))| {
                let other = (node, inc);
                other != life && talking.contains(&other) && last.get(&other).is_none_or(|end| count > *end)
            });
            if is_kept && knows_too_much && talking.contains(&life) {
                last.insert(life, seq - 1);
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    trace.retain(|event| of_node(event).is_none_or(|(life, seq)| last.get(&life).is_some_and(|end| seq <= *end)));
    trace
}

/// Declares what is known to be missing: the beginning of lives that were joined, and the end of lives that
/// were not followed to it. How much that was nobody knows: it counts as one event.
pub fn declare_gaps(trace: &mut Vec<TraceEvent>, talking: &BTreeSet<Life>) {
    let mut first: BTreeMap<Life, u64> = BTreeMap::new();
    let mut heard_of: BTreeSet<Life> = BTreeSet::new();
    for event in trace.iter() {
        let Some((life, seq)) = of_node(event) else { continue };
        first.entry(life).and_modify(|least| *least = (*least).min(seq)).or_insert(seq);
        heard_of.insert(life);
        if let Event::Recv { from, from_inc, .. } = event.event {
            heard_of.insert((from, from_inc));
        }
    }
    let stage = trace.iter().filter(|event| event.node == NodeRef::Stage).count() as u64;
    let missing = |life: &Life| {
        let before = first.get(life).map_or(0, |seq| seq - 1);
        let after = u64::from(!talking.contains(life));
        (before + after > 0).then_some(Event::Gap { of: life.0, inc: life.1, missed: before + after })
    };
    let gaps: Vec<Event> = heard_of.iter().filter_map(missing).collect();
    // Before the end, which is the last thing that a trace says.
    let ends = matches!(trace.last(), Some(TraceEvent { event: Event::End, .. }));
    let end = if ends { trace.pop() } else { None };
    let at = trace.iter().rev().find(|event| event.node == NodeRef::Stage).and_then(|event| event.true_us);
    let base = stage - u64::from(ends);
    trace.extend(gaps.into_iter().zip(base + 1..).map(|(event, seq)| TraceEvent::stage(seq, at, event)));
    if let Some(end) = end {
        let seq = trace.iter().filter(|event| event.node == NodeRef::Stage).count() as u64 + 1;
        trace.push(TraceEvent { seq, ..end });
    }
}

fn of_node(event: &TraceEvent) -> Option<(Life, u64)> {
    event.node_id().map(|node| ((node, event.inc), event.seq))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An event of a node's life 3 whose vector knows `knows` of node 2's.
    fn event(node: u16, seq: u64, knows: u64) -> TraceEvent {
        let other = if node == 1 { 2 } else { 1 };
        let entries = [(node, (3, seq)), (other, (3, knows))];
        let blank = TraceEvent::stage(seq, None, Event::Suspect { id: 9 });
        TraceEvent { node: NodeRef::Node(node), inc: 3, vector: Some(entries.into_iter().collect()), ..blank }
    }

    fn seqs(trace: &[TraceEvent]) -> Vec<(u16, u64)> {
        trace.iter().filter_map(of_node).map(|((node, _), seq)| (node, seq)).collect()
    }

    #[test]
    fn nothing_is_left_that_knows_what_is_not_in_the_trace() {
        let talking = BTreeSet::from([(1, 3), (2, 3)]);
        // 1's third event knows 2's fourth, which was never collected; 2's third knows 1's third.
        let trace =
            vec![event(1, 1, 0), event(2, 1, 1), event(1, 2, 1), event(2, 2, 2), event(1, 3, 4), event(2, 3, 3)];
        let kept = consistent(trace.clone(), &talking);
        assert_eq!(seqs(&kept), [(1, 1), (2, 1), (1, 2), (2, 2)]);
        let unplugged = consistent(trace, &BTreeSet::from([(1, 3)]));
        assert_eq!(unplugged.len(), 6, "2 will never say more: that is no reason to forget what 1 said");
    }

    #[test]
    fn holes_at_both_ends_are_declared() {
        let mut received = event(1, 8, 0);
        received.event = Event::Recv { from: 5, from_inc: 7, kind: "token".into(), id: 1 };
        let end = TraceEvent::stage(1, Some(99), Event::End);
        let mut trace = vec![event(1, 7, 0), received, event(2, 1, 0), end];
        declare_gaps(&mut trace, &BTreeSet::from([(1, 3)]));
        let said: Vec<_> =
            trace.iter().filter(|event| event.node == NodeRef::Stage).map(|e| (e.seq, &e.event)).collect();
        assert_eq!(
            said,
            [
                (1, &Event::Gap { of: 1, inc: 3, missed: 6 }),
                (2, &Event::Gap { of: 2, inc: 3, missed: 1 }),
                (3, &Event::Gap { of: 5, inc: 7, missed: 1 }),
                (4, &Event::End),
            ]
        );
    }
}
