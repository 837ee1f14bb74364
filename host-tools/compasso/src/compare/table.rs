//! The comparison for a person: at most 100 columns.

use super::{
    book::{Expected, short},
    clock, deadlock, election, mutex,
};
use compasso_checker::span;
use std::fmt::Write as _;

/// No line is longer.
const COLUMNS: usize = 100;

fn paint(code: &str, text: &str) -> String {
    format!("\x1b[{code}m{text}\x1b[0m")
}

fn title(text: &str) -> String {
    paint("1", text)
}

fn faint(text: &str) -> String {
    paint("2", text)
}

/// A measurement in its place: green where the book agrees, red where it does not.
fn measured(value: Option<f64>, agrees: Option<bool>, width: usize) -> String {
    let text = value.map_or_else(|| "–".to_owned(), |value| format!("{value:.2}"));
    let text = if agrees == Some(false) { format!("≠{text}") } else { text };
    let padded = format!("{text:>width$}");
    match agrees {
        Some(true) => paint("32", &padded),
        Some(false) => paint("31", &padded),
        None => padded,
    }
}

fn promised(expected: Expected, width: usize) -> String {
    faint(&format!("{:>width$}", expected.text()))
}

/// In its place: red where somebody starved.
fn starved(count: u64) -> String {
    if count == 0 { faint(&format!("{count:>8}")) } else { paint("31", &format!("{count:>8}")) }
}

/// Mutual exclusion.
pub fn mutex(rows: &[mutex::Row], nodes: u16, stage: &str, message_us: f64, slack: mutex::Slack) -> String {
    let mut out = String::new();
    let facts = format!("{nodes} nodes, on {stage}, one message time = {} ms", short(message_us / 1000.0));
    let _ = writeln!(out, "{}  {}", title("mutual exclusion"), faint(&facts));
    let _ = writeln!(out, "{:16}{:^27}{:^25}{:^30}", "", "messages per entry", "delay", "full load");
    let heading = format!(
        "{:<16}{:>6}{:>6}{:>7}{:>10}{:>7}{:>6}{:>7}{:>5}{:>7}{:>8}{:>7}{:>8}",
        "", "low", "book", "full", "book", "client", "book", "sync", "book", "bytes", "busiest", "fair", "starved"
    );
    let _ = writeln!(out, "{}", faint(&heading));
    for row in rows {
        let full = row.full.as_ref();
        let busy = full.unwrap_or(&row.low);
        let percent = |share: Option<f64>| share.map_or("–".to_owned(), |share| format!("{:.0} %", share * 100.0));
        let _ = writeln!(
            out,
            "{:<16}{}{}{}{}{}{}{}{}{:>7}{:>8}{:>7}{}",
            row.algorithm,
            measured(row.low.messages, row.low.agrees(slack), 6),
            promised(row.low.book.expected, 6),
            measured(full.and_then(|full| full.messages), full.and_then(|full| full.agrees(slack)), 7),
            promised(full.map_or(Expected::Open, |full| full.book.expected), 10),
            measured(row.client_delay(), row.client.expected.agrees(row.client_delay(), slack.delay), 7),
            promised(row.client.expected, 6),
            measured(row.sync_delay(), row.sync.expected.agrees(row.sync_delay(), slack.delay), 7),
            promised(row.sync.expected, 5),
            busy.bytes.map_or("–".to_owned(), |bytes| format!("{bytes:.0}")),
            percent(busy.busiest),
            busy.fairness.map_or("–".to_owned(), |fairness| format!("{fairness:.2}")),
            starved(row.starved()),
        );
    }
    out.push('\n');
    for row in rows {
        let formula = &row.counted().1.book.formula;
        let line = format!("{:<16}{formula:<10} {}", row.algorithm, mutex::definition(row.algorithm));
        definition(&mut out, &line, 27);
    }
    out.push('\n');
    note(&mut out, "low load: every node but the coordinator in turn, one at a time; full: everybody always wants");
    note(&mut out, "delays in message times: client from request to entry (low), sync from exit to next entry (full)");
    note(&mut out, "messages are the textbook's; bytes also hold acknowledgements and the keeper (hardening is on)");
    note(&mut out, "busiest: messages that one node sends or receives; fair: Jain's index of the nodes' entries");
    note(
        &mut out,
        "starved: requests during whose wait others went in more than twice each, or that were never granted",
    );
    out
}

