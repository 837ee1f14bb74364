//! Real boards: their keys, pages and images, what they report, and scenarios performed on them.

mod collect;
mod flash;
mod keys;
mod provision;
mod stage;

pub use collect::{CollectArgs, collect};
pub use flash::{FlashArgs, flash};
pub use keys::{KeysArgs, keys};
pub use provision::{ProvisionArgs, provision};
pub use stage::{perform, rehearse};

use compasso_fleet::Fleet;
use compasso_scenario::Scenario;
use compasso_stage::setup;
use std::path::{Path, PathBuf};

/// The fleet file, unless another is named.
pub const FLEET: &str = "fleet.toml";
const DEFAULT_SCENARIO: &str = "scenarios/concert.toml";

/// The scenario that was asked for, or the fleet's, or the concert.
fn scenario_path(fleet: &Fleet, asked: Option<&Path>) -> Result<PathBuf, String> {
    match asked.or(fleet.scenario.as_deref()) {
        Some(path) => Ok(path.to_owned()),
        None if Path::new(DEFAULT_SCENARIO).exists() => Ok(DEFAULT_SCENARIO.into()),
        None => Ok(setup::workspace_root().map_err(|error| error.to_string())?.join(DEFAULT_SCENARIO)),
    }
}

/// A fleet and what its boards perform.
fn load(fleet: &Path, scenario: Option<&Path>) -> Result<(Fleet, Scenario), String> {
    let fleet = Fleet::load(fleet).map_err(|error| error.to_string())?;
    let path = scenario_path(&fleet, scenario)?;
    let scenario = Scenario::load(&path).map_err(|error| error.to_string())?;
    fleet.suits(&scenario)?;
    Ok((fleet, scenario))
}
