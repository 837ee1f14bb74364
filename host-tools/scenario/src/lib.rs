//! Scenario files: one experiment, performed on every stage.
//!
//! A scenario is read once, checked completely, and refused with one line that names file, line,
//! field and what was expected. Whatever a seed decides is resolved here, so that every stage
//! performs the same experiment.

mod command;
mod deadlock;
mod error;
pub mod faults;
pub mod hosts;
mod make;
mod model;
mod node;
mod parse;
pub mod reader;
mod services;
mod span;
mod step;
#[cfg(test)]
mod tests;

pub use error::ScenarioError;
pub use model::{
    Clock, Election, Expect, Mutex, Names, Network, Scenario, clock_name, detector_name, election_name, mutex_name,
    strategy_name,
};
pub use node::mix;
pub use span::{DURATION_MAX, format_duration, parse_duration};
pub use step::{Action, Step};
