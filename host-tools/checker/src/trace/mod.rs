//! The trace: JSON Lines, one event a line, in the order collected.

mod event;
mod from_node;
mod read;
mod vector;
mod write;

pub use event::{DEFAULT_RESOURCE, Event, Fault, HOST, NodeRef, Text, TraceEvent};
pub use read::{TraceError, parse_line, read_file, read_trace};
pub use vector::{Stamp, Vector};
pub use write::{write_line, write_trace};
