//! The summary's fields, in the order in which they are written.

use super::{
    leadership::Led,
    stats::{MedianMax, RoundTrip, Stats},
};
use crate::{
    findings::{NotChecked, Violation},
    snapshot::Snapshot,
};
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Everything that is told about a run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Summary {
    /// The scenario's name.
    pub scenario: String,
    /// Where it was performed.
    pub stage: String,
    /// The seed used.
    pub seed: u64,
    /// How many nodes took part.
    pub nodes: usize,
    /// How many events the trace has.
    pub events: usize,
    /// How long it took, in true time.
    pub duration_us: i64,
    /// Every promise was kept and every expectation met.
    pub held: bool,
    /// Promises not kept; of each property the first ones.
    pub violations: Vec<Violation>,
    /// Further violations, counted by property.
    pub untold: BTreeMap<String, u64>,
    /// What the scenario expected.
    pub expectations: Vec<Expectation>,
    /// The election; nothing if the scenario has none.
    pub election: Option<ElectionSection>,
    /// Mutual exclusion; nothing if the scenario has none.
    pub mutex: Option<MutexSection>,
    /// The clocks; nothing if they are not synchronized.
    pub clock: Option<ClockSection>,
    /// Locks and deadlocks; nothing if the scenario has no `[deadlock]` section.
    pub deadlock: Option<DeadlockSection>,
    /// The snapshots that were taken; left out if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub snapshots: Vec<Snapshot>,
    /// The cache; nothing if the scenario has none.
    pub cache: Option<CacheSection>,
    /// The atomic commit; nothing if the scenario has none.
    pub commit: Option<CommitSection>,
    /// Saving and building files; nothing where nobody does.
    pub make: Option<MakeSection>,
    /// The network.
    pub network: NetworkSection,
    /// What the stage did.
    pub faults: Vec<Injected>,
    /// Properties of which at least one case was decided.
    pub checked: Vec<String>,
    /// What was not decided, and why.
    pub not_checked: Vec<NotChecked>,
    /// The one command that repeats this run.
    pub repeat: String,
}

/// One line of `[expect]`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Expectation {
    /// The field.
    pub name: String,
    /// What the scenario asks.
    pub wanted: Value,
    /// What came.
    pub got: Value,
    /// It was met.
    pub ok: bool,
}

/// Something the stage did.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Injected {
    /// When.
    pub at_us: i64,
    /// What, as in the trace.
    #[serde(flatten)]
    pub what: Map<String, Value>,
}

/// The election.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ElectionSection {
    /// Its algorithm.
    pub algorithm: String,
    /// Whom the majority names at the end.
    pub leader: Option<u16>,
    /// All live nodes of the majority's side name that one.
    pub agreed: bool,
    /// Its term.
    pub term: Option<u64>,
    /// Terms that a majority followed.
    pub elections: u64,
    /// Textbook messages, first transmissions.
    pub messages: BTreeMap<String, u64>,
    /// Repeats of those.
    pub retransmissions: u64,
    /// Messages that only hardening adds.
    pub hardening_messages: BTreeMap<String, u64>,
    /// From a leader's crash, or the first call, until all of the majority's side agree.
    pub convergence_us: Option<MedianMax>,
    /// Who led when.
    pub leaders: Vec<Led>,
}

/// Mutual exclusion.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct MutexSection {
    /// Its algorithm.
    pub algorithm: String,
    /// Visits.
    pub entries: u64,
    /// Visits of each node.
    pub by_node: BTreeMap<u16, u64>,
    /// Requests made.
    pub requests: u64,
    /// Requests that starved: others went in more than twice as often as there are others while they waited in
    /// quiet times, or they were never granted although there was time. Counted whether or not it is promised.
    pub starved: u64,
    /// Textbook messages, first transmissions.
    pub messages: BTreeMap<String, u64>,
    /// Those, for each visit.
    pub messages_per_entry: Option<f64>,
    /// From request to entry.
    pub client_delay_us: Option<Stats>,
    /// From an exit to the next entry, where somebody was waiting.
    pub sync_delay_us: Option<Stats>,
    /// Repeats of textbook messages.
    pub retransmissions: u64,
    /// Messages that only hardening adds, the acknowledgements of all of them included.
    pub hardening_messages: BTreeMap<String, u64>,
    /// Tokens made in place of lost ones.
    pub regenerated: u64,
    /// Accesses refused for a stale fence.
    pub fenced: u64,
}

