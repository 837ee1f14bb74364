//! Comma-separated values, one event a row, quoted as RFC 4180 says.

use crate::{
    index::Trace,
    order::shiviz::Log,
    trace::{Stamp, fields_json},
};
use serde_json::{Map, Value, json};
use std::io;

/// The columns. `detail` holds the event's own fields as a JSON object.
const COLUMNS: &str = "name,node,inc,seq,lamport,vector,hw_us,cluster_us,true_us,event,detail";

/// Writes a trace, the stage's lines included.
pub(super) fn write_trace(trace: &Trace<'_>, out: &mut dyn io::Write) -> io::Result<()> {
    writeln!(out, "{COLUMNS}")?;
    for (index, event) in trace.events.iter().enumerate() {
        let of_node = event.node_id().is_some();
        let vector = |(node, (inc, count)): (u16, Stamp)| {
            (node.to_string(), if inc == 1 { json!(count) } else { json!(format!("{inc}.{count}")) })
        };
        let vector: Map<String, Value> = trace.vector(index).iter().map(vector).collect();
        let row = [
            event.name(),
            event.node.to_string(),
            event.inc.to_string(),
            event.seq.to_string(),
            if of_node { trace.lamport(index).to_string() } else { String::new() },
            if of_node { Value::from(vector).to_string() } else { String::new() },
            optional(event.hw_us),
            optional(event.cluster_us),
            optional(event.true_us),
            event.event.name().to_owned(),
            fields_json(&event.event),
        ];
        write_row(&row, out)?;
    }
    Ok(())
}

/// Writes a log: what it has of the same columns.
pub(super) fn write_log(log: &Log, out: &mut dyn io::Write) -> io::Result<()> {
    writeln!(out, "name,host,seq,vector,event")?;
    for (host, event) in log.in_file_order() {
        let name = format!("{}:{}", log.hosts[host], event.own);
        let row = [
            name,
            log.hosts[host].clone(),
            event.own.to_string(),
            log.text(&event.clock).to_owned(),
            log.text(&event.event).to_owned(),
        ];
        write_row(&row, out)?;
    }
    Ok(())
}

fn optional(number: Option<i64>) -> String {
    number.map(|number| number.to_string()).unwrap_or_default()
}

fn write_row(fields: &[String], out: &mut dyn io::Write) -> io::Result<()> {
    for (position, field) in fields.iter().enumerate() {
        if position > 0 {
            out.write_all(b",")?;
        }
        if field.contains(['"', ',', '\n', '\r']) {
            write!(out, "\"{}\"", field.replace('"', "\"\""))?;
        } else {
            out.write_all(field.as_bytes())?;
        }
    }
    out.write_all(b"\n")
}
