//! What is said about transactions that happen everywhere or nowhere.

use crate::{ids::NodeSet, limits::MEMBERS_MAX};
use serde::{Deserialize, Serialize};

/// A transaction: the epoch in which it began above, a serial below.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub struct TransactionId(pub u64);

impl TransactionId {
    /// The so-manieth transaction of a view.
    #[must_use]
    pub fn new(epoch: u32, serial: u32) -> TransactionId {
        TransactionId((u64::from(epoch) << 32) | u64::from(serial))
    }
}

/// How a transaction ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Decision {
    /// It happens everywhere.
    Commit,
    /// It happens nowhere.
    Abort,
}

/// How far a node knows a transaction to have come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Progress {
    /// This node voted yes.
    Prepared,
    /// A coordinator had this decision stored here, so that it outlives the coordinator. As long as
    /// fewer than a majority have it, a later coordinator may decide otherwise.
    Stored(Decision),
    /// It was announced: so it ended.
    Decided(Decision),
}

/// What a node knows of the latest transaction that it heard of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CommitRecord {
    /// The transaction.
    pub transaction: TransactionId,
    /// The epoch of the view in which this was written: of several nodes' records the one with the
    /// highest ballot counts.
    pub ballot: u32,
    /// Whose votes it needs.
    pub participants: NodeSet,
    /// How far it has come.
    pub progress: Progress,
}

/// What a participant must not forget, not even over a restart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CommitMemory {
    /// The latest transaction.
    pub latest: Option<CommitRecord>,
    /// The transaction for which this node voted yes and of which it does not know the end.
    pub doubt: Option<TransactionId>,
    /// How every member's last transaction ended, as far as is known here: a member that was away when
    /// its transaction was decided asks for it.
    pub outcomes: Outcomes,
}

/// For each member, by position, the last transaction in which it took part and how that ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outcomes([u64; MEMBERS_MAX]);

impl Outcomes {
    /// The transaction ended like this for these participants.
    pub fn note(&mut self, participants: NodeSet, transaction: TransactionId, decision: Decision) {
        let entry = transaction.0 << 1 | u64::from(decision == Decision::Commit);
        for (position, known) in self.0.iter_mut().enumerate() {
            if participants.contains(position) && *known >> 1 < transaction.0 {
                *known = entry;
            }
        }
    }

    /// How the transaction ended, if it is the last one known of this participant.
    #[must_use]
    pub fn of(&self, position: usize, transaction: TransactionId) -> Option<Decision> {
        let entry = self.0.get(position).filter(|entry| **entry >> 1 == transaction.0)?;
        Some(if entry & 1 == 1 { Decision::Commit } else { Decision::Abort })
    }
}

impl Default for Outcomes {
    fn default() -> Outcomes {
        Outcomes([0; MEMBERS_MAX])
    }
}

impl Serialize for Outcomes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let used = MEMBERS_MAX - self.0.iter().rev().take_while(|entry| **entry == 0).count();
        self.0.get(..used).unwrap_or(&[]).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Outcomes {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Outcomes, D::Error> {
        let entries = heapless::Vec::<u64, MEMBERS_MAX>::deserialize(deserializer)?;
        let mut outcomes = Outcomes::default();
        for (to, from) in outcomes.0.iter_mut().zip(&entries) {
            *to = *from;
        }
        Ok(outcomes)
    }
}

/// What the coordinator of a transaction and its participants say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum CommitMessage {
    /// "Can you?"
    Prepare {
        /// The transaction.
        transaction: TransactionId,
    },
    /// "I can, and promise it", or "I cannot".
    Vote {
        /// The transaction.
        transaction: TransactionId,
        /// The vote.
        yes: bool,
    },
    /// "Store this decision": hardening, before it is announced.
    Store {
        /// The transaction.
        transaction: TransactionId,
        /// The decision.
        decision: Decision,
        /// Whose transaction it is.
        participants: NodeSet,
    },
    /// "Stored."
    Stored {
        /// The transaction.
        transaction: TransactionId,
    },
    /// "So it is decided."
    Decide {
        /// The transaction.
        transaction: TransactionId,
        /// The decision.
        decision: Decision,
    },
    /// After a view has begun: "this is what I know of the latest transaction."
    Known(Option<CommitRecord>),
    /// "I voted yes and was away: how did it end?"
    Ask {
        /// The transaction.
        transaction: TransactionId,
    },
    /// "Like this", or "I have not heard of it".
    Told {
        /// The transaction.
        transaction: TransactionId,
        /// How it ended.
        decision: Option<Decision>,
    },
    /// "I know how it ended": the next transaction may begin.
    Done {
        /// The transaction.
        transaction: TransactionId,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_survive_the_wire_and_keep_each_members_last_transaction() {
        let mut outcomes = Outcomes::default();
        let (first, second) = (TransactionId::new(3, 1), TransactionId::new(3, 2));
        outcomes.note(NodeSet::first(3), first, Decision::Commit);
        outcomes.note(NodeSet::first(2), second, Decision::Abort);
        outcomes.note(NodeSet::first(3), first, Decision::Commit);
        let mut buffer = [0; 64];
        let bytes = postcard::to_slice(&outcomes, &mut buffer).unwrap();
        assert_eq!(postcard::from_bytes::<Outcomes>(bytes).unwrap(), outcomes);
        assert_eq!(outcomes.of(1, second), Some(Decision::Abort));
        assert_eq!(outcomes.of(2, first), Some(Decision::Commit));
        assert_eq!(outcomes.of(1, first), None, "superseded");
        assert_eq!(outcomes.of(MEMBERS_MAX, first), None);
    }
}
