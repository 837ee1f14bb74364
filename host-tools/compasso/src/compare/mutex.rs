//! Mutual exclusion: its two workloads, its formulas, its rows.
//!
//! Performed with hardening, as boards run it: the textbook's messages are counted apart from those
//! that hardening adds, and a visit outlasts the question to the keeper, so that neither the number
//! of messages nor a delay has anything to do with it. Bytes do: they are all that the wire carries.

use super::{
    book::{Book, Expected, rounded},
    observe::Observed,
};
use compasso_scenario::Scenario;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// In the order of the table.
pub const ALGORITHMS: [&str; 8] =
    ["central", "voting", "lamport", "ricart-agrawala", "token-ring", "suzuki-kasami", "maekawa-plain", "maekawa"];

/// By then every view is in force, also with many nodes.
const FIRST_LOCK_MS: u64 = 2000;
/// About so many visits at low load.
const LOW_ENTRIES: u64 = 48;
/// Message times inside: the keeper has answered long before.
const LOW_HOLD: u64 = 5;
/// Message times inside: whoever is next has got all but the last message by then.
const FULL_HOLD: u64 = 10;
/// So often everybody has its turn at full load, at least.
const FULL_ROUNDS: u64 = 8;

/// How much is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Load {
    /// Every node but the coordinator in turn, one at a time.
    Low,
    /// Everybody, always.
    Full,
}

/// The slack of an agreement: of messages as a share, of delays in message times.
#[derive(Clone, Copy)]
pub struct Slack {
    /// The first and the last entries of a run are not like the others.
    pub messages: f64,
    /// Boards also need time to think.
    pub delay: f64,
}

/// What one algorithm costs at one load.
pub struct Cost {
    /// Visits.
    pub entries: u64,
    /// Textbook messages for each.
    pub messages: Option<f64>,
    /// What the book says of that.
    pub book: Book,
    /// Messages that hardening adds for each.
    pub hardening: Option<f64>,
    /// Bytes for each, hardening included, beyond those of a run without mutual exclusion.
    pub bytes: Option<f64>,
    /// From request to entry, in message times.
    pub client_delay: Option<f64>,
    /// From an exit to the next entry, in message times.
    pub sync_delay: Option<f64>,
    /// Share of the messages that the busiest node sends or receives.
    pub busiest: Option<f64>,
    /// Jain's index of the nodes' visits: 1 if all had the same, 1/N if one had all.
    pub fairness: Option<f64>,
    /// Voting: tries for each visit.
    pub tries: Option<f64>,
    /// Requests that were passed over without end, or not granted before the run was over.
    pub starved: u64,
    /// Promises broken.
    pub violations: u64,
}

/// One algorithm.
pub struct Row {
    /// Its name.
    pub algorithm: &'static str,
    /// One at a time.
    pub low: Cost,
    /// Everybody always; nothing where the algorithm may deadlock then.
    pub full: Option<Cost>,
    /// What the book says of the client delay.
    pub client: Book,
    /// What the book says of the synchronization delay.
    pub sync: Book,
}

/// The loads at which an algorithm is performed.
pub fn loads(algorithm: &str) -> &'static [Load] {
    if algorithm == "maekawa-plain" { &[Load::Low] } else { &[Load::Low, Load::Full] }
}

/// The run of one algorithm at one load; `none` for what the network carries anyway.
pub fn scenario(algorithm: &str, nodes: u16, load: Load, message_ms: u64) -> Result<Scenario, String> {
    let idle = algorithm == "none";
    let name = match load {
        Load::Low => "low",
        Load::Full => "full",
    };
    let mut text = format!("name = \"compare-{algorithm}-{name}-{nodes}\"\nnodes = {nodes}\nseed = 1\n");
    let count = u64::from(nodes);
    let mut steps = String::new();
    let (duration_ms, mutex) = match load {
        Load::Low => {
            let clients = count - 1;
            // Longer than any algorithm needs: the token is round, the visit over, the votes are back.
            let every_ms = message_ms * (count + LOW_HOLD + 10);
            let locks = clients * LOW_ENTRIES.div_ceil(clients);
            for lock in 0..locks {
                // Spread over the token's round, as requests are.
                let phase_us = lock * 618 % 1000 * count * message_ms;
                let at_us = (FIRST_LOCK_MS + lock * every_ms) * 1000 + phase_us;
                let (node, hold) = (lock % clients, LOW_HOLD * message_ms);
                let _ =
                    write!(steps, "[[step]]\nat = \"{at_us}us\"\nlock = {{ node = {node}, hold = \"{hold}ms\" }}\n");
            }
            (FIRST_LOCK_MS + (locks + 2) * every_ms, "token_rest = \"0ms\"\n".to_owned())
        }
        Load::Full => {
            let round_ms = count * (FULL_HOLD + 2) * message_ms;
            // The workload ends after four fifths; by then the boards have needed a second to begin.
            let duration_ms = 5000.max((1000 + FULL_ROUNDS * round_ms) * 5 / 4);
            let hold = FULL_HOLD * message_ms;
            // The token never rests while everybody wants it; afterwards it stays where it is.
            let rest = duration_ms * 2;
            (duration_ms, format!("token_rest = \"{rest}ms\"\nworkload = {{ every = \"1us\", hold = \"{hold}ms\" }}\n"))
        }
    };
    let _ = write!(text, "duration = \"{duration_ms}ms\"\n[network]\ndelay = \"{message_ms}ms\"\n");
    if !idle {
        let _ = write!(text, "[mutex]\nalgorithm = \"{algorithm}\"\n{mutex}{steps}");
    }
    Scenario::parse(&text, "compare").map_err(|error| error.to_string())
}

