//! Traces in the formats of other tools.

mod csv;
mod perfetto;
mod shiviz;
mod spans;
mod vcd;

use super::{Form, Unread, is_log, shiviz::Log};
use crate::{
    index::Trace,
    trace::{Event, TraceError, fields_json, read_file},
};
use serde_json::{Map, Value};
use std::{fmt, io, path::Path};

/// A format of another tool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// ShiViz: a space-time diagram in the browser.
    Shiviz,
    /// Trace Event JSON, for ui.perfetto.dev.
    Perfetto,
    /// Comma-separated values, one event a row.
    Csv,
    /// Value Change Dump, for a waveform viewer such as GTKWave.
    Vcd,
}

/// What was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exported {
    /// Events of the trace.
    pub events: u64,
    /// Which clock the times come from, where the format has times.
    pub clock: Option<&'static str>,
    /// Lines of a log without an event.
    pub unread: Unread,
}

/// Why nothing, or not everything, was written.
#[derive(Debug)]
pub enum ExportError {
    /// The trace cannot be read, or has not what the format needs.
    Trace(TraceError),
    /// The output cannot be written.
    Output(io::Error),
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExportError::Trace(error) => error.fmt(f),
            ExportError::Output(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ExportError {}

impl From<TraceError> for ExportError {
    fn from(error: TraceError) -> ExportError {
        ExportError::Trace(error)
    }
}

impl From<io::Error> for ExportError {
    fn from(error: io::Error) -> ExportError {
        ExportError::Output(error)
    }
}

/// Writes a trace in another format.
///
/// # Errors
/// One line: the trace cannot be read or lacks what the format needs, or the output fails.
pub fn export(path: &Path, format: Format, form: &Form, out: &mut dyn io::Write) -> Result<Exported, ExportError> {
    let refused = |message: String| TraceError { file: path.display().to_string(), line: 0, message };
    if is_log(path, form)? {
        let log = Log::read(path, form)?;
        let events = log.events.iter().map(|events| events.len() as u64).sum();
        match format {
            Format::Shiviz => shiviz::write_log(&log, out)?,
            Format::Csv => csv::write_log(&log, out)?,
            Format::Perfetto | Format::Vcd => {
                let message = "a ShiViz log has no times: expected a trace of JSON lines, or --format shiviz or csv";
                return Err(refused(message.to_owned()).into());
            }
        }
        return Ok(Exported { events, clock: None, unread: log.unread });
    }
    let events = read_file(path)?;
    let trace = Trace::new(&events, None);
    let clock = match format {
        Format::Shiviz => {
            shiviz::write_trace(&trace, &refused, out)?;
            None
        }
        Format::Csv => {
            csv::write_trace(&trace, out)?;
            None
        }
        Format::Perfetto => Some(perfetto::write(&trace, out)?),
        Format::Vcd => Some(vcd::write(&trace, out)?),
    };
    Ok(Exported { events: events.len() as u64, clock: clock.map(spans::Clock::as_str), unread: Unread::default() })
}

/// An event's own fields.
fn fields(event: &Event) -> Map<String, Value> {
    match serde_json::from_str(&fields_json(event)) {
        Ok(Value::Object(map)) => map,
        Ok(_) | Err(_) => Map::new(), // What the trace's writer makes of an event is an object.
    }
}

/// An event in one line for a person: `send to=1 kind=token id=9`.
fn described(event: &Event) -> String {
    let mut text = event.name().to_owned();
    for (key, value) in fields(event) {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        text.push_str(&format!(" {key}={value}"));
    }
    text.replace(['\n', '\r'], " ")
}
