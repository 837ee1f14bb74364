//! Files that are saved on one node and built on another: steps, and a workload of them.

use crate::{
    error::ScenarioError,
    model::Scenario,
    parse::section,
    reader::{Field, Section},
    span::format_duration,
    step::{Action, Step},
};
use compasso_wire::{Duration, limits::FILES_MAX};

/// The workload begins when everybody has cluster time.
const FIRST_AT: Duration = Duration(2_000_000);
/// A save is not sooner after the one before.
const EVERY_MIN: Duration = Duration(10_000);
/// So often the same two nodes save and build before others do.
const ROUNDS: u64 = 4;

/// Adds the steps of `[make]`.
pub(crate) fn add_workload(root: &Section<'_>, scenario: &mut Scenario) -> Result<(), ScenarioError> {
    const SHAPE: &str = "a table like { every = \"200ms\" }";
    let Some(section) = section(root, "make")? else { return Ok(()) };
    section.refuse_unknown(&["workload"], &[])?;
    let field = section.require("workload", SHAPE)?;
    let table = field.table(SHAPE)?;
    table.refuse_unknown(&["every"], &[])?;
    let every_field = table.require("every", "a duration like \"200ms\"")?;
    let every = every_field.duration()?;
    if every < EVERY_MIN {
        return Err(every_field.error(format!("expected at least {}", format_duration(EVERY_MIN))));
    }
    if !scenario.names.files.is_empty() {
        return Err(field.error("expected either a workload or `edit` and `build` steps, found both"));
    }
    let made = expand(scenario, every);
    scenario.steps.extend(made);
    scenario.steps.sort_by_key(|step| step.at);
    Ok(())
}

/// `edit` or `build`.
pub(crate) fn action(field: &Field<'_>, name: &str, scenario: &mut Scenario) -> Result<Action, ScenarioError> {
    let table = field.table("a table like { node = 0, file = \"main\" }")?;
    table.refuse_unknown(&["node", "file"], &[])?;
    let node = table.require("node", "the id of a node")?.id(&scenario.ids)?;
    let file_field = table.require("file", "the name of a file")?;
    let file = numbered(&mut scenario.names.files, &crate::services::name(&file_field)?)
        .ok_or_else(|| file_field.error(format!("expected at most {FILES_MAX} different files")))?;
    Ok(if name == "edit" { Action::Edit { node, file } } else { Action::Build { node, file, source: node } })
}

fn numbered(files: &mut Vec<String>, name: &str) -> Option<u8> {
    let known = files.iter().position(|other| other == name);
    let at = known.unwrap_or_else(|| {
        files.push(name.to_owned());
        files.len() - 1
    });
    (at < FILES_MAX).then_some(at as u8)
}

/// Tells every `build` where its source is: a file is saved on one node only, and built on others.
pub(crate) fn find_sources(steps: &mut [(Step, Section<'_>)]) -> Result<(), ScenarioError> {
    let mut homes: [Option<u16>; FILES_MAX] = [None; FILES_MAX];
    for (step, section) in steps {
        let wrong = |name: &str, message: String| {
            let at = section.get(name).map_or(section.at, |field| field.at);
            Err(section.source.error(at, &format!("{}.{name}", section.path), message))
        };
        match &mut step.action {
            Action::Edit { node, file } => match homes[usize::from(*file)] {
                Some(home) if home != *node => {
                    return wrong("edit", format!("expected each file to be saved on one node; this one is on {home}"));
                }
                _ => homes[usize::from(*file)] = Some(*node),
            },
            Action::Build { node, file, source } => match homes[usize::from(*file)] {
                Some(home) if home != *node => *source = home,
                Some(_) => return wrong("build", "expected another node than the one that has the source".to_owned()),
                None => return wrong("build", "expected an `edit` of the file before".to_owned()),
            },
            _ => {}
        }
    }
    Ok(())
}

/// The steps of the workload: two nodes save and build for some rounds, then the next two, if they are up.
fn expand(scenario: &mut Scenario, every: Duration) -> Vec<Step> {
    let (ids, steps) = (scenario.ids.clone(), scenario.steps.clone());
    let count = ids.len() as u64;
    let half = Duration(every.0 / 2);
    let mut made = Vec::new();
    for (round, at) in (FIRST_AT.0..scenario.stop_requests_at().0).step_by(every.0 as usize).enumerate() {
        let pair = round as u64 / ROUNDS;
        let saver = pair % count;
        let builder = (saver + 1 + pair / count % (count - 1)) % count;
        let (saver, builder) = (ids[saver as usize], ids[builder as usize]);
        let Some(file) = numbered(&mut scenario.names.files, &format!("file-{saver}")) else { continue };
        let (at, then) = (Duration(at), Duration(at) + half);
        if is_up(&steps, saver, at, then) && is_up(&steps, builder, at, then) {
            // Every now and then nothing has changed, and there is nothing to build.
            if round as u64 % ROUNDS != ROUNDS - 1 {
                made.push(Step { at, action: Action::Edit { node: saver, file } });
            }
            made.push(Step { at: then, action: Action::Build { node: builder, file, source: saver } });
        }
    }
    made
}

/// Nothing is done to the node between the two moments, and it runs.
fn is_up(steps: &[Step], id: u16, from: Duration, until: Duration) -> bool {
    let mut up = true;
    for step in steps.iter().take_while(|step| step.at <= until) {
        match step.action {
            Action::Crash(node) | Action::Pause(node) if node == id => up = false,
            Action::Restart(node) | Action::Resume(node) if node == id => up = step.at <= from,
            _ => {}
        }
    }
    up
}
