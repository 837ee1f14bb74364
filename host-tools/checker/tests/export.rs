//! Exports, read back by somebody else's readers and held against what the tools demand.

mod execution;

use compasso_checker::order::{
    Form, Relation,
    export::{Exported, Format, export},
    order,
};
use execution::{Dice, Execution};
use serde_json::Value;
use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::{Path, PathBuf},
};

/// Node 1 leads, has the token, is inside, passes the token on and is killed and born again; node 0
/// gets the token and is inside twice.
const TURNS: &str = r#"{"node":"stage","seq":1,"true_us":0,"event":"scenario","name":"x","ids":[0,1],"mutex":"token-ring"}
{"node":0,"seq":1,"vector":{"0":1},"lamport":1,"hw_us":1,"true_us":10,"event":"boot","incarnation":1}
{"node":1,"seq":1,"vector":{"1":1},"lamport":1,"hw_us":1,"true_us":20,"event":"boot","incarnation":1}
{"node":1,"seq":2,"vector":{"1":2},"lamport":2,"hw_us":2,"true_us":30,"event":"leader","id":1,"term":5}
{"node":1,"seq":3,"vector":{"1":3},"lamport":3,"hw_us":2,"true_us":30,"event":"token","epoch":1,"serial":1}
{"node":1,"seq":4,"vector":{"1":4},"lamport":4,"hw_us":3,"true_us":40,"event":"cs_enter","resource":"cs","fence":1}
{"node":1,"seq":5,"vector":{"1":5},"lamport":5,"hw_us":4,"true_us":50,"event":"cs_exit","resource":"cs","fence":1}
{"node":1,"seq":6,"vector":{"1":6},"lamport":6,"hw_us":5,"true_us":60,"event":"send","to":0,"kind":"token","id":9}
{"node":0,"seq":2,"vector":{"0":2,"1":6},"lamport":7,"hw_us":7,"true_us":70,"event":"recv","from":1,"kind":"token","id":9}
{"node":0,"seq":3,"vector":{"0":3,"1":6},"lamport":8,"hw_us":7,"true_us":70,"event":"token","epoch":1,"serial":2}
{"node":0,"seq":4,"vector":{"0":4,"1":6},"lamport":9,"hw_us":8,"true_us":80,"event":"cs_enter","resource":"cs","fence":2}
{"node":"stage","seq":2,"true_us":85,"event":"fault","crash":1}
{"node":0,"seq":5,"vector":{"0":5,"1":6},"lamport":10,"hw_us":9,"true_us":90,"event":"cs_exit","resource":"cs","fence":2}
{"node":1,"seq":1,"inc":2,"vector":{"1":"2.1"},"lamport":1,"hw_us":0,"true_us":95,"event":"boot","incarnation":2}
{"node":0,"seq":6,"vector":{"0":6,"1":6},"lamport":11,"hw_us":10,"true_us":100,"event":"label","text":"a, \"quoted\"\nline"}
"#;

fn write(path: &Path, format: Format) -> (String, Exported) {
    let mut out = Vec::new();
    let exported = export(path, format, &Form::default(), &mut out).unwrap();
    (String::from_utf8(out).unwrap(), exported)
}

fn turns(folder: &tempfile::TempDir) -> PathBuf {
    let path = folder.path().join("turns.jsonl");
    fs::write(&path, TURNS).unwrap();
    path
}

#[test]
fn a_dump_shows_who_is_alive_inside_leads_and_has_the_token() {
    let folder = tempfile::tempdir().unwrap();
    let (text, exported) = write(&turns(&folder), Format::Vcd);
    assert_eq!(exported.clock, Some("true_us"));
    let mut parser = vcd::Parser::new(text.as_bytes());
    let header = parser.parse_header().unwrap();
    assert_eq!(header.timescale, Some((1, vcd::TimescaleUnit::US)));
    let mut wires = HashMap::new();
    for node in ["node_0", "node_1"] {
        for wire in ["alive", "inside", "leads", "has_token"] {
            let found = header.find_var(&[node, wire]).unwrap_or_else(|| panic!("no {node}.{wire}"));
            wires.insert(found.code, format!("{node}.{wire}"));
        }
    }
    let mut now = 0;
    let mut changes: BTreeMap<String, Vec<(u64, bool)>> = BTreeMap::new();
    for command in parser {
        match command.unwrap() {
            vcd::Command::Timestamp(at) => {
                assert!(at >= now, "time goes on");
                now = at;
            }
            vcd::Command::ChangeScalar(code, value) if now > 0 => {
                changes.entry(wires[&code].clone()).or_default().push((now, value == vcd::Value::V1));
            }
            _ => {}
        }
    }
    assert_eq!(now, 100, "the last level is drawn to the end");
    let wanted = [
        ("node_0.alive", vec![(10, true), (100, false)]),
        ("node_0.has_token", vec![(70, true), (100, false)]),
        ("node_0.inside", vec![(80, true), (90, false)]),
        ("node_1.alive", vec![(20, true), (85, false), (95, true), (100, false)]),
        ("node_1.has_token", vec![(30, true), (60, false)]),
        ("node_1.inside", vec![(40, true), (50, false)]),
        ("node_1.leads", vec![(30, true), (85, false)]),
    ];
    let wanted: BTreeMap<String, Vec<(u64, bool)>> =
        wanted.into_iter().map(|(wire, changes)| (wire.to_owned(), changes)).collect();
    assert_eq!(changes, wanted);
}

