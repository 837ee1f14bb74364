//! The sections of what is built on turns, leaders and time: cache, commit, snapshots; and names of resources.

use crate::{
    error::ScenarioError,
    parse::section,
    reader::{Field, Section},
};
use compasso_wire::{
    config::{Cache, Commit, SnapshotMethod},
    limits::RESOURCES_MAX,
};

/// A list of at most `most` names that differ from each other and from `known`.
pub(crate) fn resources(field: &Field<'_>, known: &[String], most: usize) -> Result<Vec<String>, ScenarioError> {
    let mut names: Vec<String> = Vec::new();
    for item in field.list("a list of names like [\"a\", \"b\"]")? {
        let name = name(&item)?;
        if names.iter().chain(known).any(|other| *other == name) {
            return Err(item.error(format!("expected each resource once; `{name}` occurs twice")));
        }
        names.push(name);
    }
    let room = most.min(RESOURCES_MAX - known.len());
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
    let Some(section) = section(root, "snapshot")? else { return Ok(SnapshotMethod::Markers) };
    section.refuse_unknown(&["method"], &[])?;
    section.get("method").map_or(Ok(SnapshotMethod::Markers), |field| {
        field.choose(&[("markers", SnapshotMethod::Markers), ("unsynchronized", SnapshotMethod::Unsynchronized)], &[])
    })
}
