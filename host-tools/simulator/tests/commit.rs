//! Atomic commit: the coordinator's death at every point, and storms.
//! `COMPASSO_STORMS=300 cargo test --test commit -- --nocapture` makes the long series.

mod common;

use common::{count, storm_of};
use compasso_checker::{Event, NetworkStats, RunInfo, TraceEvent, Violation, check, judge};
use compasso_scenario::Scenario;
use compasso_simulator::{Defence, perform, perform_without};
use std::collections::{BTreeMap, BTreeSet};

const COORDINATOR: u16 = 4;

/// How a node dies.
#[derive(Clone, Copy)]
struct Death {
    node: u16,
    /// Right after what happened in the microsecond before.
    at_us: i64,
    /// What it sent in that microsecond never left: it died after it had stored, before it sent.
    mute: bool,
    returns: bool,
}

/// One transaction at 4 s, in the middle of which somebody dies.
fn one_transaction(seed: u64, hardening: bool, death: Option<Death>, refuse: &str) -> Scenario {
    let mut steps = format!("[[step]]\nat = \"4s\"\ntransaction = {{ refuse = [{refuse}] }}\n");
    if let Some(Death { node, at_us, mute, returns }) = death {
        if mute {
            steps += &format!("[[step]]\nat = \"{}us\"\npartition = [[{node}]]\n", at_us - 1);
            steps += &format!("[[step]]\nat = \"{}us\"\nheal = true\n", at_us + 1);
        }
        steps += &format!("[[step]]\nat = \"{at_us}us\"\ncrash = {node}\n");
        if returns {
            steps += &format!("[[step]]\nat = \"7s\"\nrestart = {node}\n");
        }
    }
    let text = format!(
        "name = \"one\"\nnodes = 5\nseed = {seed}\nduration = \"15s\"\nhardening = {hardening}\n\
         [election]\nalgorithm = \"bully\"\n[commit]\n[network]\ndelay = \"1ms..3ms\"\n{steps}"
    );
    Scenario::parse(&text, "one").unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The moments between two events, from the beginning of the transaction until everybody has decided
/// and nothing of it is on its way any more.
fn boundaries(trace: &[TraceEvent]) -> BTreeSet<i64> {
    let of_the_commit = |event: &&TraceEvent| match &event.event {
        Event::Send { kind, .. } | Event::Recv { kind, .. } => {
            let kind: &str = kind;
            ["prepare", "vote", "decision", "decision_store", "decision_stored", "decision_done"].contains(&kind)
        }
        Event::Transaction { .. } | Event::Voted { .. } | Event::Decided { .. } => true,
        _ => false,
    };
    let begun = trace.iter().find(|event| matches!(event.event, Event::Transaction { .. })).expect("a transaction");
    let from = begun.true_us.expect("true time");
    let moments = trace.iter().filter(of_the_commit).filter_map(|event| event.true_us).filter(|at| *at >= from);
    std::iter::once(from).chain(moments.map(|at| at + 1)).collect()
}

fn judged(scenario: &Scenario) -> (Vec<TraceEvent>, compasso_checker::Summary) {
    let trace = perform(scenario).trace;
    let summary = judge(&trace, &RunInfo::new(scenario.clone(), "sim", NetworkStats::default()));
    (trace, summary)
}

#[test]
fn the_death_of_anybody_at_any_point_splits_no_decision_and_leaves_nobody_blocked() {
    let mut ends: BTreeMap<(u16, bool), BTreeMap<&str, usize>> = BTreeMap::new();
    for (seed, refuse) in [(1, ""), (3, "2")] {
        let points = boundaries(&judged(&one_transaction(seed, true, None, refuse)).0);
        assert!(points.len() > 20, "prepare, vote, store, stored, decision, done of four others: {points:?}");
        for (node, mute) in [(COORDINATOR, false), (COORDINATOR, true), (1, false), (1, true)] {
            for (at_us, returns) in points.iter().flat_map(|at| [(*at, true), (*at, false)]) {
                let scenario = one_transaction(seed, true, Some(Death { node, at_us, mute, returns }), refuse);
                let (trace, summary) = judged(&scenario);
                assert_eq!(summary.violations, [], "{}", scenario.to_toml());
                let undecided = summary.not_checked.iter().filter(|item| item.property == "commit");
                let reasons: Vec<&str> = undecided.map(|item| item.reason.as_str()).collect();
                // One that stays away learns nothing; nothing else may be left open.
                let excused = |reason: &&str| !returns && reason.contains("was off");
                let began = count(&trace, |event| matches!(event, Event::Transaction { .. })) > 0;
                assert!(!began || reasons.iter().all(excused), "{reasons:?}\n{}", scenario.to_toml());
                let commit = summary.commit.expect("a section");
                let end = match (commit.committed, commit.aborted, began) {
                    (1, 0, _) => "committed",
                    (0, 1, _) => "aborted",
                    (0, 0, false) => "not begun",
                    _ => "unknown to all who live",
                };
                assert!(refuse.is_empty() || end != "committed", "{}", scenario.to_toml());
                *ends.entry((node, returns)).or_default().entry(end).or_default() += 1;
            }
        }
    }
    println!("{ends:?}");
    let all = |end: &str| ends.values().map(|ends| ends.get(end).copied().unwrap_or(0)).sum::<usize>();
    assert!(all("committed") > 20 && all("aborted") > 20, "the points are all alike: {ends:?}");
}

#[test]
fn a_decision_that_is_announced_before_it_is_stored_is_split_by_the_coordinators_death() {
    let points = boundaries(&judged(&one_transaction(1, true, None, "")).0);
    let is_split = |at_us: &&i64| {
        let death = Death { node: COORDINATOR, at_us: **at_us, mute: true, returns: true };
        let trace = perform_without(&one_transaction(1, true, Some(death), ""), &[Defence::StoredDecision]).trace;
        check(&trace).violations.iter().any(|violation| violation.detail.contains("is split"))
    };
    assert!(points.iter().filter(is_split).count() > 0);
}

#[test]
fn in_the_textbook_form_the_coordinators_death_between_votes_and_decision_blocks_and_never_splits() {
    let points = boundaries(&judged(&one_transaction(3, false, None, "")).0);
    let is_blocked = |violation: &Violation| violation.detail.ends_with("blocked");
    let mut blocked = 0;
    for at in &points {
        let death = Death { node: COORDINATOR, at_us: *at, mute: false, returns: true };
        let (_, summary) = judged(&one_transaction(3, false, Some(death), ""));
        assert!(summary.violations.iter().all(is_blocked), "{:#?}", summary.violations);
        blocked += usize::from(!summary.violations.is_empty());
    }
    println!("blocked after {blocked} of {} deaths", points.len());
    assert!(blocked > points.len() / 3 && blocked < points.len(), "{blocked} of {}", points.len());
}

#[test]
fn no_storm_splits_a_decision_or_leaves_anybody_blocked() {
    let storms = std::env::var("COMPASSO_STORMS").ok().and_then(|count| count.parse().ok()).unwrap_or(16);
    let mut totals: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 1..=storms {
        let election = ["bully", "ring", "chang-roberts", "hirschberg-sinclair", "detector"][seed as usize % 5];
        let commit = "[commit]\nworkload = { every = \"100ms\" }\nrefuse_one_in = 20\n";
        let scenario = storm_of(seed, election, commit);
        let trace = perform(&scenario).trace;
        let report = check(&trace);
        assert!(report.violations.is_empty(), "storm {seed}: {:#?}\n{}", report.violations, scenario.to_toml());
        let overflows = count(&trace, |event| matches!(event, Event::Overflow { .. }));
        assert_eq!(overflows, 0, "storm {seed}: a queue was full\n{}", scenario.to_toml());
        for event in &trace {
            let what = match &event.event {
                Event::Transaction { .. } => "transactions",
                Event::Decided { commit: true, .. } => "commits",
                Event::Decided { commit: false, .. } => "aborts",
                Event::Recv { kind, .. } if kind == "commit_told" => "answers to returned participants",
                Event::Fault(_) => "faults",
                _ => continue,
            };
            *totals.entry(what).or_insert(0) += 1;
        }
        for item in report.not_checked.iter().filter(|item| item.property == "commit") {
            *totals.entry("waits not checked").or_insert(0) += item.count;
        }
    }
    println!("{storms} storms: {totals:?}");
    assert!(totals["commits"] > 100 * storms && totals["aborts"] > 20 * storms, "{totals:?}");
    assert!(totals.contains_key("answers to returned participants"), "{totals:?}");
}

#[test]
fn sixty_four_nodes_commit_together() {
    let text = "name = \"many\"\nnodes = 64\nseed = 1\nduration = \"20s\"\n[election]\nalgorithm = \"bully\"\n\
                [commit]\nworkload = { every = \"500ms\" }\n[network]\nloss = 0.01\n[[step]]\nat = \"8s\"\ncrash = 63\n\
                [expect]\ncommits_min = 10\n";
    let (trace, summary) = judged(&Scenario::parse(text, "many").unwrap());
    assert_eq!(summary.violations, []);
    assert!(summary.expectations.iter().all(|expectation| expectation.ok), "{:?}", summary.expectations);
    assert_eq!(count(&trace, |event| matches!(event, Event::Overflow { .. })), 0);
}
