//! Exact results of the textbook, without faults, through the whole node: with hardening and without.
//!
//! Counted are first transmissions of the algorithm's own messages. A scripted detector suspects nobody, so
//! nothing happens but what the steps ask for; every datagram takes one millisecond.

use compasso_checker::{Event, NetworkStats, RunInfo, Summary, TraceEvent, judge};
use compasso_scenario::Scenario;
use compasso_simulator::perform;
use std::{collections::BTreeMap, fmt::Write};

const BARE: &str = "hardening = false\n";
const HARDENED: &str = "hardening = true\n";
const BOTH: [&str; 2] = [BARE, HARDENED];

struct Exact {
    trace: Vec<TraceEvent>,
    summary: Summary,
}

/// `nodes` is the scenario's `nodes = …` or `ids = …`, `steps` are (milliseconds, action).
fn run(form: &str, nodes: &str, sections: &str, steps: &[(u64, String)]) -> Exact {
    let mut text =
        format!("name = \"exact\"\n{nodes}\nduration = \"20s\"\n{form}{sections}\n[network]\ndelay = \"1ms\"\n");
    for (at, action) in steps {
        write!(text, "[[step]]\nat = \"{at}ms\"\n{action}\n").unwrap();
    }
    let scenario = Scenario::parse(&text, "exact").unwrap_or_else(|error| panic!("{error}\n{text}"));
    let trace = perform(&scenario).trace;
    let summary = judge(&trace, &RunInfo::new(scenario, "sim", NetworkStats::default()));
    assert_eq!(summary.violations, [], "{text}");
    Exact { trace, summary }
}

fn election(form: &str, nodes: &str, algorithm: &str, steps: &[(u64, String)]) -> Exact {
    run(form, nodes, &format!("[election]\nalgorithm = \"{algorithm}\"\ndetector = \"scripted\"\n"), steps)
}

fn mutex(form: &str, nodes: u64, algorithm: &str, steps: &[(u64, String)]) -> Exact {
    let sections = format!("[election]\ndetector = \"scripted\"\n[mutex]\nalgorithm = \"{algorithm}\"\n");
    run(form, &format!("nodes = {nodes}"), &sections, steps)
}

fn crash(id: u64) -> String {
    format!("crash = {id}")
}

fn elect(id: u64) -> String {
    format!("elect = {id}")
}

fn lock(id: u64) -> String {
    format!("lock = {{ node = {id}, hold = \"10ms\" }}")
}

impl Exact {
    fn election_messages(&self) -> u64 {
        self.summary.election.as_ref().unwrap().messages.values().sum()
    }

    fn mutex_messages(&self) -> u64 {
        self.summary.mutex.as_ref().unwrap().messages.values().sum()
    }

    fn by_kind(&self) -> BTreeMap<&str, u64> {
        self.summary.election.as_ref().unwrap().messages.iter().map(|(kind, count)| (kind.as_str(), *count)).collect()
    }

    /// Whom each live node names at the end.
    fn leaders(&self) -> BTreeMap<u16, u16> {
        let mut leaders = BTreeMap::new();
        for event in &self.trace {
            match (&event.event, event.node_id()) {
                (Event::Leader { id, .. }, Some(node)) => drop(leaders.insert(node, *id)),
                (Event::Fault(compasso_checker::Fault::Crash(node)), None) => drop(leaders.remove(node)),
                _ => {}
            }
        }
        leaders
    }

    fn all_name(&self, leader: u16, live: usize) {
        let leaders = self.leaders();
        assert!(leaders.len() == live && leaders.values().all(|named| *named == leader), "{leaders:?}");
    }

    fn entered(&self) -> Vec<u16> {
        let entries = self.trace.iter().filter(|event| matches!(event.event, Event::CsEnter { .. }));
        entries.filter_map(TraceEvent::node_id).collect()
    }

