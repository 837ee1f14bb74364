//! What is said about transactions that happen everywhere or nowhere.

use serde::{Deserialize, Serialize};

/// A transaction: the epoch in which it began above, a serial below.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub struct TransactionId(pub u64);

/// How a transaction ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Decision {
    /// It happens everywhere.
    Commit,
    /// It happens nowhere.
    Abort,
}

/// What a participant must not forget of its latest transaction, not even over a restart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CommitRecord {
    /// The transaction.
    pub transaction: TransactionId,
    /// It voted yes and is bound by the decision.
    pub prepared: bool,
    /// The decision that was stored here, and in which epoch.
    pub decided: Option<(Decision, u32)>,
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
    Known(CommitRecord),
}
