//! The hosts' end of the network, as far as time goes: what they say is in `compasso_scenario::hosts`, and a datagram
//! takes as long to them as to others, but none is harmed.

use compasso_scenario::{Scenario, hosts::TimeServer, mix};
use compasso_wire::{Duration, Key, NodeId};

/// A host lives once in a run.
const INCARNATION: u32 = 1;

/// A time server and the way to it.
pub struct Host {
    /// What it says.
    pub server: TimeServer,
    members: Vec<NodeId>,
    begin_us: i64,
    delay_us: std::ops::RangeInclusive<u64>,
    dice: fastrand::Rng,
}

impl Host {
    /// A host of a run.
    pub fn new(scenario: &Scenario, number: usize, key: Key, cluster: u32) -> Host {
        let seed = match number {
            0 => mix(&[scenario.seed, 15]),
            number => mix(&[scenario.seed, 15, number as u64]),
        };
        Host {
            server: TimeServer::new(number, key, cluster, INCARNATION),
            members: scenario.ids.iter().map(|id| NodeId(*id)).collect(),
            begin_us: scenario.tai_begin_us(),
            delay_us: scenario.network.delay_min.0..=scenario.network.delay_max.0,
            dice: fastrand::Rng::with_seed(seed),
        }
    }

    /// How long a datagram to or from the host takes.
    pub fn delay_ns(&mut self) -> u64 {
        self.dice.u64(self.delay_us.clone()) * 1000
    }

    /// The answer to a datagram that arrives at a true instant, if it gets one, and to whom.
    pub fn answer(&mut self, now_ns: u64, datagram: &[u8]) -> Option<(u16, Vec<u8>)> {
        let is_member = |id| self.members.contains(&id);
        let answer = self.server.answer(Duration(now_ns / 1000), self.begin_us, is_member, datagram);
        answer.ok().flatten().map(|(to, bytes)| (to.0, bytes))
    }
}