    /// First transmissions of any kind in `kinds`, by sender and receiver.
    fn sent(&self, kind: &str) -> Vec<(u16, u16)> {
        let sent = self.trace.iter().filter_map(|event| match &event.event {
            Event::Send { to, kind: of, again: false, .. } if of == kind => Some((event.node_id()?, *to)),
            _ => None,
        });
        sent.collect()
    }
}

#[test]
fn bully_with_eight_nodes_whose_highest_is_dead_and_four_notices() {
    for form in BOTH {
        let run = election(form, "nodes = 8", "bully", &[(2000, crash(7)), (3000, elect(4))]);
        run.all_name(6, 7);
        assert_eq!(run.by_kind(), BTreeMap::from([("election", 6), ("answer", 3), ("coordinator", 6)]));
        assert_eq!(run.sent("election")[..3], [(4, 5), (4, 6), (4, 7)]);
        assert_eq!(run.sent("answer"), [(5, 4), (6, 4), (6, 5)]);
        assert_eq!(run.sent("coordinator"), [(6, 0), (6, 1), (6, 2), (6, 3), (6, 4), (6, 5)]);
    }
}

#[test]
fn bully_costs_n_minus_2_at_best_and_n_squared_minus_n_minus_1_at_worst() {
    for form in BOTH {
        for n in 3..=9 {
            let nodes = format!("nodes = {n}");
            let best = election(form, &nodes, "bully", &[(2000, crash(n - 1)), (3000, elect(n - 2))]);
            best.all_name(n as u16 - 2, n as usize - 1);
            assert_eq!(best.election_messages(), n - 2, "N = {n}");
            let worst = election(form, &nodes, "bully", &[(2000, crash(n - 1)), (3000, elect(0))]);
            worst.all_name(n as u16 - 2, n as usize - 1);
            assert_eq!(worst.election_messages(), n * n - n - 1, "N = {n}");
        }
    }
}

#[test]
fn a_bully_that_dies_before_it_announces_is_replaced_by_the_next() {
    for form in BOTH {
        // 3 has answered after 1 ms, and would announce itself after T = 90 ms.
        let steps = [(2000, crash(4)), (3000, elect(1)), (3050, crash(3))];
        let run = election(form, "ids = [1, 2, 3, 4]", "bully", &steps);
        run.all_name(2, 2);
        assert_eq!(run.sent("coordinator"), [(2, 1)]);
        assert!(run.sent("answer").starts_with(&[(2, 1), (3, 1), (3, 2)]));
        let calls = run.trace.iter().filter(|event| matches!(event.event, Event::ElectionStart { .. }));
        let calls: Vec<_> = calls.filter_map(TraceEvent::node_id).filter(|node| *node == 1).collect();
        assert_eq!(calls.len(), 2, "1 times out and starts again");
    }
}

#[test]
fn chang_roberts_on_the_ring_17_24_1_28_started_by_17() {
    for form in BOTH {
        let run = election(form, "ids = [17, 24, 1, 28]", "chang-roberts", &[(3000, elect(17))]);
        run.all_name(28, 4);
        assert_eq!(run.by_kind(), BTreeMap::from([("election", 7), ("elected", 4)]));
    }
}

#[test]
fn chang_roberts_costs_one_starter_between_2n_and_3n_minus_1() {
    for form in BOTH {
        for n in 3..=9 {
            let nodes = format!("nodes = {n}");
            let worst = election(form, &nodes, "chang-roberts", &[(3000, elect(0))]);
            worst.all_name(n as u16 - 1, n as usize);
            assert_eq!(worst.election_messages(), 3 * n - 1, "N = {n}");
            let best = election(form, &nodes, "chang-roberts", &[(3000, elect(n - 1))]);
            best.all_name(n as u16 - 1, n as usize);
            assert_eq!(best.election_messages(), 2 * n, "N = {n}");
        }
    }
}

