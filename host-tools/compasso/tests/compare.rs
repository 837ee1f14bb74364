//! `compasso compare` in the simulator: measured costs are the book's, and machines can read them.

use serde_json::Value;
use std::{
    path::Path,
    process::{Command, Output},
};

fn compasso(args: &[&str], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_compasso")).args(args).current_dir(folder).output().unwrap()
}

fn compared(family: &str, nodes: u16) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let output = compasso(&["compare", family, "--nodes", &nodes.to_string(), "--json"], folder.path());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(folder.path().join(format!("runs/compare-{family}.svg")).exists());
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&document["family"], &document["nodes"]), (&family.into(), &nodes.into()));
    assert_eq!((&document["stage"], &document["exit"]), (&"sim".into(), &0.into()));
    document
}

fn row<'a>(document: &'a Value, wanted: &[(&str, &str)]) -> &'a Value {
    let rows = document["rows"].as_array().unwrap();
    let fits = |row: &&Value| wanted.iter().all(|(field, value)| row[*field] == **value);
    rows.iter().find(fits).unwrap_or_else(|| panic!("no row {wanted:?}"))
}

fn near(value: &Value, wanted: f64, slack: f64, context: &str) {
    let value = value.as_f64().unwrap_or_else(|| panic!("{context}: no number"));
    assert!((value - wanted).abs() <= slack, "{context}: {value} instead of {wanted}");
}

#[test]
fn mutual_exclusion_costs_what_the_book_says() {
    for nodes in [5, 9] {
        let document = compared("mutex", nodes);
        let n = f64::from(nodes);
        // On a grid of three by three everybody has four other voters: 12 messages on the wire.
        // With five nodes the rows are {0, 1, 2} and {3, 4}, and 0 to 3 ask: (3 + 3 + 2 + 2) / 4.
        let voters = if nodes == 9 { 4.0 } else { 2.5 };
        // Messages for each entry at low load and at full load, client delay, synchronization delay.
        for (algorithm, low, full, client, sync) in [
            ("central", Some(3.0), Some(3.0 * (n - 1.0) / n), Some(2.0), Some(2.0)),
            ("voting", Some(3.0 * (n - 1.0)), None, Some(2.0), None),
            ("lamport", Some(3.0 * (n - 1.0)), Some(3.0 * (n - 1.0)), Some(2.0), Some(1.0)),
            ("ricart-agrawala", Some(2.0 * (n - 1.0)), Some(2.0 * (n - 1.0)), Some(2.0), Some(1.0)),
            ("token-ring", None, Some(1.0), None, Some(1.0)),
            ("suzuki-kasami", Some(n), Some(n), Some(2.0), Some(1.0)),
            ("maekawa-plain", Some(3.0 * voters), None, Some(2.0), None),
            ("maekawa", Some(3.0 * voters), None, Some(2.0), Some(2.0)),
        ] {
            let context = format!("{algorithm} with {nodes} nodes");
            let row = row(&document, &[("algorithm", algorithm)]);
            if let Some(low) = low {
                near(&row["low"]["messages_per_entry"], low, 0.0, &context);
                near(&row["low"]["expected"], low, 0.001, &context);
            }
            if let Some(full) = full {
                // One entry more or less of one node, or the first, which finds the token at home.
                near(&row["full"]["messages_per_entry"], full, full * 0.005, &context);
                near(&row["full"]["expected"], full, 0.001, &context);
            }
            client.inspect(|delay| near(&row["client_delay"], *delay, 0.001, &context));
            sync.inspect(|delay| near(&row["sync_delay"], *delay, 0.001, &context));
            for field in ["agrees", "client_delay_agrees", "sync_delay_agrees"] {
                assert_ne!(row[field], false, "{context}: {field}");
            }
            assert_ne!(row["full"]["agrees"], false, "{context}");
            assert_eq!(row["low"]["violations"], 0, "{context}");
        }
        let central = row(&document, &[("algorithm", "central")]);
        assert_eq!((&central["formula"], &central["expected"]), (&"3".into(), &3.0.into()));
        near(&central["busiest_share"], 1.0, 0.0, "every message is the coordinator's");
        let token = row(&document, &[("algorithm", "token-ring")]);
        assert_eq!((&token["load"], &token["formula"]), (&"full".into(), &"1".into()));
        assert_eq!(token["messages_per_entry"], 1.0);
        near(&token["fairness"], 1.0, 0.001, "everybody has its turn");
        let delay = token["client_delay"].as_f64().unwrap();
        assert!(delay > 0.0 && delay < n, "an idle token is at most a round away: {delay}");
        // Contention takes votes back, but not more often than the amortised bound.
        let maekawa = row(&document, &[("algorithm", "maekawa")]);
        let full = maekawa["full"]["messages_per_entry"].as_f64().unwrap();
        assert!(full > 3.0 * 2.4 && full < 7.0 * 4.0, "{full}");
        assert_eq!(row(&document, &[("algorithm", "maekawa-plain")])["full"], Value::Null);
    }
}

