//! A scenario, read and checked.

use crate::{node::mix, step::Step};
use compasso_wire::{
    Duration,
    config::{
        Adjustment, Cache, ClockChoice, Commit, DeadlockStrategy, DetectorChoice, ElectionChoice, Locks, MutexChoice,
        SnapshotMethod, TimeSource, Timing, Workload,
    },
};
use std::ops::Range;

/// No crystal of a scenario is farther from nominal, in parts per million.
pub(crate) const NODE_PPM_MAX: f64 = 1000.0;

/// One experiment.
#[derive(Clone, PartialEq, Debug)]
pub struct Scenario {
    /// Its name, fit for a folder.
    pub name: String,
    /// The nodes in ring order.
    pub ids: Vec<u16>,
    /// What all chance derives from.
    pub seed: u64,
    /// How long it lasts in true time.
    pub duration: Duration,
    /// False: the bare textbook rules.
    pub hardening: bool,
    /// The clocks.
    pub clock: Clock,
    /// The election.
    pub election: Election,
    /// The mutual exclusion.
    pub mutex: Mutex,
    /// Locks on several resources; nothing without a `[deadlock]` section.
    pub locks: Option<Locks>,
    /// The cache; nothing without a `[cache]` section.
    pub cache: Option<Cache>,
    /// The atomic commit; nothing without a `[commit]` section.
    pub commit: Option<Commit>,
    /// How snapshots are taken.
    pub snapshots: SnapshotMethod,
    /// What things are called.
    pub names: Names,
    /// The emulated network.
    pub network: Network,
    /// Time-outs and periods, `[mutex] token_rest` among them.
    pub timing: Timing,
    /// What is done, in order of time.
    pub steps: Vec<Step>,
    /// What must have come true at the end.
    pub expect: Expect,
    pub(crate) origin: Origin,
}

/// Where a scenario comes from: what is needed to write it down again, or for another seed.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Origin {
    pub(crate) text: String,
    pub(crate) seed_at: Option<Range<usize>>,
    pub(crate) uniform_ppm: Option<f64>,
}

/// The clocks of a scenario.
#[derive(Clone, PartialEq, Debug)]
pub struct Clock {
    /// How they are kept together.
    pub sync: ClockChoice,
    /// How each crystal is off, in parts per million, in ring order.
    pub skew_ppm: Vec<f64>,
    /// Who has the time.
    pub source: TimeSource,
    /// How many hosts have it, where hosts do.
    pub hosts: u8,
    /// How a clock that is wrong is made right.
    pub adjustment: Adjustment,
}

/// What things are called in steps and trace; on the wire they are numbers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Names {
    /// The nodes in ring order.
    pub ids: Vec<u16>,
    /// The resources: those of the mutual exclusion, then those that are locked.
    pub resources: Vec<String>,
    /// The labels of the steps.
    pub labels: Vec<String>,
    /// The files that are saved and built.
    pub files: Vec<String>,
}

/// The election of a scenario.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Election {
    /// How the coordinator is found.
    pub algorithm: ElectionChoice,
    /// Who notices deaths.
    pub detector: DetectorChoice,
}

/// The mutual exclusion of a scenario.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mutex {
    /// How nodes take turns.
    pub algorithm: MutexChoice,
    /// Requests that every node makes by itself.
    pub workload: Option<Workload>,
    /// How many resources nodes take turns with.
    pub resources: u8,
}

/// The emulated network.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Network {
    /// Shortest delay of a datagram.
    pub delay_min: Duration,
    /// Longest delay of a datagram.
    pub delay_max: Duration,
    /// Share of datagrams that are lost.
    pub loss: f64,
    /// Share of datagrams that arrive twice.
    pub duplicate: f64,
    /// Share of datagrams that others overtake.
    pub reorder: f64,
}

impl Default for Network {
    fn default() -> Network {
        Network { delay_min: Duration(200), delay_max: Duration(2_000), loss: 0.0, duplicate: 0.0, reorder: 0.0 }
    }
}

