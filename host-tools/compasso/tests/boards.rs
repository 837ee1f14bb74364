//! The whole system on emulated boards, as a user starts it. Skipped only with
//! `COMPASSO_SKIP_QEMU=1`, and loudly. The tests take turns: boards share the machine's cores.

use compasso_stage::setup;
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn skipped() -> bool {
    let skipped = std::env::var_os("COMPASSO_SKIP_QEMU").is_some_and(|value| value == "1");
    if skipped {
        eprintln!("SKIPPED: COMPASSO_SKIP_QEMU=1, no board was booted");
    }
    skipped
}

fn run(args: &[&str], out: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_compasso"));
    command.arg("run").args(args).arg("--json").arg("--out").arg(out).current_dir(root());
    command
}

/// Performs and expects this exit status: the summary.
fn perform(args: &[&str], out: &Path, status: i32) -> Value {
    let _turn = setup::take_stage().unwrap();
    let output = run(args, out).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{said}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

#[test]
fn the_concert_keeps_every_promise_on_emulated_boards() {
    if skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let summary = perform(&[], folder.path(), 0);
    assert_eq!(summary["violations"], Value::Array(Vec::new()));
    assert!(summary["election"]["leaders"].as_array().unwrap().len() >= 3, "{}", summary["election"]);
    let entries = summary["mutex"]["by_node"].as_object().unwrap();
    assert!(entries.len() == 5 && entries.values().all(|entries| number(entries) >= 20), "{entries:?}");
    assert!(number(&summary["mutex"]["regenerated"]) >= 1);
    assert_eq!(summary["clock"]["backward_steps"], 0);
    let (error, round_trip) = (&summary["clock"]["after_convergence"]["p99"], &summary["clock"]["rtt_us"]["median"]);
    assert!(number(error) <= number(round_trip), "p99 error {error} µs, median round trip {round_trip} µs");
    let uncheckable: Vec<&Value> =
        summary["not_checked"].as_array().unwrap().iter().filter(|row| row["property"] == "causality").collect();
    assert!(uncheckable.is_empty(), "{uncheckable:?}");
    let capture = fs::read(folder.path().join("network.pcapng")).unwrap();
    assert!(capture.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]) && capture.len() > 100_000);
    for id in 0..5 {
        let log = fs::read_to_string(folder.path().join(format!("nodes/{id}.log"))).unwrap();
        assert!(log.contains("boot, incarnation 1") && log.contains("cs_enter"), "node {id}: {log}");
    }
}

#[test]
fn a_storm_breaks_no_promise_on_emulated_boards() {
    if skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let scenario = folder.path().join("storm.toml");
    fs::write(&scenario, include_str!("storm.toml")).unwrap();
    let summary = perform(&[scenario.to_str().unwrap()], &folder.path().join("run"), 0);
    assert_eq!(summary["violations"], Value::Array(Vec::new()));
    assert!(number(&summary["network"]["duplicated"]) > 0 && number(&summary["network"]["reordered"]) > 0);
    assert!(number(&summary["network"]["refused"]) > 0, "repeated frames must be refused");
}

/// More boards than cores: they are late, and judged by their promises only.
#[test]
fn sixteen_boards_keep_every_promise() {
    if skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let summary = perform(&["scenarios/wide.toml"], folder.path(), 0);
    assert_eq!(summary["nodes"], 16);
    assert_eq!((&summary["violations"], &summary["failures"]), (&Value::Array(vec![]), &Value::Array(vec![])));
    assert!(number(&summary["mutex"]["entries"]) > 0 && !summary["election"]["leaders"].as_array().unwrap().is_empty());
    for property in ["ME1", "ME2", "E1", "E2", "token", "fence", "causality"] {
        assert!(summary["checked"].as_array().unwrap().contains(&property.into()), "{property} was not checked");
    }
    println!("{} entries, {}", summary["mutex"]["entries"], summary["election"]["leaders"]);
}

