//! Mutual exclusion: one at a time.

pub mod guardian;
pub mod token_ring;

pub use guardian::Guardian;
pub use token_ring::TokenRing;
