//! `compasso bench`: what is measured side by side with other people's work. The peers are heavy, so the bench is a
//! crate that nothing else needs (`host-tools/bench`); it is built when it is asked for, and does the talking.

use crate::{
    cli::{BenchArgs, ClockBenchArgs},
    outcome::{Outcome, Talk},
};
use compasso_stage::setup::workspace_root;
use std::{
    ffi::OsString,
    io::ErrorKind,
    path::Path,
    process::{Command, ExitStatus},
};

const RUSTUP: &str = "curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh";

/// Builds the bench, lets it run, and ends as it ends.
pub fn bench(args: &BenchArgs) -> Outcome {
    let BenchArgs::Clock(args) = args;
    let talk = Talk { json: args.json, quiet: args.quiet };
    let root = match workspace_root() {
        Ok(root) => root,
        Err(error) => return talk.fail(Outcome::Environment, &error.to_string()),
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    match command(&cargo, &root, args).status() {
        Ok(status) => ended(status, talk),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let line = format!(
                "{} is missing, and the bench is built when it is asked for; to get it: {RUSTUP}",
                cargo.display()
            );
            talk.fail(Outcome::Environment, &line)
        }
        Err(error) => talk.fail(Outcome::Environment, &format!("cannot run {}: {error}", cargo.display())),
    }
}

fn command(cargo: &OsString, root: &Path, args: &ClockBenchArgs) -> Command {
    let mut command = Command::new(cargo);
    command.current_dir(root).args(["run", "--package", "compasso-bench", "--features", "peers"]);
    if args.quiet {
        command.arg("--quiet");
    }
    command.args(["--", "clock", "--seeds", &args.seeds]);
    if !args.families.is_empty() {
        command.args(["--families", &args.families.join(",")]);
    }
    if let Some(out) = &args.out {
        // The child runs at the workspace's root; the folder is meant from here.
        command.arg("--out").arg(std::path::absolute(out).unwrap_or_else(|_| out.clone()));
    }
    for (wanted, flag) in [(args.json, "--json"), (args.quiet, "--quiet")] {
        if wanted {
            command.arg(flag);
        }
    }
    command
}

/// The bench has said why; only where cargo could not build it, or it was killed, something is left to say.
fn ended(status: ExitStatus, talk: Talk) -> Outcome {
    match status.code() {
        Some(0) => Outcome::Held,
        Some(1) => Outcome::Violated,
        Some(2) => Outcome::BadInput,
        Some(3) => Outcome::Environment,
        Some(_) => talk.fail(Outcome::Environment, "the bench could not be built: cargo said why"),
        None => talk.fail(Outcome::Environment, "the bench was killed"),
    }
}
