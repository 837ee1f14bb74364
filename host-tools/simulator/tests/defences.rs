//! Each defence is needed: without it, the checker finds what it defends against.

mod common;

use common::{count, scenario};
use compasso_checker::{Event, TraceEvent, check};
use compasso_scenario::Scenario;
use compasso_simulator::{Defence, perform, perform_without};

const SEEDS: std::ops::RangeInclusive<u64> = 1..=12;

/// The network splits while somebody is inside for long, and somebody is stopped inside.
fn cut_off(seed: u64) -> Scenario {
    let steps = "[[step]]\nat = \"3800ms\"\nlock = { node = 4, hold = \"4s\" }\n\
        [[step]]\nat = \"4s\"\npartition = [[0, 1, 2], [3, 4]]\n[[step]]\nat = \"9s\"\nheal = true\n\
        [[step]]\nat = \"13800ms\"\nlock = { node = 0, hold = \"4s\" }\n\
        [[step]]\nat = \"14s\"\npartition = [[4, 1, 2], [0, 3]]\n[[step]]\nat = \"19s\"\nheal = true\n\
        [[step]]\nat = \"23500ms\"\nlock = { node = 1, hold = \"2s\" }\n\
        [[step]]\nat = \"24s\"\npause = 1\n[[step]]\nat = \"30s\"\nresume = 1\n";
    // Deaths are noticed well within a lease: whoever does not wait for its end acts too early.
    scenario(
        seed,
        45,
        "loss = 0.01\n[timing]\nsuspect_after = \"300ms\"",
        "{ every = \"100ms\", hold = \"2ms\" }",
        steps,
    )
}

fn broken(trace: &[TraceEvent]) -> Vec<String> {
    let mut properties: Vec<_> =
        check(trace).violations.iter().map(|violation| violation.property.to_string()).collect();
    properties.sort_unstable();
    properties.dedup();
    properties
}

fn broken_without(defence: Defence) -> Vec<String> {
    let mut properties: Vec<_> =
        SEEDS.flat_map(|seed| broken(&perform_without(&cut_off(seed), defence).trace)).collect();
    properties.sort_unstable();
    properties.dedup();
    properties
}

#[test]
fn with_all_defences_nothing_breaks() {
    for seed in SEEDS {
        let trace = perform(&cut_off(seed)).trace;
        assert!(broken(&trace).is_empty(), "seed {seed}: {:#?}", check(&trace).violations);
        assert!(count(&trace, |event| matches!(event, Event::CsEnter { .. })) > 5, "seed {seed}: vacuous");
    }
}

#[test]
fn without_a_majority_both_sides_of_a_partition_enter() {
    assert!(broken_without(Defence::Majority).contains(&"ME1".to_owned()));
}

#[test]
fn without_waiting_out_leases_a_new_view_enters_beside_the_old_holder() {
    assert!(broken_without(Defence::WaitingOut).contains(&"ME1".to_owned()));
}

#[test]
fn without_leases_a_node_that_was_cut_off_stays_inside() {
    assert!(broken_without(Defence::Lease).contains(&"ME1".to_owned()));
}

#[test]
fn without_the_keeper_nobody_is_fenced() {
    let fenced = |event: &Event| matches!(event, Event::Fenced { .. });
    let with: usize = SEEDS.map(|seed| count(&perform(&cut_off(seed)).trace, fenced)).sum();
    let without: usize = SEEDS.map(|seed| count(&perform_without(&cut_off(seed), Defence::Keeper).trace, fenced)).sum();
    assert!(with > 0, "no visit outlived its lease");
    assert_eq!(without, 0);
}

/// Locks are held for long while the view changes, time and again.
fn long_locks(seed: u64) -> Scenario {
    let text = format!(
        "name = \"locks\"\nnodes = 5\nseed = {seed}\nduration = \"20s\"\n[election]\nalgorithm = \"bully\"\n\
         [deadlock]\nstrategy = \"prevent-order\"\nresources = [\"a\", \"b\", \"c\"]\n\
         workload = {{ every = \"20ms\", hold = \"200ms\", several = 2 }}\n[network]\nloss = 0.01\n\
         [[step]]\nat = \"4s\"\ncrash = 4\n[[step]]\nat = \"7s\"\nrestart = 4\n\
         [[step]]\nat = \"10s\"\ncrash = 3\n[[step]]\nat = \"13s\"\nrestart = 3\n"
    );
    Scenario::parse(&text, "locks").unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn without_registration_a_new_home_grants_what_somebody_holds() {
    let mut without = Vec::new();
    for seed in SEEDS {
        let trace = perform(&long_locks(seed)).trace;
        assert!(broken(&trace).is_empty(), "seed {seed}: {:#?}", check(&trace).violations);
        without.extend(broken(&perform_without(&long_locks(seed), Defence::Registration).trace));
    }
    assert!(without.contains(&"ME1".to_owned()), "{without:?}");
}

#[test]
fn without_confirmation_a_release_that_crosses_a_probe_is_called_a_deadlock() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/lessons/phantom-deadlock.toml");
    let lesson = std::fs::read_to_string(path).unwrap().replace("\nhardening = false\n", "\nhardening = true\n");
    for seed in SEEDS {
        let scenario = Scenario::parse(&lesson, "phantom").unwrap().with_seed(seed);
        assert!(broken(&perform(&scenario).trace).is_empty(), "seed {seed}");
        let without = broken(&perform_without(&scenario, Defence::Confirmation).trace);
        assert_eq!(without, ["deadlock"], "seed {seed}");
    }
}
