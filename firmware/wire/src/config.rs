//! A node's configuration page: everything that makes one image this particular node.

use crate::{
    auth::Key,
    cache::Cached,
    commit::CommitMemory,
    ids::{NodeId, NodeSet, Term},
    limits::MEMBERS_MAX,
    time::Duration,
};
use heapless::Vec;
use serde::{Deserialize, Serialize};

/// What a node must remember over a restart. Stored before anything that depends on it is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Stored {
    /// The highest term promised.
    pub term: Term,
    /// The highest epoch of a view accepted.
    pub epoch: u32,
    /// The newest version of the cached value that a server had kept here.
    pub cache: Cached,
    /// What was promised and learned of transactions.
    pub commit: CommitMemory,
}

/// How the cluster clock is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ClockChoice {
    /// Not at all.
    None,
    /// Cristian's algorithm, with the coordinator as time server.
    Cristian,
    /// Berkeley's: the coordinator averages everybody's clocks and sends each its correction.
    Berkeley,
    /// Four stamps an exchange and a model of the crystal, with the coordinator as reference.
    Disciplined,
}

/// A Berkeley coordinator moves its own clock towards the average no faster than this, once others have
/// set theirs by it: its clock is what their intervals hold.
pub const BERKELEY_PULL_PPM: u32 = 1000;

/// A coordinator that learnt its rate from another one goes on by it: what that may be wrong by, over many
/// successions, comes on top of its crystal.
pub const HANDED_OVER_PPM: u32 = 10;

impl ClockChoice {
    /// How fast a clock and its reference may come apart: both crystals are off by as much as declared,
    /// in opposite directions, and the reference may be moving on purpose.
    #[must_use]
    pub const fn bound_ppm(self, drift_ppm: u32) -> u32 {
        let crystals = drift_ppm.saturating_mul(2);
        match self {
            ClockChoice::None | ClockChoice::Cristian => crystals,
            ClockChoice::Berkeley => crystals.saturating_add(BERKELEY_PULL_PPM),
            ClockChoice::Disciplined => crystals.saturating_add(2 * HANDED_OVER_PPM),
        }
    }

    /// The same whatever crystals do within what is declared. A disciplined coordinator adds a learnt rate to its
    /// crystal's, at most what two crystals part by, and its crystal may have leapt to the other end since.
    #[must_use]
    pub const fn certain_ppm(self, drift_ppm: u32, source: TimeSource) -> u32 {
        let bound_ppm = self.bound_ppm(drift_ppm);
        match (self, source) {
            (ClockChoice::Disciplined, TimeSource::Coordinator) => bound_ppm.saturating_mul(2),
            (ClockChoice::Disciplined, TimeSource::Host) => bound_ppm,
            (ClockChoice::None | ClockChoice::Cristian | ClockChoice::Berkeley, _) => bound_ppm,
        }
    }
}

/// Who has the time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum TimeSource {
    /// The coordinator, whatever its clock shows.
    Coordinator,
    /// The host, which has true time; the coordinator asks it, and the other hosts where there are more.
    Host,
}

/// How a clock that is wrong is made right.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Adjustment {
    /// By running faster or slower for a while: it never runs backwards.
    Slew,
    /// At once, also backwards: breaks whoever compares two readings.
    Step,
}

/// What is done about deadlocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum DeadlockStrategy {
    /// Nothing.
    Ignore,
    /// Probes find them, and a victim gives back.
    Detect,
    /// Resources are taken in one global order.
    PreventOrder,
    /// An older one waits for a younger, a younger gives up.
    WaitDie,
    /// An older one makes a younger give up, a younger waits.
    WoundWait,
    /// Nothing is granted that could lead to one.
    Avoid,
}

/// Locks on several named resources.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Locks {
    /// What is done about deadlocks.
    pub strategy: DeadlockStrategy,
    /// How many resources there are; their ids follow those of the mutual exclusion.
    pub count: u8,
    /// Transactions that the node makes by itself.
    pub workload: Option<LockWorkload>,
}

/// Transactions that a node makes by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LockWorkload {
    /// Mean time from one transaction to the next.
    pub every: Duration,
    /// Time from one resource to the next, and with all of them.
    pub hold: Duration,
    /// How many resources one transaction takes.
    pub several: u8,
}

/// Copies that are valid until a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Cache {
    /// How long a copy is valid.
    pub lease: Duration,
    /// A writer asks readers to give up their copies, instead of only waiting.
    pub invalidate: bool,
    /// Mean time between two reads of a node that reads by itself.
    pub read_every: Option<Duration>,
    /// Mean time between two writes of a node that writes by itself.
    pub write_every: Option<Duration>,
}

/// Transactions that happen everywhere or nowhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Commit {
    /// Mean time between two transactions that a coordinator begins by itself.
    pub every: Option<Duration>,
    /// Of so many votes one is no; 0: never.
    pub refuse_one_in: u16,
}

/// How a snapshot is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum SnapshotMethod {
    /// By Chandy and Lamport's markers.
    Markers,
    /// By everybody on its own: what comes out never was.
    Unsynchronized,
}

/// How the coordinator is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ElectionChoice {
    /// The highest id, for good.
    None,
    /// Bully.
    Bully,
    /// Ring with a list.
    Ring,
    /// Chang-Roberts.
    ChangRoberts,
    /// Hirschberg-Sinclair.
    HirschbergSinclair,
    /// The highest of those that the failure detector trusts.
    Detector,
}

