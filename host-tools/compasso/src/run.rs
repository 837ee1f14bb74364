//! `compasso run`: the main job.

use crate::{
    boards,
    cli::RunArgs,
    outcome::{Outcome, Talk, failure},
    progress::Display,
    report, side_by_side,
};
use compasso_checker::{NetworkStats, RunInfo, Summary, TraceEvent, judge, render, trace::write_trace};
use compasso_fleet::{Fleet, perform::feasible};
use compasso_rp2040::{device::Device, effort::Begun};
use compasso_scenario::Scenario;
use compasso_stage::{
    Failure, Options, Progress, RunOutput, interrupt_flag, perform as perform_on_boards,
    rtt::LAST_LINES,
    setup::{self, BoardKind, EnvironmentError, Needs, RADIO_VARIABLE, Toolchain},
};
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    sync::atomic::Ordering,
};

const DEFAULT_SCENARIO: &str = "scenarios/concert.toml";

/// What is emulated unless `--image` says otherwise.
const DEFAULT_IMAGE: BoardKind = BoardKind::W5500EvbPico;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Sim,
    Qemu,
    Rp2040(BoardKind),
    Boards,
}

impl Stage {
    fn parse(name: &str, image: Option<&str>) -> Result<Stage, String> {
        match name {
            "sim" => Ok(Stage::Sim),
            "qemu" => Ok(Stage::Qemu),
            "rp2040" => emulated(image.unwrap_or(DEFAULT_IMAGE.image())).map(Stage::Rp2040),
            "boards" => Ok(Stage::Boards),
            _ => Err(format!("--on {name}: expected a stage, one of: sim, qemu, rp2040, boards")),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Stage::Sim => "sim",
            Stage::Qemu => "qemu",
            Stage::Rp2040(_) => "rp2040",
            Stage::Boards => "boards",
        }
    }

    /// What stands behind `--on` to get it again.
    fn arguments(self) -> String {
        match self {
            Stage::Rp2040(board) if board != DEFAULT_IMAGE => format!("rp2040 --image {}", board.image()),
            Stage::Sim | Stage::Qemu | Stage::Rp2040(_) | Stage::Boards => self.name().to_owned(),
        }
    }
}

/// The board whose image has this name, if it can be emulated.
fn emulated(image: &str) -> Result<BoardKind, String> {
    let boards: Vec<BoardKind> = Device::boards().collect();
    boards.iter().copied().find(|board| board.image() == image).ok_or_else(|| {
        let names: Vec<&str> = boards.iter().map(|board| board.image()).collect();
        format!("--image {image}: expected an image that can be emulated, one of: {}", names.join(", "))
    })
}

/// What a stage leaves behind, whichever it was.
pub struct Performed {
    /// The trace.
    pub trace: Vec<TraceEvent>,
    /// What the network did.
    pub network: NetworkStats,
    /// Boards that ended by themselves.
    pub failures: Vec<Failure>,
    /// Why the run did not end in time, if it did not.
    pub overdue: Option<String>,
    /// It was ended early on request.
    pub interrupted: bool,
}

/// What was asked for, all of it checked.
struct Prepared {
    path: PathBuf,
    scenario: Scenario,
    stages: Vec<Stage>,
    fleet: Option<Fleet>,
}

/// Performs an experiment on each stage that was asked for, and tells a machine that listens.
pub fn run(args: &RunArgs) -> Outcome {
    let (outcome, document) = experiment(args);
    Talk { json: args.json, quiet: args.quiet }.document(&document);
    outcome
}

/// Performs an experiment on each stage that was asked for: how it ended, and the document that says so.
pub fn experiment(args: &RunArgs) -> (Outcome, Value) {
    let talk = Talk { json: args.json, quiet: args.quiet };
    let Prepared { path, scenario, stages, fleet } = match prepare(args) {
        Ok(prepared) => prepared,
        Err(line) => {
            anstream::eprintln!("compasso: {line}");
            return (Outcome::BadInput, failure(Outcome::BadInput, &line));
        }
    };
    let mut outcome = Outcome::Held;
    let mut documents = Vec::new();
    for (turn, stage) in stages.iter().enumerate() {
        let earlier = stages.iter().take(turn).filter(|other| *other == stage).count();
        let out = folder(args, &scenario, *stage, stages.len(), earlier);
        let repeat =
            format!("cargo compasso run {} --on {} --seed {}", path.display(), stage.arguments(), scenario.seed);
        let (ended, document) = perform(talk, &scenario, *stage, fleet.as_ref(), &out, repeat);
        outcome = outcome.or(ended);
        let interrupted = document["interrupted"] == json!(true);
        documents.push(document);
        if interrupted {
            break;
        }
    }
    if documents.len() > 1 && !talk.quiet {
        talk.show(&side_by_side::render(&documents));
    }
    let document = match <[Value; 1]>::try_from(documents) {
        Ok([document]) if stages.len() == 1 => document,
        Ok([document]) => json!([document]),
        Err(documents) => Value::Array(documents),
    };
    (outcome, document)
}

