//! The eventually perfect failure detector.
//! Promise: who is dead is suspected for good; who is alive is suspected wrongly only finitely
//! often, since each wrong suspicion is taken back and lengthens that node's time-out.
//! Assumes that delays have some bound, which nobody knows.

pub use super::Change;
use crate::{context::Delays, members::Members};
use compasso_wire::{Duration, Instant, NodeSet, limits::MEMBERS_MAX};
use heapless::Vec;

/// Longest time-out that wrong suspicions can lead to.
pub const TIMEOUT_MAX: Duration = Duration::from_millis(60_000);

#[derive(Clone, Copy, Debug)]
struct Peer {
    timeout: Duration,
    heard: Instant,
    suspected: bool,
}

/// One node's opinion of all others.
#[derive(Clone, Debug)]
pub struct EventuallyPerfect {
    peers: Vec<Peer, MEMBERS_MAX>,
    /// Whose silence matters at present.
    watched: NodeSet,
    first_timeout: Duration,
    /// The slowest recent round trip: fades by an eighth with each that is quicker.
    slowest: Duration,
}

impl EventuallyPerfect {
    /// Nobody is watched, nobody is suspected.
    #[must_use]
    pub fn new(count: usize, first_timeout: Duration, now: Instant) -> EventuallyPerfect {
        let peer = Peer { timeout: first_timeout, heard: now, suspected: false };
        EventuallyPerfect {
            peers: (0..count.min(MEMBERS_MAX)).map(|_| peer).collect(),
            watched: NodeSet::EMPTY,
            first_timeout,
            slowest: Duration::ZERO,
        }
    }

    /// Watches exactly these from now on; silence counts from now for those that are new.
    pub fn watch(&mut self, set: NodeSet, now: Instant) {
        for (position, peer) in self.peers.iter_mut().enumerate() {
            if set.contains(position) && !self.watched.contains(position) {
                peer.heard = now;
            }
        }
        self.watched = set;
    }

    /// The node at `position` gave a sign of life.
    pub fn heard(&mut self, position: usize, members: &Members, now: Instant) -> Option<Change> {
        let peer = self.peers.get_mut(position)?;
        peer.heard = now;
        if !peer.suspected {
            return None;
        }
        peer.suspected = false;
        peer.timeout = Duration(peer.timeout.0 * 3 / 2).min(TIMEOUT_MAX);
        members.id(position).map(Change::Trusted)
    }

    /// The node at `position` began a new life: suspecting the old one was right, and what was
    /// learned of it no longer holds.
    pub fn reborn(&mut self, position: usize, members: &Members, now: Instant) -> Option<Change> {
        let first_timeout = self.first_timeout;
        let peer = self.peers.get_mut(position)?;
        let was_suspected = core::mem::replace(peer, Peer { timeout: first_timeout, heard: now, suspected: false });
        was_suspected.suspected.then(|| members.id(position).map(Change::Trusted)).flatten()
    }

    /// This node itself was asleep: nobody else is to blame for the silence.
    pub fn slept(&mut self, now: Instant) {
        for peer in &mut self.peers {
            peer.heard = now;
        }
    }

    /// Somebody's answer took this long. Where it took longer than half the first time-out,
    /// somebody was asleep, and that says nothing of the network.
    pub fn round_trip(&mut self, took: Duration) {
        let took = took.min(Duration(self.first_timeout.0 / 2));
        self.slowest = took.max(Duration(self.slowest.0 - self.slowest.0 / 8));
    }

    /// What has been learned of delays, at least `first`.
    #[must_use]
    pub fn delays(&self, first: Delays) -> Delays {
        Delays { trans: first.trans.max(self.slowest), process: first.process }
    }

    /// Whether the node at `position` is suspected.
    #[must_use]
    pub fn suspects(&self, position: usize) -> bool {
        self.peers.get(position).is_some_and(|peer| peer.suspected)
    }

    /// The next one whose silence has become too long, if any.
    pub fn handle_timeout(&mut self, members: &Members, now: Instant) -> Option<Change> {
        let position = self.silent().find(|(_, silent_at)| now >= *silent_at)?.0;
        self.peers.get_mut(position)?.suspected = true;
        members.id(position).map(Change::Suspected)
    }

    /// When the next silence becomes too long.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.silent().map(|(_, silent_at)| silent_at).min()
    }

    fn silent(&self) -> impl Iterator<Item = (usize, Instant)> + '_ {
        self.peers
            .iter()
            .enumerate()
            .filter(|(position, peer)| self.watched.contains(*position) && !peer.suspected)
            .map(|(position, peer)| (position, peer.heard + peer.timeout))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use compasso_wire::NodeId;

    const TIMEOUT: Duration = Duration::from_millis(600);

    fn detector() -> (Members, EventuallyPerfect) {
        let members = Members::new(&[0, 1, 2].map(NodeId), NodeId(0)).unwrap();
        let mut detector = EventuallyPerfect::new(3, TIMEOUT, Instant(0));
        let mut others = members.all();
        others.remove(0);
        detector.watch(others, Instant(0));
        (members, detector)
    }

    #[test]
    fn silence_is_suspected_once_and_a_sign_of_life_takes_it_back_with_more_patience() {
        let (members, mut detector) = detector();
        detector.heard(2, &members, Instant(500_000));
        assert_eq!(detector.handle_timeout(&members, Instant(599_999)), None);
        assert_eq!(detector.handle_timeout(&members, Instant(600_000)), Some(Change::Suspected(NodeId(1))));
        assert_eq!(detector.handle_timeout(&members, Instant(600_000)), None);
        assert_eq!(detector.heard(1, &members, Instant(700_000)), Some(Change::Trusted(NodeId(1))));
        detector.heard(2, &members, Instant(700_000));
        assert_eq!(detector.poll_timeout(), Some(Instant(1_300_000)), "node 2 first: node 1 has earned patience");
        detector.heard(2, &members, Instant(1_000_000));
        assert_eq!(detector.handle_timeout(&members, Instant(1_500_000)), None, "600 ms are not enough for node 1 now");
        detector.heard(2, &members, Instant(1_550_000));
        assert_eq!(detector.handle_timeout(&members, Instant(1_600_000)), Some(Change::Suspected(NodeId(1))));
    }

    #[test]
    fn a_new_life_or_an_own_sleep_is_no_wrong_suspicion() {
        let (members, mut detector) = detector();
        assert!(detector.handle_timeout(&members, Instant(600_000)).is_some());
        assert_eq!(detector.reborn(1, &members, Instant(700_000)), Some(Change::Trusted(NodeId(1))));
        detector.slept(Instant(9_000_000));
        assert_eq!(detector.handle_timeout(&members, Instant(9_000_001)), None);
    }

    #[test]
    fn the_slowest_round_trip_is_learned_and_fades() {
        let (_, mut detector) = detector();
        let first = Delays { trans: Duration(100), process: Duration(10) };
        assert_eq!(detector.delays(first), first);
        detector.round_trip(Duration(1600));
        assert_eq!(detector.delays(first).trans, Duration(1600));
        for _ in 0..200 {
            detector.round_trip(Duration(50));
        }
        assert_eq!(detector.delays(first), first);
    }
}