/// Locks and deadlocks.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct DeadlockSection {
    /// What is done about deadlocks.
    pub strategy: String,
    /// The deadlocks that were reported, each once.
    pub found: Vec<Found>,
    /// Circles that closed in the true wait-for graph.
    pub closed: u64,
    /// Those that still stood at the end.
    pub standing: u64,
    /// Transactions that held all they wanted and gave it back.
    pub transactions: u64,
    /// Those of each node.
    pub by_node: BTreeMap<u16, u64>,
    /// How often a transaction gave everything back and tried again, by reason.
    pub abandons: BTreeMap<String, u64>,
    /// Requests made.
    pub requests: u64,
    /// Requests that had to wait for somebody.
    pub waits: u64,
    /// From a request to its grant.
    pub wait_us: Option<Stats>,
    /// The same, on average.
    pub wait_mean_us: Option<f64>,
    /// Messages about locks, first transmissions.
    pub messages: BTreeMap<String, u64>,
    /// Those, for each transaction.
    pub messages_per_transaction: Option<f64>,
    /// Repeats of those.
    pub retransmissions: u64,
}

/// A deadlock that was reported.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Found {
    /// Who waited in a circle.
    pub cycle: Vec<u16>,
    /// Who has to give back.
    pub victim: Option<u16>,
    /// Who reported it first.
    pub by: u16,
    /// When.
    pub at_us: i64,
    /// How long after the circle had closed; nothing if there was none.
    pub after_us: Option<i64>,
}

/// A crystal's rate.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Skew {
    /// What the stage set, where it can.
    #[serde(rename = "true")]
    pub real: Option<f64>,
    /// What the node estimated, if its algorithm does.
    pub estimated: Option<f64>,
}

/// The clocks.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ClockSection {
    /// The algorithm.
    pub algorithm: String,
    /// Whose time it is: `coordinator` or `host`.
    pub source: String,
    /// Distance from that time at the same true instant, after each node's first sync.
    pub error_us: Option<Stats>,
    /// The same, from `converged_us` on.
    pub after_convergence: Option<Stats>,
    /// The same, once every disciplined clock has found its rate.
    pub after_lock: Option<Stats>,
    /// The same of a clock that Cristian's algorithm would have kept by the very same exchanges, the best of each eight,
    /// where a disciplined one was kept.
    pub cristian_us: Option<Stats>,
    /// From when on all live clocks were within a median round trip for a second.
    pub converged_us: Option<i64>,
    /// Largest distance between two live nodes' clocks, over the instants of the run.
    pub spread_us: Option<Stats>,
    /// Largest distance that unsynchronized clocks would have had.
    pub raw_spread_us: i64,
    /// Round trips of the exchanges that were used.
    pub rtt_us: Option<RoundTrip>,
    /// How far they differ: the 99th percentile beyond the quickest.
    pub jitter_us: Option<i64>,
    /// Half width of the clocks' intervals; nothing where the algorithm gives none.
    pub bound_us: Option<RoundTrip>,
    /// Intervals that did not contain the reference; nothing where the algorithm gives none.
    pub bound_broken: Option<u64>,
    /// How often a cluster clock ran backwards.
    pub backward_steps: u64,
    /// How often each source of time was found outside of what most of them agree on.
    pub falsetickers: BTreeMap<String, u64>,
    /// Each crystal's rate.
    pub skew_ppm: BTreeMap<u16, Skew>,
    /// Messages of the synchronization, first transmissions.
    pub messages: BTreeMap<String, u64>,
    /// Corrections made.
    pub syncs: u64,
    /// How far true time may be off between two boards, if there is true time.
    pub tolerance_us: Option<i64>,
}

