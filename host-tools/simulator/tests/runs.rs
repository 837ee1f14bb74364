//! The whole system, simulated: every promise holds, whatever the network and the nodes do.

mod common;

use common::concert;
use compasso_checker::{Event, NetworkStats, RunInfo, check, judge, trace::write_trace};
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

/// Sixty-four nodes, of which the leader dies: everybody enters, everybody agrees.
fn sixty_four(election: &str, mutex: &str) {
    let text = format!(
        "name = \"many\"\nnodes = 64\nseed = 1\nduration = \"20s\"\n\
         [clock]\nsync = \"cristian\"\nskew_ppm = {{ uniform = 50 }}\n[election]\nalgorithm = \"{election}\"\n\
         [mutex]\nalgorithm = \"{mutex}\"\nworkload = {{ every = \"4s\", hold = \"1ms\" }}\ntoken_rest = \"1ms\"\n\
         [network]\nloss = 0.01\n[[step]]\nat = \"7s\"\ncrash = 63\n"
    );
    let scenario = compasso_scenario::Scenario::parse(&text, "many").unwrap();
    let run = perform(&scenario);
    let summary = judge(&run.trace, &RunInfo::new(scenario, "sim", NetworkStats::default()));
    assert_eq!(summary.violations, [], "{election}, {mutex}");
    let agreed = summary.election.map(|election| (election.leader, election.agreed));
    assert_eq!(agreed, Some((Some(62), true)), "{election}, {mutex}");
    let entries = summary.mutex.map(|mutex| mutex.by_node).unwrap_or_default();
    assert!(entries.len() >= 63 && entries.values().all(|entries| *entries >= 1), "{election}, {mutex}: {entries:?}");
}

#[test]
fn sixty_four_nodes_take_turns_with_every_algorithm() {
    for mutex in ["central", "voting", "lamport", "ricart-agrawala", "token-ring", "suzuki-kasami", "maekawa"] {
        sixty_four("bully", mutex);
    }
}

#[test]
fn sixty_four_nodes_agree_with_every_election() {
    for election in ["ring", "chang-roberts", "hirschberg-sinclair", "detector"] {
        sixty_four(election, "token-ring");
    }
}
