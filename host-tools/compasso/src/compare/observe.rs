//! What a run tells of its costs, beyond its summary.

use compasso_checker::{Event, NetworkStats, RunInfo, Summary, TraceEvent, judge};
use compasso_scenario::{Action, Scenario};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A run, without its trace.
pub struct Observed {
    /// The scenario, to repeat it.
    pub scenario: Scenario,
    /// Its judgement and counts.
    pub summary: Summary,
    /// One message time: the median from a textbook message's departure to its arrival.
    pub message_us: Option<f64>,
    /// The share of the textbook messages that the busiest node sends or receives.
    pub busiest: Option<f64>,
    /// From the first call of an election until the last node names its leader.
    pub agreed_us: Option<i64>,
    /// From the first call of an election until its last textbook message arrives.
    pub last_message_us: Option<i64>,
}

impl Observed {
    /// Reads a run.
    pub fn of(scenario: &Scenario, stage: &str, trace: &[TraceEvent], network: NetworkStats) -> Observed {
        let summary = judge(trace, &RunInfo::new(scenario.clone(), stage, network));
        let mutex = summary.mutex.iter().flat_map(|mutex| mutex.messages.keys());
        let election = summary.election.iter().flat_map(|election| election.messages.keys());
        let locks = summary.deadlock.iter().flat_map(|deadlock| deadlock.messages.keys());
        let kinds: BTreeSet<String> = mutex.chain(election).chain(locks).cloned().collect();
        let elect_at = scenario.steps.iter().find(|step| matches!(step.action, Action::Elect(_))).map(|step| step.at.0);
        let called_us = elect_at.and_then(|at| called_us(trace, at as i64));
        let since_call = |last: Option<i64>| called_us.and_then(|called| last.map(|last| last - called));
        Observed {
            message_us: message_us(trace, &kinds),
            busiest: busiest(trace, &kinds),
            agreed_us: since_call(called_us.and_then(|called| named_us(trace, &summary, called))),
            last_message_us: since_call(called_us.and_then(|called| arrived_us(trace, &kinds, called))),
            scenario: scenario.clone(),
            summary,
        }
    }

    /// Bytes that nodes put on the network.
    pub fn bytes(&self) -> u64 {
        self.summary.network.bytes
    }
}

fn message_us(trace: &[TraceEvent], kinds: &BTreeSet<String>) -> Option<f64> {
    let mut sent = HashMap::new();
    let mut took = Vec::new();
    for event in trace {
        match (&event.event, event.node_id(), event.true_us) {
            (Event::Send { kind, id, .. }, Some(node), Some(at)) if kinds.contains(kind.as_ref()) => {
                sent.insert((node, event.inc, *id), at);
            }
            (Event::Recv { from, from_inc, id, .. }, Some(_), Some(at)) => {
                took.extend(sent.get(&(*from, *from_inc, *id)).map(|left| at - left));
            }
            _ => {}
        }
    }
    took.sort_unstable();
    took.get(took.len() / 2).map(|median| (*median).max(1) as f64)
}

fn busiest(trace: &[TraceEvent], kinds: &BTreeSet<String>) -> Option<f64> {
    let mut handled: BTreeMap<u16, u64> = BTreeMap::new();
    let mut messages = 0;
    for event in trace {
        if let (Event::Send { to, kind, again: false, .. }, Some(from)) = (&event.event, event.node_id())
            && kinds.contains(kind.as_ref())
        {
            messages += 1;
            *handled.entry(from).or_default() += 1;
            *handled.entry(*to).or_default() += 1;
        }
    }
    handled.values().max().map(|most| *most as f64 / messages as f64)
}

fn called_us(trace: &[TraceEvent], from_us: i64) -> Option<i64> {
    let calls = trace.iter().filter(|event| matches!(event.event, Event::ElectionStart { .. }));
    calls.filter_map(|event| event.true_us).filter(|at| *at >= from_us).min()
}

fn named_us(trace: &[TraceEvent], summary: &Summary, from_us: i64) -> Option<i64> {
    let election = summary.election.as_ref().filter(|election| election.agreed)?;
    let names = |event: &&TraceEvent| matches!(event.event, Event::Leader { id, .. } if Some(id) == election.leader);
    trace.iter().filter(names).filter_map(|event| event.true_us).filter(|at| *at >= from_us).max()
}

fn arrived_us(trace: &[TraceEvent], kinds: &BTreeSet<String>, from_us: i64) -> Option<i64> {
    let arrivals =
        trace.iter().filter(|event| matches!(&event.event, Event::Recv { kind, .. } if kinds.contains(kind.as_ref())));
    arrivals.filter_map(|event| event.true_us).filter(|at| *at >= from_us).max()
}
