//! Order: who was first, without clocks that agree.

pub mod lamport;
pub mod vector;