/// Puts an algorithm's runs beside the book. `idle`: the same without mutual exclusion.
pub fn row(
    algorithm: &'static str,
    nodes: u16,
    low: (&Observed, Option<&Observed>),
    full: Option<(&Observed, Option<&Observed>)>,
) -> Row {
    let n = f64::from(nodes);
    let (client, sync) = match algorithm {
        "central" => (Book::exactly("2", 2.0), Book::between("2, from or to the coordinator 1", 1.0, 2.0)),
        "voting" => (Book::exactly("2", 2.0), Book::open("none")),
        "token-ring" => (Book::between("0 to N", 0.0, n), Book::exactly("1 to N, 1 at full load", 1.0)),
        // With two nodes one of them asks at low load, and the token rests with it.
        "suzuki-kasami" if nodes == 2 => (Book::exactly("0, where the token rests", 0.0), Book::exactly("1", 1.0)),
        "suzuki-kasami" => (Book::exactly("2, where the token rests 0", 2.0), Book::exactly("1", 1.0)),
        "maekawa" | "maekawa-plain" => {
            (Book::exactly("2", 2.0), Book::between("2, where the leaving node is the voter 1", 1.0, 2.0))
        }
        _ => (Book::exactly("2", 2.0), Book::exactly("1", 1.0)),
    };
    Row {
        algorithm,
        low: cost(algorithm, nodes, Load::Low, low.0, low.1),
        full: full.map(|(run, idle)| cost(algorithm, nodes, Load::Full, run, idle)),
        client,
        sync,
    }
}

fn cost(algorithm: &str, nodes: u16, load: Load, run: &Observed, idle: Option<&Observed>) -> Cost {
    let mutex = run.summary.mutex.as_ref();
    let entries = mutex.map_or(0, |mutex| mutex.entries);
    let each = |count: f64| (entries > 0).then(|| count / entries as f64);
    let sum = |of: fn(&compasso_checker::summary::MutexSection) -> u64| mutex.map_or(0, of) as f64;
    let times = |median: Option<i64>| run.message_us.zip(median).map(|(message, median)| median as f64 / message);
    let others = f64::from(nodes) - 1.0;
    let asked = sum(|mutex| mutex.messages.get("request").copied().unwrap_or(0));
    let tries = each(asked / others).filter(|_| algorithm == "voting");
    Cost {
        entries,
        messages: each(sum(|mutex| mutex.messages.values().sum())),
        book: messages_book(algorithm, nodes, load, tries),
        hardening: each(sum(|mutex| mutex.hardening_messages.values().sum())),
        bytes: idle.and_then(|idle| each(run.bytes() as f64 - idle.bytes() as f64)),
        client_delay: times(mutex.and_then(|mutex| mutex.client_delay_us).map(|delay| delay.median)),
        sync_delay: times(mutex.and_then(|mutex| mutex.sync_delay_us).map(|delay| delay.median)),
        busiest: run.busiest,
        fairness: mutex.and_then(|mutex| jain(mutex.by_node.values().copied())).filter(|_| load == Load::Full),
        tries,
        starved: mutex.map_or(0, |mutex| mutex.starved),
        violations: broken(run),
    }
}

/// Promises broken. Voting promises ME2 only with probability one: whoever starves is told apart.
pub fn broken(run: &Observed) -> u64 {
    run.summary.broken()
}

