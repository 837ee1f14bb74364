//! Who, what and by which authority.

use crate::limits::{HOSTS_MAX, MEMBERS_MAX};
use serde::{Deserialize, Serialize};

/// A node's configured identity: unique, totally ordered, kept over restarts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct NodeId(pub u16);

impl NodeId {
    /// The host: collector of telemetry and giver of commands. Never a member.
    pub const HOST: NodeId = NodeId(u16::MAX);

    /// The highest id that a member may have: those above are hosts.
    pub const MEMBER_MAX: NodeId = NodeId(u16::MAX - HOSTS_MAX as u16);

    /// A server of true time: 0 is [`NodeId::HOST`], which is one too, and those after it are nothing else.
    /// A number beyond the capacity means the last one.
    #[must_use]
    pub const fn host(number: usize) -> NodeId {
        let number = if number < HOSTS_MAX { number } else { HOSTS_MAX - 1 };
        NodeId(u16::MAX - number as u16)
    }

    /// Which of the hosts this is, if it is one.
    #[must_use]
    pub const fn host_number(self) -> Option<usize> {
        if self.0 > Self::MEMBER_MAX.0 { Some((u16::MAX - self.0) as usize) } else { None }
    }
}

impl core::fmt::Display for NodeId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.fmt(f)
    }
}

/// A shared resource, by its index in the scenario's list.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct ResourceId(pub u8);

/// A term of leadership: (counter, claimant), never used twice, totally ordered.
///
/// As one number it is `counter × 65536 + claimant`, so that comparing numbers compares terms.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Term(pub u64);

impl Term {
    /// Before any election.
    pub const ZERO: Term = Term(0);
    /// Room for claimants below each counter.
    pub const CLAIMANTS: u64 = 1 << 16;

    /// The term that `claimant` claims with `counter`.
    #[must_use]
    pub fn new(counter: u64, claimant: NodeId) -> Term {
        Term(counter * Self::CLAIMANTS + u64::from(claimant.0))
    }

    /// The lowest term that `claimant` may claim when this one is the highest it has seen.
    #[must_use]
    pub fn next_for(self, claimant: NodeId) -> Term {
        let same_counter = Term::new(self.counter(), claimant);
        if same_counter > self && self.counter() > 0 { same_counter } else { Term::new(self.counter() + 1, claimant) }
    }

    /// How many claims preceded this one.
    #[must_use]
    pub fn counter(self) -> u64 {
        self.0 / Self::CLAIMANTS
    }

    /// Who claimed it.
    #[must_use]
    pub fn claimant(self) -> NodeId {
        NodeId((self.0 % Self::CLAIMANTS) as u16)
    }
}

/// A number that only grows along the entries to one resource: the view's epoch above, the
/// algorithm's serial below.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Fence(pub u64);

impl Fence {
    /// Bits of the serial.
    pub const SERIAL_BITS: u32 = 40;

    /// The fence of an entry in a view.
    #[must_use]
    pub fn new(epoch: u32, serial: u64) -> Fence {
        Fence((u64::from(epoch) << Self::SERIAL_BITS) | (serial & ((1 << Self::SERIAL_BITS) - 1)))
    }

    /// The view's epoch.
    #[must_use]
    pub fn epoch(self) -> u32 {
        (self.0 >> Self::SERIAL_BITS) as u32
    }

    /// The entry's serial within the view.
    #[must_use]
    pub fn serial(self) -> u64 {
        self.0 & ((1 << Self::SERIAL_BITS) - 1)
    }
}

const WORDS: usize = MEMBERS_MAX.div_ceil(64);

/// A set of members, by their position in the configured ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeSet([u64; WORDS]);

impl NodeSet {
    /// The set without anybody.
    pub const EMPTY: NodeSet = NodeSet([0; WORDS]);

