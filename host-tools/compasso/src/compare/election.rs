//! Election: its cases, its formulas, its rows.
//!
//! Nobody suspects anybody: each case says who notices, so the book's executions are staged exactly.
//! Performed with hardening: first transmissions of the textbook's messages are counted.

use super::{
    book::{Book, rounded},
    observe::Observed,
};
use compasso_scenario::Scenario;
use serde_json::{Value, json};
use std::{collections::BTreeMap, fmt::Write as _};

/// By then every view is in force, also with many nodes.
const CRASH_MS: u64 = 3000;
/// Nothing of the dead coordinator is on its way any more.
const NOTICE_MS: u64 = 3050;
/// Two of them and a time of handling are `T`: 9 message times with the default timing.
pub const MESSAGE_MS: u64 = 10;

/// A staged election.
pub struct Case {
    /// The algorithm.
    pub algorithm: &'static str,
    /// What is staged.
    pub name: &'static str,
    /// The ring.
    ids: Vec<u16>,
    /// The highest is dead.
    dead: bool,
    /// Who notices, or starts.
    starters: Vec<u16>,
    /// What it costs.
    book: Book,
    /// What the formula counts.
    pub definition: &'static str,
}

/// The one workload that all share.
pub const SHARED: &str = "coordinator dies";

/// All that is staged with so many nodes, what all algorithms share first.
pub fn cases(nodes: u16) -> Vec<Case> {
    let ring: Vec<u16> = (0..nodes).collect();
    let falling: Vec<u16> = ring.iter().rev().copied().collect();
    let (highest, next) = (nodes - 1, nodes - 2);
    let live: Vec<u16> = (0..highest).collect();
    let (n, l) = (f64::from(nodes), f64::from(nodes) - 1.0);
    let dies = |algorithm, name, starters: &[u16], book, definition| Case {
        algorithm,
        name,
        ids: ring.clone(),
        dead: true,
        starters: starters.to_vec(),
        book,
        definition,
    };
    let lives = |algorithm, name, starter: u16, book, definition| Case {
        dead: false,
        ..dies(algorithm, name, &[starter], book, definition)
    };
    vec![
        dies("bully", SHARED, &[0], Book::exactly("N²−N−1", n * n - n - 1.0), "the worst case: the lowest notices"),
        dies(
            "ring",
            SHARED,
            &[0],
            Book::exactly("2n+1", 2.0 * l + 1.0),
            "n = N−1 live, and the one message that finds the dead",
        ),
        dies(
            "chang-roberts",
            SHARED,
            &[0],
            Book::exactly("3n", 3.0 * l),
            "3n−1 with n = N−1 live, and the one message that finds the dead",
        ),
        dies(
            "hirschberg-sinclair",
            SHARED,
            &[0],
            tournament("≤ 8n(1+⌈log₂n⌉)+n+1", l, 1.0),
            "probes and replies of all rounds, ELECTED round, the one that finds the dead",
        ),
        dies("detector", SHARED, &live, Book::exactly("0", 0.0), "the detector's signs of life are no election's"),
        dies("bully", "best", &[next], Book::exactly("N−2", n - 2.0), "the next highest notices, and tells all lower"),
        lives("ring", "one starts", 0, Book::exactly("2N", 2.0 * n), "nobody dead: ELECTION round, COORDINATOR round"),
        lives("chang-roberts", "best", highest, Book::exactly("2N", 2.0 * n), "nobody dead, the highest starts"),
        lives("chang-roberts", "worst", 0, Book::exactly("3N−1", 3.0 * n - 1.0), "nobody dead, its successor starts"),
        Case {
            ids: falling,
            ..dies(
                "chang-roberts",
                "all, falling",
                &live,
                Book::exactly("n(n+1)/2+n", l * (l + 1.0) / 2.0 + l),
                "all n = N−1 live notice at once, ids fall along the ring: O(n²)",
            )
        },
        dies(
            "chang-roberts",
            "all, rising",
            &live,
            Book::exactly("3n−1", 3.0 * l - 1.0),
            "all n = N−1 live notice at once, ids rise along the ring",
        ),
        lives("hirschberg-sinclair", "one starts", nodes / 2, tournament("≤ 8N(1+⌈log₂N⌉)+N", n, 0.0), "nobody dead"),
        dies(
            "hirschberg-sinclair",
            "all",
            &live,
            tournament("≤ 8n(1+⌈log₂n⌉)+n", l, 0.0),
            "all n = N−1 live notice at once",
        ),
    ]
}

