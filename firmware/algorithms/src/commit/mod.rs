//! Atomic commit: a transaction happens at all of its participants or at none.

pub mod settlement;
#[cfg(test)]
mod tests;
pub mod two_phase;

pub use settlement::Settlement;
pub use two_phase::TwoPhase;
