//! The RP2040 boards: everything that their images share, which is all but the network device.
//!
//! An image brings a device up and hands it to `Booted::run`; the node behind it is the one of
//! every other stage.
#![no_std]
#![cfg(target_os = "none")]

mod board;
mod crash;
mod identity;
mod lamp;
mod memory;
mod storage;
mod thermometer;

pub use board::{Booted, Parts, STAMPS, boot, watch};
pub use lamp::{Lamp, Wish};
pub use thermometer::Thermometer;
