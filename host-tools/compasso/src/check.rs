//! `compasso check`: the same judgement on a recorded trace.

use crate::{
    cli::CheckArgs,
    outcome::{Outcome, Talk},
};
use compasso_checker::{
    TraceError, TraceEvent, check as judge, many,
    trace::{read_file, read_trace},
};
use serde_json::json;
use std::{io, path::Path};

/// Judges a trace.
pub fn check(args: &CheckArgs) -> Outcome {
    let talk = Talk { json: args.json, quiet: args.quiet };
    let events = match read(&args.trace) {
        Ok(events) => events,
        Err(error) => return talk.fail(Outcome::BadInput, &error.to_string()),
    };
    let report = judge(&events);
    talk.document(&json!(report));
    for violation in &report.violations {
        let events = violation.events.join(", ");
        talk.show(&format!("violated     {}: {} ({events})", violation.property, violation.detail));
    }
    for (property, count) in &report.untold {
        talk.show(&format!("violated     {property}: {count} more"));
    }
    if !talk.quiet {
        for item in &report.not_checked {
            let label = if item.partly { "in part" } else { "not checked" };
            let cases = if item.count > 1 { format!(" ({} cases)", item.count) } else { String::new() };
            talk.show(&format!("{label:<12} {}: {}{cases}", item.property, item.reason));
        }
    }
    let (events, properties) = (many(report.events as u64, "event"), report.checked.join(", "));
    if report.broken() > 0 {
        talk.show(&format!("{} in {events}", many(report.broken(), "violation")));
        Outcome::Violated
    } else if report.checked.is_empty() {
        talk.show(&format!("nothing      could be checked in {events}"));
        Outcome::Held
    } else {
        talk.show(&format!("held         {events}; checked: {properties}"));
        Outcome::Held
    }
}

/// Reads a file, or what comes in where the file is `-`.
fn read(path: &Path) -> Result<Vec<TraceEvent>, TraceError> {
    if path == Path::new("-") { read_trace(io::stdin().lock(), "stdin") } else { read_file(path) }
}
