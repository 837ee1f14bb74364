//! Deadlocks, simulated: every one is found, none is reported that never was, and transactions go on.
//! `COMPASSO_STORMS=300 cargo test --test deadlocks` makes the long series.

mod common;

use common::count;
use compasso_checker::{Event, Fault, NetworkStats, RunInfo, Summary, TraceEvent, check, judge};
use compasso_scenario::Scenario;
use compasso_simulator::perform;
use std::{collections::BTreeMap, fmt::Write};

const STRATEGIES: [&str; 6] = ["ignore", "detect", "prevent-order", "wait-die", "wound-wait", "avoid"];

fn parse(text: &str) -> Scenario {
    Scenario::parse(text, "deadlocks").unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Crashes, returns, pauses and partitions while transactions take two or three of five resources.
fn storm(seed: u64, strategy: &str) -> Scenario {
    let mut dice = fastrand::Rng::with_seed(seed);
    let mut steps = String::new();
    let mut at_ms = 3000;
    for _ in 0..5 {
        at_ms += dice.u64(500..3000);
        let lasts = dice.u64(300..4500);
        let id = dice.u16(0..5);
        let (begin, end) = match dice.u8(0..3) {
            0 => (format!("crash = {id}"), format!("restart = {id}")),
            1 => (format!("pause = {id}"), format!("resume = {id}")),
            _ => {
                let mut ids = [0, 1, 2, 3, 4];
                dice.shuffle(&mut ids);
                let (one, other) = ids.split_at(dice.usize(1..4));
                (format!("partition = [{one:?}, {other:?}]"), "heal = true".to_owned())
            }
        };
        for (at, action) in [(at_ms, begin), (at_ms + lasts, end)] {
            write!(steps, "[[step]]\nat = \"{at}ms\"\n{action}\n").unwrap();
        }
        at_ms += lasts;
    }
    let seconds = at_ms / 1000 + 16;
    let several = 2 + seed % 2;
    parse(&format!(
        "name = \"storm\"\nnodes = 5\nseed = {seed}\nduration = \"{seconds}s\"\n\
         [clock]\nskew_ppm = {{ uniform = 60 }}\n[election]\nalgorithm = \"bully\"\n\
         [deadlock]\nstrategy = \"{strategy}\"\nresources = [\"a\", \"b\", \"c\", \"d\", \"e\"]\n\
         workload = {{ every = \"60ms\", hold = \"5ms\", several = {several} }}\n\
         [network]\ndelay = \"200us..5ms\"\nloss = 0.05\nduplicate = 0.02\nreorder = 0.05\n{steps}"
    ))
}

fn summary(scenario: &Scenario, trace: &[TraceEvent]) -> Summary {
    judge(trace, &RunInfo::new(scenario.clone(), "sim", NetworkStats::default()))
}

/// In the calm at the end every node finishes transactions, and none is left waiting.
fn assert_lively(scenario: &Scenario, trace: &[TraceEvent], context: &str) {
    let end = scenario.duration.0 as i64;
    let mut waiting: BTreeMap<(u16, String), i64> = BTreeMap::new();
    let mut entered: BTreeMap<u16, u64> = scenario.ids.iter().map(|id| (*id, 0)).collect();
    for event in trace {
        let (Some(node), Some(at)) = (event.node_id(), event.true_us) else { continue };
        match &event.event {
            Event::Boot { .. } => waiting.retain(|(of, _), _| *of != node),
            Event::Request { resource } => drop(waiting.insert((node, resource.to_string()), at)),
            Event::Withdraw { resource } => drop(waiting.remove(&(node, resource.to_string()))),
            Event::CsEnter { resource, .. } => {
                waiting.remove(&(node, resource.to_string()));
                *entered.entry(node).or_default() += u64::from(at > end - 8_000_000);
            }
            _ => {}
        }
    }
    assert!(waiting.values().all(|asked| *asked > end - 1_500_000), "{context}: left waiting: {waiting:?}");
    assert!(entered.values().all(|entries| *entries >= 10), "{context}: {entered:?}");
}

fn weather(strategy: &str) {
    let storms = std::env::var("COMPASSO_STORMS").ok().and_then(|count| count.parse().ok()).unwrap_or(10);
    let mut totals: BTreeMap<&str, u64> = BTreeMap::new();
    let mut slowest = 0;
    for seed in 1..=storms {
        let scenario = storm(seed, strategy);
        let trace = perform(&scenario).trace;
        let context = format!("{strategy}, storm {seed}\n{}", scenario.to_toml());
        let summary = summary(&scenario, &trace);
        if strategy == "ignore" {
            assert!(summary.violations.iter().all(|violation| violation.property == "deadlock"), "{context}");
            *totals.entry("standstills").or_default() += u64::from(!summary.violations.is_empty());
        } else {
            assert!(summary.violations.is_empty(), "{:#?}\n{context}", summary.violations);
            assert_lively(&scenario, &trace, &context);
        }
        assert_eq!(count(&trace, |event| matches!(event, Event::Overflow { .. })), 0, "a queue was full: {context}");
        let deadlock = summary.deadlock.unwrap();
        for found in &deadlock.found {
            slowest = slowest.max(found.after_us.expect("none that never was"));
        }
        *totals.entry("deadlocks found").or_default() += deadlock.found.len() as u64;
        *totals.entry("transactions").or_default() += deadlock.transactions;
        for (reason, times) in &deadlock.abandons {
            let reason =
                ["victim", "died", "wounded", "out_of_order", "lease_ended"].into_iter().find(|known| known == reason);
            *totals.entry(reason.expect("a known reason")).or_default() += times;
        }
        for event in &trace {
            let what = match &event.event {
                Event::Fault(Fault::Crash(_)) => "crashes",
                Event::Fault(Fault::Pause(_)) => "pauses",
                Event::Fault(Fault::Partition(_)) => "partitions",
                _ => continue,
            };
            *totals.entry(what).or_default() += 1;
        }
    }
    println!("{storms} storms, {strategy}: {totals:?}; the slowest was found {slowest} us after it closed");
    assert!(["crashes", "pauses", "partitions"].iter().all(|kind| totals.contains_key(kind)), "too mild: {totals:?}");
    match strategy {
        "ignore" => assert!(totals["standstills"] > storms / 2, "{totals:?}"),
        "detect" => assert!(totals["deadlocks found"] > storms && totals["victim"] > storms, "{totals:?}"),
        _ => assert_eq!(totals["deadlocks found"], 0, "{totals:?}"),
    }
    assert!(strategy == "ignore" || totals["transactions"] > 200 * storms, "too few transactions: {totals:?}");
}

macro_rules! storms {
    ($($name:ident: $strategy:literal;)+) => {
        $(#[test]
        fn $name() {
            weather($strategy);
        })+
    };
}

storms! {
    ignored_deadlocks_stand_still: "ignore";
    every_deadlock_is_found_and_none_that_never_was: "detect";
    a_global_order_lets_no_circle_close: "prevent-order";
    wait_die_lets_no_circle_stand: "wait-die";
    wound_wait_lets_no_circle_stand: "wound-wait";
    declared_claims_let_no_circle_close: "avoid";
}

/// Three nodes that each hold one resource and want the next one's, and give everything back later.
fn circle(seed: u64, strategy: &str, network: &str, more: &str) -> Scenario {
    let mut steps = String::new();
    for (node, own, next) in [(0, "a", "b"), (1, "b", "c"), (2, "c", "a")] {
        for (at_ms, action) in [
            (2900, format!("claims = {{ node = {node}, resources = [\"{own}\", \"{next}\"] }}")),
            (3000 + 50 * node, format!("acquire = {{ node = {node}, resource = \"{own}\" }}")),
            (3500, format!("acquire = {{ node = {node}, resource = \"{next}\" }}")),
        ] {
            write!(steps, "[[step]]\nat = \"{at_ms}ms\"\n{action}\n").unwrap();
        }
    }
    parse(&format!(
        "name = \"circle\"\nnodes = 3\nseed = {seed}\nduration = \"12s\"\n[deadlock]\nstrategy = \"{strategy}\"\n\
         [network]\n{network}\n{steps}{more}"
    ))
}

#[test]
fn the_youngest_of_a_circle_gives_back_and_the_others_go_on() {
    for seed in 1..=20 {
        let scenario = circle(seed, "detect", "delay = \"1ms\"", "");
        let trace = perform(&scenario).trace;
        let summary = summary(&scenario, &trace);
        assert_eq!(summary.violations, [], "seed {seed}");
        let deadlock = summary.deadlock.unwrap();
        assert_eq!(deadlock.found.len(), 1, "seed {seed}: {deadlock:?}");
        assert_eq!((&deadlock.found[0].cycle[..], deadlock.found[0].victim), (&[0, 1, 2][..], Some(2)), "seed {seed}");
        assert!(deadlock.found[0].after_us.unwrap() < 1_000_000);
        assert_eq!(deadlock.abandons, BTreeMap::from([("victim".to_owned(), 1)]));
        let first = |node: u16, name: &str| {
            let wanted = |event: &&TraceEvent| {
                event.node_id() == Some(node)
                    && matches!(&event.event, Event::CsEnter { resource, .. } if resource == name)
            };
            trace.iter().find(wanted).and_then(|event| event.true_us)
        };
        assert!(first(1, "c").is_some(), "1 gets what 2 gave back");
    }
}

#[test]
fn no_strategy_but_ignorance_lets_the_circle_stand() {
    for strategy in STRATEGIES {
        let scenario = circle(1, strategy, "loss = 0.05", "");
        let trace = perform(&scenario).trace;
        let report = check(&trace);
        let expected = usize::from(strategy == "ignore");
        assert_eq!(report.violations.len(), expected, "{strategy}: {:#?}", report.violations);
        assert!(report.checked.contains(&"deadlock".to_owned()), "{strategy}");
    }
}

#[test]
fn on_a_network_that_loses_repeats_and_reorders_the_circle_is_found_and_nothing_else() {
    for seed in 1..=40 {
        let scenario = circle(seed, "detect", "delay = \"1ms..20ms\"\nloss = 0.1\nduplicate = 0.3\nreorder = 0.1", "");
        let trace = perform(&scenario).trace;
        let summary = summary(&scenario, &trace);
        assert_eq!(summary.violations, [], "seed {seed}");
        assert!(!summary.deadlock.unwrap().found.is_empty(), "seed {seed}");
    }
}

#[test]
fn a_waiter_that_crashes_while_it_is_probed_leaves_no_phantom_and_nobody_behind() {
    let mut found = 0;
    for seed in 1..=40 {
        // From before the first probe until after the victim has given back.
        let at_ms = 3500 + 5 * seed;
        let more = format!(
            "[[step]]\nat = \"{at_ms}ms\"\ncrash = 1\n\
             [[step]]\nat = \"9s\"\nrelease = {{ node = 0, resources = [\"a\", \"b\"] }}\n"
        );
        let scenario = circle(seed, "detect", "delay = \"1ms..10ms\"", &more);
        let trace = perform(&scenario).trace;
        let summary = summary(&scenario, &trace);
        assert_eq!(summary.violations, [], "seed {seed}");
        found += summary.deadlock.unwrap().found.len();
        let got = |node: u16, name: &str| {
            trace.iter().any(|event| {
                event.node_id() == Some(node)
                    && matches!(&event.event, Event::CsEnter { resource, .. } if resource == name)
            })
        };
        assert!(got(0, "b") && got(2, "a"), "seed {seed}: what the dead one held is free after its lease");
    }
    assert!(found > 0 && found < 40, "{found}: the crashes must come before and after");
}

#[test]
fn a_release_and_a_probe_that_cross_are_no_deadlock() {
    let mut dice = fastrand::Rng::with_seed(7);
    for seed in 1..=60 {
        // 1 gives b back and then asks for a, which 0 holds, at some moment around 0's probes.
        let at_ms = 3600 + dice.u64(0..120);
        let text = format!(
            "name = \"crossing\"\nnodes = 3\nseed = {seed}\nduration = \"9s\"\n[deadlock]\nstrategy = \"detect\"\n\
             [network]\ndelay = \"1ms..60ms\"\n\
             [[step]]\nat = \"3s\"\nacquire = {{ node = 0, resource = \"a\" }}\n\
             [[step]]\nat = \"3s\"\nacquire = {{ node = 1, resource = \"b\" }}\n\
             [[step]]\nat = \"3400ms\"\nacquire = {{ node = 0, resource = \"b\" }}\n\
             [[step]]\nat = \"{at_ms}ms\"\nrelease = {{ node = 1, resource = \"b\" }}\n\
             [[step]]\nat = \"{at_ms}ms\"\nacquire = {{ node = 1, resource = \"a\" }}\n\
             [[step]]\nat = \"6s\"\nrelease = {{ node = 0, resources = [\"a\", \"b\"] }}\n\
             [expect]\ntransactions_min = 2\n"
        );
        let scenario = parse(&text);
        let trace = perform(&scenario).trace;
        let summary = summary(&scenario, &trace);
        assert_eq!(summary.violations, [], "seed {seed}");
        assert_eq!(count(&trace, |event| matches!(event, Event::Deadlock { .. })), 0, "seed {seed}");
        assert!(summary.expectations.iter().all(|expectation| expectation.ok), "{:?}", summary.expectations);
    }
}

#[test]
fn who_asks_for_more_than_it_claimed_is_refused_and_ends() {
    let text = "name = \"claims\"\nnodes = 3\nseed = 1\nduration = \"9s\"\n[deadlock]\nstrategy = \"avoid\"\n\
         [[step]]\nat = \"1s\"\nclaims = { node = 0, resource = \"a\" }\n\
         [[step]]\nat = \"3s\"\nacquire = { node = 0, resource = \"a\" }\n\
         [[step]]\nat = \"4s\"\nclaims = { node = 0, resources = [\"a\", \"b\"] }\n\
         [[step]]\nat = \"5s\"\nacquire = { node = 0, resource = \"b\" }\n";
    let scenario = parse(text);
    let trace = perform(&scenario).trace;
    let summary = summary(&scenario, &trace);
    assert_eq!(summary.violations, []);
    assert_eq!(summary.deadlock.unwrap().abandons, BTreeMap::from([("unclaimed".to_owned(), 1)]));
    let asked = count(&trace, |event| matches!(event, Event::Request { .. }));
    assert_eq!(asked, 1, "a claim that comes while something is held is for the next transaction");
}
