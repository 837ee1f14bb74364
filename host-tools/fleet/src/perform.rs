//! Performs a scenario on real boards: its commands go over the network, and nobody touches a board.

use crate::{Fleet, collect::Station};
use compasso_checker::{Event, Fault, TraceEvent};
use compasso_scenario::{Action, Scenario, Step, format_duration};
use compasso_stage::{Progress, StageError};
use compasso_wire::{config::TimeSource, message::Command};
use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

/// How long boards may take until they are heard.
pub const BOOT_MAX: Duration = Duration::from_secs(60);
/// How long after the end open requests are waited for.
pub const DRAIN_MAX: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What a performance leaves behind.
#[derive(Debug)]
pub struct Performed {
    /// The trace.
    pub trace: Vec<TraceEvent>,
    /// Why it did not end in time, if it did not.
    pub overdue: Option<String>,
    /// It was ended early on request.
    pub interrupted: bool,
    /// Boards that began another life in the middle of it: (node, incarnation).
    pub rebooted: Vec<(u16, u32)>,
}

/// Whether boards can perform every step of a scenario by themselves.
///
/// # Errors
/// One line that names the first step that needs hands.
pub fn feasible(scenario: &Scenario) -> Result<(), String> {
    let needs = |step: &Step| {
        let (name, why) = match &step.action {
            Action::Crash(id) => (format!("crash = {id}"), "somebody must pull its plug"),
            Action::Restart(id) => (format!("restart = {id}"), "somebody must plug it in"),
            Action::Pause(id) => (format!("pause = {id}"), "nobody stops a real processor"),
            Action::Resume(id) => (format!("resume = {id}"), "nobody stops a real processor"),
            Action::Partition(_) => ("partition".into(), "somebody must pull cables"),
            Action::Heal => ("heal".into(), "somebody must plug cables in"),
            Action::SetSkew { node, .. } => (format!("set_skew of {node}"), "nobody bends a real crystal"),
            Action::Lock { .. }
            | Action::Elect(_)
            | Action::DropToken
            | Action::Acquire { .. }
            | Action::Release { .. }
            | Action::Claims { .. }
            | Action::Snapshot { .. }
            | Action::Label { .. }
            | Action::Send { .. }
            | Action::Leap(_)
            | Action::TimeServer { .. }
            | Action::Lie { .. }
            | Action::Read(_)
            | Action::Write(_)
            | Action::Transaction { .. }
            | Action::Edit { .. }
            | Action::Build { .. } => return None,
        };
        Some(format!("the step at {} ({name}) cannot be performed on boards: {why}", format_duration(step.at)))
    };
    match scenario.steps.iter().find_map(needs) {
        Some(line) => Err(line),
        None => Ok(()),
    }
}

/// Performs a scenario on boards that have its pages.
///
/// # Errors
/// If boards are not heard, or the socket fails: then there is no verdict to be had.
pub fn perform(
    fleet: &Fleet,
    scenario: &Scenario,
    mut station: Station<'_>,
    interrupted: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Performed, StageError> {
    let is_interrupted = || interrupted.load(Ordering::Relaxed);
    let pump = |station: &mut Station<'_>, patience: Duration| {
        station.pump(patience).map_err(|cause| StageError::Files { doing: "listening to the boards", cause })
    };
    await_boards(fleet, &mut station, &is_interrupted, progress)?;
    let lives = station.talking();
    let stage = Stage { scenario, begun: station.now() };
    stage.begin(&mut station);
    let duration = Duration::from_micros(scenario.duration.0);
    let stop_at = Duration::from_micros(scenario.stop_requests_at().0);
    let mut steps = scenario.steps.iter().peekable();
    let mut is_stopped = false;
    loop {
        let at = station.now() - stage.begun;
        progress(&Progress::Running { at: at.min(duration), of: duration, events: station.events() });
        if is_interrupted() {
            break;
        }
        while let Some(step) = steps.next_if(|step| Duration::from_micros(step.at.0) <= at) {
            stage.act(&mut station, step);
            progress(&Progress::Performed(step.clone()));
        }
        if !is_stopped && at >= stop_at {
            is_stopped = true;
            fleet.ids().into_iter().for_each(|id| station.command(id, Command::StopWorkload));
        }
        if at >= duration {
            break;
        }
        pump(&mut station, LOOK_EVERY)?;
    }
    let overdue = if is_interrupted() { None } else { drain(fleet, &mut station, &is_interrupted, progress)? };
    let is_complete = !is_interrupted();
    let rebooted = rebooted(&lives, &station);
    Ok(Performed { trace: station.finish(scenario, is_complete), overdue, interrupted: !is_complete, rebooted })
}

