//! make: no rebuild is missed.
//!
//! A rebuild is missed where a node finds its object up to date although its source was saved since that object was
//! built. Each kind of stamp has an object of its own, so one kind's mistake does not hide another's. What is
//! promised: by synchronized clocks none is missed, nor by logical ones; where clocks are not synchronized, the
//! boards' own clocks are what decides, and what they miss counts.

use super::unique;
use crate::{
    findings::Findings,
    index::Trace,
    trace::{Event, Text},
};
use std::collections::BTreeMap;

/// The kinds of stamps, by their names in the trace.
pub(crate) const KINDS: [&str; 3] = ["raw", "synchronized", "logical"];

/// What one kind of stamp made of one build.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// It was due, and done.
    Rebuilt,
    /// Nothing had changed, and nothing was done.
    UpToDate,
    /// It was due, and not done.
    Missed,
    /// Nothing had changed, and it was done.
    Needless,
}

/// One look at an object.
pub(crate) struct Build {
    pub(crate) index: usize,
    /// When the source was saved, if the trace has that.
    pub(crate) saved: Option<usize>,
    /// By each of [`KINDS`]; nothing where clocks are not synchronized.
    pub(crate) outcomes: [Option<Outcome>; 3],
}

/// A save: who, in which life, at which Lamport time.
type Edit = (u16, u32, u64);

/// All builds, life by life.
pub(crate) fn builds(trace: &Trace<'_>) -> Vec<Build> {
    let edits = edits(trace);
    let mut builds = Vec::new();
    for stream in trace.streams.values() {
        let mut objects: BTreeMap<(usize, &Text), Edit> = BTreeMap::new();
        for index in stream.iter().copied() {
            let Event::Built { file, source, source_inc, edit, raw, synchronized, logical } = &trace.event(index).event
            else {
                continue;
            };
            let edit: Edit = (*source, *source_inc, *edit);
            let mut judge = |kind: usize, rebuilt: bool| {
                let due = objects.get(&(kind, file)) != Some(&edit);
                if rebuilt {
                    objects.insert((kind, file), edit);
                }
                match (due, rebuilt) {
                    (true, true) => Outcome::Rebuilt,
                    (false, false) => Outcome::UpToDate,
                    (true, false) => Outcome::Missed,
                    (false, true) => Outcome::Needless,
                }
            };
            let outcomes =
                [Some(judge(0, *raw)), synchronized.map(|rebuilt| judge(1, rebuilt)), Some(judge(2, *logical))];
            builds.push(Build { index, saved: edits.get(&(edit, file)).copied(), outcomes });
        }
    }
    builds
}

fn edits<'a>(trace: &Trace<'a>) -> BTreeMap<(Edit, &'a Text), usize> {
    let edit = |index: usize| {
        let event = trace.event(index);
        match &event.event {
            Event::Edited { file } => Some((((event.node_id()?, event.inc, event.lamport?), file), index)),
            _ => None,
        }
    };
    trace.streams.values().flatten().copied().filter_map(edit).collect()
}

/// Whether a kind is promised to miss nothing in this build.
fn is_promised(kind: usize, build: &Build) -> bool {
    kind != 0 || build.outcomes[1].is_none()
}

pub(super) fn check(trace: &Trace<'_>, findings: &mut Findings) {
    let builds = builds(trace);
    if builds.is_empty() {
        findings.not_checked("make", "nobody builds anything in this run", 1);
        return;
    }
    let mut decided = 0;
    for build in &builds {
        let missed: Vec<&str> = (0..KINDS.len())
            .filter(|kind| build.outcomes[*kind] == Some(Outcome::Missed) && is_promised(*kind, build))
            .map(|kind| KINDS[kind])
            .collect();
        match missed[..] {
            [] => decided += 1,
            _ => tell(trace, build, &missed.join(" and "), findings),
        }
    }
    findings.decided("make", decided);
}

fn tell(trace: &Trace<'_>, build: &Build, kinds: &str, findings: &mut Findings) {
    let event = trace.event(build.index);
    let node = event.node_id().unwrap_or_default();
    let Event::Built { file, source, .. } = &event.event else { return };
    let when = build.saved.and_then(|saved| trace.event(saved).true_us).zip(event.true_us);
    let ago = when.map_or(String::new(), |(saved, now)| format!(" {} us before", now - saved));
    findings.violation(
        "make",
        event.at_us(),
        unique([node, *source]),
        format!("missed: {source} had saved {file}{ago}, and by its {kinds} stamp {node} found its object up to date"),
        trace.names(&build.saved.into_iter().chain([build.index]).collect::<Vec<_>>()),
    );
}