/// The cache.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CacheSection {
    /// How old copies are got rid of.
    pub algorithm: String,
    /// How long a copy is valid.
    pub lease_us: u64,
    /// Reads, all nodes together.
    pub reads: u64,
    /// Those from the reader's own copy.
    pub hits: u64,
    /// The share of those.
    pub hit_rate: Option<f64>,
    /// Writes that were acknowledged.
    pub writes: u64,
    /// From the server's beginning to its acknowledgement.
    pub write_wait_us: Option<Stats>,
    /// The fast path: all who held a copy gave it up, or nobody held one.
    pub by_answer: WriteWait,
    /// Some lease had to run out.
    pub by_expiry: WriteWait,
    /// Messages of reading and writing, first transmissions.
    pub messages: BTreeMap<String, u64>,
    /// Repeats of those.
    pub retransmissions: u64,
    /// Messages that only hardening adds.
    pub hardening_messages: BTreeMap<String, u64>,
}

/// What writes waited that went one way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct WriteWait {
    /// How many.
    pub writes: u64,
    /// From the server's beginning to its acknowledgement.
    pub wait_us: Option<RoundTrip>,
}

/// The atomic commit.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CommitSection {
    /// Its algorithm.
    pub algorithm: String,
    /// Transactions begun.
    pub transactions: u64,
    /// Those that happened everywhere.
    pub committed: u64,
    /// Those that happened nowhere.
    pub aborted: u64,
    /// Votes that were no.
    pub refusals: u64,
    /// Participants that voted yes and did not know the decision when the run ended.
    pub blocked: u64,
    /// Textbook messages, first transmissions.
    pub messages: BTreeMap<String, u64>,
    /// Those, for each transaction.
    pub messages_per_transaction: Option<f64>,
    /// From the beginning until the last participant has decided.
    pub took_us: Option<Stats>,
    /// Repeats of textbook messages.
    pub retransmissions: u64,
    /// Messages that only hardening adds.
    pub hardening_messages: BTreeMap<String, u64>,
}

/// Saving and building files.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct MakeSection {
    /// Which stamps decide: `synchronized`, or `raw` where clocks are not synchronized.
    pub decides: String,
    /// Sources saved.
    pub edits: u64,
    /// Times that somebody looked whether its object is older than its source.
    pub builds: u64,
    /// Those where the source had been saved since the object was built, or there was no object.
    pub due: u64,
    /// What each kind of stamp made of them.
    pub stamps: BTreeMap<String, StampsSection>,
}

impl MakeSection {
    /// How often an object was built by the stamps that decide.
    #[must_use]
    pub fn rebuilt(&self) -> u64 {
        self.stamps.get(&self.decides).map_or(0, |stamps| stamps.rebuilt)
    }
}

/// What one kind of stamp made of all builds.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct StampsSection {
    /// Built anew.
    pub rebuilt: u64,
    /// Not built anew, although the source had been saved since.
    pub missed: u64,
    /// Built anew, although nothing had changed.
    pub needless: u64,
    /// The events that missed it, the first ones.
    pub missed_at: Vec<String>,
}

/// What a stage's network did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NetworkStats {
    /// Datagrams between nodes that entered the network.
    pub datagrams: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Lost on purpose: by chance or by a partition.
    pub lost: u64,
    /// Delivered twice on purpose.
    pub duplicated: u64,
    /// Held back on purpose.
    pub reordered: u64,
}

/// The network.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct NetworkSection {
    /// Datagrams between nodes that entered the network.
    pub datagrams: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Lost on purpose.
    pub lost: u64,
    /// Delivered twice on purpose.
    pub duplicated: u64,
    /// Held back on purpose.
    pub reordered: u64,
    /// Refused by their receivers.
    pub refused: u64,
    /// Why.
    pub refused_by_reason: BTreeMap<String, u64>,
}
