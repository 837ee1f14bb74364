//! Clocks: one workload, what the rules cost, its rows.
//!
//! Performed with hardening, as boards run it: crystals off by up to 50 ppm, clocks wrong by up to two seconds at boot,
//! and nothing that goes wrong. The run without synchronization says what the rest of the system costs.

use super::{
    book::{Book, rounded},
    observe::Observed,
};
use compasso_checker::summary::{ClockSection, RoundTrip, Stats};
use compasso_scenario::Scenario;
use serde_json::{Map, Value, json};

/// In the order of the table. One more name is one more row; its cost goes into `rounds`.
pub const SYNCS: [&str; 4] = ["none", "cristian", "berkeley", "disciplined"];

/// How long a run lasts.
const SECONDS: u64 = 30;
/// By then somebody leads: boards boot within 50 ms of each other, and the first election is 300 ms after that.
const SETTLED_S: f64 = 0.35;
/// From the end of one round to the beginning of the next, in seconds.
const ROUND_EVERY_S: f64 = 0.5;
/// A disciplined clock asks so often at first, and so often later.
const PACE_S: (f64, f64) = (0.125, 1.0);
/// It is set once, by the quickest of eight answers: so many messages correct nothing.
const TO_SET_ONE: u64 = 2 * 7;
/// Shortest and longest delay, in microseconds.
const DELAY_US: (u64, u64) = (200, 2000);

/// What the rules say of one round: messages for each corrected node, and round trips one after the other.
fn rounds(sync: &str) -> Option<(u32, u32)> {
    match sync {
        // Eight questions and answers.
        "cristian" => Some((16, 8)),
        // Four polls and answers, and a correction.
        "berkeley" => Some((9, 4)),
        // A question and an answer; its pace is the clock's own.
        "disciplined" => Some((2, 0)),
        _ => None,
    }
}

/// One way to keep time.
pub struct Row {
    /// Its name.
    pub sync: &'static str,
    /// Distance from the coordinator once the clocks have come together.
    pub error_us: Option<Stats>,
    /// Largest distance between two clocks; without synchronization, what it would have been.
    pub spread_us: Option<i64>,
    /// Half width of the intervals.
    pub bound_us: Option<RoundTrip>,
    /// From when on they were together.
    pub converged_us: Option<i64>,
    /// Messages for each correction.
    pub messages: Option<f64>,
    /// What the rules say of that.
    pub book: Book,
    /// Messages that a node sends in a second.
    pub rate: f64,
    /// What the rules say of that, with delays as the network has them.
    pub rate_book: Book,
    /// Bytes that a node sends in a second, beyond what it sends without synchronization.
    pub bytes: Option<f64>,
    /// How often a clock ran backwards.
    pub backward_steps: u64,
    /// Promises broken.
    pub violations: usize,
}

/// How far a measurement may be from the rules, as a share of what they say.
#[derive(Clone, Copy)]
pub struct Slack {
    /// Of the messages for a correction: the last round is cut off by the end.
    pub messages: f64,
    /// Of the rate: boards take time to answer.
    pub rate: f64,
}

/// The run of one choice.
pub fn scenario(sync: &str, nodes: u16) -> Result<Scenario, String> {
    let text = format!(
        "name = \"compare-{sync}-{nodes}\"\nnodes = {nodes}\nseed = 1\nduration = \"{SECONDS}s\"\n\
         [clock]\nsync = \"{sync}\"\nskew_ppm = {{ uniform = 50 }}\n[election]\nalgorithm = \"bully\"\n\
         [network]\ndelay = \"{}us..{}us\"\n",
        DELAY_US.0, DELAY_US.1
    );
    Scenario::parse(&text, "compare").map_err(|error| error.to_string())
}