#[test]
fn whoever_starves_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let output = compasso(&["compare", "mutex", "--nodes", "9", "--json"], folder.path());
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    for row in document["rows"].as_array().unwrap() {
        let starved = row["starved"].as_u64().unwrap();
        // Whoever leaves asks again at once and is nearest to its own vote.
        assert_eq!(starved > 0, row["algorithm"] == "voting", "{row:#}");
    }
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("starved      voting: ") && said.contains("only with probability one"), "{said}");
    let heading = said.lines().find(|line| line.contains("busiest") && line.contains("bytes"));
    assert!(heading.is_some_and(|line| line.contains("starved")), "{said}");
    assert!(said.lines().all(|line| line.chars().count() <= 100), "{said}");
}

#[test]
fn elections_cost_what_the_book_says() {
    for nodes in [5_u64, 9] {
        let document = compared("election", nodes as u16);
        let (n, live) = (nodes, nodes - 1);
        for (algorithm, case, messages) in [
            ("bully", "coordinator dies", n * n - n - 1),
            ("bully", "best", n - 2),
            ("ring", "coordinator dies", 2 * live + 1),
            ("ring", "one starts", 2 * n),
            ("chang-roberts", "coordinator dies", 3 * live),
            ("chang-roberts", "best", 2 * n),
            ("chang-roberts", "worst", 3 * n - 1),
            ("chang-roberts", "all, falling", live * (live + 1) / 2 + live),
            ("chang-roberts", "all, rising", 3 * live - 1),
            ("detector", "coordinator dies", 0),
        ] {
            let row = row(&document, &[("algorithm", algorithm), ("case", case)]);
            assert_eq!(row["messages"], messages, "{algorithm}, {case}, {nodes} nodes: {row:#}");
            assert_eq!(row["expected"].as_f64(), Some(messages as f64), "{algorithm}, {case}");
        }
        let rows = document["rows"].as_array().unwrap();
        for row in rows {
            assert_eq!((&row["agrees"], &row["violations"]), (&true.into(), &0.into()), "{row:#}");
            let highest = if row["definition"].as_str().unwrap().contains("nobody dead") { n - 1 } else { n - 2 };
            assert_eq!(row["leader"], highest, "{row:#}");
            assert!(row["time"].as_f64().unwrap() > 0.0);
        }
        // ELECTION there, T of silence, COORDINATOR there: 1 + 9 + 1 message times.
        near(&row(&document, &[("case", "coordinator dies")])["time"], 11.0, 0.01, "bully");
        near(&row(&document, &[("case", "best")])["time"], 1.0, 0.01, "bully");
        let worst = row(&document, &[("algorithm", "chang-roberts"), ("case", "worst")]);
        near(&worst["last_message"], (3 * n - 1) as f64, 0.01, "one message after the other");
    }
}

#[test]
fn what_is_done_about_deadlocks_costs_what_the_book_says() {
    for nodes in [3, 5, 9] {
        let document = compared("deadlock", nodes);
        for (strategy, low) in [
            ("ignore", 6.0),
            ("detect", 6.0),
            ("prevent-order", 6.0),
            ("wait-die", 6.0),
            ("wound-wait", 6.0),
            ("avoid", 7.0),
        ] {
            let context = format!("{strategy} with {nodes} nodes");
            let row = row(&document, &[("algorithm", strategy)]);
            near(&row["messages_per_transaction"], low, 0.0, &context);
            near(&row["client_delay"], 2.0, 0.001, &context);
            let full = &row["full"];
            assert_ne!(full["given_back_agrees"], false, "{context}: {full:#}");
            assert_eq!((&full["circles_agree"], &row["violations"]), (&true.into(), &0.into()), "{context}: {full:#}");
            let rate = full["transactions_per_second"].as_f64().unwrap();
            match strategy {
                "ignore" => assert!(rate < 5.0 && full["circles_standing"] != 0, "{context}: it stands still: {rate}"),
                _ => assert!(rate > 20.0 && full["circles_standing"] == 0, "{context}: {rate}"),
            }
        }
        let full =
            |strategy: &str, field: &str| row(&document, &[("algorithm", strategy)])["full"][field].as_f64().unwrap();
        assert!(full("detect", "deadlocks_found") > 0.0 && full("detect", "given_back_per_transaction") > 0.0);
        assert!(full("prevent-order", "transactions_per_second") > full("detect", "transactions_per_second"));
        assert!(full("wait-die", "given_back_per_transaction") > full("detect", "given_back_per_transaction"));
        assert!(full("avoid", "busiest_share") > 0.99, "every message is the coordinator's");
    }
}

