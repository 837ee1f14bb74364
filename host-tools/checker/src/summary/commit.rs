//! Transactions: how many, how they ended, what they cost.

use super::{messages::Messages, sections::CommitSection, stats::Stats};
use crate::{index::Trace, trace::Event};
use std::collections::BTreeMap;

#[derive(Default)]
struct Ended {
    begun_us: Option<i64>,
    last_us: Option<i64>,
    commit: Option<bool>,
}

pub(super) fn section(trace: &Trace<'_>, messages: &Messages) -> CommitSection {
    let mut transactions: BTreeMap<u64, Ended> = BTreeMap::new();
    let mut bound: BTreeMap<(u64, u16), bool> = BTreeMap::new();
    let mut refusals = 0;
    for event in trace.events {
        let Some(node) = event.node_id() else { continue };
        match &event.event {
            Event::Transaction { transaction, .. } => {
                transactions.entry(*transaction).or_default().begun_us = Some(event.at_us());
            }
            Event::Voted { transaction, yes: true } => {
                bound.entry((*transaction, node)).or_insert(true);
            }
            Event::Voted { yes: false, .. } => refusals += 1,
            Event::Decided { transaction, commit } => {
                bound.insert((*transaction, node), false);
                let ended = transactions.entry(*transaction).or_default();
                ended.commit = Some(*commit);
                ended.last_us = ended.last_us.max(Some(event.at_us()));
            }
            _ => {}
        }
    }
    let ended = |commit| transactions.values().filter(|ended| ended.commit == Some(commit)).count() as u64;
    let took = |ended: &Ended| ended.last_us.zip(ended.begun_us).map(|(last, begun)| last - begun);
    let committed = ended(true);
    let sent: u64 = messages.commit().values().sum();
    CommitSection {
        algorithm: "two-phase".to_owned(),
        transactions: transactions.len() as u64,
        committed,
        aborted: ended(false),
        refusals,
        blocked: bound.values().filter(|waits| **waits).count() as u64,
        messages: messages.commit(),
        messages_per_transaction: (!transactions.is_empty())
            .then(|| (sent as f64 / transactions.len() as f64 * 1000.0).round() / 1000.0),
        took_us: Stats::of(transactions.values().filter_map(took).collect()),
        retransmissions: messages.commit_again(),
        hardening_messages: messages.commit_hardening(),
    }
}
