//! Where the runs of a comparison are performed.

use super::observe::Observed;
use crate::{
    outcome::{Outcome, Talk},
    progress::BAR_AFTER,
};
use compasso_scenario::Scenario;
use compasso_stage::{
    Options, RunOutput, StageError, interrupt_flag, perform as perform_on_boards,
    setup::{self, BoardKind, Needs, Toolchain},
};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::{
    num::NonZeroUsize,
    path::Path,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Instant,
};

/// Where to perform.
pub enum Stage {
    /// In the simulator.
    Sim,
    /// On emulated boards.
    Qemu(Box<Options>),
    /// With the exact image of an RP2040 board, emulated.
    Rp2040(Box<compasso_rp2040::Options>),
}

/// Why there is no comparison.
pub struct Trouble {
    /// How the call ends.
    pub outcome: Outcome,
    /// What to say.
    pub line: String,
}

impl Stage {
    /// Its name, as `--on` has it.
    pub fn name(&self) -> &'static str {
        match self {
            Stage::Sim => "sim",
            Stage::Qemu(_) => "qemu",
            Stage::Rp2040(_) => "rp2040",
        }
    }

    /// Prepares emulated boards.
    pub fn boards(talk: Talk) -> Result<Stage, Trouble> {
        let environment = |line: String| Trouble { outcome: Outcome::Environment, line };
        let toolchain = setup::ensure(&Needs::ALL).map_err(|error| environment(error.to_string()))?;
        let toolchain = Toolchain { quiet: talk.quiet, ..toolchain };
        let image = toolchain.build_image(BoardKind::Qemu).map_err(|error| environment(error.to_string()))?;
        let qemu = toolchain.qemu.ok_or_else(|| environment("no emulator was prepared".to_owned()))?;
        let interrupted =
            interrupt_flag().map_err(|error| environment(format!("cannot listen to signals: {error}")))?;
        Ok(Stage::Qemu(Box::new(Options { qemu, image, out: "runs".into(), interrupted })))
    }

    /// Prepares emulated RP2040 boards.
    pub fn rp2040(talk: Talk) -> Result<Stage, Trouble> {
        let environment = |line: String| Trouble { outcome: Outcome::Environment, line };
        let needs = Needs { compiler: true, emulator: false };
        let toolchain = setup::ensure(&needs).map_err(|error| environment(error.to_string()))?;
        let toolchain = Toolchain { quiet: talk.quiet, ..toolchain };
        let board = BoardKind::W5500EvbPico;
        let image = toolchain.build_image(board).map_err(|error| environment(error.to_string()))?;
        let interrupted =
            interrupt_flag().map_err(|error| environment(format!("cannot listen to signals: {error}")))?;
        Ok(Stage::Rp2040(Box::new(compasso_rp2040::Options { board, image, out: "runs".into(), interrupted })))
    }

    /// Performs all of them, in their order. Once interrupted, the rest is left out.
    pub fn perform(&self, talk: Talk, title: &str, scenarios: &[Scenario]) -> Result<Vec<Option<Observed>>, Trouble> {
        let meter = Meter::new(talk, title, scenarios.len());
        let observed = match self {
            Stage::Sim => Ok(simulate(scenarios, &meter)),
            Stage::Qemu(_) | Stage::Rp2040(_) => {
                scenarios.iter().map(|scenario| self.emulate(scenario, &meter)).collect()
            }
        };
        meter.bar.finish_and_clear();
        observed
    }

    /// Somebody wants the comparison to end early.
    pub fn interrupted(&self) -> bool {
        match self {
            Stage::Sim => false,
            Stage::Qemu(options) => options.interrupted.load(Ordering::Relaxed),
            Stage::Rp2040(options) => options.interrupted.load(Ordering::Relaxed),
        }
    }

    fn perform_on_boards(&self, scenario: &Scenario, out: &Path, meter: &Meter) -> Result<RunOutput, StageError> {
        let out = out.to_owned();
        match self {
            Stage::Sim => unreachable!("it has no boards"),
            Stage::Qemu(options) => {
                perform_on_boards(scenario, &Options { out, ..(**options).clone() }, &mut |_| meter.look())
            }
            Stage::Rp2040(options) => {
                let options = compasso_rp2040::Options { out, ..(**options).clone() };
                compasso_rp2040::perform(scenario, &options, &mut |_| meter.look())
            }
        }
    }

    fn emulate(&self, scenario: &Scenario, meter: &Meter) -> Result<Option<Observed>, Trouble> {
        if self.interrupted() {
            return Ok(None);
        }
        let trouble = |outcome, line| Err(Trouble { outcome, line });
        let out = Path::new("runs").join(format!("{}-{}-{}", scenario.name, scenario.seed, self.name()));
        let made =
            std::fs::create_dir_all(&out).and_then(|()| std::fs::write(out.join("scenario.toml"), scenario.to_toml()));
        if let Err(error) = made {
            return trouble(Outcome::Environment, format!("cannot make the run's folder {}: {error}", out.display()));
        }
        let RunOutput { events, network, failures, overdue, interrupted, .. } =
            match self.perform_on_boards(scenario, &out, meter) {
                Ok(output) => output,
                Err(error) => return trouble(Outcome::Environment, error.to_string()),
            };
        if let Some(failure) = failures.first() {
            let line = format!("{}: node {} ended by itself ({})", out.display(), failure.node, failure.reason);
            return trouble(Outcome::NodeCrashed, line);
        }
        if let Some(why) = overdue {
            return trouble(Outcome::Overdue, format!("{}: the run did not end in time: {why}", out.display()));
        }
        meter.advance();
        Ok((!interrupted).then(|| Observed::of(scenario, self.name(), &events, network.into())))
    }
}

/// As many at once as the machine has cores: each run has its own world.
fn simulate(scenarios: &[Scenario], meter: &Meter) -> Vec<Option<Observed>> {
    let next = AtomicUsize::new(0);
    let observed: Vec<Mutex<Option<Observed>>> = scenarios.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        while let Some((scenario, place)) = {
            let at = next.fetch_add(1, Ordering::Relaxed);
            scenarios.get(at).zip(observed.get(at))
        } {
            let run = compasso_simulator::perform(scenario);
            let seen = Observed::of(scenario, "sim", &run.trace, run.network);
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(seen);
            meter.advance();
        }
    };
    let workers = thread::available_parallelism().map_or(1, NonZeroUsize::get).min(scenarios.len());
    thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(work))));
    observed.into_iter().map(|place| place.into_inner().unwrap_or_else(PoisonError::into_inner)).collect()
}

/// Shows how far a long comparison is.
struct Meter {
    bar: ProgressBar,
    since: Instant,
    talk: Talk,
}

impl Meter {
    fn new(talk: Talk, title: &str, runs: usize) -> Meter {
        let bar = ProgressBar::with_draw_target(Some(runs as u64), ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template("{prefix} {wide_bar} {pos} of {len} runs") {
            bar.set_style(style);
        }
        bar.set_prefix(title.to_owned());
        Meter { bar, since: Instant::now(), talk }
    }

    fn advance(&self) {
        self.bar.inc(1);
        self.look();
    }

    fn look(&self) {
        if self.bar.is_hidden() && !self.talk.quiet && self.since.elapsed() > BAR_AFTER {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}