#[test]
fn a_ring_with_a_list_of_which_two_start_at_once() {
    let steps = [(2000, crash(7)), (3000, elect(2)), (3000, elect(5))];
    for form in BOTH {
        let run = election(form, "nodes = 8", "ring", &steps);
        run.all_name(6, 7);
        // Two lists and two results go round seven nodes; each list is sent to the dead one in vain.
        assert_eq!(run.by_kind(), BTreeMap::from([("election", 16), ("coordinator", 14)]));
        assert_eq!(run.sent("election").iter().filter(|(_, to)| *to == 7).count(), 2);
    }
}

#[test]
fn a_ring_with_a_list_costs_one_starter_2n() {
    for form in BOTH {
        for n in 3..=9 {
            let run = election(form, &format!("nodes = {n}"), "ring", &[(3000, elect(0))]);
            run.all_name(n as u16 - 1, n as usize);
            assert_eq!(run.election_messages(), 2 * n, "N = {n}");
        }
    }
}

#[test]
fn hirschberg_sinclair_stays_below_n_log_n_when_all_start() {
    for form in BOTH {
        for n in [4_u64, 8, 16, 32] {
            let steps: Vec<_> = (0..n).map(|id| (3000, elect(id))).collect();
            let run = election(form, &format!("nodes = {n}"), "hirschberg-sinclair", &steps);
            run.all_name(n as u16 - 1, n as usize);
            let rounds = u64::from(n.ilog2()) + 1;
            assert!(run.election_messages() <= 4 * n * rounds + n, "N = {n}: {:?}", run.by_kind());
        }
    }
}

fn lock_with((node, lamport): (u64, u64)) -> (u64, String) {
    (3000, format!("lock = {{ node = {node}, hold = \"10ms\", lamport = {lamport} }}"))
}

/// Both ask in the same moment, with these Lamport times. With hardening the nodes have said so much by
/// then that their clocks are past the book's numbers: a thousand is added to each.
fn ricart_agrawala(form: &str, nodes: u64, requests: [(u64, u64); 2]) -> Exact {
    let requests = requests.map(|(node, time)| (node, if form == BARE { time } else { time + 1000 }));
    let run = mutex(form, nodes, "ricart-agrawala", &requests.map(lock_with));
    assert_eq!(run.summary.expectations.iter().filter(|expectation| expectation.ok).count(), 2);
    for (node, time) in requests {
        let asked =
            |event: &&TraceEvent| event.node_id() == Some(node as u16) && matches!(event.event, Event::Request { .. });
        let stamps: Vec<_> = run.trace.iter().filter(asked).map(|event| event.lamport).collect();
        assert_eq!(stamps, [Some(time)], "the request's stamp is scripted");
    }
    run
}

#[test]
fn ricart_agrawala_grants_8_before_12_and_34_before_41() {
    for form in BOTH {
        assert_eq!(ricart_agrawala(form, 4, [(1, 41), (2, 34)]).entered(), [2, 1]);
        let run = ricart_agrawala(form, 3, [(0, 8), (2, 12)]);
        assert_eq!((run.entered(), run.mutex_messages()), (vec![0, 2], 8));
        let of_2 = run.sent("ok").into_iter().filter(|(from, _)| *from == 2).collect::<Vec<_>>();
        assert_eq!(of_2, [(2, 0)], "the loser says OK to the winner only");
    }
}

#[test]
fn the_staged_nodes_say_nothing_but_what_the_book_does() {
    let run = mutex(BARE, 3, "ricart-agrawala", &[lock_with((0, 8)), lock_with((2, 12))]);
    let sent = run.trace.iter().filter(|event| matches!(event.event, Event::Send { .. })).count();
    assert_eq!(sent, 8);
}

#[test]
fn who_always_answers_says_deferred_at_once() {
    for form in BOTH {
        let sections =
            "[election]\ndetector = \"scripted\"\n[mutex]\nalgorithm = \"ricart-agrawala\"\nanswers = \"always\"\n";
        let run = run(form, "nodes = 3", sections, &[lock_with((0, 2008)), lock_with((2, 2012))]);
        assert_eq!((run.entered(), run.mutex_messages()), (vec![0, 2], 9));
        assert_eq!(run.sent("deferred"), [(0, 2)]);
    }
}

