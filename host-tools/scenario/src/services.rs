//! The sections of what is built on turns, leaders and time: cache, commit, snapshots; and names of resources.

use crate::{
    error::ScenarioError,
    parse::section,
    reader::{Field, Section},
};
use compasso_wire::{
    Duration,
    config::{Cache, ClockChoice, Commit, SnapshotMethod},
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
pub(crate) fn cache(root: &Section<'_>, sync: ClockChoice) -> Result<Option<Cache>, ScenarioError> {
    let Some(section) = section(root, "cache")? else { return Ok(None) };
    section.refuse_unknown(&["lease", "invalidate", "workload"], &[])?;
    if sync == ClockChoice::None {
        return Err(section.error("expected [clock] sync to be other than \"none\": leases end by cluster time"));
    }
    let lease = positive(&section.require("lease", "how long a copy is valid, like \"500ms\"")?)?;
    let invalidate = section.get("invalidate").map_or(Ok(true), |field| field.boolean())?;
    let mut cache = Cache { lease, invalidate, read_every: None, write_every: None };
    if let Some(field) = section.get("workload") {
        let table = field.table("a table like { read = \"20ms\", write = \"400ms\" }")?;
        table.refuse_unknown(&["read", "write"], &[])?;
        cache.read_every = table.get("read").map(|field| positive(&field)).transpose()?;
        cache.write_every = table.get("write").map(|field| positive(&field)).transpose()?;
    }
    Ok(Some(cache))
}

/// `[commit]`.
pub(crate) fn commit(root: &Section<'_>) -> Result<Option<Commit>, ScenarioError> {
    let Some(section) = section(root, "commit")? else { return Ok(None) };
    section.refuse_unknown(&["workload", "refuse_one_in"], &[])?;
    let every = match section.get("workload") {
        Some(field) => {
            let table = field.table("a table like { every = \"300ms\" }")?;
            table.refuse_unknown(&["every"], &[])?;
            Some(positive(&table.require("every", "a duration like \"300ms\"")?)?)
        }
        None => None,
    };
    let refuse_one_in = section
        .get("refuse_one_in")
        .map_or(Ok(0), |field| field.integer(0..=u64::from(u16::MAX), "of how many votes one is no; 0: never"))?;
    Ok(Some(Commit { every, refuse_one_in: refuse_one_in as u16 }))
}

/// `[snapshot]`.
pub(crate) fn snapshots(root: &Section<'_>) -> Result<SnapshotMethod, ScenarioError> {
    let Some(section) = section(root, "snapshot")? else { return Ok(SnapshotMethod::Markers) };
    section.refuse_unknown(&["method"], &[])?;
    section.get("method").map_or(Ok(SnapshotMethod::Markers), |field| {
        field.choose(&[("markers", SnapshotMethod::Markers), ("unsynchronized", SnapshotMethod::Unsynchronized)], &[])
    })
}

/// A span of more than no time.
pub(crate) fn positive(field: &Field<'_>) -> Result<Duration, ScenarioError> {
    match field.duration()? {
        Duration::ZERO => Err(field.error("expected more than no time")),
        span => Ok(span),
    }
}
