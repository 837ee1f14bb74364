//! What nodes say to each other, and what node and host say to each other.

use crate::{
    cache::CacheMessage,
    commit::CommitMessage,
    ids::{Fence, NodeId, NodeSet, ResourceId, Term},
    limits::{MEMBERS_MAX, TURNS_MAX},
    locks::{LockMessage, ResourceSet},
    make::MakeMessage,
    time::{ClusterTime, Instant, Leap},
};
use heapless::Vec;
use serde::{Deserialize, Serialize};

pub use crate::{command::Command, election::ElectionMessage, mutex::MutexMessage};

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
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Header {
    /// Which cluster this belongs to.
    pub cluster: u32,
    /// Who sends.
    pub sender: NodeId,
    /// In which of its lives.
    pub incarnation: u32,
    /// The how-manieth datagram of that life; also the id of the message in the trace.
    pub sequence: u32,
    /// The latest snapshot that the sender has taken part in: whoever has not must do so before it takes this in.
    pub snapshot: u32,
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
    /// The view's epoch: higher than that of every view before it, whoever made it.
    pub epoch: u32,
    /// Who is in that view.
    pub members: NodeSet,
    /// Every member has accepted the view, nobody is inside, and all leases that contradict it have
    /// run out.
    pub installed: bool,
    /// The leader's hardware time of sending, to be repeated in the acknowledgement.
    pub sent: Instant,
    /// Grants a lease counted from this instant, taken from the follower's last acknowledgement, ...
    pub lease: Option<Instant>,
    /// ... in this life of the follower: another one's clock began anew. 0 while it is unknown.
    pub life: u32,
    /// The leader has cluster time to give.
    pub has_time: bool,
    /// The highest fence of each resource that the view's members know.
    pub fences: Vec<Fence, TURNS_MAX>,
}

/// A follower's answer to a heartbeat: acceptance of term and view, and request for a lease.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HeartbeatAck {
    /// The highest term this node has promised itself to.
    pub term: Term,
    /// The view that is accepted: from now on this node enters nothing in an earlier one.
    pub view: u32,
    /// The highest epoch that this node has accepted.
    pub epoch: u32,
    /// Somebody is still inside here, by an earlier view's grant.
    pub busy: bool,
    /// Resources whose token is in this node's hands.
    pub custody: ResourceSet,
    /// The heartbeat's `sent`.
    pub echo: Instant,
    /// The follower's hardware time of sending: a lease counts from here.
    pub renewal: Instant,
    /// Counts towards the majority: false while a returned node may not speak for its past.
    pub votes: bool,
    /// What this node knows of cluster time.
    pub time: TimeKnown,
    /// The highest fence of each resource that this node has seen.
    pub fences: Vec<Fence, TURNS_MAX>,
}

/// What a node knows of cluster time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub enum TimeKnown {
    /// Nothing yet.
    #[default]
    Nothing,
    /// The time.
    Time,
    /// The time, and its rate well enough for others to go by.
    Rate,
}

/// The streams of messages from one life to another: elections must get through when all else waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Stream {
    /// Messages of the election.
    Election,
    /// Everything else.
    Work,
}