fn prepare(args: &RunArgs) -> Result<Prepared, String> {
    let stages = args.on.iter().map(|name| Stage::parse(name, args.image.as_deref())).collect::<Result<Vec<_>, _>>()?;
    if args.image.is_some() && !stages.iter().any(|stage| matches!(stage, Stage::Rp2040(_))) {
        return Err("--image: only rp2040 emulates images; add --on rp2040".into());
    }
    let rehearsed = match stages.contains(&Stage::Boards) {
        true => Some(boards::rehearse(&args.fleet, args.scenario.as_deref())?),
        false => None,
    };
    let path = match &args.scenario {
        Some(path) => path.clone(),
        None if rehearsed.is_some() => rehearsed.as_ref().map(|boards| boards.path.clone()).unwrap_or_default(),
        None if Path::new(DEFAULT_SCENARIO).exists() => DEFAULT_SCENARIO.into(),
        None => setup::workspace_root().map_err(|error| error.to_string())?.join(DEFAULT_SCENARIO),
    };
    let mut scenario = Scenario::load(&path).map_err(|error| error.to_string())?;
    if let Some(seed) = args.seed {
        scenario = scenario.with_seed(seed);
    }
    let fleet = rehearsed.map(|boards| boards.fleet);
    if let Some(fleet) = &fleet {
        fleet.suits(&scenario)?;
        feasible(&scenario).map_err(|line| format!("{}: {line}", path.display()))?;
    }
    Ok(Prepared { path, scenario, stages, fleet })
}

/// Where a performance is written. One of a stage that had its turn before gets a number.
fn folder(args: &RunArgs, scenario: &Scenario, stage: Stage, stages: usize, earlier: usize) -> PathBuf {
    let number = if earlier == 0 { String::new() } else { format!("-{}", earlier + 1) };
    match &args.out {
        Some(out) if stages == 1 => out.clone(),
        Some(out) => out.join(format!("{}{number}", stage.name())),
        None => PathBuf::from("runs").join(format!("{}-{}-{}{number}", scenario.name, scenario.seed, stage.name())),
    }
}

fn perform(
    talk: Talk,
    scenario: &Scenario,
    stage: Stage,
    fleet: Option<&Fleet>,
    out: &Path,
    repeat: String,
) -> (Outcome, Value) {
    if let Err(error) = fs::create_dir_all(out) {
        let line = format!("cannot make the run's folder {}: {error}; choose another with --out", out.display());
        anstream::eprintln!("compasso: {line}");
        return (Outcome::Environment, failure(Outcome::Environment, &line));
    }
    talk.say(&format!(
        "{}: {} nodes, {} s, seed {}, on {}",
        scenario.name,
        scenario.ids.len(),
        scenario.duration.0 / 1_000_000,
        scenario.seed,
        stage.name()
    ));
    let performed = match stage {
        Stage::Sim => simulate(talk, scenario),
        Stage::Qemu => emulate(talk, scenario, out),
        Stage::Rp2040(board) => emulate_exactly(talk, scenario, board, out),
        Stage::Boards => match fleet {
            Some(fleet) => boards::perform(talk, fleet, scenario, out),
            None => Err("no fleet was prepared".into()),
        },
    };
    match performed {
        Ok(performed) => conclude(talk, scenario, stage.name(), out, repeat, performed),
        Err(line) => {
            anstream::eprintln!("compasso: {line}");
            (Outcome::Environment, failure(Outcome::Environment, &line))
        }
    }
}

fn simulate(talk: Talk, scenario: &Scenario) -> Result<Performed, String> {
    let stop = interrupt_flag().map_err(|error| format!("cannot listen to signals: {error}"))?;
    let display = Display::later(talk, &scenario.name);
    let of = std::time::Duration::from_micros(scenario.duration.0);
    let run = compasso_simulator::perform_watched(scenario, &mut |now, events| {
        let at = std::time::Duration::from_micros(now.0);
        display.show(&Progress::Running { at, of, events });
        !stop.load(Ordering::Relaxed)
    });
    display.finish();
    let interrupted = stop.load(Ordering::Relaxed);
    Ok(Performed { trace: run.trace, network: run.network, failures: Vec::new(), overdue: None, interrupted })
}

fn emulate(talk: Talk, scenario: &Scenario, out: &Path) -> Result<Performed, String> {
    let toolchain = setup::ensure(&Needs::ALL).map_err(|error| error.to_string())?;
    let toolchain = Toolchain { quiet: talk.quiet, ..toolchain };
    let image = toolchain.build_image(BoardKind::Qemu).map_err(|error| error.to_string())?;
    let qemu = toolchain.qemu.ok_or("no emulator was prepared")?;
    let interrupted = interrupt_flag().map_err(|error| format!("cannot listen to signals: {error}"))?;
    let options = Options { qemu, image, out: out.to_owned(), interrupted };
    let display = Display::new(talk, &scenario.name);
    let output = perform_on_boards(scenario, &options, &mut |progress| display.show(progress));
    display.finish();
    let RunOutput { events, network, failures, overdue, interrupted, .. } =
        output.map_err(|error| error.to_string())?;
    Ok(Performed { trace: events, network: network.into(), failures, overdue, interrupted })
}

