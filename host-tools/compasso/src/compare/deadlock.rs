//! Deadlock: its two workloads, what the book expects, its rows.
//!
//! Performed with hardening, as boards run it. At low load one transaction at a time takes two resources whose homes
//! are elsewhere: that is what locking costs by itself. At full load everybody takes two resources in any order, one
//! after the other, again and again: that is what the strategy costs.

use super::{
    book::{Book, Expected, rounded},
    observe::Observed,
};
use compasso_scenario::Scenario;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// In the order of the table.
pub const STRATEGIES: [&str; 6] = ["ignore", "detect", "prevent-order", "wait-die", "wound-wait", "avoid"];

/// By then every view is in force, also with many nodes.
const FIRST_MS: u64 = 2000;
/// About so many transactions at low load.
const LOW_TRANSACTIONS: u64 = 24;
/// From one transaction at low load to the next, in message times: requests, grants and releases are over.
const LOW_EVERY: u64 = 20;
/// Resources that a transaction takes.
const SEVERAL: u64 = 2;
/// Message times from one resource to the next, and with all of them.
const FULL_HOLD: u64 = 5;
/// Message times from one transaction to the next.
const FULL_EVERY: u64 = 20;
/// How long the full load lasts.
const FULL_MS: u64 = 20_000;
/// A scenario has room for so many resources to lock.
const LOCKS_MAX: u16 = 8;

/// How much is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Load {
    /// One transaction at a time.
    Low,
    /// Everybody, again and again.
    Full,
}

/// One strategy.
pub struct Row {
    /// Its name.
    pub strategy: &'static str,
    /// Messages for a transaction that nobody disturbs.
    pub low_messages: Option<f64>,
    /// What the book says of that.
    pub low_book: Book,
    /// From request to grant without anybody in the way, in message times.
    pub low_delay: Option<f64>,
    /// Transactions in a second, all nodes together.
    pub per_second: f64,
    /// Messages for each at full load.
    pub messages: Option<f64>,
    /// How often one had to give everything back.
    pub given_back: Option<f64>,
    /// What the book says of that.
    pub given_back_book: Book,
    /// Mean time from request to grant at full load, in message times.
    pub wait: Option<f64>,
    /// Circles that closed.
    pub closed: u64,
    /// Deadlocks that were reported.
    pub found: u64,
    /// Circles that stood at the end.
    pub standing: u64,
    /// Share of the messages that the busiest node sends or receives, at full load.
    pub busiest: Option<f64>,
    /// Promises broken, other than what ignoring costs.
    pub violations: usize,
}

/// The run of one strategy at one load.
pub fn scenario(strategy: &str, nodes: u16, load: Load, message_ms: u64) -> Result<Scenario, String> {
    let resources = nodes.min(LOCKS_MAX);
    let names: Vec<String> = (0..resources).map(name).collect();
    let (word, duration_ms) = match load {
        Load::Low => ("low", FIRST_MS + (LOW_TRANSACTIONS + 3) * LOW_EVERY * message_ms),
        Load::Full => ("full", FULL_MS),
    };
    let mut text = format!(
        "name = \"compare-{strategy}-{word}-{nodes}\"\nnodes = {nodes}\nseed = 1\nduration = \"{duration_ms}ms\"\n\
         [network]\ndelay = \"{message_ms}ms\"\n[deadlock]\nstrategy = \"{strategy}\"\nresources = {names:?}\n"
    );
    match load {
        Load::Full => {
            let (every, hold) = (FULL_EVERY * message_ms, FULL_HOLD * message_ms);
            let _ = writeln!(text, "workload = {{ every = \"{every}ms\", hold = \"{hold}ms\", several = {SEVERAL} }}");
        }
        Load::Low => (0..LOW_TRANSACTIONS).for_each(|at| low_steps(&mut text, strategy, nodes, at, message_ms)),
    }
    Scenario::parse(&text, "compare").map_err(|error| error.to_string())
}

/// One undisturbed transaction. Nobody takes what is at home with itself, and the coordinator takes nothing.
fn low_steps(text: &mut String, strategy: &str, nodes: u16, at: u64, message_ms: u64) {
    let resources = nodes.min(LOCKS_MAX);
    let node = (at % u64::from(nodes - 1)) as u16;
    let (one, other) = (name((node + 1) % resources), name((node + 2) % resources));
    let begin = FIRST_MS + at * LOW_EVERY * message_ms;
    if strategy == "avoid" {
        let _ = write!(
            text,
            "[[step]]\nat = \"{begin}ms\"\nclaims = {{ node = {node}, resources = [\"{one}\", \"{other}\"] }}\n"
        );
    }
    for (after, action) in [
        (0, format!("acquire = {{ node = {node}, resource = \"{}\" }}", one.clone().min(other.clone()))),
        (4, format!("acquire = {{ node = {node}, resource = \"{}\" }}", one.clone().max(other.clone()))),
        (8, format!("release = {{ node = {node}, resources = [\"{one}\", \"{other}\"] }}")),
    ] {
        let at_ms = begin + after * message_ms;
        let _ = write!(text, "[[step]]\nat = \"{at_ms}ms\"\n{action}\n");
    }
}

fn name(resource: u16) -> String {
    format!("r{resource:02}")
}

