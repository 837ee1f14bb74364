//! One simulated board: a node, its crystal, and what survives its power cuts.

use crate::crystal::Crystal;
use compasso_node::{Effect, Input, Node};
use compasso_wire::{Instant, Observation, config::Stored, limits::DATAGRAM_MAX};

/// A board that is switched on.
pub struct Life {
    node: Box<Node>,
    crystal: Crystal,
}

/// A datagram that left a board: to which member, and its bytes.
pub type Departure = (u16, Vec<u8>);

/// What one input caused.
#[derive(Default)]
pub struct Caused {
    /// Datagrams, in order.
    pub departures: Vec<Departure>,
    /// Events, in order.
    pub observations: Vec<Observation>,
    /// What must survive a power cut.
    pub stored: Option<Stored>,
}

impl Life {
    /// Boots `config` at a true instant.
    #[must_use]
    pub fn boot(config: &compasso_wire::NodeConfig, true_ns: u64) -> Life {
        let crystal = Crystal::new(true_ns, config.rate_ppb);
        let mut node = Box::new(Node::new(config, Instant(0)));
        node.start(Instant(0));
        Life { node, crystal }
    }

    /// The node, to take a defence away from it.
    #[cfg(feature = "sabotage")]
    pub fn node_mut(&mut self) -> &mut Node {
        &mut self.node
    }

    /// Hands the node an input and drains it, in the order that the node documents.
    pub fn handle(&mut self, true_ns: u64, input: Input<'_>) -> Caused {
        let now = Instant(self.crystal.read_us(true_ns));
        self.node.handle(now, input);
        self.drain(true_ns, now)
    }

    /// Drains a node that has just booted.
    pub fn drain(&mut self, true_ns: u64, now: Instant) -> Caused {
        let mut caused = Caused::default();
        let mut buffer = [0; DATAGRAM_MAX];
        loop {
            while let Some(effect) = self.node.poll_effect() {
                match effect {
                    Effect::Store => caused.stored = Some(*self.node.stored()),
                    Effect::SetRate { ppb } => self.crystal.set_rate(true_ns, ppb),
                    Effect::TelemetryAcknowledged { .. } => {}
                }
            }
            let transmit = self.node.poll_transmit(now, &mut buffer);
            let idle = transmit.is_none();
            if let Some(transmit) = transmit {
                caused.departures.push((transmit.to.0, transmit.datagram.to_vec()));
            }
            while let Some(observation) = self.node.poll_observation() {
                caused.observations.push(observation);
            }
            if idle {
                return caused;
            }
        }
    }

    /// The true instant of the node's next deadline, and what it is for.
    #[must_use]
    pub fn wake_ns(&self) -> Option<(u64, &'static str)> {
        self.node.poll_timeout().map(|(at, reason)| (self.crystal.true_ns_at(at.0), reason))
    }
}
