//! What is done to the cluster while it runs, and in which order that makes sense.

use crate::{
    error::ScenarioError,
    model::{NODE_PPM_MAX, Scenario},
    reader::Section,
    span::format_duration,
};
use compasso_wire::{
    Duration,
    config::{ElectionChoice, MutexChoice},
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
    /// A node asks for the resource, holds it and releases it.
    Lock {
        /// Which node.
        node: u16,
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
}

const ACTIONS: [&str; 10] =
    ["crash", "restart", "pause", "resume", "partition", "heal", "lock", "elect", "set_skew", "drop_token"];
const LATER_ACTIONS: [&str; 7] = ["acquire", "release", "claims", "leap", "event", "send", "snapshot"];

pub(crate) fn read(section: &Section<'_>, scenario: &Scenario) -> Result<Step, ScenarioError> {
    let known: Vec<&str> = std::iter::once("at").chain(ACTIONS).collect();
    section.refuse_unknown(&known, &LATER_ACTIONS)?;
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

fn action(section: &Section<'_>, name: &str, scenario: &Scenario) -> Result<Action, ScenarioError> {
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
        "heal" | "drop_token" => match (field.boolean()?, name) {
            (true, "heal") => Action::Heal,
            (true, _) => Action::DropToken,
            (false, _) => return Err(field.error("expected true (leave the step out otherwise)")),
        },
        "lock" => {
            let lock = field.table("a table like { node = 0, hold = \"10ms\" }")?;
            lock.refuse_unknown(&["node", "hold", "lamport"], &["resource"])?;
            Action::Lock {
                node: lock.require("node", "the id of a node")?.id(ids)?,
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
        _ => partition(&field, ids)?,
    })
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
    for (step, section) in steps {
        let (id, allowed, becomes, name): (u16, &[Condition], _, _) = match step.action {
            Action::Crash(id) => (id, &[Condition::Running, Condition::Paused], Some(Condition::Crashed), "crash"),
            Action::Restart(id) => (id, &[Condition::Crashed], Some(Condition::Running), "restart"),
            Action::Pause(id) => (id, &[Condition::Running], Some(Condition::Paused), "pause"),
            Action::Resume(id) => (id, &[Condition::Paused], Some(Condition::Running), "resume"),
            Action::Lock { node, .. } => (node, &[Condition::Running, Condition::Paused], None, "lock"),
            Action::Elect(id) => (id, &[Condition::Running, Condition::Paused], None, "elect"),
            Action::SetSkew { node, .. } => (node, &[Condition::Running, Condition::Paused], None, "set_skew"),
            Action::Partition(_) | Action::Heal | Action::DropToken => continue,
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
