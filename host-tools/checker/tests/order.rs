//! The order of events: worked examples, and random executions against happened-before as its
//! definition says it.

mod execution;

use compasso_checker::{
    Event, TraceEvent,
    order::{
        Cut, Form, Order, Relation, cut,
        export::{Format, export},
        order,
    },
};
use execution::{Dice, Execution, Truth, place};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// Three processes: p0's second event sends to p1, whose third sends to p2 and whose fourth is its
/// own; p2 receives at its third.
const THREE: &str = "p0 {\"p0\":1}\nstart
p0 {\"p0\":2}\nsend to p1
p1 {\"p1\":1}\nstart
p1 {\"p0\":2,\"p1\":2}\nreceive from p0
p1 {\"p0\":2,\"p1\":3}\nsend to p2
p1 {\"p0\":2,\"p1\":4,\"p2\":0}\nthink
p2 {\"p2\":1}\nstart
p2 {\"p2\":2}\nthink
p2 {\"p0\":2,\"p1\":3,\"p2\":3}\nreceive from p1
";

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn trace(&self, name: &str, execution: &Execution) -> PathBuf {
        let path = self.0.path().join(name);
        execution.write(&path);
        path
    }
}

fn ask(path: &Path, a: &str, b: &str) -> Order {
    order(path, a, b, &Form::default()).unwrap()
}

fn ask_cut(path: &Path, frontier: &[&str]) -> Cut {
    cut(path, frontier, &Form::default()).unwrap()
}

fn refusal(path: &Path, a: &str, b: &str, form: &Form) -> String {
    let error = order(path, a, b, form).expect_err("must be refused").to_string();
    assert_eq!(error.lines().count(), 1, "{error}");
    error
}

fn crossing(answer: &Cut) -> Vec<(&str, &str)> {
    answer.crossing.iter().map(|crossing| (crossing.from.as_str(), crossing.to.as_str())).collect()
}

fn shiviz_of(path: &Path) -> PathBuf {
    let mut out = Vec::new();
    export(path, Format::Shiviz, &Form::default(), &mut out).unwrap();
    let log = path.with_extension("log");
    fs::write(&log, out).unwrap();
    log
}

#[test]
fn the_worked_example_is_concurrent_and_has_seven_events_before_the_second() {
    let folder = Folder::new();
    let answer = ask(&folder.file("three.log", THREE), "p1:4", "p2:3");
    assert_eq!(answer.relation, Relation::Concurrent);
    assert_eq!((answer.a.preceding, answer.b.preceding), (5, 7));
    let json = answer.to_json();
    assert_eq!(json["vector"]["A"], serde_json::json!({"p0": 2, "p1": 4}));
    assert_eq!(json["vector"]["B"], serde_json::json!({"p0": 2, "p1": 3, "p2": 3}));
    assert_eq!(json["preceding"], serde_json::json!({"A": 5, "B": 7}));
}

#[test]
fn before_after_and_same_are_told_apart() {
    let folder = Folder::new();
    let log = folder.file("three.log", THREE);
    assert_eq!(ask(&log, "p0:2", "p2:3").relation, Relation::Before);
    assert_eq!(ask(&log, "p2:3", "p0:1").relation, Relation::After);
    assert_eq!(ask(&log, "p2:3", "p2:3").relation, Relation::Same);
    assert_eq!(ask(&log, "p2:2", "p0:1").relation, Relation::Concurrent);
    assert_eq!(ask(&log, "p0:1", "p0:2").relation, Relation::Before);
}

#[test]
fn a_consistent_and_an_inconsistent_cut() {
    let folder = Folder::new();
    let log = folder.file("three.log", THREE);
    let good = ask_cut(&log, &["p0:2", "p1:3", "p2:3"]);
    assert!(good.consistent && good.crossing.is_empty() && good.incompatible.is_empty(), "{good:?}");
    // V(p1:2)[p1] = 2 < V(p2:3)[p1] = 3: p2 received what p1 had not sent.
    let bad = ask_cut(&log, &["p0:2", "p1:2", "p2:3"]);
    assert!(!bad.consistent);
    assert_eq!(crossing(&bad), [("p1:3", "p2:3")]);
    assert_eq!(bad.incompatible.len(), 1);
    assert_eq!(bad.incompatible[0].frontier.as_deref(), Some("p1:2"));
    // A node without an event in the frontier has nothing inside.
    let without = ask_cut(&log, &["p1:2", "p2:2"]);
    assert_eq!(crossing(&without), [("p0:2", "p1:2")]);
    assert_eq!(without.incompatible[0].frontier, None);
    assert!(ask_cut(&log, &["p2:2"]).consistent);
}

#[test]
fn a_boot_follows_all_earlier_lives_and_all_that_they_knew() {
    let folder = Folder::new();
    let trace = folder.file(
        "reborn.jsonl",
        r#"{"node":0,"seq":1,"vector":{"0":1},"event":"boot","incarnation":1}
{"node":0,"seq":2,"vector":{"0":2},"event":"send","to":1,"kind":"x","id":1}
{"node":1,"seq":1,"vector":{"1":1},"event":"boot","incarnation":1}
{"node":1,"seq":2,"vector":{"0":2,"1":2},"event":"recv","from":0,"kind":"x","id":1}
{"node":1,"seq":1,"inc":2,"vector":{"1":"2.1"},"event":"boot","incarnation":2}
{"node":1,"seq":2,"inc":2,"vector":{"1":"2.2"},"event":"send","to":0,"kind":"y","id":1}
{"node":0,"seq":3,"vector":{"0":3,"1":"2.2"},"event":"recv","from":1,"kind":"y","id":1,"from_inc":2}
"#,
    );
    let reborn = ask(&trace, "1:2", "1:2.1");
    assert_eq!((reborn.relation, reborn.b.preceding), (Relation::Before, 4));
    assert!(reborn.b.forgotten);
    assert_eq!(reborn.to_json()["vector"]["B"], serde_json::json!({"1": "2.1"}));
    assert_eq!(ask(&trace, "0:2", "1:2.1").relation, Relation::Before, "through the life before");
    assert_eq!(ask(&trace, "1:1.2", "0:3").relation, Relation::Before, "an entry 2.2 is more than any of life 1");
    assert_eq!(ask(&trace, "0:3", "1:2").to_json()["preceding"], serde_json::json!({"A": 6, "B": 3}));
    // The boot is inside, so is the receive of the life before; its send is not.
    let bad = ask_cut(&trace, &["0:1", "1:2.1"]);
    assert_eq!((bad.consistent, crossing(&bad)), (false, vec![("0:2", "1:2")]));
    assert!(ask_cut(&trace, &["0:2", "1:2.1"]).consistent);
}

/// Every pair of some events, and cuts, over a trace in several forms.
fn compare(execution: &Execution, truth: &Truth, files: &[PathBuf], dice: &mut Dice) -> [usize; 4] {
    let length = execution.events.len();
    let mut seen = [0; 4];
    for _ in 0..12 {
        let (a, b) = (dice.below(length), dice.below(length));
        let wanted = match (a == b, truth.before(a, b), truth.before(b, a)) {
            (true, _, _) => Relation::Same,
            (_, true, _) => Relation::Before,
            (_, _, true) => Relation::After,
            (_, false, false) => Relation::Concurrent,
        };
        seen[wanted as usize] += 1;
        for file in files {
            let answer = ask(file, &execution.name(a), &execution.name(b));
            let what = format!("{} {} in {}", execution.name(a), execution.name(b), file.display());
            assert_eq!(answer.relation, wanted, "{what}");
            assert_eq!(answer.a.preceding, truth.preceding(a), "{what}");
            assert_eq!(answer.b.preceding, truth.preceding(b), "{what}");
        }
    }
    seen
}

/// A random frontier: how many crossing messages it has.
fn compare_cut(execution: &Execution, truth: &Truth, files: &[PathBuf], dice: &mut Dice) -> usize {
    let length = execution.events.len();
    let around = dice.below(length);
    let mut frontier: BTreeMap<u16, usize> = BTreeMap::new();
    for index in 0..around {
        // Near each other, so that some cuts are consistent.
        if index + 12 <= around || dice.below(3) > 0 {
            frontier.insert(place(&execution.events[index]).0, index);
        }
    }
    if dice.below(4) == 0 {
        frontier.pop_first();
    }
    if frontier.is_empty() {
        return 0;
    }
    let inside = |index: usize| {
        let (node, stamp) = place(&execution.events[index]);
        frontier.get(&node).is_some_and(|last| stamp <= execution.events[*last].stamp())
    };
    let mut wanted: Vec<(String, String)> = (0..length)
        .filter_map(|recv| truth.sends[recv].map(|send| (send, recv)))
        .filter(|(send, recv)| inside(*recv) && !inside(*send))
        .map(|(send, recv)| (execution.name(send), execution.name(recv)))
        .collect();
    let closed = (0..length)
        .filter(|index| inside(*index))
        .all(|index| (0..length).all(|earlier| inside(earlier) || !truth.before(earlier, index)));
    assert_eq!(closed, wanted.is_empty(), "the definition and the messages agree");
    wanted.sort();
    let names: Vec<String> = frontier.values().map(|index| execution.name(*index)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for file in files {
        let answer = ask_cut(file, &names);
        let mut got: Vec<_> = answer.crossing.iter().map(|c| (c.from.clone(), c.to.clone())).collect();
        got.sort();
        assert_eq!(answer.consistent, closed, "{names:?} in {}: {answer:?}", file.display());
        assert_eq!(answer.incompatible.is_empty(), closed, "{names:?} in {}", file.display());
        if file.extension().is_some_and(|extension| extension == "jsonl") {
            assert_eq!(got, wanted, "{names:?} in {}", file.display());
        } else {
            // A log shows only messages that brought news, and counts on over restarts.
            assert_eq!(got.is_empty(), closed, "{names:?} in {}", file.display());
        }
    }
    wanted.len()
}

#[test]
fn random_executions_are_ordered_as_the_definition_says_in_every_form() {
    let folder = Folder::new();
    let (mut relations, mut cuts) = ([0; 4], [0; 2]);
    for seed in 1..=24 {
        let mut dice = Dice::new(seed);
        let execution = Execution::random(seed, 2 + (seed % 4) as u16, 220, if seed % 3 == 0 { 0 } else { 40 });
        let truth = Truth::of(&execution);
        let stamped = folder.trace(&format!("{seed}.jsonl"), &execution);
        let bare = folder.trace(&format!("{seed}-bare.jsonl"), &execution.without_stamps());
        let mixed = folder.trace(&format!("{seed}-mixed.jsonl"), &execution.shuffled(&mut dice));
        let unsorted = execution.without_stamps().shuffled(&mut dice);
        let unsorted = folder.trace(&format!("{seed}-unsorted.jsonl"), &unsorted);
        let files = [shiviz_of(&stamped), shiviz_of(&bare), shiviz_of(&mixed), stamped, bare, mixed, unsorted];
        for (total, new) in relations.iter_mut().zip(compare(&execution, &truth, &files, &mut dice)) {
            *total += new;
        }
        for _ in 0..8 {
            cuts[usize::from(compare_cut(&execution, &truth, &files, &mut dice) > 0)] += 1;
        }
    }
    assert!(relations[..3].iter().all(|count| *count > 20), "not vacuous: {relations:?}");
    assert!(cuts.iter().all(|count| *count > 20), "not vacuous: {cuts:?}");
}

#[test]
fn events_that_the_trace_lost_still_count() {
    let folder = Folder::new();
    let execution = Execution::random(5, 3, 300, 0);
    let truth = Truth::of(&execution);
    let dropped = |index: usize, event: &TraceEvent| {
        index % 7 == 3 && !matches!(event.event, Event::Recv { .. }) && index + 30 < execution.events.len()
    };
    let kept = execution.events.iter().enumerate().filter(|(index, event)| !dropped(*index, event));
    let kept = Execution { events: kept.map(|(_, event)| event.clone()).collect() };
    assert!(kept.events.len() < execution.events.len() - 10);
    let holes = folder.trace("holes.jsonl", &kept);
    let log = shiviz_of(&holes);
    for (a, b) in [(290, 40), (13, 280), (292, 299)] {
        let (first, second) = (execution.name(a), execution.name(b));
        for file in [&holes, &log] {
            let answer = ask(file, &first, &second);
            assert_eq!((answer.a.preceding, answer.b.preceding), (truth.preceding(a), truth.preceding(b)));
        }
    }
    let text = fs::read_to_string(log).unwrap();
    assert!(text.lines().any(|line| line.ends_with(" lost")), "ShiViz needs every number");
}

#[test]
fn every_usual_form_of_a_log_is_read() {
    let folder = Folder::new();
    let event_first = "start\na {\"a\":1}\nsend {now}\na {\"a\":2}\nreceive\nb {\"a\":2, \"b\":1}\n";
    assert_eq!(ask(&folder.file("event-first.log", event_first), "a:1", "b:1").relation, Relation::Before);
    let windows = THREE.replace('\n', "\r\n");
    assert_eq!(ask(&folder.file("windows.log", &windows), "p1:4", "p2:3").relation, Relation::Concurrent);
    let one_line = "client \"send\" {\"client\":1}\nserver \"receive\" {\"server\":1, \"client\":1}\n";
    let one_line = folder.file("one-line.log", one_line);
    let form = |regex: &str| Form { regex: Some(regex.to_owned()), ..Form::default() };
    for regex in
        [r#"(?<host>\w+) "(?<event>.*)" (?<clock>{.*})"#, r#"^(?P<host>\S+) "(?P<event>[^"]*)" (?P<clock>.*)$"#]
    {
        assert_eq!(order(&one_line, "client:1", "server:1", &form(regex)).unwrap().relation, Relation::Before);
    }
    let uploaded = format!("(?<host>\\S*) (?<clock>{{.*}})\\n(?<event>.*)\n\n{THREE}");
    assert_eq!(ask(&folder.file("uploaded.log", &uploaded), "p0:2", "p2:3").relation, Relation::Before);
    let address = "10.0.0.1:80 {\"10.0.0.1:80\":1}\nboot\n";
    assert_eq!(ask(&folder.file("address.log", address), "10.0.0.1:80:1", "10.0.0.1:80:1").relation, Relation::Same);
    let noisy = folder.file("noisy.log", &format!("{THREE}=== the end ===\n"));
    assert_eq!(ask(&noisy, "p0:1", "p0:2").unread.0, 1);
}

#[test]
fn of_several_executions_one_is_named() {
    let folder = Folder::new();
    let text = "=== calm ===\na {\"a\":1}\nx\nb {\"b\":1}\ny\n=== busy ===\na {\"a\":1}\nx\nb {\"a\":1,\"b\":1}\ny\n";
    let log = folder.file("two.log", text);
    let form = |execution: Option<&str>| Form {
        delimiter: Some("^=== (?<trace>.*) ===$".to_owned()),
        execution: execution.map(str::to_owned),
        ..Form::default()
    };
    let relation = |execution| order(&log, "a:1", "b:1", &form(Some(execution))).unwrap().relation;
    assert_eq!((relation("calm"), relation("busy")), (Relation::Concurrent, Relation::Before));
    assert_eq!((relation("1"), relation("2")), (Relation::Concurrent, Relation::Before));
    assert!(refusal(&log, "a:1", "b:1", &form(None)).contains("2 executions (calm, busy)"));
    assert!(refusal(&log, "a:1", "b:1", &form(Some("wild"))).contains("no execution \"wild\""));
    let header = format!("(?<host>\\S+) (?<clock>{{.*}})\\n(?<event>.*)\n^=== (?<trace>.*) ===$\n{text}");
    let uploaded = folder.file("uploaded.log", &header);
    let busy = Form { execution: Some("busy".to_owned()), ..Form::default() };
    assert_eq!(order(&uploaded, "a:1", "b:1", &busy).unwrap().relation, Relation::Before);
}

#[test]
fn whatever_is_wrong_is_one_line() {
    let folder = Folder::new();
    let log = folder.file("three.log", THREE);
    let none = Form::default();
    let regex = |regex: &str| Form { regex: Some(regex.to_owned()), ..Form::default() };
    let trace = folder.trace("t.jsonl", &Execution::random(1, 2, 30, 0));
    for (path, a, b, form, wanted) in [
        (&log, "p1:9", "p2:3", &none, "no event p1:9: p1 has 1 to 4"),
        (&log, "q:1", "p2:3", &none, "no event q:1: the hosts are p0, p1, p2"),
        (&log, "p1", "p2:3", &none, "expected an event like 3:17"),
        (&log, "p1:1", "p2:3", &regex("("), "the regular expression \"(\" is wrong"),
        (&log, "p1:1", "p2:3", &regex("(?<host>x)(?<clock>y)"), "lacks the group (?<event>…)"),
        (&log, "p1:1", "p2:3", &regex("(?<host>x)(?<clock>y)(?<event>z)"), "matches no event"),
        (&log, "p1:1", "p2:3", &regex("(?<host>send) (?<clock>to) (?<event>p1)"), "expected a clock like"),
        (&trace, "0:999", "1:1", &none, "no event 0:999: node 0 counts up to"),
        (&trace, "0:2.1", "1:1", &none, "no event 0:2.1"),
        (&trace, "7:1", "1:1", &none, "the trace has no node 7"),
        (&trace, "stage:1", "1:1", &none, "the stage's own lines"),
        (&trace, "a:1", "1:1", &none, "expected an event like 3:17"),
        (&folder.file("empty", "\n\n"), "0:1", "1:1", &none, "expected at least one event"),
        (&folder.file("bad.jsonl", "{\"node\":0,\"seq\":1}\n"), "0:1", "0:1", &none, "bad.jsonl:1: event: missing"),
        (
            &folder.file("no-own.log", "a {\"b\":1}\nx\n"),
            "a:1",
            "b:1",
            &none,
            "no-own.log:1: the clock of host \"a\" lacks",
        ),
        (&folder.0.path().join("nowhere"), "0:1", "1:1", &none, "cannot be read"),
        (&folder.0.path().to_owned(), "0:1", "1:1", &none, "cannot be read"),
    ] {
        let error = refusal(path, a, b, form);
        assert!(error.contains(wanted), "{wanted:?} is not in {error:?}");
    }
    fs::write(folder.0.path().join("binary"), [0xff, 0xfe, 0, 1]).unwrap();
    assert!(refusal(&folder.0.path().join("binary"), "a:1", "b:1", &none).contains("binary data"));
    let twice = "{\"node\":0,\"seq\":1,\"event\":\"boot\"}\n{\"node\":0,\"seq\":1,\"event\":\"boot\"}\n";
    assert!(refusal(&folder.file("twice.jsonl", twice), "0:1", "0:1", &none).contains("two events are called 0:1"));
    let circle = folder.file(
        "circle.jsonl",
        "{\"node\":0,\"seq\":1,\"vector\":{\"0\":1,\"1\":1},\"event\":\"boot\"}\n{\"node\":1,\"seq\":1,\"vector\":{\"0\":1,\"1\":1},\"event\":\"boot\"}\n",
    );
    assert!(refusal(&circle, "0:1", "1:1", &none).contains("each happened before the other"));
    let error = cut(&log, &["p1:1", "p1:2"], &none).unwrap_err().to_string();
    assert!(error.contains("p1 has two events in the frontier"), "{error}");
}
