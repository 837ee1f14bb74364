//! Who led when: whom a majority of the configured nodes names, moment by moment.

use crate::{
    cluster::Cluster,
    index::Trace,
    trace::{Event, Fault},
};
use serde::Serialize;
use std::collections::BTreeMap;

/// One leader's time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Led {
    /// Who.
    pub leader: u16,
    /// Of which term.
    pub term: u64,
    /// Since when a majority followed.
    pub from_us: i64,
    /// Until when.
    pub until_us: i64,
}

/// Who led when, and how long it took to agree.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Leadership {
    /// Times with a leader, in order.
    pub spans: Vec<Led>,
    /// From each leader's crash or first call until all of the majority's side agree.
    pub convergence_us: Vec<i64>,
    /// Whom the majority names at the end.
    pub leader: Option<u16>,
    /// Its term.
    pub term: Option<u64>,
    /// All live nodes of the majority's side name it.
    pub agreed: bool,
    /// Different terms that a majority followed.
    pub terms: u64,
}

struct Walk {
    ids: Vec<u16>,
    cluster: Cluster,
    /// Booted nodes, and whom each names.
    named: BTreeMap<u16, Option<(u16, u64)>>,
    trouble_since: Option<i64>,
    result: Leadership,
    current: Option<Led>,
}

impl Leadership {
    /// Reads a trace from its beginning to its end.
    #[must_use]
    pub fn of(trace: &Trace<'_>) -> Leadership {
        let ids = trace.setting.ids.clone();
        let fixed = trace.setting.election.as_deref() == Some("none");
        let highest = ids.iter().max().copied().unwrap_or(0);
        let mut order: Vec<usize> = (0..trace.events.len())
            .filter(|index| {
                matches!(
                    trace.event(*index).event,
                    Event::Leader { .. } | Event::ElectionStart { .. } | Event::Boot { .. } | Event::Fault(_)
                )
            })
            .collect();
        if trace.end_us.is_some() {
            order.sort_by_key(|index| trace.event(*index).at_us());
        }
        let mut walk = Walk {
            cluster: Cluster::whole(&ids),
            ids,
            named: BTreeMap::new(),
            trouble_since: None,
            result: Leadership::default(),
            current: None,
        };
        for index in order {
            let event = trace.event(index);
            let at = event.at_us();
            match (&event.event, event.node_id()) {
                (Event::Boot { .. }, Some(node)) => drop(walk.named.insert(node, fixed.then_some((highest, 0)))),
                (Event::Leader { id, term }, Some(node)) => drop(walk.named.insert(node, Some((*id, *term)))),
                (Event::ElectionStart { .. }, Some(node)) => {
                    walk.named.insert(node, None);
                    walk.trouble_since.get_or_insert(at);
                }
                (Event::Fault(fault), _) => walk.fault(fault, at),
                _ => {}
            }
            walk.step(at);
        }
        walk.finish(trace.end_us.unwrap_or(0))
    }

    /// Who led at this moment.
    #[must_use]
    pub fn at(&self, at_us: i64) -> Option<u16> {
        let next = self.spans.partition_point(|span| span.from_us <= at_us);
        let span = self.spans.get(next.checked_sub(1)?)?;
        (at_us < span.until_us).then_some(span.leader)
    }
}

impl Walk {
    fn fault(&mut self, fault: &Fault, at: i64) {
        self.cluster.apply(fault);
        if let Fault::Crash(node) = fault {
            self.named.remove(node);
            if self.current.is_some_and(|led| led.leader == *node) {
                self.trouble_since.get_or_insert(at);
            }
        }
    }

    fn step(&mut self, at: i64) {
        let leader = self.majority_names();
        if let Some(led) = &mut self.current {
            led.until_us = at;
            if leader == Some((led.leader, led.term)) {
                self.agree(at);
                return;
            }
            let led = *led;
            self.close(led);
        }
        self.current = leader.map(|(leader, term)| Led { leader, term, from_us: at, until_us: at });
        self.agree(at);
    }

    /// All of the majority's side agree: the trouble is over.
    fn agree(&mut self, at: i64) {
        if self.all_agree()
            && let Some(since) = self.trouble_since.take()
        {
            self.result.convergence_us.push(at - since);
        }
    }

    fn majority_names(&self) -> Option<(u16, u64)> {
        let mut votes: BTreeMap<u16, (usize, u64)> = BTreeMap::new();
        for (node, named) in &self.named {
            if let Some((leader, term)) = named
                && self.cluster.is_live(*node)
            {
                let vote = votes.entry(*leader).or_default();
                *vote = (vote.0 + 1, vote.1.max(*term));
            }
        }
        let (leader, (_, term)) = votes.into_iter().find(|(_, (count, _))| 2 * count > self.ids.len())?;
        self.cluster.is_live(leader).then_some((leader, term))
    }

    fn all_agree(&self) -> bool {
        let Some(led) = self.current else { return false };
        let side = self.cluster.majority().unwrap_or_default();
        side.iter().all(|node| matches!(self.named.get(node), Some(Some((leader, _))) if *leader == led.leader))
    }

    fn close(&mut self, led: Led) {
        match self.result.spans.last_mut() {
            // A called-off election interrupts nobody's lead.
            Some(last) if last.leader == led.leader && last.term == led.term && last.until_us == led.from_us => {
                last.until_us = led.until_us
            }
            _ => self.result.spans.push(led),
        }
    }

    fn finish(mut self, end: i64) -> Leadership {
        if let Some(mut led) = self.current {
            led.until_us = end.max(led.until_us);
            self.close(led);
        }
        let spans = std::mem::take(&mut self.result.spans).into_iter().filter(|led| led.until_us > led.from_us);
        self.result.spans = spans.collect();
        let terms: std::collections::BTreeSet<u64> = self.result.spans.iter().map(|led| led.term).collect();
        Leadership {
            leader: self.current.map(|led| led.leader),
            term: self.current.map(|led| led.term),
            agreed: self.all_agree(),
            terms: terms.len() as u64,
            ..self.result
        }
    }
}
