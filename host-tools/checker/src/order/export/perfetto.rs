//! Trace Event JSON, which ui.perfetto.dev opens: a process for each node, in it a track of its
//! events, one of its lives, one of its leaderships, one of the token and one for each resource;
//! a flow for each message.

use super::{
    fields,
    spans::{Clock, Span, What, spans},
};
use crate::{
    index::Trace,
    trace::{Event, NodeRef},
};
use serde_json::{Map, Value, json};
use std::{
    collections::{BTreeMap, HashMap},
    io,
};

/// How long an event is drawn, in nanoseconds: a flow binds to a slice, and an instant is none.
/// Events of one moment stand side by side at this distance.
const EVENT_NS: i64 = 100;
/// The process of the stage's own lines; nodes have theirs below.
const STAGE: u32 = 1 << 17;
/// Tracks a process may have: thread numbers are unique over all processes.
const TRACKS: u32 = 1024;

/// A track of a node.
#[derive(Clone, Copy)]
enum Track {
    Events,
    Life,
    Leads,
    Token,
    Resource(usize),
}

impl Track {
    fn number(self) -> u32 {
        match self {
            Track::Events => 1,
            Track::Life => 2,
            Track::Leads => 3,
            Track::Token => 4,
            // More resources than tracks share the last.
            Track::Resource(at) => u32::try_from(at).unwrap_or(TRACKS).saturating_add(5).min(TRACKS - 1),
        }
    }
}

/// Writes a trace.
pub(super) fn write(trace: &Trace<'_>, out: &mut dyn io::Write) -> io::Result<Clock> {
    let clock = Clock::of(trace);
    let spans = spans(trace, clock);
    let mut resources: Vec<&str> = spans.iter().filter_map(resource).collect();
    resources.sort_unstable();
    resources.dedup();
    let starts = starts(trace, clock);
    let first = starts.iter().flatten().copied().chain(spans.iter().map(|span| span.from_us.saturating_mul(1000)));
    let mut sheet = Sheet { out, first: true, origin_ns: first.min().unwrap_or(0).min(0) };
    write!(sheet.out, "{{\"displayTimeUnit\":\"ms\",\"traceEvents\":[")?;
    sheet.name_tracks(trace, &resources)?;
    for span in &spans {
        sheet.span(span, &resources)?;
    }
    for (index, event) in trace.events.iter().enumerate() {
        let mut args = fields(&event.event);
        args.insert("event".to_owned(), json!(event.name()));
        match (event.node, starts[index]) {
            (NodeRef::Node(node), Some(at)) => {
                args.insert("lamport".to_owned(), json!(trace.lamport(index)));
                let slice = json!({ "ph": "X", "name": event.event.name(), "cat": "event", "args": args });
                sheet.write(slice, process(node), Track::Events.number(), at, Some(EVENT_NS))?;
                if let Some((send, from)) = trace.send_of(index).and_then(|send| Some((send, starts[send]?))) {
                    sheet.flow(trace, (send, from), (index, at))?;
                }
            }
            (NodeRef::Stage, _) if clock == Clock::True => {
                let instant = json!({ "ph": "i", "s": "g", "name": event.event.name(), "cat": "stage", "args": args });
                sheet.write(instant, STAGE, 1, event.true_us.unwrap_or(0).saturating_mul(1000), None)?;
            }
            (NodeRef::Node(_) | NodeRef::Stage, _) => {}
        }
    }
    writeln!(sheet.out, "\n]}}")?;
    Ok(clock)
}

fn resource(span: &Span) -> Option<&str> {
    match &span.what {
        What::Inside { resource, .. } => Some(resource),
        What::Alive(_) | What::Leads { .. } | What::Token { .. } => None,
    }
}

fn process(node: u16) -> u32 {
    u32::from(node) + 1
}

/// Where each node event is drawn, in nanoseconds: in the order of its stream, side by side.
fn starts(trace: &Trace<'_>, clock: Clock) -> Vec<Option<i64>> {
    let mut starts = vec![None; trace.events.len()];
    let mut free: HashMap<u16, i64> = HashMap::new();
    for ((node, _), stream) in &trace.streams {
        for index in stream {
            let wanted = clock.at(trace, *index).saturating_mul(1000);
            let at = free.get(node).map_or(wanted, |free| wanted.max(*free));
            starts[*index] = Some(at);
            free.insert(*node, at.saturating_add(EVENT_NS));
        }
    }
    starts
}

