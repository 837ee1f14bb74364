//! Performs a scenario on emulated RP2040 boards.

use crate::{image::Image, world::World};
use compasso_scenario::{Scenario, mix};
use compasso_stage::{
    Progress, RunOutput, StageError,
    outcome::Doing,
    perform::perform_on,
    rtt,
    setup::{BoardKind, EnvironmentError},
};
use compasso_wire::Key;
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
};

/// Where and with what to perform.
#[derive(Clone, Debug)]
pub struct Options {
    /// The boards.
    pub board: BoardKind,
    /// Their image.
    pub image: PathBuf,
    /// The run's folder: gets `network.pcapng` and `nodes/<id>.log`.
    pub out: PathBuf,
    /// Set by whoever wants the run to end early.
    pub interrupted: Arc<AtomicBool>,
}

/// Performs a scenario: the same seed gives the same output, byte by byte.
///
/// # Errors
/// If the stage itself failed: then there is no verdict to be had.
pub fn perform(
    scenario: &Scenario,
    options: &Options,
    progress: &mut dyn FnMut(&Progress),
) -> Result<RunOutput, StageError> {
    perform_measured(scenario, options, progress).map(|(output, _)| output)
}

/// The same, and how deep the deepest stack of all boards was, in bytes.
///
/// # Errors
/// As [`perform`].
pub fn perform_measured(
    scenario: &Scenario,
    options: &Options,
    progress: &mut dyn FnMut(&Progress),
) -> Result<(RunOutput, u32), StageError> {
    let elf = fs::read(&options.image).doing("reading the image")?;
    let image = read_image(options.board, &options.image, &elf)?;
    let logs = rtt::Image::parse(&elf).map_err(broken)?;
    let world = World::new(scenario, &image, &logs, &options.out).doing("making the run's folder")?;
    let stack = world.deepest_stack();
    let output = perform_on(world, scenario, secret(scenario.seed), &options.interrupted, progress)?;
    Ok((output, stack.get()))
}

fn read_image(board: BoardKind, path: &Path, elf: &[u8]) -> Result<Image, StageError> {
    Ok(Image::read(board, path, elf).map_err(|what| broken(format!("{}: {what}", path.display())))?)
}

fn broken(what: String) -> EnvironmentError {
    EnvironmentError::new(what, "cargo clean, and try again")
}

/// A key that nobody must rely on, and the cluster's number: the same for the same seed.
fn secret(seed: u64) -> (Key, u32) {
    let halves = [mix(&[seed, 12]), mix(&[seed, 13])].map(u64::to_le_bytes);
    let mut key = [0; 16];
    key.copy_from_slice(halves.as_flattened());
    (Key(key), mix(&[seed, 3]) as u32)
}
