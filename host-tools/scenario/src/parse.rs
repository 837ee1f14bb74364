//! From TOML to a checked scenario.

use crate::{
    deadlock,
    error::ScenarioError,
    hosts, make,
    model::{Clock, Election, Expect, Mutex, NODE_PPM_MAX, Names, Network, Origin, Scenario, clock_name, uniform_ppm},
    reader::{self, Field, Section},
    services,
    span::{format_duration, parse_duration},
    step::{self, Action},
};
use compasso_algorithms::mutex::voting_sets::{self, Flaw};
use compasso_wire::{
    Duration, NodeId, NodeSet,
    config::{Adjustment, ClockChoice, DetectorChoice, ElectionChoice, MutexChoice, TimeSource, Timing, Workload},
    limits::{MEMBERS_MAX, TURNS_MAX},
};
use std::path::Path;

/// A scenario lists no more steps than this.
const STEPS_MAX: usize = 10_000;
/// A lease lasts at least so many heartbeats: one asks for it, the next grants it, and one may be lost.
const LEASE_HEARTBEATS: u64 = 3;
/// A scenario file is no longer than this, in bytes.
const FILE_MAX: usize = 1 << 20;

impl Scenario {
    /// Reads a scenario file.
    ///
    /// # Errors
    /// One line that names file, line, field and what was expected.
    pub fn load(path: impl AsRef<Path>) -> Result<Scenario, ScenarioError> {
        let path = path.as_ref();
        let text = reader::load(path, FILE_MAX, "a scenario")?;
        Scenario::parse(&text, &path.display().to_string())
    }

    /// Reads a scenario from text; `file` is what errors call it, and names a scenario without a name.
    ///
    /// # Errors
    /// One line that names file, line, field and what was expected.
    pub fn parse(text: &str, file: &str) -> Result<Scenario, ScenarioError> {
        reader::document(text, file, |root| read(root, text, file))
    }
}

fn read(root: &Section<'_>, text: &str, file: &str) -> Result<Scenario, ScenarioError> {
    root.refuse_unknown(
        &[
            "name",
            "nodes",
            "ids",
            "seed",
            "duration",
            "hardening",
            "clock",
            "election",
            "mutex",
            "deadlock",
            "cache",
            "commit",
            "make",
            "snapshot",
            "network",
            "timing",
            "step",
            "expect",
        ],
        &[],
    )?;
    let stem =
        Path::new(file).file_stem().map_or_else(|| "scenario".to_owned(), |stem| stem.to_string_lossy().into_owned());
    let name = root.get("name").map_or(Ok(stem), |field| name(&field))?;
    let ids = ids(root)?;
    let seed_field = root.get("seed");
    let seed = seed_field.as_ref().map_or(Ok(1), |field| field.integer(0..=u64::MAX, "a seed"))?;
    let duration_field = root.require("duration", "how long the run lasts, like \"20s\"")?;
    let duration = duration_field.duration()?;
    if duration == Duration::ZERO {
        return Err(duration_field.error("expected a run of more than no time"));
    }
    let hardening = root.get("hardening").map_or(Ok(true), |field| field.boolean())?;
    let (clock, uniform_ppm) = clock(root, &ids, seed)?;
    let election = election(root)?;
    let (mutex, mut resources, token_rest) = mutex(root, &ids)?;
    let locks = deadlock::locks(root, &mut resources)?;
    let cache = services::cache(root, clock.sync)?;
    let commit = services::commit(root)?;
    let snapshots = services::snapshots(root)?;
    let network = network(root)?;
    let (mut timing, drift_declared) = timing(root)?;
    timing.token_rest = token_rest;
    let expect = expect(root, &ids)?;
    let names = Names { ids: ids.clone(), resources, labels: Vec::new(), files: Vec::new() };
    let origin = Origin { text: text.to_owned(), seed_at: seed_field.map(|field| field.at..field.end), uniform_ppm };
    let mut scenario = Scenario {
        name,
        ids,
        seed,
        duration,
        hardening,
        clock,
        election,
        mutex,
        locks,
        cache,
        commit,
        snapshots,
        names,
        network,
        timing,
        steps: Vec::new(),
        expect,
        origin,
    };
    scenario.steps = steps(root, &mut scenario)?;
    make::add_workload(root, &mut scenario)?;
    if !drift_declared {
        scenario.timing.drift_ppm = scenario.timing.drift_ppm.max(worst_ppm(&scenario));
    }
    Ok(scenario)
}

