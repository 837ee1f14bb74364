//! A trace, indexed: every node's stream, every send by its name, every event's stamps.

use crate::{
    setting::Setting,
    trace::{Event, Fault, TraceEvent, Vector},
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    ops::Bound,
};

/// Names a datagram: sender, its life, receiver, id, kind.
type SendName<'a> = (u16, u32, u16, u64, &'a str);

/// A trace and what is looked up in it. Events are named by their index.
pub struct Trace<'a> {
    /// The events, in the order collected.
    pub events: &'a [TraceEvent],
    /// What the run was.
    pub setting: Setting,
    /// Every life's events in the order of `seq`.
    pub streams: BTreeMap<(u16, u32), Vec<usize>>,
    /// What the stage did and when, in order.
    pub faults: Vec<(i64, &'a Fault)>,
    /// Events that each life lost on the way to the collector.
    pub gaps: BTreeMap<(u16, u32), u64>,
    /// The run ended as planned.
    pub ended: bool,
    /// The last moment of true time, if there is true time.
    pub end_us: Option<i64>,
    sends: HashMap<SendName<'a>, usize>,
    computed: Vec<(u64, Vector)>,
    nothing: Vector,
}

impl<'a> Trace<'a> {
    /// Indexes a trace. Without a `scenario` line, `otherwise` says what the run was.
    #[must_use]
    pub fn new(events: &'a [TraceEvent], otherwise: Option<Setting>) -> Trace<'a> {
        let line = events.iter().find_map(|event| match &event.event {
            Event::Scenario(map) => Some(Setting::from_line(map)),
            _ => None,
        });
        let mut trace = Trace {
            events,
            setting: line.or(otherwise).unwrap_or_else(Setting::unknown),
            streams: BTreeMap::new(),
            faults: Vec::new(),
            gaps: BTreeMap::new(),
            ended: false,
            end_us: events.iter().filter_map(|event| event.true_us).max(),
            sends: HashMap::new(),
            computed: Vec::new(),
            nothing: Vector::default(),
        };
        let mut unstamped = false;
        for (index, event) in events.iter().enumerate() {
            if let Some(node) = event.node_id() {
                trace.streams.entry((node, event.inc)).or_default().push(index);
                unstamped |= event.vector.is_none() || event.lamport.is_none();
                if let Event::Send { to, kind, id, .. } = &event.event {
                    trace.sends.entry((node, event.inc, *to, *id, kind.as_ref())).or_insert(index);
                }
            }
            match &event.event {
                Event::Fault(fault) => trace.faults.push((event.at_us(), fault)),
                Event::Gap { of, inc, missed } => *trace.gaps.entry((*of, *inc)).or_default() += missed,
                Event::End => trace.ended = true,
                _ => {}
            }
        }
        for stream in trace.streams.values_mut() {
            stream.sort_by_key(|index| events[*index].seq);
        }
        if trace.setting.ids.is_empty() {
            trace.setting.ids =
                trace.streams.keys().map(|(node, _)| *node).collect::<BTreeSet<_>>().into_iter().collect();
        }
        if unstamped {
            trace.computed = trace.compute_stamps();
        }
        trace
    }

    /// The event at an index.
    #[must_use]
    pub fn event(&self, index: usize) -> &'a TraceEvent {
        &self.events[index]
    }

    /// An event's vector time: its own, or the computed one.
    #[must_use]
    pub fn vector(&self, index: usize) -> &Vector {
        let own = self.events[index].vector.as_ref();
        own.or_else(|| self.computed.get(index).map(|(_, vector)| vector)).unwrap_or(&self.nothing)
    }

    /// An event's Lamport time: its own, or the computed one.
    #[must_use]
    pub fn lamport(&self, index: usize) -> u64 {
        let own = self.events[index].lamport;
        own.or_else(|| self.computed.get(index).map(|(lamport, _)| *lamport)).unwrap_or(0)
    }

