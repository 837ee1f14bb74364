//! How long `compasso trace` and `compasso check` take over 200,000 events, and how that grows from a
//! quarter of them: `cargo bench -p compasso --bench trace`.

#[path = "../../checker/tests/execution/mod.rs"]
mod execution;

use execution::Execution;
use std::{path::Path, process::Command, time::Instant};

const LONG: usize = 200_000;
const NODES: u16 = 5;

/// The quickest of three calls, in seconds.
fn seconds(args: &[&str]) -> f64 {
    let call = || {
        let started = Instant::now();
        let output = Command::new(env!("CARGO_BIN_EXE_compasso")).args(args).output().expect("the command was built");
        assert!(matches!(output.status.code(), Some(0 | 1)), "{args:?}: {output:?}");
        started.elapsed().as_secs_f64()
    };
    (0..3).map(|_| call()).fold(f64::INFINITY, f64::min)
}

/// Every call over a trace of so many events, by name.
fn measure(folder: &Path, length: usize) -> Vec<(String, f64)> {
    let file = |name: &str| folder.join(name).to_str().expect("a plain path").to_owned();
    let (stamped, bare, log, out) = (file("stamped.jsonl"), file("bare.jsonl"), file("long.log"), file("out"));
    let execution = Execution::random(7, NODES, length, 0);
    execution.write(Path::new(&stamped));
    Execution::random(7, NODES, length, 0).without_stamps().write(Path::new(&bare));
    let middle = |node: u16| {
        let later = execution.events.iter().skip(length / 2).find(|event| event.node_id() == Some(node));
        later.expect("everybody does something").name()
    };
    let frontier: Vec<String> = (0..NODES).map(middle).collect();
    let frontier: Vec<&str> = frontier.iter().map(String::as_str).collect();
    let mut rows = Vec::new();
    for format in ["shiviz", "perfetto", "csv", "vcd"] {
        let to = if format == "shiviz" { &log } else { &out };
        rows.push((
            format!("export {format}"),
            seconds(&["trace", "export", &stamped, "--format", format, "--out", to]),
        ));
    }
    for (what, trace) in [("", &stamped), (" without stamps", &bare), (" of a ShiViz log", &log)] {
        let order = ["trace", "order", trace, frontier[0], frontier[1], "--json"];
        rows.push((format!("order{what}"), seconds(&order)));
        rows.push((format!("cut{what}"), seconds(&[&["trace", "cut", trace], &frontier[..], &["--json"]].concat())));
    }
    rows.push(("check".to_owned(), seconds(&["check", &stamped, "--json"])));
    rows
}

fn main() {
    let folder = tempfile::tempdir().expect("a folder for the traces");
    let (short, long) = (measure(folder.path(), LONG / 4), measure(folder.path(), LONG));
    println!("{:<24}{:>10}{:>28}", "", "200,000", "times as long as 50,000");
    for ((name, long), (_, short)) in long.iter().zip(&short) {
        println!("{name:<24}{long:>8.2} s{:>28.1}", long / short);
    }
}
