//! `compasso check`: the same judgement on a recorded trace.

use crate::{
    cli::CheckArgs,
    outcome::{Outcome, Talk},
};
use compasso_checker::{check as judge, trace::read_file};
use serde_json::json;

/// Judges a trace.
pub fn check(args: &CheckArgs) -> Outcome {
    let talk = Talk { json: args.json, quiet: args.quiet };
    let events = match read_file(&args.trace) {
        Ok(events) => events,
        Err(error) => return talk.fail(Outcome::BadInput, &error.to_string()),
    };
    let report = judge(&events);
    talk.document(&json!(report));
    for violation in &report.violations {
        let events = violation.events.join(", ");
        talk.show(&format!("violated     {}: {} ({events})", violation.property, violation.detail));
    }
    if !talk.quiet {
        for not_checked in &report.not_checked {
            talk.show(&format!("not checked  {}: {}", not_checked.property, not_checked.reason));
        }
    }
    let properties = report.checked.join(", ");
    if report.violations.is_empty() {
        talk.show(&format!("held         {} events; checked: {properties}", report.events));
        Outcome::Held
    } else {
        talk.show(&format!("{} violations in {} events", report.violations.len(), report.events));
        Outcome::Violated
    }
}
