//! `compasso trace` as users call it: answers, exports, one-line errors, and what it takes.

#[path = "../../checker/tests/execution/mod.rs"]
mod execution;

use execution::Execution;
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// `[2,4,0]` at p1:4 and `[2,3,3]` at p2:3.
const THREE: &str = "p0 {\"p0\":1}\nstart\np0 {\"p0\":2}\nsend\np1 {\"p1\":1}\nstart
p1 {\"p0\":2,\"p1\":2}\nreceive\np1 {\"p0\":2,\"p1\":3}\nsend\np1 {\"p0\":2,\"p1\":4,\"p2\":0}\nthink
p2 {\"p2\":1}\nstart\np2 {\"p2\":2}\nthink\np2 {\"p0\":2,\"p1\":3,\"p2\":3}\nreceive\n";

const LONG: usize = 200_000;
const NODES: u16 = 5;

fn compasso(args: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    Command::new(env!("CARGO_BIN_EXE_compasso")).args(args).current_dir(root).output().unwrap()
}

fn answer(args: &[&str]) -> Value {
    let output = compasso(&[args, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn said(args: &[&str]) -> String {
    let output = compasso(args);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn file(folder: &tempfile::TempDir, name: &str, text: &str) -> String {
    let path = folder.path().join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn the_worked_example_over_a_shiviz_log() {
    let folder = tempfile::tempdir().unwrap();
    let log = file(&folder, "three.log", THREE);
    let order = answer(&["trace", "order", &log, "p1:4", "p2:3"]);
    assert_eq!(order["relation"], "concurrent");
    assert_eq!(order["preceding"], json!({"A": 5, "B": 7}));
    assert_eq!(order["vector"]["B"], json!({"p0": 2, "p1": 3, "p2": 3}));
    assert_eq!(answer(&["trace", "order", &log, "p0:1", "p2:3"])["relation"], "before");
    assert_eq!(answer(&["trace", "order", &log, "p2:3", "p0:1"])["relation"], "after");
    assert_eq!(answer(&["trace", "order", &log, "p2:3", "p2:3"])["relation"], "same");
    let text = said(&["trace", "order", &log, "p1:4", "p2:3"]);
    assert!(text.starts_with("concurrent") && text.contains("7 events before it, vector [p0:2 p1:3 p2:3]"), "{text}");
    assert_eq!(said(&["trace", "order", &log, "p1:4", "p2:3", "--quiet"]), "concurrent\n");
}

#[test]
fn a_cut_is_consistent_or_names_the_messages_that_cross_it() {
    let folder = tempfile::tempdir().unwrap();
    let log = file(&folder, "three.log", THREE);
    let good = answer(&["trace", "cut", &log, "p0:2", "p1:3", "p2:3"]);
    assert_eq!((&good["consistent"], &good["crossing"]), (&json!(true), &json!([])));
    let bad = answer(&["trace", "cut", &log, "p0:2", "p1:2", "p2:3"]);
    assert_eq!((&bad["consistent"], &bad["crossing"]), (&json!(false), &json!([{"from": "p1:3", "to": "p2:3"}])));
    let text = said(&["trace", "cut", &log, "p0:2", "p1:2", "p2:3"]);
    assert!(text.starts_with("inconsistent\ncrossing     sent at p1:3 outside, received at p2:3 inside"), "{text}");
}

#[test]
fn a_simulated_run_gives_the_same_answers_through_shiviz() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let output = compasso(&["run", "--on", "sim", "--seed", "3", "--quiet", "--out", run.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let trace = run.join("trace.jsonl");
    let trace = trace.to_str().unwrap();
    let log = folder.path().join("run.log");
    let log = log.to_str().unwrap();
    let exported = answer(&["trace", "export", trace, "--format", "shiviz", "--out", log]);
    assert_eq!(exported["format"], "shiviz");
    // The concert crashes node 4 and boots it again.
    for (a, b) in [("0:500", "2:600"), ("4:2.17", "0:300"), ("4:2.1", "3:900"), ("1:40", "4:2.300"), ("2:7", "2:8")] {
        let (ours, theirs) = (answer(&["trace", "order", trace, a, b]), answer(&["trace", "order", log, a, b]));
        assert_eq!((&ours["relation"], &ours["preceding"]), (&theirs["relation"], &theirs["preceding"]), "{a} {b}");
    }
    for format in ["perfetto", "csv", "vcd"] {
        assert!(said(&["trace", "export", trace, "--format", format]).len() > 10_000, "{format}");
    }
}

#[test]
fn a_bad_call_gets_one_line_and_exit_status_2() {
    let folder = tempfile::tempdir().unwrap();
    let log = file(&folder, "three.log", THREE);
    let kept = file(&folder, "kept.csv", "keep me");
    let calls: [(&[&str], &str); 9] = [
        (&["trace", "order", &log, "p1:9", "p2:3"], "no event p1:9"),
        (&["trace", "order", &log, "p1", "p2:3"], "expected an event like"),
        (&["trace", "order", "nowhere.jsonl", "0:1", "0:2"], "nowhere.jsonl: cannot be read"),
        (&["trace", "order", &log, "p1:1", "p2:3", "--regex", "(?<host>"], "the regular expression"),
        (&["trace", "order", &log, "p1:1"], "missing: <B>"),
        (&["trace", "cut", &log, "p1:1", "p1:2"], "two events in the frontier"),
        (&["trace", "export", &log, "--format", "vcd"], "has no times"),
        (&["trace", "export", &log, "--format", "pdf"], "invalid value 'pdf'"),
        (&["trace", "export", "nowhere.jsonl", "--format", "csv", "--out", &kept], "cannot be read"),
    ];
    for (args, wanted) in calls {
        let output = compasso(args);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert_eq!(error.lines().count(), 1, "{args:?}: {error}");
        assert!(error.contains(wanted), "{args:?}: no {wanted:?} in {error}");
        let output = compasso(&[args, &["--json"]].concat());
        let document: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{args:?}: {error}"));
        assert_eq!(document["exit"], 2, "{args:?}");
    }
    assert_eq!(fs::read_to_string(kept).unwrap(), "keep me", "what cannot be exported overwrites nothing");
}

#[test]
fn help_has_examples_on_every_level() {
    for level in [&["trace"][..], &["trace", "order"], &["trace", "cut"], &["trace", "export"]] {
        let help = said(&[level, &["--help"]].concat());
        assert!(help.contains("Examples:\n  compasso trace "), "{help}");
    }
}

/// A long trace and a frontier in its middle.
fn long_trace(folder: &tempfile::TempDir, length: usize) -> (PathBuf, Vec<String>) {
    let execution = Execution::random(7, NODES, length, 0);
    let path = folder.path().join(format!("{length}.jsonl"));
    execution.write(&path);
    let frontier = (0..NODES).map(|node| {
        let late = execution.events.iter().skip(length / 2).find(|event| event.node_id() == Some(node));
        late.unwrap().name()
    });
    (path, frontier.collect())
}

/// The limit is on the address space, program and libraries included.
#[cfg(target_os = "linux")]
#[test]
fn two_hundred_thousand_events_need_less_memory_than_the_trace_has_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let (path, frontier) = long_trace(&folder, LONG);
    let size_kb = fs::metadata(&path).unwrap().len() / 1024;
    let ask = |limit_kb: u64, args: &str| {
        let call = format!("ulimit -v {limit_kb} && exec \"$COMPASSO\" trace {args} --json");
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(call).env("COMPASSO", env!("CARGO_BIN_EXE_compasso")).env("TRACE", &path);
        shell.output().unwrap()
    };
    let order = format!("order \"$TRACE\" {} {}", frontier[0], frontier[1]);
    let cut = format!("cut \"$TRACE\" {}", frontier.join(" "));
    let empty = ["16384", "24576", "32768", "49152", "65536"].into_iter().map(|limit| limit.parse().unwrap());
    let program_kb: u64 =
        empty.into_iter().find(|limit| ask(*limit, "--help").status.success()).expect("64 MiB are enough to start");
    // An order keeps nothing of the trace, a cut its messages.
    for (what, extra_kb) in [(&order, 4096), (&cut, size_kb)] {
        let output = ask(program_kb + extra_kb, what);
        assert_eq!(output.status.code(), Some(0), "{what} in {program_kb} + {extra_kb} KiB: {output:?}");
    }
    assert!(size_kb > 20_000, "the limit means something: {size_kb} KiB");
}
