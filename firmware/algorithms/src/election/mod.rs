//! Election: everybody names the same leader.

pub mod bully;

pub use bully::Bully;
