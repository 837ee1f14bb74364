//! The summary of a run: `summary.json`, and what a person reads.

mod cache;
mod clock;
mod commit;
mod deadlock;
mod leadership;
mod make;
mod messages;
mod mutex;
mod sections;
mod stats;
mod textbook;

pub use clock::clock_errors;
pub use leadership::{Leadership, Led};
pub use sections::{
    CacheSection, ClockSection, CommitSection, DeadlockSection, ElectionSection, Expectation, Found, Injected,
    MakeSection, MutexSection, NetworkSection, NetworkStats, Skew, StampsSection, Summary, WriteWait,
};
pub use stats::{MedianMax, RoundTrip, Stats};

use crate::{
    entries::Entries,
    index::Trace,
    intervals::claims,
    properties::check_all,
    setting::{Setting, scenario_event},
    snapshot::Snapshot,
    trace::{Event, Fault, TraceEvent},
};
use compasso_scenario::{Action, Scenario, election_name};
use compasso_wire::config::{ClockChoice, ElectionChoice, MutexChoice};
use messages::Messages;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// What is known of a run besides its trace.
#[derive(Clone, PartialEq, Debug)]
pub struct RunInfo {
    /// The scenario as performed.
    pub scenario: Scenario,
    /// The stage's name: `sim`, `qemu`, ….
    pub stage: String,
    /// What the network did.
    pub network: NetworkStats,
    /// The one command that repeats this run.
    pub repeat: String,
}

impl RunInfo {
    /// A run of `scenario` on `stage`.
    #[must_use]
    pub fn new(scenario: Scenario, stage: &str, network: NetworkStats) -> RunInfo {
        let repeat =
            format!("cargo compasso run scenarios/{}.toml --on {stage} --seed {}", scenario.name, scenario.seed);
        RunInfo { scenario, stage: stage.to_owned(), network, repeat }
    }
}

/// Checks a run's trace and sums it up.
#[must_use]
pub fn judge(events: &[TraceEvent], info: &RunInfo) -> Summary {
    let scenario = &info.scenario;
    let setting = match scenario_event(scenario, &info.stage) {
        Event::Scenario(map) => Setting::from_line(&map),
        _ => Setting::unknown(),
    };
    let trace = Trace::new(events, Some(setting));
    let entries = Entries::of(&trace);
    let claims = claims(&trace);
    let findings = check_all(&trace, &entries, &claims);
    let leadership = Leadership::of(&trace);
    let messages = Messages::of(&trace);
    let mut summary = Summary {
        scenario: scenario.name.clone(),
        stage: info.stage.clone(),
        seed: scenario.seed,
        nodes: scenario.ids.len(),
        events: events.len(),
        duration_us: trace.end_us.unwrap_or(0),
        held: false,
        election: (scenario.election.algorithm != ElectionChoice::None)
            .then(|| election(scenario, &leadership, &messages)),
        mutex: (scenario.mutex.algorithm != MutexChoice::None)
            .then(|| mutex::section(scenario, &trace, &entries.of_turns(&trace), &messages)),
        clock: (scenario.clock.sync != ClockChoice::None)
            .then(|| clock::section(scenario, &trace, &leadership, &messages, &claims)),
        deadlock: scenario.locks.map(|locks| deadlock::section(scenario, &locks, &trace, &entries, &messages)),
        snapshots: Snapshot::all(&trace),
        cache: scenario.cache.as_ref().map(|options| cache::section(options, &trace, &messages)),
        commit: scenario.commit.map(|_| commit::section(&trace, &messages)),
        make: (!scenario.names.files.is_empty()).then(|| make::section(&trace)),
        network: network(info.network, &trace),
        faults: faults(&trace),
        expectations: Vec::new(),
        checked: findings.checked(),
        untold: findings.untold(),
        violations: findings.violations,
        not_checked: findings.not_checked,
        repeat: info.repeat.clone(),
    };
    summary.expectations = expectations(scenario, &summary);
    summary.expectations.extend(stamps(scenario, events));
    summary.held = summary.exit_code() == 0;
    summary
}

impl Summary {
    /// How many violations there are, told and untold.
    #[must_use]
    pub fn broken(&self) -> u64 {
        self.violations.len() as u64 + self.untold.values().sum::<u64>()
    }

    /// 0 if every promise was kept and every expectation met, else 1.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        u8::from(!self.violations.is_empty() || self.expectations.iter().any(|expectation| !expectation.ok))
    }
}

fn election(scenario: &Scenario, leadership: &Leadership, messages: &Messages) -> ElectionSection {
    ElectionSection {
        algorithm: election_name(scenario.election.algorithm).to_owned(),
        leader: leadership.leader,
        agreed: leadership.agreed,
        term: leadership.term,
        elections: leadership.terms,
        messages: messages.election(),
        retransmissions: messages.election_again(),
        hardening_messages: messages.election_hardening(),
        convergence_us: MedianMax::of(leadership.convergence_us.clone()),
        leaders: leadership.spans.clone(),
    }
}

fn network(stats: NetworkStats, trace: &Trace<'_>) -> NetworkSection {
    let mut by_reason: BTreeMap<String, u64> = BTreeMap::new();
    for event in trace.events {
        if let Event::Drop { reason, .. } = &event.event {
            *by_reason.entry(reason.to_string()).or_default() += 1;
        }
    }
    NetworkSection {
        datagrams: stats.datagrams,
        bytes: stats.bytes,
        lost: stats.lost,
        duplicated: stats.duplicated,
        reordered: stats.reordered,
        refused: by_reason.values().sum(),
        refused_by_reason: by_reason,
    }
}

