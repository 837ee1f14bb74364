//! What the firmware costs, against what it may cost: image size, RAM, stack, and instructions for
//! each kind of message.
//!
//! Promises: the instructions are counted, not timed, so every run of the same image gives the same
//! numbers on any machine; nothing measured goes without a budget, and no budget without a
//! measurement. The limits and their reasons stand in `budget.toml` at the workspace's root.

use crate::setup::{BoardKind, EnvironmentError, Toolchain};
use std::{fs, path::Path};

mod count;
mod image;
mod limits;
mod report;

pub use count::parse_counts;
pub use image::measure_image;
pub use limits::{Budget, parse_budgets};
pub use report::{BudgetReport, Row, Verdict, compare};

/// Where the limits stand, below the workspace's root.
pub const BUDGET_FILE: &str = "budget.toml";

/// What a number counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Of flash, RAM or stack.
    Bytes,
    /// Of the processor.
    Instructions,
}

impl Unit {
    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Unit::Bytes => "bytes",
            Unit::Instructions => "instructions",
        }
    }
}

/// One measured number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Measurement {
    /// Its name: family and member, such as `handle.token`.
    pub name: String,
    /// What it counts.
    pub unit: Unit,
    /// The number; of several, the greatest.
    pub value: u64,
    /// What it was taken from, in words; may be empty.
    pub note: String,
}

/// Builds the images, measures them, and compares with the budgets; so with what was measured elsewhere.
///
/// # Errors
/// If something does not build or run, or the budget file cannot be read.
pub fn measure_all(
    toolchain: &Toolchain,
    elsewhere: impl IntoIterator<Item = Measurement>,
) -> Result<BudgetReport, EnvironmentError> {
    let budgets = read_budgets(&toolchain.root.join(BUDGET_FILE))?;
    let mut measurements = measure(toolchain)?;
    measurements.extend(elsewhere);
    Ok(compare(measurements, budgets))
}

/// Builds the images and measures them.
///
/// # Errors
/// If something does not build or run.
pub fn measure(toolchain: &Toolchain) -> Result<Vec<Measurement>, EnvironmentError> {
    let qemu = toolchain
        .qemu
        .as_ref()
        .ok_or_else(|| EnvironmentError::new("no emulator was prepared", "ask `ensure` for one"))?;
    let image = toolchain.build_image(BoardKind::Qemu)?;
    let counting = toolchain.build_image(BoardKind::QemuCount)?;
    let mut measurements = measure_file("image", &image)?;
    for board in BoardKind::REAL {
        toolchain.build_uf2(board)?; // That it can be made is part of the image.
        measurements.extend(measure_file(board.image(), &toolchain.build_image(board)?)?);
    }
    let said = count::run(qemu, &counting).map_err(broken)?;
    measurements.extend(parse_counts(&said).map_err(broken)?);
    Ok(measurements)
}

fn measure_file(family: &str, image: &Path) -> Result<Vec<Measurement>, EnvironmentError> {
    let bytes = fs::read(image).map_err(|error| broken(format!("cannot read {}: {error}", image.display())))?;
    measure_image(family, &bytes).map_err(broken)
}

fn broken(what: String) -> EnvironmentError {
    EnvironmentError::new(what, "cargo compasso doctor")
}

fn read_budgets(path: &Path) -> Result<Vec<Budget>, EnvironmentError> {
    let mend = || format!("git checkout {}, or correct it by hand", path.display());
    let text = fs::read_to_string(path)
        .map_err(|error| EnvironmentError::new(format!("cannot read {}: {error}", path.display()), mend()))?;
    parse_budgets(&text).map_err(|error| EnvironmentError::new(format!("{}: {error}", path.display()), mend()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budgets_that_ship_can_be_read() {
        let root = crate::setup::workspace_root().unwrap();
        let budgets = read_budgets(&root.join(BUDGET_FILE)).unwrap();
        assert!(budgets.len() > 40);
        assert!(read_budgets(&root.join("no-such-file")).is_err());
    }
}
