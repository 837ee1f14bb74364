//! `[deadlock]`: locks on several named resources, and the steps that take and give them back.

use crate::{
    error::ScenarioError,
    model::Scenario,
    parse::section,
    reader::{Field, Section},
    services,
    step::{Action, Step},
};
use compasso_wire::{
    Duration, ResourceId,
    config::{DeadlockStrategy, LockWorkload, Locks},
    limits::{LOCKS_MAX, RESOURCES_MAX},
    locks::ResourceSet,
};
use std::collections::BTreeMap;

/// The steps that name resources to lock.
const STEPS: [&str; 3] = ["acquire", "release", "claims"];

/// `[deadlock]`: its resources are added to those that are known already. Without a list they are all that the
/// steps name, by name. Their order is the global order.
pub(crate) fn locks(root: &Section<'_>, resources: &mut Vec<String>) -> Result<Option<Locks>, ScenarioError> {
    let Some(section) = section(root, "deadlock")? else { return Ok(None) };
    section.refuse_unknown(&["strategy", "resources", "workload"], &[])?;
    let strategy = section.require("strategy", "what is done about deadlocks")?.choose(
        &[
            ("ignore", DeadlockStrategy::Ignore),
            ("detect", DeadlockStrategy::Detect),
            ("prevent-order", DeadlockStrategy::PreventOrder),
            ("wait-die", DeadlockStrategy::WaitDie),
            ("wound-wait", DeadlockStrategy::WoundWait),
            ("avoid", DeadlockStrategy::Avoid),
        ],
        &[],
    )?;
    let added = match section.get("resources") {
        Some(named) => services::resources(&named, resources, LOCKS_MAX)?,
        None => named_in_steps(root, resources)?,
    };
    let count = added.len() as u8;
    resources.extend(added);
    let workload = section.get("workload").map(|field| lock_workload(&field, count)).transpose()?;
    Ok(Some(Locks { strategy, count, workload }))
}

fn lock_workload(field: &Field<'_>, count: u8) -> Result<LockWorkload, ScenarioError> {
    if count == 0 {
        return Err(field.error("expected `resources` beside a workload, like [\"a\", \"b\"]"));
    }
    let table = field.table("a table like { every = \"200ms\", hold = \"5ms\", several = 2 }")?;
    table.refuse_unknown(&["every", "hold", "several"], &[])?;
    let every_field = table.require("every", "a duration like \"200ms\"")?;
    let every = every_field.duration()?;
    if every == Duration::ZERO {
        return Err(every_field.error("expected more than no time between two transactions"));
    }
    Ok(LockWorkload {
        every,
        hold: table.require("hold", "a duration like \"5ms\"")?.duration()?,
        several: table.get("several").map_or(Ok(2.min(u64::from(count))), |field| {
            field.integer(1..=u64::from(count), "how many resources one transaction takes")
        })? as u8,
    })
}

/// What steps call the resources, by name; whatever is wrong with a step is told when it is read.
fn named_in_steps(root: &Section<'_>, known: &[String]) -> Result<Vec<String>, ScenarioError> {
    let mut named: Vec<String> = Vec::new();
    let Some(steps) = root.get("step") else { return Ok(named) };
    let sections = steps.list("[[step]] tables")?;
    for table in sections.iter().filter_map(|step| step.table("a table").ok()) {
        for step in STEPS.iter().filter_map(|name| table.get(name)?.table("a table").ok()) {
            for item in names(&step)? {
                let name = services::name(&item)?;
                if known.contains(&name) {
                    return Err(item.error(format!("expected another name; nodes take turns with `{name}`")));
                }
                if !named.contains(&name) {
                    named.push(name);
                    if named.len() > LOCKS_MAX.min(RESOURCES_MAX - known.len()) {
                        return Err(item.error(format!("expected steps to name at most {LOCKS_MAX} resources")));
                    }
                }
            }
        }
    }
    named.sort_unstable();
    Ok(named)
}

/// `resource = "a"` or `resources = ["a", "b"]`.
fn names<'a>(step: &Section<'a>) -> Result<Vec<Field<'a>>, ScenarioError> {
    match (step.get("resource"), step.get("resources")) {
        (Some(_), Some(field)) => Err(field.error("expected either `resource` or `resources`, found both")),
        (Some(field), None) => Ok(vec![field]),
        (None, Some(field)) => {
            let names = field.list("a list of names like [\"a\", \"b\"]")?;
            if names.is_empty() { Err(field.error("expected at least one name")) } else { Ok(names) }
        }
        (None, None) => Err(step.error("expected `resources = [\"a\", \"b\"]` or `resource = \"a\"`")),
    }
}

/// An `acquire`, `release` or `claims` step.
pub(crate) fn action(field: &Field<'_>, name: &str, scenario: &Scenario) -> Result<Action, ScenarioError> {
    if scenario.locks.is_none() {
        return Err(field.error(format!("expected a [deadlock] section where there are `{name}` steps")));
    }
    let step = field.table("a table like { node = 0, resources = [\"a\", \"b\"] }")?;
    step.refuse_unknown(&["node", "resource", "resources"], &[])?;
    let node = step.require("node", "the id of a node")?.id(&scenario.ids)?;
    let first = usize::from(scenario.mutex.resources);
    let lockable = scenario.names.resources.get(first..).unwrap_or(&[]);
    let mut resources = ResourceSet::default();
    for item in names(&step)? {
        let wanted = item.string()?;
        match lockable.iter().position(|name| name == wanted) {
            Some(index) => resources.insert(ResourceId((first + index) as u8)),
            None => return Err(item.error(format!("expected one of: {}; found \"{wanted}\"", lockable.join(", ")))),
        }
    }
    Ok(match name {
        "acquire" => Action::Acquire { node, resources },
        "release" => Action::Release { node, resources },
        _ => Action::Claims { node, resources },
    })
}

/// Where claims decide, nobody may ask for more than it has claimed; a crash forgets them.
pub(crate) fn check_claims(scenario: &Scenario, steps: &[(Step, Section<'_>)]) -> Result<(), ScenarioError> {
    if scenario.locks.is_none_or(|locks| locks.strategy != DeadlockStrategy::Avoid) {
        return Ok(());
    }
    let mut claims: BTreeMap<u16, ResourceSet> = BTreeMap::new();
    for (step, section) in steps {
        match step.action {
            Action::Claims { node, resources } => drop(claims.insert(node, resources)),
            Action::Crash(node) => drop(claims.remove(&node)),
            Action::Acquire { node, resources } => {
                let claimed = claims.get(&node).copied().unwrap_or_default();
                if let Some(beyond) = resources.without(claimed).first() {
                    let name = scenario.names.resources.get(usize::from(beyond.0)).map_or("?", String::as_str);
                    return Err(section.error(format!(
                        "expected a `claims` step before this one in which node {node} claims \"{name}\" (strategy = \"avoid\")"
                    )));
                }
            }
            _ => {}
        }
    }
    Ok(())
}