/// Leases are safe only if the declared drift covers every crystal of the scenario.
fn worst_ppm(scenario: &Scenario) -> u32 {
    let steps = scenario.steps.iter().filter_map(|step| match step.action {
        Action::SetSkew { ppm, .. } => Some(ppm),
        _ => None,
    });
    let given = scenario.clock.skew_ppm.iter().copied().chain(scenario.origin.uniform_ppm).chain(steps);
    given.fold(0.0, |worst: f64, ppm| worst.max(ppm.abs())).ceil() as u32
}

fn name(field: &Field<'_>) -> Result<String, ScenarioError> {
    let name = field.string()?;
    let fits = name.len() <= 64
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        && name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if !fits {
        return Err(field.error("expected at most 64 letters, digits, '-', '_' and '.', the first a letter or digit (it names the run's folder)"));
    }
    Ok(name.to_owned())
}

fn ids(root: &Section<'_>) -> Result<Vec<u16>, ScenarioError> {
    match (root.get("nodes"), root.get("ids")) {
        (Some(_), Some(ids)) => Err(ids.error("expected either `nodes` or `ids`, found both")),
        (None, None) => {
            Err(root.source.error(0, "nodes", "missing; expected the number of nodes, or `ids` in ring order"))
        }
        (Some(nodes), None) => {
            let count = nodes.integer(2..=MEMBERS_MAX as u64, "how many nodes there are")?;
            Ok((0..count as u16).collect())
        }
        (None, Some(field)) => {
            let mut ids = Vec::new();
            for item in field.list("a list of ids in ring order")? {
                let id = item.integer(0..=u64::from(NodeId::MEMBER_MAX.0), "an id")? as u16;
                if ids.contains(&id) {
                    return Err(item.error(format!("expected unique ids; {id} occurs twice")));
                }
                ids.push(id);
            }
            if !(2..=MEMBERS_MAX).contains(&ids.len()) {
                return Err(field.error(format!("expected 2 to {MEMBERS_MAX} ids, found {}", ids.len())));
            }
            Ok(ids)
        }
    }
}

fn clock(root: &Section<'_>, ids: &[u16], seed: u64) -> Result<(Clock, Option<f64>), ScenarioError> {
    let mut clock = Clock {
        sync: ClockChoice::None,
        skew_ppm: vec![0.0; ids.len()],
        source: TimeSource::Coordinator,
        hosts: 1,
        adjustment: Adjustment::Slew,
    };
    let Some(section) = section(root, "clock")? else { return Ok((clock, None)) };
    clock.sync = ClockChoice::Disciplined;
    section.refuse_unknown(&["sync", "skew_ppm", "source", "hosts", "adjust"], &[])?;
    if let Some(field) = section.get("sync") {
        clock.sync = field.choose(
            &[
                ("none", ClockChoice::None),
                ("cristian", ClockChoice::Cristian),
                ("berkeley", ClockChoice::Berkeley),
                ("disciplined", ClockChoice::Disciplined),
            ],
            &[],
        )?;
    }
    if let Some(field) = section.get("source") {
        clock.source = field.choose(&[("coordinator", TimeSource::Coordinator), ("host", TimeSource::Host)], &[])?;
        if clock.source == TimeSource::Host && !matches!(clock.sync, ClockChoice::Cristian | ClockChoice::Disciplined) {
            let sync = clock_name(clock.sync);
            return Err(field.error(format!(
                "expected \"coordinator\" with sync = \"{sync}\": only a clock that follows a server can follow the host"
            )));
        }
    }
    clock.hosts = hosts::count(&section, clock.sync, clock.source)?;
    if let Some(field) = section.get("adjust") {
        clock.adjustment = field.choose(&[("slew", Adjustment::Slew), ("step", Adjustment::Step)], &[])?;
        if clock.adjustment == Adjustment::Step && clock.sync == ClockChoice::Disciplined {
            return Err(field.error("expected \"slew\" with sync = \"disciplined\": that clock is never set back"));
        }
    }
    let ppm = |field: &Field<'_>| field.number(-NODE_PPM_MAX..=NODE_PPM_MAX, "parts per million");
    let Some(field) = section.get("skew_ppm") else { return Ok((clock, None)) };
    if field.is_table() {
        let table = field.table("a table")?;
        table.refuse_unknown(&["uniform"], &[])?;
        let uniform = table.require("uniform", "parts per million")?.number(0.0..=NODE_PPM_MAX, "parts per million")?;
        clock.skew_ppm = ids.iter().map(|id| uniform_ppm(seed, *id, uniform)).collect();
        return Ok((clock, Some(uniform)));
    }
    let items = field.list("a list with one number a node, or { uniform = 50 }")?;
    if items.len() != ids.len() {
        return Err(field.error(format!(
            "expected one number for each of the {} nodes, found {}",
            ids.len(),
            items.len()
        )));
    }
    clock.skew_ppm = items.iter().map(ppm).collect::<Result<_, _>>()?;
    Ok((clock, None))
}

