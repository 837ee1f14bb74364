//! Everybody who is configured, in ring order.

use compasso_wire::{NodeId, NodeSet, RingList, limits::MEMBERS_MAX};
use heapless::Vec;

/// The configured nodes in ring order, and which of them this is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Members {
    ids: Vec<NodeId, MEMBERS_MAX>,
    me: NodeId,
    position: usize,
}

impl Members {
    /// The members, if `me` is one of them, no id occurs twice and none is a host's.
    #[must_use]
    pub fn new(ids: &[NodeId], me: NodeId) -> Option<Members> {
        if ids.iter().any(|id| id.host_number().is_some()) {
            return None;
        }
        let unique = ids.iter().enumerate().all(|(at, id)| ids.iter().skip(at + 1).all(|other| other != id));
        let position = ids.iter().position(|id| *id == me)?;
        let ids = Vec::from_slice(ids).ok()?;
        unique.then_some(Members { ids, me, position })
    }

    /// This node.
    #[must_use]
    pub fn me(&self) -> NodeId {
        self.me
    }

    /// This node's place in the ring.
    #[must_use]
    pub fn my_position(&self) -> usize {
        self.position
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.ids.len()
    }

    /// How many are more than half.
    #[must_use]
    pub fn majority(&self) -> usize {
        self.ids.len() / 2 + 1
    }

    /// The place of `id` in the ring.
    #[must_use]
    pub fn position(&self, id: NodeId) -> Option<usize> {
        self.ids.iter().position(|member| *member == id)
    }

    /// Who stands at `position`.
    #[must_use]
    pub fn id(&self, position: usize) -> Option<NodeId> {
        self.ids.get(position).copied()
    }

    /// Everybody, in ring order.
    pub fn ids(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.ids.iter().copied()
    }

    /// Everybody else, in ring order.
    pub fn others(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.ids().filter(|id| *id != self.me)
    }

    /// The highest id of all.
    #[must_use]
    pub fn highest(&self) -> NodeId {
        self.ids().max().unwrap_or(self.me)
    }

    /// Everybody as a set.
    #[must_use]
    pub fn all(&self) -> NodeSet {
        NodeSet::first(self.ids.len())
    }

    /// Those of `set`, in ring order.
    pub fn of(&self, set: NodeSet) -> impl Iterator<Item = NodeId> + '_ {
        self.ids().enumerate().filter(move |(position, _)| set.contains(*position)).map(|(_, id)| id)
    }

    /// The next one of `set` after this node on the ring; this node itself if it is alone.
    #[must_use]
    pub fn successor(&self, set: NodeSet) -> NodeId {
        let count = self.ids.len();
        (1..count)
            .map(|step| (self.position + step) % count)
            .find(|position| set.contains(*position))
            .and_then(|position| self.id(position))
            .unwrap_or(self.me)
    }

    /// The ids of a list, in the order in which a message round the ring collected them.
    #[must_use]
    pub fn listed(&self, list: RingList) -> Vec<u16, MEMBERS_MAX> {
        let count = self.ids.len();
        (0..count)
            .map(|step| (usize::from(list.first) + step) % count)
            .filter(|position| list.members.contains(*position))
            .filter_map(|position| self.id(position))
            .map(|id| id.0)
            .collect()
    }

    /// The list that these ids are; none if somebody in it is not a member.
    #[must_use]
    pub fn list(&self, ids: &[u16]) -> Option<RingList> {
        let mut list = RingList::default();
        for id in ids.iter().rev() {
            let position = self.position(NodeId(*id))?;
            list = RingList { first: position as u16, ..list };
            list.members.insert(position);
        }
        Some(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_skips_who_is_not_in_the_set_and_wraps_around() {
        let ids = [17, 24, 1, 28].map(NodeId);
        let members = Members::new(&ids, NodeId(28)).unwrap();
        assert_eq!(members.successor(members.all()), NodeId(17));
        let mut set = members.all();
        set.remove(0);
        assert_eq!(members.successor(set), NodeId(24));
        assert_eq!(members.successor(NodeSet::EMPTY), NodeId(28), "alone");
        assert_eq!(members.highest(), NodeId(28));
        assert_eq!(members.majority(), 3);
    }

    #[test]
    fn a_list_is_in_ring_order_from_its_originator() {
        let members = Members::new(&[17, 24, 1, 28].map(NodeId), NodeId(28)).unwrap();
        for ids in [&[][..], &[1], &[1, 28, 17], &[24, 1, 28, 17], &[28, 24]] {
            assert_eq!(members.listed(members.list(ids).unwrap()), ids);
        }
        assert_eq!(members.list(&[1, 99]), None);
    }

    #[test]
    fn a_stranger_or_a_double_is_not_a_membership() {
        assert!(Members::new(&[NodeId(1), NodeId(2)], NodeId(3)).is_none());
        assert!(Members::new(&[NodeId(1), NodeId(1)], NodeId(1)).is_none());
    }
}
