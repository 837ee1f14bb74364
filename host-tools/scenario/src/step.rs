//! What is done to the cluster while it runs, and in which order that makes sense.

use crate::{
    error::ScenarioError,
    hosts::Lie,
    model::{NODE_PPM_MAX, Scenario},
    reader::Section,
    span::format_duration,
};
use compasso_wire::{
    Duration, ResourceId,
    config::{ElectionChoice, MutexChoice, TimeSource},
    locks::ResourceSet,
};
use std::collections::BTreeMap;

/// Something done at one moment of the run.
#[derive(Clone, PartialEq, Debug)]
pub struct Step {
    /// When, counted from the start of the run in true time.
    pub at: Duration,
    /// What.
    pub action: Action,
}

/// What a step does.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// The node dies and forgets all but what it stored.
    Crash(u16),
    /// A crashed node boots again.
    Restart(u16),
    /// The node stands still and notices nothing of it.
    Pause(u16),
    /// A paused node goes on.
    Resume(u16),
    /// Only nodes of one side still hear each other. Every node is on exactly one side.
    Partition(Vec<Vec<u16>>),
    /// The network is whole again.
    Heal,
    /// A node asks for a resource, holds it and releases it.
    Lock {
        /// Which node.
        node: u16,
        /// Which resource.
        resource: ResourceId,
        /// How long it holds.
        hold: Duration,
        /// The request's Lamport time, if it is scripted.
        lamport: Option<u64>,
    },
    /// That node notices a dead coordinator.
    Elect(u16),
    /// A crystal changes its rate.
    SetSkew {
        /// Whose.
        node: u16,
        /// Parts per million from nominal.
        ppm: f64,
    },
    /// The token is lost where it is.
    DropToken,
    /// A node acquires resources, all of them, besides what it holds already.
    Acquire {
        /// Which node.
        node: u16,
        /// Which resources.
        resources: ResourceSet,
    },
    /// A node gives resources back.
    Release {
        /// Which node.
        node: u16,
        /// Which resources.
        resources: ResourceSet,
    },
    /// A node declares what it will need at most.
    Claims {
        /// Which node.
        node: u16,
        /// Which resources.
        resources: ResourceSet,
    },
    /// A snapshot of the whole system is taken.
    Snapshot {
        /// By which node.
        node: u16,
        /// The how-manieth of the scenario, from 1.
        number: u32,
    },
    /// A node notes a label.
    Label {
        /// Which node.
        node: u16,
        /// Which of the scenario's labels.
        label: u16,
    },
    /// A node sends a label to another.
    Send {
        /// Who sends.
        from: u16,
        /// Who receives.
        to: u16,
        /// Which of the scenario's labels.
        label: u16,
    },
    /// A leap second is announced: 1 adds a second, −1 leaves one out.
    Leap(i8),
    /// A host serves true time from here on, or does so no more.
    TimeServer {
        /// Which; all of them if none is named.
        host: Option<u8>,
        /// It does.
        serves: bool,
    },
    /// A host tells another time than the true one from here on.
    Lie {
        /// Which.
        host: u8,
        /// How. It replaces an earlier lie.
        lie: Lie,
    },
    /// A node reads the cached value.
    Read(u16),
    /// A node writes the cached value.
    Write(u16),
    /// A transaction is begun.
    Transaction {
        /// Who votes no.
        refuse: Vec<u16>,
    },
    /// A node saves a source.
    Edit {
        /// Which node.
        node: u16,
        /// Which of the scenario's files.
        file: u8,
    },
    /// A node builds an object anew, if its source is younger.
    Build {
        /// Which node.
        node: u16,
        /// Which of the scenario's files.
        file: u8,
        /// Who has the source.
        source: u16,
    },
}

const ACTIONS: [&str; 24] = [
    "crash",
    "restart",
    "pause",
    "resume",
    "partition",
    "heal",
    "lock",
    "elect",
    "set_skew",
    "drop_token",
    "acquire",
    "release",
    "claims",
    "event",
    "send",
    "snapshot",
    "leap",
    "time_server",
    "lie",
    "transaction",
    "read",
    "write",
    "edit",
    "build",
];

