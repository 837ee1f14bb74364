//! Vector clocks.
//! Promise: `a` happened before `b` if and only if `V(a) < V(b)`.
//! Across restarts an entry is (incarnation, count), compared in that order; a boot follows all
//! earlier incarnations of its node.

use compasso_wire::{Vector, VectorEntry};
use core::cmp::Ordering;

/// One node's vector.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VectorClock {
    vector: Vector,
    me: usize,
}

impl VectorClock {
    /// The clock of the node at position `me` of `count`, at the start of `incarnation`.
    #[must_use]
    pub fn new(me: usize, count: usize, incarnation: u32) -> VectorClock {
        let mut vector = Vector::default();
        for position in 0..count {
            let incarnation = if position == me { incarnation } else { 0 };
            // `count` is a number of members, which fits the capacity by construction.
            let _fits = vector.0.push(VectorEntry { incarnation, count: 0 });
        }
        VectorClock { vector, me }
    }

    /// Before each event: own entry `+1`. Returns the own count.
    pub fn tick(&mut self) -> u32 {
        match self.vector.0.get_mut(self.me) {
            Some(entry) => {
                entry.count += 1;
                entry.count
            }
            None => 0,
        }
    }

    /// On receipt: entry-wise maximum; the receive event's own [`Self::tick`] follows.
    pub fn merge(&mut self, message: &Vector) {
        for (position, (own, theirs)) in self.vector.0.iter_mut().zip(&message.0).enumerate() {
            if position != self.me {
                *own = (*own).max(*theirs);
            }
        }
    }

    /// The stamp of the last event.
    #[must_use]
    pub fn read(&self) -> &Vector {
        &self.vector
    }
}

/// `V(a)` against `V(b)`: before, same, after, or nothing if they are concurrent.
#[must_use]
pub fn compare(a: &Vector, b: &Vector) -> Option<Ordering> {
    let none = VectorEntry::default();
    let count = a.0.len().max(b.0.len());
    let mut relation = Ordering::Equal;
    for position in 0..count {
        let entry = a.0.get(position).unwrap_or(&none).cmp(b.0.get(position).unwrap_or(&none));
        relation = match (relation, entry) {
            (known, Ordering::Equal) => known,
            (Ordering::Equal, new) => new,
            (known, new) if known == new => known,
            (Ordering::Less | Ordering::Greater, Ordering::Less | Ordering::Greater) => return None,
        };
    }
    Some(relation)
}

/// How many events happened before the one stamped `V`: the sum of its entries − 1. That holds
/// while everybody is in the first life; a vector does not say how long an earlier one was, and
/// then there is no answer.
#[must_use]
pub fn preceding(vector: &Vector) -> Option<u64> {
    let first_lives = vector.0.iter().all(|entry| entry.incarnation <= 1);
    let sum: u64 = vector.0.iter().map(|entry| u64::from(entry.count)).sum();
    if first_lives { sum.checked_sub(1) } else { None }
}

/// Whether two events cannot stand together on the frontier of a consistent cut: `V_i[i] < V_j[i]`
/// or `V_j[j] < V_i[j]`. One of them knows of an event of the other's node that is not in the cut.
#[must_use]
pub fn incompatible((i, vi): (usize, &Vector), (j, vj): (usize, &Vector)) -> bool {
    let none = VectorEntry::default();
    let entry = |vector: &Vector, position: usize| *vector.0.get(position).unwrap_or(&none);
    entry(vi, i) < entry(vj, i) || entry(vj, j) < entry(vi, j)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector(counts: &[u32]) -> Vector {
        Vector(counts.iter().map(|count| VectorEntry { incarnation: u32::from(*count > 0), count: *count }).collect())
    }

    #[test]
    fn the_textbook_example_is_concurrent() {
        assert_eq!(compare(&vector(&[2, 4, 0]), &vector(&[2, 3, 3])), None);
        assert_eq!(compare(&vector(&[2, 3, 0]), &vector(&[2, 3, 3])), Some(Ordering::Less));
        assert_eq!(compare(&vector(&[2, 3, 3]), &vector(&[2, 3, 0])), Some(Ordering::Greater));
        assert_eq!(compare(&vector(&[1, 1]), &vector(&[1, 1])), Some(Ordering::Equal));
    }

    #[test]
    fn the_textbook_example_has_seven_events_before_the_second() {
        assert_eq!(preceding(&vector(&[2, 3, 3])), Some(7));
        assert_eq!(preceding(&vector(&[2, 4, 0])), Some(5));
        assert_eq!(preceding(&vector(&[1])), Some(0));
        let mut reborn = vector(&[2, 3, 3]);
        reborn.0[1].incarnation = 2;
        assert_eq!(preceding(&reborn), None, "nobody knows how long the life before was");
    }

    #[test]
    fn a_frontier_is_incompatible_where_one_event_knows_more_of_the_other_s_node_than_the_cut_holds() {
        let pair = |i: &[u32], j: &[u32]| incompatible((1, &vector(i)), (2, &vector(j)));
        assert!(!pair(&[2, 4, 0], &[2, 3, 3]), "concurrent");
        assert!(!pair(&[2, 3, 0], &[2, 3, 3]), "the send itself is in the cut");
        assert!(pair(&[2, 2, 0], &[2, 3, 3]), "V_i[i] < V_j[i]: received, not sent");
        assert!(pair(&[0, 2, 4], &[0, 0, 3]), "V_j[j] < V_i[j]: the other way round");
        let mut reborn = vector(&[2, 1, 0]);
        reborn.0[1].incarnation = 2;
        assert!(!incompatible((1, &reborn), (2, &vector(&[2, 3, 3]))), "a boot follows all earlier lives");
    }

    #[test]
    fn a_receive_follows_its_send_also_over_a_restart() {
        let mut a = VectorClock::new(0, 2, 1);
        let mut b = VectorClock::new(1, 2, 1);
        a.tick();
        let sent = a.read().clone();
        b.tick();
        b.merge(&sent);
        b.tick();
        assert_eq!(compare(&sent, b.read()), Some(Ordering::Less));
        let mut reborn = VectorClock::new(0, 2, 2);
        reborn.tick();
        assert_eq!(compare(&sent, reborn.read()), Some(Ordering::Less), "a boot follows all earlier lives");
        reborn.merge(b.read());
        assert_eq!(reborn.read().0[0], VectorEntry { incarnation: 2, count: 1 }, "nobody else counts my events");
    }
}
