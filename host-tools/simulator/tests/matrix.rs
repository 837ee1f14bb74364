//! Every algorithm of mutual exclusion and every election, through a crash and a return.

mod common;

use common::{count, matrix, matrix_of};
use compasso_checker::{Event, NetworkStats, RunInfo, judge};
use compasso_simulator::perform;
use std::collections::BTreeSet;

const MUTEXES: [&str; 7] =
    ["central", "voting", "lamport", "ricart-agrawala", "token-ring", "suzuki-kasami", "maekawa"];
const ELECTIONS: [&str; 5] = ["bully", "ring", "chang-roberts", "hirschberg-sinclair", "detector"];

fn holds(election: &str, mutex: &str, extra: &str) {
    let scenario = matrix(election, mutex, extra);
    let trace = perform(&scenario).trace;
    let summary = judge(&trace, &RunInfo::new(scenario.clone(), "sim", NetworkStats::default()));
    assert_eq!(summary.violations, [], "{election}, {mutex}\n{}", scenario.to_toml());
    let (agreed, leader) = summary.election.map_or((false, None), |election| (election.agreed, election.leader));
    assert!(agreed && leader == Some(4), "{election}, {mutex}: {leader:?}");
    let entries = summary.mutex.map(|mutex| mutex.by_node).unwrap_or_default();
    assert!(entries.len() == 5 && entries.values().all(|entries| *entries > 20), "{election}, {mutex}: {entries:?}");
    assert_eq!(count(&trace, |event| matches!(event, Event::Overflow { .. })), 0, "{election}, {mutex}: a full queue");
}

#[test]
fn every_mutex_survives_the_loss_and_return_of_the_coordinator() {
    for mutex in MUTEXES {
        holds("bully", mutex, "loss = 0.02");
    }
}

#[test]
fn every_election_survives_the_loss_and_return_of_the_coordinator() {
    for election in ELECTIONS {
        holds(election, "central", "loss = 0.02");
    }
}

#[test]
fn with_a_perfect_detector_where_nothing_is_lost_every_election_holds() {
    for election in ELECTIONS {
        holds(election, "ricart-agrawala", "loss = 0\n[timing]\ntrans = \"5ms\"\nprocess = \"2ms\"\n#perfect");
    }
}

#[test]
fn every_mutex_gives_turns_at_several_resources_at_once() {
    let resources = ["bow", "drum", "flute"];
    for mutex in MUTEXES {
        let scenario = matrix_of("bully", mutex, &resources, "loss = 0.02");
        let trace = perform(&scenario).trace;
        let summary = judge(&trace, &RunInfo::new(scenario.clone(), "sim", NetworkStats::default()));
        assert_eq!(summary.violations, [], "{mutex}\n{}", scenario.to_toml());
        let mut inside = BTreeSet::new();
        let mut together = false;
        let mut entries = resources.map(|_| 0);
        for event in &trace {
            match &event.event {
                Event::CsEnter { resource, .. } => {
                    inside.insert(resource.to_string());
                    let of = resources.iter().position(|name| name == resource);
                    entries[of.expect("a resource of the scenario")] += 1;
                }
                Event::CsExit { resource, .. } => {
                    inside.remove(resource.as_ref());
                }
                _ => {}
            }
            together |= inside.len() > 1;
        }
        assert!(entries.iter().all(|entries| *entries > 50), "{mutex}: {entries:?}");
        assert!(together, "{mutex}: one resource waits for the other");
    }
}