/// Election.
pub fn election(rows: &[election::Row], nodes: u16, stage: &str, message_us: f64) -> String {
    let mut out = String::new();
    let facts = format!("{nodes} nodes, on {stage}, one message time = {} ms", short(message_us / 1000.0));
    let _ = writeln!(out, "{}  {}", title("election"), faint(&facts));
    let heading = format!(
        "{:<20}{:<18}{:>9}{:>9}{:>8}{:>8}{:>9}{:>8}",
        "", "", "messages", "book", "agreed", "last", "busiest", "leader"
    );
    let _ = writeln!(out, "{}", faint(&heading));
    for row in rows {
        let number = |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.1}"));
        let agrees = row.agrees();
        let messages = format!("{:>9}", format!("{}{}", if agrees { "" } else { "≠" }, row.messages));
        let _ = writeln!(
            out,
            "{:<20}{:<18}{}{}{:>8}{:>8}{:>9}{:>8}",
            row.case.algorithm,
            row.case.name,
            paint(if agrees { "32" } else { "31" }, &messages),
            promised(row.book().expected, 9),
            number(row.time),
            number(row.last_message),
            row.busiest.map_or("–".to_owned(), |share| format!("{:.0} %", share * 100.0)),
            row.leader.map_or("none".to_owned(), |leader| leader.to_string()),
        );
    }
    out.push('\n');
    for row in rows {
        let formula = &row.book().formula;
        let line = format!("{:<20}{:<18}{formula}: {}", row.case.algorithm, row.case.name, row.case.definition);
        definition(&mut out, &line, 38);
    }
    out.push('\n');
    note(&mut out, "coordinator dies: one workload for all; N counts the dead one, n = N−1 live. The lowest notices;");
    note(&mut out, "for the detector all do. agreed: from the call until all name the leader, whose heartbeats help;");
    note(
        &mut out,
        "last: until the last message has arrived; both in message times. T, after which silence means death,",
    );
    note(&mut out, "is 2·T_trans + T_process = 90 ms. A repeat is not counted, nor what hardening adds.");
    out
}

/// Deadlock.
pub fn deadlock(rows: &[deadlock::Row], nodes: u16, stage: &str, message_us: f64, slack: f64) -> String {
    let mut out = String::new();
    let facts = format!("{nodes} nodes, on {stage}, one message time = {} ms", short(message_us / 1000.0));
    let _ = writeln!(out, "{}  {}", title("deadlock"), faint(&facts));
    let _ = writeln!(out, "{:15}{:^21}{:^64}", "", "low load", "full load");
    let heading = format!(
        "{:<15}{:>8}{:>6}{:>7}{:>9}{:>9}{:>8}{:>6}{:>8}{:>8}{:>7}{:>9}",
        "", "messages", "book", "delay", "per s", "messages", "given", "book", "wait", "closed", "found", "standing"
    );
    let _ = writeln!(out, "{}", faint(&heading));
    for row in rows {
        let [low, delay, given_back, circles] = row.agree(slack);
        let number = |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.1}"));
        let standing = format!("{:>9}", format!("{}{}", if circles == Some(false) { "≠" } else { "" }, row.standing));
        let _ = writeln!(
            out,
            "{:<15}{}{}{}{:>9.1}{:>9}{}{}{:>8}{:>8}{:>7}{}",
            row.strategy,
            measured(row.low_messages, low, 8),
            promised(row.low_book.expected, 6),
            measured(row.low_delay, delay, 7),
            row.per_second,
            number(row.messages),
            measured(row.given_back, given_back, 8),
            promised(row.given_back_book.expected, 6),
            number(row.wait),
            row.closed,
            row.found,
            paint(if circles == Some(false) { "31" } else { "32" }, &standing),
        );
    }
    out.push('\n');
    for row in rows {
        let line = format!("{:<15}{}", row.strategy, deadlock::definition(row.strategy));
        definition(&mut out, &line, 15);
    }
    out.push('\n');
    definition(
        &mut out,
        "low load: one transaction at a time, k = 2 resources with their homes elsewhere; 3 messages a lock, avoid \
         also sends the claim; delay from request to grant, 2 message times. full load: everybody takes 2 of N \
         resources (at most 8) in any order, again and again. per s: transactions of all nodes; given: times a \
         transaction gave everything back; wait: mean from request to grant, in message times; closed: circles in \
         the true wait-for graph; found: reported by a probe; standing: never broken.",
        0,
    );
    out
}