#[test]
fn other_clocks_serve_where_there_is_no_true_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.jsonl");
    let without = |field: &str, text: &str| {
        let cut = |line: &str| match line.split_once(&format!("\"{field}\":")) {
            Some((head, rest)) => format!("{head}{}", rest.split_once(',').map_or("", |(_, rest)| rest)),
            None => line.to_owned(),
        };
        text.lines().map(cut).collect::<Vec<_>>().join("\n")
    };
    let hardware = without("true_us", TURNS);
    fs::write(&path, &hardware).unwrap();
    assert_eq!(write(&path, Format::Vcd).1.clock, Some("hw_us"));
    fs::write(&path, without("hw_us", &hardware)).unwrap();
    let (text, exported) = write(&path, Format::Vcd);
    assert_eq!(exported.clock, Some("lamport"));
    assert!(text.contains("\n#9\n"), "node 0 enters at Lamport time 9: {text}");
}

#[test]
fn perfetto_gets_tracks_slices_and_flows_that_bind_to_slices() {
    let folder = tempfile::tempdir().unwrap();
    let document: Value = serde_json::from_str(&write(&turns(&folder), Format::Perfetto).0).unwrap();
    let events = document["traceEvents"].as_array().unwrap();
    let number = |event: &Value, field: &str| event[field].as_f64().unwrap_or_else(|| panic!("{field} of {event}"));
    let track = |event: &Value| (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap());
    let names: Vec<&str> = events
        .iter()
        .filter(|event| event["name"] == "process_name")
        .map(|event| event["args"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["node 0", "node 1", "stage"]);
    let slices: Vec<&Value> = events.iter().filter(|event| event["ph"] == "X").collect();
    let of = |pid: u64, name: &str| -> Vec<(f64, f64)> {
        let found = slices.iter().filter(|slice| slice["pid"] == pid && slice["name"] == name);
        found.map(|slice| (number(slice, "ts"), number(slice, "dur"))).collect()
    };
    assert_eq!(of(1, "inside cs"), [(80.0, 10.0)]);
    assert_eq!(of(2, "inside cs"), [(40.0, 10.0)]);
    assert_eq!(of(2, "leads"), [(30.0, 55.0)]);
    assert_eq!(of(2, "token of cs"), [(30.0, 30.0)]);
    assert_eq!(of(2, "life 2"), [(95.0, 5.0)]);
    let flows: Vec<&Value> = events.iter().filter(|event| event["cat"] == "message").collect();
    assert_eq!(flows.len(), 2);
    for (flow, (phase, wanted)) in flows.iter().zip([("s", "1:6"), ("f", "0:2")]) {
        assert_eq!((flow["ph"].as_str(), &flow["id"]), (Some(phase), &flows[0]["id"]));
        let at = number(flow, "ts");
        let around = slices.iter().filter(|slice| {
            track(slice) == track(flow) && number(slice, "ts") <= at && at < number(slice, "ts") + number(slice, "dur")
        });
        let around: Vec<&Value> = around.map(|slice| &slice["args"]["event"]).collect();
        assert_eq!(around, [wanted], "a flow binds to the one slice around it");
    }
    assert_eq!(flows[1]["bp"], "e");
    let mut owner: HashMap<u64, u64> = HashMap::new();
    for slice in &slices {
        let (pid, tid) = track(slice);
        assert_eq!(*owner.entry(tid).or_insert(pid), pid, "a track belongs to one node");
    }
    assert!(events.iter().any(|event| event["ph"] == "i" && event["args"]["crash"] == 1));
}

#[test]
fn a_table_has_a_row_for_every_event_and_survives_commas_quotes_and_newlines() {
    let folder = tempfile::tempdir().unwrap();
    let (text, exported) = write(&turns(&folder), Format::Csv);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
    let rows: Vec<HashMap<String, String>> = reader
        .records()
        .map(|row| header.iter().cloned().zip(row.unwrap().iter().map(str::to_owned)).collect())
        .collect();
    assert_eq!((rows.len(), exported.events), (15, 15));
    let label: Value = serde_json::from_str(&rows[14]["detail"]).unwrap();
    assert_eq!(label["text"], "a, \"quoted\"\nline");
    let born = &rows[13];
    assert_eq!((born["name"].as_str(), born["vector"].as_str()), ("1:2.1", r#"{"1":"2.1"}"#));
    assert_eq!((rows[0]["node"].as_str(), rows[0]["vector"].as_str()), ("stage", ""));
}

/// What ShiViz demands: a host counts from 1 without holes, and clocks name only what is there.
fn accepted_by_shiviz(text: &str) {
    let mut lines = text.lines();
    assert!(lines.next().unwrap().contains("(?<host>"), "the first line is the expression");
    assert_eq!(lines.next(), Some(""), "the second line is the delimiter");
    let mut clocks: Vec<(&str, Value)> = Vec::new();
    while let Some(line) = lines.next() {
        let (host, clock) = line.split_once(' ').unwrap();
        clocks.push((host, serde_json::from_str(clock).unwrap()));
        assert!(lines.next().is_some_and(|event| !event.is_empty()));
    }
    let mut own: HashMap<&str, Vec<u64>> = HashMap::new();
    for (host, clock) in &clocks {
        own.entry(host).or_default().push(clock[host].as_u64().unwrap());
    }
    for (host, numbers) in &mut own {
        numbers.sort_unstable();
        assert!(numbers.iter().copied().eq(1..=numbers.len() as u64), "{host}: {numbers:?}");
    }
    for (_, clock) in &clocks {
        for (host, count) in clock.as_object().unwrap() {
            assert!(count.as_u64().unwrap() <= own[host.as_str()].len() as u64, "{clock}");
        }
    }
}

#[test]
fn shiviz_accepts_restarts_holes_and_any_order_of_lines() {
    let folder = tempfile::tempdir().unwrap();
    accepted_by_shiviz(&write(&turns(&folder), Format::Shiviz).0);
    let path = folder.path().join("t.jsonl");
    for seed in 1..=10 {
        let mut dice = Dice::new(seed);
        let mut execution = Execution::random(seed, 4, 400, 30);
        execution.events.retain(|event| event.event.name() == "boot" || dice.below(12) > 0);
        execution.write(&path);
        accepted_by_shiviz(&write(&path, Format::Shiviz).0);
        execution.shuffled(&mut dice).write(&path);
        accepted_by_shiviz(&write(&path, Format::Shiviz).0);
    }
}

#[test]
fn a_hole_that_no_file_could_hold_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.jsonl");
    fs::write(&path, "{\"node\":0,\"seq\":18446744073709551615,\"event\":\"boot\"}\n").unwrap();
    let error = export(&path, Format::Shiviz, &Form::default(), &mut Vec::new()).unwrap_err().to_string();
    assert!(error.contains("events are missing"), "{error}");
    for format in [Format::Perfetto, Format::Csv, Format::Vcd] {
        export(&path, format, &Form::default(), &mut Vec::new()).unwrap();
    }
}

#[test]
fn numbers_at_the_edge_of_their_types_break_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.jsonl");
    let (seq, inc, low, high) = (u64::MAX, u32::MAX, i64::MIN, i64::MAX);
    let mut text = String::new();
    for (node, at) in [(0, low), (65535, high)] {
        for (inc, event) in [(1, "boot"), (inc, "cs_enter")] {
            text += &format!(
                "{{\"node\":{node},\"seq\":{seq},\"inc\":{inc},\"lamport\":1,\"vector\":{{\"0\":\"{inc}.{seq}\",\"65535\":\"{inc}.{seq}\"}},\"true_us\":{at},\"event\":\"{event}\"}}\n"
            );
        }
        text += &format!(
            "{{\"node\":\"stage\",\"seq\":{seq},\"event\":\"gap\",\"of\":{node},\"inc\":1,\"missed\":{seq}}}\n"
        );
    }
    fs::write(&path, text).unwrap();
    let _circle = order(&path, &format!("0:{seq}"), &format!("65535:{seq}"), &Form::default());
    let answer = order(&path, &format!("0:{seq}"), &format!("0:{inc}.{seq}"), &Form::default()).unwrap();
    assert_eq!((answer.relation, answer.b.preceding), (Relation::Before, u64::MAX - 1));
    for format in [Format::Perfetto, Format::Csv, Format::Vcd, Format::Shiviz] {
        let _refused_or_not = export(&path, format, &Form::default(), &mut Vec::new());
    }
}

#[test]
fn a_log_is_exported_as_far_as_it_goes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.log");
    fs::write(&path, "x, y\na {\"a\":1}\nz\nb {\"a\":1,\"b\":1}\n").unwrap();
    let (text, _) = write(&path, Format::Shiviz);
    accepted_by_shiviz(&text);
    assert_eq!(write(&path, Format::Csv).0.lines().nth(1), Some(r#"a:1,a,1,"{""a"":1}","x, y""#));
    for format in [Format::Perfetto, Format::Vcd] {
        let error = export(&path, format, &Form::default(), &mut Vec::new()).unwrap_err().to_string();
        assert!(error.contains("has no times"), "{error}");
    }
}