/// What must have come true at the end; whatever is left out is not asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Expect {
    /// Whom all live nodes name.
    pub leader: Option<u16>,
    /// At least so many entries into the critical section, all nodes together.
    pub entries_min: Option<u64>,
    /// At least so many entries of each node.
    pub entries_each_min: Option<u64>,
    /// At least so many terms that somebody led.
    pub terms_min: Option<u64>,
    /// At least so many regenerated tokens.
    pub regenerated_min: Option<u64>,
    /// At least so many transactions that held all they wanted and gave it back.
    pub transactions_min: Option<u64>,
    /// At least so many deadlocks that were found.
    pub deadlocks_min: Option<u64>,
    /// At least so many snapshots that were completed.
    pub snapshots_min: Option<u64>,
    /// At least so many reads of the cached value.
    pub reads_min: Option<u64>,
    /// At least so many writes of it that were acknowledged.
    pub writes_min: Option<u64>,
    /// At least so many transactions that were committed.
    pub commits_min: Option<u64>,
    /// At least so many transactions that were aborted.
    pub aborts_min: Option<u64>,
    /// At least so many objects that were built anew, by the stamps that decide.
    pub rebuilds_min: Option<u64>,
    /// So many receives whose send lies in a counted gap of the telemetry.
    pub gaps: Option<u64>,
    /// So many violations.
    pub violations: Option<u64>,
}

impl Scenario {
    /// The same experiment with another seed: whatever the seed decides is decided anew.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Scenario {
        self.seed = seed;
        if let Some(ppm) = self.origin.uniform_ppm {
            self.clock.skew_ppm = self.ids.iter().map(|id| uniform_ppm(seed, *id, ppm)).collect();
        }
        self
    }

    /// The scenario as performed: the file as it was written, with the seed that was used.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let text = &self.origin.text;
        match &self.origin.seed_at {
            Some(at) => format!("{}{}{}", &text[..at.start], self.seed, &text[at.end..]),
            None => format!("seed = {}\n{text}", self.seed),
        }
    }

    /// When the stage stops the workload: early enough for what was requested to be served.
    #[must_use]
    pub fn stop_requests_at(&self) -> Duration {
        Duration(self.duration.0 - (self.duration.0 / 5).min(2_000_000))
    }

    /// How many nodes make a majority.
    #[must_use]
    pub fn majority(&self) -> usize {
        self.ids.len() / 2 + 1
    }
}

/// A crystal's rate, drawn evenly from −`ppm` to +`ppm` in steps of 0.001.
pub(crate) fn uniform_ppm(seed: u64, id: u16, ppm: f64) -> f64 {
    let fraction = (mix(&[seed, u64::from(id), 1]) >> 11) as f64 / (1_u64 << 53) as f64;
    ((2.0 * fraction - 1.0) * ppm * 1000.0).round() / 1000.0
}

/// The algorithm's name in scenario, trace and summary.
#[must_use]
pub fn clock_name(choice: ClockChoice) -> &'static str {
    match choice {
        ClockChoice::None => "none",
        ClockChoice::Cristian => "cristian",
        ClockChoice::Berkeley => "berkeley",
        ClockChoice::Disciplined => "disciplined",
    }
}

/// The strategy's name in scenario, trace and summary.
#[must_use]
pub fn strategy_name(strategy: DeadlockStrategy) -> &'static str {
    match strategy {
        DeadlockStrategy::Ignore => "ignore",
        DeadlockStrategy::Detect => "detect",
        DeadlockStrategy::PreventOrder => "prevent-order",
        DeadlockStrategy::WaitDie => "wait-die",
        DeadlockStrategy::WoundWait => "wound-wait",
        DeadlockStrategy::Avoid => "avoid",
    }
}

/// The algorithm's name in scenario, trace and summary.
#[must_use]
pub fn election_name(choice: ElectionChoice) -> &'static str {
    match choice {
        ElectionChoice::None => "none",
        ElectionChoice::Bully => "bully",
        ElectionChoice::Ring => "ring",
        ElectionChoice::ChangRoberts => "chang-roberts",
        ElectionChoice::HirschbergSinclair => "hirschberg-sinclair",
        ElectionChoice::Detector => "detector",
    }
}

/// The detector's name in scenario and trace.
#[must_use]
pub fn detector_name(choice: DetectorChoice) -> &'static str {
    match choice {
        DetectorChoice::Perfect => "perfect",
        DetectorChoice::EventuallyPerfect => "eventually-perfect",
        DetectorChoice::Scripted => "scripted",
    }
}

/// The algorithm's name in scenario, trace and summary.
#[must_use]
pub fn mutex_name(choice: &MutexChoice) -> &'static str {
    match choice {
        MutexChoice::None => "none",
        MutexChoice::Central => "central",
        MutexChoice::Voting { .. } => "voting",
        MutexChoice::Lamport => "lamport",
        MutexChoice::RicartAgrawala { .. } => "ricart-agrawala",
        MutexChoice::TokenRing => "token-ring",
        MutexChoice::SuzukiKasami => "suzuki-kasami",
        MutexChoice::MaekawaPlain { .. } => "maekawa-plain",
        MutexChoice::Maekawa { .. } => "maekawa",
    }
}
