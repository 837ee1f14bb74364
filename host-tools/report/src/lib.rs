//! A run as one self-contained HTML file: a space-time diagram, the clocks, the tables, what was broken.
//!
//! Nothing is fetched: style, script and data stand in the file. What is too much to draw is counted and said.

mod data;
mod page;

pub use data::{MARKS_MAX, MESSAGES_MAX, VISITS_MAX};

use compasso_checker::TraceEvent;
use serde_json::Value;

/// Writes the report of a run from its trace and its summary.
#[must_use]
pub fn report(trace: &[TraceEvent], summary: &Value) -> String {
    page::write(summary, &data::collect(trace, summary))
}
