//! Transactions that happen everywhere or nowhere.

use crate::node::Node;
use compasso_wire::{Instant, NodeConfig, NodeId, commit::CommitMessage};

/// One node's part in the atomic commit.
pub(crate) struct CommitService {}

impl CommitService {
    pub(crate) fn new(_config: &NodeConfig, _now: Instant) -> CommitService {
        CommitService {}
    }

    pub(crate) fn stop_workload(&mut self) {}

    pub(crate) fn refuse_next(&mut self) {}

    pub(crate) fn poll_timeout(&self) -> Option<(Instant, &'static str)> {
        None
    }
}

impl Node {
    pub(crate) fn begin_transaction(&mut self, _now: Instant) {}

    pub(crate) fn begin_commit(&mut self, _now: Instant) {}

    pub(crate) fn settle_commit(&mut self, _now: Instant) {}

    pub(crate) fn commit_timeouts(&mut self, _now: Instant) {}

    pub(crate) fn handle_commit(&mut self, _now: Instant, _from: NodeId, _message: CommitMessage) {}
}
