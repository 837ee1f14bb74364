//! What is said about locks on several named resources: requests, grants, and the search for deadlocks.

use crate::{
    ids::{NodeId, ResourceId},
    limits::{LOCKS_MAX, RESOURCES_MAX},
};
use heapless::Vec;
use serde::{Deserialize, Serialize};

/// A transaction: the Lamport time of its first attempt, kept when it tries again, and whose it is.
/// The smaller is the older.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Age {
    /// Lamport time of the first attempt.
    pub stamp: u64,
    /// Whose transaction it is.
    pub node: NodeId,
}

/// Several resources, as bits by their [`ResourceId`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ResourceSet(pub u16);

const _: () = assert!(RESOURCES_MAX <= 16);

impl ResourceSet {
    /// Adds a resource; one beyond the capacity is not in any set.
    pub fn insert(&mut self, resource: ResourceId) {
        self.0 |= bit(resource);
    }

    /// Takes a resource out.
    pub fn remove(&mut self, resource: ResourceId) {
        self.0 &= !bit(resource);
    }

    /// Whether the resource is in the set.
    #[must_use]
    pub fn contains(self, resource: ResourceId) -> bool {
        self.0 & bit(resource) != 0
    }

    /// Whether nothing is in the set.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// What is in the set, ascending.
    pub fn iter(self) -> impl Iterator<Item = ResourceId> {
        (0..RESOURCES_MAX as u8).map(ResourceId).filter(move |resource| self.contains(*resource))
    }
}

impl FromIterator<ResourceId> for ResourceSet {
    fn from_iter<I: IntoIterator<Item = ResourceId>>(resources: I) -> ResourceSet {
        let mut set = ResourceSet::default();
        resources.into_iter().for_each(|resource| set.insert(resource));
        set
    }
}

fn bit(resource: ResourceId) -> u16 {
    1_u16.checked_shl(u32::from(resource.0)).unwrap_or(0)
}

/// One node on a probe's way: while its wait has this number, it waits as it did then.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hop {
    /// Which node.
    pub node: NodeId,
    /// Changes whenever that node gets, gives back or asks for anything.
    pub wait: u16,
}

/// A probe's way, in order: no longer than there are locks, since each step needs one that is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Path {
    hops: [Hop; LOCKS_MAX],
    len: u8,
}

impl Default for Path {
    fn default() -> Path {
        Path { hops: [Hop { node: NodeId(0), wait: 0 }; LOCKS_MAX], len: 0 }
    }
}

impl Path {
    /// Goes one hop farther. False if the way is too long to be one.
    #[must_use]
    pub fn push(&mut self, hop: Hop) -> bool {
        let place = self.hops.get_mut(usize::from(self.len));
        let fits = place.map(|place| *place = hop).is_some();
        self.len += u8::from(fits);
        fits
    }

    /// The hops, the first one first.
    #[must_use]
    pub fn hops(&self) -> &[Hop] {
        self.hops.get(..usize::from(self.len)).unwrap_or(&[])
    }
}

impl FromIterator<Hop> for Path {
    /// Hops beyond the capacity are left out.
    fn from_iter<I: IntoIterator<Item = Hop>>(hops: I) -> Path {
        let mut path = Path::default();
        for hop in hops {
            let _fits = path.push(hop);
        }
        path
    }
}

impl Serialize for Path {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.hops().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Path {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Path, D::Error> {
        Ok(Vec::<Hop, LOCKS_MAX>::deserialize(deserializer)?.into_iter().collect())
    }
}

/// What nodes say about locks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum LockMessage {
    /// After a view has begun: "of the resources that you keep, I hold these."
    Register {
        /// Those.
        held: ResourceSet,
        /// For which transaction.
        age: Age,
    },
    /// "I want this one."
    Request {
        /// Which.
        resource: ResourceId,
        /// For which transaction.
        age: Age,
    },
    /// "It is yours."
    Grant {
        /// Which.
        resource: ResourceId,
        /// Of which transaction.
        age: Age,
        /// Grows from grant to grant within the view.
        serial: u64,
    },
    /// "You wait for that one."
    Wait {
        /// For which resource.
        resource: ResourceId,
        /// Which transaction waits.
        age: Age,
        /// Who holds it.
        holder: NodeId,
    },
    /// Wait-die: "an older one has it: give up."
    Die {
        /// Which resource.
        resource: ResourceId,
        /// Which transaction.
        age: Age,
    },
    /// Wound-wait: "an older one wants it: give up."
    Wound {
        /// Which resource.
        resource: ResourceId,
        /// Which transaction.
        age: Age,
    },
    /// "I hold it, or want it, no more."
    Release {
        /// Which.
        resource: ResourceId,
        /// Of which transaction.
        age: Age,
    },
    /// Avoid: "I shall need no more than these."
    Claim {
        /// Those.
        resources: ResourceSet,
        /// For which transaction.
        age: Age,
    },
    /// Detect: `probe(blocked, sender, receiver)`: `blocked` is the first of the way, the sender the
    /// last.
    Probe {
        /// The resource for which the sender waits and which the receiver should hold.
        resource: ResourceId,
        /// The second round, in which everybody on the way confirms that its wait is unchanged.
        confirming: bool,
        /// The way so far.
        path: Path,
        /// The youngest transaction on the way.
        youngest: Age,
    },
    /// Detect: "you are the victim: give back."
    Victim {
        /// Which transaction.
        age: Age,
        /// Its wait when it was judged.
        wait: u16,
    },
}
