//! What can be said on the command line.

use crate::trace::TraceArgs;
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
    /// Say what is missing on this machine, and how to get it.
    Doctor(DoctorArgs),
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
  compasso run --on sim,qemu,rp2040 --seed 3 --json  all three, one document each in an array

The run's folder holds scenario.toml, trace.jsonl, summary.json, report.html (open it in a
browser) and, from emulated boards, network.pcapng (opens in Wireshark) and nodes/<id>.log.")]
pub struct RunArgs {
    /// The scenario [default: scenarios/concert.toml].
    pub scenario: Option<PathBuf>,
    /// Where to perform it; several with commas: sim (simulator), qemu (emulated boards), rp2040 (the image
    /// of an RP2040 board, emulated).
    #[arg(long, value_delimiter = ',', default_value = "qemu", value_name = "STAGE")]
    pub on: Vec<String>,
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
