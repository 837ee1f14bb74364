//! For whom a request waits: whom its node asked, who heard of it, who has not answered.

use crate::{
    cluster::Cluster,
    index::Trace,
    trace::{Event, TraceEvent},
};
use std::collections::{BTreeMap, BTreeSet, HashMap, btree_map::Entry};

const REQUEST: &str = "request";
const ANSWERS: [&str; 4] = ["grant", "ok", "acknowledge", "denied"];

/// Every message that asks for a turn, and when it was first received.
pub(super) struct Waits<'t, 'e> {
    trace: &'t Trace<'e>,
    heard: HashMap<usize, usize>,
}

impl<'t, 'e> Waits<'t, 'e> {
    pub(super) fn new(trace: &'t Trace<'e>) -> Waits<'t, 'e> {
        let mut heard = HashMap::new();
        for (index, event) in trace.events.iter().enumerate() {
            if let Event::Recv { kind, .. } = &event.event
                && kind == REQUEST
                && let Some(send) = trace.send_of(index)
            {
                heard.entry(send).or_insert(index);
            }
        }
        Waits { trace, heard }
    }

    /// The node's events after the request and before `until`.
    fn after(&self, request: usize, until: Option<usize>) -> impl Iterator<Item = (usize, &'e TraceEvent)> {
        let trace = self.trace;
        let event = trace.event(request);
        let stream =
            event.node_id().and_then(|node| trace.streams.get(&(node, event.inc))).map_or(&[][..], Vec::as_slice);
        let first = stream.partition_point(|index| trace.event(*index).seq <= event.seq);
        let last = until.map_or(u64::MAX, |until| trace.event(until).seq);
        let events = stream[first..].iter().map(|index| (*index, trace.event(*index)));
        events.take_while(move |(_, event)| event.seq < last)
    }

    /// Where each of those who were asked first heard of a request that was granted with `enter`;
    /// `None` if somebody never did.
    pub(super) fn heard_by_all(&self, request: usize, enter: usize) -> Option<Vec<usize>> {
        let mut asked: BTreeMap<u16, Option<usize>> = BTreeMap::new();
        for (index, event) in self.after(request, Some(enter)) {
            if let Event::Send { to, kind, .. } = &event.event
                && kind == REQUEST
            {
                let heard = asked.entry(*to).or_default();
                *heard = heard.or(self.heard.get(&index).copied());
            }
        }
        asked.into_values().collect()
    }

    /// Who was asked and has not answered.
    fn silent(&self, request: usize) -> BTreeSet<u16> {
        let mut silent = BTreeSet::new();
        for (_, event) in self.after(request, None) {
            match &event.event {
                Event::Send { to, kind, .. } if kind == REQUEST => drop(silent.insert(*to)),
                Event::Recv { from, kind, .. } if ANSWERS.contains(&kind.as_ref()) => drop(silent.remove(from)),
                _ => {}
            }
        }
        silent
    }

    /// What a request that was never granted waits for, as the end of a sentence.
    pub(super) fn reason(&self, request: usize, outstanding: &[usize], at_end: &Cluster) -> String {
        if let Some("token-ring" | "suzuki-kasami") = self.trace.setting.mutex.as_deref() {
            return self.last_token();
        }
        let silent = self.silent(request);
        let (dead, alive): (Vec<u16>, Vec<u16>) = silent.into_iter().partition(|id| at_end.is_crashed(*id));
        let circle = self.trace.event(request).node_id().and_then(|node| self.circle(node, outstanding));
        match (circle, &dead[..], &alive[..]) {
            (_, [], []) => String::new(),
            (Some(circle), ..) => {
                let waits: Vec<String> =
                    circle.windows(2).map(|pair| format!("{} waits for {}", pair[0], pair[1])).collect();
                format!(": {}, a circle", waits.join(", "))
            }
            (None, [], alive) => format!(": no answer from {}", list(alive)),
            (None, dead, _) => format!(": no answer from {}, dead", list(dead)),
        }
    }

    fn last_token(&self) -> String {
        let tokens = self
            .trace
            .events
            .iter()
            .filter(|event| matches!(event.event, Event::Token { .. } | Event::TokenDropped { .. }));
        match tokens.max_by_key(|event| event.at_us()) {
            Some(TraceEvent { node, event: Event::TokenDropped { .. }, .. }) => {
                format!(": the token was lost at {node}")
            }
            Some(TraceEvent { node, .. }) => format!(": the token was last seen at {node}"),
            None => ": there was no token".to_owned(),
        }
    }

    /// A circle of nodes that wait for each other, from this one back to itself.
    fn circle(&self, node: u16, outstanding: &[usize]) -> Option<Vec<u16>> {
        let asking = |index: &usize| self.trace.event(*index).node_id().map(|node| (node, self.silent(*index)));
        let waits: BTreeMap<u16, BTreeSet<u16>> = outstanding.iter().filter_map(asking).collect();
        let mut came_from: BTreeMap<u16, u16> = BTreeMap::new();
        let mut reached = vec![node];
        while let Some(at) = reached.pop() {
            for next in waits.get(&at).into_iter().flatten().copied() {
                if next == node {
                    let mut circle = vec![node, at];
                    while let Some(before) = circle.last().filter(|id| **id != node).and_then(|id| came_from.get(id)) {
                        circle.push(*before);
                    }
                    circle.reverse();
                    return Some(circle);
                }
                // Whence it was reached first: a later way may lead back into itself, and never to `node`.
                if let Entry::Vacant(unknown) = came_from.entry(next) {
                    unknown.insert(at);
                    reached.push(next);
                }
            }
        }
        None
    }
}

fn list(ids: &[u16]) -> String {
    ids.iter().map(u16::to_string).collect::<Vec<_>>().join(" and ")
}
