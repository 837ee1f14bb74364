//! From what a node reports to a line of the trace.

use super::event::{Brace, Certain, Course, DEFAULT_RESOURCE, Event, NodeRef, Text, TraceEvent};
use compasso_scenario::Names;
use compasso_wire::{Observation, ResourceId, commit::Decision, locks::ResourceSet, telemetry::Event as Seen};

impl TraceEvent {
    /// A node's observation as an event of the trace.
    #[must_use]
    pub fn from_observation(
        node_id: u16,
        incarnation: u32,
        observation: &Observation,
        true_us: Option<i64>,
        names: &Names,
    ) -> TraceEvent {
        let vector = names.ids.iter().zip(&observation.vector.0).filter(|(_, entry)| entry.incarnation > 0);
        TraceEvent {
            node: NodeRef::Node(node_id),
            seq: u64::from(observation.seq),
            inc: incarnation,
            lamport: Some(observation.lamport),
            vector: Some(vector.map(|(id, entry)| (*id, (entry.incarnation, u64::from(entry.count)))).collect()),
            hw_us: Some(observation.hw.0 as i64),
            cluster_us: observation.cluster.map(|cluster| cluster.0),
            true_us,
            event: event(&observation.event, names),
        }
    }
}

fn event(seen: &Seen, names: &Names) -> Event {
    let ids = &names.ids;
    let named = |resource: ResourceId| -> Text {
        match names.resources.get(usize::from(resource.0)) {
            Some(name) if name != DEFAULT_RESOURCE => Text::Owned(name.clone()),
            None if resource.0 > 0 => Text::Owned(format!("resource-{}", resource.0)),
            _ => Text::Borrowed(DEFAULT_RESOURCE),
        }
    };
    let all_named = |resources: ResourceSet| resources.iter().map(named).collect();
    let label = |label: u16| -> Text {
        let text = names.labels.get(usize::from(label));
        Text::Owned(text.cloned().unwrap_or_else(|| format!("label-{label}")))
    };
    let file_named = |file: u8| -> Text {
        let name = names.files.get(usize::from(file));
        Text::Owned(name.cloned().unwrap_or_else(|| format!("file-{file}")))
    };
    match *seen {
        Seen::Boot { incarnation } => Event::Boot { incarnation },
        Seen::Send { to, kind, id, again } => {
            Event::Send { to: to.0, kind: kind.as_str().into(), id: id.into(), again }
        }
        Seen::Recv { from, incarnation, kind, id } => {
            Event::Recv { from: from.0, kind: kind.as_str().into(), id: id.into(), from_inc: incarnation }
        }
        Seen::Drop { from, reason } => Event::Drop { from: from.map(|id| id.0), reason: reason.as_str().into() },
        Seen::Request { resource } => Event::Request { resource: named(resource) },
        Seen::CsEnter { resource, fence, lease_us } => {
            Event::CsEnter { resource: named(resource), fence: fence.0, lease_us }
        }
        Seen::CsRenew { resource, fence, lease_us } => {
            Event::CsRenew { resource: named(resource), fence: fence.0, lease_us }
        }
        Seen::CsExit { resource, fence } => Event::CsExit { resource: named(resource), fence: fence.0 },
        Seen::Fenced { resource, fence } => Event::Fenced { resource: named(resource), fence: fence.0 },
        Seen::ElectionStart { term } => Event::ElectionStart { term: term.0 },
        Seen::Leader { id, term } => Event::Leader { id: id.0, term: term.0 },
        Seen::View { term, number, epoch, members } => Event::View {
            term: term.0,
            number: number.into(),
            epoch: Some(epoch.into()),
            members: members.iter().filter_map(|position| ids.get(position).copied()).collect(),
        },
        Seen::Suspect { id } => Event::Suspect { id: id.0 },
        Seen::Trust { id } => Event::Trust { id: id.0 },
        Seen::Sync { source, offset_us, rtt_us, error_us, bound_us, course } => Event::Sync {
            offset_us,
            rtt_us: rtt_us.into(),
            error_us: error_us.into(),
            bound_us: Some(bound_us.into()),
            source: Some(source.0),
            course: course.map(|course| Course {
                rate_ppb: course.rate_ppb.into(),
                behind_us: course.behind_us.into(),
                ahead_us: course.ahead_us.into(),
                slow_ppb: course.slow_ppb.into(),
                fast_ppb: course.fast_ppb.into(),
                locked: course.locked,
                brace: Some(Brace {
                    behind_us: course.braced_behind_us.into(),
                    ahead_us: course.braced_ahead_us.into(),
                    leap_ppb: course.leap_ppb.into(),
                }),
                certain: Some(Certain {
                    behind_us: course.certain_behind_us.into(),
                    ahead_us: course.certain_ahead_us.into(),
                    ppb: course.certain_ppb.into(),
                }),
            }),
        },
        Seen::Token { resource, epoch, serial } => {
            Event::Token { resource: named(resource), epoch: epoch.into(), serial }
        }
        Seen::TokenRegenerated { resource, epoch } => {
            Event::TokenRegenerated { resource: named(resource), epoch: epoch.into() }
        }
        Seen::TokenDropped { resource, epoch } => {
            Event::TokenDropped { resource: named(resource), epoch: epoch.into() }
        }
        Seen::Wait { on, resource } => Event::Wait { on: vec![on.0], resource: Some(named(resource)) },
        Seen::Withdraw { resource } => Event::Withdraw { resource: named(resource) },
        Seen::Deadlock { cycle, victim } => Event::Deadlock {
            cycle: cycle.iter().filter_map(|position| ids.get(position).copied()).collect(),
            victim: Some(victim.0),
        },
        Seen::Abandon { reason } => Event::Abandon { reason: reason.as_str().into() },
        Seen::Snapshot { id, leader, epoch, tokens, holds, wants } => Event::Snapshot {
            id: id.into(),
            leader: leader.map(|id| id.0),
            epoch: epoch.into(),
            tokens: all_named(tokens),
            holds: all_named(holds),
            wants: all_named(wants),
        },
        Seen::SnapshotMessage { id, from, kind, token } => Event::SnapshotMessage {
            id: id.into(),
            from: from.0,
            kind: kind.as_str().into(),
            token: token.map(|(resource, epoch)| (named(resource), epoch.into())),
        },
        Seen::SnapshotDone { id } => Event::SnapshotDone { id: id.into() },
        Seen::SnapshotAborted { id } => Event::SnapshotAborted { id: id.into() },
        Seen::Label { label: index } => Event::Label { text: label(index) },
        Seen::Utc { seconds, leap } => Event::Utc { seconds, leap },
        Seen::Temperature { milli_celsius } => Event::Temperature { milli_celsius: milli_celsius.into() },
        Seen::Read { version, cached } => Event::Read { version, cached },
        Seen::Writing { version } => Event::Writing { version },
        Seen::Written { version, expired } => Event::Written { version, expired },
        Seen::Transaction { transaction, participants } => Event::Transaction {
            transaction: transaction.0,
            participants: participants.iter().filter_map(|position| ids.get(position).copied()).collect(),
        },
        Seen::Voted { transaction, yes } => Event::Voted { transaction: transaction.0, yes },
        Seen::Decided { transaction, decision } => {
            Event::Decided { transaction: transaction.0, commit: decision == Decision::Commit }
        }
        Seen::RequestRefused { resource, lamport } => {
            Event::RequestRefused { resource: named(resource), wanted: lamport }
        }
        Seen::Edited { file } => Event::Edited { file: file_named(file) },
        Seen::Built { file, source, source_incarnation, edit, raw, synchronized, logical } => Event::Built {
            file: file_named(file),
            source: source.0,
            source_inc: source_incarnation,
            edit,
            raw,
            synchronized,
            logical,
        },
        Seen::Falseticker { source, lies } => Event::Falseticker { source: source.0, lies },
        Seen::Overflow { queue, count } => {
            Event::Overflow { queue: Text::Borrowed(queue.as_str()), count: count.into() }
        }
    }
}
