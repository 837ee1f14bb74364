//! Snapshots, put together from the parts that the nodes recorded.

use crate::{
    index::Trace,
    trace::{Event, Text},
};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// One snapshot of the whole system.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Snapshot {
    /// Its number.
    pub id: u64,
    /// Every part is there.
    pub complete: bool,
    /// It met a crash or another change of view, and says so.
    pub aborted: bool,
    /// Its parts make a consistent cut.
    pub consistent: bool,
    /// When the first part was recorded.
    pub at_us: i64,
    /// When the last channel was complete.
    pub done_us: i64,
    /// Each node's state.
    pub nodes: BTreeMap<u16, State>,
    /// What was on its way.
    pub in_flight: Vec<InFlight>,
    /// The recorded events, by node.
    #[serde(skip)]
    pub(crate) parts: BTreeMap<u16, usize>,
}

/// A node's state in a snapshot.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct State {
    /// The event that recorded it.
    pub event: String,
    /// Whom it named as leader.
    pub leader: Option<u16>,
    /// The epoch of its view.
    pub epoch: u64,
    /// Tokens in its hands.
    pub tokens: Vec<String>,
    /// What it held.
    pub holds: Vec<String>,
    /// What it wanted.
    pub wants: Vec<String>,
}

/// A message that crossed the cut.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct InFlight {
    /// Who had sent it.
    pub from: u16,
    /// Who was to receive it.
    pub to: u16,
    /// What sort it is.
    pub kind: String,
    /// The resource and the epoch, if it is a token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<(String, u64)>,
}

impl Snapshot {
    /// Every snapshot of a trace, by its number.
    #[must_use]
    pub fn all(trace: &Trace<'_>) -> Vec<Snapshot> {
        let mut found: BTreeMap<u64, Snapshot> = BTreeMap::new();
        let mut done: BTreeMap<u64, BTreeSet<u16>> = BTreeMap::new();
        for (index, event) in trace.events.iter().enumerate() {
            let Some(node) = event.node_id() else { continue };
            let at_us = event.at_us();
            match &event.event {
                Event::Snapshot { id, leader, epoch, tokens, holds, wants } => {
                    let snapshot = found.entry(*id).or_insert_with(|| Snapshot::begun(*id, at_us));
                    let texts = |texts: &[Text]| texts.iter().map(|text| text.to_string()).collect();
                    let state = State {
                        event: event.name(),
                        leader: *leader,
                        epoch: *epoch,
                        tokens: texts(tokens),
                        holds: texts(holds),
                        wants: texts(wants),
                    };
                    snapshot.nodes.insert(node, state);
                    snapshot.parts.insert(node, index);
                }
                Event::SnapshotMessage { id, from, kind, token } => {
                    if let Some(snapshot) = found.get_mut(id) {
                        let token = token.as_ref().map(|(resource, epoch)| (resource.to_string(), *epoch));
                        snapshot.in_flight.push(InFlight { from: *from, to: node, kind: kind.to_string(), token });
                    }
                }
                Event::SnapshotDone { id } => {
                    done.entry(*id).or_default().insert(node);
                    if let Some(snapshot) = found.get_mut(id) {
                        snapshot.done_us = snapshot.done_us.max(at_us);
                    }
                }
                Event::SnapshotAborted { id } => {
                    if let Some(snapshot) = found.get_mut(id) {
                        snapshot.aborted = true;
                    }
                }
                _ => {}
            }
        }
        let mut all: Vec<Snapshot> = found.into_values().collect();
        for snapshot in &mut all {
            let done = done.remove(&snapshot.id).unwrap_or_default();
            let crashed = snapshot.parts.iter().any(|(node, part)| {
                let inc = trace.event(*part).inc;
                !done.contains(node) && trace.death_us(*node, inc, snapshot.at_us).is_some()
            });
            snapshot.aborted |= crashed;
            snapshot.complete = !snapshot.aborted && snapshot.members(trace).iter().all(|node| done.contains(node));
            snapshot.consistent = snapshot.incompatible(trace).is_none();
        }
        all
    }

    fn begun(id: u64, at_us: i64) -> Snapshot {
        Snapshot {
            id,
            complete: false,
            aborted: false,
            consistent: true,
            at_us,
            done_us: at_us,
            nodes: BTreeMap::new(),
            in_flight: Vec::new(),
            parts: BTreeMap::new(),
        }
    }

    /// Who has a part in it: the view in which it was taken, or everybody where there are no views.
    fn members(&self, trace: &Trace<'_>) -> BTreeSet<u16> {
        let of_view = self.parts.iter().find_map(|(node, part)| {
            let stream = &trace.streams[&(*node, trace.event(*part).inc)];
            let before = stream.iter().take_while(|index| **index != *part);
            before
                .filter_map(|index| match &trace.event(*index).event {
                    Event::View { members, .. } => Some(members.iter().copied().collect()),
                    _ => None,
                })
                .last()
        });
        of_view.unwrap_or_else(|| trace.setting.ids.iter().copied().collect())
    }

    /// Two parts that no moment of the run had together: what the second knows of the first's node came after the first.
    pub(crate) fn incompatible(&self, trace: &Trace<'_>) -> Option<(usize, usize)> {
        self.parts.iter().find_map(|(node, part)| {
            let own = trace.event(*part).stamp();
            let knows_more = |other: &&usize| *other != part && trace.vector(**other).get(*node) > own;
            self.parts.values().find(knows_more).map(|other| (*part, *other))
        })
    }
}
