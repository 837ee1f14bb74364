//! What nodes say to each other, and what node and host say to each other.

use crate::{
    ids::{Fence, NodeId, NodeSet, ResourceId, Term},
    limits::{MEMBERS_MAX, RESOURCES_MAX},
    time::{ClusterTime, Duration, Instant},
};
use heapless::Vec;
use serde::{Deserialize, Serialize};

/// One sender's entry in a vector: its life, and its events in that life. Compared in that order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub struct VectorEntry {
    /// The boot incarnation; 0 means that nothing of this node is known.
    pub incarnation: u32,
    /// Events of that incarnation.
    pub count: u32,
}

/// A vector timestamp: one entry a member, in the configured order.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Vector(pub Vec<VectorEntry, MEMBERS_MAX>);

/// What every datagram begins with.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Header {
    /// Which cluster this belongs to.
    pub cluster: u32,
    /// Who sends.
    pub sender: NodeId,
    /// In which of its lives.
    pub incarnation: u32,
    /// The how-manieth datagram of that life; also the id of the message in the trace.
    pub sequence: u32,
    /// Lamport time of the send.
    pub lamport: u64,
    /// Vector time of the send; empty when the host sends.
    pub vector: Vector,
}

/// A number that its maker never used before: what a proof of being alive must repeat.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Challenge {
    /// The challenger's incarnation.
    pub incarnation: u32,
    /// The how-manieth challenge of that incarnation.
    pub count: u32,
}

/// A leader's sign of life: who leads, over whom, and until when its followers may rely on it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Heartbeat {
    /// The leader's term.
    pub term: Term,
    /// Number of its current view within the term.
    pub view: u32,
    /// Who is in that view.
    pub members: NodeSet,
    /// A majority has accepted the view and all leases that contradict it have run out.
    pub installed: bool,
    /// The leader's hardware time of sending, to be repeated in the acknowledgement.
    pub sent: Instant,
    /// Grants a lease counted from this instant, taken from the follower's last acknowledgement.
    pub lease: Option<Instant>,
    /// The leader has cluster time to give.
    pub has_time: bool,
    /// The highest fence of each resource that the view's members know.
    pub fences: Vec<Fence, RESOURCES_MAX>,
}

/// A follower's answer to a heartbeat: acceptance of term and view, and request for a lease.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HeartbeatAck {
    /// The highest term this node has promised itself to.
    pub term: Term,
    /// The view that is accepted.
    pub view: u32,
    /// The heartbeat's `sent`.
    pub echo: Instant,
    /// The follower's hardware time of sending: a lease counts from here.
    pub renewal: Instant,
    /// Counts towards the majority: false while a returned node may not speak for its past.
    pub votes: bool,
    /// This node has cluster time.
    pub has_time: bool,
    /// The highest fence of each resource that this node has seen.
    pub fences: Vec<Fence, RESOURCES_MAX>,
}

/// Bully's messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ElectionMessage {
    /// "Is anybody above me alive?"
    Election {
        /// The caller's term.
        term: Term,
    },
    /// "I am, and I take over."
    Answer {
        /// The answered caller's term.
        term: Term,
    },
    /// "I lead."
    Coordinator {
        /// The winner's term.
        term: Term,
    },
}

/// Messages of mutual exclusion.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum MutexMessage {
    /// The token: whoever has it may enter.
    Token {
        /// Which token: a regenerated one has a higher epoch.
        epoch: u32,
        /// Grows with each hop.
        serial: u32,
    },
}

/// What the algorithms send: the textbook's own messages.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Payload {
    /// Of the election.
    Election(ElectionMessage),
    /// Of the mutual exclusion on one resource.
    Mutex(ResourceId, MutexMessage),
}

/// What a node reports of one resource's token in a census.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TokenSighting {
    /// The highest epoch and serial this node has seen.
    pub seen: Fence,
    /// It holds that token, or has passed it on and not yet learned that it arrived.
    pub custody: bool,
}

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
}

/// A batch of observations on its way to the collector.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Telemetry<'a> {
    /// Index of the first record in this incarnation's stream.
    pub first: u32,
    /// How many records follow.
    pub count: u16,
    /// Observations that found the buffer full so far.
    pub missed: u32,
    /// Hardware time of sending.
    pub hw: Instant,
    /// The unbent counter at the same moment, in nanoseconds, where the board can tell.
    pub raw_ns: u64,
    /// How far the crystal is bent, in parts per billion.
    pub rate_ppb: i32,
    /// The records: postcard `Observation`s, one after the other.
    #[serde(borrow)]
    pub records: &'a [u8],
}

