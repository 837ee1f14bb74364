//! The embassy side: socket, timer, telemetry around one node.
//!
//! [`run`] is the one task that drives the [`Node`]: it moves datagrams between the network and the
//! node, sleeps until its next deadline, carries out its effects, and ships its observations.
//! A board brings a network device, a time driver for embassy, and a [`Board`].
//!
//! [`Node`]: compasso_node::Node
#![cfg_attr(not(test), no_std)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::indexing_slicing))]
#![deny(clippy::wildcard_enum_match_arm)]

pub mod crystal;
mod driver;
pub mod link;
mod log;
pub mod neighbours;
pub mod outbox;
pub mod ring;
pub mod signals;
pub mod stamps;

pub use driver::{Buffers, DATAGRAMS_QUEUED, PACKETS_QUEUED, SOCKETS_MAX, network_config, run};

use compasso_wire::{Instant, config::Stored};
use signals::Signals;

/// Hardware time and the counter beneath it, read at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Clocks {
    /// What the node's deadlines are measured by.
    pub hw: Instant,
    /// The unbent counter in nanoseconds, 0 where the board cannot tell.
    pub raw_ns: u64,
}

/// What the runtime needs of a board besides a network device and a time driver.
pub trait Board {
    /// By about how much stamps are off, from one datagram to the next, between boards like this one.
    const STAMPS_BLURRED_US: u32 = 0;

    /// Keeps this over a restart. Returns when it is safe: the node sends only after that.
    fn store(&mut self, stored: &Stored);

    /// Bends the emulated crystal; a real one ignores it.
    fn set_rate_ppb(&mut self, ppb: i32);

    /// How far the crystal is bent.
    fn rate_ppb(&self) -> i32;

    /// Reads both clocks at one moment.
    fn clocks(&self) -> Clocks;

    /// Shows this from now on; a board without lamps ignores it.
    fn show(&mut self, signals: Signals);

    /// How warm the board is, in thousandths of a degree Celsius; nothing without a sensor.
    fn milli_celsius(&mut self) -> Option<i32> {
        None
    }
}

/// Hardware time, by the board's time driver.
fn now() -> Instant {
    Instant(embassy_time::Instant::now().as_micros())
}
