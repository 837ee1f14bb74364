//! Visits and delays.

use super::{messages::Messages, sections::MutexSection, stats::Stats};
use crate::{entries::Entries, index::Trace, starved::starved, trace::Event};
use compasso_scenario::{Scenario, mutex_name};
use std::collections::BTreeMap;

pub(super) fn section(scenario: &Scenario, trace: &Trace<'_>, entries: &Entries, messages: &Messages) -> MutexSection {
    let mut by_node: BTreeMap<u16, u64> = scenario.ids.iter().map(|id| (*id, 0)).collect();
    for entry in entries.by_resource.values().flatten() {
        *by_node.entry(entry.node).or_default() += 1;
    }
    let count = entries.count();
    let sent: u64 = messages.mutex().values().sum();
    let of = |wanted: fn(&Event) -> bool| trace.events.iter().filter(|event| wanted(&event.event)).count() as u64;
    MutexSection {
        algorithm: mutex_name(&scenario.mutex.algorithm).to_owned(),
        entries: count,
        by_node,
        requests: entries.requests,
        starved: starved(trace, entries),
        messages: messages.mutex(),
        messages_per_entry: (count > 0).then(|| (sent as f64 / count as f64 * 1000.0).round() / 1000.0),
        client_delay_us: Stats::of(client_delays(trace, entries)),
        sync_delay_us: Stats::of(sync_delays(trace, entries)),
        retransmissions: messages.mutex_again(),
        hardening_messages: messages.mutex_hardening(),
        regenerated: of(|event| matches!(event, Event::TokenRegenerated { .. })),
        fenced: of(|event| matches!(event, Event::Fenced { .. })),
    }
}

fn client_delays(trace: &Trace<'_>, entries: &Entries) -> Vec<i64> {
    let delays = entries.by_resource.values().flatten().filter_map(|entry| {
        let (asked, got) = (trace.event(entry.request?), trace.event(entry.enter));
        // One node's hardware clock serves where true time is unknown.
        asked.true_us.zip(got.true_us).or(asked.hw_us.zip(got.hw_us)).map(|(asked, got)| got - asked)
    });
    delays.collect()
}

fn sync_delays(trace: &Trace<'_>, entries: &Entries) -> Vec<i64> {
    let mut delays = Vec::new();
    for list in entries.by_resource.values() {
        for pair in list.windows(2) {
            let [first, second] = pair else { continue };
            let time = |index: Option<usize>| index.and_then(|index| trace.event(index).true_us);
            if let (Some(left), Some(asked), Some(entered)) =
                (time(first.exit), time(second.request), time(Some(second.enter)))
                && asked <= left
                && left <= entered
            {
                delays.push(entered - left);
            }
        }
    }
    delays
}
