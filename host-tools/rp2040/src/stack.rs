//! How deep the stack of the exact image gets: measured on the boards of the concert, from the node's making through
//! crash, return and everything in between.

use crate::stage::{Options, perform_measured};
use compasso_scenario::Scenario;
use compasso_stage::{
    budget::{Measurement, Unit},
    setup::{BoardKind, EnvironmentError, Toolchain},
};

/// Performs the concert and measures, for `budget.toml`.
///
/// # Errors
/// If the image does not build, or the run fails.
pub fn measure(toolchain: &Toolchain) -> Result<Measurement, EnvironmentError> {
    let broken = |what: String| EnvironmentError::new(what, "cargo compasso run --on rp2040");
    let path = toolchain.root.join("scenarios/concert.toml");
    let scenario = Scenario::load(&path).map_err(|error| broken(error.to_string()))?;
    let image = toolchain.build_image(BoardKind::W5500EvbPico)?;
    let out = toolchain.root.join("target/stack");
    let options = Options { board: BoardKind::W5500EvbPico, image, out, interrupted: Default::default() };
    let measured = perform_measured(&scenario, &options, &mut |_| ()).map_err(|error| broken(error.to_string()))?;
    let (output, value) = measured;
    if let Some(failure) = output.failures.first() {
        return Err(broken(format!("node {} ended by itself ({})", failure.node, failure.reason)));
    }
    let name = format!("{}.stack_used", BoardKind::W5500EvbPico.image());
    Ok(Measurement { name, unit: Unit::Bytes, value: value.into(), note: "the concert, emulated".into() })
}