    /// Whether event `a` happened before event `b`.
    #[must_use]
    pub fn before(&self, a: usize, b: usize) -> bool {
        let (first, second) = (&self.events[a], &self.events[b]);
        match (first.node_id(), second.node_id()) {
            (Some(x), Some(y)) if x == y => first.stamp() < second.stamp(),
            (Some(x), Some(_)) => self.vector(b).get(x) >= first.stamp(),
            _ => false,
        }
    }

    /// The send that a receive names.
    #[must_use]
    pub fn send_of(&self, recv: usize) -> Option<usize> {
        let event = &self.events[recv];
        match (&event.event, event.node_id()) {
            (Event::Recv { from, kind, id, from_inc }, Some(node)) => {
                self.sends.get(&(*from, *from_inc, node, *id, kind.as_ref())).copied()
            }
            _ => None,
        }
    }

    /// The first index of a life after this one, if the node was born again.
    #[must_use]
    pub fn next_life(&self, node: u16, inc: u32) -> Option<usize> {
        let (_, stream) =
            self.streams.range((Bound::Excluded((node, inc)), Bound::Included((node, u32::MAX)))).next()?;
        stream.first().copied()
    }

    /// When the stage killed this node at or after `from_us`, or it was born again.
    #[must_use]
    pub fn death_us(&self, node: u16, inc: u32, from_us: i64) -> Option<i64> {
        let killed =
            self.faults.iter().find(|(at, fault)| *at >= from_us && **fault == Fault::Crash(node)).map(|(at, _)| *at);
        let reborn = self.next_life(node, inc).and_then(|boot| self.events[boot].true_us);
        [killed, reborn].into_iter().flatten().min()
    }

    /// Names for a violation.
    #[must_use]
    pub fn names(&self, indices: &[usize]) -> Vec<String> {
        indices.iter().map(|index| self.events[*index].name()).collect()
    }

    /// Lamport and vector times from sends and receives alone.
    fn compute_stamps(&self) -> Vec<(u64, Vector)> {
        let mut stamps: Vec<Option<(u64, Vector)>> = vec![None; self.events.len()];
        let mut next: BTreeMap<(u16, u32), usize> = self.streams.keys().map(|life| (*life, 0)).collect();
        let mut waiting: HashMap<usize, Vec<(u16, u32)>> = HashMap::new();
        let mut ready: VecDeque<(u16, u32)> = self.streams.keys().copied().collect();
        let mut stuck: BTreeSet<(u16, u32)> = BTreeSet::new();
        while let Some(life) = ready.pop_front().or_else(|| stuck.first().copied()) {
            // A circle of receives before their sends: break it, the causality check reports it.
            let mut forced = stuck.remove(&life) && ready.is_empty();
            let stream = &self.streams[&life];
            while let Some(index) = next.get(&life).and_then(|at| stream.get(*at)).copied() {
                let send = self.send_of(index);
                let sent = send.and_then(|send| stamps[send].clone());
                if let (Some(send), None, false) = (send, &sent, forced) {
                    waiting.entry(send).or_default().push(life);
                    stuck.insert(life);
                    break;
                }
                forced = false;
                let at = next.entry(life).or_default();
                let previous = at.checked_sub(1).and_then(|at| stamps[stream[at]].clone()).unwrap_or_default();
                let (mut lamport, mut vector) = previous;
                if let Some((sent_lamport, sent_vector)) = &sent {
                    lamport = lamport.max(*sent_lamport);
                    vector.merge(sent_vector);
                }
                vector.set(life.0, self.events[index].stamp());
                stamps[index] = Some((lamport + 1, vector));
                *at += 1;
                for other in waiting.remove(&index).unwrap_or_default() {
                    if stuck.remove(&other) {
                        ready.push_back(other);
                    }
                }
            }
        }
        stamps.into_iter().map(Option::unwrap_or_default).collect()
    }
}
