//! One scenario on several stages: what must be the same is the same, and the figures stand side by side.

use compasso_stage::setup;
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

/// Who led, in order, from the crash on: who led before it while boards woke up in real time is chance.
fn leaders(run: &Value) -> Vec<u64> {
    let spans = run["election"]["leaders"].as_array().unwrap_or_else(|| panic!("{run:#}"));
    let crashed = run["faults"][0]["at_us"].as_i64().unwrap_or_else(|| panic!("{run:#}"));
    let later = spans.iter().filter(|span| span["until_us"].as_i64().unwrap() >= crashed);
    let mut leaders: Vec<u64> = later.map(|span| span["leader"].as_u64().unwrap()).collect();
    leaders.dedup();
    leaders
}

/// Performs the scenario on these stages in one call: every run, and the table under them.
fn side_by_side(stages: &[&str]) -> (Vec<Value>, String) {
    let folder = tempfile::tempdir().unwrap();
    let scenario = folder.path().join("stages.toml");
    std::fs::write(&scenario, SCENARIO).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_compasso"))
        .args(["run", scenario.to_str().unwrap(), "--on", &stages.join(","), "--json", "--out"])
        .arg(folder.path().join("run"))
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    let runs = serde_json::from_slice(&output.stdout).unwrap();
    let table = said.split("Side by side").nth(1).unwrap_or_else(|| panic!("no table: {said}"));
    (runs, table.to_owned())
}

/// Emulated boards take their turn, and may be left out loudly; the other two stages need no turn.
#[test]
fn every_stage_has_the_same_leaders_in_the_same_order() {
    let skipped = std::env::var_os("COMPASSO_SKIP_QEMU").is_some_and(|value| value == "1");
    let (stages, _turn) = match skipped {
        true => {
            eprintln!("SKIPPED on qemu: COMPASSO_SKIP_QEMU=1, no board was booted");
            (&["sim", "rp2040"][..], None)
        }
        false => (&["sim", "qemu", "rp2040"][..], Some(setup::take_stage().unwrap())),
    };
    let (runs, table) = side_by_side(stages);
    assert_eq!(runs.iter().map(|run| run["stage"].as_str().unwrap()).collect::<Vec<_>>(), stages);
    for run in &runs {
        assert_eq!(leaders(run), [2, 1, 2], "{}", run["stage"]);
        assert_eq!(run["violations"], Value::Array(Vec::new()), "{}", run["stage"]);
    }
    for wanted in ["leaders in order", "2 1 2", "messages an entry", "clock error", "violations"] {
        assert!(table.contains(wanted), "no {wanted:?}: {table}");
    }
    assert!(stages.iter().all(|stage| table.contains(stage)), "{table}");
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
