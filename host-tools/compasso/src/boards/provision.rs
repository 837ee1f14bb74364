//! `compasso provision`: the page that makes a board a node.

use super::{FLEET, load};
use crate::outcome::{Outcome, Talk};
use clap::Args;
use compasso_fleet::{
    flash::{self, Job},
    pages,
    probe::ProbeRs,
};
use compasso_stage::setup::EnvironmentError;
use serde_json::json;
use std::path::PathBuf;

/// `compasso provision`.
#[derive(Args)]
#[command(after_help = "Examples:
  compasso provision --node 3                      through the probe that fleet.toml names
  compasso provision --node 3 --probe E66141…      through another
  compasso provision --node 3 --uf2 node-3.uf2     as a file for the board's USB drive

The page holds who the board is, the cluster's key, the ring and what it performs. It survives new
programs. A UF2 file holds the key as well: it is made for its owner's eyes only.")]
pub struct ProvisionArgs {
    /// Which node the board becomes.
    #[arg(long, value_name = "ID")]
    node: u16,
    /// The file that names the boards.
    #[arg(long, value_name = "FILE", default_value = FLEET)]
    fleet: PathBuf,
    /// What the boards perform [default: the fleet's scenario, or scenarios/concert.toml].
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// Write a UF2 file instead of a board.
    #[arg(long, value_name = "FILE", conflicts_with = "probe")]
    uf2: Option<PathBuf>,
    /// The serial number of the probe to use, instead of the fleet's.
    #[arg(long, value_name = "SERIAL")]
    probe: Option<String>,
    /// Print what was done as one JSON document on stdout.
    #[arg(long)]
    json: bool,
}

/// Provisions a board.
pub fn provision(args: &ProvisionArgs) -> Outcome {
    let talk = Talk { json: args.json, quiet: false };
    let (fleet, scenario) = match load(&args.fleet, args.scenario.as_deref()) {
        Ok(loaded) => loaded,
        Err(line) => return talk.fail(Outcome::BadInput, &line),
    };
    let Some(board) = fleet.board(args.node) else {
        let ids = compasso_scenario::reader::list(&fleet.ids());
        let line = format!("--node {}: expected a board of {}, one of: {ids}", args.node, fleet.file);
        return talk.fail(Outcome::BadInput, &line);
    };
    let serial = args.probe.clone().or(board.probe.clone());
    let (place, done) = match (&args.uf2, serial) {
        (Some(path), _) => {
            let written = flash::generation(&fleet).and_then(|generation| {
                let file = pages::to_uf2(&pages::sector(&fleet, board, &scenario, generation));
                flash::write_private(path, &file).map_err(|error| format!("cannot write {}: {error}", path.display()))
            });
            (path.display().to_string(), written)
        }
        (None, Some(serial)) => {
            let done = through_probe(&serial, |probe| {
                let generation = flash::generation(&fleet)?;
                let page = pages::sector(&fleet, board, &scenario, generation);
                Ok(Job { node: board.node, probe, elf: None, page })
            });
            (format!("the board on probe {serial}"), done)
        }
        (None, None) => {
            let line =
                format!("{}: node {} has no `probe`; expected --uf2 FILE or --probe SERIAL", fleet.file, args.node);
            return talk.fail(Outcome::BadInput, &line);
        }
    };
    if let Err(line) = done {
        return talk.fail(Outcome::Environment, &line);
    }
    let address = board.address.to_string();
    talk.document(&json!({
        "node": board.node, "address": address, "scenario": scenario.name, "written_to": place,
        "at": pages::addresses().map(|at| format!("{at:#x}")), "exit": Outcome::Held.status(),
    }));
    talk.show(&format!("node {} at {address}, performing {}: written to {place}", board.node, scenario.name));
    Outcome::Held
}

fn through_probe(
    serial: &str,
    job: impl FnOnce(compasso_fleet::probe::Probe) -> Result<Job, String>,
) -> Result<(), String> {
    let told = |error: EnvironmentError| error.to_string();
    let probe_rs = ProbeRs::find().map_err(told)?;
    let probe = probe_rs.select(&[serial]).map_err(told)?.pop().ok_or("no probe was selected")?;
    let mut failure = None;
    flash::perform(&probe_rs, &[job(probe)?], &mut |_, stage| {
        if let flash::Stage::Failed(why) = stage {
            failure = Some(why.clone());
        }
    });
    failure.map_or(Ok(()), Err)
}