struct Sheet<'a> {
    out: &'a mut dyn io::Write,
    first: bool,
    origin_ns: i64,
}

impl Sheet<'_> {
    fn write(
        &mut self,
        mut event: Value,
        process: u32,
        track: u32,
        at_ns: i64,
        long_ns: Option<i64>,
    ) -> io::Result<()> {
        let us = |ns: i64| json!(ns as f64 / 1000.0);
        if let Value::Object(map) = &mut event {
            map.insert("pid".to_owned(), json!(process));
            map.insert("tid".to_owned(), json!(process * TRACKS + track));
            map.insert("ts".to_owned(), us(at_ns.saturating_sub(self.origin_ns)));
            map.extend(long_ns.map(|ns| ("dur".to_owned(), us(ns))));
        }
        self.line(&event)
    }

    fn line(&mut self, event: &Value) -> io::Result<()> {
        let comma = if std::mem::take(&mut self.first) { "" } else { "," };
        write!(self.out, "{comma}\n{event}")
    }

    fn name_tracks(&mut self, trace: &Trace<'_>, resources: &[&str]) -> io::Result<()> {
        let mut nodes: BTreeMap<u32, String> = BTreeMap::new();
        for (node, _) in trace.streams.keys() {
            nodes.insert(process(*node), format!("node {node}"));
        }
        nodes.insert(STAGE, "stage".to_owned());
        for (process, name) in &nodes {
            let tell = |what: &str, track: u32, args: Value| json!({ "ph": "M", "name": what, "pid": process, "tid": process * TRACKS + track, "args": args });
            self.line(&tell("process_name", 1, json!({ "name": name })))?;
            self.line(&tell("process_sort_index", 1, json!({ "sort_index": process })))?;
            if *process == STAGE {
                continue;
            }
            let mut tracks = vec![
                (Track::Events, "events".to_owned()),
                (Track::Life, "alive".to_owned()),
                (Track::Leads, "leads".to_owned()),
                (Track::Token, "token".to_owned()),
            ];
            tracks
                .extend(resources.iter().enumerate().map(|(at, name)| (Track::Resource(at), format!("inside {name}"))));
            for (track, name) in tracks {
                self.line(&tell("thread_name", track.number(), json!({ "name": name })))?;
                self.line(&tell("thread_sort_index", track.number(), json!({ "sort_index": track.number() })))?;
            }
        }
        Ok(())
    }

    fn span(&mut self, span: &Span, resources: &[&str]) -> io::Result<()> {
        let (track, name, args) = match &span.what {
            What::Alive(inc) => (Track::Life, format!("life {inc}"), json!({ "incarnation": inc })),
            What::Leads { term } => (Track::Leads, "leads".to_owned(), json!({ "term": term })),
            What::Token { resource } => (Track::Token, format!("token of {resource}"), Value::Object(Map::new())),
            What::Inside { resource, fence } => {
                let at = resources.binary_search(&resource.as_str()).unwrap_or(0);
                (Track::Resource(at), format!("inside {resource}"), json!({ "fence": fence }))
            }
        };
        let slice = json!({ "ph": "X", "name": name, "cat": "state", "args": args });
        let (at, long) =
            (span.from_us.saturating_mul(1000), span.to_us.saturating_sub(span.from_us).saturating_mul(1000));
        self.write(slice, process(span.node), track.number(), at, Some(long))
    }

    /// A message: from its send to its receive, bound to the slices that enclose both ends.
    fn flow(&mut self, trace: &Trace<'_>, (send, from): (usize, i64), (recv, to): (usize, i64)) -> io::Result<()> {
        let kind = match &trace.event(recv).event {
            Event::Recv { kind, .. } => kind.as_ref(),
            _ => "message",
        };
        let end = |phase: &str| json!({ "ph": phase, "name": kind, "cat": "message", "id": recv });
        let node = |index: usize| trace.event(index).node_id().map_or(STAGE, process);
        self.write(end("s"), node(send), Track::Events.number(), from, None)?;
        let mut arrival = end("f");
        arrival["bp"] = json!("e");
        self.write(arrival, node(recv), Track::Events.number(), to, None)
    }
}
