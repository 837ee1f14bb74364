//! Locks on several named resources, and what is done about deadlocks.

use crate::node::Node;
use compasso_wire::{
    Instant, NodeConfig, NodeId,
    locks::{LockMessage, ResourceSet},
};

/// One node's part in the locks.
pub(crate) struct LockService {}

impl LockService {
    pub(crate) fn new(_config: &NodeConfig, _now: Instant) -> LockService {
        LockService {}
    }

    pub(crate) fn stop_workload(&mut self) {}

    pub(crate) fn poll_timeout(&self) -> Option<(Instant, &'static str)> {
        None
    }
}

impl Node {
    pub(crate) fn acquire(&mut self, _now: Instant, _resources: ResourceSet) {}

    pub(crate) fn release(&mut self, _now: Instant, _resources: ResourceSet) {}

    pub(crate) fn claim(&mut self, _now: Instant, _resources: ResourceSet) {}

    pub(crate) fn begin_locks(&mut self, _now: Instant) {}

    pub(crate) fn settle_locks(&mut self, _now: Instant) {}

    pub(crate) fn lock_timeouts(&mut self, _now: Instant) {}

    pub(crate) fn handle_locks(&mut self, _now: Instant, _from: NodeId, _message: LockMessage) {}
}
