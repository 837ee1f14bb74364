//! The compasso command: performs experiments, collects every node's log, judges every promise.

mod bench;
mod boards;
mod check;
mod cli;
mod compare;
mod doctor;
mod drift;
mod outcome;
mod progress;
mod report;
mod run;
mod side_by_side;
mod trace;

use clap::{
    CommandFactory, Parser,
    error::{ContextKind, ContextValue, ErrorKind},
};
use cli::{Cli, Command};
use outcome::{Outcome, Talk};
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    let outcome = match cli.command {
        Command::Run(args) => run::run(&args),
        Command::Check(args) => check::check(&args),
        Command::Report(args) => report::report(&args),
        Command::Compare(args) => compare::compare(&args),
        Command::Bench(args) => bench::bench(&args),
        Command::Trace(args) => trace::trace(&args),
        Command::Keys(args) => boards::keys(&args),
        Command::Provision(args) => boards::provision(&args),
        Command::Flash(args) => boards::flash(&args),
        Command::Collect(args) => boards::collect(&args),
        Command::Drift(args) => drift::drift_of(&args),
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Budget(args) => doctor::budget(&args),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "compasso", &mut script);
            outcome::print(&String::from_utf8_lossy(&script));
            Outcome::Held
        }
    };
    ExitCode::from(outcome.status())
}

/// Help goes to stdout; a wrong call gets one line, and a document where a machine listens.
fn refuse(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let _ = error.print();
            ExitCode::SUCCESS
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            ExitCode::from(Outcome::BadInput.status())
        }
        _ => {
            let text = error.to_string();
            let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
            let mut first = lines.next().unwrap_or("bad usage").trim_start_matches("error: ").to_owned();
            if let Some(ContextValue::Strings(missing)) =
                error.get(ContextKind::InvalidArg).filter(|_| error.kind() == ErrorKind::MissingRequiredArgument)
            {
                first = format!("missing: {}", missing.join(" "));
            }
            let usage = text.lines().find_map(|line| line.trim().strip_prefix("Usage: ")).map(str::to_owned);
            let tip = text.lines().find_map(|line| line.trim().strip_prefix("tip: ")).map(str::to_owned);
            let values = text.lines().find_map(|line| line.trim().strip_prefix('[')).map(|rest| format!("[{rest}"));
            let details: Vec<String> =
                [values, tip, usage.map(|usage| format!("usage: {usage}"))].into_iter().flatten().collect();
            let talk = Talk { json: std::env::args().any(|arg| arg == "--json"), quiet: false };
            let line = if details.is_empty() { first } else { format!("{first} ({})", details.join("; ")) };
            ExitCode::from(talk.fail(Outcome::BadInput, &line).status())
        }
    }
}
