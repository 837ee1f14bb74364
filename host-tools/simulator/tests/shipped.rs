//! Every shipped scenario but the lessons keeps its expectations, whatever the seed.

use compasso_checker::{NetworkStats, RunInfo, judge};
use compasso_scenario::Scenario;
use compasso_simulator::perform;
use std::path::{Path, PathBuf};

fn scenarios(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(folder);
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    paths
}

fn holds(path: &Path, seed: Option<u64>) -> u64 {
    let scenario = Scenario::load(path).unwrap_or_else(|error| panic!("{error}"));
    let seed = seed.unwrap_or(scenario.seed);
    let scenario = scenario.with_seed(seed);
    assert_eq!(path.file_stem().unwrap().to_string_lossy(), scenario.name, "a scenario is called like its file");
    let summary = judge(&perform(&scenario).trace, &RunInfo::new(scenario, "sim", NetworkStats::default()));
    assert_eq!(summary.violations, [], "{}, seed {seed}", path.display());
    let missed: Vec<_> = summary.expectations.iter().filter(|expectation| !expectation.ok).collect();
    assert!(missed.is_empty() && !summary.expectations.is_empty(), "{}, seed {seed}: {missed:?}", path.display());
    summary.mutex.map_or(0, |mutex| mutex.entries)
}

#[test]
fn every_shipped_scenario_holds() {
    let paths = scenarios("");
    for name in ["central", "voting", "lamport", "ricart-agrawala", "token-ring", "suzuki-kasami", "maekawa"] {
        assert!(paths.iter().any(|path| path.ends_with(format!("mutex-{name}.toml"))), "{name} has no scenario");
    }
    for name in ["bully", "ring", "chang-roberts", "hirschberg-sinclair", "detector"] {
        assert!(paths.iter().any(|path| path.ends_with(format!("election-{name}.toml"))), "{name} has no scenario");
    }
    for name in ["detect", "prevent-order", "wait-die", "wound-wait", "avoid"] {
        assert!(paths.iter().any(|path| path.ends_with(format!("deadlock-{name}.toml"))), "{name} has no scenario");
    }
    let clocks = ["cristian", "berkeley", "disciplined", "three-sources", "utc", "utc-negative"];
    for name in clocks.map(|name| format!("clock-{name}")).into_iter().chain(["make".to_owned()]) {
        assert!(paths.iter().any(|path| path.ends_with(format!("{name}.toml"))), "{name} has no scenario");
    }
    for path in &paths {
        let entries: Vec<u64> = [None, Some(11), Some(12)].map(|seed| holds(path, seed)).to_vec();
        println!("{}: {entries:?} entries", path.file_stem().unwrap().to_string_lossy());
    }
}

#[test]
fn every_textbook_execution_holds() {
    let paths = scenarios("textbook");
    assert!(paths.len() >= 6);
    for path in paths {
        holds(&path, None);
    }
}