/// Puts a run beside the rules. `without` is the run without synchronization, `raw_spread_us` what it comes to.
pub fn row(sync: &'static str, nodes: u16, run: &Observed, without: Option<&Observed>, raw_spread_us: i64) -> Row {
    let clock = run.summary.clock.as_ref();
    let to_set = if sync == "disciplined" { TO_SET_ONE * u64::from(nodes - 1) } else { 0 };
    let sent = clock.map_or(0, |clock| clock.messages.values().sum::<u64>().saturating_sub(to_set));
    let per_node = f64::from(nodes) * (SECONDS as f64 - SETTLED_S);
    let corrected = |clock: &ClockSection| (clock.syncs > 0).then(|| sent as f64 / clock.syncs as f64);
    let beyond = without.map(|without| run.bytes().saturating_sub(without.bytes()) as f64 / per_node);
    let share = f64::from(nodes - 1) / f64::from(nodes);
    let (book, rate_book) = match rounds(sync) {
        Some((messages, trips)) => {
            let each = f64::from(messages);
            let rate = |every_s: f64, delay_us: u64| {
                each * share / (every_s + f64::from(trips) * 2.0 * delay_us as f64 / 1_000_000.0)
            };
            let book = Book::exactly(&format!("{messages} a correction"), each);
            let rate_book = if trips > 0 {
                let formula = format!("{messages}(N−1)/N / (T + {trips}·rtt)");
                Book::between(&formula, rate(ROUND_EVERY_S, DELAY_US.1), rate(ROUND_EVERY_S, DELAY_US.0))
            } else {
                Book::between(&format!("{messages}(N−1)/N / T"), rate(PACE_S.1, 0), rate(PACE_S.0, 0))
            };
            (book, rate_book)
        }
        None => (Book::exactly("0", 0.0), Book::exactly("0", 0.0)),
    };
    Row {
        sync,
        error_us: clock.and_then(|clock| clock.after_convergence),
        spread_us: clock.map_or(Some(raw_spread_us), |clock| clock.spread_us.map(|spread| spread.median)),
        bound_us: clock.and_then(|clock| clock.bound_us),
        converged_us: clock.and_then(|clock| clock.converged_us),
        messages: clock.and_then(corrected),
        book,
        rate: sent as f64 / per_node,
        rate_book,
        bytes: beyond,
        backward_steps: clock.map_or(0, |clock| clock.backward_steps),
        violations: run.summary.violations.len(),
    }
}

impl Row {
    /// Whether messages for a correction, and in a second, are as the rules say.
    pub fn agree(&self, slack: Slack) -> [Option<bool>; 2] {
        let most = rounds(self.sync).map_or(0.0, |(messages, _)| f64::from(messages));
        let rate = self.rate_book.expected.agrees(Some(self.rate), slack.rate * most / ROUND_EVERY_S);
        [self.book.expected.agrees(self.messages, slack.messages * most), rate]
    }

    /// Whether anything disagrees.
    pub fn disagrees(&self, slack: Slack) -> bool {
        self.agree(slack).contains(&Some(false))
    }

    /// For machines.
    pub fn to_json(&self, slack: Slack) -> Value {
        let [messages, rate] = self.agree(slack);
        let mut row = Map::new();
        row.insert("algorithm".into(), json!(self.sync));
        row.insert("error_us".into(), json!(self.error_us));
        row.insert("spread_us".into(), json!(self.spread_us));
        row.insert("bound_us".into(), json!(self.bound_us));
        row.insert("converged_us".into(), json!(self.converged_us));
        row.insert("backward_steps".into(), json!(self.backward_steps));
        row.insert("messages_per_correction".into(), json!(self.messages.map(rounded)));
        row.insert("formula".into(), json!(self.book.formula));
        self.book.expected.write(&mut row, "");
        row.insert("agrees".into(), json!(messages));
        row.insert("messages_per_node_second".into(), json!(rounded(self.rate)));
        row.insert("rate_formula".into(), json!(self.rate_book.formula));
        self.rate_book.expected.write(&mut row, "rate_");
        row.insert("rate_agrees".into(), json!(rate));
        row.insert("bytes_per_node_second".into(), json!(self.bytes.map(rounded)));
        row.insert("definition".into(), json!(definition(self.sync)));
        row.insert("violations".into(), json!(self.violations));
        Value::Object(row)
    }
}

/// What is done.
pub fn definition(sync: &str) -> &'static str {
    match sync {
        "none" => "every board has its own clock, wrong from the beginning, and wrong by more from then on",
        "cristian" => "each asks the coordinator eight times a round, and believes the quickest answer",
        "berkeley" => {
            "the coordinator asks everybody four times a round, averages, and tells each what its clock lacks"
        }
        "disciplined" => {
            "each asks the coordinator eight times a second, then once, and learns its crystal's rate; what sets a clock at first is not counted"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_is_a_scenario_and_has_its_cost() {
        for nodes in [2, 3, 5, 64] {
            for sync in SYNCS {
                scenario(sync, nodes).unwrap_or_else(|error| panic!("{error}"));
                assert!(sync == "none" || rounds(sync).is_some(), "{sync}");
                assert!(!definition(sync).is_empty(), "{sync}");
            }
        }
    }
}
