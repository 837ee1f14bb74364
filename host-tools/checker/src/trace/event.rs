//! One event of a trace.

use super::vector::{Stamp, Vector};
use compasso_scenario::hosts::Lie;
use compasso_wire::NodeId;
use serde_json::{Map, Value};
use std::{borrow::Cow, fmt};

/// Text that is mostly known beforehand.
pub type Text = Cow<'static, str>;

/// What the resource is called where nothing else is said.
pub const DEFAULT_RESOURCE: &str = "cs";

/// The source of a `sync` with the host: never a node's id.
pub const HOST: u16 = NodeId::HOST.0;

/// Whether a source of time is one of the hosts.
#[must_use]
pub fn is_host(source: u16) -> bool {
    NodeId(source).host_number().is_some()
}

/// What a host is called in the trace: `host`, and `host-1`, `host-2` beside it.
#[must_use]
pub fn host_name(number: usize) -> String {
    if number == 0 { "host".to_owned() } else { format!("host-{number}") }
}

/// Where an event comes from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum NodeRef {
    /// A node.
    Node(u16),
    /// Whoever performs the run.
    Stage,
}

/// One line of the trace.
#[derive(Clone, PartialEq, Debug)]
pub struct TraceEvent {
    /// Whose event it is.
    pub node: NodeRef,
    /// The how-manieth event of this incarnation, from 1.
    pub seq: u64,
    /// The boot incarnation, from 1.
    pub inc: u32,
    /// Lamport time.
    pub lamport: Option<u64>,
    /// Vector time.
    pub vector: Option<Vector>,
    /// The node's hardware clock.
    pub hw_us: Option<i64>,
    /// The node's cluster clock, once it has one.
    pub cluster_us: Option<i64>,
    /// True time since the start of the run, where the stage knows it.
    pub true_us: Option<i64>,
    /// What happened.
    pub event: Event,
}

/// What a stage did to the cluster.
#[derive(Clone, PartialEq, Debug)]
pub enum Fault {
    /// A node was killed.
    Crash(u16),
    /// A killed node was booted again.
    Restart(u16),
    /// A node was stopped.
    Pause(u16),
    /// A stopped node was let go on.
    Resume(u16),
    /// The network was split into these sides.
    Partition(Vec<Vec<u16>>),
    /// The network was made whole.
    Heal,
    /// The token was ordered to be lost.
    DropToken,
    /// A leap second was announced.
    Leap(i64),
    /// A host serves true time from here on, or does so no more.
    TimeServer {
        /// Which; all if none is named.
        host: Option<u8>,
        /// It does.
        serves: bool,
    },
    /// A host tells another time than the true one from here on.
    Lie {
        /// Which.
        host: u8,
        /// How.
        lie: Lie,
    },
    /// A crystal was bent.
    SetSkew {
        /// Whose.
        node: u16,
        /// Parts per million from nominal.
        ppm: f64,
    },
    /// One that this version does not know.
    Other(Map<String, Value>),
}

/// What a disciplined clock claims of its reference from a `sync` on, against its hardware clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Course {
    /// How much faster the reference runs than this crystal, as estimated, in parts per billion.
    pub rate_ppb: i64,
    /// The reference may be behind what is shown by so much,
    pub behind_us: i64,
    /// or ahead.
    pub ahead_us: i64,
    /// The earlier end of the interval moves at least so fast,
    pub slow_ppb: i64,
    /// the later one at most.
    pub fast_ppb: i64,
    /// The clock has found its rate.
    pub locked: bool,
    /// Where the interval reaches at least in case the rate has leapt.
    pub brace: Option<Brace>,
    /// The interval that assumes nothing but the declared drift.
    pub certain: Option<Certain>,
}

/// Where a narrow interval reaches at least.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Brace {
    /// From here behind what is shown,
    pub behind_us: i64,
    /// to here ahead of it.
    pub ahead_us: i64,
    /// These ends move by so much faster: a leap of the rate that is borne.
    pub leap_ppb: i64,
}

/// What is claimed for certain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Certain {
    /// The reference is behind what is shown by no more than this,
    pub behind_us: i64,
    /// ahead by no more,
    pub ahead_us: i64,
    /// and parts from the hardware clock no faster.
    pub ppb: i64,
}