fn faults(trace: &Trace<'_>) -> Vec<Injected> {
    trace.faults.iter().map(|(at_us, fault)| Injected { at_us: *at_us, what: fault_fields(fault) }).collect()
}

fn fault_fields(fault: &Fault) -> Map<String, Value> {
    let value = match fault {
        Fault::Crash(id) => json!({ "crash": id }),
        Fault::Restart(id) => json!({ "restart": id }),
        Fault::Pause(id) => json!({ "pause": id }),
        Fault::Resume(id) => json!({ "resume": id }),
        Fault::Partition(sides) => json!({ "partition": sides }),
        Fault::Heal => json!({ "heal": true }),
        Fault::DropToken => json!({ "drop_token": true }),
        Fault::SetSkew { node, ppm } => json!({ "set_skew": { "node": node, "ppm": ppm } }),
        Fault::Leap(by) => json!({ "leap": by }),
        Fault::TimeServer { host: None, serves } => json!({ "time_server": serves }),
        Fault::TimeServer { host, serves } => json!({ "time_server": { "host": host, "serves": serves } }),
        Fault::Lie { host, lie } => json!({ "lie": { "host": host, "by_us": lie.by_us, "ppm": lie.ppm } }),
        Fault::Other(map) => Value::Object(map.clone()),
    };
    value.as_object().cloned().unwrap_or_default()
}

/// Every request for which a step demands a Lamport time was made at exactly that time.
fn stamps(scenario: &Scenario, events: &[TraceEvent]) -> Vec<Expectation> {
    let demanded = scenario.steps.iter().filter_map(|step| match step.action {
        Action::Lock { node, lamport: Some(lamport), .. } => Some((node, lamport)),
        _ => None,
    });
    let expectation = |(node, wanted): (u16, u64)| {
        let of_node = || events.iter().filter(|event| event.node_id() == Some(node));
        let made =
            of_node().find(|event| matches!(event.event, Event::Request { .. }) && event.lamport == Some(wanted));
        // Where it was refused, the time of the refusal shows how late it was.
        let refused = of_node()
            .find(|event| matches!(event.event, Event::RequestRefused { wanted: refused, .. } if refused == wanted));
        let got = made.or(refused).and_then(|event| event.lamport);
        let name = format!("lamport of node {node}'s request");
        Expectation { name, wanted: wanted.into(), got: got.into(), ok: made.is_some() }
    };
    demanded.map(expectation).collect()
}

fn expectations(scenario: &Scenario, summary: &Summary) -> Vec<Expectation> {
    let expect = &scenario.expect;
    let mut list = Vec::new();
    let mut add = |name: &str, wanted: Value, got: Value, ok: bool| {
        list.push(Expectation { name: name.to_owned(), wanted, got, ok });
    };
    if let Some(leader) = expect.leader {
        let got = match &summary.election {
            Some(election) => election.leader.filter(|_| election.agreed),
            None => scenario.ids.iter().max().copied(),
        };
        add("leader", leader.into(), got.into(), got == Some(leader));
    }
    let mut at_least = |name: &str, wanted: Option<u64>, got: u64| {
        if let Some(wanted) = wanted {
            add(name, wanted.into(), got.into(), got >= wanted);
        }
    };
    let mutex = summary.mutex.as_ref();
    at_least("entries_min", expect.entries_min, mutex.map_or(0, |mutex| mutex.entries));
    at_least(
        "entries_each_min",
        expect.entries_each_min,
        mutex.and_then(|mutex| mutex.by_node.values().min().copied()).unwrap_or(0),
    );
    at_least("terms_min", expect.terms_min, summary.election.as_ref().map_or(0, |election| election.elections));
    at_least("regenerated_min", expect.regenerated_min, mutex.map_or(0, |mutex| mutex.regenerated));
    let deadlock = summary.deadlock.as_ref();
    at_least("transactions_min", expect.transactions_min, deadlock.map_or(0, |deadlock| deadlock.transactions));
    at_least("deadlocks_min", expect.deadlocks_min, deadlock.map_or(0, |deadlock| deadlock.found.len() as u64));
    let complete = summary.snapshots.iter().filter(|snapshot| snapshot.complete).count();
    at_least("snapshots_min", expect.snapshots_min, complete as u64);
    let cache = summary.cache.as_ref();
    at_least("reads_min", expect.reads_min, cache.map_or(0, |cache| cache.reads));
    at_least("writes_min", expect.writes_min, cache.map_or(0, |cache| cache.writes));
    let commit = summary.commit.as_ref();
    at_least("commits_min", expect.commits_min, commit.map_or(0, |commit| commit.committed));
    at_least("aborts_min", expect.aborts_min, commit.map_or(0, |commit| commit.aborted));
    at_least("rebuilds_min", expect.rebuilds_min, summary.make.as_ref().map_or(0, MakeSection::rebuilt));
    if let Some(wanted) = expect.gaps {
        let gaps =
            summary.not_checked.iter().filter(|item| item.property == "causality" && item.reason.contains("gap"));
        let got: u64 = gaps.map(|item| item.count).sum();
        add("gaps", wanted.into(), got.into(), got == wanted);
    }
    if let Some(wanted) = expect.violations {
        let got = summary.broken();
        add("violations", wanted.into(), got.into(), got == wanted);
    }
    list
}
