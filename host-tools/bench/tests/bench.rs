//! The bench as `compasso bench clock` calls it.

use serde_json::Value;
use std::process::{Command, Output};

fn bench(args: &[&str]) -> Output {
    let out = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_compasso-bench"));
    command.arg("clock").args(args).current_dir(out.path()).output().unwrap()
}

#[test]
fn the_same_seed_gives_the_same_document_to_the_last_digit() {
    let first = bench(&["--seeds", "1", "--families", "quiet,lossy", "--json"]);
    let again = bench(&["--seeds", "1", "--families", "quiet,lossy", "--json"]);
    assert_eq!(first.status.code(), Some(0), "{first:?}");
    assert_eq!(first.stdout, again.stdout);
    let document: Value = serde_json::from_slice(&first.stdout).unwrap();
    let other = bench(&["--seeds", "2-2", "--families", "quiet,lossy", "--json"]);
    let other: Value = serde_json::from_slice(&other.stdout).unwrap();
    assert_eq!((&other["seeds"], other["families"] == document["families"]), (&serde_json::json!([2]), false));
}

#[test]
fn the_document_names_every_clock_and_what_was_measured_of_it() {
    let output = bench(&["--seeds", "1", "--families", "quiet", "--json"]);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["families"][0]["name"], "quiet");
    let rows = document["families"][0]["rows"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["peer"].as_str().unwrap()).collect();
    for wanted in ["ours", "cristian-step", "cristian-slew", "ftsp", "oracle"] {
        assert!(names.contains(&wanted), "{names:?}");
        assert!(document["parameters"][wanted].is_string());
    }
    for row in rows {
        for field in ["median_us", "p99_us", "max_us", "backward_steps"] {
            assert!(row[field].is_number(), "{field} of {row}");
        }
        for after in ["60", "600", "1800"] {
            assert!(row["holdover_us"][after].is_number(), "{row}");
        }
    }
    let ours = &rows[0];
    assert_eq!(
        (&ours["peer"], &ours["backward_steps"], &ours["bound_violations"]),
        (&"ours".into(), &0.into(), &0.into())
    );
    assert!(ours["half_width_ratio"].is_number() && ours["converged_s"].is_number(), "{ours}");
    assert_eq!(ours["certain_violations"], 0);
    assert!(ours["certain_half_width_ratio"].as_f64() > ours["half_width_ratio"].as_f64(), "{ours}");
    assert!(rows[1]["backward_steps"].as_u64().unwrap() > 1_000, "a clock that is set steps back");
}

#[test]
fn a_bad_call_gets_one_line_and_status_2() {
    for (args, wanted) in [
        (["--families", "lan,wlan"], "wlan"),
        (["--seeds", "0"], "--seeds 0"),
        (["--seeds", "5-1"], "--seeds 5-1"),
        (["--seeds", "many"], "--seeds many"),
    ] {
        let output = bench(&args);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.lines().count() == 1 && error.contains(wanted), "{args:?}: {error}");
    }
}

#[test]
fn the_pictures_are_written_where_they_are_wanted() {
    let out = tempfile::tempdir().unwrap();
    let output = bench(&["--seeds", "1", "--families", "quiet", "--quiet", "--out", out.path().to_str().unwrap()]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "Every limit held.\n");
    for name in ["peers", "errors", "hull"] {
        let picture = std::fs::read_to_string(out.path().join(format!("disciplined-clock-{name}.svg"))).unwrap();
        assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n") && !picture.contains("NaN"), "{name}");
    }
}
