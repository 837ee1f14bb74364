//! Each defence is needed: without it, the checker finds what it defends against.

mod common;

use common::{count, scenario};
use compasso_checker::{Event, TraceEvent, check};
use compasso_scenario::Scenario;
use compasso_simulator::{Defence, perform, perform_without};
use std::fmt::Write;

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
        SEEDS.flat_map(|seed| broken(&perform_without(&cut_off(seed), &[defence]).trace)).collect();
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
    let without: usize =
        SEEDS.map(|seed| count(&perform_without(&cut_off(seed), &[Defence::Keeper]).trace, fenced)).sum();
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
        without.extend(broken(&perform_without(&long_locks(seed), &[Defence::Registration]).trace));
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
        let without = broken(&perform_without(&scenario, &[Defence::Confirmation]).trace);
        assert_eq!(without, ["deadlock"], "seed {seed}");
    }
}

#[test]
fn without_heeding_snapshots_on_every_datagram_a_marker_is_overtaken() {
    let steps: String =
        (20..80).map(|tenth| format!("[[step]]\nat = \"{}ms\"\nsnapshot = {}\n", tenth * 100, tenth % 5)).collect();
    let calm = |seed| {
        let workload = "{ every = \"20ms\", hold = \"1ms\" }";
        scenario(seed, 10, "delay = \"100us..20ms\"\nreorder = 0.1", workload, &steps)
    };
    assert!(SEEDS.flat_map(|seed| broken(&perform(&calm(seed)).trace)).next().is_none());
    let broken = SEEDS.flat_map(|seed| broken(&perform_without(&calm(seed), &[Defence::Heed]).trace));
    assert!(broken.collect::<Vec<_>>().contains(&"cut".to_owned()));
}

/// Three times somebody dies, is back before the others have noticed, wants to be inside for long and is cut
/// off there. On a network this bad its leader may go on renewing the lease of the life that is gone, and
/// that lease counts by a clock that the new life does not have.
fn quick_return(seed: u64) -> Scenario {
    let mut steps = String::new();
    for (round, id) in [(0, 3), (1, 2), (2, 1)] {
        let at = 8000 + round * 12_000;
        let back = at + 60 + seed % 5 * 50;
        let (lock, cut, heal) = (back + 10, back + 1310, back + 6500);
        write!(
            steps,
            "[[step]]\nat = \"{at}ms\"\ncrash = {id}\n[[step]]\nat = \"{back}ms\"\nrestart = {id}\n\
             [[step]]\nat = \"{lock}ms\"\nlock = {{ node = {id}, hold = \"5s\" }}\n\
             [[step]]\nat = \"{cut}ms\"\npartition = [[{id}, 0]]\n[[step]]\nat = \"{heal}ms\"\nheal = true\n"
        )
        .unwrap();
    }
    let text = format!(
        "name = \"quick-return\"\nnodes = 5\nseed = {seed}\nduration = \"48s\"\n\
         [election]\nalgorithm = \"bully\"\n\
         [mutex]\nalgorithm = \"central\"\nworkload = {{ every = \"60ms\", hold = \"20ms\" }}\n\
         [network]\ndelay = \"200us..30ms\"\nloss = 0.25\nduplicate = 0.02\nreorder = 0.05\n\
         [timing]\nsuspect_after = \"300ms\"\n{steps}"
    );
    Scenario::parse(&text, "quick-return").unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn a_returned_node_relies_on_no_lease_of_its_earlier_life() {
    let breaks_me1 = |trace: &[TraceEvent]| broken(trace).contains(&"ME1".to_owned());
    let without = |missing: &[Defence], seed| breaks_me1(&perform_without(&quick_return(seed), missing).trace);
    let neither = [Defence::Quarantine, Defence::OwnLease];
    let seed = (1..=80).find(|seed| without(&neither, *seed)).expect("some seed shows what they are for");
    assert!(!without(&[Defence::Quarantine], seed), "the life on the lease is enough");
    for seed in (1..=12).chain([seed]) {
        assert!(!breaks_me1(&perform(&quick_return(seed)).trace), "seed {seed}");
    }
}