/// What happened.
#[derive(Clone, PartialEq, Debug)]
#[expect(missing_docs, reason = "the fields carry the names of the trace's format")]
pub enum Event {
    /// A life began.
    Boot { incarnation: u32 },
    /// A datagram left; `again` if it repeats one.
    Send { to: u16, kind: Text, id: u64, again: bool },
    /// A datagram was accepted, sent in the sender's life `from_inc`.
    Recv { from: u16, kind: Text, id: u64, from_inc: u32 },
    /// A datagram was refused.
    Drop { from: Option<u16>, reason: Text },
    /// The application asks for a resource.
    Request { resource: Text },
    /// The node is inside; the lease left is in hardware microseconds.
    CsEnter { resource: Text, fence: u64, lease_us: Option<u64> },
    /// The lease of a node inside was renewed.
    CsRenew { resource: Text, fence: u64, lease_us: u64 },
    /// The node is outside again.
    CsExit { resource: Text, fence: u64 },
    /// An access with this fence was refused.
    Fenced { resource: Text, fence: u64 },
    /// The node calls an election.
    ElectionStart { term: u64 },
    /// The node names its leader.
    Leader { id: u16, term: u64 },
    /// A view came into force.
    View { term: u64, number: u64, epoch: Option<u64>, members: Vec<u16> },
    /// Somebody is suspected.
    Suspect { id: u16 },
    /// A suspicion is taken back.
    Trust { id: u16 },
    /// The clock was compared with its source and corrected; the bound holds right after it.
    Sync {
        offset_us: i64,
        rtt_us: u64,
        error_us: u64,
        bound_us: Option<u64>,
        source: Option<u16>,
        course: Option<Course>,
    },
    /// The token arrived or was made here.
    Token { resource: Text, epoch: u64, serial: u64 },
    /// A token was made in place of a lost one.
    TokenRegenerated { resource: Text, epoch: u64 },
    /// The token was thrown away on command.
    TokenDropped { resource: Text, epoch: u64 },
    /// The node waits for these to give something back.
    Wait { on: Vec<u16>, resource: Option<Text> },
    /// The node wants the resource no more, without having got it.
    Withdraw { resource: Text },
    /// A deadlock was found.
    Deadlock { cycle: Vec<u16>, victim: Option<u16> },
    /// The node's transaction gives everything back and will try again.
    Abandon { reason: Text },
    /// The node's part of a snapshot.
    Snapshot { id: u64, leader: Option<u16>, epoch: u64, tokens: Vec<Text>, holds: Vec<Text>, wants: Vec<Text> },
    /// A message that was on its way when the snapshot was taken; resource and epoch if it is a token.
    SnapshotMessage { id: u64, from: u16, kind: Text, token: Option<(Text, u64)> },
    /// The node has its whole part of the snapshot.
    SnapshotDone { id: u64 },
    /// The snapshot is void.
    SnapshotAborted { id: u64 },
    /// A step's label.
    Label { text: Text },
    /// A whole second of UTC was reached.
    Utc { seconds: i64, leap: bool },
    /// How warm the board is.
    Temperature { milli_celsius: i64 },
    /// The cached value was read.
    Read { version: u64, cached: bool },
    /// A write has begun.
    Writing { version: u64 },
    /// A write is acknowledged.
    Written { version: u64, expired: bool },
    /// A transaction begins.
    Transaction { transaction: u64, participants: Vec<u16> },
    /// The node voted.
    Voted { transaction: u64, yes: bool },
    /// The transaction has ended here.
    Decided { transaction: u64, commit: bool },
    /// A queue was full; so often any was so far.
    Overflow { queue: Text, count: u64 },
    /// A request for a Lamport time that has passed was not made.
    RequestRefused { resource: Text, wanted: u64 },
    /// A source was saved.
    Edited { file: Text },
    /// The node looked whether its object is older than its source, and whether it built it anew by each kind of stamp.
    Built { file: Text, source: u16, source_inc: u32, edit: u64, raw: bool, synchronized: Option<bool>, logical: bool },
    /// A source of time is outside of what most sources agree on, or is so no more.
    Falseticker { source: u16, lies: bool },
    /// From the stage: what is performed.
    Scenario(Map<String, Value>),
    /// From the stage: what it did.
    Fault(Fault),
    /// From the stage: events of a node that never reached the collector.
    Gap { of: u16, inc: u32, missed: u64 },
    /// From the stage: the run ended as planned.
    End,
    /// One that this version does not know; kept as it is.
    Other { name: String, fields: Map<String, Value> },
}