/// Who notices deaths.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum DetectorChoice {
    /// No answer within `T` means death: only where delays are bounded and nothing is lost.
    Perfect,
    /// Heartbeats with time-outs that learn.
    EventuallyPerfect,
    /// Only commands: nobody suspects anybody, everyone boots trusting the highest id.
    Scripted,
}

/// How nodes take turns.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum MutexChoice {
    /// They do not.
    None,
    /// One server, the coordinator.
    Central,
    /// Decentralised voting.
    Voting {
        /// How many of the members, from the first on, have a vote.
        replicas: u16,
    },
    /// Lamport 1978.
    Lamport,
    /// Ricart-Agrawala.
    RicartAgrawala {
        /// By node id instead of time: breaks it.
        by_priority: bool,
        /// Whoever defers its OK says so at once, so that silence means death.
        answers_deferred: bool,
    },
    /// A token on a ring.
    TokenRing,
    /// A token with sequence numbers.
    SuzukiKasami,
    /// Maekawa's voting sets, without care for deadlock.
    MaekawaPlain {
        /// Instead of the grid: each node's set, by position.
        sets: Option<Vec<NodeSet, MEMBERS_MAX>>,
    },
    /// Maekawa's voting sets, deadlock free.
    Maekawa {
        /// Instead of the grid: each node's set, by position.
        sets: Option<Vec<NodeSet, MEMBERS_MAX>>,
    },
}

/// Requests that a node makes by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Workload {
    /// Mean time from one release to the next request.
    pub every: Duration,
    /// Time inside.
    pub hold: Duration,
}

/// Time-outs and periods, in hardware time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Timing {
    /// First guess of the longest one-way delay; the detector learns from there.
    pub trans: Duration,
    /// Longest handling of a message.
    pub process: Duration,
    /// Period of the leader's heartbeats.
    pub heartbeat: Duration,
    /// First guess of the silence after which a node is suspected.
    pub suspect_after: Duration,
    /// How long a grant lasts without renewal.
    pub lease: Duration,
    /// No crystal is farther from nominal than this.
    pub drift_ppm: u32,
    /// Period of clock exchanges.
    pub sync_every: Duration,
    /// An idle token rests so long on each hop.
    pub token_rest: Duration,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing {
            trans: Duration::from_millis(40),
            process: Duration::from_millis(10),
            heartbeat: Duration::from_millis(100),
            suspect_after: Duration::from_millis(600),
            lease: Duration::from_millis(1000),
            drift_ppm: 200,
            sync_every: Duration::from_millis(500),
            token_rest: Duration::from_millis(20),
        }
    }
}

/// Everything that makes one image this particular node.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NodeConfig {
    /// Which cluster.
    pub cluster: u32,
    /// Its secret.
    pub key: Key,
    /// Who this is.
    pub me: NodeId,
    /// Which of its lives begins, from 1: stored before the first datagram.
    pub incarnation: u32,
    /// What it promised in earlier lives.
    pub stored: Stored,
    /// Everybody, in ring order, this node included.
    pub members: Vec<NodeId, MEMBERS_MAX>,
    /// False: the bare textbook rules.
    pub hardening: bool,
    /// How the cluster clock is kept.
    pub clock: ClockChoice,
    /// Who has the time.
    pub time_source: TimeSource,
    /// How many hosts have it, where hosts do: from 1 to `HOSTS_MAX`.
    pub hosts: u8,
    /// How a clock that is wrong is made right.
    pub adjustment: Adjustment,
    /// How the coordinator is found.
    pub election: ElectionChoice,
    /// Who notices deaths.
    pub detector: DetectorChoice,
    /// How nodes take turns.
    pub mutex: MutexChoice,
    /// How many resources there are for which they do.
    pub resources: u8,
    /// Locks on several resources.
    pub locks: Option<Locks>,
    /// The cache.
    pub cache: Option<Cache>,
    /// The atomic commit.
    pub commit: Option<Commit>,
    /// How a snapshot is taken.
    pub snapshots: SnapshotMethod,
    /// Requests that the node makes by itself.
    pub workload: Option<Workload>,
    /// Time-outs and periods.
    pub timing: Timing,
    /// What the unsynchronized clock shows at boot, in microseconds.
    pub wrong_clock_us: i64,
    /// How the emulated crystal is bent at boot, in parts per billion.
    pub rate_ppb: i32,
    /// For choices that only must differ between nodes, such as the phase of the workload.
    pub seed: u32,
}

impl NodeConfig {
    /// A hardened node in its first life that runs no algorithm yet. Members beyond the capacity are
    /// left out.
    #[must_use]
    pub fn new(cluster: u32, key: Key, me: NodeId, members: impl IntoIterator<Item = NodeId>) -> NodeConfig {
        NodeConfig {
            cluster,
            key,
            me,
            incarnation: 1,
            stored: Stored::default(),
            members: members.into_iter().take(MEMBERS_MAX).collect(),
            hardening: true,
            clock: ClockChoice::None,
            time_source: TimeSource::Coordinator,
            hosts: 1,
            adjustment: Adjustment::Slew,
            election: ElectionChoice::None,
            detector: DetectorChoice::EventuallyPerfect,
            mutex: MutexChoice::None,
            resources: 1,
            locks: None,
            cache: None,
            commit: None,
            snapshots: SnapshotMethod::Markers,
            workload: None,
            timing: Timing::default(),
            wrong_clock_us: 0,
            rate_ppb: 0,
            seed: 1,
        }
    }
}
