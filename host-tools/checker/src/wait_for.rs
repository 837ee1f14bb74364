//! The true wait-for graph of a run: who waited for whom, from when until when, and which circles stood in it.
//!
//! A node waits for another from when it has asked for a resource that the other holds until it gets it, takes its
//! request back or dies, or until the holder gives it back, dies or loses its lease. That is what the trace says of
//! requests and visits; what the nodes believed about each other plays no part.

use crate::{entries::Entries, index::Trace, trace::Event};
use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

/// A point in the run: true time, then the place in the trace, which orders what happened in one microsecond.
pub type Moment = (i64, usize);

/// One node waits for another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Edge {
    /// Who waits.
    pub waiter: u16,
    /// For whom.
    pub holder: u16,
    /// The index of the request.
    pub request: usize,
    /// The index of the entry.
    pub enter: usize,
    /// From this moment on.
    pub from: Moment,
    /// Until this one.
    pub until: Moment,
}

/// Nodes that waited for each other in a circle.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Circle {
    /// Each waits for the next, the last for the first.
    pub nodes: Vec<u16>,
    /// The waits that made it.
    pub edges: Vec<usize>,
    /// From this moment on.
    pub from: Moment,
    /// Until this one.
    pub until: Moment,
}

/// All waits of a run.
#[derive(Clone, Debug, Default)]
pub struct WaitFor {
    /// By the moment at which they began.
    pub edges: Vec<Edge>,
    /// Requests for resources that can be locked.
    pub requests: u64,
    by_pair: BTreeMap<(u16, u16), Vec<usize>>,
}

/// A request that is open.
struct Wait {
    node: u16,
    request: usize,
    from: Moment,
    until: Moment,
}

const NEVER: Moment = (i64::MAX, usize::MAX);

