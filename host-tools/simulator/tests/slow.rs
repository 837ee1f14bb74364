//! Networks that are slower than the nodes were told: `timing.trans` is a first guess, and they learn.

use compasso_checker::{Event, NetworkStats, RunInfo, TraceEvent, judge};
use compasso_scenario::Scenario;
use compasso_simulator::perform;

/// One-way delays beyond the 40 ms that elections reckon with at first; the highest dies and returns.
fn slow(election: &str, seed: u64) -> Scenario {
    let text = format!(
        "name = \"slow\"\nnodes = 4\nseed = {seed}\nduration = \"40s\"\n\
         [election]\nalgorithm = \"{election}\"\n\
         [mutex]\nalgorithm = \"central\"\nworkload = {{ every = \"500ms\", hold = \"5ms\" }}\n\
         [network]\ndelay = \"50ms..80ms\"\n\
         [[step]]\nat = \"12s\"\ncrash = 3\n[[step]]\nat = \"20s\"\nrestart = 3\n"
    );
    Scenario::parse(&text, "slow").unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn every_election_settles_where_delays_exceed_the_first_guess() {
    for election in ["bully", "ring", "chang-roberts", "hirschberg-sinclair", "detector"] {
        let mut most = 0;
        for seed in 1..=25 {
            let scenario = slow(election, seed);
            let trace = perform(&scenario).trace;
            let summary = judge(&trace, &RunInfo::new(scenario, "sim", NetworkStats::default()));
            assert_eq!(summary.violations, [], "{election}, seed {seed}");
            let result = summary.election.unwrap();
            assert!(result.agreed && result.leader == Some(3), "{election}, seed {seed}: {result:?}");
            let calls = trace.iter().filter(|event| matches!(event.event, Event::ElectionStart { .. })).count();
            most = most.max(calls);
        }
        println!("{election}: at most {most} calls");
    }
}

/// All wait for the dead server's grant and do nothing but repeat their requests, ever more rarely. Their own
/// pauses between two repeats must not pass for sleep, which would excuse the server's silence.
#[test]
fn a_dead_server_is_noticed_while_everybody_waits_for_it() {
    for seed in 1..=10 {
        let steps: String =
            (0..3).map(|id| format!("[[step]]\nat = \"6040ms\"\nlock = {{ node = {id}, hold = \"5ms\" }}\n")).collect();
        let text = format!(
            "name = \"waiting\"\nnodes = 4\nseed = {seed}\nduration = \"16s\"\n\
             [election]\nalgorithm = \"bully\"\n[mutex]\nalgorithm = \"central\"\n\
             [network]\ndelay = \"1ms\"\n[[step]]\nat = \"6s\"\ncrash = 3\n{steps}"
        );
        let scenario = Scenario::parse(&text, "waiting").unwrap_or_else(|error| panic!("{error}\n{text}"));
        let trace = perform(&scenario).trace;
        let summary = judge(&trace, &RunInfo::new(scenario, "sim", NetworkStats::default()));
        assert_eq!(summary.violations, [], "seed {seed}");
        let noticed = |event: &&TraceEvent| matches!(event.event, Event::Suspect { id: 3 });
        let at_us: Vec<_> = trace.iter().filter(noticed).filter_map(|event| event.true_us).collect();
        assert!(at_us.iter().any(|at| *at < 7_000_000), "seed {seed}: {at_us:?}");
        assert_eq!(summary.mutex.unwrap().entries, 3);
    }
}