/// Every algorithm of mutual exclusion, every election and everything that can be done about deadlocks, in seven
/// performances: two of five more resources are locked at a time, the coordinator dies and returns, and one datagram in
/// fifty is lost.
#[test]
fn every_mutex_every_election_and_every_deadlock_strategy_hold_on_emulated_boards() {
    if skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for (election, mutex, strategy) in [
        ("bully", "central", "detect"),
        ("ring", "voting", "prevent-order"),
        ("chang-roberts", "lamport", "wait-die"),
        ("hirschberg-sinclair", "ricart-agrawala", "wound-wait"),
        ("detector", "token-ring", "avoid"),
        ("bully", "suzuki-kasami", "ignore"),
        ("ring", "maekawa", "detect"),
    ] {
        let is_ignored = strategy == "ignore";
        let violations = if is_ignored { "" } else { "violations = 0\n" };
        let text = format!(
            "name = \"{election}-{mutex}\"\nnodes = 5\nseed = 2\nduration = \"21s\"\n\
             [clock]\nsync = \"cristian\"\nskew_ppm = {{ uniform = 60 }}\n\
             [election]\nalgorithm = \"{election}\"\n\
             [mutex]\nalgorithm = \"{mutex}\"\nworkload = {{ every = \"200ms\", hold = \"5ms\" }}\n\
             [deadlock]\nstrategy = \"{strategy}\"\nresources = [\"a\", \"b\", \"c\", \"d\", \"e\"]\n\
             workload = {{ every = \"100ms\", hold = \"10ms\", several = 2 }}\n\
             [network]\nloss = 0.02\n\
             [[step]]\nat = \"4s\"\ncrash = 4\n[[step]]\nat = \"7s\"\nrestart = 4\n\
             [[step]]\nat = \"15s\"\nsnapshot = 1\n\
             [expect]\nleader = 4\nentries_each_min = 10\n{violations}"
        );
        let scenario = folder.path().join(format!("{election}-{mutex}.toml"));
        fs::write(&scenario, text).unwrap();
        let summary = perform(&[scenario.to_str().unwrap()], &folder.path().join(mutex), i32::from(is_ignored));
        let name = format!("{election}, {mutex}, {strategy}");
        let broken = summary["violations"].as_array().unwrap();
        assert_eq!(broken.is_empty(), !is_ignored, "{name}: {broken:?}");
        assert!(broken.iter().all(|one| one["property"] == "deadlock"), "{name}: {broken:?}");
        assert_eq!(summary["election"]["agreed"], true, "{name}");
        let locks = &summary["deadlock"];
        println!(
            "{name}: {} transactions, given back {}, {} deadlocks found, {} closed",
            locks["transactions"],
            locks["abandons"],
            locks["found"].as_array().map_or(0, Vec::len),
            locks["closed"]
        );
        let checked = summary["checked"].as_array().unwrap();
        assert!(checked.contains(&"cut".into()) && checked.contains(&"deadlock".into()), "{name}: {checked:?}");
        let each = locks["by_node"].as_object().unwrap();
        assert!(is_ignored || each.values().all(|count| count.as_u64() >= Some(10)), "{name}: {each:?}");
        assert!(strategy != "detect" || !locks["found"].as_array().unwrap().is_empty(), "{name}: no deadlock to find");
    }
}

/// Commits beside a cache with and without invalidation, in two performances: the coordinator, which is the
/// server, dies and returns, and one datagram in fifty is lost.
#[test]
fn commits_and_leases_hold_on_emulated_boards() {
    if skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for (election, invalidate) in [("bully", true), ("detector", false)] {
        let text = format!(
            "name = \"services\"\nnodes = 5\nseed = 2\nduration = \"22s\"\n\
             [clock]\nsync = \"cristian\"\nskew_ppm = {{ uniform = 60 }}\n\
             [election]\nalgorithm = \"{election}\"\n\
             [commit]\nworkload = {{ every = \"200ms\" }}\nrefuse_one_in = 20\n\
             [cache]\nlease = \"400ms\"\ninvalidate = {invalidate}\n\
             workload = {{ read = \"50ms\", write = \"3s\" }}\n\
             [network]\nloss = 0.02\n\
             [[step]]\nat = \"4s\"\ncrash = 4\n[[step]]\nat = \"7s\"\nrestart = 4\n\
             [expect]\nleader = 4\nviolations = 0\ncommits_min = 15\naborts_min = 2\nreads_min = 300\nwrites_min = 6\n"
        );
        let scenario = folder.path().join(format!("{election}.toml"));
        fs::write(&scenario, text).unwrap();
        let summary = perform(&[scenario.to_str().unwrap()], &folder.path().join(election), 0);
        assert_eq!(summary["violations"], Value::Array(Vec::new()), "{election}");
        let checked = summary["checked"].as_array().unwrap();
        assert!(["cache", "commit"].iter().all(|property| checked.contains(&Value::from(*property))), "{checked:?}");
        eprintln!("{election}: {} {}", summary["cache"], summary["commit"]);
    }
}

/// Children of a process that are emulators.
fn emulators(parent: &Child) -> Vec<u32> {
    let path = format!("/proc/{0}/task/{0}/children", parent.id());
    let children = fs::read_to_string(path).unwrap_or_default();
    let is_emulator = |pid: &u32| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim().starts_with("qemu-system"))
    };
    children.split_whitespace().filter_map(|pid| pid.parse().ok()).filter(is_emulator).collect()
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + Duration::from_secs(300);
    while Instant::now() < until {
        if let Some(found) = look() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("waited in vain for {what}");
}

#[test]
fn a_board_that_ends_by_itself_is_status_4_and_leaves_no_emulator_behind() {
    if skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let scenario = folder.path().join("short.toml");
    fs::write(
        &scenario,
        "name = \"short\"\nnodes = 3\nseed = 1\nduration = \"6s\"\n[election]\nalgorithm = \"bully\"\n",
    )
    .unwrap();
    let _turn = setup::take_stage().unwrap();
    let child = run(&[scenario.to_str().unwrap()], &folder.path().join("run"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let boards = wait_for("three boards", || Some(emulators(&child)).filter(|boards| boards.len() == 3));
    let killed = Command::new("kill").args(["-KILL", &boards[1].to_string()]).status().unwrap();
    assert!(killed.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", String::from_utf8_lossy(&output.stderr));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["failures"].as_array().unwrap().len(), 1);
    assert!(boards.iter().all(|pid| !Path::new(&format!("/proc/{pid}")).exists()), "an emulator is left behind");
}
