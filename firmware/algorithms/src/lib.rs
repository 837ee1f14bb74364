//! The algorithms: textbook rules, sans-IO.
//!
//! Each file holds one algorithm, opens with what it promises and assumes, and can be read beside
//! the textbook's page. None of them knows a socket, a timer or an executor: it is handed inputs
//! and the time in a [`Context`], and pushes messages and events into it. What a lossy network
//! needs on top stands around them, in `compasso-node`.
#![cfg_attr(not(test), no_std)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::indexing_slicing))]
#![deny(clippy::wildcard_enum_match_arm)]

pub mod cache;
pub mod commit;
pub mod context;
pub mod deadlock;
pub mod detector;
pub mod election;
pub mod members;
pub mod mutex;
pub mod order;
#[cfg(test)]
mod testing;
pub mod time;

pub use context::{Algorithm, Context, Delays, Output};
pub use members::Members;
