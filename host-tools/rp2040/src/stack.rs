//! How deep the stacks of the exact images get: measured on the boards of the concert, from the node's making through
//! crash, return and everything in between.

use crate::{
    device::Device,
    stage::{Options, perform_measured},
};
use compasso_scenario::Scenario;
use compasso_stage::{
    budget::{Measurement, Unit},
    setup::{BoardKind, EnvironmentError, Toolchain},
};

/// Performs the concert with every image that runs as it is built, and measures, for `budget.toml`: `pico-w` wants its
/// radio's firmware, and its tests bring some.
///
/// # Errors
/// If an image does not build, or a run fails.
pub fn measure(toolchain: &Toolchain) -> Result<Vec<Measurement>, EnvironmentError> {
    let boards = Device::boards().filter(|board| *board != BoardKind::PicoW);
    boards.map(|board| measure_one(toolchain, board)).collect()
}

fn measure_one(toolchain: &Toolchain, board: BoardKind) -> Result<Measurement, EnvironmentError> {
    let broken = |what: String| EnvironmentError::new(what, "cargo compasso run --on rp2040");
    let path = toolchain.root.join("scenarios/concert.toml");
    let scenario = Scenario::load(&path).map_err(|error| broken(error.to_string()))?;
    let image = toolchain.build_image(board)?;
    let out = toolchain.root.join("target/stack");
    let options = Options { board, image, out, interrupted: Default::default() };
    let measured = perform_measured(&scenario, &options, &mut |_| ()).map_err(|error| broken(error.to_string()))?;
    let (output, value) = measured;
    if let Some(failure) = output.failures.first() {
        return Err(broken(format!("node {} ended by itself ({})", failure.node, failure.reason)));
    }
    let name = format!("{}.stack_used", board.image());
    Ok(Measurement { name, unit: Unit::Bytes, value: value.into(), note: "the concert, emulated".into() })
}
