//! What the elections say.

use crate::{
    ids::{NodeId, Term},
    lists::RingList,
};
use serde::{Deserialize, Serialize};

/// What the elections say. Every message carries the term that its originator claims.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ElectionMessage {
    /// Bully: "is anybody above me alive?"
    Election {
        /// The caller's term.
        term: Term,
    },
    /// Bully: "I am, and I take over."
    Answer {
        /// The answered caller's term.
        term: Term,
    },
    /// Bully: "I lead."
    Coordinator {
        /// The winner's term.
        term: Term,
    },
    /// Ring with a list: ELECTION goes round, each appends its id.
    ListElection {
        /// The originator's term.
        term: Term,
        /// Who has been passed, the originator first. In a datagram: a list of ids.
        #[serde(skip)]
        list: RingList,
    },
    /// Ring with a list: COORDINATOR goes round once more with the new ring's members.
    ListCoordinator {
        /// The originator's term.
        term: Term,
        /// The highest of the list.
        leader: NodeId,
        /// The new ring. In a datagram: a list of ids.
        #[serde(skip)]
        list: RingList,
    },
    /// Chang-Roberts: the largest id so far.
    Candidate {
        /// The term of the election.
        term: Term,
        /// The id.
        id: NodeId,
    },
    /// Chang-Roberts and Hirschberg-Sinclair: "this one leads", round the ring.
    Elected {
        /// The winner's term.
        term: Term,
        /// The winner.
        id: NodeId,
    },
    /// Hirschberg-Sinclair: a candidate's probe on its way out.
    Probe {
        /// The term of the election.
        term: Term,
        /// The candidate.
        id: NodeId,
        /// The round: the horizon is `2^round`.
        round: u8,
        /// Hops made so far.
        hops: u16,
        /// Which way round the ring.
        clockwise: bool,
    },
    /// Hirschberg-Sinclair: nobody within the horizon is larger; on its way back.
    Reply {
        /// The term of the election.
        term: Term,
        /// The candidate.
        id: NodeId,
        /// The round.
        round: u8,
        /// Which way the probe went.
        clockwise: bool,
    },
}