fn messages_book(algorithm: &str, nodes: u16, load: Load, tries: Option<f64>) -> Book {
    let n = f64::from(nodes);
    let others = n - 1.0;
    match (algorithm, load) {
        ("central", Load::Low) => Book::exactly("3", 3.0),
        ("central", Load::Full) => Book::exactly("3(N−1)/N", 3.0 * others / n),
        ("voting", Load::Low) => Book::exactly("3(m−1)k", 3.0 * others),
        ("voting", Load::Full) => match tries {
            // Who was denied a vote has none to give back.
            Some(k) => Book::between("3(m−1)k", 2.0 * others * k, 3.0 * others * k),
            None => Book::open("3(m−1)k"),
        },
        ("lamport", _) => Book::exactly("3(N−1)", 3.0 * others),
        ("ricart-agrawala", _) => Book::exactly("2(N−1)", 2.0 * others),
        ("token-ring", Load::Low) => Book::open("1 to ∞"),
        ("token-ring", Load::Full) => Book::exactly("1", 1.0),
        ("suzuki-kasami", Load::Low) if nodes == 2 => Book::open("0 or N"),
        ("suzuki-kasami", _) => Book::exactly("N", n),
        ("maekawa" | "maekawa-plain", Load::Low) => Book::exactly("3(|V|−1)", 3.0 * other_voters(nodes, nodes - 1)),
        ("maekawa", Load::Full) => {
            let voters = other_voters(nodes, nodes);
            Book::between("3 to 7 times (|V|−1)", 3.0 * voters, 7.0 * voters)
        }
        _ => Book::open("–"),
    }
}

/// How many voters other than itself one of the first `of` nodes has, on average: the rest of its row and
/// column in a grid with ⌈√N⌉ columns, whose last row may be short.
fn other_voters(nodes: u16, of: u16) -> f64 {
    let columns = (1..=nodes).find(|columns| columns * columns >= nodes).unwrap_or(1);
    let voters = |node: u16| {
        let others = (0..nodes).filter(|other| *other != node);
        others.filter(|other| other / columns == node / columns || other % columns == node % columns).count()
    };
    (0..of).map(voters).sum::<usize>() as f64 / f64::from(of)
}

fn jain(visits: impl Iterator<Item = u64> + Clone) -> Option<f64> {
    let count = visits.clone().count() as f64;
    let sum = visits.clone().sum::<u64>() as f64;
    let squares = visits.map(|visits| (visits * visits) as f64).sum::<f64>();
    (squares > 0.0).then(|| sum * sum / (count * squares))
}

impl Cost {
    /// Whether the messages are as the book says.
    pub fn agrees(&self, slack: Slack) -> Option<bool> {
        self.book.expected.agrees(self.messages, self.messages.unwrap_or(0.0) * slack.messages)
    }

    fn write(&self, into: &mut Map<String, Value>, slack: Slack) {
        let number = |value: Option<f64>| json!(value.map(rounded));
        into.insert("messages_per_entry".into(), number(self.messages));
        into.insert("formula".into(), json!(self.book.formula));
        self.book.expected.write(into, "");
        into.insert("agrees".into(), json!(self.agrees(slack)));
        into.insert("entries".into(), json!(self.entries));
        into.insert("hardening_messages_per_entry".into(), number(self.hardening));
        into.insert("bytes_per_entry".into(), json!(self.bytes.map(f64::round)));
        into.insert("client_delay".into(), number(self.client_delay));
        into.insert("sync_delay".into(), number(self.sync_delay));
        into.insert("busiest_share".into(), number(self.busiest));
        into.insert("fairness".into(), number(self.fairness));
        if self.tries.is_some() {
            into.insert("tries_per_entry".into(), number(self.tries));
        }
        into.insert("starved".into(), json!(self.starved));
        into.insert("violations".into(), json!(self.violations));
    }
}

impl Row {
    /// The load at which the book counts messages.
    pub fn counted(&self) -> (&'static str, &Cost) {
        match &self.full {
            Some(full) if self.algorithm == "token-ring" => ("full", full),
            Some(_) | None => ("low", &self.low),
        }
    }

    /// The client delay: nobody else is in the way.
    pub fn client_delay(&self) -> Option<f64> {
        self.low.client_delay
    }

    /// Requests that starved, at both loads together.
    pub fn starved(&self) -> u64 {
        self.low.starved + self.full.as_ref().map_or(0, |full| full.starved)
    }

    /// The synchronization delay: somebody always waits.
    pub fn sync_delay(&self) -> Option<f64> {
        self.full.as_ref().and_then(|full| full.sync_delay)
    }

