//! Several hosts that have the time, and one that lies: no clock is moved by it, and no interval is broken. Where more
//! lie than tell the truth, or where there is only one to ask, the checker says so.
//! `COMPASSO_STORMS=300 cargo test -p compasso-simulator --test sources -- --nocapture` makes the long series.

mod common;

use common::storm_of;
use compasso_checker::{Event, Fault, NetworkStats, RunInfo, Summary, TraceEvent, check, judge};
use compasso_scenario::{Scenario, mix};
use compasso_simulator::perform;

fn series(usual: u64) -> u64 {
    std::env::var("COMPASSO_STORMS").ok().and_then(|count| count.parse().ok()).unwrap_or(usual)
}

/// Five nodes that go by so many hosts for a minute.
fn scenario(seed: u64, hosts: u8, steps: &str) -> Scenario {
    let text = format!(
        "name = \"sources\"\nnodes = 5\nseed = {seed}\nduration = \"60s\"\n[clock]\nsync = \"disciplined\"\n\
         source = \"host\"\nhosts = {hosts}\nskew_ppm = {{ uniform = 100 }}\n[election]\nalgorithm = \"bully\"\n\
         [network]\ndelay = \"200us..2ms\"\nloss = 0.02\n{steps}"
    );
    Scenario::parse(&text, "sources").unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn performed(scenario: Scenario) -> (Vec<TraceEvent>, Summary) {
    let trace = perform(&scenario).trace;
    let summary = judge(&trace, &RunInfo::new(scenario, "sim", NetworkStats::default()));
    (trace, summary)
}

/// How far the clocks are from true time from 20 s on, but for one reading in a hundred.
fn p99(trace: &[TraceEvent]) -> f64 {
    let origin = compasso_checker::Trace::new(trace, None).setting.host_origin_us.expect("true time");
    let readings = trace.iter().filter_map(|event| event.cluster_us.zip(event.true_us));
    let late = readings.filter(|(_, at)| *at > 20_000_000);
    let mut errors: Vec<i64> = late.map(|(shown, at)| (shown - origin - at).abs()).collect();
    errors.sort_unstable();
    errors[errors.len() * 99 / 100] as f64
}

fn lies(at: &str, host: u8, how: &str) -> String {
    format!("[[step]]\nat = \"{at}\"\nlie = {{ host = {host}, {how} }}\n")
}

/// What three hosts say when one of them lies, and whether it can be found out.
fn liars() -> [(&'static str, String, bool); 6] {
    [
        ("fast", lies("15s", 1, "by = \"80ms\""), true),
        ("late", lies("15s", 0, "by = \"-80ms\""), true),
        ("slow", lies("15s", 1, "ppm = 200"), true),
        ("from the beginning", lies("0s", 2, "by = \"80ms\""), true),
        ("slight", lies("15s", 1, "by = \"600us\""), false),
        ("for a while", lies("15s", 1, "by = \"80ms\"") + &lies("30s", 1, "by = \"0ms\""), true),
    ]
}

#[test]
fn one_liar_among_three_neither_moves_the_clocks_nor_breaks_a_bound() {
    let seeds = series(10);
    let honest: Vec<f64> = (1..=seeds).map(|seed| p99(&performed(scenario(seed, 3, "")).0)).collect();
    for (name, steps, is_found) in liars() {
        let mut worse = Vec::new();
        for seed in 1..=seeds {
            let (trace, summary) = performed(scenario(seed, 3, &steps));
            assert_eq!(summary.violations, [], "{name}, seed {seed}");
            assert!(summary.checked.iter().any(|checked| checked == "clock-bound"), "{name}, seed {seed}");
            let clock = summary.clock.as_ref().unwrap();
            assert_eq!((clock.bound_broken, clock.backward_steps), (Some(0), 0), "{name}, seed {seed}");
            let liar = trace.iter().find_map(|event| match event.event {
                Event::Fault(Fault::Lie { host, .. }) => Some(compasso_checker::trace::host_name(host.into())),
                _ => None,
            });
            assert!(clock.falsetickers.keys().all(|found| Some(found) == liar.as_ref()), "{name}: {clock:?}");
            assert!(!is_found || !clock.falsetickers.is_empty(), "{name}, seed {seed}: nobody noticed");
            worse.push(p99(&trace) / honest[seed as usize - 1]);
        }
        worse.sort_by(f64::total_cmp);
        println!("{name}: p99 of the error {worse:.2?} times that without a liar");
        assert!(worse[worse.len() / 2] <= 1.5, "{name}: {worse:?} times as far off");
        assert!(worse[worse.len() - 1] <= 4.0, "{name}: {worse:?} times as far off");
    }
}

#[test]
fn a_liar_that_stops_is_believed_again() {
    let (trace, _) = performed(scenario(3, 3, &liars()[5].1));
    let said: Vec<(bool, i64)> = trace
        .iter()
        .filter_map(|event| match event.event {
            Event::Falseticker { lies, .. } => Some((lies, event.true_us.unwrap() / 1_000_000)),
            _ => None,
        })
        .collect();
    assert_eq!(said, [(true, 15), (false, 30)]);
}

/// What is checked is the truth, not what most hosts say.
#[test]
fn a_majority_that_lies_breaks_the_bound() {
    for seed in 1..=3 {
        let steps = lies("15s", 1, "by = \"80ms\"") + &lies("15s", 2, "by = \"80ms\"");
        let (_, summary) = performed(scenario(seed, 3, &steps));
        assert!(summary.violations.iter().any(|found| found.property == "clock-bound"), "seed {seed}");
        assert!(summary.clock.unwrap().falsetickers.contains_key("host"), "seed {seed}: the one that is right");
    }
}

/// Nobody to compare it with: every node follows the liar, at once or slowly.
#[test]
fn without_others_a_liar_breaks_the_bound() {
    for how in ["by = \"80ms\"", "by = \"-80ms\"", "ppm = 200"] {
        let (_, summary) = performed(scenario(4, 1, &lies("15s", 0, how)));
        assert!(summary.violations.iter().any(|found| found.property == "clock-bound"), "{how}");
        assert!(summary.clock.unwrap().falsetickers.is_empty(), "{how}");
    }
}

/// Two cannot outvote each other: when they disagree nobody is believed, and the boards go on by what they know.
#[test]
fn two_that_disagree_leave_the_clocks_as_they_are() {
    for seed in 1..=3 {
        let [honest, lied] = ["", &lies("20s", 1, "by = \"80ms\"")].map(|steps| {
            let (_, summary) = performed(scenario(seed, 2, steps));
            assert_eq!(summary.violations, [], "seed {seed}");
            summary.clock.unwrap()
        });
        let (error, bound) = (lied.after_convergence.expect("measured"), lied.bound_us.expect("claimed"));
        assert!(error.max < 20_000 && lied.falsetickers.is_empty(), "seed {seed}: {error:?}");
        let usual = honest.bound_us.expect("claimed");
        assert!(
            bound.median * 5 > usual.median * 7,
            "seed {seed}: they know that they do not know: {bound:?}, {usual:?}"
        );
    }
}

/// Boards crash, pause and are cut off while one host lies, now and then and another time, and an honest one leaves.
#[test]
fn one_liar_in_storms() {
    let storms = series(16);
    let (mut found, mut corrections) = (0, 0);
    for seed in 1..=storms {
        let [first, silent] = [mix(&[seed, 1]) % 3, mix(&[seed, 2]) % 2 + 1].map(|number| number as u8);
        let silent = (first + silent) % 3;
        let at =
            |number: u64, range: std::ops::Range<u64>| range.start + mix(&[seed, number]) % (range.end - range.start);
        let (begins, changes, left) = (at(3, 0..6000), at(4, 6000..14_000), at(5, 2500..9000));
        let how = ["by = \"80ms\"", "by = \"-3ms\"", "ppm = 300", "by = \"700us\"", "by = \"2h\""][seed as usize % 5];
        let back = left + at(6, 500..8000);
        let sections = format!(
            "[clock]\nsync = \"disciplined\"\nsource = \"host\"\nhosts = 3\nskew_ppm = {{ uniform = 200 }}\n{}{}\
             [[step]]\nat = \"{left}ms\"\ntime_server = {{ host = {silent}, serves = false }}\n\
             [[step]]\nat = \"{back}ms\"\ntime_server = {{ host = {silent}, serves = true }}\n",
            lies(&format!("{begins}ms"), first, how),
            lies(&format!("{changes}ms"), first, "ppm = -150"),
        );
        let scenario = storm_of(seed, "bully", &sections);
        let trace = perform(&scenario).trace;
        let report = check(&trace);
        assert!(report.violations.is_empty(), "storm {seed}: {:#?}\n{}", report.violations, scenario.to_toml());
        for event in &trace {
            corrections += u64::from(matches!(event.event, Event::Sync { .. }));
            if let Event::Falseticker { source, lies: true } = event.event {
                assert_eq!(
                    source,
                    compasso_wire::NodeId::host(first.into()).0,
                    "storm {seed}: an honest one is accused"
                );
                found += 1;
            }
        }
    }
    println!("{storms} storms: {corrections} corrections, a liar was found {found} times");
    assert!(found > storms / 2 && corrections > 100 * storms);
}
