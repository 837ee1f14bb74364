//! The node's logical clocks, and the events they stamp.

use compasso_algorithms::{
    members::Members,
    order::{lamport::LamportClock, vector::VectorClock},
};
use compasso_wire::{ClusterTime, Event, Header, Instant, Observation, Vector, limits::MEMBERS_MAX};
use heapless::Deque;

/// Events that may wait for the driver, which drains after each input. One input causes fewer: at
/// most it suspects everybody at once, and a few more.
pub const OBSERVATIONS_MAX: usize = MEMBERS_MAX + 48;

/// An event without its vector: that differs from the clock's only in this node's own entry.
struct Stamped {
    seq: u32,
    lamport: u64,
    hw: Instant,
    cluster: Option<ClusterTime>,
    event: Event,
}

/// Logical clocks, and what has happened but was not yet fetched.
pub struct Journal {
    lamport: LamportClock,
    vector: VectorClock,
    position: usize,
    /// What the oldest `older` waiting events knew of the others: from before the last merge.
    before: Vector,
    older: usize,
    waiting: Deque<Stamped, OBSERVATIONS_MAX>,
}

impl Journal {
    /// The journal of a new life.
    #[must_use]
    pub fn new(members: &Members, incarnation: u32) -> Journal {
        Journal {
            lamport: LamportClock::default(),
            vector: VectorClock::new(members.my_position(), members.count(), incarnation),
            position: members.my_position(),
            before: Vector::default(),
            older: 0,
            waiting: Deque::new(),
        }
    }

    /// Ticks the clocks for `event` and keeps it. False if the driver did not fetch and it is lost:
    /// then the gap in `seq` tells, too.
    #[must_use]
    pub fn record(&mut self, now: Instant, cluster: Option<ClusterTime>, event: Event) -> bool {
        let stamped = Stamped { lamport: self.lamport.tick(), seq: self.vector.tick(), hw: now, cluster, event };
        self.waiting.push_back(stamped).is_ok()
    }

    /// Takes over what a received message knows; its `Recv` event is recorded next.
    pub fn merge(&mut self, header: &Header) {
        if self.older > 0 {
            // The driver did not fetch what the last input caused: the gap in `seq` tells.
            self.waiting.clear();
            self.older = 0;
        }
        if !self.waiting.is_empty() {
            self.before.clone_from(self.vector.read());
            self.older = self.waiting.len();
        }
        self.lamport.merge(header.lamport);
        self.vector.merge(&header.vector);
    }

    /// Makes the next event's Lamport stamp exactly `stamp`. False, and nothing changes, if that has passed.
    #[must_use]
    pub fn advance_to(&mut self, stamp: u64) -> bool {
        let ahead = stamp > self.lamport.read();
        if ahead {
            self.lamport.merge(stamp - 1);
        }
        ahead
    }

    /// Lamport and vector time of the last event.
    #[must_use]
    pub fn stamps(&self) -> (u64, &Vector) {
        (self.lamport.read(), self.vector.read())
    }

    /// The next event.
    pub fn poll(&mut self) -> Option<Observation> {
        let Stamped { seq, lamport, hw, cluster, event } = self.waiting.pop_front()?;
        let known = if self.older > 0 { &self.before } else { self.vector.read() };
        self.older = self.older.saturating_sub(1);
        let mut vector = known.clone();
        if let Some(own) = vector.0.get_mut(self.position) {
            own.count = seq;
        }
        Some(Observation { seq, lamport, vector, hw, cluster, event })
    }
}
