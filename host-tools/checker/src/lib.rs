//! Traces, the properties they must keep, and the summary.
//!
//! [`check`] judges a trace by itself, whoever wrote it; [`judge`] also knows the run behind it
//! and makes its summary; [`render`] writes that summary for a person.

mod bounds;
mod cluster;
pub mod drift;
mod entries;
mod findings;
mod index;
mod intervals;
pub mod order;
pub mod properties;
mod render;
mod setting;
pub mod snapshot;
mod starved;
pub mod summary;
pub mod trace;
mod wait_for;

pub use cluster::Cluster;
pub use entries::{Entries, Entry};
pub use findings::{Findings, NotChecked, Violation};
pub use index::Trace;
pub use properties::{CheckReport, check};
pub use render::{many, render, span};
pub use setting::{Setting, scenario_event, scenario_event_begun};
pub use summary::{NetworkStats, RunInfo, Summary, judge};
pub use trace::{Event, Fault, NodeRef, TraceError, TraceEvent};
pub use wait_for::{Circle, Edge, WaitFor};
