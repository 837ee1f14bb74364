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
    /// The keeper refuses a fence lower than one it has seen.
    Keeper,
    /// A returned node does not speak for itself until its earlier promises have ended.
    Quarantine,
    /// A decision is announced only when a majority has stored it.
    StoredDecision,
    /// A new server of the cache waits until no lease of an earlier one can be valid.
    LeaseTakeover,
}

/// Which defences are up: all of them, except in tests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Defences {
    missing: Option<Defence>,
}

impl Defences {
    /// All of them.
    pub const ALL: Defences = Defences { missing: None };

    /// All but one.
    #[must_use]
    pub const fn without(self, missing: Defence) -> Defences {
        Defences { missing: Some(missing) }
    }

    /// Whether this one is up.
    #[must_use]
    pub fn has(self, defence: Defence) -> bool {
        self.missing != Some(defence)
    }
}
