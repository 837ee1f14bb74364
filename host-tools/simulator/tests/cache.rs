//! Leases: clocks at the edge of their bound, servers that die, and no stale read.
//! `COMPASSO_STORMS=300 cargo test --test cache -- --nocapture` makes the long series.

mod common;

use common::{count, storm_of};
use compasso_checker::{Event, NetworkStats, RunInfo, Summary, check, judge};
use compasso_scenario::Scenario;
use compasso_simulator::{Defence, perform, perform_without};
use std::collections::BTreeMap;

/// Crystals exactly as far off as declared, neighbours in opposite directions, and rarely compared.
fn sections(invalidate: bool, fast_server: bool, lease: &str) -> String {
    let skew = if fast_server { "[-200, 200, -200, -200, 200]" } else { "[200, -200, 200, 200, -200]" };
    format!(
        "[clock]\nsync = \"cristian\"\nskew_ppm = {skew}\n\
         [cache]\nlease = \"{lease}\"\ninvalidate = {invalidate}\nworkload = {{ read = \"10ms\", write = \"3s\" }}\n\
         [timing]\ndrift_ppm = 200\nsync_every = \"4s\"\n"
    )
}

fn judged(scenario: &Scenario) -> Summary {
    judge(&perform(scenario).trace, &RunInfo::new(scenario.clone(), "sim", NetworkStats::default()))
}

#[test]
fn no_storm_and_no_clock_at_the_edge_of_its_bound_makes_a_stale_read() {
    let storms = std::env::var("COMPASSO_STORMS").ok().and_then(|count| count.parse().ok()).unwrap_or(16);
    let mut totals: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 1..=storms {
        let election = ["bully", "ring", "chang-roberts", "hirschberg-sinclair", "detector"][seed as usize % 5];
        let scenario = storm_of(
            seed,
            election,
            &sections(seed % 2 == 0, seed % 4 < 2, if seed % 3 == 0 { "3s" } else { "400ms" }),
        );
        let trace = perform(&scenario).trace;
        let summary = judge(&trace, &RunInfo::new(scenario.clone(), "sim", NetworkStats::default()));
        assert_eq!(summary.violations, [], "storm {seed}\n{}", scenario.to_toml());
        assert!(summary.checked.contains(&"cache".to_owned()));
        let overflows = count(&trace, |event| matches!(event, Event::Overflow { .. }));
        assert_eq!(overflows, 0, "storm {seed}: a queue was full\n{}", scenario.to_toml());
        let cache = summary.cache.expect("a section");
        let counts = [
            ("reads", cache.reads),
            ("hits", cache.hits),
            ("writes by answer", cache.by_answer.writes),
            ("writes by expiry", cache.by_expiry.writes),
            ("faults", summary.faults.len() as u64),
        ];
        counts.into_iter().for_each(|(what, count)| *totals.entry(what).or_insert(0) += count);
    }
    println!("{storms} storms: {totals:?}");
    assert!(totals["reads"] > 3000 * storms && totals["hits"] > totals["reads"] / 2, "{totals:?}");
    assert!(totals["writes by answer"] > 5 * storms && totals["writes by expiry"] > 3 * storms, "{totals:?}");
}

/// Reads and writes without faults, with and without the fast path.
fn quiet(invalidate: bool, drift_ppm: u32, sync_every: &str) -> Summary {
    let text = format!(
        "name = \"quiet\"\nnodes = 5\nseed = 2\nduration = \"40s\"\n\
         [clock]\nsync = \"cristian\"\nskew_ppm = [-150, -150, -150, -150, 150]\n\
         [cache]\nlease = \"500ms\"\ninvalidate = {invalidate}\nworkload = {{ read = \"10ms\", write = \"6s\" }}\n\
         [timing]\ndrift_ppm = {drift_ppm}\nsync_every = \"{sync_every}\"\n"
    );
    judged(&Scenario::parse(&text, "quiet").unwrap_or_else(|error| panic!("{error}\n{text}")))
}