    /// For machines: the load at which the book counts on top, both loads below.
    pub fn to_json(&self, slack: Slack) -> Value {
        let mut row = Map::new();
        let (load, counted) = self.counted();
        row.insert("algorithm".into(), json!(self.algorithm));
        row.insert("load".into(), json!(load));
        row.insert("messages_per_entry".into(), json!(counted.messages.map(rounded)));
        row.insert("formula".into(), json!(counted.book.formula));
        counted.book.expected.write(&mut row, "");
        row.insert("agrees".into(), json!(counted.agrees(slack)));
        for (name, delay, book) in
            [("client_delay", self.client_delay(), &self.client), ("sync_delay", self.sync_delay(), &self.sync)]
        {
            row.insert(name.into(), json!(delay.map(rounded)));
            row.insert(format!("{name}_formula"), json!(book.formula));
            book.expected.write(&mut row, &format!("{name}_"));
            row.insert(format!("{name}_agrees"), json!(book.expected.agrees(delay, slack.delay)));
        }
        let busy = self.full.as_ref().unwrap_or(&self.low);
        row.insert("bytes_per_entry".into(), json!(busy.bytes.map(f64::round)));
        row.insert("busiest_share".into(), json!(busy.busiest.map(rounded)));
        row.insert("fairness".into(), json!(busy.fairness.map(rounded)));
        row.insert("starved".into(), json!(self.starved()));
        row.insert("definition".into(), json!(definition(self.algorithm)));
        for (name, cost) in [("low", Some(&self.low)), ("full", self.full.as_ref())] {
            let cost = cost.map(|cost| {
                let mut fields = Map::new();
                cost.write(&mut fields, slack);
                Value::Object(fields)
            });
            row.insert(name.into(), json!(cost));
        }
        Value::Object(row)
    }

    /// Whether anything disagrees with the book.
    pub fn disagrees(&self, slack: Slack) -> bool {
        let costs = [Some(&self.low), self.full.as_ref()].into_iter().flatten().map(|cost| cost.agrees(slack));
        let delays = [
            self.client.expected.agrees(self.client_delay(), slack.delay),
            self.sync.expected.agrees(self.sync_delay(), slack.delay),
        ];
        costs.chain(delays).any(|agrees| agrees == Some(false))
    }
}

/// What the formula counts.
pub fn definition(algorithm: &str) -> &'static str {
    match algorithm {
        "central" => "REQUEST, GRANT, RELEASE of a client; the coordinator's own entries cost 0",
        "voting" => "m = N replicas, k tries; 3mk with the messages to oneself; who denied gets no RELEASE",
        "lamport" => "REQUEST to, ACK from and RELEASE to everybody else",
        "ricart-agrawala" => "REQUEST to and OK from everybody else",
        "token-ring" => "1 when all want it; an idle token goes round all the same, so there is no bound",
        "suzuki-kasami" => "REQUEST to everybody else and the token; 0 where the token rests",
        "maekawa-plain" => "3|V| with the messages to oneself, V row and column; may deadlock at full load",
        "maekawa" => "3|V| with the messages to oneself; contended 5, at most 7 instead of 3",
        _ => "",
    }
}

/// What the chart draws: measured, and the book's number.
pub fn charted(row: &Row, load: Load) -> Option<(f64, Option<f64>)> {
    let cost = match load {
        Load::Low => Some(&row.low),
        Load::Full => row.full.as_ref(),
    }?;
    // What an idle token does is no cost of an entry.
    let counts = !(row.algorithm == "token-ring" && load == Load::Low);
    let expected = match cost.book.expected {
        Expected::Exactly(value) => Some(value),
        Expected::Between(..) | Expected::Open => None,
    };
    cost.messages.filter(|_| counts).map(|messages| (messages, expected))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_gives_everybody_its_row_and_column() {
        assert_eq!(other_voters(9, 9), 4.0);
        assert_eq!(other_voters(25, 24), 8.0);
        // Three and two: 0 and 1 have three others, 2, 3 and 4 have two.
        assert_eq!(other_voters(5, 5), 12.0 / 5.0);
    }

    #[test]
    fn fairness_is_one_if_all_had_the_same_and_one_nth_if_one_had_all() {
        assert_eq!(jain([3, 3, 3].into_iter()), Some(1.0));
        assert_eq!(jain([6, 0, 0].into_iter()), Some(1.0 / 3.0));
        assert_eq!(jain([0, 0].into_iter()), None);
    }

    #[test]
    fn every_workload_is_a_scenario() {
        for nodes in [2, 3, 5, 64] {
            for algorithm in ALGORITHMS.into_iter().chain(["none"]) {
                for load in loads(algorithm) {
                    scenario(algorithm, nodes, *load, 1).unwrap();
                }
            }
        }
    }
}
