//! A snapshot of a running system by markers (Chandy and Lamport).
//! Promise: the parts that the nodes record make a consistent cut, and what was on its way across it is recorded too.
//! Assumes channels that keep order, between nodes that live until the snapshot is done.
//!
//! Who begins records its state and sends a marker on every channel. Who gets its first marker does the same before
//! anything else. From then on everything that arrives on a channel is part of that channel's state, until its marker
//! arrives. When every channel's marker has arrived, the node's part is done.

use compasso_wire::NodeSet;

/// One node's part in snapshots, one at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ChandyLamport {
    latest: u32,
    recording: Option<Recording>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Recording {
    snapshot: u32,
    /// The channels whose marker is still to come, by the sender's position.
    open: NodeSet,
}

impl ChandyLamport {
    /// The latest snapshot that this node has taken part in, or knows to be older than itself.
    #[must_use]
    pub fn latest(&self) -> u32 {
        self.latest
    }

    /// Takes part, if that was not done before: true if the caller is to record its state now and to send a marker to
    /// each of `channels`, before anything else.
    #[must_use]
    pub fn begin(&mut self, snapshot: u32, channels: NodeSet) -> bool {
        if snapshot <= self.latest {
            return false;
        }
        self.latest = snapshot;
        self.recording = Some(Recording { snapshot, open: channels });
        true
    }

    /// This node came later than the snapshot: it has no part in it.
    pub fn skip(&mut self, snapshot: u32) {
        self.latest = self.latest.max(snapshot);
    }

    /// Whether something that arrives from `from` now was on its way: in which snapshot.
    #[must_use]
    pub fn in_flight(&self, from: usize) -> Option<u32> {
        self.recording.filter(|recording| recording.open.contains(from)).map(|recording| recording.snapshot)
    }

    /// Takes a marker: the channel's state is complete.
    pub fn marker(&mut self, from: usize, snapshot: u32) {
        if let Some(recording) = self.recording.as_mut().filter(|recording| recording.snapshot == snapshot) {
            recording.open.remove(from);
        }
    }

    /// The snapshot of which this node's part is done; told once.
    pub fn poll_done(&mut self) -> Option<u32> {
        let done = self.recording.filter(|recording| recording.open.is_empty())?;
        self.recording = None;
        Some(done.snapshot)
    }

    /// Gives up: the snapshot that is void, if one was on its way.
    pub fn abort(&mut self) -> Option<u32> {
        self.recording.take().map(|recording| recording.snapshot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn others(me: usize) -> NodeSet {
        let mut set = NodeSet::first(3);
        set.remove(me);
        set
    }

    #[test]
    fn what_comes_before_a_channels_marker_was_on_its_way_and_what_comes_after_was_not() {
        let mut node = ChandyLamport::default();
        assert_eq!(node.in_flight(1), None);
        assert!(node.begin(1, others(0)));
        assert!(!node.begin(1, others(0)), "once only");
        assert_eq!((node.in_flight(1), node.in_flight(2)), (Some(1), Some(1)));
        node.marker(1, 1);
        assert_eq!((node.in_flight(1), node.in_flight(2)), (None, Some(1)));
        assert_eq!(node.poll_done(), None);
        node.marker(2, 1);
        assert_eq!((node.poll_done(), node.poll_done()), (Some(1), None));
    }

    #[test]
    fn a_marker_of_another_snapshot_closes_nothing_and_what_is_void_is_named_once() {
        let mut node = ChandyLamport::default();
        assert!(node.begin(2, others(0)));
        node.marker(1, 1);
        assert_eq!(node.in_flight(1), Some(2));
        assert_eq!((node.abort(), node.abort()), (Some(2), None));
        assert!(!node.begin(1, others(0)), "a snapshot from before is not taken again");
        node.skip(7);
        assert!(!node.begin(7, others(0)) && node.begin(8, others(0)));
    }

    #[test]
    fn a_node_without_channels_is_done_at_once() {
        let mut node = ChandyLamport::default();
        assert!(node.begin(1, NodeSet::EMPTY));
        assert_eq!(node.poll_done(), Some(1));
    }
}