    /// The set of the first `count` positions.
    #[must_use]
    pub fn first(count: usize) -> NodeSet {
        let mut set = NodeSet::EMPTY;
        for position in 0..count {
            set.insert(position);
        }
        set
    }

    /// Adds a position; one beyond the capacity is not a member of anything.
    pub fn insert(&mut self, position: usize) {
        if let Some(word) = self.0.get_mut(position / 64) {
            *word |= 1 << (position % 64);
        }
    }

    /// Takes a position out.
    pub fn remove(&mut self, position: usize) {
        if let Some(word) = self.0.get_mut(position / 64) {
            *word &= !(1 << (position % 64));
        }
    }

    /// Whether the position is in the set.
    #[must_use]
    pub fn contains(&self, position: usize) -> bool {
        self.0.get(position / 64).is_some_and(|word| word >> (position % 64) & 1 == 1)
    }

    /// How many are in the set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether nobody is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// The positions in the set, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..MEMBERS_MAX).filter(|position| self.contains(*position))
    }
}

impl Serialize for NodeSet {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let used = WORDS - self.0.iter().rev().take_while(|word| **word == 0).count();
        let words = heapless::Vec::<u64, WORDS>::from_slice(self.0.get(..used).unwrap_or(&[]));
        words.unwrap_or_default().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for NodeSet {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<NodeSet, D::Error> {
        let words = heapless::Vec::<u64, WORDS>::deserialize(deserializer)?;
        let mut set = NodeSet::EMPTY;
        for (to, from) in set.0.iter_mut().zip(&words) {
            *to = *from;
        }
        Ok(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_the_highest_ids_and_no_members() {
        assert_eq!(NodeId::host(0), NodeId::HOST);
        for number in 0..HOSTS_MAX {
            assert_eq!(NodeId::host(number).host_number(), Some(number));
        }
        assert_eq!(NodeId::host(HOSTS_MAX + 7), NodeId::host(HOSTS_MAX - 1));
        assert_eq!(NodeId::MEMBER_MAX.host_number(), None);
        assert_eq!(NodeId(NodeId::MEMBER_MAX.0 + 1), NodeId::host(HOSTS_MAX - 1));
    }

    #[test]
    fn a_term_orders_by_counter_then_claimant() {
        assert!(Term::new(2, NodeId(3)) > Term::new(1, NodeId(4)));
        assert!(Term::new(2, NodeId(4)) > Term::new(2, NodeId(3)));
        assert_eq!(Term::new(7, NodeId(9)).claimant(), NodeId(9));
        assert_eq!(Term::new(7, NodeId(9)).counter(), 7);
        assert_eq!(Term::ZERO.next_for(NodeId(4)), Term::new(1, NodeId(4)));
        assert_eq!(Term::new(2, NodeId(3)).next_for(NodeId(4)), Term::new(2, NodeId(4)));
        assert_eq!(Term::new(2, NodeId(4)).next_for(NodeId(4)), Term::new(3, NodeId(4)));
        assert_eq!(Term::new(2, NodeId(4)).next_for(NodeId(3)), Term::new(3, NodeId(3)));
    }

    #[test]
    fn a_set_survives_the_wire_and_ignores_what_is_beyond_its_capacity() {
        let mut set = NodeSet::first(5);
        set.remove(2);
        set.insert(MEMBERS_MAX + 100);
        let mut buffer = [0; 32];
        let bytes = postcard::to_slice(&set, &mut buffer).unwrap();
        assert_eq!(postcard::from_bytes::<NodeSet>(bytes).unwrap(), set);
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 1, 3, 4]);
        assert_eq!(set.len(), 4);
    }

    #[test]
    fn a_later_epoch_outranks_every_serial_of_an_earlier_one() {
        assert!(Fence::new(2, 0) > Fence::new(1, u64::from(u32::MAX)));
        assert_eq!(Fence::new(3, 9).epoch(), 3);
        assert_eq!(Fence::new(3, 9).serial(), 9);
    }
}
