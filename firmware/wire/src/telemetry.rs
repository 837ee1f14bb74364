//! What a node reports of itself: the trace's events, as data and never as prose.

use crate::{
    codec::Refusal,
    commit::{Decision, TransactionId},
    ids::{Fence, NodeId, NodeSet, ResourceId, Term},
    locks::ResourceSet,
    message::{Kind, Vector},
    time::{ClusterTime, Instant},
};
use serde::{Deserialize, Serialize};

/// One event with its stamps. Each ticks the node's logical clocks, so `seq` is the vector's own entry.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Observation {
    /// The how-manieth event of this incarnation, from 1.
    pub seq: u32,
    /// Lamport time.
    pub lamport: u64,
    /// Vector time.
    pub vector: Vector,
    /// Hardware time.
    pub hw: Instant,
    /// Cluster time, once there is one.
    pub cluster: Option<ClusterTime>,
    /// What happened.
    pub event: Event,
}

/// What a disciplined clock claims when it was compared, and how that moves until the next time: against the
/// hardware clock, and doubt grows on top of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Course {
    /// How much faster the reference runs than this crystal, as estimated.
    pub rate_ppb: i32,
    /// The reference may be behind what is shown by so much,
    pub behind_us: u32,
    /// or ahead.
    pub ahead_us: u32,
    /// The earlier end of the interval moves at least so fast,
    pub slow_ppb: i32,
    /// the later one at most.
    pub fast_ppb: i32,
    /// The clock has found its rate.
    pub locked: bool,
    /// The interval reaches at least from here behind what is shown, in case the rate has leapt;
    pub braced_behind_us: i32,
    /// to here ahead of it;
    pub braced_ahead_us: i32,
    /// and these ends move by so much faster.
    pub leap_ppb: i32,
    /// For certain, the reference is behind by no more than this,
    pub certain_behind_us: u32,
    /// and ahead by no more,
    pub certain_ahead_us: u32,
    /// and parts from this crystal no faster.
    pub certain_ppb: u32,
}

