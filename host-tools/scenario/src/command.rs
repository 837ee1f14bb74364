//! What the stage asks of nodes to carry out a step.

use crate::{model::Scenario, step::Action};
use compasso_wire::{ClusterTime, Leap, NodeId, config::SnapshotMethod, message::Command};

/// A leap second takes effect so long after it was announced.
const LEAP_NOTICE_US: u64 = 2_000_000;
/// 1 January 2027, 00:00:00 UTC, in TAI: the midnight that runs with the host's time are staged around.
const MIDNIGHT_TAI_US: i64 = (1_798_761_600 + 37) * 1_000_000;
/// A run without a leap second begins so long before midnight.
const EVE_US: u64 = 60_000_000;

impl Scenario {
    /// The host's time when the run begins: a leap second falls on midnight, as it must.
    #[must_use]
    pub fn tai_begin_us(&self) -> i64 {
        let leap = self.steps.iter().find(|step| matches!(step.action, Action::Leap(_)));
        MIDNIGHT_TAI_US - leap.map_or(EVE_US, |step| step.at.0 + LEAP_NOTICE_US) as i64
    }

    /// The leap second that a step announces.
    #[must_use]
    pub fn leap(&self, step: &crate::step::Step) -> Option<Leap> {
        match step.action {
            Action::Leap(by) => Some(Leap { at: ClusterTime(MIDNIGHT_TAI_US), by }),
            _ => None,
        }
    }

    /// The commands of a step that takes place in the nodes, each with its receiver. What a step does
    /// to boards or network is the stage's.
    #[must_use]
    pub fn commands(&self, step: &crate::step::Step) -> Vec<(u16, Command)> {
        let all = |command: Command| self.ids.iter().map(|id| (*id, command)).collect();
        match &step.action {
            Action::Lock { node, resource, hold, lamport } => {
                vec![(*node, Command::Lock { resource: *resource, hold: *hold, lamport: *lamport })]
            }
            Action::Elect(id) => vec![(*id, Command::Elect)],
            Action::SetSkew { node, ppm } => vec![(*node, Command::SetRate { ppb: (ppm * 1000.0).round() as i32 })],
            Action::Acquire { node, resources } => vec![(*node, Command::Acquire { resources: *resources })],
            Action::Release { node, resources } => vec![(*node, Command::Release { resources: *resources })],
            Action::Claims { node, resources } => vec![(*node, Command::Claims { resources: *resources })],
            Action::Snapshot { node, number } => match self.snapshots {
                SnapshotMethod::Markers => vec![(*node, Command::Snapshot { number: *number })],
                SnapshotMethod::Unsynchronized => all(Command::Snapshot { number: *number }),
            },
            Action::Label { node, label } => vec![(*node, Command::Label { label: *label })],
            Action::Send { from, to, label } => vec![(*from, Command::Send { to: NodeId(*to), label: *label })],
            Action::Leap(_) => self.leap(step).map_or(Vec::new(), |Leap { at, by }| all(Command::Leap { at, by })),
            Action::Edit { node, file } => vec![(*node, Command::Edit { file: *file })],
            Action::Build { node, file, source } => {
                vec![(*node, Command::Build { file: *file, source: NodeId(*source) })]
            }
            Action::Read(id) => vec![(*id, Command::Read)],
            Action::Write(id) => vec![(*id, Command::Write)],
            Action::Transaction { refuse } => {
                let refusals = refuse.iter().map(|id| (*id, Command::Refuse));
                refusals.chain(self.ids.iter().map(|id| (*id, Command::Transaction))).collect()
            }
            Action::Crash(_)
            | Action::Restart(_)
            | Action::Pause(_)
            | Action::Resume(_)
            | Action::Partition(_)
            | Action::Heal
            | Action::DropToken
            | Action::TimeServer { .. }
            | Action::Lie { .. } => Vec::new(),
        }
    }
}
