//! Every algorithm through storms: crashes, returns, pauses, partitions, lost tokens, on a network that
//! loses, repeats and reorders. `COMPASSO_STORMS=300 cargo test --test storms` makes the long series.

mod common;

use common::{count, storm};
use compasso_checker::{Event, Fault, check};
use compasso_simulator::perform;
use std::collections::BTreeMap;

fn weather(election: &str, mutex: &str) {
    let storms = std::env::var("COMPASSO_STORMS").ok().and_then(|count| count.parse().ok()).unwrap_or(16);
    let mut totals = BTreeMap::new();
    for seed in 1..=storms {
        let scenario = storm(seed, election, mutex);
        let run = perform(&scenario);
        let (trace, network) = (run.trace, run.network);
        let report = check(&trace);
        assert!(report.violations.is_empty(), "storm {seed}: {:#?}\n{}", report.violations, scenario.to_toml());
        let overflows = count(&trace, |event| matches!(event, Event::Overflow { .. }));
        assert_eq!(overflows, 0, "storm {seed}: a queue was full\n{}", scenario.to_toml());
        let datagrams =
            [("datagrams lost", network.lost), ("duplicated", network.duplicated), ("reordered", network.reordered)];
        for (what, count) in datagrams {
            *totals.entry(what).or_insert(0) += count;
        }
        for event in &trace {
            let what = match &event.event {
                Event::CsEnter { .. } => "entries",
                Event::ElectionStart { .. } => "elections",
                Event::TokenRegenerated { .. } => "regenerations",
                Event::Fenced { .. } => "fenced",
                Event::Fault(Fault::Crash(_)) => "crashes",
                Event::Fault(Fault::Restart(_)) => "returns",
                Event::Fault(Fault::Pause(_)) => "pauses",
                Event::Fault(Fault::Partition(_)) => "partitions",
                Event::Fault(Fault::DropToken) => "lost tokens",
                _ => continue,
            };
            *totals.entry(what).or_insert(0) += 1;
        }
    }
    println!("{storms} storms, {election}, {mutex}: {totals:?}");
    let kinds = ["crashes", "returns", "pauses", "partitions", "datagrams lost", "duplicated", "reordered"];
    assert!(totals["entries"] > 100 * storms, "too few entries: {totals:?}");
    assert!(kinds.iter().all(|kind| totals.get(kind) > Some(&0)), "too mild: {totals:?}");
}

macro_rules! storms {
    ($($name:ident: $election:literal, $mutex:literal;)+) => {
        $(#[test]
        fn $name() {
            weather($election, $mutex);
        })+
    };
}

storms! {
    bully_and_token_ring: "bully", "token-ring";
    bully_and_central: "bully", "central";
    bully_and_voting: "bully", "voting";
    bully_and_lamport: "bully", "lamport";
    bully_and_ricart_agrawala: "bully", "ricart-agrawala";
    bully_and_suzuki_kasami: "bully", "suzuki-kasami";
    bully_and_maekawa: "bully", "maekawa";
    ring_and_central: "ring", "central";
    chang_roberts_and_central: "chang-roberts", "central";
    hirschberg_sinclair_and_central: "hirschberg-sinclair", "central";
    detector_and_central: "detector", "central";
}