#[test]
fn two_nodes_are_enough_to_take_turns() {
    let document = compared("mutex", 2);
    for (algorithm, low) in [("central", 3.0), ("lamport", 3.0), ("ricart-agrawala", 2.0), ("maekawa", 3.0)] {
        let row = row(&document, &[("algorithm", algorithm)]);
        near(&row["low"]["messages_per_entry"], low, 0.0, algorithm);
    }
    for row in document["rows"].as_array().unwrap() {
        for field in ["agrees", "client_delay_agrees", "sync_delay_agrees"] {
            assert_ne!(row[field], false, "{field}: {row:#}");
        }
        assert_eq!(row["low"]["violations"], 0, "{row:#}");
    }
}

#[test]
fn clocks_cost_what_their_rules_say_and_keep_their_bounds() {
    for nodes in [2_u16, 3, 5, 9] {
        let document = compared("clock", nodes);
        let of = |sync: &str| row(&document, &[("algorithm", sync)]);
        for (sync, each) in [("cristian", 16.0), ("berkeley", 9.0), ("disciplined", 2.0)] {
            let context = format!("{sync} with {nodes} nodes");
            let row = of(sync);
            near(&row["messages_per_correction"], each, each * 0.03, &context);
            near(&row["expected"], each, 0.0, &context);
            assert_eq!((&row["agrees"], &row["rate_agrees"]), (&true.into(), &true.into()), "{context}: {row:#}");
            assert_eq!((&row["violations"], &row["backward_steps"]), (&0.into(), &0.into()), "{context}");
            let (error, bound) = (row["error_us"]["max"].as_i64().unwrap(), row["bound_us"]["p99"].as_i64().unwrap());
            assert!(error < 3_000 && bound < 10_000, "{context}: error {error}, bound {bound}");
            let (spread, left_alone) = (row["spread_us"].as_i64().unwrap(), of("none")["spread_us"].as_i64().unwrap());
            assert!(spread * 100 < left_alone, "{context}: {spread} of {left_alone}");
            assert!(row["converged_us"].as_i64().unwrap() < 2_000_000, "{context}");
            assert!(row["bytes_per_node_second"].as_f64().unwrap() > 100.0, "{context}");
        }
        assert!(of("none")["error_us"].is_null() && of("none")["messages_per_node_second"] == 0.0);
        let bytes = |sync: &str| of(sync)["bytes_per_node_second"].as_f64().unwrap();
        assert!(bytes("berkeley") < bytes("cristian"), "nine messages are fewer than sixteen");
    }
}

#[test]
fn a_person_gets_a_table_of_at_most_a_hundred_columns_and_a_chart() {
    let folder = tempfile::tempdir().unwrap();
    for family in ["mutex", "election", "clock", "deadlock"] {
        let output = compasso(&["compare", family, "--nodes", "3", "--svg", "chart.svg"], folder.path());
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let table = String::from_utf8(output.stdout).unwrap();
        assert!(!table.contains('\x1b') && !table.contains('≠'), "{table}");
        for line in table.lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
        let chart = std::fs::read_to_string(folder.path().join("chart.svg")).unwrap();
        assert!(chart.starts_with("<svg") && chart.trim_end().ends_with("</svg>"));
        for name in ["token-ring", "suzuki-kasami"].iter().filter(|_| family == "mutex") {
            assert!(table.contains(name) && chart.contains(&format!(">{name}</text>")), "{name}");
        }
    }
}

#[test]
fn what_cannot_be_compared_is_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    for (args, wanted) in [
        (&["compare", "colours"][..], "mutex, election, clock, deadlock"),
        (&["compare", "mutex", "--nodes", "1"], "2 to 64"),
        (&["compare", "election", "--nodes", "2"], "3 to 64 nodes on sim: where the coordinator of two dies"),
        (&["compare", "deadlock", "--nodes", "2"], "3 to 64 nodes on sim: a transaction takes two resources"),
        (&["compare", "mutex", "--nodes", "65"], "2 to 64"),
        (&["compare", "mutex", "--nodes", "17", "--on", "qemu"], "2 to 16"),
        (&["compare", "mutex", "--nodes", "many"], "--nodes"),
        (&["compare", "mutex", "--on", "moon"], "moon"),
        (&["compare"], "FAMILY"),
    ] {
        let output = compasso(args, folder.path());
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert_eq!(error.lines().count(), 1, "{args:?}: {error}");
        assert!(error.contains(wanted), "{args:?}: {error}");
    }
    let output = compasso(&["compare", "colours", "--json"], folder.path());
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["exit"], 2);
    let output = compasso(&["compare", "--help"], folder.path());
    assert!(String::from_utf8(output.stdout).unwrap().contains("Examples"));
}
