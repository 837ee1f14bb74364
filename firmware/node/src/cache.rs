//! A cached value whose copies are valid until a time.

use crate::node::Node;
use compasso_wire::{Instant, NodeConfig, NodeId, cache::CacheMessage};

/// One node's part in the cache.
pub(crate) struct CacheService {}

impl CacheService {
    pub(crate) fn new(_config: &NodeConfig, _now: Instant) -> CacheService {
        CacheService {}
    }

    pub(crate) fn stop_workload(&mut self) {}

    pub(crate) fn poll_timeout(&self) -> Option<(Instant, &'static str)> {
        None
    }
}

impl Node {
    pub(crate) fn read_cached(&mut self, _now: Instant) {}

    pub(crate) fn write_cached(&mut self, _now: Instant) {}

    pub(crate) fn begin_cache(&mut self, _now: Instant) {}

    pub(crate) fn settle_cache(&mut self, _now: Instant) {}

    pub(crate) fn cache_timeouts(&mut self, _now: Instant) {}

    pub(crate) fn handle_cache(&mut self, _now: Instant, _from: NodeId, _message: CacheMessage) {}
}