fn election(root: &Section<'_>) -> Result<Election, ScenarioError> {
    let mut election = Election { algorithm: ElectionChoice::None, detector: DetectorChoice::EventuallyPerfect };
    let Some(section) = section(root, "election")? else { return Ok(election) };
    section.refuse_unknown(&["algorithm", "detector"], &[])?;
    if let Some(field) = section.get("algorithm") {
        election.algorithm = field.choose(
            &[
                ("none", ElectionChoice::None),
                ("bully", ElectionChoice::Bully),
                ("ring", ElectionChoice::Ring),
                ("chang-roberts", ElectionChoice::ChangRoberts),
                ("hirschberg-sinclair", ElectionChoice::HirschbergSinclair),
                ("detector", ElectionChoice::Detector),
            ],
            &[],
        )?;
    }
    if let Some(field) = section.get("detector") {
        election.detector = field.choose(
            &[
                ("perfect", DetectorChoice::Perfect),
                ("eventually-perfect", DetectorChoice::EventuallyPerfect),
                ("scripted", DetectorChoice::Scripted),
            ],
            &[],
        )?;
    }
    Ok(election)
}

fn mutex(root: &Section<'_>, ids: &[u16]) -> Result<(Mutex, Vec<String>, Duration), ScenarioError> {
    let mut mutex = Mutex { algorithm: MutexChoice::None, workload: None, resources: 1 };
    let mut resources = vec!["cs".to_owned()];
    let mut token_rest = Timing::default().token_rest;
    let Some(section) = section(root, "mutex")? else { return Ok((mutex, resources, token_rest)) };
    section.refuse_unknown(
        &["algorithm", "resources", "workload", "token_rest", "voting_sets", "replicas", "order", "answers"],
        &[],
    )?;
    mutex.algorithm = mutex_choice(&section, ids)?;
    if let Some(field) = section.get("workload") {
        let table = field.table("a table like { every = \"200ms\", hold = \"5ms\" }")?;
        table.refuse_unknown(&["every", "hold"], &[])?;
        let every_field = table.require("every", "a duration like \"200ms\"")?;
        let every = every_field.duration()?;
        if every == Duration::ZERO {
            return Err(every_field.error("expected more than no time between two requests"));
        }
        let hold = table.require("hold", "a duration like \"5ms\"")?.duration()?;
        mutex.workload = Some(Workload { every, hold });
    }
    if let Some(rest) = section.duration("token_rest")? {
        token_rest = rest;
    }
    if let Some(field) = section.get("resources") {
        resources = services::resources(&field, &[], TURNS_MAX)?;
        mutex.resources = resources.len() as u8;
    }
    Ok((mutex, resources, token_rest))
}

fn mutex_choice(section: &Section<'_>, ids: &[u16]) -> Result<MutexChoice, ScenarioError> {
    const NAMES: [&str; 9] = [
        "none",
        "central",
        "voting",
        "lamport",
        "ricart-agrawala",
        "token-ring",
        "suzuki-kasami",
        "maekawa-plain",
        "maekawa",
    ];
    let name = match section.get("algorithm") {
        Some(field) => field.choose(&NAMES.map(|name| (name, name)), &[])?,
        None => "none",
    };
    for (key, owners) in [
        ("voting_sets", &["maekawa", "maekawa-plain"][..]),
        ("replicas", &["voting"]),
        ("order", &["ricart-agrawala"]),
        ("answers", &["ricart-agrawala"]),
    ] {
        if let Some(field) = section.get(key).filter(|_| !owners.contains(&name)) {
            return Err(field.error(format!("expected only with algorithm = \"{}\"", owners.join("\" or \""))));
        }
    }
    let replicas = section
        .get("replicas")
        .map(|field| field.integer(1..=ids.len() as u64, "how many nodes have a vote"))
        .transpose()?;
    let by_priority = section
        .get("order")
        .map(|field| field.choose(&[("timestamp", false), ("priority", true)], &[]))
        .transpose()?
        .unwrap_or(false);
    let answers_deferred = section
        .get("answers")
        .map(|field| field.choose(&[("ok", false), ("always", true)], &[]))
        .transpose()?
        .unwrap_or(false);
    let sets = read_voting_sets(section, ids)?;
    Ok(match name {
        "central" => MutexChoice::Central,
        "voting" => MutexChoice::Voting { replicas: replicas.unwrap_or(ids.len() as u64) as u16 },
        "lamport" => MutexChoice::Lamport,
        "ricart-agrawala" => MutexChoice::RicartAgrawala { by_priority, answers_deferred },
        "token-ring" => MutexChoice::TokenRing,
        "suzuki-kasami" => MutexChoice::SuzukiKasami,
        "maekawa-plain" => MutexChoice::MaekawaPlain { sets },
        "maekawa" => MutexChoice::Maekawa { sets },
        _ => MutexChoice::None,
    })
}