pub(crate) fn read(section: &Section<'_>, scenario: &mut Scenario) -> Result<Step, ScenarioError> {
    let known: Vec<&str> = std::iter::once("at").chain(ACTIONS).collect();
    section.refuse_unknown(&known, &[])?;
    let at_field = section.require("at", "a moment like \"5s\"")?;
    let at = at_field.duration()?;
    if at > scenario.duration {
        return Err(at_field.error(format!(
            "expected a moment within the run, which ends at {}; found {}",
            format_duration(scenario.duration),
            format_duration(at)
        )));
    }
    let named: Vec<&str> = ACTIONS.into_iter().filter(|action| section.get(action).is_some()).collect();
    match named[..] {
        [name] => Ok(Step { at, action: action(section, name, scenario)? }),
        [] => Err(section.error(format!("expected one action of: {}", ACTIONS.join(", ")))),
        _ => Err(section.error(format!("expected exactly one action, found {}: {}", named.len(), named.join(", ")))),
    }
}

fn action(section: &Section<'_>, name: &str, scenario: &mut Scenario) -> Result<Action, ScenarioError> {
    let field = section.require(name, "an action")?;
    let ids = &scenario.ids;
    Ok(match name {
        "crash" => Action::Crash(field.id(ids)?),
        "restart" => Action::Restart(field.id(ids)?),
        "pause" => Action::Pause(field.id(ids)?),
        "resume" => Action::Resume(field.id(ids)?),
        "elect" if scenario.election.algorithm == ElectionChoice::None => {
            return Err(field.error("expected no `elect` step while [election] algorithm is \"none\""));
        }
        "elect" => Action::Elect(field.id(ids)?),
        "lock" | "drop_token" if scenario.mutex.algorithm == MutexChoice::None => {
            return Err(field.error(format!("expected no `{name}` step while [mutex] algorithm is \"none\"")));
        }
        "read" | "write" if scenario.cache.is_none() => {
            return Err(field.error(format!("expected no `{name}` step without a [cache] section")));
        }
        "read" => Action::Read(field.id(ids)?),
        "write" => Action::Write(field.id(ids)?),
        "transaction" if scenario.commit.is_none() => {
            return Err(field.error("expected no `transaction` step without a [commit] section"));
        }
        "transaction" => {
            let table = field.table("a table like { refuse = [2] }, or {}")?;
            table.refuse_unknown(&["refuse"], &[])?;
            let refuse = match table.get("refuse") {
                Some(list) => {
                    list.list("a list of ids like [2]")?.iter().map(|id| id.id(ids)).collect::<Result<_, _>>()?
                }
                None => Vec::new(),
            };
            Action::Transaction { refuse }
        }
        "heal" | "drop_token" => match (field.boolean()?, name) {
            (true, "heal") => Action::Heal,
            (true, _) => Action::DropToken,
            (false, _) => return Err(field.error("expected true (leave the step out otherwise)")),
        },
        "leap" | "time_server" | "lie" if scenario.clock.source != TimeSource::Host => {
            return Err(field.error(format!("expected no `{name}` step without [clock] source = \"host\"")));
        }
        "leap" => leap(&field)?,
        "time_server" | "lie" => crate::hosts::action(&field, name, scenario)?,
        "lock" => {
            let lock = field.table("a table like { node = 0, hold = \"10ms\" }")?;
            lock.refuse_unknown(&["node", "resource", "hold", "lamport"], &[])?;
            Action::Lock {
                node: lock.require("node", "the id of a node")?.id(ids)?,
                resource: match lock.get("resource") {
                    Some(field) => resource(&field, turns(scenario), &scenario.names.resources)?,
                    None => ResourceId(0),
                },
                hold: lock.require("hold", "a duration like \"10ms\"")?.duration()?,
                lamport: lock.get("lamport").map(|l| l.integer(1..=u64::MAX, "a Lamport time")).transpose()?,
            }
        }
        "set_skew" => {
            let skew = field.table("a table like { node = 0, ppm = 40 }")?;
            skew.refuse_unknown(&["node", "ppm"], &[])?;
            Action::SetSkew {
                node: skew.require("node", "the id of a node")?.id(ids)?,
                ppm: skew
                    .require("ppm", "parts per million")?
                    .number(-NODE_PPM_MAX..=NODE_PPM_MAX, "parts per million")?,
            }
        }
        "acquire" | "release" | "claims" => crate::deadlock::action(&field, name, scenario)?,
        "edit" | "build" => crate::make::action(&field, name, scenario)?,
        "snapshot" => Action::Snapshot { node: field.id(ids)?, number: 0 },
        "event" => {
            let event = field.table("a table like { node = 0, label = \"saved\" }")?;
            event.refuse_unknown(&["node", "label"], &[])?;
            let node = event.require("node", "the id of a node")?.id(ids)?;
            Action::Label { node, label: label(&event, scenario)? }
        }
        "send" => {
            let send = field.table("a table like { from = 0, to = 1, label = \"copy\" }")?;
            send.refuse_unknown(&["from", "to", "label"], &[])?;
            let from = send.require("from", "the id of a node")?.id(ids)?;
            let to_field = send.require("to", "the id of a node")?;
            let to = to_field.id(ids)?;
            if from == to {
                return Err(to_field.error("expected another node than the sender"));
            }
            Action::Send { from, to, label: label(&send, scenario)? }
        }
        _ => partition(&field, ids)?,
    })
}

