//! `compasso run --on boards`.

use super::{collect, flash, scenario_path};
use crate::{
    outcome::Talk,
    progress::Display,
    run::{Performed, last_lines},
};
use compasso_checker::NetworkStats;
use compasso_fleet::{
    Fleet, collect::Station, flash as fleet_flash, logs::log_path, perform as on_boards, probe::ProbeRs,
};
use compasso_scenario::{Network, Scenario};
use compasso_stage::{Failure, interrupt_flag};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Boards that could perform a scenario.
pub struct Rehearsed {
    /// The boards.
    pub fleet: Fleet,
    /// Where the scenario is.
    pub path: PathBuf,
}

/// Reads the fleet, and which scenario is meant.
pub fn rehearse(fleet: &Path, scenario: Option<&Path>) -> Result<Rehearsed, String> {
    let fleet = Fleet::load(fleet).map_err(|error| error.to_string())?;
    let path = scenario_path(&fleet, scenario)?;
    Ok(Rehearsed { fleet, path })
}

/// Performs a scenario on real boards.
pub fn perform(talk: Talk, fleet: &Fleet, scenario: &Scenario, out: &Path) -> Result<Performed, String> {
    if scenario.network != Network::default() {
        talk.say("the [network] of the scenario is ignored: boards have their own");
    }
    let interrupted = interrupt_flag().map_err(|error| format!("cannot listen to signals: {error}"))?;
    let mut station = Station::open(fleet, scenario).map_err(|error| error.to_string())?;
    write_pages(talk, fleet, scenario, &mut station)?;
    let mut logs = collect::start_logs(talk, fleet, out)?;
    let display = Display::new(talk, &scenario.name);
    let performed = on_boards::perform(fleet, scenario, station, &interrupted, &mut |progress| {
        collect::tell_logs(&mut logs, &mut |line| display.note(line));
        display.show(progress);
    });
    display.finish();
    if let Some(logs) = logs {
        logs.stop();
    }
    let performed = performed.map_err(|error| error.to_string())?;
    let failure = |(node, incarnation): (u16, u32)| Failure {
        node,
        incarnation,
        reason: format!("it began its life {incarnation} by itself"),
        last_lines: last_lines(&log_path(out, node)),
    };
    Ok(Performed {
        trace: performed.trace,
        network: NetworkStats::default(),
        failures: performed.rebooted.into_iter().map(failure).collect(),
        overdue: performed.overdue,
        interrupted: performed.interrupted,
    })
}

/// Gives every board with a probe its page of this scenario, and listens meanwhile: nothing that a board
/// says after its start is to be lost.
fn write_pages(talk: Talk, fleet: &Fleet, scenario: &Scenario, station: &mut Station<'_>) -> Result<(), String> {
    for board in fleet.boards.iter().filter(|board| board.probe.is_none()) {
        talk.say(&format!(
            "node {} has no probe: it must hold the page of this scenario already (compasso provision --node {} --uf2 FILE)",
            board.node, board.node
        ));
    }
    if fleet.boards.iter().all(|board| board.probe.is_none()) {
        return Ok(());
    }
    let probe_rs = ProbeRs::find().map_err(|error| error.to_string())?;
    let jobs = fleet_flash::jobs(fleet, scenario, &probe_rs, &BTreeMap::new())?;
    let display = flash::Display::new(talk, &jobs);
    let failed: Vec<String> = thread::scope(|scope| {
        let writing = scope.spawn(|| display.watch(&probe_rs, &jobs));
        while !writing.is_finished() {
            station.pump(LOOK_EVERY).map_err(|error| format!("listening at {} failed: {error}", fleet.bind))?;
        }
        let ended = writing.join().map_err(|_| "flashing panicked; please report this".to_owned())?;
        Ok::<_, String>(ended.into_iter().filter_map(|(node, why)| Some(format!("node {node}: {}", why?))).collect())
    })?;
    // Whoever was heard before the reset is not there any more.
    station.forget_heard();
    if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
}