impl WaitFor {
    /// The waits for resources that can be locked; nothing where there is no true time.
    #[must_use]
    pub fn of(trace: &Trace<'_>, entries: &Entries) -> WaitFor {
        let mut waits: BTreeMap<&str, Vec<Wait>> = BTreeMap::new();
        let mut requests = 0;
        for (life, stream) in &trace.streams {
            let mut open: BTreeMap<&str, (usize, Moment)> = BTreeMap::new();
            let mut close = |resource: &'_ str, open: Option<(usize, Moment)>, until: Moment| {
                let Some((request, from)) = open else { return };
                if let Some((name, _)) = entries.by_resource.get_key_value(resource) {
                    waits.entry(name).or_default().push(Wait { node: life.0, request, from, until });
                }
            };
            for index in stream.iter().copied() {
                let event = trace.event(index);
                let Some(at) = event.true_us.map(|at| (at, index)) else { continue };
                match &event.event {
                    Event::Request { resource } if trace.setting.is_lock(resource) => {
                        requests += 1;
                        open.insert(resource, (index, at));
                    }
                    Event::CsEnter { resource, .. } | Event::Withdraw { resource } => {
                        close(resource, open.remove(resource.as_ref()), at);
                    }
                    _ => {}
                }
            }
            for (resource, (request, from)) in open {
                let until = trace.death_us(life.0, life.1, from.0).map_or(NEVER, |at| (at, 0));
                close(resource, Some((request, from)), until);
            }
        }
        let mut graph = WaitFor { requests, ..WaitFor::default() };
        for (resource, waits) in waits {
            graph.add(trace, entries, resource, &waits);
        }
        graph.edges.sort_by_key(|edge| (edge.from, edge.waiter, edge.holder));
        for (at, edge) in graph.edges.iter().enumerate() {
            graph.by_pair.entry((edge.waiter, edge.holder)).or_default().push(at);
        }
        graph
    }

    /// Meets those who wait for a resource with those who hold it.
    fn add(&mut self, trace: &Trace<'_>, entries: &Entries, resource: &str, waits: &[Wait]) {
        let list = entries.by_resource.get(resource).map_or(&[][..], Vec::as_slice);
        let holds: Vec<(u16, usize, Moment, Moment)> = list
            .iter()
            .filter_map(|entry| {
                let from = (trace.event(entry.enter).true_us?, entry.enter);
                let left = entry.exit.and_then(|exit| Some((trace.event(exit).true_us?, exit)));
                let ended = entry.end_us(trace).map(|at| (at, 0));
                // By its own exit if that was in the same microsecond: the place in the trace is exact.
                let until = match (left, ended) {
                    (Some(left), Some(ended)) if left.0 <= ended.0 => left,
                    (_, Some(ended)) => ended,
                    (left, None) => left.unwrap_or(NEVER),
                };
                Some((entry.node, entry.enter, from, until))
            })
            .collect();
        for wait in waits {
            let next = holds.partition_point(|hold| hold.2 < wait.from);
            // One at a time holds it, so at most the last before can still hold it when the wait begins.
            for (holder, enter, from, until) in holds.iter().skip(next.saturating_sub(1)) {
                if *from >= wait.until {
                    break;
                }
                let (from, until) = ((*from).max(wait.from), (*until).min(wait.until));
                if from < until && *holder != wait.node {
                    let (waiter, holder, request, enter) = (wait.node, *holder, wait.request, *enter);
                    self.edges.push(Edge { waiter, holder, request, enter, from, until });
                }
            }
        }
    }

    /// The circles that stood in the graph, each from when it closed until it was broken. Of several that one wait
    /// closed, one is told; another is told when that one is broken.
    #[must_use]
    pub fn circles(&self) -> Vec<Circle> {
        let mut changes: Vec<(Moment, bool, usize)> = Vec::new();
        for (at, edge) in self.edges.iter().enumerate() {
            changes.push((edge.from, true, at));
            changes.push((edge.until, false, at));
        }
        changes.sort_unstable(); // At one moment, what ends ends first.
        let mut active: BTreeMap<u16, BTreeSet<usize>> = BTreeMap::new();
        let mut standing: Vec<Circle> = Vec::new();
        let mut circles = Vec::new();
        for (moment, begins, at) in changes {
            let waiter = self.edges[at].waiter;
            if begins {
                active.entry(waiter).or_default().insert(at);
                standing.extend(self.circle_through(waiter, moment, &active));
            } else {
                active.entry(waiter).or_default().remove(&at);
                let (broken, whole) = standing.into_iter().partition(|circle| circle.edges.contains(&at));
                standing = whole;
                for circle in broken {
                    let again = circle.nodes.iter().find_map(|node| self.circle_through(*node, moment, &active));
                    let known = |circle: &Circle| standing.iter().any(|other| same_nodes(&other.nodes, &circle.nodes));
                    let again = again.filter(|circle| !known(circle));
                    standing.extend(again);
                    circles.push(Circle { until: moment, ..circle });
                }
            }
        }
        circles.extend(standing);
        circles.sort_by_key(|circle| circle.from);
        circles
    }

    /// A circle that leads from a node back to itself.
    fn circle_through(&self, node: u16, from: Moment, active: &BTreeMap<u16, BTreeSet<usize>>) -> Option<Circle> {
        let mut came_by: BTreeMap<u16, usize> = BTreeMap::new();
        let mut reached = vec![node];
        while let Some(at) = reached.pop() {
            for edge in active.get(&at).into_iter().flatten().copied() {
                let next = self.edges[edge].holder;
                if next == node {
                    let mut edges = vec![edge];
                    while let Some(before) = came_by.get(&self.edges[*edges.last()?].waiter) {
                        edges.push(*before);
                    }
                    edges.reverse();
                    // Told from its lowest node on, whoever closed it.
                    let lowest = (0..edges.len()).min_by_key(|at| self.edges[edges[*at]].waiter)?;
                    edges.rotate_left(lowest);
                    let nodes = edges.iter().map(|edge| self.edges[*edge].waiter).collect();
                    return Some(Circle { nodes, edges, from, until: NEVER });
                }
                if let Entry::Vacant(place) = came_by.entry(next) {
                    place.insert(edge);
                    reached.push(next);
                }
            }
        }
        None
    }

    /// The first moment from `since` to `by` at which these nodes stood in one circle, all of them, if there was
    /// one. Moments of different boards compare only within `tolerance_us`.
    #[must_use]
    pub fn stood_in_circle(&self, nodes: &[u16], since: Moment, by: Moment, tolerance_us: i64) -> Option<Moment> {
        let earlier = |moment: Moment| (moment.0.saturating_sub(tolerance_us), moment.1);
        let later = |moment: Moment| (moment.0.saturating_add(tolerance_us), moment.1);
        let mut among: Vec<(Moment, Moment, u16, u16)> = Vec::new();
        for (waiter, holder) in nodes.iter().flat_map(|waiter| nodes.iter().map(move |holder| (*waiter, *holder))) {
            for edge in self.by_pair.get(&(waiter, holder)).into_iter().flatten().map(|at| &self.edges[*at]) {
                let (from, until) = (earlier(edge.from), later(edge.until));
                if from <= by && until > since {
                    among.push((from, until, waiter, holder));
                }
            }
        }
        let mut moments: BTreeSet<Moment> = among.iter().map(|edge| edge.0).filter(|from| *from > since).collect();
        moments.insert(since);
        moments.into_iter().find(|moment| {
            let leads = |waiter: u16, holder: u16| {
                among.iter().any(|edge| (edge.2, edge.3) == (waiter, holder) && edge.0 <= *moment && *moment < edge.1)
            };
            let Some((first, rest)) = nodes.split_first() else { return false };
            goes_round(*first, *first, rest, &leads)
        })
    }
}

/// Whether a way leads from `at` through all of `rest`, each once, back to `first`.
fn goes_round(first: u16, at: u16, rest: &[u16], leads: &impl Fn(u16, u16) -> bool) -> bool {
    if rest.is_empty() {
        return leads(at, first);
    }
    rest.iter().enumerate().any(|(position, next)| {
        leads(at, *next) && {
            let mut left = rest.to_vec();
            left.swap_remove(position);
            goes_round(first, *next, &left, leads)
        }
    })
}

/// Whether both lists name the same nodes.
#[must_use]
pub fn same_nodes(a: &[u16], b: &[u16]) -> bool {
    a.iter().collect::<BTreeSet<_>>() == b.iter().collect::<BTreeSet<_>>()
}