/// A leap second more or less.
fn leap(field: &crate::reader::Field<'_>) -> Result<Action, ScenarioError> {
    match field.number(-1.0..=1.0, "1 for a second more, -1 for a second less")? {
        1.0 => Ok(Action::Leap(1)),
        -1.0 => Ok(Action::Leap(-1)),
        _ => Err(field.error("expected 1 for a second more, or -1 for a second less")),
    }
}

/// The resources that nodes take turns with.
fn turns(scenario: &Scenario) -> std::ops::Range<usize> {
    0..usize::from(scenario.mutex.resources)
}

fn resource(
    field: &crate::reader::Field<'_>,
    among: std::ops::Range<usize>,
    names: &[String],
) -> Result<ResourceId, ScenarioError> {
    let name = field.string()?;
    let among = &names[among];
    let found = names.iter().position(|other| other == name).filter(|_| among.iter().any(|other| other == name));
    match found {
        Some(index) => Ok(ResourceId(index as u8)),
        None => Err(field.error(format!("expected one of: {}; found \"{name}\"", among.join(", ")))),
    }
}

/// The number of a label, which the scenario remembers.
fn label(section: &Section<'_>, scenario: &mut Scenario) -> Result<u16, ScenarioError> {
    let field = section.require("label", "a text")?;
    let text = field.string()?;
    if text.is_empty() || text.len() > 64 || text.chars().any(char::is_control) {
        return Err(field.error("expected a line of 1 to 64 characters"));
    }
    let labels = &mut scenario.names.labels;
    let known = labels.iter().position(|other| other == text);
    Ok(known.unwrap_or_else(|| {
        labels.push(text.to_owned());
        labels.len() - 1
    }) as u16)
}

fn partition(field: &crate::reader::Field<'_>, ids: &[u16]) -> Result<Action, ScenarioError> {
    const SHAPE: &str = "lists of ids like [[0, 1], [2, 3]]";
    let mut sides = Vec::new();
    let mut rest = ids.to_vec();
    for side_field in field.list(SHAPE)? {
        let mut side = Vec::new();
        for member in side_field.list(SHAPE)? {
            let id = member.id(ids)?;
            if !rest.contains(&id) {
                return Err(member.error(format!("expected each node on one side; {id} is on two")));
            }
            rest.retain(|other| *other != id);
            side.push(id);
        }
        if side.is_empty() {
            return Err(side_field.error("expected at least one node on each side"));
        }
        sides.push(side);
    }
    if sides.is_empty() {
        return Err(field.error(format!("expected {SHAPE}")));
    }
    if !rest.is_empty() {
        sides.push(rest);
    }
    Ok(Action::Partition(sides))
}