type VotingSets = compasso_wire::heapless::Vec<NodeSet, MEMBERS_MAX>;

/// Each node's voting set, in the order of the ids, if they keep Maekawa's conditions.
fn read_voting_sets(section: &Section<'_>, ids: &[u16]) -> Result<Option<VotingSets>, ScenarioError> {
    const SHAPE: &str = "one list of ids a node, like [[0, 1], [1, 2], [2, 0]]";
    let Some(field) = section.get("voting_sets") else { return Ok(None) };
    let items = field.list(SHAPE)?;
    if items.len() != ids.len() {
        return Err(field.error(format!(
            "expected one set for each of the {} nodes, found {}",
            ids.len(),
            items.len()
        )));
    }
    let mut sets = VotingSets::new();
    for item in &items {
        let mut set = NodeSet::EMPTY;
        for member in item.list(SHAPE)? {
            let id = member.id(ids)?;
            ids.iter().position(|other| *other == id).into_iter().for_each(|position| set.insert(position));
        }
        let _fits = sets.push(set);
    }
    match voting_sets::check(&sets) {
        Ok(()) => Ok(Some(sets)),
        Err(flaw) => Err(describe(flaw, &field, &items, ids)),
    }
}

/// Which of Maekawa's conditions does not hold, and where.
fn describe(flaw: Flaw, field: &Field<'_>, items: &[Field<'_>], ids: &[u16]) -> ScenarioError {
    let id = |position: usize| ids.get(position).copied().unwrap_or_default();
    let at = |position: usize| items.get(position).unwrap_or(field);
    match flaw {
        Flaw::WithoutItself(node) => at(node).error(format!("expected node {} to be in its own set", id(node))),
        Flaw::Stranger(node) => {
            at(node).error(format!("expected only nodes of the scenario in the set of {}", id(node)))
        }
        Flaw::Disjoint(one, other) => at(other).error(format!(
            "expected any two sets to have a node in common; those of {} and {} have none",
            id(one),
            id(other)
        )),
        Flaw::Size(node) => at(node).error("expected all sets to be of one size"),
        Flaw::Load(node) => field.error(format!(
            "expected every node to be in equally many sets; {} is in more or fewer than {}",
            id(node),
            id(0)
        )),
    }
}

fn network(root: &Section<'_>) -> Result<Network, ScenarioError> {
    let mut network = Network::default();
    let Some(section) = section(root, "network")? else { return Ok(network) };
    section.refuse_unknown(&["delay", "loss", "duplicate", "reorder"], &[])?;
    if let Some(field) = section.get("delay") {
        let text = field.string()?;
        let (min, max) = text.split_once("..").unwrap_or((text, text));
        network.delay_min = parse_duration(min).map_err(|message| field.error(message))?;
        network.delay_max = parse_duration(max).map_err(|message| field.error(message))?;
        if network.delay_min > network.delay_max {
            return Err(field.error(format!("expected the shorter delay first, found \"{text}\"")));
        }
    }
    for (key, share) in
        [("loss", &mut network.loss), ("duplicate", &mut network.duplicate), ("reorder", &mut network.reorder)]
    {
        if let Some(field) = section.get(key) {
            *share = field.number(0.0..=1.0, "a share")?;
        }
    }
    Ok(network)
}

