//! What a board can show of its node without asking the network.

use crate::node::Node;
use compasso_wire::{ClusterTime, Instant};

impl Node {
    /// Whether this node is inside a critical section.
    #[must_use]
    pub fn is_inside(&self) -> bool {
        self.turns.iter().any(|turn| turn.is_inside())
    }

    /// Whether this node names itself as leader.
    #[must_use]
    pub fn names_itself(&self) -> bool {
        self.named.is_some_and(|(leader, _)| leader == self.config.me)
    }

    /// The first hardware time, as far as is known now, at which the cluster's time is `time`.
    #[must_use]
    pub fn cluster_when(&self, time: ClusterTime) -> Option<Instant> {
        self.clock.when(time)
    }
}
