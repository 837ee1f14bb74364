//! Transactions, waits and deadlocks.

use super::{
    messages::Messages,
    sections::{DeadlockSection, Found},
    stats::Stats,
};
use crate::{
    entries::Entries,
    index::Trace,
    trace::Event,
    wait_for::{Circle, WaitFor, same_nodes},
};
use compasso_scenario::{Scenario, strategy_name};
use compasso_wire::config::Locks;
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn section(
    scenario: &Scenario,
    locks: &Locks,
    trace: &Trace<'_>,
    entries: &Entries,
    messages: &Messages,
) -> DeadlockSection {
    let graph = WaitFor::of(trace, entries);
    let by_node = transactions(scenario, trace);
    let transactions: u64 = by_node.values().sum();
    let sent: u64 = messages.locks().values().sum();
    let mut abandons: BTreeMap<String, u64> = BTreeMap::new();
    for event in trace.events {
        if let Event::Abandon { reason } = &event.event {
            *abandons.entry(reason.to_string()).or_default() += 1;
        }
    }
    let (circles, delays) = (graph.circles(), delays(trace, entries));
    let mean = delays.iter().sum::<i64>() as f64 / delays.len() as f64;
    let end = trace.end_us.unwrap_or(0);
    let waits: BTreeSet<usize> = graph.edges.iter().map(|edge| edge.request).collect();
    DeadlockSection {
        strategy: strategy_name(locks.strategy).to_owned(),
        found: found(trace, &circles),
        closed: circles.len() as u64,
        standing: circles.iter().filter(|circle| circle.until.0 > end).count() as u64,
        transactions,
        by_node,
        abandons,
        requests: graph.requests,
        waits: waits.len() as u64,
        wait_mean_us: mean.is_finite().then(|| mean.round()),
        wait_us: Stats::of(delays),
        messages: messages.locks(),
        messages_per_transaction: (transactions > 0)
            .then(|| (sent as f64 / transactions as f64 * 1000.0).round() / 1000.0),
        retransmissions: messages.locks_again(),
    }
}

/// Every deadlock once, however many of its nodes reported it: a report is of the last circle of its nodes.
fn found(trace: &Trace<'_>, circles: &[Circle]) -> Vec<Found> {
    let mut told: BTreeSet<usize> = BTreeSet::new();
    let mut list = Vec::new();
    for event in trace.events {
        let (Event::Deadlock { cycle, victim }, Some(by)) = (&event.event, event.node_id()) else { continue };
        let at_us = event.at_us();
        let of = circles.iter().rposition(|circle| circle.from.0 <= at_us && same_nodes(&circle.nodes, cycle));
        if of.is_none_or(|circle| told.insert(circle)) {
            let after_us = of.and_then(|circle| circles.get(circle)).map(|circle| at_us - circle.from.0);
            list.push(Found { cycle: cycle.clone(), victim: *victim, by, at_us, after_us });
        }
    }
    list
}

/// Transactions of each node that gave everything back without having had to.
fn transactions(scenario: &Scenario, trace: &Trace<'_>) -> BTreeMap<u16, u64> {
    let mut by_node: BTreeMap<u16, u64> = scenario.ids.iter().map(|id| (*id, 0)).collect();
    for ((node, _), stream) in &trace.streams {
        let (mut inside, mut asked): (BTreeSet<&str>, BTreeSet<&str>) = Default::default();
        // It gave something back, or up, that it had not finished with.
        let mut unfinished = false;
        for index in stream {
            match &trace.event(*index).event {
                Event::Request { resource } if trace.setting.is_lock(resource) => {
                    unfinished &= !(inside.is_empty() && asked.is_empty());
                    asked.insert(resource);
                }
                Event::CsEnter { resource, .. } if trace.setting.is_lock(resource) => {
                    asked.remove(resource.as_ref());
                    inside.insert(resource);
                }
                Event::Withdraw { resource } => unfinished |= asked.remove(resource.as_ref()),
                Event::Abandon { .. } => unfinished = true,
                Event::CsExit { resource, .. }
                    if inside.remove(resource.as_ref()) && inside.is_empty() && asked.is_empty() && !unfinished =>
                {
                    *by_node.entry(*node).or_default() += 1;
                }
                _ => {}
            }
        }
    }
    by_node
}

/// From a request to its grant.
fn delays(trace: &Trace<'_>, entries: &Entries) -> Vec<i64> {
    let locks = entries.by_resource.iter().filter(|(resource, _)| trace.setting.is_lock(resource));
    let delay = |request: usize, enter: usize| {
        let (asked, got) = (trace.event(request), trace.event(enter));
        asked.true_us.zip(got.true_us).or(asked.hw_us.zip(got.hw_us)).map(|(asked, got)| got - asked)
    };
    locks.flat_map(|(_, list)| list).filter_map(|entry| delay(entry.request?, entry.enter)).collect()
}