fn timing(root: &Section<'_>) -> Result<(Timing, bool), ScenarioError> {
    let mut timing = Timing::default();
    let Some(section) = section(root, "timing")? else { return Ok((timing, false)) };
    section
        .refuse_unknown(&["trans", "process", "heartbeat", "suspect_after", "lease", "sync_every", "drift_ppm"], &[])?;
    for (key, span) in [
        ("trans", &mut timing.trans),
        ("process", &mut timing.process),
        ("heartbeat", &mut timing.heartbeat),
        ("suspect_after", &mut timing.suspect_after),
        ("lease", &mut timing.lease),
        ("sync_every", &mut timing.sync_every),
    ] {
        let Some(field) = section.get(key) else { continue };
        *span = field.duration()?;
        if *span == Duration::ZERO {
            return Err(field.error("expected more than no time"));
        }
    }
    if timing.suspect_after <= timing.heartbeat {
        return Err(section.error("expected `suspect_after` to be longer than `heartbeat`"));
    }
    let shortest = timing.heartbeat.times(LEASE_HEARTBEATS);
    if timing.lease < shortest {
        let field = section.get("lease").or_else(|| section.get("heartbeat"));
        let message = format!(
            "expected a lease of at least {LEASE_HEARTBEATS} heartbeats ({}), found {}: no shorter one is renewed in time",
            format_duration(shortest),
            format_duration(timing.lease)
        );
        return Err(field.map_or_else(|| section.error(&message), |field| field.error(&message)));
    }
    let drift = section.get("drift_ppm");
    if let Some(field) = &drift {
        timing.drift_ppm = field.integer(0..=10_000, "parts per million")? as u32;
    }
    Ok((timing, drift.is_some()))
}

fn expect(root: &Section<'_>, ids: &[u16]) -> Result<Expect, ScenarioError> {
    let mut expect = Expect::default();
    let Some(section) = section(root, "expect")? else { return Ok(expect) };
    section.refuse_unknown(
        &[
            "leader",
            "entries_min",
            "entries_each_min",
            "terms_min",
            "regenerated_min",
            "transactions_min",
            "deadlocks_min",
            "snapshots_min",
            "commits_min",
            "reads_min",
            "writes_min",
            "aborts_min",
            "rebuilds_min",
            "gaps",
            "violations",
        ],
        &[],
    )?;
    expect.leader = section.get("leader").map(|field| field.id(ids)).transpose()?;
    for (key, count) in [
        ("entries_min", &mut expect.entries_min),
        ("entries_each_min", &mut expect.entries_each_min),
        ("terms_min", &mut expect.terms_min),
        ("regenerated_min", &mut expect.regenerated_min),
        ("transactions_min", &mut expect.transactions_min),
        ("deadlocks_min", &mut expect.deadlocks_min),
        ("snapshots_min", &mut expect.snapshots_min),
        ("reads_min", &mut expect.reads_min),
        ("writes_min", &mut expect.writes_min),
        ("commits_min", &mut expect.commits_min),
        ("aborts_min", &mut expect.aborts_min),
        ("rebuilds_min", &mut expect.rebuilds_min),
        ("gaps", &mut expect.gaps),
        ("violations", &mut expect.violations),
    ] {
        *count = section.get(key).map(|field| field.integer(0..=u64::MAX, "a count")).transpose()?;
    }
    Ok(expect)
}

fn steps(root: &Section<'_>, scenario: &mut Scenario) -> Result<Vec<step::Step>, ScenarioError> {
    let Some(field) = root.get("step") else { return Ok(Vec::new()) };
    let items = field.list("[[step]] tables")?;
    if items.len() > STEPS_MAX {
        return Err(field.error(format!("expected at most {STEPS_MAX} steps, found {}", items.len())));
    }
    let mut steps = Vec::new();
    for item in &items {
        let section = item.table("a [[step]] table")?;
        steps.push((step::read(&section, scenario)?, section));
    }
    steps.sort_by_key(|(step, _)| step.at);
    step::check_order(&steps)?;
    make::find_sources(&mut steps)?;
    deadlock::check_claims(scenario, &steps)?;
    let mut steps: Vec<step::Step> = steps.into_iter().map(|(step, _)| step).collect();
    let taken = steps.iter_mut().filter_map(|step| match &mut step.action {
        Action::Snapshot { number, .. } => Some(number),
        _ => None,
    });
    taken.zip(1..).for_each(|(number, count)| *number = count);
    Ok(steps)
}

pub(crate) fn section<'a>(root: &Section<'a>, key: &str) -> Result<Option<Section<'a>>, ScenarioError> {
    root.get(key).map(|field| field.table(&format!("a [{key}] section"))).transpose()
}