/// Built without the radio's firmware, the image refuses to run.
fn without_radio() -> String {
    let what = "pico-w needs its radio's firmware, which is not ours to ship (docs/boards.md says where it is)";
    EnvironmentError::new(what, format!("export {RADIO_VARIABLE}=FOLDER, and try again")).to_string()
}

fn emulate_exactly(talk: Talk, scenario: &Scenario, board: BoardKind, out: &Path) -> Result<Performed, String> {
    let toolchain = setup::ensure(&Needs { compiler: true, emulator: false }).map_err(|error| error.to_string())?;
    let toolchain = Toolchain { quiet: talk.quiet, ..toolchain };
    if board == BoardKind::PicoW && toolchain.radio.is_none() {
        return Err(without_radio());
    }
    let image = toolchain.build_image(board).map_err(|error| error.to_string())?;
    let interrupted = interrupt_flag().map_err(|error| format!("cannot listen to signals: {error}"))?;
    let options = compasso_rp2040::Options { board, image, out: out.to_owned(), interrupted };
    let display = Display::new(talk, &scenario.name);
    let begun = Begun::now();
    let output = compasso_rp2040::perform(scenario, &options, &mut |progress| display.show(progress));
    let effort = begun.effort();
    display.finish();
    let RunOutput { events, network, failures, overdue, interrupted, lasted, .. } =
        output.map_err(|error| error.to_string())?;
    let (lasted, core) = (lasted.as_secs_f64(), effort.core.as_secs_f64());
    talk.say(&format!(
        "{lasted:.1} s of {} boards took {core:.1} s of a core, {:.1} s by the clock: {:.1} times real time on a core",
        scenario.ids.len(),
        effort.wall.as_secs_f64(),
        lasted / core
    ));
    Ok(Performed { trace: events, network: network.into(), failures, overdue, interrupted })
}

/// Judges what was performed and writes the run's folder.
pub fn conclude(
    talk: Talk,
    scenario: &Scenario,
    stage: &str,
    out: &Path,
    repeat: String,
    performed: Performed,
) -> (Outcome, Value) {
    let info = RunInfo { repeat, ..RunInfo::new(scenario.clone(), stage, performed.network) };
    let summary = judge(&performed.trace, &info);
    let mut document = json!(summary);
    document["interrupted"] = json!(performed.interrupted);
    document["failures"] = performed.failures.iter().map(describe_failure).collect();
    document["overdue"] = json!(performed.overdue);
    show(talk, &summary, out);
    let mut outcome = if summary.exit_code() == 0 { Outcome::Held } else { Outcome::Violated };
    if let Some(why) = &performed.overdue {
        anstream::eprintln!("compasso: the run did not end in time: {why}");
        outcome = outcome.or(Outcome::Overdue);
    }
    for failure in &performed.failures {
        anstream::eprintln!("compasso: node {} ended by itself ({})", failure.node, failure.reason);
        for line in &failure.last_lines {
            anstream::eprintln!("    {line}");
        }
        outcome = outcome.or(Outcome::NodeCrashed);
    }
    document["exit"] = json!(outcome.status());
    if let Err(error) = write_folder(out, scenario, &performed.trace, &document) {
        anstream::eprintln!("compasso: cannot write to {}: {error}; choose another folder with --out", out.display());
        outcome = outcome.or(Outcome::Environment);
        document["exit"] = json!(outcome.status());
    }
    (outcome, document)
}

/// The last lines of a log.
pub fn last_lines(log: &Path) -> Vec<String> {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].iter().map(|line| (*line).to_owned()).collect()
}

fn describe_failure(failure: &Failure) -> Value {
    json!({
        "node": failure.node,
        "incarnation": failure.incarnation,
        "reason": failure.reason,
        "last_lines": failure.last_lines,
    })
}

fn write_folder(out: &Path, scenario: &Scenario, trace: &[TraceEvent], document: &Value) -> io::Result<()> {
    fs::write(out.join("scenario.toml"), scenario.to_toml())?;
    let mut file = BufWriter::new(File::create(out.join("trace.jsonl"))?);
    write_trace(trace, &mut file)?;
    file.flush()?;
    fs::write(out.join("summary.json"), format!("{document:#}\n"))?;
    report::write(out, trace, document).map(drop)
}

fn show(talk: Talk, summary: &Summary, out: &Path) {
    if talk.quiet {
        talk.show(if summary.exit_code() == 0 { "held" } else { "violated" });
    } else {
        talk.show(&render(summary, true));
        talk.show(&format!("written to {}/", out.display()));
    }
}
