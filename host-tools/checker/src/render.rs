//! The summary a person reads: at most 100 columns, and short.

use crate::{
    snapshot::Snapshot,
    summary::{
        CacheSection, ClockSection, CommitSection, DeadlockSection, ElectionSection, MakeSection, MutexSection, Summary,
    },
};
use compasso_algorithms::time::cristian;
use std::fmt::Write as _;

const COLUMNS: usize = 100;
const BAR: usize = 72;
/// More nodes or leaders than this are not drawn one by one.
const ROWS_MAX: usize = 8;
/// More snapshots than this are counted.
const SNAPSHOTS_MAX: usize = 3;
/// More violations than this are counted.
const TOLD_MAX: usize = 8;

/// Paints, or not.
struct Ink(bool);

impl Ink {
    fn paint(&self, code: &str, text: &str) -> String {
        if self.0 { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn title(&self, text: &str) -> String {
        self.paint("1", text)
    }

    fn faint(&self, text: &str) -> String {
        self.paint("2", text)
    }
}

/// Writes the summary for a person. With `colour`, terminal escapes are used.
#[must_use]
pub fn render(summary: &Summary, colour: bool) -> String {
    let ink = Ink(colour);
    let mut out = String::new();
    let heading = format!("{} on {}, seed {}", summary.scenario, summary.stage, summary.seed);
    let facts =
        format!("{} nodes, {}, {}", summary.nodes, span(summary.duration_us), many(summary.events as u64, "event"));
    let _ = writeln!(out, "{}  {}", ink.title(&heading), ink.faint(&facts));
    if let Some(election) = &summary.election {
        leaders(&mut out, &ink, summary, election);
    }
    injected(&mut out, &ink, summary);
    if let Some(clock) = &summary.clock {
        clocks(&mut out, &ink, clock);
    }
    if let Some(mutex) = &summary.mutex {
        turns(&mut out, &ink, mutex, summary.clock.as_ref());
    }
    if let Some(deadlock) = &summary.deadlock {
        locks(&mut out, &ink, deadlock);
    }
    if let Some(cache) = &summary.cache {
        copies(&mut out, &ink, cache);
    }
    if let Some(commit) = &summary.commit {
        transactions(&mut out, &ink, commit);
    }
    if let Some(make) = &summary.make {
        rebuilds(&mut out, &ink, make);
    }
    snapshots(&mut out, &ink, &summary.snapshots);
    verdict(&mut out, &ink, summary);
    out
}

fn leaders(out: &mut String, ink: &Ink, summary: &Summary, election: &ElectionSection) {
    let agreed = match (election.leader, election.agreed) {
        (Some(leader), true) => format!("all agree on {leader} at the end"),
        (Some(leader), false) => format!("a majority follows {leader} at the end, but not everybody"),
        (None, _) => "nobody leads at the end".to_owned(),
    };
    let took = election
        .convergence_us
        .map_or(String::new(), |took| format!(", agreement took {} (at most {})", span(took.median), span(took.max)));
    paragraph(
        out,
        &ink.title("Who led when"),
        12,
        &format!("{}: {}{took}; {agreed}", election.algorithm, many(election.elections, "term")),
    );
    let end = summary.duration_us.max(1);
    let mut who: Vec<u16> = election.leaders.iter().map(|led| led.leader).collect();
    who.sort_unstable();
    who.dedup();
    for leader in who.iter().rev().take(ROWS_MAX) {
        let row: String = (0..BAR as i64)
            .map(|column| {
                let middle = (2 * column + 1) * end / (2 * BAR as i64);
                let led = election
                    .leaders
                    .iter()
                    .any(|led| led.leader == *leader && (led.from_us..led.until_us).contains(&middle));
                if led { '█' } else { '·' }
            })
            .collect();
        let total: i64 =
            election.leaders.iter().filter(|led| led.leader == *leader).map(|led| led.until_us - led.from_us).sum();
        let _ = writeln!(out, "  {leader:>5} {} {}", ink.paint("36", &row), span(total));
    }
}

fn injected(out: &mut String, ink: &Ink, summary: &Summary) {
    let end = summary.duration_us.max(1);
    if summary.election.is_some() && !summary.faults.is_empty() {
        let mut marks = vec![' '; BAR];
        for fault in &summary.faults {
            let column = (fault.at_us.clamp(0, end - 1) * BAR as i64 / end) as usize;
            let mark = match fault.what.keys().next().map(String::as_str) {
                Some("crash") => '✗',
                Some("restart") => '↻',
                Some("pause") => '‖',
                Some("resume") => '▷',
                _ => '!',
            };
            if let Some(place) = marks.get_mut(column) {
                *place = mark;
            }
        }
        let _ = writeln!(out, "        {}", ink.paint("33", String::from_iter(marks).trim_end()));
    }
    let faults: Vec<String> = summary
        .faults
        .iter()
        .map(|fault| {
            let what = fault.what.iter().map(|(name, value)| {
                if value == &serde_json::Value::Bool(true) { name.clone() } else { format!("{name} {value}") }
            });
            format!("{} {}", span(fault.at_us), what.collect::<Vec<_>>().join(" "))
        })
        .collect();
    let network = &summary.network;
    let share = if network.datagrams > 0 { network.lost as f64 * 100.0 / network.datagrams as f64 } else { 0.0 };
    let lost = format!("{} of {} datagrams lost ({share:.1} %)", network.lost, network.datagrams);
    let extra = [(network.duplicated, "duplicated"), (network.reordered, "reordered"), (network.refused, "refused")];
    let extra = extra.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
    let shown = faults.len().min(12);
    let more = (faults.len() > shown).then(|| format!("and {} more", faults.len() - shown));
    let all: Vec<String> = faults.into_iter().take(shown).chain(more).chain([lost]).chain(extra).collect();
    paragraph(out, &ink.title("Injected"), 8, &all.join(" · "));
}

fn clocks(out: &mut String, ink: &Ink, clock: &ClockSection) {
    let reference = if clock.source == "host" { "true time" } else { "the coordinator" };
    let mut parts = vec![format!("left alone they would be {} apart", span(clock.raw_spread_us))];
    match (clock.after_convergence.or(clock.error_us), clock.converged_us) {
        (Some(error), Some(at)) => parts.push(format!(
            "{} brought them together after {}; from then on {} from {reference} (p99 {}, most {})",
            clock.algorithm,
            span(at),
            span(error.median),
            span(error.p99),
            span(error.max)
        )),
        (Some(error), None) => parts.push(format!(
            "with {} {} from {reference} (p99 {}, most {}), never all together",
            clock.algorithm,
            span(error.median),
            span(error.p99),
            span(error.max)
        )),
        (None, _) => parts.push(format!("{} never showed a time to compare", clock.algorithm)),
    }
    if let (Some(ours), Some(textbook)) = (clock.after_lock, clock.cristian_us) {
        parts.push(format!(
            "once every rate was found {} (p99 {}), where cristian would have been {} off by the same exchanges (p99 {}), \
             the best of each {}",
            span(ours.median),
            span(ours.p99),
            span(textbook.median),
            span(textbook.p99),
            cristian::TRIES
        ));
    }
    if let Some(rtt) = clock.rtt_us {
        let jitter = clock.jitter_us.map_or(String::new(), |us| format!(", jitter {}", span(us)));
        parts.push(format!("round trip {} (p99 {}{jitter})", span(rtt.median), span(rtt.p99)));
    }
    if let (Some(bound), Some(broken)) = (clock.bound_us, clock.bound_broken) {
        let kept = if broken == 0 { "never broken".to_owned() } else { format!("broken {} times", broken) };
        parts.push(format!("bound {} (p99 {}), {kept}", span(bound.median), span(bound.p99)));
    }
    parts.push(format!("{} backward steps", clock.backward_steps));
    for (source, times) in &clock.falsetickers {
        parts.push(format!("{source} was found to lie, {}", many(*times, "time")));
    }
    if let Some(doubt) = clock.tolerance_us.filter(|us| *us > 0) {
        parts.push(format!("true time between boards known to {}", span(doubt)));
    }
    paragraph(out, &ink.title("Clocks"), 6, &parts.join(" · "));
}

fn turns(out: &mut String, ink: &Ink, mutex: &MutexSection, clock: Option<&ClockSection>) {
    let waits = mutex
        .client_delay_us
        .map_or(String::new(), |delay| format!(", waited {} (p99 {})", span(delay.median), span(delay.p99)));
    let each = mutex.messages_per_entry.map_or(String::new(), |count| format!(", {count:.2} messages an entry"));
    let starved = match mutex.starved {
        0 => String::new(),
        starved => format!(", {} starved", many(starved, "request")),
    };
    let facts = format!(
        "{}: {}{waits}{each}, {} repeated, {} regenerated, {} fenced{starved}",
        mutex.algorithm,
        if mutex.entries == 1 { "1 entry".to_owned() } else { format!("{} entries", mutex.entries) },
        mutex.retransmissions,
        many(mutex.regenerated, "token"),
        many(mutex.fenced, "visit"),
    );
    paragraph(out, &ink.title("Turns taken"), 11, &facts);
    let most = mutex.by_node.values().max().copied().unwrap_or(0).max(1);
    if mutex.by_node.len() > ROWS_MAX {
        let least = mutex.by_node.values().min().copied().unwrap_or(0);
        let _ = writeln!(out, "  each of {} nodes {least} to {most} times", mutex.by_node.len());
        return;
    }
    for (node, count) in &mutex.by_node {
        let bar = "█".repeat((count * 50).div_ceil(most) as usize);
        let skew = clock.and_then(|clock| clock.skew_ppm.get(node)).and_then(|skew| skew.real);
        let skew = skew.map_or(String::new(), |ppm| format!(" {}", ink.faint(&format!("crystal {ppm:+} ppm"))));
        let _ = writeln!(out, "  {node:>5} {count:>6} {}{skew}", ink.paint("32", &bar));
    }
}

fn locks(out: &mut String, ink: &Ink, deadlock: &DeadlockSection) {
    let mut parts = vec![format!(
        "{}: {}, {} of {} requests waited",
        deadlock.strategy,
        many(deadlock.transactions, "transaction"),
        deadlock.waits,
        deadlock.requests
    )];
    if let Some(wait) = deadlock.wait_us {
        parts.push(format!("granted after {} (p99 {})", span(wait.median), span(wait.p99)));
    }
    if let Some(count) = deadlock.messages_per_transaction {
        parts.push(format!("{count:.1} messages a transaction, {} repeated", deadlock.retransmissions));
    }
    for (reason, count) in &deadlock.abandons {
        parts.push(format!("gave back {}: {count}", reason.replace('_', " ")));
    }
    parts.push(format!("{} found", many(deadlock.found.len() as u64, "deadlock")));
    paragraph(out, &ink.title("Locks"), 5, &parts.join(" · "));
    for found in deadlock.found.iter().take(ROWS_MAX) {
        let cycle: Vec<String> = found.cycle.iter().map(u16::to_string).collect();
        let after = match found.after_us {
            Some(after) => format!(", {} after it closed", span(after)),
            None => ", which never was".to_owned(),
        };
        let victim = found.victim.map_or(String::new(), |victim| format!(", {victim} gives back"));
        let _ = writeln!(out, "  {} {}: found by {}{after}{victim}", span(found.at_us), cycle.join(", "), found.by);
    }
    if deadlock.found.len() > ROWS_MAX {
        let _ = writeln!(out, "  and {} more", deadlock.found.len() - ROWS_MAX);
    }
}

fn snapshots(out: &mut String, ink: &Ink, snapshots: &[Snapshot]) {
    for snapshot in snapshots.iter().take(SNAPSHOTS_MAX) {
        let verdict = match (snapshot.aborted, snapshot.complete, snapshot.consistent) {
            (true, _, _) => "aborted: it met a crash or a change of view",
            (false, _, false) => "not a consistent cut",
            (false, false, true) => "not complete",
            (false, true, true) => "a consistent cut",
        };
        let label = format!("Snapshot {}", snapshot.id);
        let took = span(snapshot.done_us - snapshot.at_us);
        let facts = format!("at {}, took {took}: {verdict}", span(snapshot.at_us));
        paragraph(out, &ink.title(&label), label.len(), &facts);
        for (node, state) in snapshot.nodes.iter().take(ROWS_MAX) {
            let sets = [("token", &state.tokens), ("inside", &state.holds), ("wants", &state.wants)];
            let sets = sets.into_iter().filter(|(_, set)| !set.is_empty());
            let sets: Vec<String> = sets.map(|(name, set)| format!("{name} {}", set.join(" "))).collect();
            let follows = state.leader.map_or("nobody leads".to_owned(), |leader| format!("follows {leader}"));
            let _ = writeln!(out, "  {node:>5} {follows}, epoch {} {}", state.epoch, ink.paint("36", &sets.join(", ")));
        }
        let flying: Vec<String> = snapshot
            .in_flight
            .iter()
            .map(|message| format!("{} {}→{}", message.kind, message.from, message.to))
            .collect();
        if !flying.is_empty() {
            paragraph_close(out, &ink.faint("  on the way"), 12, &flying.join(", "));
        }
    }
    if snapshots.len() > SNAPSHOTS_MAX {
        let _ = writeln!(out, "  and {} more snapshots: see summary.json", snapshots.len() - SNAPSHOTS_MAX);
    }
}

fn copies(out: &mut String, ink: &Ink, cache: &CacheSection) {
    let share = cache.hit_rate.map_or(String::new(), |rate| format!(" ({:.1} % from the reader's copy)", rate * 100.0));
    let mut parts = vec![
        format!("{} of {}: {}{share}", cache.algorithm, span(cache.lease_us as i64), many(cache.reads, "read")),
        many(cache.writes, "write"),
    ];
    for (way, name) in [(cache.by_answer, "all copies were given up"), (cache.by_expiry, "a lease had to run out")] {
        if let Some(wait) = way.wait_us {
            let (median, p99) = (span(wait.median), span(wait.p99));
            parts.push(format!("{} waited {median} (p99 {p99}) where {name}", way.writes));
        }
    }
    parts.push(format!("{} repeated", cache.retransmissions));
    paragraph(out, &ink.title("Cache"), 5, &parts.join(" · "));
}

fn transactions(out: &mut String, ink: &Ink, commit: &CommitSection) {
    let took = commit
        .took_us
        .map_or(String::new(), |took| format!(", decided after {} (p99 {})", span(took.median), span(took.p99)));
    let each =
        commit.messages_per_transaction.map_or(String::new(), |count| format!(", {count:.2} messages a transaction"));
    let facts = format!(
        "{}: {} of {} committed, {} aborted, {}{took}{each}, {} repeated, {} blocked at the end",
        commit.algorithm,
        commit.committed,
        many(commit.transactions, "transaction"),
        commit.aborted,
        many(commit.refusals, "refusal"),
        commit.retransmissions,
        many(commit.blocked, "participant"),
    );
    paragraph(out, &ink.title("Transactions"), 12, &facts);
}

fn rebuilds(out: &mut String, ink: &Ink, make: &MakeSection) {
    let facts = format!(
        "{} saved, {} looked at, {} due; the {} stamps decide",
        many(make.edits, "source"),
        many(make.builds, "object"),
        make.due,
        make.decides
    );
    paragraph(out, &ink.title("Rebuilds"), 8, &facts);
    for (kind, stamps) in &make.stamps {
        let missed = format!("{:>4} missed", stamps.missed);
        let missed = if stamps.missed == 0 { missed } else { ink.paint("31", &missed) };
        let _ = writeln!(out, "  {kind:<13}{:>5} rebuilt {missed} {:>4} needless", stamps.rebuilt, stamps.needless);
    }
}

fn verdict(out: &mut String, ink: &Ink, summary: &Summary) {
    let missed: Vec<_> = summary.expectations.iter().filter(|expectation| !expectation.ok).collect();
    let line = if summary.held {
        ink.paint("1;32", "Every promise held.")
    } else {
        let broken = format!(
            "{} broken, {} missed.",
            many(summary.broken(), "promise"),
            many(missed.len() as u64, "expectation")
        );
        ink.paint("1;31", &broken)
    };
    let met = match summary.expectations.len() - missed.len() {
        0 => String::new(),
        met => format!(" {met} of {} expectations met.", summary.expectations.len()),
    };
    let _ = writeln!(out, "\n{line}{met}");
    for violation in summary.violations.iter().take(TOLD_MAX) {
        let label = ink.paint("31", &violation.property);
        let events =
            if violation.events.is_empty() { String::new() } else { format!(" [{}]", violation.events.join(", ")) };
        paragraph_close(
            out,
            &format!("  {label}"),
            2 + violation.property.chars().count(),
            &format!("at {}: {}{events}", span(violation.at_us), violation.detail),
        );
    }
    let told = summary.violations.len().min(TOLD_MAX) as u64;
    if summary.broken() > told {
        let _ = writeln!(out, "  and {} more: see summary.json", summary.broken() - told);
    }
    for expectation in missed {
        let _ = writeln!(
            out,
            "  {} wanted {}, got {}",
            ink.paint("31", &format!("expect.{}:", expectation.name)),
            expectation.wanted,
            expectation.got
        );
    }
    if !summary.held {
        let _ = writeln!(out, "  repeat it: {}", summary.repeat);
    }
    paragraph_close(out, &ink.faint("checked"), 7, &summary.checked.join(", "));
    for (partly, label) in [(true, "checked in part"), (false, "not checked")] {
        let items = summary.not_checked.iter().filter(|item| item.partly == partly);
        let undecided: Vec<String> = items
            .map(|item| {
                if item.count > 1 {
                    format!("{} ({}; {} times)", item.property, item.reason, item.count)
                } else {
                    format!("{} ({})", item.property, item.reason)
                }
            })
            .collect();
        if !undecided.is_empty() {
            paragraph_close(out, &ink.faint(label), label.len(), &undecided.join(", "));
        }
    }
}

/// A blank line, then a label and wrapped text.
fn paragraph(out: &mut String, label: &str, width: usize, text: &str) {
    out.push('\n');
    paragraph_close(out, label, width, text);
}

/// A label and wrapped text. `width` is the label's width without its colour.
fn paragraph_close(out: &mut String, label: &str, width: usize, text: &str) {
    out.push_str(label);
    let mut column = width;
    for (position, word) in text.split(' ').enumerate() {
        let gap = if position == 0 { 2 } else { 1 };
        let length = word.chars().count();
        if column + gap + length > COLUMNS && position > 0 {
            out.push_str("\n    ");
            column = 4;
        } else {
            out.push_str(&" ".repeat(gap));
            column += gap;
        }
        out.push_str(word);
        column += length;
    }
    out.push('\n');
}

/// So many of something.
#[must_use]
pub fn many(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// A span of microseconds as people say it.
#[must_use]
pub fn span(us: i64) -> String {
    let size = us.unsigned_abs();
    match size {
        0..1_000 => format!("{us} µs"),
        1_000..10_000 => format!("{:.2} ms", us as f64 / 1e3),
        10_000..1_000_000 => format!("{:.0} ms", us as f64 / 1e3),
        1_000_000..600_000_000 => format!("{:.1} s", us as f64 / 1e6),
        _ => format!("{:.0} s", us as f64 / 1e6),
    }
}
