//! Snapshots of the whole system while it runs.
//!
//! The markers of the textbook travel in the streams that keep order, so what was on its way there is recorded. A real
//! network has datagrams besides, which overtake: every datagram therefore carries the number of its sender's latest
//! snapshot, and who has not taken part in that one does so before it takes the datagram in. A change of view makes a
//! snapshot void: somebody who had a part in it is gone.

use crate::{defences::Defence, mutex::resource_id, node::Node, turns::Client};
use compasso_algorithms::order::chandy_lamport::ChandyLamport;
use compasso_wire::{
    Duration, Event, Header, Instant, NodeId, Payload, config::SnapshotMethod, locks::ResourceSet,
    message::MutexMessage,
};

/// Where nobody waits for anybody, each records when its own clock shows a multiple of this.
const UNSYNCHRONIZED_EVERY: Duration = Duration::from_millis(100);

/// One node's part in snapshots.
#[derive(Default)]
pub(crate) struct Snapshots {
    markers: ChandyLamport,
    /// Without markers: which snapshot to record by the own clock, and when.
    alone: Option<(u32, Instant)>,
}

impl Snapshots {
    /// The latest snapshot that this node has taken part in: every datagram carries it.
    pub(crate) fn latest(&self) -> u32 {
        self.markers.latest()
    }

    pub(crate) fn poll_timeout(&self) -> Option<(Instant, &'static str)> {
        self.alone.map(|(_, at)| (at, "snapshot"))
    }
}

impl Node {
    /// The stage wants a snapshot.
    pub(crate) fn take_snapshot(&mut self, now: Instant, number: u32) {
        match self.config.snapshots {
            SnapshotMethod::Markers => self.begin_snapshot(now, number),
            SnapshotMethod::Unsynchronized => {
                let shown = self.config.wrong_clock_us + now.0 as i64;
                let every = UNSYNCHRONIZED_EVERY.0 as i64;
                let wait = (every - shown.rem_euclid(every)) as u64;
                self.snapshots.alone = Some((number, now + Duration(wait)));
            }
        }
    }

    pub(crate) fn snapshot_timeouts(&mut self, now: Instant) {
        if let Some((number, _)) = self.snapshots.alone.take_if(|(_, at)| now >= *at) {
            self.record_state(now, number);
            self.record(now, Event::SnapshotDone { id: number });
        }
    }

    /// A datagram is about to be taken in: if its sender has taken part in a later snapshot, so must we before.
    pub(crate) fn heed_snapshot(&mut self, now: Instant, header: &Header) {
        let heeds = self.hardened() && self.defences.has(Defence::Heed);
        if heeds && header.snapshot > self.snapshots.latest() {
            self.begin_snapshot(now, header.snapshot);
        }
    }

    /// A message of a stream arrived: it was on its way if its channel's marker has not come yet.
    pub(crate) fn note_in_flight(&mut self, now: Instant, from: NodeId, payload: &Payload) {
        let token = match payload {
            Payload::Election(_) | Payload::Marker { .. } => return,
            Payload::Mutex { resource, epoch, message } => match message {
                MutexMessage::Token { .. } | MutexMessage::ListToken { .. } => Some((*resource, *epoch)),
                MutexMessage::Request { .. }
                | MutexMessage::NumberedRequest { .. }
                | MutexMessage::Grant { .. }
                | MutexMessage::Denied { .. }
                | MutexMessage::Acknowledge { .. }
                | MutexMessage::Ok { .. }
                | MutexMessage::Deferred { .. }
                | MutexMessage::Release { .. }
                | MutexMessage::Inquire { .. }
                | MutexMessage::Yield { .. }
                | MutexMessage::Fail { .. } => None,
            },
            Payload::Locks { .. }
            | Payload::Cache { .. }
            | Payload::Commit { .. }
            | Payload::Labelled { .. }
            | Payload::Make(_) => None,
        };
        let position = self.members.position(from);
        if let Some(id) = position.and_then(|position| self.snapshots.markers.in_flight(position)) {
            self.record(now, Event::SnapshotMessage { id, from, kind: payload.kind(), token });
        }
    }

    pub(crate) fn handle_marker(&mut self, now: Instant, from: NodeId, snapshot: u32) {
        self.begin_snapshot(now, snapshot);
        if let Some(position) = self.members.position(from) {
            self.snapshots.markers.marker(position, snapshot);
        }
        self.end_snapshot(now);
    }

    pub(crate) fn abort_snapshots(&mut self, now: Instant) {
        if let Some(id) = self.snapshots.markers.abort() {
            self.record(now, Event::SnapshotAborted { id });
        }
    }

    fn begin_snapshot(&mut self, now: Instant, id: u32) {
        if !self.begun {
            // Who is in no view yet has nothing to do with the others' snapshot.
            return self.snapshots.markers.skip(id);
        }
        let mut channels = self.view();
        channels.remove(self.members.my_position());
        if id <= self.snapshots.latest() {
            return;
        }
        self.abort_snapshots(now); // A later one begins: the earlier lost a marker, in the textbook form.
        if self.snapshots.markers.begin(id, channels) {
            self.record_state(now, id);
            let epoch = self.epoch();
            for position in channels.iter() {
                if let Some(to) = self.members.id(position) {
                    self.post(now, to, Payload::Marker { epoch, snapshot: id }, None);
                }
            }
        }
        self.end_snapshot(now);
    }

    fn end_snapshot(&mut self, now: Instant) {
        if let Some(id) = self.snapshots.markers.poll_done() {
            self.record(now, Event::SnapshotDone { id });
        }
    }

    fn record_state(&mut self, now: Instant, id: u32) {
        let resources = |is: fn(&crate::turns::Turn) -> bool| -> ResourceSet {
            self.turns.iter().enumerate().filter(|(_, turn)| is(turn)).map(|(at, _)| resource_id(at)).collect()
        };
        let tokens = resources(|turn| turn.mutex.has_token());
        let holds = resources(|turn| turn.is_inside()).and(self.locks.held());
        let wants = resources(|turn| matches!(turn.client, Client::Wanting { .. } | Client::Admitted { .. }));
        let wants = wants.and(self.locks.wanted());
        let (leader, epoch) = (self.named.map(|(leader, _)| leader), self.epoch());
        self.record(now, Event::Snapshot { id, leader, epoch, tokens, holds, wants });
    }
}
