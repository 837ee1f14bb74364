//! What a scenario makes of one node.

use crate::model::Scenario;
use compasso_wire::{Key, NodeConfig, NodeId, config::Stored};

/// Unsynchronized clocks show anything up to this far from true time at boot, in either direction.
const WRONG_CLOCK_MAX_US: u64 = 2_000_000;

/// One number out of several, so that neighbours have nothing in common (SplitMix64).
#[must_use]
pub fn mix(parts: &[u64]) -> u64 {
    parts.iter().fold(0x9e37_79b9_7f4a_7c15, |state, part| {
        let mut z = (state ^ part).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

impl Scenario {
    /// How the node's crystal is off at the start, in parts per million.
    #[must_use]
    pub fn skew_ppm(&self, id: u16) -> f64 {
        let position = self.ids.iter().position(|other| *other == id);
        position.and_then(|position| self.clock.skew_ppm.get(position)).copied().unwrap_or(0.0)
    }

    /// What the node's unsynchronized clock shows when this life begins.
    #[must_use]
    pub fn wrong_clock_us(&self, id: u16, incarnation: u32) -> i64 {
        let span = 2 * WRONG_CLOCK_MAX_US + 1;
        (mix(&[self.seed, u64::from(id), 2, u64::from(incarnation)]) % span) as i64 - WRONG_CLOCK_MAX_US as i64
    }

    /// Everything that makes one image this node in this life.
    #[must_use]
    pub fn node_config(&self, id: u16, incarnation: u32, stored: Stored, key: Key) -> NodeConfig {
        NodeConfig {
            cluster: mix(&[self.seed, 3]) as u32,
            key,
            me: NodeId(id),
            incarnation,
            stored,
            members: self.ids.iter().map(|id| NodeId(*id)).collect(),
            hardening: self.hardening,
            clock: self.clock.sync,
            election: self.election.algorithm,
            detector: self.election.detector,
            mutex: self.mutex.algorithm.clone(),
            time_source: self.clock.source,
            hosts: self.clock.hosts,
            adjustment: self.clock.adjustment,
            resources: self.mutex.resources,
            locks: self.locks,
            cache: self.cache,
            commit: self.commit,
            snapshots: self.snapshots,
            workload: self.mutex.workload,
            timing: self.timing,
            wrong_clock_us: self.wrong_clock_us(id, incarnation),
            rate_ppb: (self.skew_ppm(id) * 1000.0).round() as i32,
            seed: mix(&[self.seed, u64::from(id), 4, u64::from(incarnation)]) as u32,
        }
    }
}