#[test]
fn a_lamport_time_that_has_passed_is_refused_and_the_run_says_so() {
    let late = mutex(HARDENED, 3, "ricart-agrawala", &[lock_with((0, 8))]);
    assert!(late.entered().is_empty(), "no other number is used in its place");
    let expectation = &late.summary.expectations[0];
    assert_eq!(
        (&*expectation.name, &expectation.wanted, expectation.ok),
        ("lamport of node 0's request", &8.into(), false)
    );
    assert!(expectation.got.as_u64().unwrap() > 8, "{expectation:?}");
    assert_eq!(late.summary.exit_code(), 1);
}

#[test]
fn an_uncontended_entry_costs_what_the_table_says() {
    // Algorithm, how many nodes, who enters, and the messages.
    type Cost = fn(u64) -> u64;
    let table: [(&str, Cost); 4] = [
        ("central", |_| 3),
        ("lamport", |n| 3 * (n - 1)),
        ("ricart-agrawala", |n| 2 * (n - 1)),
        ("voting", |n| 3 * (n - 1)),
    ];
    for form in BOTH {
        for (algorithm, cost) in table {
            for n in 2..=9 {
                let run = mutex(form, n, algorithm, &[(3000, lock(0))]);
                assert_eq!((run.entered(), run.mutex_messages()), (vec![0], cost(n)), "{algorithm}, N = {n}");
            }
        }
        let own = mutex(form, 5, "central", &[(3000, lock(4)), (4000, lock(4))]);
        assert_eq!((own.entered(), own.mutex_messages()), (vec![4, 4], 0), "the coordinator's own entries");
    }
}

#[test]
fn suzuki_kasami_costs_nothing_where_the_token_rests_and_else_n() {
    for form in BOTH {
        for n in 3..=9 {
            let steps = [(3000, lock(n - 1)), (4000, lock(n - 1))];
            assert_eq!(mutex(form, n, "suzuki-kasami", &steps).mutex_messages(), 0, "the coordinator has the token");
            let steps = [(3000, lock(0)), (4000, lock(0)), (5000, lock(1))];
            let run = mutex(form, n, "suzuki-kasami", &steps);
            assert_eq!((run.entered(), run.mutex_messages()), (vec![0, 0, 1], 2 * n));
        }
    }
}

#[test]
fn maekawa_on_a_grid_of_nine_costs_three_messages_for_each_voter_but_oneself() {
    for form in BOTH {
        for algorithm in ["maekawa-plain", "maekawa"] {
            for id in 0..9 {
                let run = mutex(form, 9, algorithm, &[(3000, lock(id))]);
                assert_eq!((run.entered(), run.mutex_messages()), (vec![id as u16], 3 * (5 - 1)), "{algorithm}");
            }
        }
    }
}

#[test]
fn a_token_ring_under_full_load_costs_one_message_an_entry() {
    for form in BOTH {
        let sections = "[election]\ndetector = \"scripted\"\n[mutex]\nalgorithm = \"token-ring\"\n\
            workload = { every = \"2us\", hold = \"1ms\" }\n";
        let run = run(form, "nodes = 5", sections, &[]);
        let entries: Vec<usize> = run
            .trace
            .iter()
            .enumerate()
            .filter_map(|(index, event)| matches!(event.event, Event::CsEnter { .. }).then_some(index))
            .collect();
        // From the second round on, until the requests stop.
        let (first, last) = (entries[10], entries[entries.len() - 10]);
        let is_hop =
            |event: &&TraceEvent| matches!(&event.event, Event::Send { kind, again: false, .. } if kind == "token");
        let hops = run.trace[first..last].iter().filter(is_hop).count();
        assert_eq!(hops, entries.len() - 20, "{} entries", entries.len());
        assert!(hops > 1000, "{hops}");
    }
}
