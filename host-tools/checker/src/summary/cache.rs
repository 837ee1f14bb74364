//! Reads and writes of the cached value.

use super::{
    messages::Messages,
    sections::{CacheSection, WriteWait},
    stats::{RoundTrip, Stats},
};
use crate::{index::Trace, trace::Event};
use compasso_wire::config::Cache;
use std::collections::BTreeMap;

pub(super) fn section(cache: &Cache, trace: &Trace<'_>, messages: &Messages) -> CacheSection {
    let (mut reads, mut hits, mut writes) = (0, 0, 0);
    let mut begun: BTreeMap<u64, (u16, i64)> = BTreeMap::new();
    let (mut answered, mut ran_out) = (Vec::new(), Vec::new());
    for event in trace.events {
        let Some(node) = event.node_id() else { continue };
        match event.event {
            Event::Read { cached, .. } => {
                reads += 1;
                hits += u64::from(cached);
            }
            Event::Writing { version } => drop(begun.insert(version, (node, event.at_us()))),
            Event::Written { version, expired } => {
                // The server acknowledges first; the writer hears of it.
                if let Some((_, from)) = begun.remove(&version).filter(|(server, _)| *server == node) {
                    writes += 1;
                    if expired { &mut ran_out } else { &mut answered }.push(event.at_us() - from);
                }
            }
            _ => {}
        }
    }
    let all: Vec<i64> = answered.iter().chain(&ran_out).copied().collect();
    let wait = |waits: Vec<i64>| WriteWait { writes: waits.len() as u64, wait_us: RoundTrip::of(waits) };
    CacheSection {
        algorithm: if cache.invalidate { "leases, invalidated" } else { "leases" }.to_owned(),
        lease_us: cache.lease.0,
        reads,
        hits,
        hit_rate: (reads > 0).then(|| (hits as f64 / reads as f64 * 10_000.0).round() / 10_000.0),
        writes,
        write_wait_us: Stats::of(all),
        by_answer: wait(answered),
        by_expiry: wait(ran_out),
        messages: messages.cache(),
        retransmissions: messages.cache_again(),
        hardening_messages: messages.cache_hardening(),
    }
}
