//! What the host asks of a node.

use crate::{
    ids::{NodeId, ResourceId},
    locks::ResourceSet,
    time::{ClusterTime, Duration},
};
use serde::{Deserialize, Serialize};

/// What the host asks of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Command {
    /// Request the resource, hold it so long, release it.
    Lock {
        /// Which one.
        resource: ResourceId,
        /// For how long.
        hold: Duration,
        /// The request event is stamped with exactly this Lamport time, if it is still ahead.
        lamport: Option<u64>,
    },
    /// Notice that the coordinator is dead, and elect.
    Elect,
    /// Bend the emulated crystal to so many parts per billion. A real crystal ignores it.
    SetRate {
        /// Faster than nominal, or slower if negative.
        ppb: i32,
    },
    /// Lose the token of every resource the next time it is here.
    DropToken,
    /// Make no further requests; those already made are served.
    StopWorkload,
    /// Acquire these, all of them, in one transaction with what is held already.
    Acquire {
        /// Which.
        resources: ResourceSet,
    },
    /// Give these back.
    Release {
        /// Which.
        resources: ResourceSet,
    },
    /// Declare that the next transaction will need no more than these.
    Claims {
        /// Which.
        resources: ResourceSet,
    },
    /// Take a snapshot of the whole system.
    Snapshot {
        /// Its number, from 1.
        number: u32,
    },
    /// Note an entry of the scenario's list of labels.
    Label {
        /// Which.
        label: u16,
    },
    /// Send an entry of the scenario's list of labels.
    Send {
        /// To whom.
        to: NodeId,
        /// Which.
        label: u16,
    },
    /// A leap second takes effect.
    Leap {
        /// When, in cluster time.
        at: ClusterTime,
        /// 1: one second more, −1: one less.
        by: i8,
    },
    /// Read the cached value.
    Read,
    /// Write the cached value.
    Write,
    /// If this node coordinates: begin a transaction.
    Transaction,
    /// Vote no the next time it is asked.
    Refuse,
    /// Save a source.
    Edit {
        /// Which file.
        file: u8,
    },
    /// Build an object anew, if its source is younger.
    Build {
        /// Which file.
        file: u8,
        /// Who has the source.
        source: NodeId,
    },
}
