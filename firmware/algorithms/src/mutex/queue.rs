//! Requests that wait, in the order that their algorithm wants.

use crate::members::Members;
use compasso_wire::{NodeId, limits::MEMBERS_MAX};
use heapless::Vec;

/// A request to enter. The derived order is the textbook's `(T, id)`: the smaller is the older.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Request {
    /// `T`: its Lamport time.
    pub stamp: u64,
    /// Whose it is.
    pub id: NodeId,
}

impl Request {
    /// `(T, id)` as one number: it orders as the pair does.
    #[must_use]
    pub fn serial(self, members: &Members) -> u64 {
        let rank = members.ids().filter(|id| *id < self.id).count();
        self.stamp.saturating_mul(MEMBERS_MAX as u64).saturating_add(rank as u64)
    }
}

/// Waiting requests, at most one a node.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Queue(Vec<Request, MEMBERS_MAX>);

impl Queue {
    /// First come, first served. False if there is no room.
    #[must_use]
    pub fn append(&mut self, request: Request) -> bool {
        self.0.push(request).is_ok()
    }

    /// By `(T, id)`. False if there is no room.
    #[must_use]
    pub fn insert(&mut self, request: Request) -> bool {
        let older = self.0.iter().take_while(|waiting| **waiting < request).count();
        self.0.insert(older, request).is_ok()
    }

    /// Who is next.
    #[must_use]
    pub fn head(&self) -> Option<Request> {
        self.0.first().copied()
    }

    /// Takes out who is next.
    pub fn pop(&mut self) -> Option<Request> {
        let head = self.head();
        self.0.retain(|waiting| Some(*waiting) != head);
        head
    }

    /// Takes one out, wherever it stands.
    pub fn remove(&mut self, request: Request) {
        self.0.retain(|waiting| *waiting != request);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(stamp: u64, id: u16) -> Request {
        Request { stamp, id: NodeId(id) }
    }

    #[test]
    fn requests_wait_by_time_and_then_by_id() {
        let mut queue = Queue::default();
        for (stamp, id) in [(12, 2), (8, 9), (12, 1), (40, 0)] {
            assert!(queue.insert(request(stamp, id)));
        }
        queue.remove(request(40, 0));
        let served: Vec<_, 4> = core::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(served, [request(8, 9), request(12, 1), request(12, 2)]);
    }

    #[test]
    fn a_serial_orders_as_time_and_id_do_however_the_ring_is_laid() {
        let members = Members::new(&[17, 24, 1, 28].map(NodeId), NodeId(1)).unwrap();
        let ordered = [request(7, 28), request(8, 1), request(8, 17), request(8, 28), request(9, 1)];
        assert!(ordered.map(|request| request.serial(&members)).is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn a_full_queue_refuses() {
        let mut queue = Queue::default();
        assert!((0..MEMBERS_MAX).all(|at| queue.insert(request(1, at as u16))));
        assert!(!queue.insert(request(0, 999)));
        assert!(!queue.append(request(0, 999)));
    }
}
