//! `compasso collect`: everything that boards say, until Ctrl-C.

use super::{FLEET, flash, load};
use crate::{
    outcome::{Outcome, Talk},
    progress::{BAR_AFTER, note},
    run::{Performed, conclude},
};
use clap::Args;
use compasso_checker::{NetworkStats, many};
use compasso_fleet::{
    Fleet,
    collect::Station,
    logs::{Logs, Said, Source, log_path},
    probe::ProbeRs,
};
use compasso_scenario::{Expect, Scenario};
use compasso_stage::interrupt_flag;
use indicatif::ProgressBar;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::atomic::Ordering,
    time::Duration,
};

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// `compasso collect`.
#[derive(Args)]
#[command(after_help = "Examples:
  compasso collect                      until Ctrl-C; then the run's folder, judged
  compasso collect --out runs/lab       to another folder

Boards are never reset. They may be unplugged and plugged in again. A log is read only from a board
that runs the very build whose strings decode it.")]
pub struct CollectArgs {
    /// The file that names the boards.
    #[arg(long, value_name = "FILE", default_value = FLEET)]
    fleet: PathBuf,
    /// What the boards perform [default: the fleet's scenario, or scenarios/concert.toml].
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// The run's folder [default: `runs/NAME-SEED-boards`].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the summary as one JSON document on stdout.
    #[arg(long)]
    json: bool,
    /// Say nothing but the verdict.
    #[arg(long, short)]
    quiet: bool,
}

/// Collects until it is interrupted.
pub fn collect(args: &CollectArgs) -> Outcome {
    let talk = Talk { json: args.json, quiet: args.quiet };
    let (fleet, mut scenario) = match load(&args.fleet, args.scenario.as_deref()) {
        Ok(loaded) => loaded,
        Err(line) => return talk.fail(Outcome::BadInput, &line),
    };
    let out = match &args.out {
        Some(out) => out.clone(),
        None => PathBuf::from("runs").join(format!("{}-{}-boards", scenario.name, scenario.seed)),
    };
    match listen(talk, &fleet, &scenario, &out) {
        Ok(performed) => {
            // Nobody performed its steps, so nobody may expect what they lead to.
            scenario.expect = Expect::default();
            let repeat = format!("cargo compasso collect --fleet {}", fleet.file);
            let (outcome, document) = conclude(talk, &scenario, "boards", &out, repeat, performed);
            talk.document(&document);
            outcome
        }
        Err(line) => talk.fail(Outcome::Environment, &line),
    }
}

fn listen(talk: Talk, fleet: &Fleet, scenario: &Scenario, out: &Path) -> Result<Performed, String> {
    let mut station = Station::open(fleet, scenario).map_err(|error| error.to_string())?;
    let mut logs = start_logs(talk, fleet, out)?;
    let stop = interrupt_flag().map_err(|error| format!("cannot listen to signals: {error}"))?;
    talk.say(&format!("collecting at {} until Ctrl-C", fleet.bind));
    let bar = if talk.quiet { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
    bar.enable_steady_tick(BAR_AFTER / 20);
    let mut known = BTreeMap::new();
    while !stop.load(Ordering::Relaxed) {
        station.pump(LOOK_EVERY).map_err(|error| format!("listening at {} failed: {error}", fleet.bind))?;
        let talking = station.talking();
        for line in changes(&known, &talking) {
            note(&bar, talk, &line);
        }
        known = talking;
        tell_logs(&mut logs, &mut |line| note(&bar, talk, line));
        let events = many(station.events() as u64, "event");
        bar.set_message(format!("{} of {} boards, {events}", known.len(), fleet.boards.len()));
    }
    bar.finish_and_clear();
    if let Some(logs) = logs {
        logs.stop();
    }
    if station.events() == 0 {
        let refused: Vec<String> = station.refused().iter().map(|(why, count)| format!("{count} {why}")).collect();
        let refused = if refused.is_empty() { String::new() } else { format!(" (refused: {})", refused.join(", ")) };
        return Err(format!(
            "no board of {} was heard at {}{refused}; to mend it: see the troubleshooting in docs/boards.md",
            fleet.file, fleet.bind
        ));
    }
    let trace = station.finish(scenario, false);
    let network = NetworkStats::default();
    Ok(Performed { trace, network, failures: Vec::new(), overdue: None, interrupted: false })
}

/// What became of boards since the last look.
fn changes(before: &BTreeMap<u16, u32>, now: &BTreeMap<u16, u32>) -> Vec<String> {
    let came = now.iter().filter(|(node, inc)| before.get(node) != Some(inc));
    let went = before.keys().filter(|node| !now.contains_key(node));
    came.map(|(node, inc)| format!("node {node} is heard, in its life {inc}"))
        .chain(went.map(|node| format!("node {node} is no longer heard")))
        .collect()
}

/// Reads the logs of all boards that hang on a probe.
pub fn start_logs(talk: Talk, fleet: &Fleet, out: &Path) -> Result<Option<Logs>, String> {
    let told = |error: compasso_stage::setup::EnvironmentError| error.to_string();
    let folder = out.join("nodes");
    fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    let boards: Vec<_> = fleet.boards.iter().filter_map(|board| Some((board, board.probe.as_deref()?))).collect();
    if boards.is_empty() {
        return Ok(None);
    }
    let probe_rs = ProbeRs::find().map_err(told)?;
    let serials: Vec<&str> = boards.iter().map(|(_, serial)| *serial).collect();
    let probes = probe_rs.select(&serials).map_err(told)?;
    let elfs = flash::build(talk, fleet)?;
    let source = |((board, _), probe): (&(&compasso_fleet::Board, &str), _)| {
        let elf = elfs.get(board.image.image())?.clone();
        Some(Source { node: board.node, probe, elf, log: log_path(out, board.node) })
    };
    let sources = boards.iter().zip(probes).filter_map(source).collect();
    Logs::start(&probe_rs, sources).map(Some)
}

/// Says what happened to logs.
pub fn tell_logs(logs: &mut Option<Logs>, say: &mut dyn FnMut(&str)) {
    while let Some((node, said)) = logs.as_mut().and_then(Logs::poll) {
        say(&match said {
            Said::Attached => format!("node {node}: its log is read"),
            Said::OtherBuild => format!(
                "node {node}: its log is refused: it runs another build than this image; to mend it: compasso flash"
            ),
            Said::Lost(why) => format!("node {node}: its probe has lost it ({why}); looking for it again"),
        });
    }
}