/// What a datagram says.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Body<'a> {
    /// "Prove that you are alive now": asked of a sender whose incarnation is new here.
    Challenge(Challenge),
    /// The challenge, repeated: whoever sends it was alive after it was made.
    Proof(Challenge),
    /// See [`Heartbeat`].
    Heartbeat(Heartbeat),
    /// See [`HeartbeatAck`].
    HeartbeatAck(HeartbeatAck),
    /// Cristian's question.
    TimeRequest {
        /// The asker's hardware time of sending.
        sent: Instant,
    },
    /// Cristian's answer.
    TimeReply {
        /// The question's `sent`.
        echo: Instant,
        /// The server's cluster time when it sent this.
        cluster: ClusterTime,
        /// How long the server kept the question, in its microseconds.
        handling_us: u32,
    },
    /// An algorithm's message, sent once and bare: the textbook's channel.
    Plain(Payload),
    /// An algorithm's message on the channel that repeats until acknowledged and keeps order.
    Ordered {
        /// The receiver's incarnation for which this is meant.
        life: u32,
        /// Position in the stream from this sender's life to that receiver's life.
        index: u32,
        /// Everything before this position is acknowledged or given up.
        floor: u32,
        /// The message.
        payload: Payload,
    },
    /// Everything before `next` has arrived.
    Ack {
        /// The acknowledged sender's incarnation.
        life: u32,
        /// The next position expected.
        next: u32,
    },
    /// "Who has seen the token?"
    Census {
        /// By whose authority.
        term: Term,
        /// Which count it belongs to.
        round: u32,
        /// Which token.
        resource: ResourceId,
    },
    /// A node's answer to the census.
    CensusReply {
        /// The census's term.
        term: Term,
        /// The census's round.
        round: u32,
        /// The census's resource.
        resource: ResourceId,
        /// What it knows.
        sighting: TokenSighting,
    },
    /// "Accept no token below this epoch any more."
    Seal {
        /// By whose authority.
        term: Term,
        /// Which token.
        resource: ResourceId,
        /// The epoch that is about to begin.
        epoch: u32,
    },
    /// The promise not to; false if a higher epoch is already promised.
    SealReply {
        /// The seal's term.
        term: Term,
        /// The seal's resource.
        resource: ResourceId,
        /// The seal's epoch.
        epoch: u32,
        /// Promised.
        promised: bool,
    },
    /// A holder uses the resource: asks its keeper.
    Access {
        /// Which resource.
        resource: ResourceId,
        /// The fence of the holder's entry.
        fence: Fence,
    },
    /// The keeper's verdict.
    AccessReply {
        /// The access's resource.
        resource: ResourceId,
        /// The access's fence.
        fence: Fence,
        /// False: a higher fence has been here.
        accepted: bool,
    },
    /// Observations for the collector.
    Telemetry(#[serde(borrow)] Telemetry<'a>),
    /// The collector has everything before this record.
    TelemetryAck {
        /// The next record expected.
        next: u32,
    },
    /// The host's command number `index`, carried out once and in order.
    Command {
        /// Counts from 0 for each incarnation of the node.
        index: u32,
        /// What to do.
        command: Command,
    },
    /// Every command before this one was carried out.
    CommandAck {
        /// The next command expected.
        next: u32,
    },
}

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $kind:ident = $name:literal,)+) => {
        /// What sort of message a datagram carries, as the trace names it.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
        pub enum Kind { $($(#[doc = $doc])+ $kind,)+ }
        impl Kind {
            /// The name in the trace.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Kind::$kind => $name,)+ }
            }
        }
    };
}

kinds! {
    /// Of the session.
    Challenge = "challenge",
    /// Of the session.
    Proof = "proof",
    /// Of the membership.
    Heartbeat = "heartbeat",
    /// Of the membership.
    HeartbeatAck = "heartbeat_ack",
    /// Of Cristian's algorithm.
    TimeRequest = "time_request",
    /// Of Cristian's algorithm.
    TimeReply = "time_reply",
    /// Of the delivery.
    Ack = "ack",
    /// Of bully.
    Election = "election",
    /// Of bully.
    Answer = "answer",
    /// Of bully.
    Coordinator = "coordinator",
    /// Of the token ring.
    Token = "token",
    /// Of the token's guardian.
    Census = "census",
    /// Of the token's guardian.
    CensusReply = "census_reply",
    /// Of the token's guardian.
    Seal = "seal",
    /// Of the token's guardian.
    SealReply = "seal_reply",
    /// Of the keeper.
    Access = "access",
    /// Of the keeper.
    AccessReply = "access_reply",
    /// Between board and collector.
    Telemetry = "telemetry",
    /// Between board and collector.
    TelemetryAck = "telemetry_ack",
    /// Between host and board.
    Command = "command",
    /// Between host and board.
    CommandAck = "command_ack",
}

impl Payload {
    /// What sort of message this is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Payload::Election(ElectionMessage::Election { .. }) => Kind::Election,
            Payload::Election(ElectionMessage::Answer { .. }) => Kind::Answer,
            Payload::Election(ElectionMessage::Coordinator { .. }) => Kind::Coordinator,
            Payload::Mutex(_, MutexMessage::Token { .. }) => Kind::Token,
        }
    }
}

impl Body<'_> {
    /// What sort of message this is; a payload's own kind, whichever channel carries it.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Body::Challenge(_) => Kind::Challenge,
            Body::Proof(_) => Kind::Proof,
            Body::Heartbeat(_) => Kind::Heartbeat,
            Body::HeartbeatAck(_) => Kind::HeartbeatAck,
            Body::TimeRequest { .. } => Kind::TimeRequest,
            Body::TimeReply { .. } => Kind::TimeReply,
            Body::Plain(payload) | Body::Ordered { payload, .. } => payload.kind(),
            Body::Ack { .. } => Kind::Ack,
            Body::Census { .. } => Kind::Census,
            Body::CensusReply { .. } => Kind::CensusReply,
            Body::Seal { .. } => Kind::Seal,
            Body::SealReply { .. } => Kind::SealReply,
            Body::Access { .. } => Kind::Access,
            Body::AccessReply { .. } => Kind::AccessReply,
            Body::Telemetry(_) => Kind::Telemetry,
            Body::TelemetryAck { .. } => Kind::TelemetryAck,
            Body::Command { .. } => Kind::Command,
            Body::CommandAck { .. } => Kind::CommandAck,
        }
    }

    /// Between a node and the host, in either direction: not part of the experiment.
    #[must_use]
    pub fn is_host_traffic(&self) -> bool {
        matches!(self.kind(), Kind::Telemetry | Kind::TelemetryAck | Kind::Command | Kind::CommandAck)
    }
}