/// What the algorithms send: the textbook's own messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Payload {
    /// Of the election.
    Election(ElectionMessage),
    /// Of the mutual exclusion on one resource, in one view.
    Mutex {
        /// Which resource.
        resource: ResourceId,
        /// The epoch of the view in which it was sent: it means nothing in any other.
        epoch: u32,
        /// The message.
        message: MutexMessage,
    },
    /// Of the locks on several resources, in one view.
    Locks {
        /// The view's epoch.
        epoch: u32,
        /// The message.
        message: LockMessage,
    },
    /// Of the cache, in one view.
    Cache {
        /// The view's epoch.
        epoch: u32,
        /// The message.
        message: CacheMessage,
    },
    /// Of the atomic commit, in one view.
    Commit {
        /// The view's epoch.
        epoch: u32,
        /// The message.
        message: CommitMessage,
    },
    /// Chandy-Lamport: everything before this in the stream was sent before its sender took its part
    /// of the snapshot, everything behind it afterwards.
    Marker {
        /// The view's epoch.
        epoch: u32,
        /// Which snapshot.
        snapshot: u32,
    },
    /// A message that a scenario's step sends: an entry of its list of labels.
    Labelled {
        /// Which label.
        label: u16,
    },
    /// Of saving and building files.
    Make(MakeMessage),
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
        /// The server's hardware time of sending.
        sent: Instant,
        /// The server's clock may be from the time it stands for by so much, or is on its way there,
        error_us: u32,
        /// and for certain by no more than this.
        certain_us: u32,
        /// From `sent` until such an answer has left the server's board: most take at least so long.
        leaves_us: u32,
        /// It is cluster time; otherwise only what the server's clock has shown since its boot.
        is_set: bool,
        /// The leap second that the server knows of.
        leap: Option<Leap>,
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
    /// Everything of one stream before `next` has arrived.
    Ack {
        /// Which stream.
        stream: Stream,
        /// The acknowledged sender's incarnation.
        life: u32,
        /// The next position expected.
        next: u32,
    },
    /// "Who has the token?"
    Census {
        /// The epoch of the view in which it is asked.
        epoch: u32,
        /// Which count it belongs to.
        round: u32,
        /// Which token.
        resource: ResourceId,
    },
    /// A node's answer to the census.
    CensusReply {
        /// The census's epoch.
        epoch: u32,
        /// The census's round.
        round: u32,
        /// The census's resource.
        resource: ResourceId,
        /// It has the token, or has passed it on and not yet learned that it arrived.
        custody: bool,
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
    /// "I live": where everybody watches everybody.
    Alive,
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
    /// Berkeley's correction: "your clock was so far behind the average", not the time.
    Correction {
        /// The receiver's hardware time at which it answered the question.
        polled: Instant,
        /// What its clock lacked then.
        offset_us: i64,
        /// Round trip of question and answer.
        rtt_us: u32,
        /// The coordinator's own clock is on its way to the average, and so far from it.
        error_us: u32,
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
    /// Of Chang-Roberts and Hirschberg-Sinclair.
    Elected = "elected",
    /// Of Hirschberg-Sinclair.
    Probe = "probe",
    /// Of Hirschberg-Sinclair.
    Reply = "reply",
    /// Of the token algorithms.
    Token = "token",
    /// Of mutual exclusion by permission.
    Request = "request",
    /// Of central server, voting and Maekawa.
    Grant = "grant",
    /// Of voting.
    Denied = "denied",
    /// Of Lamport 1978.
    Acknowledge = "acknowledge",
    /// Of Ricart-Agrawala.
    Ok = "ok",
    /// Of Ricart-Agrawala.
    Deferred = "deferred",
    /// Of mutual exclusion by permission.
    Release = "release",
    /// Of Maekawa.
    Inquire = "inquire",
    /// Of Maekawa.
    Yield = "yield",
    /// Of Maekawa.
    Fail = "fail",
    /// Of the token's guardian.
    Census = "census",
    /// Of the token's guardian.
    CensusReply = "census_reply",
    /// Of the locks.
    LockRegister = "lock_register",
    /// Of the locks.
    LockRequest = "lock_request",
    /// Of the locks.
    LockGrant = "lock_grant",
    /// Of the locks.
    LockWait = "lock_wait",
    /// Of wait-die.
    LockDie = "lock_die",
    /// Of wound-wait.
    LockWound = "lock_wound",
    /// Of the locks.
    LockRelease = "lock_release",
    /// Of deadlock avoidance.
    LockClaim = "lock_claim",
    /// Of deadlock detection.
    LockProbe = "lock_probe",
    /// Of deadlock detection.
    LockVictim = "lock_victim",
    /// Of the cache.
    CacheKnown = "cache_known",
    /// Of the cache.
    CacheRead = "cache_read",
    /// Of the cache.
    CacheCopy = "cache_copy",
    /// Of the cache.
    CacheWrite = "cache_write",
    /// Of the cache.
    CacheStore = "cache_store",
    /// Of the cache.
    CacheStored = "cache_stored",
    /// Of the cache.
    CacheInvalidate = "cache_invalidate",
    /// Of the cache.
    CacheInvalidated = "cache_invalidated",
    /// Of the cache.
    CacheWritten = "cache_written",
    /// Of the atomic commit.
    Prepare = "prepare",
    /// Of the atomic commit.
    Vote = "vote",
    /// Of the atomic commit, hardened.
    DecisionStore = "decision_store",
    /// Of the atomic commit, hardened.
    DecisionStored = "decision_stored",
    /// Of the atomic commit.
    Decision = "decision",
    /// Of the atomic commit, hardened.
    CommitKnown = "commit_known",
    /// Of the atomic commit, hardened.
    CommitAsk = "commit_ask",
    /// Of the atomic commit, hardened.
    CommitTold = "commit_told",
    /// Of the atomic commit, hardened.
    DecisionDone = "decision_done",
    /// Of the snapshot.
    Marker = "marker",
    /// A step's message.
    Labelled = "label",
    /// Of `make`.
    MakeAsk = "make_ask",
    /// Of `make`.
    MakeSource = "make_source",
    /// Of Berkeley's algorithm.
    Correction = "correction",
    /// Of the keeper.
    Access = "access",
    /// Of the keeper.
    AccessReply = "access_reply",
    /// Of the failure detector.
    Alive = "alive",
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
            Payload::Election(message) => match message {
                ElectionMessage::Election { .. }
                | ElectionMessage::ListElection { .. }
                | ElectionMessage::Candidate { .. } => Kind::Election,
                ElectionMessage::Answer { .. } => Kind::Answer,
                ElectionMessage::Coordinator { .. } | ElectionMessage::ListCoordinator { .. } => Kind::Coordinator,
                ElectionMessage::Elected { .. } => Kind::Elected,
                ElectionMessage::Probe { .. } => Kind::Probe,
                ElectionMessage::Reply { .. } => Kind::Reply,
            },
            Payload::Mutex { message, .. } => match message {
                MutexMessage::Token { .. } | MutexMessage::ListToken { .. } => Kind::Token,
                MutexMessage::Request { .. } | MutexMessage::NumberedRequest { .. } => Kind::Request,
                MutexMessage::Grant { .. } => Kind::Grant,
                MutexMessage::Denied { .. } => Kind::Denied,
                MutexMessage::Acknowledge { .. } => Kind::Acknowledge,
                MutexMessage::Ok { .. } => Kind::Ok,
                MutexMessage::Deferred { .. } => Kind::Deferred,
                MutexMessage::Release { .. } => Kind::Release,
                MutexMessage::Inquire { .. } => Kind::Inquire,
                MutexMessage::Yield { .. } => Kind::Yield,
                MutexMessage::Fail { .. } => Kind::Fail,
            },
            Payload::Locks { message, .. } => match message {
                LockMessage::Register { .. } => Kind::LockRegister,
                LockMessage::Request { .. } => Kind::LockRequest,
                LockMessage::Grant { .. } => Kind::LockGrant,
                LockMessage::Wait { .. } => Kind::LockWait,
                LockMessage::Die { .. } => Kind::LockDie,
                LockMessage::Wound { .. } => Kind::LockWound,
                LockMessage::Release { .. } => Kind::LockRelease,
                LockMessage::Claim { .. } => Kind::LockClaim,
                LockMessage::Probe { .. } => Kind::LockProbe,
                LockMessage::Victim { .. } => Kind::LockVictim,
            },
            Payload::Cache { message, .. } => match message {
                CacheMessage::Known { .. } => Kind::CacheKnown,
                CacheMessage::Read { .. } => Kind::CacheRead,
                CacheMessage::Copy { .. } => Kind::CacheCopy,
                CacheMessage::Write { .. } => Kind::CacheWrite,
                CacheMessage::Store { .. } => Kind::CacheStore,
                CacheMessage::Stored { .. } => Kind::CacheStored,
                CacheMessage::Invalidate { .. } => Kind::CacheInvalidate,
                CacheMessage::Invalidated { .. } => Kind::CacheInvalidated,
                CacheMessage::Written { .. } => Kind::CacheWritten,
            },
            Payload::Commit { message, .. } => match message {
                CommitMessage::Prepare { .. } => Kind::Prepare,
                CommitMessage::Vote { .. } => Kind::Vote,
                CommitMessage::Store { .. } => Kind::DecisionStore,
                CommitMessage::Stored { .. } => Kind::DecisionStored,
                CommitMessage::Decide { .. } => Kind::Decision,
                CommitMessage::Known(_) => Kind::CommitKnown,
                CommitMessage::Ask { .. } => Kind::CommitAsk,
                CommitMessage::Told { .. } => Kind::CommitTold,
                CommitMessage::Done { .. } => Kind::DecisionDone,
            },
            Payload::Marker { .. } => Kind::Marker,
            Payload::Labelled { .. } => Kind::Labelled,
            Payload::Make(MakeMessage::Ask { .. }) => Kind::MakeAsk,
            Payload::Make(MakeMessage::Source { .. }) => Kind::MakeSource,
        }
    }

    /// The epoch of the view in which it was sent, if it means nothing in any other.
    #[must_use]
    pub fn epoch(&self) -> Option<u32> {
        match self {
            Payload::Election(_) | Payload::Labelled { .. } | Payload::Make(_) => None,
            Payload::Mutex { epoch, .. }
            | Payload::Locks { epoch, .. }
            | Payload::Cache { epoch, .. }
            | Payload::Commit { epoch, .. }
            | Payload::Marker { epoch, .. } => Some(*epoch),
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
            Body::Correction { .. } => Kind::Correction,
            Body::Plain(payload) | Body::Ordered { payload, .. } => payload.kind(),
            Body::Ack { .. } => Kind::Ack,
            Body::Census { .. } => Kind::Census,
            Body::CensusReply { .. } => Kind::CensusReply,
            Body::Access { .. } => Kind::Access,
            Body::AccessReply { .. } => Kind::AccessReply,
            Body::Alive => Kind::Alive,
            Body::Telemetry(_) => Kind::Telemetry,
            Body::TelemetryAck { .. } => Kind::TelemetryAck,
            Body::Command { .. } => Kind::Command,
            Body::CommandAck { .. } => Kind::CommandAck,
        }
    }

    /// The algorithm's message, whichever channel carries it.
    #[must_use]
    pub fn payload(&self) -> Option<&Payload> {
        if let Body::Plain(payload) | Body::Ordered { payload, .. } = self { Some(payload) } else { None }
    }

    /// Between a node and the host, in either direction: not part of the experiment.
    #[must_use]
    pub fn is_host_traffic(&self) -> bool {
        matches!(self.kind(), Kind::Telemetry | Kind::TelemetryAck | Kind::Command | Kind::CommandAck)
    }
}
