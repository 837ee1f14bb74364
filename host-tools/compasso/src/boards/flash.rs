//! `compasso flash`: images and pages for the whole fleet.

use super::{FLEET, load};
use crate::outcome::{Outcome, Talk};
use clap::Args;
use compasso_fleet::{
    Fleet,
    flash::{self, Stage},
    pages,
    probe::ProbeRs,
};
use compasso_scenario::Scenario;
use compasso_stage::setup::{self, Needs, Toolchain};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// `compasso flash`.
#[derive(Args)]
#[command(after_help = "Examples:
  compasso flash                        every board of fleet.toml, all at once, with probe-rs
  compasso flash --uf2 files            no probe: files/IMAGE.uf2 and files/node-ID.uf2 for the USB drive

Each image is built once. A board gets its image, then its page, and starts. Without a probe: hold
BOOTSEL while plugging the board in, copy its image, do it again, copy its page.")]
pub struct FlashArgs {
    /// The file that names the boards.
    #[arg(long, value_name = "FILE", default_value = FLEET)]
    fleet: PathBuf,
    /// What the boards perform [default: the fleet's scenario, or scenarios/concert.toml].
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// Write UF2 files to this folder instead of boards.
    #[arg(long, value_name = "DIR")]
    uf2: Option<PathBuf>,
    /// Print what was done as one JSON document on stdout.
    #[arg(long)]
    json: bool,
    /// Say nothing but what failed.
    #[arg(long, short)]
    quiet: bool,
}

/// Flashes the fleet.
pub fn flash(args: &FlashArgs) -> Outcome {
    let talk = Talk { json: args.json, quiet: args.quiet };
    let (fleet, scenario) = match load(&args.fleet, args.scenario.as_deref()) {
        Ok(loaded) => loaded,
        Err(line) => return talk.fail(Outcome::BadInput, &line),
    };
    if args.uf2.is_none() && fleet.boards.iter().all(|board| board.probe.is_none()) {
        let line = format!("{}: board: expected a `probe` for at least one board, or --uf2 DIR", fleet.file);
        return talk.fail(Outcome::BadInput, &line);
    }
    let done = match &args.uf2 {
        Some(folder) => write_files(talk, &fleet, &scenario, folder),
        None => through_probes(talk, &fleet, &scenario),
    };
    match done {
        Ok(document) => {
            let all_well = document["exit"] == json!(0);
            talk.document(&document);
            if all_well { Outcome::Held } else { Outcome::Environment }
        }
        Err(line) => talk.fail(Outcome::Environment, &line),
    }
}

fn toolchain(talk: Talk) -> Result<Toolchain, String> {
    let toolchain = setup::ensure(&Needs { compiler: true, emulator: false }).map_err(|error| error.to_string())?;
    Ok(Toolchain { quiet: talk.quiet, ..toolchain })
}

/// Builds each image of the fleet once.
pub fn build(talk: Talk, fleet: &Fleet) -> Result<BTreeMap<&'static str, PathBuf>, String> {
    let toolchain = toolchain(talk)?;
    let built = flash::images(fleet).into_iter().map(|image| {
        let elf = toolchain.build_image(image).map_err(|error| error.to_string())?;
        Ok((image.image(), elf))
    });
    built.collect()
}

fn through_probes(talk: Talk, fleet: &Fleet, scenario: &Scenario) -> Result<Value, String> {
    let told = |error: setup::EnvironmentError| error.to_string();
    let probe_rs = ProbeRs::find().map_err(told)?;
    // Looked for before anything is built: that takes a minute, and plugging a probe in a second.
    let serials: Vec<&str> = fleet.boards.iter().filter_map(|board| board.probe.as_deref()).collect();
    probe_rs.select(&serials).map_err(told)?;
    let elfs = build(talk, fleet)?;
    let jobs = flash::jobs(fleet, scenario, &probe_rs, &elfs)?;
    let ended = Display::new(talk, &jobs).watch(&probe_rs, &jobs);
    let rows: Vec<Value> = fleet
        .boards
        .iter()
        .map(|board| {
            let error = match &board.probe {
                Some(_) => ended.get(&board.node).cloned().flatten(),
                None => Some("it has no probe".to_owned()),
            };
            let is_flashed = error.is_none();
            json!({ "node": board.node, "image": board.image.image(), "probe": board.probe, "ok": is_flashed, "error": error })
        })
        .collect();
    for board in fleet.boards.iter().filter(|board| board.probe.is_none()) {
        talk.say(&format!("node {} has no probe: compasso flash --uf2 DIR writes its files", board.node));
    }
    let failed = ended.values().flatten().count();
    let exit = if failed == 0 { Outcome::Held } else { Outcome::Environment };
    if failed == 0 {
        talk.show(&format!("{} boards flashed, performing {}", jobs.len(), scenario.name));
    }
    Ok(json!({ "boards": rows, "scenario": scenario.name, "exit": exit.status() }))
}

