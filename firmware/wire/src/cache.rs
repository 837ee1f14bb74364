//! What is said about copies that are valid until a time.

use crate::{ids::NodeId, time::ClusterTime};
use serde::{Deserialize, Serialize};

/// A version of the cached value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Cached {
    /// The epoch of the view in which it was written above, a serial below. 0: nothing was written yet.
    pub version: u64,
    /// What was written.
    pub value: u64,
}

/// What the server of the cached value and its readers and writers say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum CacheMessage {
    /// After a view has begun: "this is the newest that I know."
    Known {
        /// Its version: the epoch above, a serial below.
        version: u64,
        /// The value.
        value: u64,
    },
    /// "What is it?"
    Read {
        /// The asker's count of questions.
        question: u32,
    },
    /// "This, and your copy is good until then."
    Copy {
        /// The question's count.
        question: u32,
        /// The version.
        version: u64,
        /// The value.
        value: u64,
        /// Until when the copy may be read, in cluster time.
        until: ClusterTime,
    },
    /// "Let it be this."
    Write {
        /// The asker's count of questions.
        question: u32,
        /// The value.
        value: u64,
    },
    /// Server to members: "keep this, so that it outlives me."
    Store {
        /// The version.
        version: u64,
        /// The value.
        value: u64,
    },
    /// "Kept."
    Stored {
        /// The version.
        version: u64,
    },
    /// "Your copy is to be read no more."
    Invalidate {
        /// The version that will come.
        version: u64,
    },
    /// "It is gone."
    Invalidated {
        /// The version that will come.
        version: u64,
    },
    /// "It is written."
    Written {
        /// The question's count.
        question: u32,
        /// The version.
        version: u64,
        /// Who wrote.
        writer: NodeId,
    },
}
