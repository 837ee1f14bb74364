//! The defences that hardening consists of, by name: tests take one away to show what it is for.

/// One defence against a real network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Defence {
    /// A view, and its leader's authority, need a majority of the configured nodes.
    Majority,
    /// A view that leaves somebody out waits until that node's lease has ended.
    WaitingOut,
    /// Only who has a valid lease is inside.
    Lease,
    /// A lease is for the life that asked for it.
    OwnLease,
    /// The keeper refuses a fence lower than one it has seen.
    Keeper,
    /// The home of locks grants nothing in a new view before every member has said what it holds.
    Registration,
    /// A probe counts only if everybody on its way holds what it is said to hold, and confirms its wait.
    Confirmation,
    /// A returned node does not speak for itself until its earlier promises have ended.
    Quarantine,
    /// A datagram of somebody who has taken part in a snapshot is taken in only after doing so oneself.
    Heed,
    /// A decision is announced only when a majority has stored it.
    StoredDecision,
    /// A new server of the cache waits until no lease of an earlier one can be valid.
    LeaseTakeover,
}

/// Which defences are up: all of them, except in tests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Defences {
    missing: u16,
}

impl Defences {
    /// All of them.
    pub const ALL: Defences = Defences { missing: 0 };

    /// These, but for one.
    #[must_use]
    pub const fn without(self, missing: Defence) -> Defences {
        Defences { missing: self.missing | 1 << missing as u8 }
    }

    /// Whether this one is up.
    #[must_use]
    pub const fn has(self, defence: Defence) -> bool {
        self.missing & 1 << defence as u8 == 0
    }
}
