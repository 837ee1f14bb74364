//! Nodes that return while others are away: somebody admits them, and the cluster goes on. Each of these ended in a
//! standstill for good, with everybody alive and the network whole.

use compasso_checker::{NetworkStats, RunInfo, judge};
use compasso_scenario::Scenario;
use compasso_simulator::perform;

/// Performs the steps, each with its moment in milliseconds, with several seeds: everybody agrees in the end.
fn comes_back(ids: &[u16], election: &str, steps: &[(u32, &str)]) {
    let steps: String = steps.iter().map(|(at, step)| format!("[[step]]\nat = \"{at}ms\"\n{step}\n")).collect();
    for seed in 1..=3 {
        let text = format!(
            "name = \"returns\"\nids = {ids:?}\nseed = {seed}\nduration = \"40s\"\n\
             [election]\nalgorithm = \"{election}\"\n\
             [mutex]\nalgorithm = \"central\"\nworkload = {{ every = \"300ms\", hold = \"5ms\" }}\n\
             [network]\ndelay = \"200us..2ms\"\nloss = 0.02\n{steps}"
        );
        let scenario = Scenario::parse(&text, "returns").unwrap();
        let trace = perform(&scenario).trace;
        let summary = judge(&trace, &RunInfo::new(scenario, "sim", NetworkStats::default()));
        assert_eq!(summary.violations, [], "{election}, seed {seed}\n{text}");
        let agreed = summary.election.map(|election| (election.leader, election.agreed));
        assert_eq!(agreed, Some((ids.iter().max().copied(), true)), "{election}, seed {seed}\n{text}");
    }
}

const ELECTIONS: [&str; 5] = ["bully", "ring", "chang-roberts", "hirschberg-sinclair", "detector"];

/// It is back before it is missed, and without it nobody can make a view: the living are the same before and after.
#[test]
fn a_short_absence_that_leaves_no_majority_is_followed_by_a_new_view() {
    for election in ELECTIONS {
        comes_back(&[0, 1], election, &[(5_000, "crash = 0"), (5_300, "restart = 0")]);
        let others_away = [(5_000, "crash = 1"), (9_000, "crash = 0"), (9_300, "restart = 0"), (20_000, "restart = 1")];
        comes_back(&[0, 1, 2], election, &others_away);
    }
}

/// Node 2 is back and follows 0, which dies before it has admitted 2.
#[test]
fn a_leader_that_dies_before_it_admits_the_highest_is_replaced() {
    let steps = [
        (4_580, "crash = 1"),
        (7_367, "crash = 0"),
        (7_383, "crash = 2"),
        (9_877, "restart = 0"),
        (10_073, "restart = 2"),
        (11_595, "crash = 2"),
        (14_521, "partition = [[2, 0]]"),
        (16_906, "restart = 2"),
        (18_484, "crash = 0"),
        (21_083, "restart = 1"),
        (21_153, "heal = true"),
        (21_275, "restart = 0"),
    ];
    for election in ELECTIONS {
        comes_back(&[0, 1, 2], election, &steps);
    }
}

/// Node 4 may take over from 3, but waits for 5 to do so; 5 waits for the view that admits it, and that for 4's answer.
#[test]
fn who_waits_for_a_higher_one_to_take_over_follows_the_lower_one_until_then() {
    let steps = [
        (6_559, "crash = 5"),
        (11_611, "crash = 4"),
        (17_448, "crash = 2"),
        (18_115, "partition = [[0, 1, 4, 3]]"),
        (18_615, "crash = 1"),
        (20_759, "restart = 4"),
        (21_155, "heal = true"),
        (21_243, "restart = 1"),
        (21_719, "restart = 5"),
        (21_754, "restart = 2"),
    ];
    for election in ELECTIONS {
        comes_back(&[0, 1, 2, 3, 4, 5], election, &steps);
    }
}

/// Node 31 is back and follows 26, which learns of a higher term from 27, steps down for 31, and lives on.
#[test]
fn a_leader_that_steps_down_and_lives_on_is_not_waited_for() {
    let steps = [
        (6_221, "pause = 31"),
        (8_566, "crash = 31"),
        (9_638, "crash = 19"),
        (11_450, "pause = 21"),
        (11_844, "crash = 27"),
        (13_012, "restart = 31"),
        (15_961, "restart = 27"),
        (16_716, "partition = [[27]]"),
        (18_276, "restart = 19"),
        (19_078, "crash = 27"),
        (19_672, "crash = 21"),
        (20_341, "restart = 27"),
        (20_395, "restart = 21"),
        (20_933, "heal = true"),
    ];
    for election in ELECTIONS {
        comes_back(&[26, 31, 19, 27, 21], election, &steps);
    }
}
