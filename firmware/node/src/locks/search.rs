//! The search for deadlocks: when this node probes, and what becomes of probes that arrive.

use crate::node::Node;
use compasso_algorithms::deadlock::{Heard, Probe, Standing};
use compasso_wire::{
    Duration, Event, Instant, NodeId, NodeSet, ResourceId,
    config::DeadlockStrategy,
    locks::{Age, LockMessage, Path},
    telemetry::Abandoned,
};

/// A node that waits sends its first probe so long after it learned for whom: most waits end by then.
const PROBE_AFTER: Duration = Duration::from_millis(100);
/// While it still waits, a new probe follows: one that passed before the circle closed found nothing.
const PROBE_EVERY: Duration = Duration::from_millis(400);

impl Node {
    /// This node has just learned for whom it waits.
    pub(super) fn probe_soon(&mut self, now: Instant) {
        if self.locks.strategy == DeadlockStrategy::Detect && self.locks.probe_at.is_none() {
            self.locks.probe_at = Some(now + PROBE_AFTER);
        }
    }

    /// "A blocked node sends a probe to each node it waits for."
    pub(super) fn probe(&mut self, now: Instant) {
        if !self.locks.transaction.is_blocked() {
            self.locks.probe_at = None;
            return;
        }
        self.locks.probe_at = Some(now + PROBE_EVERY);
        let standing = self.standing(false);
        let probe = self.locks.prober.start(&standing);
        self.send_to_all_waited_for(now, probe);
    }

    pub(super) fn handle_probe(
        &mut self,
        now: Instant,
        resource: ResourceId,
        round: u16,
        confirming: bool,
        path: Path,
        youngest: Age,
    ) {
        let Some(origin) = path.hops().first().and_then(|hop| self.members.position(hop.node)) else { return };
        let standing = self.standing(self.locks.transaction.held.contains(resource));
        let probe = Probe { resource, round, confirming, path, youngest };
        match self.locks.prober.handle(origin, probe, &standing) {
            Heard::Nothing => {}
            Heard::Forward(probe) => self.send_to_all_waited_for(now, probe),
            Heard::Confirm(next, probe) => self.send_probe(now, next, probe),
            Heard::Deadlock(probe) => self.found(now, &probe),
        }
    }

    /// "One victim, the youngest, gives its resources back."
    fn found(&mut self, now: Instant, probe: &Probe) {
        let mut cycle = NodeSet::EMPTY;
        for hop in probe.path.hops() {
            self.members.position(hop.node).into_iter().for_each(|position| cycle.insert(position));
        }
        let victim = probe.youngest.node;
        self.record(now, Event::Deadlock { cycle, victim });
        let Some(wait) = probe.path.hops().iter().find(|hop| hop.node == victim).map(|hop| hop.wait) else { return };
        if victim == self.config.me {
            self.handle_victim(now, wait);
        } else {
            self.say_about_locks(now, victim, LockMessage::Victim { wait });
        }
    }

    /// This node is to give back, unless its wait has ended since. The textbook's form does not look.
    pub(super) fn handle_victim(&mut self, now: Instant, wait: u16) {
        let transaction = &self.locks.transaction;
        let same = transaction.wait() == wait || !self.hardened();
        if same && transaction.is_blocked() {
            self.abandon(now, Abandoned::Victim);
        }
    }

    fn standing(&self, holds: bool) -> Standing {
        let transaction = &self.locks.transaction;
        let node = self.config.me;
        Standing {
            node,
            age: transaction.age.unwrap_or(Age { stamp: 0, node }),
            wait: transaction.wait(),
            blocked: transaction.is_blocked(),
            holds,
        }
    }

    fn send_to_all_waited_for(&mut self, now: Instant, probe: Probe) {
        for resource in self.locks.transaction.asked.iter() {
            let holder = self.locks.transaction.waits().find(|(of, _)| *of == resource).map(|(_, holder)| holder);
            if let Some(holder) = holder {
                self.send_probe(now, holder, Probe { resource, ..probe });
            }
        }
    }

    fn send_probe(&mut self, now: Instant, to: NodeId, probe: Probe) {
        let Probe { resource, round, confirming, path, youngest } = probe;
        self.say_about_locks(now, to, LockMessage::Probe { resource, round, confirming, path, youngest });
    }
}
