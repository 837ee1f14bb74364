//! Visits to critical sections, put together from requests, entries, renewals and exits.

use crate::{index::Trace, trace::Event};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// One visit. Events are indices into the trace.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// Whose.
    pub node: u16,
    /// In which of its lives.
    pub inc: u32,
    /// Its fence; 0 if the trace has none.
    pub fence: u64,
    /// The request it answers.
    pub request: Option<usize>,
    /// Where it begins.
    pub enter: usize,
    /// Where the node left.
    pub exit: Option<usize>,
    /// Where an access with its fence was refused.
    pub fenced: Option<usize>,
    /// When its lease ends by true time, renewals included.
    pub lease_end_us: Option<i64>,
    /// It is bounded by a lease, even if no true time says when that ends.
    pub leased: bool,
}

/// All visits of a trace.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Entries {
    /// By resource, by true time where all of it is known, else by Lamport time.
    pub by_resource: BTreeMap<String, Vec<Entry>>,
    /// Requests that were not granted.
    pub outstanding: Vec<usize>,
    /// Requests made.
    pub requests: u64,
}

impl Entries {
    /// Finds all visits.
    #[must_use]
    pub fn of(trace: &Trace<'_>) -> Entries {
        let mut entries = Entries::default();
        let mut fenced: HashMap<(String, u64), usize> = HashMap::new();
        for stream in trace.streams.values() {
            let mut waiting: BTreeMap<&str, VecDeque<usize>> = BTreeMap::new();
            let mut inside: BTreeMap<&str, Entry> = BTreeMap::new();
            for index in stream.iter().copied() {
                let event = trace.event(index);
                let lease_end = |lease: u64| event.true_us.map(|at| at.saturating_add_unsigned(lease));
                match &event.event {
                    Event::Request { resource } => {
                        entries.requests += 1;
                        waiting.entry(resource).or_default().push_back(index);
                    }
                    Event::CsEnter { resource, fence, lease_us } => {
                        let entry = Entry {
                            node: event.node_id().unwrap_or_default(),
                            inc: event.inc,
                            fence: *fence,
                            request: waiting.entry(resource).or_default().pop_front(),
                            enter: index,
                            exit: None,
                            fenced: None,
                            lease_end_us: lease_us.and_then(lease_end),
                            leased: lease_us.is_some(),
                        };
                        if let Some(left) = inside.insert(resource, entry) {
                            entries.keep(resource, left);
                        }
                    }
                    Event::CsRenew { resource, fence, lease_us } => {
                        if let Some(entry) = inside.get_mut(resource.as_ref()).filter(|entry| entry.fence == *fence) {
                            entry.lease_end_us = entry.lease_end_us.max(lease_end(*lease_us));
                        }
                    }
                    Event::CsExit { resource, fence } => {
                        if let Some(mut entry) = inside.remove(resource.as_ref()) {
                            if entry.fence == *fence {
                                entry.exit = Some(index);
                            }
                            entries.keep(resource, entry);
                        }
                    }
                    Event::Fenced { resource, fence } => {
                        fenced.entry((resource.to_string(), *fence)).or_insert(index);
                    }
                    _ => {}
                }
            }
            for (resource, entry) in inside {
                entries.keep(resource, entry);
            }
            entries.outstanding.extend(waiting.into_values().flatten());
        }
        for (resource, list) in &mut entries.by_resource {
            if !fenced.is_empty() {
                for entry in list.iter_mut() {
                    entry.fenced = fenced.get(&(resource.clone(), entry.fence)).copied();
                }
            }
            let all_true = list.iter().all(|entry| trace.event(entry.enter).true_us.is_some());
            list.sort_by_key(|entry| {
                let at = if all_true { trace.event(entry.enter).true_us.unwrap_or(0) } else { 0 };
                (at, trace.lamport(entry.enter), entry.node)
            });
        }
        entries
    }

    /// Visits to all resources together.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.by_resource.values().map(|list| list.len() as u64).sum()
    }

    /// Who was inside a resource when the trace ended, as far as it tells.
    #[must_use]
    pub fn inside_at_end(&self, trace: &Trace<'_>, resource: &str) -> Option<&Entry> {
        let open = |entry: &&Entry| {
            let over = match (trace.end_us, entry.end_us(trace)) {
                (Some(end), Some(over)) => over < end,
                (_, over) => over.is_some(),
            };
            entry.exit.is_none() && entry.fenced.is_none() && !over && trace.next_life(entry.node, entry.inc).is_none()
        };
        self.by_resource.get(resource)?.iter().rev().find(open)
    }

    /// How long, between two moments of true time, nobody was inside a resource.
    #[must_use]
    pub fn idle_us(&self, trace: &Trace<'_>, resource: &str, from_us: i64, until_us: i64) -> i64 {
        let (mut idle, mut free_from) = (0, from_us);
        for entry in self.by_resource.get(resource).into_iter().flatten() {
            let Some(entered) = trace.event(entry.enter).true_us.filter(|entered| *entered < until_us) else {
                continue;
            };
            idle += (entered - free_from).max(0);
            free_from = free_from.max(entry.end_us(trace).unwrap_or(until_us));
        }
        idle + (until_us - free_from).max(0)
    }

    fn keep(&mut self, resource: &str, entry: Entry) {
        match self.by_resource.get_mut(resource) {
            Some(list) => list.push(entry),
            None => drop(self.by_resource.insert(resource.to_owned(), vec![entry])),
        }
    }
}

impl Entry {
    /// When the visit was over by true time: exit, refusal, crash or end of lease, whichever was first.
    #[must_use]
    pub fn end_us(&self, trace: &Trace<'_>) -> Option<i64> {
        let at = |index: Option<usize>| index.and_then(|index| trace.event(index).true_us);
        let entered = trace.event(self.enter).true_us?;
        let death = trace.death_us(self.node, self.inc, entered);
        [at(self.exit), at(self.fenced), death, self.lease_end_us].into_iter().flatten().min()
    }
}