#[test]
fn with_the_fast_path_a_write_takes_round_trips_and_without_it_a_lease() {
    let fast = quiet(true, 150, "500ms");
    let slow = quiet(false, 150, "500ms");
    for summary in [&fast, &slow] {
        assert_eq!(summary.violations, []);
        let cache = summary.cache.as_ref().expect("a section");
        let hits = cache.hit_rate.expect("reads");
        assert!(hits > 0.8 && cache.writes > 15, "{cache:?}");
    }
    let median =
        |summary: &Summary| summary.cache.as_ref().and_then(|cache| cache.write_wait_us).expect("writes").median;
    println!("a write waits {} us with the fast path, {} us without", median(&fast), median(&slow));
    assert!(median(&fast) < 20_000, "{}", median(&fast));
    assert!((200_000..510_000).contains(&median(&slow)), "{}", median(&slow));
}

#[test]
fn a_wide_bound_costs_hits_and_a_bound_that_is_too_narrow_costs_safety() {
    let hits = |summary: &Summary| summary.cache.as_ref().and_then(|cache| cache.hit_rate).expect("reads");
    let (narrow, wide) = (quiet(false, 150, "30s"), quiet(false, 1000, "30s"));
    assert_eq!((&narrow.violations[..], &wide.violations[..]), (&[][..], &[][..]));
    println!("hits with 150 ppm declared: {}, with 1000 ppm: {}", hits(&narrow), hits(&wide));
    assert!(hits(&wide) < hits(&narrow));
    let wrong = quiet(false, 5, "30s");
    assert!(wrong.violations.iter().any(|violation| violation.property == "cache"), "{:?}", wrong.violations);
}

/// The server and a reader are cut off; a copy lasts longer than it takes to replace the server.
fn cut_off(seed: u64) -> Scenario {
    let text = format!(
        "name = \"cut-off\"\nnodes = 5\nseed = {seed}\nduration = \"35s\"\n\
         [clock]\nsync = \"cristian\"\nskew_ppm = [-200, 200, 200, 200, -200]\n[election]\nalgorithm = \"bully\"\n\
         [cache]\nlease = \"5s\"\nworkload = {{ read = \"20ms\", write = \"2s\" }}\n\
         [timing]\ndrift_ppm = 200\nsuspect_after = \"2s\"\n\
         [[step]]\nat = \"6s\"\npartition = [[0, 4], [1, 2, 3]]\n[[step]]\nat = \"20s\"\nheal = true\n"
    );
    Scenario::parse(&text, "cut-off").unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn a_new_server_that_does_not_wait_lets_a_reader_that_was_cut_off_read_on() {
    let stale = |trace: &[compasso_checker::TraceEvent]| {
        check(trace).violations.iter().filter(|violation| violation.property == "cache").count()
    };
    let seeds = 1..=8;
    let without: usize =
        seeds.clone().map(|seed| stale(&perform_without(&cut_off(seed), &[Defence::LeaseTakeover]).trace)).sum();
    assert!(without > 0, "the wait is needed");
    for seed in seeds {
        let trace = perform(&cut_off(seed)).trace;
        assert_eq!(check(&trace).violations, [], "seed {seed}");
        let late = |event: &&compasso_checker::TraceEvent| event.true_us.is_some_and(|at| (6_500_000..).contains(&at));
        let reads = trace.iter().filter(late).filter(|event| matches!(event.event, Event::Read { .. }));
        assert!(
            reads.filter(|event| event.node_id() == Some(0)).count() > 20,
            "seed {seed}: it read on while it might"
        );
    }
}

#[test]
fn what_was_acknowledged_outlives_the_whole_cluster() {
    let mut steps = String::from("[[step]]\nat = \"4s\"\nwrite = 1\n[[step]]\nat = \"12s\"\nread = 2\n");
    for id in 0..5 {
        let at = 6000 + id * 100;
        steps += &format!("[[step]]\nat = \"5s\"\ncrash = {id}\n[[step]]\nat = \"{at}ms\"\nrestart = {id}\n");
    }
    let text = format!(
        "name = \"return\"\nnodes = 5\nseed = 2\nduration = \"14s\"\n[clock]\nsync = \"cristian\"\n\
         [election]\nalgorithm = \"bully\"\n[cache]\nlease = \"500ms\"\n{steps}"
    );
    let scenario = Scenario::parse(&text, "return").unwrap_or_else(|error| panic!("{error}\n{text}"));
    let trace = perform(&scenario).trace;
    let written = trace.iter().find_map(|event| match event.event {
        Event::Written { version, .. } => Some(version),
        _ => None,
    });
    let read = trace.iter().find_map(|event| match event.event {
        Event::Read { version, .. } => Some(version),
        _ => None,
    });
    assert!(written.is_some() && read == written, "{written:?} was written, {read:?} was read");
}
