//! Stamps of files, and what is said to compare them.

use crate::{ids::Term, time::ClusterTime};
use serde::{Deserialize, Serialize};

/// When something happened to a file, on three clocks side by side.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Stamps {
    /// What the board's own clock showed that nobody ever set.
    pub raw_us: i64,
    /// Between which times cluster time was; nothing where clocks are not synchronized, or not yet.
    pub shared: Option<Shared>,
    /// In which life of the node.
    pub incarnation: u32,
    /// Its Lamport time.
    pub lamport: u64,
}

/// A moment of cluster time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Shared {
    /// Not before this.
    pub earliest: ClusterTime,
    /// Not after this.
    pub latest: ClusterTime,
    /// Whose time: the term of the coordinator that it comes from, 0 if it is the host's.
    pub term: Term,
}

/// What the builder of an object and the keeper of its source say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum MakeMessage {
    /// "When was your file saved last?"
    Ask {
        /// Which file.
        file: u8,
        /// The asker's number of the question.
        number: u32,
    },
    /// "Then."
    Source {
        /// Which file.
        file: u8,
        /// The question's number.
        number: u32,
        /// Nothing if this life of the node has no such file.
        saved: Option<Stamps>,
    },
}
