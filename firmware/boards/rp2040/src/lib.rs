//! The RP2040 boards: everything that their images share, which is all but the network device.
//!
//! An image brings a device up and hands it to [`Booted::run`]; the node behind it is the one of
//! every other stage.
#![no_std]

#[cfg(target_os = "none")]
mod board;
#[cfg(target_os = "none")]
mod crash;
#[cfg(target_os = "none")]
mod identity;
#[cfg(target_os = "none")]
mod memory;
#[cfg(target_os = "none")]
pub mod w5500;

#[cfg(target_os = "none")]
pub use board::{Booted, Parts, boot};
#[cfg(target_os = "none")]
pub use static_cell;
