//! The command as users call it: results, one-line errors, exit statuses.

use serde_json::Value;
use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn traces() -> PathBuf {
    root().join("host-tools/checker/tests/traces")
}

fn compasso(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_compasso")).args(args).current_dir(root()).output().unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// A bad call: exit status 2, one line on stderr that holds all of `wanted`, and no backtrace.
fn refused(args: &[&str], wanted: &[&str]) {
    let output = compasso(args);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
    assert_eq!(error.lines().count(), 1, "{args:?}: {error}");
    for text in wanted {
        assert!(error.contains(text), "{args:?}: no {text:?} in {error}");
    }
}

#[test]
fn a_simulated_concert_holds_and_leaves_its_folder() {
    let out = tempfile::tempdir().unwrap();
    let out = out.path().join("run");
    let output = compasso(&["run", "--on", "sim", "--seed", "3", "--json", "--out", out.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let summary = json(&output);
    assert_eq!(summary["violations"], Value::Array(Vec::new()));
    assert_eq!((&summary["stage"], &summary["seed"], &summary["exit"]), (&"sim".into(), &3.into(), &0.into()));
    assert!(summary["mutex"]["entries"].as_u64().unwrap() > 300);
    let written: Value = serde_json::from_slice(&fs::read(out.join("summary.json")).unwrap()).unwrap();
    assert_eq!(written, summary);
    assert!(fs::read_to_string(out.join("scenario.toml")).unwrap().contains("seed     = 3"));
    let trace = out.join("trace.jsonl");
    let again = compasso(&["check", trace.to_str().unwrap(), "--json"]);
    assert_eq!(again.status.code(), Some(0));
    assert_eq!(json(&again)["events"], summary["events"]);
}

#[test]
fn each_hand_made_violation_is_named_and_exits_1() {
    let mut properties = std::collections::BTreeSet::new();
    for file in fs::read_dir(traces()).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "jsonl") {
            continue;
        }
        let name = path.file_stem().unwrap().to_str().unwrap().to_lowercase();
        let output = compasso(&["check", path.to_str().unwrap(), "--json"]);
        let report = json(&output);
        let broken: Vec<&str> =
            report["violations"].as_array().unwrap().iter().map(|v| v["property"].as_str().unwrap()).collect();
        if name.starts_with("good") {
            assert_eq!(output.status.code(), Some(0), "{name}: {broken:?}");
            continue;
        }
        assert_eq!(output.status.code(), Some(1), "{name}");
        for property in broken {
            // Voters that wait in a circle break two promises at once.
            let is_circle = name.starts_with("me2-circle") && property == "deadlock";
            assert!(is_circle || name.starts_with(&property.to_lowercase()), "{name}: {property}");
            properties.insert(property.to_owned());
        }
    }
    for property in compasso_checker::properties::PROPERTIES {
        assert!(properties.contains(property), "no trace breaks {property}");
    }
}

#[test]
fn bad_input_gets_one_clear_line_and_status_2() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let truncated =
        file("truncated.jsonl", b"{\"node\":0,\"seq\":1,\"event\":\"boot\",\"incarnation\":1}\n{\"node\":0,\"se");
    refused(&["check", &truncated], &["truncated.jsonl:2"]);
    let binary = file("binary.jsonl", &[0, 159, 146, 150, 0, 255]);
    refused(&["check", &binary], &["binary.jsonl"]);
    refused(&["check", "no/such/file"], &["no/such/file"]);
    let unknown = file("unknown.toml", b"name = \"x\"\nnodes = 3\nduration = \"5s\"\nnoodles = 4\n");
    refused(&["run", &unknown, "--on", "sim"], &["unknown.toml:4", "noodles"]);
    let sundial = file("sundial.toml", b"name = \"x\"\nnodes = 3\nduration = \"5s\"\n[clock]\nsync = \"sundial\"\n");
    refused(&["run", &sundial, "--on", "sim"], &["sundial.toml:5", "sundial", "cristian"]);
    refused(&["run", "no/such/scenario.toml", "--on", "sim"], &["no/such/scenario.toml"]);
    refused(&["run", "--on", "moon"], &["moon", "sim", "qemu"]);
    refused(&["run", "--on", "rp2040", "--image", "pico-z"], &["--image pico-z", "w5500-evb-pico, pico-usb"]);
    refused(&["run", "--on", "sim", "--image", "pico-usb"], &["--image", "--on rp2040"]);
    refused(&["run", "--seed", "many"], &["many", "--seed"]);
    refused(&["conduct"], &["conduct"]);
    refused(&["compare"], &["missing: <FAMILY>", "usage: compasso compare"]);
    let twice = file("twice.toml", b"nodes = 3\nduration = \"5s\"\nseed = 1\nseed = 2\n");
    refused(&["run", &twice, "--on", "sim"], &["twice.toml:4: seed: ", "duplicate key"]);
    let lease = file("lease.toml", b"nodes = 3\nduration = \"5s\"\n[timing]\nlease = \"100ms\"\n");
    refused(&["run", &lease, "--on", "sim"], &["lease.toml:4: timing.lease: ", "3 heartbeats"]);
}

