//! The trace: JSON Lines, one event a line, in the order collected.

mod event;
mod from_node;
mod read;
mod vector;
mod write;

pub use event::{
    Brace, Certain, Course, DEFAULT_RESOURCE, Event, Fault, HOST, NodeRef, Text, TraceEvent, host_name, is_host,
};
pub use read::{TraceError, parse_line, read_file, read_trace};
pub(crate) use read::{each_line, vector};
pub use vector::{Stamp, Vector};
pub(crate) use write::fields_json;
pub use write::{write_line, write_trace};