fn tournament(formula: &str, count: f64, more: f64) -> Book {
    // At least once out and back on both sides, once round, and the result round.
    Book::between(formula, 2.0 * count, 8.0 * count * (1.0 + count.log2().ceil()) + count + more)
}

/// The run of one case.
pub fn scenario(case: &Case) -> Result<Scenario, String> {
    let Case { algorithm, ids, .. } = case;
    let (nodes, highest) = (ids.len() as u64, ids.len() - 1);
    let name: String = case.name.chars().filter(char::is_ascii_alphanumeric).collect();
    let duration_ms = NOTICE_MS + 2000 + 12 * nodes * MESSAGE_MS;
    let mut text = format!(
        "name = \"compare-{algorithm}-{name}-{nodes}\"\nids = {ids:?}\nseed = 1\nduration = \"{duration_ms}ms\"\n\
         [election]\nalgorithm = \"{algorithm}\"\ndetector = \"scripted\"\n[network]\ndelay = \"{MESSAGE_MS}ms\"\n"
    );
    if case.dead {
        let _ = write!(text, "[[step]]\nat = \"{CRASH_MS}ms\"\ncrash = {highest}\n");
    }
    for starter in &case.starters {
        let _ = write!(text, "[[step]]\nat = \"{NOTICE_MS}ms\"\nelect = {starter}\n");
    }
    Scenario::parse(&text, "compare").map_err(|error| error.to_string())
}

/// One case, performed.
pub struct Row {
    /// What was staged.
    pub case: Case,
    /// Textbook messages.
    pub messages: u64,
    /// By kind.
    pub kinds: BTreeMap<String, u64>,
    /// Until all name the leader, in message times.
    pub time: Option<f64>,
    /// Until the last message has arrived, in message times.
    pub last_message: Option<f64>,
    /// Whom all name.
    pub leader: Option<u16>,
    /// Share of the messages that the busiest node sends or receives.
    pub busiest: Option<f64>,
    /// Promises broken.
    pub violations: u64,
}

/// Puts a run beside the book.
pub fn row(case: Case, run: &Observed) -> Row {
    let election = run.summary.election.as_ref();
    let kinds = election.map(|election| election.messages.clone()).unwrap_or_default();
    // Without messages of its own there is nothing to measure but the network's delay.
    let message = run.message_us.unwrap_or(MESSAGE_MS as f64 * 1000.0);
    let times = |us: Option<i64>| us.map(|us| us as f64 / message);
    Row {
        messages: kinds.values().sum(),
        kinds,
        time: times(run.agreed_us),
        last_message: times(run.last_message_us),
        leader: election.filter(|election| election.agreed).and_then(|election| election.leader),
        busiest: run.busiest,
        violations: run.summary.broken(),
        case,
    }
}

impl Row {
    /// What the book says of the messages.
    pub fn book(&self) -> &Book {
        &self.case.book
    }

    /// Whether the messages are as the book says.
    pub fn agrees(&self) -> bool {
        self.case.book.expected.agrees(Some(self.messages as f64), 0.0) != Some(false)
    }

    /// For machines.
    pub fn to_json(&self) -> Value {
        let mut row = serde_json::Map::new();
        row.insert("algorithm".into(), json!(self.case.algorithm));
        row.insert("case".into(), json!(self.case.name));
        row.insert("messages".into(), json!(self.messages));
        row.insert("formula".into(), json!(self.case.book.formula));
        self.case.book.expected.write(&mut row, "");
        row.insert("agrees".into(), json!(self.agrees()));
        row.insert("messages_by_kind".into(), json!(self.kinds));
        row.insert("time".into(), json!(self.time.map(rounded)));
        row.insert("last_message".into(), json!(self.last_message.map(rounded)));
        row.insert("leader".into(), json!(self.leader));
        row.insert("busiest_share".into(), json!(self.busiest.map(rounded)));
        row.insert("definition".into(), json!(self.case.definition));
        row.insert("violations".into(), json!(self.violations));
        Value::Object(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_a_scenario_and_its_name_is_its_own() {
        for nodes in [3, 5, 64] {
            let mut names = std::collections::BTreeSet::new();
            for case in cases(nodes) {
                assert!(names.insert(scenario(&case).unwrap().name), "{} {}", case.algorithm, case.name);
            }
        }
    }
}
