//! What lasts: lives, visits to critical sections, leaderships, tokens in hand.

use crate::{
    entries::Entries,
    index::Trace,
    trace::{Event, Fault},
};
use std::collections::BTreeMap;

/// Which clock gives an export its times: the best that every event has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Clock {
    /// The stage's.
    True,
    /// Each node's own hardware clock; nodes are not comparable.
    Hardware,
    /// Lamport time, one microsecond a count.
    Lamport,
}

impl Clock {
    /// The best that every event of a node has.
    pub fn of(trace: &Trace<'_>) -> Clock {
        let mut nodes = trace.events.iter().filter(|event| event.node_id().is_some());
        if nodes.clone().all(|event| event.true_us.is_some()) {
            Clock::True
        } else if nodes.all(|event| event.hw_us.is_some()) {
            Clock::Hardware
        } else {
            Clock::Lamport
        }
    }

    /// Its name in the trace.
    pub fn as_str(self) -> &'static str {
        match self {
            Clock::True => "true_us",
            Clock::Hardware => "hw_us",
            Clock::Lamport => "lamport",
        }
    }

    /// When an event happened.
    pub fn at(self, trace: &Trace<'_>, index: usize) -> i64 {
        let event = trace.event(index);
        match self {
            Clock::True => event.true_us.unwrap_or(0),
            Clock::Hardware => event.hw_us.unwrap_or(0),
            Clock::Lamport => i64::try_from(trace.lamport(index)).unwrap_or(i64::MAX),
        }
    }
}

/// What lasts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum What {
    /// The node lives, in this incarnation.
    Alive(u32),
    /// The node is inside, with this fence.
    Inside { resource: String, fence: u64 },
    /// The node leads, in this term.
    Leads { term: u64 },
    /// The node has the token.
    Token { resource: String },
}

/// Something that lasts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Span {
    pub node: u16,
    pub from_us: i64,
    pub to_us: i64,
    pub what: What,
}

/// All that lasts, in no particular order.
pub(super) fn spans(trace: &Trace<'_>, clock: Clock) -> Vec<Span> {
    let ends = Ends::of(trace, clock);
    let mut spans = Vec::new();
    for ((node, inc), stream) in &trace.streams {
        let from_us = stream.iter().map(|index| clock.at(trace, *index)).min().unwrap_or(0);
        spans.push(Span { node: *node, from_us, to_us: ends.life(*node, *inc), what: What::Alive(*inc) });
        leads(trace, clock, (*node, *inc), ends.life(*node, *inc), &mut spans);
    }
    visits(trace, clock, &ends, &mut spans);
    tokens(trace, clock, &ends, &mut spans);
    for span in &mut spans {
        span.to_us = span.to_us.max(span.from_us);
    }
    spans
}

/// When each life ended.
struct Ends {
    by_life: BTreeMap<(u16, u32), i64>,
    /// The last moment of the trace.
    last_us: i64,
}

impl Ends {
    fn of(trace: &Trace<'_>, clock: Clock) -> Ends {
        let at = |index: &usize| clock.at(trace, *index);
        let last_us = trace.streams.values().flatten().map(at).max().unwrap_or(0);
        let last_us = if clock == Clock::True { trace.end_us.unwrap_or(last_us) } else { last_us };
        let mut by_life = BTreeMap::new();
        for ((node, inc), stream) in &trace.streams {
            let last = stream.iter().map(at).max().unwrap_or(0);
            let mut crashes = trace.faults.iter().filter(|(_, fault)| **fault == Fault::Crash(*node));
            let end = if clock == Clock::True {
                let killed = crashes.find(|(at, _)| *at >= last).map(|(at, _)| *at);
                killed.or_else(|| trace.next_life(*node, *inc).map(|_| last))
            } else {
                // The stage's times say nothing on another clock: the last word is the end.
                let lives_before = trace.streams.range((*node, 0)..(*node, *inc)).count();
                (crashes.count() > lives_before || trace.next_life(*node, *inc).is_some()).then_some(last)
            };
            by_life.extend(end.map(|end| ((*node, *inc), end)));
        }
        Ends { by_life, last_us }
    }

    fn life(&self, node: u16, inc: u32) -> i64 {
        self.by_life.get(&(node, inc)).copied().unwrap_or(self.last_us)
    }
}

fn leads(trace: &Trace<'_>, clock: Clock, (node, inc): (u16, u32), end_us: i64, spans: &mut Vec<Span>) {
    let mut leading: Option<(i64, u64)> = None;
    let mut close = |since: Option<(i64, u64)>, to_us: i64| {
        spans.extend(since.map(|(from_us, term)| Span { node, from_us, to_us, what: What::Leads { term } }));
    };
    for index in trace.streams.get(&(node, inc)).into_iter().flatten() {
        if let Event::Leader { id, term } = trace.event(*index).event {
            let at = clock.at(trace, *index);
            let goes_on = id == node && leading.is_some_and(|(_, leads)| leads == term);
            if !goes_on {
                close(leading.take(), at);
                leading = (id == node).then_some((at, term));
            }
        }
    }
    close(leading, end_us);
}

fn visits(trace: &Trace<'_>, clock: Clock, ends: &Ends, spans: &mut Vec<Span>) {
    for (resource, visits) in Entries::of(trace).by_resource {
        for visit in visits {
            let ended = match clock {
                Clock::True => visit.end_us(trace),
                Clock::Hardware | Clock::Lamport => visit.exit.map(|exit| clock.at(trace, exit)),
            };
            let life = ends.life(visit.node, visit.inc);
            spans.push(Span {
                node: visit.node,
                from_us: clock.at(trace, visit.enter),
                to_us: ended.unwrap_or(life).min(life),
                what: What::Inside { resource: resource.clone(), fence: visit.fence },
            });
        }
    }
}

/// A token is in hand from its arrival until it is sent to where it arrives next, dropped, or lost
/// with its holder.
fn tokens(trace: &Trace<'_>, clock: Clock, ends: &Ends, spans: &mut Vec<Span>) {
    let mut visits: BTreeMap<&str, Vec<(u64, u64, usize)>> = BTreeMap::new();
    let mut position = vec![0; trace.events.len()];
    for stream in trace.streams.values() {
        for (at, index) in stream.iter().enumerate() {
            position[*index] = at;
            if let Event::Token { resource, epoch, serial } = &trace.event(*index).event {
                visits.entry(resource).or_default().push((*epoch, *serial, *index));
            }
        }
    }
    for (resource, mut visits) in visits {
        visits.sort_unstable();
        for (at, (epoch, _, index)) in visits.iter().enumerate() {
            let event = trace.event(*index);
            let Some(node) = event.node_id() else { continue };
            let next =
                visits.get(at + 1).filter(|next| next.0 == *epoch).and_then(|next| trace.event(next.2).node_id());
            let stream = &trace.streams[&(node, event.inc)];
            let left = stream[position[*index] + 1..].iter().find(|later| match &trace.event(**later).event {
                Event::Send { to, kind, .. } => kind == "token" && next.is_none_or(|next| next == *to),
                Event::TokenDropped { resource: dropped, .. } => dropped == resource,
                // What an earlier view's token says means nothing in the next.
                Event::View { .. } => true,
                // A next arrival here without a send: the earlier visit was over by then.
                Event::Token { resource: again, .. } => again == resource,
                _ => false,
            });
            spans.push(Span {
                node,
                from_us: clock.at(trace, *index),
                to_us: left.map_or_else(|| ends.life(node, event.inc), |left| clock.at(trace, *left)),
                what: What::Token { resource: resource.to_owned() },
            });
        }
    }
}
