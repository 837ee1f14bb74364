//! The emulated RP2040 stage: the exact image that a user flashes, on boards that run in lock-step.

pub mod board;
pub mod bus;
pub mod crystal;
pub mod flash;
pub mod image;
pub mod rom;
pub mod w5500;
