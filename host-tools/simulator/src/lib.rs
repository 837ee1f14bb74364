//! The simulator stage: the same node on a seeded event queue.
//!
//! Simulated boards run the very [`compasso_node::Node`] that is flashed, exchange the same sealed
//! datagrams, and each counts its own crystal's microseconds. Everything random comes from the
//! scenario's seed: the same scenario gives the same trace, byte by byte.

mod board;
mod crystal;
mod host;
mod world;

#[cfg(feature = "sabotage")]
pub use compasso_node::defences::Defence;
#[cfg(feature = "sabotage")]
pub use world::perform_without;
pub use world::{Run, perform};
