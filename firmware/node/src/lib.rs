//! One node: the algorithms composed, with the layers that a real network needs.
//!
//! # Order of calls
//! After every [`Node::handle`] the driver drains, in this order: [`Node::poll_effect`] (what must
//! be stored is stored before anything is sent), [`Node::poll_transmit`] until it returns nothing,
//! [`Node::poll_observation`] until it returns nothing; then it sleeps until [`Node::poll_timeout`]
//! or the next input. A spurious time-out does nothing.
#![cfg_attr(not(test), no_std)]
use compasso_wire::{NodeConfig, NodeId, Instant, Observation, message::{Command, Telemetry}, config::Stored};

/// What happens to a node.
pub enum Input<'a> {
    /// A datagram arrived.
    Datagram(&'a [u8]),
    /// The stage asks for something, without a datagram (simulator).
    Command(Command),
    /// A deadline may have passed.
    Timeout,
}

/// A datagram to send.
pub struct Transmit<'b> {
    /// To whom: a member or the host.
    pub to: NodeId,
    /// Its bytes.
    pub datagram: &'b [u8],
}

/// What the driver must do for the node besides sending.
pub enum Effect {
    /// Store this before anything more is sent.
    Store(Stored),
    /// Bend the emulated crystal.
    SetRate {
        /// Parts per billion.
        ppb: i32,
    },
    /// The collector has every record before this one.
    TelemetryAcknowledged {
        /// The next record it expects.
        next: u32,
    },
}

/// One node.
pub struct Node;

impl Node {
    /// A node that boots now.
    #[must_use]
    pub fn new(_config: &NodeConfig, _now: Instant) -> Node { Node }
    /// Takes one input.
    pub fn handle(&mut self, _now: Instant, _input: Input<'_>) {}
    /// The next thing to do for the node.
    pub fn poll_effect(&mut self) -> Option<Effect> { None }
    /// The next datagram to send, stamped and sealed now.
    pub fn poll_transmit<'b>(&mut self, _now: Instant, _buffer: &'b mut [u8]) -> Option<Transmit<'b>> { None }
    /// The next event that happened.
    pub fn poll_observation(&mut self) -> Option<Observation> { None }
    /// When to call `handle(Timeout)`, and why.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Instant, &'static str)> { None }
    /// Seals a batch of telemetry for the host. Not an event of the experiment.
    pub fn seal_telemetry<'b>(&mut self, _batch: Telemetry<'_>, _buffer: &'b mut [u8]) -> Transmit<'b> { unreachable!() }
}