fn rebooted(lives: &BTreeMap<u16, u32>, station: &Station<'_>) -> Vec<(u16, u32)> {
    let is_later = |(node, inc): &&(u16, u32)| lives.get(node).is_some_and(|first| inc > first);
    station.lives().iter().filter(is_later).copied().collect()
}

fn await_boards(
    fleet: &Fleet,
    station: &mut Station<'_>,
    is_interrupted: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<(), StageError> {
    let of = fleet.boards.len();
    loop {
        let talking = station.talking();
        progress(&Progress::Booting { booted: talking.len(), of });
        if talking.len() == of || is_interrupted() {
            return Ok(());
        }
        if station.now() > BOOT_MAX {
            let silent = fleet.ids().into_iter().filter(|id| !talking.contains_key(id));
            let silent: Vec<String> = silent.map(|id| id.to_string()).collect();
            let what =
                format!("node {} was not heard at {} within {} s", silent.join(", "), fleet.bind, BOOT_MAX.as_secs());
            let mend = "look at its lamp (docs/boards.md says what it means), its cable, and whether it holds the page of \
                        this scenario (compasso provision)";
            return Err(compasso_stage::setup::EnvironmentError::new(what, mend).into());
        }
        station.pump(LOOK_EVERY).map_err(|cause| StageError::Files { doing: "listening to the boards", cause })?;
    }
}

/// Waits until every request has been served, and every command taken. Returns what was not.
fn drain(
    fleet: &Fleet,
    station: &mut Station<'_>,
    is_interrupted: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Option<String>, StageError> {
    let until = station.now() + DRAIN_MAX;
    loop {
        let open = station.open_requests();
        let talking = station.talking();
        let obeyed = fleet.members().iter().all(|id| !talking.contains_key(&id.0) || station.host().is_obeyed(*id));
        progress(&Progress::Draining { open });
        if (open == 0 && obeyed) || is_interrupted() {
            return Ok(None);
        }
        if station.now() > until {
            let what = format!("a node did not take its last command within {} s", DRAIN_MAX.as_secs());
            return Ok((!obeyed).then_some(what));
        }
        station.pump(LOOK_EVERY).map_err(|cause| StageError::Files { doing: "listening to the boards", cause })?;
    }
}

struct Stage<'s> {
    scenario: &'s Scenario,
    begun: Duration,
}

impl Stage<'_> {
    fn begin(&self, station: &mut Station<'_>) {
        if self.scenario.clock.source == TimeSource::Host {
            let tai_origin_us = self.scenario.tai_begin_us() - self.begun.as_micros() as i64;
            station.host().serve_time(tai_origin_us, self.scenario.clock.hosts);
        }
    }

    fn act(&self, station: &mut Station<'_>, step: &Step) {
        let fault = match &step.action {
            Action::DropToken => {
                // The token passes by everybody: one node that waits for it is enough.
                let first = station.talking().into_keys().next();
                if let Some(id) = first {
                    station.command(id, Command::DropToken);
                }
                Some(Fault::DropToken)
            }
            Action::Leap(by) => {
                if let Some(leap) = self.scenario.leap(step) {
                    station.host().announce(leap);
                }
                Some(Fault::Leap((*by).into()))
            }
            Action::TimeServer { host, serves } => {
                station.host().set_serving(*host, *serves);
                Some(Fault::TimeServer { host: *host, serves: *serves })
            }
            Action::Lie { host, lie } => {
                let now = station.now();
                station.host().lie(now, *host, *lie);
                Some(Fault::Lie { host: *host, lie: *lie })
            }
            Action::Crash(_)
            | Action::Restart(_)
            | Action::Pause(_)
            | Action::Resume(_)
            | Action::Partition(_)
            | Action::Heal
            | Action::SetSkew { .. } => None, // Refused before anything began.
            Action::Lock { .. }
            | Action::Elect(_)
            | Action::Acquire { .. }
            | Action::Release { .. }
            | Action::Claims { .. }
            | Action::Snapshot { .. }
            | Action::Label { .. }
            | Action::Send { .. }
            | Action::Read(_)
            | Action::Write(_)
            | Action::Transaction { .. }
            | Action::Edit { .. }
            | Action::Build { .. } => None,
        };
        for (id, command) in self.scenario.commands(step) {
            station.command(id, command);
        }
        if let Some(fault) = fault {
            station.note(Event::Fault(fault));
        }
    }
}