#[derive(Clone, Copy, PartialEq)]
enum Condition {
    Running,
    Paused,
    Crashed,
}

/// Refuses what cannot be done: a restart of a node that runs, a resume of one that was not paused.
/// `lines` are the steps' sections in the same order.
pub(crate) fn check_order(steps: &[(Step, Section<'_>)]) -> Result<(), ScenarioError> {
    let mut conditions = BTreeMap::new();
    let mut leaps = 0;
    for (step, section) in steps {
        leaps += usize::from(matches!(step.action, Action::Leap(_)));
        if leaps > 1 {
            let at = section.get("leap").map_or(section.at, |field| field.at);
            let message = "expected one leap second in a run: it falls on the midnight that the run is staged around";
            return Err(section.source.error(at, &format!("{}.leap", section.path), message));
        }
        let (id, allowed, becomes, name): (u16, &[Condition], _, _) = match step.action {
            Action::Crash(id) => (id, &[Condition::Running, Condition::Paused], Some(Condition::Crashed), "crash"),
            Action::Restart(id) => (id, &[Condition::Crashed], Some(Condition::Running), "restart"),
            Action::Pause(id) => (id, &[Condition::Running], Some(Condition::Paused), "pause"),
            Action::Resume(id) => (id, &[Condition::Paused], Some(Condition::Running), "resume"),
            Action::Lock { node, .. } => (node, &[Condition::Running, Condition::Paused], None, "lock"),
            Action::Elect(id) => (id, &[Condition::Running, Condition::Paused], None, "elect"),
            Action::SetSkew { node, .. } => (node, &[Condition::Running, Condition::Paused], None, "set_skew"),
            Action::Acquire { node, .. } => (node, &[Condition::Running, Condition::Paused], None, "acquire"),
            Action::Release { node, .. } => (node, &[Condition::Running, Condition::Paused], None, "release"),
            Action::Claims { node, .. } => (node, &[Condition::Running, Condition::Paused], None, "claims"),
            Action::Snapshot { node, .. } => (node, &[Condition::Running, Condition::Paused], None, "snapshot"),
            Action::Label { node, .. } => (node, &[Condition::Running, Condition::Paused], None, "event"),
            Action::Send { from, .. } => (from, &[Condition::Running, Condition::Paused], None, "send"),
            Action::Read(id) => (id, &[Condition::Running, Condition::Paused], None, "read"),
            Action::Write(id) => (id, &[Condition::Running, Condition::Paused], None, "write"),
            Action::Edit { node, .. } => (node, &[Condition::Running, Condition::Paused], None, "edit"),
            Action::Build { node, .. } => (node, &[Condition::Running, Condition::Paused], None, "build"),
            Action::Partition(_)
            | Action::Heal
            | Action::DropToken
            | Action::Leap(_)
            | Action::TimeServer { .. }
            | Action::Lie { .. }
            | Action::Transaction { .. } => continue,
        };
        let condition = *conditions.get(&id).unwrap_or(&Condition::Running);
        if !allowed.contains(&condition) {
            let wanted = match allowed {
                [Condition::Crashed] => "crashed",
                [Condition::Paused] => "paused",
                _ => "running",
            };
            let found = match condition {
                Condition::Running => "running",
                Condition::Paused => "paused",
                Condition::Crashed => "crashed",
            };
            let message =
                format!("expected node {id} to be {wanted} at {}, but it is {found} then", format_duration(step.at));
            let at = section.get(name).map_or(section.at, |field| field.at);
            return Err(section.source.error(at, &format!("{}.{name}", section.path), message));
        }
        if let Some(becomes) = becomes {
            conditions.insert(id, becomes);
        }
    }
    Ok(())
}