/// What happened on a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Event {
    /// The node began this life.
    Boot {
        /// Its number, from 1.
        incarnation: u32,
    },
    /// A datagram left.
    Send {
        /// To whom.
        to: NodeId,
        /// What sort.
        kind: Kind,
        /// Its sequence number.
        id: u32,
        /// It repeats a message that was sent before.
        again: bool,
    },
    /// A datagram was accepted.
    Recv {
        /// From whom.
        from: NodeId,
        /// In which of the sender's lives it was sent.
        incarnation: u32,
        /// What sort.
        kind: Kind,
        /// Its sequence number.
        id: u32,
    },
    /// A datagram was refused.
    Drop {
        /// Whom it names as its sender, if it can be read that far.
        from: Option<NodeId>,
        /// Why.
        reason: Refusal,
    },
    /// The application asks for a resource.
    Request {
        /// Which.
        resource: ResourceId,
    },
    /// The node is inside.
    CsEnter {
        /// Which resource.
        resource: ResourceId,
        /// Grows from entry to entry.
        fence: Fence,
        /// Lease left, in hardware microseconds; none in the bare textbook form.
        lease_us: Option<u64>,
    },
    /// The lease of a node inside was renewed.
    CsRenew {
        /// Which resource.
        resource: ResourceId,
        /// The entry's fence.
        fence: Fence,
        /// Lease left, in hardware microseconds.
        lease_us: u64,
    },
    /// The node is outside again.
    CsExit {
        /// Which resource.
        resource: ResourceId,
        /// The entry's fence.
        fence: Fence,
    },
    /// The keeper refused an access: somebody with a higher fence has been there.
    Fenced {
        /// Which resource.
        resource: ResourceId,
        /// The refused fence.
        fence: Fence,
    },
    /// The node calls an election.
    ElectionStart {
        /// The term it claims.
        term: Term,
    },
    /// The node names its leader.
    Leader {
        /// Who.
        id: NodeId,
        /// Of which term.
        term: Term,
    },
    /// A view came into force on this node.
    View {
        /// The term of the leader that made it.
        term: Term,
        /// Its number within the term.
        number: u32,
        /// Higher than that of every view before it.
        epoch: u32,
        /// Who is in it, by position in the configured ring.
        members: NodeSet,
    },
    /// The failure detector suspects somebody.
    Suspect {
        /// Whom.
        id: NodeId,
    },
    /// The failure detector takes a suspicion back.
    Trust {
        /// Whose.
        id: NodeId,
    },
    /// The clock was compared with its source and corrected.
    Sync {
        /// Which node's clock it was compared with; itself when it begins to serve its own.
        source: NodeId,
        /// Source minus own, before the correction.
        offset_us: i64,
        /// Round trip of the best try.
        rtt_us: u32,
        /// The offset may be wrong by so much.
        error_us: u32,
        /// Half the width of the clock's interval right after it: the error, and what is yet to be slewed.
        bound_us: u32,
        /// How a disciplined clock goes on from there.
        course: Option<Course>,
    },
    /// The token arrived here, or was made here.
    Token {
        /// Which resource.
        resource: ResourceId,
        /// Its epoch.
        epoch: u32,
        /// Its serial.
        serial: u64,
    },
    /// This node, as coordinator, made a token in place of a lost one.
    TokenRegenerated {
        /// Which resource.
        resource: ResourceId,
        /// Its epoch.
        epoch: u32,
    },
    /// The token was thrown away on command.
    TokenDropped {
        /// Which resource.
        resource: ResourceId,
        /// Its epoch.
        epoch: u32,
    },
    /// This node waits for another to give a resource back.
    Wait {
        /// For whom.
        on: NodeId,
        /// For which resource.
        resource: ResourceId,
    },
    /// This node wants the resource no more, without having got it.
    Withdraw {
        /// Which.
        resource: ResourceId,
    },
    /// A probe came back: a deadlock.
    Deadlock {
        /// Who waits in a circle, by position in the configured ring.
        cycle: NodeSet,
        /// Who is to give back.
        victim: NodeId,
    },
    /// This node's transaction gives everything back and will try again.
    Abandon {
        /// Why.
        reason: Abandoned,
    },
    /// This node's part of a snapshot.
    Snapshot {
        /// Which snapshot.
        id: u32,
        /// Whom the node names as leader.
        leader: Option<NodeId>,
        /// The epoch of its view.
        epoch: u32,
        /// Tokens in its hands.
        tokens: ResourceSet,
        /// Resources it holds.
        holds: ResourceSet,
        /// Resources it wants.
        wants: ResourceSet,
    },
    /// A message that was on its way when the snapshot was taken.
    SnapshotMessage {
        /// Which snapshot.
        id: u32,
        /// Who had sent it.
        from: NodeId,
        /// What sort.
        kind: Kind,
        /// The resource and epoch, if it is a token.
        token: Option<(ResourceId, u32)>,
    },
    /// This node has its whole part of the snapshot.
    SnapshotDone {
        /// Which snapshot.
        id: u32,
    },
    /// The snapshot met a change of view and is void.
    SnapshotAborted {
        /// Which snapshot.
        id: u32,
    },
    /// A step's label.
    Label {
        /// Which, in the scenario's list.
        label: u16,
    },
    /// Cluster time has reached a whole second of UTC.
    Utc {
        /// Seconds since 1970, leap seconds not counted.
        seconds: i64,
        /// It is the inserted second, 23:59:60.
        leap: bool,
    },
    /// The cached value was read.
    Read {
        /// Its version.
        version: u64,
        /// From this node's copy, without asking.
        cached: bool,
    },
    /// This node, as server, has begun to write.
    Writing {
        /// The version that will come.
        version: u64,
    },
    /// The write is acknowledged: nobody reads an older version any more. At the server, then at who asked.
    Written {
        /// The version.
        version: u64,
        /// Some reader's lease had to run out; told by the server only.
        expired: bool,
    },
    /// This node, as coordinator, begins a transaction.
    Transaction {
        /// Which.
        transaction: TransactionId,
        /// Whose votes it needs, by position in the configured ring.
        participants: NodeSet,
    },
    /// This node voted.
    Voted {
        /// Which transaction.
        transaction: TransactionId,
        /// The vote.
        yes: bool,
    },
    /// The transaction has ended here.
    Decided {
        /// Which.
        transaction: TransactionId,
        /// How.
        decision: Decision,
    },
    /// A queue was full and something was given up.
    Overflow {
        /// Which.
        queue: Queue,
        /// Times so far, over all queues.
        count: u32,
    },
    /// A request was to be made at a Lamport time that has passed, and is not made at all.
    RequestRefused {
        /// Of which resource.
        resource: ResourceId,
        /// The time.
        lamport: u64,
    },
    /// A source was saved here.
    Edited {
        /// Which file.
        file: u8,
    },
    /// This node looked whether its object is older than its source, and built it anew if so.
    Built {
        /// Which file.
        file: u8,
        /// Who has the source.
        source: NodeId,
        /// In which of its lives it was saved.
        source_incarnation: u32,
        /// The Lamport time at which it was saved.
        edit: u64,
        /// Built anew, by the boards' own clocks.
        raw: bool,
        /// The same by cluster time; nothing where clocks are not synchronized.
        synchronized: Option<bool>,
        /// The same by Lamport time.
        logical: bool,
    },
    /// How warm the board is, where it has a sensor: crystals drift with it.
    Temperature {
        /// Thousandths of a degree Celsius.
        milli_celsius: i32,
    },
    /// A source of time is outside of what most sources agree on, or is so no more.
    Falseticker {
        /// Which.
        source: NodeId,
        /// It is outside.
        lies: bool,
    },
}

/// Why a transaction gives back what it holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Abandoned {
    /// It is the victim of a deadlock.
    Victim,
    /// Wait-die: an older one holds what it wants.
    Died,
    /// Wound-wait: an older one wants what it holds.
    Wounded,
    /// It must begin again in the global order.
    OutOfOrder,
    /// Its lease ended.
    LeaseEnded,
    /// It asked for more than it had claimed. It ends, and does not try again.
    Unclaimed,
}

impl Abandoned {
    /// The name in the trace.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Abandoned::Victim => "victim",
            Abandoned::Died => "died",
            Abandoned::Wounded => "wounded",
            Abandoned::OutOfOrder => "out_of_order",
            Abandoned::LeaseEnded => "lease_ended",
            Abandoned::Unclaimed => "unclaimed",
        }
    }
}

/// A queue of the node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Queue {
    /// Datagrams to send.
    Outgoing,
    /// Messages that await acknowledgement.
    Delivery,
    /// What one input of an algorithm caused.
    Algorithm,
    /// Requests that wait for the present one.
    Requests,
    /// What the driver is to do.
    Effects,
    /// Events that wait for the driver: those that found it full are missing from the trace.
    Journal,
}

impl Queue {
    /// The name in the trace.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Queue::Outgoing => "outgoing",
            Queue::Delivery => "delivery",
            Queue::Algorithm => "algorithm",
            Queue::Requests => "requests",
            Queue::Effects => "effects",
            Queue::Journal => "journal",
        }
    }
}