/// Puts a strategy's runs beside the book.
pub fn row(strategy: &'static str, low: &Observed, full: &Observed) -> Row {
    let of = |run: &Observed| run.summary.deadlock.clone();
    let (quiet, busy) = (of(low), of(full));
    let transactions = busy.as_ref().map_or(0, |busy| busy.transactions);
    let each = |count: f64| (transactions > 0).then(|| count / transactions as f64);
    let times = |run: &Observed, us: Option<f64>| run.message_us.zip(us).map(|(message, us)| us / message);
    let given_back = busy.as_ref().map_or(0, |busy| busy.abandons.values().sum::<u64>());
    let found = busy.as_ref().map_or(0, |busy| busy.found.len() as u64);
    Row {
        strategy,
        low_messages: quiet.as_ref().and_then(|quiet| quiet.messages_per_transaction),
        low_book: match strategy {
            "avoid" => Book::exactly("3k+1", 3.0 * SEVERAL as f64 + 1.0),
            _ => Book::exactly("3k", 3.0 * SEVERAL as f64),
        },
        low_delay: times(low, quiet.and_then(|quiet| quiet.wait_us).map(|wait| wait.median as f64)),
        per_second: transactions as f64 * 1000.0 / FULL_MS as f64,
        messages: busy.as_ref().and_then(|busy| busy.messages_per_transaction),
        given_back: each(given_back as f64).or((given_back == 0).then_some(0.0)),
        given_back_book: match strategy {
            "ignore" | "prevent-order" | "avoid" => Book::exactly("0", 0.0),
            "detect" => match each(found as f64) {
                Some(each) => Book::exactly("1 a deadlock", each),
                None => Book::open("1 a deadlock"),
            },
            _ => Book::open("whoever is younger"),
        },
        wait: times(full, busy.as_ref().and_then(|busy| busy.wait_mean_us)),
        closed: busy.as_ref().map_or(0, |busy| busy.closed),
        found,
        standing: busy.map_or(0, |busy| busy.standing),
        busiest: full.busiest,
        violations: broken(low) + broken(full),
    }
}

/// Promises broken. That ignored deadlocks stand is what ignoring means.
pub fn broken(run: &Observed) -> usize {
    let ignores = run.summary.deadlock.as_ref().is_some_and(|deadlock| deadlock.strategy == "ignore");
    run.summary.violations.iter().filter(|violation| !(ignores && violation.property == "deadlock")).count()
}

impl Row {
    /// What the book says of circles: whether any may close, and whether any may be left.
    pub fn circles_agree(&self) -> bool {
        match self.strategy {
            "ignore" => self.found == 0 && self.standing > 0,
            "detect" => self.found > 0 && self.standing == 0,
            "prevent-order" | "avoid" => self.closed == 0,
            _ => self.found == 0 && self.standing == 0,
        }
    }

    /// Whether a measurement is as the book says.
    pub fn agree(&self, slack: f64) -> [Option<bool>; 4] {
        [
            self.low_book.expected.agrees(self.low_messages, slack),
            Expected::Exactly(2.0).agrees(self.low_delay, if slack > 0.0 { 0.5 } else { 0.05 }),
            self.given_back_book.expected.agrees(self.given_back, slack),
            Some(self.circles_agree()),
        ]
    }

    /// For machines.
    pub fn to_json(&self, slack: f64) -> Value {
        let number = |value: Option<f64>| json!(value.map(rounded));
        let [low, delay, given_back, circles] = self.agree(slack);
        let mut row = Map::new();
        row.insert("algorithm".into(), json!(self.strategy));
        row.insert("messages_per_transaction".into(), number(self.low_messages));
        row.insert("formula".into(), json!(self.low_book.formula));
        self.low_book.expected.write(&mut row, "");
        row.insert("agrees".into(), json!(low));
        row.insert("client_delay".into(), number(self.low_delay));
        row.insert("client_delay_expected".into(), json!(2.0));
        row.insert("client_delay_agrees".into(), json!(delay));
        let mut full = Map::new();
        full.insert("transactions_per_second".into(), json!(rounded(self.per_second)));
        full.insert("messages_per_transaction".into(), number(self.messages));
        full.insert("given_back_per_transaction".into(), number(self.given_back));
        full.insert("given_back_formula".into(), json!(self.given_back_book.formula));
        self.given_back_book.expected.write(&mut full, "given_back_");
        full.insert("given_back_agrees".into(), json!(given_back));
        full.insert("wait".into(), number(self.wait));
        full.insert("circles_closed".into(), json!(self.closed));
        full.insert("deadlocks_found".into(), json!(self.found));
        full.insert("circles_standing".into(), json!(self.standing));
        full.insert("circles_agree".into(), json!(circles));
        full.insert("busiest_share".into(), number(self.busiest));
        row.insert("full".into(), Value::Object(full));
        row.insert("definition".into(), json!(definition(self.strategy)));
        row.insert("violations".into(), json!(self.violations));
        Value::Object(row)
    }

    /// Whether anything disagrees with the book.
    pub fn disagrees(&self, slack: f64) -> bool {
        self.agree(slack).contains(&Some(false))
    }
}

/// What the book expects.
pub fn definition(strategy: &str) -> &'static str {
    match strategy {
        "ignore" => "the first circle stands, and everybody who wants what it holds stands too",
        "detect" => "circles close, each is found by a probe that returns, and one of it gives back",
        "prevent-order" => "no circle closes and nobody gives back: who waits holds only what comes before",
        "wait-die" => "a younger requester gives back at once when an older one holds what it wants, circle or not",
        "wound-wait" => "a younger holder gives back at once when an older one wants what it holds, circle or not",
        "avoid" => "no circle closes and nobody gives back: the coordinator grants only what is safe",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_is_a_scenario() {
        for nodes in [3, 5, 64] {
            for strategy in STRATEGIES {
                for load in [Load::Low, Load::Full] {
                    scenario(strategy, nodes, load, 1).unwrap_or_else(|error| panic!("{error}"));
                }
            }
        }
    }
}
