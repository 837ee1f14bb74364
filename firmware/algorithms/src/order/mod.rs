//! Order: who was first, without clocks that agree.

pub mod chandy_lamport;
pub mod lamport;
pub mod vector;
