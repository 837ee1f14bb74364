//! E1 (d): a leader is one that claimed its term.
//!
//! A term's number tells its claimant, and nobody else is named for it. Whoever follows has heard of the claim: that
//! the claimant called the election of this term, or that somebody named it. Whoever names first (the winner, or on a
//! ring with a list the one whose list came back) makes a term that is at most one higher than those it has heard of.
//! And a view is one of a term that its leader claimed, and not of a lower one than its member has named.

use super::unique;
use crate::{
    findings::Findings,
    index::Trace,
    trace::{Event, TraceEvent},
};
use compasso_wire::Term;
use std::collections::HashMap;

/// An event that made a term known, or confirmed it.
struct Claim {
    index: usize,
    term: Term,
    node: u16,
    /// The one named as leader, or the caller of the election.
    of: u16,
}

/// All of them, and those of each term by its claimant.
struct Claims {
    all: Vec<Claim>,
    by_term: HashMap<Term, Vec<usize>>,
}

impl Claims {
    /// Whether a claim of this term happened before an event.
    fn knows(&self, trace: &Trace<'_>, term: Term, index: usize) -> bool {
        self.by_term.get(&term).is_some_and(|claims| claims.iter().any(|claim| trace.before(*claim, index)))
    }
}

pub(super) fn check(trace: &Trace<'_>, findings: &mut Findings) {
    if trace.setting.detector.as_deref() == Some("scripted") {
        return findings.not_checked(
            "E1",
            "who claimed a term: with a scripted detector everybody boots with a leader",
            1,
        );
    }
    if !trace.gaps.is_empty() {
        return findings.not_checked("E1", "who claimed a term: the claim may lie in a counted gap", 1);
    }
    let claims = claims(trace);
    for (index, event) in trace.events.iter().enumerate() {
        if let (Event::Leader { id, term }, Some(node)) = (&event.event, event.node_id()) {
            naming(trace, &claims, &Claim { index, term: Term(*term), node, of: *id }, findings);
        }
    }
    if trace.setting.hardening {
        views(trace, &claims, findings);
    }
}

fn claims(trace: &Trace<'_>) -> Claims {
    let claim = |(index, event): (usize, &TraceEvent)| {
        let node = event.node_id()?;
        match event.event {
            Event::ElectionStart { term } => Some(Claim { index, term: Term(term), node, of: node }),
            Event::Leader { id, term } => Some(Claim { index, term: Term(term), node, of: id }),
            _ => None,
        }
    };
    let mut claims =
        Claims { all: trace.events.iter().enumerate().filter_map(claim).collect(), by_term: HashMap::new() };
    for claim in claims.all.iter().filter(|claim| claim.term.claimant().0 == claim.of) {
        claims.by_term.entry(claim.term).or_default().push(claim.index);
    }
    claims
}

fn naming(trace: &Trace<'_>, claims: &Claims, naming: &Claim, findings: &mut Findings) {
    let Claim { index, term, node, of } = *naming;
    let claimant = term.claimant().0;
    let wrong = |detail: String, findings: &mut Findings| {
        let at_us = trace.event(index).at_us();
        findings.violation("E1", at_us, unique([node, of]), detail, trace.names(&[index]));
    };
    if claimant != of {
        return wrong(format!("{node} named {of} of term {}, which is one of {claimant}", term.0), findings);
    }
    if claims.knows(trace, term, index) {
        return;
    }
    let makes_terms = of == node || trace.setting.election.as_deref() == Some("ring");
    // What it heard of last is mostly what it answers to.
    let mut heard = claims.all.iter().rev().filter(|claim| trace.before(claim.index, index));
    let follows = term.counter() <= 1 || heard.any(|claim| claim.term.counter() + 1 >= term.counter());
    if !makes_terms {
        wrong(format!("{node} named {of} of term {}, which nobody it had heard from knew of", term.0), findings);
    } else if !follows {
        let heard = claims.all.iter().filter(|claim| trace.before(claim.index, index));
        let highest = heard.map(|claim| claim.term.counter()).max().unwrap_or(0);
        let detail = format!("{node} named {of} of term {}, number {}", term.0, term.counter());
        wrong(format!("{detail}, but had heard of none above number {highest}"), findings);
    }
}

/// A member may be in a view while an election goes on in which it names nobody yet: so a view needs a claim that the
/// member has heard of, not that it names its leader.
fn views(trace: &Trace<'_>, claims: &Claims, findings: &mut Findings) {
    for ((node, _), stream) in &trace.streams {
        let mut named: Option<(u64, usize)> = None;
        for index in stream.iter().copied() {
            let term = match trace.event(index).event {
                Event::Leader { term, .. } => {
                    named = Some((term, index));
                    continue;
                }
                Event::View { term, .. } => term,
                _ => continue,
            };
            let at_us = trace.event(index).at_us();
            let leader = Term(term).claimant().0;
            if let Some((of, naming)) = named.filter(|(of, _)| *of > term) {
                let detail = format!("{node} named the leader of term {of}, and then was in a view of term {term}");
                findings.violation("E1", at_us, vec![*node], detail, trace.names(&[naming, index]));
            } else if !claims.knows(trace, Term(term), index) {
                let detail = format!("{node} is in a view of term {term}, which {leader} had not claimed");
                findings.violation("E1", at_us, unique([*node, leader]), detail, trace.names(&[index]));
            }
        }
    }
}
