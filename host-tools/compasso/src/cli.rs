//! What can be said on the command line.

use crate::{
    boards::{CollectArgs, FLEET, FlashArgs, KeysArgs, ProvisionArgs},
    trace::TraceArgs,
};
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use std::path::PathBuf;

/// Keeps microcontrollers in time, in turn and in agreement: performs experiments and judges them.
#[derive(Parser)]
#[command(name = "compasso", version, arg_required_else_help = true, after_help = EXAMPLES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "Examples:
  compasso run                                   the concert, on five emulated boards
  compasso run --on sim --seed 7                 the same in the simulator, in a blink
  compasso run scenarios/concert.toml --json     for machines: the summary on stdout
  compasso check runs/concert-7-sim/trace.jsonl  judge a recorded trace again
  compasso report runs/concert-7-sim             make its report.html again
  compasso compare mutex --nodes 9               what each algorithm costs, beside the book
  compasso trace order trace.jsonl 0:5 2:6       which of two events happened first
  compasso keys new                              the secret of a cluster of real boards
  compasso flash                                 build and flash the boards of fleet.toml
  compasso collect                               what they report, until Ctrl-C
  compasso bench clock                           the disciplined clock beside its peers
  compasso drift runs/concert-7-sim              how its crystals drifted
  compasso doctor                                what is missing on this machine

Exit status: 0 every promise held; 1 one was broken, or an expectation missed; 2 bad usage or
input; 3 the machine lacks something; 4 a node crashed by itself; 5 the run did not end in time.";

/// The calls.
#[derive(Subcommand)]
pub enum Command {
    /// Perform an experiment, collect every log, judge every promise.
    Run(RunArgs),
    /// Judge a recorded trace.
    Check(CheckArgs),
    /// Make a run's report.html again.
    Report(ReportArgs),
    /// Measure every algorithm of a family on one workload, beside what the book says.
    Compare(CompareArgs),
    /// Ask which event happened first and whether a cut is consistent; export to other tools.
    Trace(TraceArgs),
    /// Make the secret that a cluster of real boards shares.
    Keys(KeysArgs),
    /// Write the page of flash that makes a real board a node.
    Provision(ProvisionArgs),
    /// Build and flash all real boards at once.
    Flash(FlashArgs),
    /// Collect what real boards report, until Ctrl-C, and judge it.
    Collect(CollectArgs),
    /// Measure how the bare crystals of a run drift: rates, Allan deviation, plots.
    Drift(DriftArgs),
    /// Say what is missing on this machine, and how to get it.
    Doctor(DoctorArgs),
    /// Measure side by side with other people's work.
    #[command(subcommand)]
    Bench(BenchArgs),
    /// Measure the image: size, memory and counted instructions, against their budgets.
    Budget(BudgetArgs),
    /// Print shell completions.
    #[command(
        after_help = "Example:\n  compasso completions bash > ~/.local/share/bash-completion/completions/compasso"
    )]
    Completions {
        /// For which shell.
        shell: Shell,
    },
}

/// `compasso run`.
#[derive(Args)]
#[command(after_help = "Examples:
  compasso run                                       scenarios/concert.toml on emulated boards
  compasso run scenarios/concert.toml --on sim       the same, simulated
  compasso run --on rp2040                           the exact image of an RP2040 board, emulated
  compasso run --on rp2040 --image pico-usb          the same for a Pico, with Ethernet over USB
  compasso run --on sim,qemu,rp2040 --seed 3 --json  all three, one document each in an array
  compasso run scenarios/boards.toml --on boards     on the real boards of fleet.toml

The run's folder holds scenario.toml, trace.jsonl, summary.json, report.html (open it in a
browser) and, from emulated boards, network.pcapng (opens in Wireshark) and nodes/<id>.log.")]
pub struct RunArgs {
    /// The scenario [default: scenarios/concert.toml].
    pub scenario: Option<PathBuf>,
    /// Where to perform it; several with commas: sim (simulator), qemu (emulated boards), rp2040 (the image
    /// of an RP2040 board, emulated), boards (real ones).
    #[arg(long, value_delimiter = ',', default_value = "qemu", value_name = "STAGE")]
    pub on: Vec<String>,
    /// Which image to emulate on rp2040: w5500-evb-pico, pico-usb or pico-w [default: w5500-evb-pico].
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,
    /// The file that names the real boards.
    #[arg(long, value_name = "FILE", default_value = FLEET)]
    pub fleet: PathBuf,
    /// Decides everything random, instead of the scenario's own seed.
    #[arg(long)]
    pub seed: Option<u64>,
    /// The run's folder [default: `runs/NAME-SEED-STAGE`]; with several stages, the folder of theirs.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print the summary as one JSON document on stdout.
    #[arg(long)]
    pub json: bool,
    /// Say nothing but the verdict.
    #[arg(long, short)]
    pub quiet: bool,
}

/// `compasso check`.
#[derive(Args)]
#[command(after_help = "Examples:
  compasso check runs/concert-7-sim/trace.jsonl --json
  zcat trace.jsonl.gz | compasso check -       what comes in on stdin")]
pub struct CheckArgs {
    /// The trace: JSON Lines, one event a line, whoever wrote it; - reads stdin.
    pub trace: PathBuf,
    /// Print the findings as one JSON document on stdout.
    #[arg(long)]
    pub json: bool,
    /// Say nothing but the verdict.
    #[arg(long, short)]
    pub quiet: bool,
}