/// Clocks.
pub fn clock(rows: &[clock::Row], nodes: u16, stage: &str, slack: clock::Slack) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}  {}", title("clocks"), faint(&format!("{nodes} nodes, on {stage}")));
    let _ = writeln!(out, "{:10}{:^27}{:18}{:^35}", "", "error", "", "cost");
    let heading = format!(
        "{:<10}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>6}{:>9}{:>11}{:>9}",
        "", "median", "99 %", "most", "spread", "bound", "a corr.", "book", "a second", "book", "bytes"
    );
    let _ = writeln!(out, "{}", faint(&heading));
    for row in rows {
        let [messages, rate] = row.agree(slack);
        let time = |us: Option<i64>| us.map_or("–".to_owned(), span);
        let _ = writeln!(
            out,
            "{:<10}{:>9}{:>9}{:>9}{:>9}{:>9}{}{}{}{}{:>9}",
            row.sync,
            time(row.error_us.map(|error| error.median)),
            time(row.error_us.map(|error| error.p99)),
            time(row.error_us.map(|error| error.max)),
            time(row.spread_us),
            time(row.bound_us.map(|bound| bound.median)),
            measured(row.messages, messages, 9),
            promised(row.book.expected, 6),
            measured(Some(row.rate), rate, 9),
            promised(row.rate_book.expected, 11),
            row.bytes.map_or("–".to_owned(), |bytes| format!("{bytes:.0}")),
        );
    }
    out.push('\n');
    for row in rows {
        let together = row.converged_us.map_or(String::new(), |at| format!("; together {} after the start", span(at)));
        definition(&mut out, &format!("{:<10}{}{together}", row.sync, clock::definition(row.sync)), 10);
    }
    for row in rows.iter().filter(|row| row.rate > 0.0) {
        definition(&mut out, &format!("{:<10}messages a second: {}", row.sync, row.rate_book.formula), 10);
    }
    out.push('\n');
    note(&mut out, "error: distance from the coordinator's clock at the same true instant, once they are together;");
    note(&mut out, "spread: largest distance of two clocks, its median; bound: half the interval that a clock claims;");
    note(
        &mut out,
        "a corr.: messages for one correction of one clock; a second: messages a node and second, T = 0.5 s",
    );
    note(&mut out, "between rounds; bytes: a node and second, beyond those of the run without synchronization.");
    out
}

fn note(out: &mut String, text: &str) {
    let _ = writeln!(out, "{}", faint(text));
}

/// One line, or as many as it takes; what follows the first is indented.
fn definition(out: &mut String, line: &str, indent: usize) {
    let mut rest = String::new();
    for word in line.split_inclusive(' ') {
        if rest.chars().count() + word.trim_end().chars().count() > COLUMNS {
            note(out, rest.trim_end());
            rest = " ".repeat(indent);
        }
        rest.push_str(word);
    }
    note(out, rest.trim_end());
}