/// What `check` says of a trace that comes in on stdin.
fn check_stdin(trace: &str) -> (String, Option<i32>) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_compasso"))
        .args(["check", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(trace.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    (String::from_utf8(output.stdout).unwrap(), output.status.code())
}

#[test]
fn a_trace_may_come_in_on_stdin_and_one_event_proves_nothing() {
    let (said, status) = check_stdin("{\"node\":0,\"seq\":1,\"event\":\"label\",\"text\":\"alone\"}\n");
    assert_eq!(status, Some(0));
    assert!(said.ends_with("nothing      could be checked in 1 event\n"), "{said}");
    assert!(said.contains("not checked  ME1: nobody entered") && !said.contains("held"), "{said}");
    let (said, status) = check_stdin(&fs::read_to_string(traces().join("me1.jsonl")).unwrap());
    assert_eq!(status, Some(1));
    assert!(said.contains("violated     ME1: ") && said.contains("1 violation in "), "{said}");
}

#[test]
fn further_violations_are_counted_and_not_violations_themselves() {
    let line = |seq: u64| format!("{{\"node\":0,\"seq\":{seq},\"cluster_us\":{},\"event\":\"boot\"}}\n", 1000 - seq);
    let (said, status) = check_stdin(&(1..=61).map(line).collect::<String>());
    assert_eq!(status, Some(1));
    assert!(said.contains("violated     clock-monotonic: 10 more"), "{said}");
    assert!(said.ends_with("60 violations in 61 events\n"), "{said}");
}

#[test]
fn a_machine_gets_a_document_in_every_case() {
    for (args, status) in [
        (&["run", "no/such/scenario.toml", "--json"][..], 2),
        (&["check", "no/such/file", "--json"], 2),
        (&["run", "--seed", "many", "--json"], 2),
    ] {
        let output = compasso(args);
        assert_eq!(output.status.code(), Some(status));
        let document = json(&output);
        assert_eq!(document["exit"], status);
        assert!(document["error"].as_str().is_some_and(|error| !error.is_empty()));
    }
}

#[test]
fn several_stages_give_an_array_and_a_folder_each() {
    let out = tempfile::tempdir().unwrap();
    let output = compasso(&["run", "--on", "sim,sim", "--json", "--out", out.path().to_str().unwrap()]);
    assert_eq!(json(&output).as_array().unwrap().len(), 2);
    assert!(out.path().join("sim/trace.jsonl").exists() && out.path().join("sim-2/trace.jsonl").exists());
}

#[test]
fn help_has_examples_on_every_level() {
    for args in [
        &["--help"][..],
        &["run", "--help"],
        &["report", "--help"],
        &["check", "--help"],
        &["doctor", "--help"],
        &["budget", "--help"],
    ] {
        let output = compasso(args);
        assert_eq!(output.status.code(), Some(0));
        assert!(String::from_utf8(output.stdout).unwrap().contains("Example"), "{args:?}");
    }
}

#[test]
fn without_an_emulator_and_the_right_to_install_one_the_tool_says_what_to_type() {
    // A machine whose PATH holds nothing: no QEMU, no apt, no rustup.
    let empty = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_compasso"))
        .args(["run", "--json", "--out"])
        .arg(empty.path().join("run"))
        .current_dir(root())
        .env("PATH", empty.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let error = json(&output)["error"].as_str().unwrap().to_owned();
    assert!(error.contains("to mend it: "), "{error}");
}

/// A cargo that says what it was called with and ends as it is told to.
fn with_cargo(script: Option<&str>, args: &[&str]) -> Output {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let cargo = folder.path().join("cargo");
    if let Some(script) = script {
        fs::write(&cargo, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();
    }
    Command::new(env!("CARGO_BIN_EXE_compasso")).args(args).current_dir(root()).env("CARGO", &cargo).output().unwrap()
}

#[test]
fn the_bench_is_built_when_it_is_asked_for_and_its_status_is_passed_on() {
    let output = with_cargo(
        Some("echo \"$PWD $@\"; exit 1"),
        &["bench", "clock", "--seeds", "3", "--families", "lan,temp", "--json", "--out", "/somewhere/else"],
    );
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stdout).unwrap();
    let wanted = "run --package compasso-bench --features peers -- clock --seeds 3 --families lan,temp --out /somewhere/else --json";
    assert_eq!(said.trim_end(), format!("{} {wanted}", root().canonicalize().unwrap().display()));
    for status in [0, 2, 3] {
        let output = with_cargo(Some(&format!("exit {status}")), &["bench", "clock"]);
        assert_eq!(output.status.code(), Some(status));
    }
}

#[test]
fn without_cargo_or_with_a_build_that_fails_the_bench_ends_with_status_3() {
    let missing = with_cargo(None, &["bench", "clock", "--json"]);
    assert_eq!(missing.status.code(), Some(3));
    assert_eq!(json(&missing)["exit"], 3);
    assert!(String::from_utf8_lossy(&missing.stderr).contains("to get it: "));
    let failed = with_cargo(Some("exit 101"), &["bench", "clock", "--json"]);
    assert_eq!((failed.status.code(), &json(&failed)["exit"]), (Some(3), &3.into()));
}
