//! What the algorithms of mutual exclusion say.

use serde::{Deserialize, Serialize};

/// What the algorithms of mutual exclusion say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum MutexMessage {
    /// Token ring: whoever has it may enter.
    Token {
        /// Grows with each hop.
        serial: u64,
    },
    /// Central, Lamport, Ricart-Agrawala, Maekawa, voting: "I want to enter."
    Request {
        /// Lamport time of the request; voting: the number of the try.
        stamp: u64,
    },
    /// Suzuki-Kasami: "I want to enter for the so-manieth time."
    NumberedRequest {
        /// The number.
        number: u32,
    },
    /// Suzuki-Kasami: the token. What it remembers, `LN` and the queue, follows it as [`Lists`].
    ///
    /// [`Lists`]: crate::lists::Lists
    ListToken {
        /// Grows with each hop.
        serial: u64,
    },
    /// Central, Maekawa, voting: "you may", or one vote of several.
    Grant {
        /// The stamp of the request that is granted.
        stamp: u64,
        /// The highest serial of an entry that the granter knows.
        serial: u64,
    },
    /// Voting: "not you, not now."
    Denied {
        /// The stamp of the request that is denied.
        stamp: u64,
    },
    /// Lamport: "I have your request; my clock shows this."
    Acknowledge {
        /// The sender's Lamport time.
        stamp: u64,
    },
    /// Ricart-Agrawala: "as far as I am concerned, you may."
    Ok {
        /// The stamp of the request that is answered.
        stamp: u64,
    },
    /// Ricart-Agrawala, improved: "I have heard you; wait."
    Deferred {
        /// The stamp of the request that is answered.
        stamp: u64,
    },
    /// "I am outside again", or "I give your vote back".
    Release {
        /// The stamp of the request that is over.
        stamp: u64,
        /// The serial of the entry; 0 if it never came to one.
        serial: u64,
    },
    /// Maekawa: "an older request has come: may I have my vote back?"
    Inquire {
        /// The stamp of the request that holds the vote.
        stamp: u64,
    },
    /// Maekawa: "you may."
    Yield {
        /// The stamp of the request that gives the vote back.
        stamp: u64,
    },
    /// Maekawa: "an older request than yours is before you."
    Fail {
        /// The stamp of the request that has to wait.
        stamp: u64,
    },
}