fn write_files(talk: Talk, fleet: &Fleet, scenario: &Scenario, folder: &Path) -> Result<Value, String> {
    let cannot = |path: &Path, error: std::io::Error| format!("cannot write {}: {error}", path.display());
    fs::create_dir_all(folder).map_err(|error| cannot(folder, error))?;
    let generation = flash::generation(fleet)?;
    let mut files = Vec::new();
    for board in &fleet.boards {
        let path = folder.join(format!("node-{}.uf2", board.node));
        let bytes = pages::to_uf2(&pages::sector(fleet, board, scenario, generation));
        flash::write_private(&path, &bytes).map_err(|error| cannot(&path, error))?;
        files.push(path);
    }
    let toolchain = toolchain(talk)?;
    for image in flash::images(fleet) {
        let built = toolchain.build_uf2(image).map_err(|error| error.to_string())?;
        let path = folder.join(format!("{}.uf2", image.image()));
        fs::copy(&built, &path).map_err(|error| cannot(&path, error))?;
        files.push(path);
    }
    let files: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
    talk.show(&format!("written: {}", files.join(", ")));
    Ok(json!({ "files": files, "scenario": scenario.name, "exit": Outcome::Held.status() }))
}

/// One line a board.
pub struct Display {
    talk: Talk,
    all: MultiProgress,
    bars: BTreeMap<u16, ProgressBar>,
}

impl Display {
    /// All boards wait.
    pub fn new(talk: Talk, jobs: &[flash::Job]) -> Display {
        let target = if talk.quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let all = MultiProgress::with_draw_target(target);
        let bar = |job: &flash::Job| {
            let bar = all.add(ProgressBar::new_spinner());
            if let Ok(style) = ProgressStyle::with_template("{prefix} {spinner} {msg} {elapsed}") {
                bar.set_style(style);
            }
            bar.set_prefix(format!("node {}", job.node));
            bar.enable_steady_tick(Duration::from_millis(100));
            (job.node, bar)
        };
        let bars = jobs.iter().map(bar).collect();
        Display { talk, all, bars }
    }

    /// Does the jobs; returns for each node why it failed, if it did.
    pub fn watch(self, probe_rs: &ProbeRs, jobs: &[flash::Job]) -> BTreeMap<u16, Option<String>> {
        let mut ended = BTreeMap::new();
        flash::perform(probe_rs, jobs, &mut |node, stage| {
            let line = match stage {
                Stage::Image => "its image is written".to_owned(),
                Stage::Page => "its page is written".to_owned(),
                Stage::Done => "runs".to_owned(),
                Stage::Failed(why) => format!("failed: {why}"),
            };
            match stage {
                Stage::Failed(why) => {
                    ended.insert(node, Some(why.clone()));
                    let _ = self.all.println(format!("compasso: node {node}: {line}"));
                    if self.all.is_hidden() {
                        anstream::eprintln!("compasso: node {node}: {line}");
                    }
                }
                Stage::Image | Stage::Page | Stage::Done => {
                    if self.all.is_hidden() {
                        self.talk.say(&format!("node {node}: {line}"));
                    }
                }
            }
            if let Some(bar) = self.bars.get(&node) {
                bar.set_message(line);
                if *stage == Stage::Done {
                    ended.insert(node, None);
                    bar.finish();
                }
            }
        });
        ended
    }
}
