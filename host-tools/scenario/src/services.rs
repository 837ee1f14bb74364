//! The sections of what is built on turns, leaders and time: cache, commit, snapshots; and names of resources.

use crate::{
    error::ScenarioError,
    reader::{Field, Section},
};
use compasso_wire::{
    config::{Cache, Commit, SnapshotMethod},
    limits::RESOURCES_MAX,
};

/// A list of names that differ from each other and from `known`.
pub(crate) fn resources(field: &Field<'_>, known: &[String]) -> Result<Vec<String>, ScenarioError> {
    let mut names: Vec<String> = Vec::new();
    for item in field.list("a list of names like [\"a\", \"b\"]")? {
        let name = name(&item)?;
        if names.iter().chain(known).any(|other| *other == name) {
            return Err(item.error(format!("expected each resource once; `{name}` occurs twice")));
        }
        names.push(name);
    }
    let room = RESOURCES_MAX - known.len();
    if !(1..=room).contains(&names.len()) {
        return Err(field.error(format!("expected 1 to {room} names, found {}", names.len())));
    }
    Ok(names)
}

/// A resource's name.
pub(crate) fn name(field: &Field<'_>) -> Result<String, ScenarioError> {
    let name = field.string()?;
    let fits = (1..=32).contains(&name.len()) && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    if fits {
        Ok(name.to_owned())
    } else {
        Err(field.error("expected a name of at most 32 letters, digits, '-' and '_'"))
    }
}

/// Refuses more resources than there can be.
pub(crate) fn room(field: &Field<'_>, count: usize) -> Result<(), ScenarioError> {
    if count > RESOURCES_MAX {
        return Err(field.error(format!("expected at most {RESOURCES_MAX} resources, those of [mutex] included")));
    }
    Ok(())
}

/// `[cache]`.
pub(crate) fn cache(root: &Section<'_>) -> Result<Option<Cache>, ScenarioError> {
    match root.get("cache") {
        Some(field) => Err(field.error("`cache` is a known name, but this version does not perform it yet")),
        None => Ok(None),
    }
}

/// `[commit]`.
pub(crate) fn commit(root: &Section<'_>) -> Result<Option<Commit>, ScenarioError> {
    match root.get("commit") {
        Some(field) => Err(field.error("`commit` is a known name, but this version does not perform it yet")),
        None => Ok(None),
    }
}

/// `[snapshot]`.
pub(crate) fn snapshots(root: &Section<'_>) -> Result<SnapshotMethod, ScenarioError> {
    match root.get("snapshot") {
        Some(field) => Err(field.error("`snapshot` is a known name, but this version does not perform it yet")),
        None => Ok(SnapshotMethod::Markers),
    }
}
