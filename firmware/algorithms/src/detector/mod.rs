//! Failure detectors: who is alive, as far as anybody can tell.

pub mod eventually_perfect;

pub use eventually_perfect::EventuallyPerfect;
