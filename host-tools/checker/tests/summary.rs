//! The summary tells what the trace shows, and a person can read it.

use compasso_checker::{NetworkStats, RunInfo, judge, render, trace::read_file};
use compasso_scenario::Scenario;

const SCENARIO: &str = r#"
name = "good-crash"
nodes = 3
duration = "19s"
[clock]
sync = "cristian"
skew_ppm = [10, 0, -10]
[election]
algorithm = "bully"
[mutex]
algorithm = "token-ring"
[expect]
leader = 2
violations = 0
entries_min = 6
terms_min = 3
regenerated_min = 1
gaps = 0
"#;

fn run(trace: &str, scenario: &str) -> compasso_checker::Summary {
    let path = format!("{}/tests/traces/{trace}.jsonl", env!("CARGO_MANIFEST_DIR"));
    let events = read_file(path).unwrap_or_else(|error| panic!("{error}"));
    let scenario = Scenario::parse(scenario, "test.toml").unwrap_or_else(|error| panic!("{error}"));
    judge(
        &events,
        &RunInfo::new(
            scenario,
            "sim",
            NetworkStats { datagrams: 100, bytes: 9000, lost: 2, ..NetworkStats::default() },
        ),
    )
}

#[test]
fn the_summary_tells_who_led_when_and_who_entered_how_often() {
    let summary = run("good-crash", SCENARIO);
    assert_eq!(summary.violations, []);
    let election = summary.election.as_ref().expect("an election");
    let led: Vec<u16> = election.leaders.iter().map(|led| led.leader).collect();
    assert_eq!(led, [2, 1, 2]);
    assert_eq!((election.leader, election.agreed, election.elections), (Some(2), true, 3));
    assert_eq!(election.messages["coordinator"], 5);
    // The crash at 1.5 s and the agreement at 3.002 s.
    assert_eq!(election.convergence_us.map(|took| took.max), Some(1_502_000));
    let mutex = summary.mutex.as_ref().expect("mutual exclusion");
    assert_eq!((mutex.entries, mutex.regenerated, mutex.fenced), (6, 1, 0));
    assert_eq!(mutex.by_node.values().copied().collect::<Vec<_>>(), [2, 2, 2]);
    assert_eq!(mutex.messages["token"], 4);
    let clock = summary.clock.as_ref().expect("clocks");
    assert_eq!((clock.backward_steps, clock.syncs), (0, 2));
    assert_eq!(clock.rtt_us.map(|rtt| rtt.median), Some(2_000));
    // Clocks of this trace show true time plus the node's number.
    assert_eq!(clock.error_us.map(|error| error.max), Some(2));
    assert!(summary.expectations.iter().all(|expectation| expectation.ok), "{:#?}", summary.expectations);
    assert_eq!((summary.exit_code(), summary.held), (0, true));
}

#[test]
fn the_json_has_the_fields_of_the_interface() {
    let json = serde_json::to_value(run("good-crash", SCENARIO)).expect("a summary is JSON");
    for path in [
        "/scenario",
        "/stage",
        "/seed",
        "/nodes",
        "/events",
        "/violations",
        "/expectations/0/wanted",
        "/election/convergence_us/median",
        "/mutex/by_node/0",
        "/mutex/messages/token",
        "/mutex/messages_per_entry",
        "/mutex/client_delay_us/p99",
        "/mutex/sync_delay_us/max",
        "/mutex/retransmissions",
        "/clock/error_us/median",
        "/clock/bound_us",
        "/clock/bound_broken",
        "/clock/backward_steps",
        "/clock/skew_ppm/0/true",
        "/clock/skew_ppm/0/estimated",
        "/clock/raw_spread_us",
        "/clock/converged_us",
        "/clock/spread_us",
        "/deadlock",
        "/network/datagrams",
        "/network/refused",
        "/not_checked/0/reason",
        "/faults/0/crash",
    ] {
        assert!(json.pointer(path).is_some(), "{path} is missing in {json:#}");
    }
}

#[test]
fn sections_without_an_algorithm_are_null() {
    let json = serde_json::to_value(run("good-foreign", "nodes = 2\nduration = \"1s\"\n")).expect("JSON");
    for section in ["election", "mutex", "clock", "deadlock"] {
        assert!(json[section].is_null(), "{section}");
    }
}

#[test]
fn a_missed_expectation_or_a_violation_is_exit_1() {
    let missed = run("good-crash", &SCENARIO.replace("entries_min = 6", "entries_min = 60"));
    assert_eq!((missed.violations.len(), missed.exit_code()), (0, 1));
    assert_eq!(run("me1", SCENARIO).exit_code(), 1);
}

#[test]
fn a_person_reads_less_than_45_lines_of_at_most_100_columns() {
    for trace in ["good-crash", "me1", "e1-minority"] {
        let text = render(&run(trace, SCENARIO), false);
        println!("{text}");
        assert!(text.lines().count() < 45, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        assert!(!text.contains('\x1b'));
    }
    assert!(render(&run("good-crash", SCENARIO), false).contains("Every promise held."));
    assert!(render(&run("me1", SCENARIO), true).contains("\x1b[1;31m"));
}

#[test]
fn what_the_stage_writes_reads_back_as_the_setting_it_came_from() {
    let scenario = Scenario::parse(SCENARIO, "test.toml").unwrap_or_else(|error| panic!("{error}"));
    let line = compasso_checker::TraceEvent::stage(1, Some(0), compasso_checker::scenario_event(&scenario, "sim"));
    let mut text = String::new();
    compasso_checker::trace::write_line(&line, &mut text);
    assert!(text.starts_with("{\"node\":\"stage\",\"seq\":1,\"true_us\":0,\"event\":\"scenario\",\"name\":\"good-crash\",\"stage\":\"sim\""), "{text}");
    assert_eq!(compasso_checker::trace::parse_line(&text), Ok(line));
}
