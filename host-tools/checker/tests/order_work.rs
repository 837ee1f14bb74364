//! What an answer over a long trace takes, in counts that no busy machine changes.

mod execution;

use compasso_checker::order::{Form, Work, cut, order};
use execution::Execution;
use std::path::Path;

const NODES: u16 = 5;
const LENGTHS: [usize; 2] = [50_000, 200_000];

fn ask(path: &Path, execution: &Execution) -> (Work, Work) {
    let (a, b) = (execution.name(execution.events.len() / 2), execution.name(execution.events.len() - 1));
    let form = Form::default();
    let ordered = order(path, &a, &b, &form).unwrap().work;
    let frontier: Vec<String> = (0..NODES)
        .map(|node| {
            let of_node = execution.events.iter().rev().skip(1000).find(|event| event.node_id() == Some(node));
            of_node.unwrap().name()
        })
        .collect();
    let frontier: Vec<&str> = frontier.iter().map(String::as_str).collect();
    (ordered, cut(path, &frontier, &form).unwrap().work)
}

#[test]
fn a_stamped_trace_is_read_once_and_four_times_the_trace_keeps_no_more_vectors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.jsonl");
    for length in LENGTHS {
        let execution = Execution::random(7, NODES, length, 0);
        execution.write(&path);
        let (ordered, cut) = ask(&path, &execution);
        assert_eq!(ordered, Work { events: length as u64, vectors: 2, messages: 0, followed: 0 });
        assert_eq!((cut.events, cut.vectors, cut.followed), (length as u64, u64::from(NODES), 0));
        assert!(cut.messages < length as u64);
    }
}

#[test]
fn restarts_cost_one_vector_for_each_life_that_ended() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("reborn.jsonl");
    let execution = Execution::random(7, NODES, 50_000, 1);
    execution.write(&path);
    let boots = execution.events.iter().filter(|event| event.event.name() == "boot").count() as u64;
    assert!(boots > 20, "{boots}");
    let (ordered, _) = ask(&path, &execution);
    assert_eq!(ordered.vectors, 2 + boots - u64::from(NODES));
}

#[test]
fn without_stamps_every_receive_is_followed_at_most_once_an_event_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bare.jsonl");
    for length in LENGTHS {
        let execution = Execution::random(7, NODES, length, 0).without_stamps();
        execution.write(&path);
        let receives = execution.events.iter().filter(|event| event.event.name() == "recv").count() as u64;
        let (ordered, cut) = ask(&path, &execution);
        assert_eq!((ordered.vectors, ordered.events), (0, length as u64));
        assert!(ordered.followed > receives && ordered.followed <= 2 * receives, "{ordered:?} of {receives}");
        assert!(cut.followed > receives && cut.followed <= u64::from(NODES) * receives, "{cut:?} of {receives}");
    }
}
