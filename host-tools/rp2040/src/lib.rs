//! The emulated RP2040 stage: the exact image that a user flashes, on boards that run in lock-step
//! in one process, with the same scenario, trace and checks as every other stage.
//!
//! [`perform`] runs a scenario. A [`board`] is a processor core on a [`bus`] of peripherals, with a
//! [`flash`] and a network [`device`]; a [`world`] is boards and the network between them.

pub mod board;
pub mod bus;
pub mod cpu;
pub mod crystal;
pub mod cyw43;
pub mod device;
pub mod effort;
pub mod flash;
pub mod image;
pub mod probe;
pub mod rom;
pub mod stack;
pub mod stage;
pub mod usb;
pub mod w5500;
pub mod world;

pub use stage::{Options, perform, perform_measured};
