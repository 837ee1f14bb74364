//! Which rebuilds each kind of stamp made, and which it missed.

use super::sections::{MakeSection, StampsSection};
use crate::{
    index::Trace,
    properties::make::{Build, KINDS, Outcome, builds},
    trace::Event,
};

/// So many misses of a kind are named.
const NAMED_MAX: usize = 10;

pub(super) fn section(trace: &Trace<'_>) -> MakeSection {
    let builds = builds(trace);
    let kinds = (0..KINDS.len()).filter_map(|kind| Some((KINDS[kind].to_owned(), stamps(trace, &builds, kind)?)));
    let is_due = |build: &&Build| matches!(build.outcomes[2], Some(Outcome::Rebuilt | Outcome::Missed));
    let synchronized = builds.iter().any(|build| build.outcomes[1].is_some());
    MakeSection {
        decides: if synchronized { KINDS[1] } else { KINDS[0] }.to_owned(),
        edits: trace.events.iter().filter(|event| matches!(event.event, Event::Edited { .. })).count() as u64,
        builds: builds.len() as u64,
        due: builds.iter().filter(is_due).count() as u64,
        stamps: kinds.collect(),
    }
}

fn stamps(trace: &Trace<'_>, builds: &[Build], kind: usize) -> Option<StampsSection> {
    let outcomes = || builds.iter().filter_map(|build| Some((build.index, build.outcomes[kind]?)));
    outcomes().next()?;
    let count = |wanted: Outcome| outcomes().filter(|(_, outcome)| *outcome == wanted).count() as u64;
    let missed = outcomes().filter(|(_, outcome)| *outcome == Outcome::Missed).map(|(index, _)| index);
    Some(StampsSection {
        rebuilt: count(Outcome::Rebuilt) + count(Outcome::Needless),
        missed: count(Outcome::Missed),
        needless: count(Outcome::Needless),
        missed_at: trace.names(&missed.take(NAMED_MAX).collect::<Vec<_>>()),
    })
}