impl TraceEvent {
    /// An event of the stage.
    #[must_use]
    pub fn stage(seq: u64, true_us: Option<i64>, event: Event) -> TraceEvent {
        TraceEvent {
            node: NodeRef::Stage,
            seq,
            inc: 1,
            lamport: None,
            vector: None,
            hw_us: None,
            cluster_us: None,
            true_us,
            event,
        }
    }

    /// The node it belongs to, unless it is the stage's.
    #[must_use]
    pub fn node_id(&self) -> Option<u16> {
        match self.node {
            NodeRef::Node(id) => Some(id),
            NodeRef::Stage => None,
        }
    }

    /// Its place in its node's history.
    #[must_use]
    pub fn stamp(&self) -> Stamp {
        (self.inc, self.seq)
    }

    /// When it happened, on the best clock the trace has for it.
    #[must_use]
    pub fn at_us(&self) -> i64 {
        self.true_us.or(self.cluster_us).or(self.hw_us).unwrap_or(0)
    }

    /// Its name: `node:seq`, or `node:inc.seq` after a restart.
    #[must_use]
    pub fn name(&self) -> String {
        if self.inc == 1 {
            format!("{}:{}", self.node, self.seq)
        } else {
            format!("{}:{}.{}", self.node, self.inc, self.seq)
        }
    }
}

impl fmt::Display for NodeRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeRef::Node(id) => id.fmt(f),
            NodeRef::Stage => f.write_str("stage"),
        }
    }
}

impl Event {
    /// The event's name in the trace.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Event::Boot { .. } => "boot",
            Event::Send { .. } => "send",
            Event::Recv { .. } => "recv",
            Event::Drop { .. } => "drop",
            Event::Request { .. } => "request",
            Event::CsEnter { .. } => "cs_enter",
            Event::CsRenew { .. } => "cs_renew",
            Event::CsExit { .. } => "cs_exit",
            Event::Fenced { .. } => "fenced",
            Event::ElectionStart { .. } => "election_start",
            Event::Leader { .. } => "leader",
            Event::View { .. } => "view",
            Event::Suspect { .. } => "suspect",
            Event::Trust { .. } => "trust",
            Event::Sync { .. } => "sync",
            Event::Token { .. } => "token",
            Event::TokenRegenerated { .. } => "token_regenerated",
            Event::TokenDropped { .. } => "token_dropped",
            Event::Wait { .. } => "wait",
            Event::Withdraw { .. } => "withdraw",
            Event::Deadlock { .. } => "deadlock",
            Event::Abandon { .. } => "abandon",
            Event::Snapshot { .. } => "snapshot",
            Event::SnapshotMessage { .. } => "snapshot_message",
            Event::SnapshotDone { .. } => "snapshot_done",
            Event::SnapshotAborted { .. } => "snapshot_aborted",
            Event::Label { .. } => "label",
            Event::Utc { .. } => "utc",
            Event::Temperature { .. } => "temperature",
            Event::Edited { .. } => "edited",
            Event::Built { .. } => "built",
            Event::Read { .. } => "read",
            Event::Writing { .. } => "writing",
            Event::Written { .. } => "written",
            Event::Transaction { .. } => "transaction",
            Event::Voted { .. } => "voted",
            Event::Decided { .. } => "decided",
            Event::Overflow { .. } => "overflow",
            Event::RequestRefused { .. } => "request_refused",
            Event::Falseticker { .. } => "falseticker",
            Event::Scenario(_) => "scenario",
            Event::Fault(_) => "fault",
            Event::Gap { .. } => "gap",
            Event::End => "end",
            Event::Other { name, .. } => name,
        }
    }
}