/// `compasso report`.
#[derive(Args)]
#[command(after_help = "Example:
  compasso report runs/concert-7-sim

The page needs nothing but a browser: diagram, clocks, tables and violations stand in one file.")]
pub struct ReportArgs {
    /// The run's folder.
    pub run: PathBuf,
    /// Print where the page is as one JSON document on stdout.
    #[arg(long)]
    pub json: bool,
    /// Say nothing but where the page is.
    #[arg(long, short)]
    pub quiet: bool,
}

/// `compasso compare`.
#[derive(Args)]
#[command(after_help = "Examples:
  compasso compare mutex                      messages, delays, bytes, load and fairness, 5 nodes
  compasso compare election --nodes 9         best and worst cases, staged exactly
  compasso compare deadlock                   transactions, messages and what had to be given back
  compasso compare mutex --json               for machines: one document on stdout
  compasso compare mutex --on qemu            the same on emulated boards, in real time
  compasso compare mutex --svg cost.svg       the chart over N, somewhere else

Each number stands beside its formula; ≠ marks one that the formula does not explain. Mutual
exclusion is measured at low load (one at a time) and at full load (everybody always wants).
The chart over N is always simulated.")]
pub struct CompareArgs {
    /// What to compare: mutex, election, clock or deadlock.
    pub family: String,
    /// How many nodes.
    #[arg(long, default_value_t = 5, value_name = "N")]
    pub nodes: u16,
    /// Where to perform it: sim (simulator), qemu (emulated boards) or rp2040 (the image of an RP2040 board, emulated).
    #[arg(long, default_value = "sim", value_name = "STAGE")]
    pub on: String,
    /// The chart over N [default: `runs/compare-FAMILY.svg`].
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Print the comparison as one JSON document on stdout.
    #[arg(long)]
    pub json: bool,
    /// Say nothing but the verdict.
    #[arg(long, short)]
    pub quiet: bool,
}

/// `compasso bench`.
#[derive(Subcommand)]
pub enum BenchArgs {
    /// The disciplined clock beside statime, ntp-proto, clock-bound, the textbook and an oracle, on the same traces.
    Clock(ClockBenchArgs),
}

/// `compasso bench clock`.
#[derive(Args)]
#[command(after_help = "Examples:
  compasso bench clock                          five families, seeds 1 to 5, against the limits
  compasso bench clock --families all           all families, also those without limits
  compasso bench clock --seeds 101-120          seeds that nobody tuned on
  compasso bench clock --families lan --json    for machines: one document on stdout
  compasso bench clock --out docs               draw the pictures of docs/algorithms/disciplined-clock.md again

The first call builds the peers, which takes some minutes. The families: lan, asym, wifi, temp,
burst (with limits), heavy, slow, step, hot, quiet, busy, lossy. Limits on ratios are judged
over at least five seeds; backward steps and broken bounds always are. Exit status 1: a limit
is broken.")]
pub struct ClockBenchArgs {
    /// How many seeds, from 1 on; or the first and the last one, as 11-15.
    #[arg(long, default_value = "5", value_name = "N")]
    pub seeds: String,
    /// Which families, with commas; all for all [default: those that have limits].
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    pub families: Vec<String>,
    /// Where the pictures go [default: `runs/bench-clock`].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print the results as one JSON document on stdout.
    #[arg(long)]
    pub json: bool,
    /// Say nothing but the verdict.
    #[arg(long, short)]
    pub quiet: bool,
}

/// `compasso drift`.
#[derive(Args)]
#[command(after_help = "Examples:
  compasso drift runs/concert-7-sim                            of a recorded run
  compasso drift --on sim scenarios/clock-disciplined.toml     perform it first
  compasso drift runs/concert-7-qemu --json                    for machines: one document on stdout

Hardware clocks are compared with true time where the stage knows it (sim), else with the reference by
the clock's own exchanges. drift.svg and allan.svg go into the run's folder.")]
pub struct DriftArgs {
    /// The folder of a run; with --on, the scenario to perform [default: scenarios/concert.toml].
    #[arg(value_name = "RUN|SCENARIO")]
    pub what: Option<PathBuf>,
    /// Perform a scenario first: sim (simulator), qemu (emulated boards), rp2040 (the image of an RP2040
    /// board, emulated) or boards (real ones).
    #[arg(long, value_name = "STAGE")]
    pub on: Option<String>,
    /// The file that names the real boards.
    #[arg(long, value_name = "FILE", default_value = FLEET)]
    pub fleet: PathBuf,
    /// Decides everything random, instead of the scenario's own seed.
    #[arg(long, requires = "on")]
    pub seed: Option<u64>,
    /// The folder of the performance [default: runs/drift].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print the measurements as one JSON document on stdout.
    #[arg(long)]
    pub json: bool,
    /// Say nothing but the table.
    #[arg(long, short)]
    pub quiet: bool,
}

/// `compasso doctor`.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  compasso doctor            look only\n  compasso doctor --install  install what is missing and build the image"
)]
pub struct DoctorArgs {
    /// Install what is missing (as root with apt), and build the image.
    #[arg(long)]
    pub install: bool,
    /// Print the findings as one JSON document on stdout.
    #[arg(long)]
    pub json: bool,
}

/// `compasso budget`.
#[derive(Args)]
#[command(after_help = "Example:\n  compasso budget --json\n\nThe budgets stand in budget.toml, each with its reason.")]
pub struct BudgetArgs {
    /// Print the measurements as one JSON document on stdout.
    #[arg(long)]
    pub json: bool,
}
