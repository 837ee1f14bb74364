//! One scenario on several stages: what must be the same is the same, and the figures stand side by side.

use serde_json::Value;
use std::{path::Path, process::Command};

const SCENARIO: &str = r#"
name = "stages"
nodes = 3
seed = 4
duration = "12s"
[clock]
sync = "cristian"
skew_ppm = [40, -25, 10]
[election]
algorithm = "bully"
[mutex]
algorithm = "token-ring"
workload = { every = "100ms", hold = "5ms" }
[network]
delay = "200us..2ms"
loss = 0.01
[[step]]
at = "4s"
crash = 2
[[step]]
at = "7s"
restart = 2
[expect]
leader = 2
violations = 0
entries_min = 50
gaps = 0
"#;

/// Who led, in order.
fn leaders(run: &Value) -> Vec<u64> {
    let spans = run["election"]["leaders"].as_array().unwrap_or_else(|| panic!("{run:#}"));
    let mut leaders: Vec<u64> = spans.iter().map(|span| span["leader"].as_u64().unwrap()).collect();
    leaders.dedup();
    leaders
}

#[test]
fn the_simulator_and_the_exact_image_have_the_same_leaders_in_the_same_order() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = folder.path().join("stages.toml");
    std::fs::write(&scenario, SCENARIO).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_compasso"))
        .args(["run", scenario.to_str().unwrap(), "--on", "sim,rp2040", "--json", "--out"])
        .arg(folder.path().join("run"))
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    let runs: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(runs.iter().map(|run| run["stage"].as_str().unwrap()).collect::<Vec<_>>(), ["sim", "rp2040"]);
    for run in &runs {
        assert_eq!(leaders(run), [2, 1, 2], "{}", run["stage"]);
    }
    let table = said.split("Side by side").nth(1).unwrap_or_else(|| panic!("no table: {said}"));
    for wanted in ["sim", "rp2040", "leaders in order", "2 1 2", "messages an entry", "clock error", "violations"] {
        assert!(table.contains(wanted), "no {wanted:?}: {table}");
    }
    assert!(table.contains("The same leaders in the same order."), "{table}");
}

/// `compasso drift` on a stage: the boards by id.
fn drift(folder: &Path, stage: &str, seconds: u32) -> Vec<Value> {
    let scenario = folder.join(format!("{stage}.toml"));
    let text = format!(
        "name = \"drift\"\nnodes = 3\nseed = 2\nduration = \"{seconds}s\"\n[clock]\nsync = \"disciplined\"\n\
         skew_ppm = [80, -60, 0]\n[election]\nalgorithm = \"bully\"\n[network]\ndelay = \"200us..2ms\"\n"
    );
    std::fs::write(&scenario, text).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_compasso"))
        .args(["drift", scenario.to_str().unwrap(), "--on", stage, "--json", "--out"])
        .arg(folder.join(stage))
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    for plot in document["plots"].as_array().unwrap() {
        assert!(std::fs::read_to_string(plot.as_str().unwrap()).unwrap().contains("<polyline"), "{plot} is empty");
    }
    document["boards"].as_array().unwrap().clone()
}

#[test]
fn drift_finds_each_crystals_rate_and_what_sensors_there_are() {
    let folder = tempfile::tempdir().unwrap();
    for (stage, seconds, has_sensor) in [("sim", 600, false), ("rp2040", 60, true)] {
        let boards = drift(folder.path(), stage, seconds);
        for (board, ppm) in boards.iter().zip([80.0, -60.0, 0.0]) {
            let found = board["ppm"].as_f64().unwrap();
            assert!((found - ppm).abs() < 0.5, "{stage}: {found} of {ppm}");
            assert!(board["allan"].as_array().is_some_and(|allan| !allan.is_empty()), "{stage}");
            let warmest = board["temperature"]["most_c"].as_f64();
            assert_eq!(warmest.is_some(), has_sensor, "{stage}");
            assert!(warmest.is_none_or(|warmest| (warmest - 27.0).abs() < 0.5), "{stage}: {warmest:?}");
        }
        assert_eq!(boards.len(), 3);
    }
}
