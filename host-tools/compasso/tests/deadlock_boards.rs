//! Every deadlock strategy on emulated boards, as a user starts it. Skipped only with
//! `COMPASSO_SKIP_QEMU=1`, and loudly. It takes turns with the other tests that boot boards.

use compasso_stage::setup;
use serde_json::Value;
use std::{fs, path::Path, process::Command};

fn perform(text: &str, folder: &Path, name: &str, status: i32) -> Value {
    let scenario = folder.join(format!("{name}.toml"));
    fs::write(&scenario, text).unwrap();
    let _turn = setup::take_stage().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_compasso"))
        .args(["run", scenario.to_str().unwrap(), "--json", "--out"])
        .arg(folder.join(name))
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let found = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(status), "{name}: {said}\n{found}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

/// Two of five resources at a time, one datagram in fifty lost, the coordinator dies and returns.
#[test]
fn every_deadlock_strategy_holds_on_emulated_boards() {
    if std::env::var_os("COMPASSO_SKIP_QEMU").is_some_and(|value| value == "1") {
        eprintln!("SKIPPED: COMPASSO_SKIP_QEMU=1, no board was booted");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for strategy in ["detect", "prevent-order", "wait-die", "wound-wait", "avoid", "ignore"] {
        let (violations, status) = if strategy == "ignore" { ("", 1) } else { ("violations = 0\n", 0) };
        let text = format!(
            "name = \"deadlock-{strategy}\"\nnodes = 5\nseed = 2\nduration = \"21s\"\n\
             [election]\nalgorithm = \"bully\"\n\
             [deadlock]\nstrategy = \"{strategy}\"\nresources = [\"a\", \"b\", \"c\", \"d\", \"e\"]\n\
             workload = {{ every = \"100ms\", hold = \"10ms\", several = 2 }}\n\
             [network]\nloss = 0.02\n\
             [[step]]\nat = \"4s\"\ncrash = 4\n[[step]]\nat = \"7s\"\nrestart = 4\n\
             [expect]\n{violations}"
        );
        let summary = perform(&text, folder.path(), strategy, status);
        let locks = &summary["deadlock"];
        println!(
            "{strategy}: {} transactions, given back {}, {} deadlocks found, {} closed",
            locks["transactions"],
            locks["abandons"],
            locks["found"].as_array().map_or(0, Vec::len),
            locks["closed"]
        );
        if strategy == "ignore" {
            let broken: Vec<&str> =
                summary["violations"].as_array().unwrap().iter().filter_map(|one| one["property"].as_str()).collect();
            assert!(broken.iter().all(|property| *property == "deadlock"), "{broken:?}");
            continue;
        }
        let each = locks["by_node"].as_object().unwrap();
        assert!(each.values().all(|count| count.as_u64() >= Some(10)), "{strategy}: {each:?}");
        assert!(summary["checked"].as_array().unwrap().contains(&"deadlock".into()), "{strategy}");
        assert!(strategy != "detect" || !locks["found"].as_array().unwrap().is_empty(), "no deadlock to find");
    }
}
