//! The lists that some messages carry. In memory they stand apart from the message, or every message
//! that waits anywhere would be as large as the one that carries most; in a datagram they follow it.

use crate::{
    ids::NodeSet,
    limits::MEMBERS_MAX,
    message::{ElectionMessage, MutexMessage, Payload},
};
use heapless::Vec;

/// What stands behind a message in its datagram; empty where the message carries nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Lists {
    /// Suzuki-Kasami's `LN`: the number of each node's request that was served last, by position.
    pub served: Vec<u32, MEMBERS_MAX>,
    /// Nodes, in order. Suzuki-Kasami's queue: by position. An election's list: by id.
    pub names: Vec<u16, MEMBERS_MAX>,
}

/// For messages without lists.
pub static NO_LISTS: Lists = Lists { served: Vec::new(), names: Vec::new() };

/// Which lists follow a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carries {
    /// None.
    Nothing,
    /// `names`.
    Names,
    /// `served`, then `names`.
    Token,
}

impl Lists {
    /// Writes what the payload carries. None if the buffer is too short.
    pub(crate) fn write(&self, carries: Carries, buffer: &mut [u8]) -> Option<usize> {
        let written = match carries {
            Carries::Nothing => return Some(0),
            Carries::Names => postcard::to_slice(&self.names, buffer),
            Carries::Token => postcard::to_slice(&(&self.served, &self.names), buffer),
        };
        written.ok().map(|bytes| bytes.len())
    }

    /// Reads what the payload carries. None if the bytes are anything else.
    #[must_use]
    pub fn read(carries: Carries, bytes: &[u8]) -> Option<Lists> {
        let (lists, left) = match carries {
            Carries::Nothing => (Lists::default(), bytes),
            Carries::Names => {
                let (names, left) = postcard::take_from_bytes(bytes).ok()?;
                (Lists { served: Vec::new(), names }, left)
            }
            Carries::Token => {
                let ((served, names), left) = postcard::take_from_bytes(bytes).ok()?;
                (Lists { served, names }, left)
            }
        };
        left.is_empty().then_some(lists)
    }
}

/// The list of an election on a ring. Everybody appends itself as the message passes, so the list is in
/// ring order: who began and who has been passed say it all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingList {
    /// The originator, by position.
    pub first: u16,
    /// Who is in it, the originator included, by position.
    pub members: NodeSet,
}

impl Default for RingList {
    fn default() -> RingList {
        RingList { first: 0, members: NodeSet::EMPTY }
    }
}

impl Payload {
    /// Which lists follow this message.
    #[must_use]
    pub fn carries(&self) -> Carries {
        match self {
            Payload::Election(ElectionMessage::ListElection { .. } | ElectionMessage::ListCoordinator { .. }) => {
                Carries::Names
            }
            Payload::Mutex { message: MutexMessage::ListToken { .. }, .. } => Carries::Token,
            Payload::Election(_)
            | Payload::Mutex { .. }
            | Payload::Locks { .. }
            | Payload::Cache { .. }
            | Payload::Commit { .. }
            | Payload::Marker { .. }
            | Payload::Labelled { .. }
            | Payload::Make(_) => Carries::Nothing,
        }
    }
}
