//! A long run survives being written and read, and is judged.

use compasso_checker::{
    Event, NodeRef, TraceEvent, check,
    trace::{read_trace, write_trace},
};

const NODES: u16 = 5;
const EVENTS: usize = 200_000;

/// A ring that takes turns, without stamps: they are computed.
fn long_trace() -> Vec<TraceEvent> {
    let mut seqs = [0_u64; NODES as usize];
    let mut trace = Vec::with_capacity(EVENTS);
    let mut add = |node: u16, event: Event| {
        let seq = &mut seqs[usize::from(node)];
        *seq += 1;
        let at = trace.len() as i64 * 100;
        trace.push(TraceEvent {
            node: NodeRef::Node(node),
            seq: *seq,
            inc: 1,
            lamport: None,
            vector: None,
            hw_us: Some(at),
            cluster_us: Some(at),
            true_us: Some(at),
            event,
        });
        trace.len() < EVENTS
    };
    for hop in 1.. {
        let node = (hop % u64::from(NODES)) as u16;
        let next = (node + 1) % NODES;
        let (resource, kind) = (|| "cs".into(), || "token".into());
        let going = add(node, Event::Token { resource: resource(), epoch: 1, serial: hop })
            && add(node, Event::Request { resource: resource() })
            && add(node, Event::CsEnter { resource: resource(), fence: hop, lease_us: None })
            && add(node, Event::CsExit { resource: resource(), fence: hop })
            && add(node, Event::Send { to: next, kind: kind(), id: hop, again: false })
            && add(next, Event::Recv { from: node, kind: kind(), id: hop, from_inc: 1 });
        if !going {
            break;
        }
    }
    trace
}

#[test]
fn two_hundred_thousand_events_are_written_read_and_checked() {
    let trace = long_trace();
    let mut bytes = Vec::new();
    write_trace(&trace, &mut bytes).expect("memory takes everything");
    let read = read_trace(&bytes[..], "long.jsonl").expect("what was written can be read");
    assert!(read == trace);
    let report = check(&read);
    assert!(
        report.violations.iter().all(|violation| violation.detail.contains("never granted")),
        "{:?}",
        report.violations
    );
    assert!(report.violations.len() <= 1, "{:?}", report.violations);
}
