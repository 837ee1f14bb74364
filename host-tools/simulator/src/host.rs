//! The host's end of the network, as far as time goes: it has the true time and tells whoever asks.

use compasso_scenario::{Scenario, mix};
use compasso_wire::{Body, ClusterTime, Header, Instant, Key, Leap, NodeId, Vector, limits::DATAGRAM_MAX, open, seal};

/// The host lives once in a run.
const INCARNATION: u32 = 1;

/// The time server.
pub struct Host {
    key: Key,
    cluster: u32,
    sequence: u32,
    members: Vec<NodeId>,
    begin_us: i64,
    delay_us: std::ops::RangeInclusive<u64>,
    dice: fastrand::Rng,
    /// Questions are answered.
    pub serves: bool,
    /// The leap second that was announced.
    pub leap: Option<Leap>,
}

impl Host {
    /// The host of a run.
    pub fn new(scenario: &Scenario, key: Key, cluster: u32) -> Host {
        Host {
            key,
            cluster,
            sequence: 0,
            members: scenario.ids.iter().map(|id| NodeId(*id)).collect(),
            begin_us: scenario.tai_begin_us(),
            delay_us: scenario.network.delay_min.0..=scenario.network.delay_max.0,
            dice: fastrand::Rng::with_seed(mix(&[scenario.seed, 15])),
            serves: true,
            leap: None,
        }
    }

    /// How long a datagram to or from the host takes: as long as others, but none is harmed.
    pub fn delay_ns(&mut self) -> u64 {
        self.dice.u64(self.delay_us.clone()) * 1000
    }

    /// The answer to a datagram that arrives at a true instant, if it gets one, and to whom.
    pub fn answer(&mut self, now_ns: u64, datagram: &[u8]) -> Option<(u16, Vec<u8>)> {
        let is_member = |id| self.members.contains(&id);
        let opened = open(&self.key, self.cluster, NodeId::HOST, is_member, datagram).ok()?;
        let body = match opened.body {
            Body::Challenge(challenge) => Body::Proof(challenge),
            Body::TimeRequest { sent } if self.serves => Body::TimeReply {
                echo: sent,
                cluster: ClusterTime(self.begin_us + (now_ns / 1000) as i64),
                handling_us: 0,
                sent: Instant(now_ns / 1000),
                error_us: 0,
                certain_us: 0,
                is_set: true,
                leap: self.leap,
            },
            _ => return None,
        };
        self.sequence += 1;
        let header = Header {
            cluster: self.cluster,
            sender: NodeId::HOST,
            incarnation: INCARNATION,
            sequence: self.sequence,
            snapshot: 0,
            lamport: 0,
            vector: Vector::default(),
        };
        let to = opened.header.sender;
        let mut buffer = [0; DATAGRAM_MAX];
        Some((to.0, seal(&self.key, &header, to, &body, &mut buffer).to_vec()))
    }
}
