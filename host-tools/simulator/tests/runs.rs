//! The whole system, simulated: every promise holds, whatever the network and the nodes do.

mod common;

use common::{concert, count, storm};
use compasso_checker::{Event, Fault, NetworkStats, RunInfo, check, judge, trace::write_trace};
use compasso_simulator::perform;

fn bytes(seed: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_trace(&perform(&concert(seed)).trace, &mut bytes).unwrap();
    bytes
}

#[test]
fn the_same_seed_gives_the_same_trace_byte_by_byte() {
    assert!(bytes(7) == bytes(7), "two runs with one seed differ");
    assert!(bytes(7) != bytes(8), "the seed decides nothing");
}

#[test]
fn the_concert_holds_with_every_seed() {
    for seed in 1..=20 {
        let scenario = concert(seed);
        let run = perform(&scenario);
        let summary = judge(&run.trace, &RunInfo::new(scenario, "sim", NetworkStats::default()));
        assert_eq!(summary.violations, [], "cargo compasso run --on sim --seed {seed}");
        let missed: Vec<_> = summary.expectations.iter().filter(|expectation| !expectation.ok).collect();
        assert!(missed.is_empty(), "cargo compasso run --on sim --seed {seed}: {missed:?}");
    }
}

#[test]
fn every_promise_holds_through_sixty_storms() {
    let (mut entries, mut leaders, mut regenerated, mut fenced) = (0, 0, 0, 0);
    let mut faults = std::collections::BTreeMap::new();
    for seed in 1..=60 {
        let scenario = storm(seed);
        let trace = perform(&scenario).trace;
        let report = check(&trace);
        assert!(report.violations.is_empty(), "storm {seed}: {:#?}\n{}", report.violations, scenario.to_toml());
        entries += count(&trace, |event| matches!(event, Event::CsEnter { .. }));
        leaders += count(&trace, |event| matches!(event, Event::Leader { .. }));
        regenerated += count(&trace, |event| matches!(event, Event::TokenRegenerated { .. }));
        fenced += count(&trace, |event| matches!(event, Event::Fenced { .. }));
        assert_eq!(count(&trace, |event| matches!(event, Event::Overflow { .. })), 0, "storm {seed}: a queue was full");
        for event in &trace {
            if let Event::Fault(fault) = &event.event {
                let kind = match fault {
                    Fault::Crash(_) => "crash",
                    Fault::Pause(_) => "pause",
                    Fault::Partition(_) => "partition",
                    Fault::DropToken => "drop_token",
                    _ => continue,
                };
                *faults.entry(kind).or_insert(0) += 1;
            }
        }
    }
    println!("{entries} entries, {leaders} leaders named, {regenerated} regenerations, {fenced} fenced, {faults:?}");
    assert!(entries > 10_000 && leaders > 1000 && regenerated > 60 && fenced > 0, "the storms were too mild");
    assert!(["crash", "pause", "partition", "drop_token"].iter().all(|kind| faults.contains_key(kind)));
}

#[test]
fn a_whole_cluster_that_was_switched_off_comes_back() {
    let mut steps = String::new();
    for id in 0..5 {
        steps +=
            &format!("[[step]]\nat = \"5s\"\ncrash = {id}\n[[step]]\nat = \"{}ms\"\nrestart = {id}\n", 6000 + id * 100);
    }
    for seed in 1..=10 {
        let scenario = common::scenario(seed, 25, "loss = 0.02", "{ every = \"100ms\", hold = \"5ms\" }", &steps);
        let trace = perform(&scenario).trace;
        let report = check(&trace);
        assert!(report.violations.is_empty(), "seed {seed}: {:#?}", report.violations);
        let entered =
            |event: &&compasso_checker::TraceEvent| matches!(event.event, Event::CsEnter { .. }) && event.inc == 2;
        assert!(trace.iter().filter(entered).count() > 100, "seed {seed}: nobody enters in the second life");
    }
}

#[test]
fn sixty_four_nodes_agree_and_take_turns() {
    let text = "name = \"many\"\nnodes = 64\nseed = 1\nduration = \"20s\"\n[clock]\nsync = \"cristian\"\n\
        skew_ppm = { uniform = 50 }\n[election]\nalgorithm = \"bully\"\n[mutex]\nalgorithm = \"token-ring\"\n\
        workload = { every = \"500ms\", hold = \"1ms\" }\ntoken_rest = \"1ms\"\n[network]\nloss = 0.01\n\
        [[step]]\nat = \"8s\"\ncrash = 63\n";
    let scenario = compasso_scenario::Scenario::parse(text, "many").unwrap();
    let run = perform(&scenario);
    let summary = judge(&run.trace, &RunInfo::new(scenario, "sim", NetworkStats::default()));
    assert_eq!(summary.violations, []);
    let election = summary.election.unwrap();
    assert_eq!((election.leader, election.agreed), (Some(62), true));
    assert!(summary.mutex.unwrap().by_node.values().all(|entries| *entries > 5));
}
