//! Snapshots of systems in a storm: each is a consistent cut with its token in it, or says that it is void.
//! `COMPASSO_STORMS=300 cargo test --test snapshots` makes the long series.

mod common;

use common::storm;
use compasso_checker::{NetworkStats, RunInfo, judge};
use compasso_scenario::Scenario;
use compasso_simulator::perform;
use std::fmt::Write;

/// The storm with a snapshot every so often, begun by whoever is surely alive: nobody crashed so far.
fn with_snapshots(seed: u64, mutex: &str) -> Scenario {
    let storm = storm(seed, "bully", mutex);
    let mut text = storm.to_toml();
    let mut dice = fastrand::Rng::with_seed(seed ^ 0x5a5a);
    for at_ms in (2000..storm.duration.0 / 1000).step_by(900) {
        let down = |id: &u16| text.contains(&format!("crash = {id}\n"));
        let ids: Vec<u16> = (0..5).filter(|id| !down(id)).collect();
        let id = ids.get(dice.usize(0..ids.len().max(1))).copied();
        if let Some(id) = id {
            write!(text, "[[step]]\nat = \"{at_ms}ms\"\nsnapshot = {id}\n").unwrap();
        }
    }
    Scenario::parse(&text, "storm").unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn weather(mutex: &str) {
    let storms = std::env::var("COMPASSO_STORMS").ok().and_then(|count| count.parse().ok()).unwrap_or(8);
    let (mut complete, mut aborted, mut flying, mut tokens_flying) = (0, 0, 0, 0);
    for seed in 1..=storms {
        let scenario = with_snapshots(seed, mutex);
        let summary = judge(&perform(&scenario).trace, &RunInfo::new(scenario.clone(), "sim", NetworkStats::default()));
        assert!(summary.violations.is_empty(), "storm {seed}: {:#?}\n{}", summary.violations, scenario.to_toml());
        for snapshot in &summary.snapshots {
            complete += u32::from(snapshot.complete);
            aborted += u32::from(snapshot.aborted);
            flying += u32::from(!snapshot.in_flight.is_empty());
            tokens_flying += u32::from(snapshot.in_flight.iter().any(|message| message.token.is_some()));
        }
    }
    println!("{storms} storms, {mutex}: {complete} complete, {aborted} aborted, {flying} with messages on the way");
    println!("  of which {tokens_flying} with a token");
    assert!(complete > 5 * storms as u32 && aborted > 0 && flying > 0 && tokens_flying > 0);
}

#[test]
fn a_token_on_a_ring() {
    weather("token-ring");
}

#[test]
fn a_token_with_numbers() {
    weather("suzuki-kasami");
}

#[test]
fn permissions_instead_of_a_token() {
    let scenario = with_snapshots(3, "ricart-agrawala");
    let summary = judge(&perform(&scenario).trace, &RunInfo::new(scenario, "sim", NetworkStats::default()));
    assert!(summary.violations.is_empty(), "{:#?}", summary.violations);
    assert!(summary.snapshots.iter().any(|snapshot| snapshot.complete && !snapshot.in_flight.is_empty()));
}
