//! `compasso keys`: the secret of a cluster.

use crate::outcome::{Outcome, Talk};
use clap::{Args, Subcommand};
use serde_json::json;
use std::{io::ErrorKind, path::PathBuf};

/// `compasso keys`.
#[derive(Args)]
#[command(after_help = "Example:\n  compasso keys new --out lab.key")]
pub struct KeysArgs {
    #[command(subcommand)]
    command: KeysCommand,
}

#[derive(Subcommand)]
enum KeysCommand {
    /// Make a cluster's key of the system's randomness; only its owner may read the file.
    #[command(after_help = "Examples:
  compasso keys new                     makes cluster.key
  compasso keys new --out lab.key       another name; fleet.toml says which: key = \"lab.key\"

An existing file is never overwritten: boards that were provisioned with it would be lost.")]
    New(NewArgs),
}

#[derive(Args)]
struct NewArgs {
    /// The file to make.
    #[arg(long, value_name = "FILE", default_value = "cluster.key")]
    out: PathBuf,
    /// Print where it is as one JSON document on stdout.
    #[arg(long)]
    json: bool,
}

/// Makes a key.
pub fn keys(args: &KeysArgs) -> Outcome {
    let KeysCommand::New(args) = &args.command;
    let talk = Talk { json: args.json, quiet: false };
    let path = args.out.display().to_string();
    match compasso_fleet::create_key(&args.out) {
        Ok(()) => {
            talk.document(&json!({ "key": path, "exit": Outcome::Held.status() }));
            talk.show(&format!("written to {path}; name it in fleet.toml: key = \"{path}\""));
            Outcome::Held
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => talk.fail(
            Outcome::BadInput,
            &format!("{path}: expected a new file, this one exists; choose another with --out"),
        ),
        Err(error) => {
            talk.fail(Outcome::Environment, &format!("cannot write {path}: {error}; choose another with --out"))
        }
    }
}
