//! Reading a trace, ours or another's. Whatever is wrong with it is one line: file, line, what.

use super::{
    event::{Brace, Certain, Course, DEFAULT_RESOURCE, Event, Fault, NodeRef, Text, TraceEvent, host_name},
    vector::{Stamp, Vector},
};
use compasso_scenario::hosts::Lie;
use compasso_wire::{NodeId, limits::HOSTS_MAX};
use serde_json::{Map, Value};
use std::{
    fmt,
    io::{BufRead, BufReader, Read},
    path::Path,
};

/// No line of a trace is longer, in bytes.
const LINE_MAX: u64 = 1 << 20;

/// Why a trace cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceError {
    /// The file as the user named it.
    pub file: String,
    /// The line, from 1; 0 when the file as a whole is meant.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.message),
            line => write!(f, "{}:{line}: {}", self.file, self.message),
        }
    }
}

impl std::error::Error for TraceError {}

/// Reads a trace file.
///
/// # Errors
/// One line that names the file, the line and what is wrong.
pub fn read_file(path: impl AsRef<Path>) -> Result<Vec<TraceEvent>, TraceError> {
    let path = path.as_ref();
    let file = path.display().to_string();
    let opened = std::fs::File::open(path).map_err(|error| TraceError {
        file: file.clone(),
        line: 0,
        message: format!("cannot be read: {error}"),
    })?;
    read_trace(BufReader::new(opened), &file)
}

/// Reads a trace; `file` is what errors call it.
///
/// # Errors
/// One line that names the file, the line and what is wrong.
pub fn read_trace(input: impl BufRead, file: &str) -> Result<Vec<TraceEvent>, TraceError> {
    let mut events = Vec::new();
    each_line(input, file, |line| {
        events.push(parse_line(line)?);
        Ok(())
    })?;
    Ok(events)
}

/// Hands over every line that is not blank, one at a time, so that a reader keeps only what it
/// needs; `file` is what errors call the input.
///
/// # Errors
/// One line that names the file, the line and what is wrong; also if there is no line at all.
pub(crate) fn each_line(
    mut input: impl BufRead,
    file: &str,
    mut read_line: impl FnMut(&str) -> Result<(), String>,
) -> Result<(), TraceError> {
    let mut any = false;
    let mut bytes = Vec::new();
    for line in 1.. {
        let wrong = |message: String| TraceError { file: file.to_owned(), line, message };
        bytes.clear();
        let read = (&mut input).take(LINE_MAX).read_until(b'\n', &mut bytes);
        if read.map_err(|error| wrong(format!("cannot be read: {error}")))? == 0 {
            break;
        }
        if bytes.len() as u64 == LINE_MAX {
            return Err(wrong(format!("expected lines of at most {LINE_MAX} bytes")));
        }
        let text = std::str::from_utf8(&bytes)
            .map_err(|_| wrong("expected a text file of JSON lines, found binary data".to_owned()))?;
        if text.trim().is_empty() {
            continue;
        }
        any = true;
        read_line(text).map_err(|message| {
            let cut = if bytes.ends_with(b"\n") { "" } else { " (the file ends in the middle of a line)" };
            wrong(format!("{message}{cut}"))
        })?;
    }
    if any {
        return Ok(());
    }
    Err(TraceError { file: file.to_owned(), line: 0, message: "expected at least one event, found none".to_owned() })
}

/// Reads one event.
///
/// # Errors
/// What is wrong with the line.
pub fn parse_line(line: &str) -> Result<TraceEvent, String> {
    let value: Value = serde_json::from_str(line).map_err(|error| {
        let what = error.to_string();
        let what = what.split(" at line ").next().unwrap_or_default().to_owned();
        format!("expected one JSON object a line: {what} at column {}", error.column())
    })?;
    let Value::Object(mut map) = value else { return Err("expected a JSON object".to_owned()) };
    let node = match map.get("node") {
        Some(Value::String(name)) if name == "stage" => NodeRef::Stage,
        Some(value) => {
            let id = value.as_u64().and_then(|id| u16::try_from(id).ok());
            NodeRef::Node(id.ok_or("node: expected a node's number or \"stage\"")?)
        }
        None => return Err("node: missing".to_owned()),
    };
    let event = event(&mut map, node)?;
    Ok(TraceEvent {
        node,
        seq: required(&map, "seq", Value::as_u64)?,
        inc: if node == NodeRef::Stage { 1 } else { incarnation(&map, "inc")? },
        lamport: optional(&map, "lamport", Value::as_u64)?,
        vector: map.get("vector").filter(|value| !value.is_null()).map(vector).transpose()?,
        hw_us: optional(&map, "hw_us", as_us)?,
        cluster_us: optional(&map, "cluster_us", as_us)?,
        true_us: optional(&map, "true_us", as_us)?,
        event,
    })
}

const STAMPS: [&str; 9] = ["node", "seq", "inc", "lamport", "vector", "hw_us", "cluster_us", "true_us", "event"];

fn event(map: &mut Map<String, Value>, node: NodeRef) -> Result<Event, String> {
    let name = required(map, "event", |value| value.as_str().map(str::to_owned))?;
    Ok(match name.as_str() {
        "boot" => Event::Boot { incarnation: incarnation(map, "incarnation")? },
        "send" => Event::Send {
            to: id(map, "to")?,
            kind: text(map, "kind")?,
            id: required(map, "id", Value::as_u64)?,
            again: optional(map, "again", Value::as_bool)?.unwrap_or(false),
        },
        "recv" => Event::Recv {
            from: id(map, "from")?,
            kind: text(map, "kind")?,
            id: required(map, "id", Value::as_u64)?,
            from_inc: incarnation(map, "from_inc")?,
        },
        "drop" => Event::Drop { from: optional(map, "from", as_id)?, reason: text(map, "reason")? },
        "request" => Event::Request { resource: resource(map)? },
        "cs_enter" => Event::CsEnter {
            resource: resource(map)?,
            fence: fence(map)?,
            lease_us: optional(map, "lease_us", Value::as_u64)?,
        },
        "cs_renew" => Event::CsRenew {
            resource: resource(map)?,
            fence: fence(map)?,
            lease_us: required(map, "lease_us", Value::as_u64)?,
        },
        "cs_exit" => Event::CsExit { resource: resource(map)?, fence: fence(map)? },
        "fenced" => Event::Fenced { resource: resource(map)?, fence: fence(map)? },
        "election_start" => Event::ElectionStart { term: optional(map, "term", Value::as_u64)?.unwrap_or(0) },
        "leader" => Event::Leader { id: id(map, "id")?, term: required(map, "term", Value::as_u64)? },
        "view" => Event::View {
            term: required(map, "term", Value::as_u64)?,
            number: required(map, "number", Value::as_u64)?,
            epoch: optional(map, "epoch", Value::as_u64)?,
            members: required(map, "members", as_ids)?,
        },
        "suspect" => Event::Suspect { id: id(map, "id")? },
        "trust" => Event::Trust { id: id(map, "id")? },
        "sync" => Event::Sync {
            offset_us: required(map, "offset_us", Value::as_i64)?,
            rtt_us: required(map, "rtt_us", Value::as_u64)?,
            error_us: required(map, "error_us", Value::as_u64)?,
            bound_us: optional(map, "bound_us", Value::as_u64)?,
            source: optional(map, "source", as_source)?,
            course: course(map)?,
        },
        "token" => Event::Token {
            resource: resource(map)?,
            epoch: required(map, "epoch", Value::as_u64)?,
            serial: required(map, "serial", Value::as_u64)?,
        },
        "token_regenerated" => {
            Event::TokenRegenerated { resource: resource(map)?, epoch: required(map, "epoch", Value::as_u64)? }
        }
        "token_dropped" => {
            Event::TokenDropped { resource: resource(map)?, epoch: required(map, "epoch", Value::as_u64)? }
        }
        "wait" => Event::Wait {
            on: required(map, "for", |value| as_ids(value).or_else(|| as_id(value).map(|id| vec![id])))?,
            resource: map.contains_key("resource").then(|| resource(map)).transpose()?,
        },
        "withdraw" => Event::Withdraw { resource: resource(map)? },
        "deadlock" => {
            Event::Deadlock { cycle: required(map, "cycle", as_ids)?, victim: optional(map, "victim", as_id)? }
        }
        "abandon" => Event::Abandon { reason: text(map, "reason")? },
        "snapshot" => Event::Snapshot {
            id: required(map, "id", Value::as_u64)?,
            leader: optional(map, "leader", as_id)?,
            epoch: optional(map, "epoch", Value::as_u64)?.unwrap_or(0),
            tokens: texts(map, "tokens")?,
            holds: texts(map, "holds")?,
            wants: texts(map, "wants")?,
        },
        "snapshot_message" => Event::SnapshotMessage {
            id: required(map, "id", Value::as_u64)?,
            from: id(map, "from")?,
            kind: text(map, "kind")?,
            token: match optional(map, "epoch", Value::as_u64)? {
                Some(epoch) => Some((resource(map)?, epoch)),
                None => None,
            },
        },
        "snapshot_done" => Event::SnapshotDone { id: required(map, "id", Value::as_u64)? },
        "snapshot_aborted" => Event::SnapshotAborted { id: required(map, "id", Value::as_u64)? },
        "label" => Event::Label { text: text(map, "text")? },
        "falseticker" => Event::Falseticker {
            source: required(map, "source", as_source)?,
            lies: required(map, "lies", Value::as_bool)?,
        },
        "utc" => Event::Utc {
            seconds: required(map, "seconds", Value::as_i64)?,
            leap: optional(map, "leap", Value::as_bool)?.unwrap_or(false),
        },
        "temperature" => Event::Temperature { milli_celsius: required(map, "milli_celsius", Value::as_i64)? },
        "read" => Event::Read {
            version: required(map, "version", Value::as_u64)?,
            cached: optional(map, "cached", Value::as_bool)?.unwrap_or(false),
        },
        "writing" => Event::Writing { version: required(map, "version", Value::as_u64)? },
        "written" => Event::Written {
            version: required(map, "version", Value::as_u64)?,
            expired: optional(map, "expired", Value::as_bool)?.unwrap_or(false),
        },
        "transaction" => Event::Transaction {
            transaction: required(map, "transaction", Value::as_u64)?,
            participants: required(map, "participants", as_ids)?,
        },
        "voted" => Event::Voted {
            transaction: required(map, "transaction", Value::as_u64)?,
            yes: required(map, "yes", Value::as_bool)?,
        },
        "decided" => Event::Decided {
            transaction: required(map, "transaction", Value::as_u64)?,
            commit: required(map, "commit", Value::as_bool)?,
        },
        "edited" => Event::Edited { file: text(map, "file")? },
        "built" => Event::Built {
            file: text(map, "file")?,
            source: id(map, "source")?,
            source_inc: incarnation(map, "source_inc")?,
            edit: required(map, "edit", Value::as_u64)?,
            raw: required(map, "raw", Value::as_bool)?,
            synchronized: optional(map, "synchronized", Value::as_bool)?,
            logical: required(map, "logical", Value::as_bool)?,
        },
        "overflow" => Event::Overflow { queue: text(map, "queue")?, count: required(map, "count", Value::as_u64)? },
        "request_refused" => {
            Event::RequestRefused { resource: resource(map)?, wanted: required(map, "wanted", Value::as_u64)? }
        }
        "gap" => Event::Gap {
            of: id(map, "of")?,
            inc: incarnation(map, "inc")?,
            missed: required(map, "missed", Value::as_u64)?,
        },
        "fault" => Event::Fault(fault(rest(map))?),
        "scenario" if node == NodeRef::Stage => Event::Scenario(rest(map)),
        "end" if node == NodeRef::Stage => Event::End,
        _ => Event::Other { name, fields: rest(map) },
    })
}

fn rest(map: &Map<String, Value>) -> Map<String, Value> {
    map.iter()
        .filter(|(key, _)| !STAMPS.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

fn fault(map: Map<String, Value>) -> Result<Fault, String> {
    let Some((name, value)) = map.iter().next() else { return Err("fault: expected what was done".to_owned()) };
    let node = || as_id(value).ok_or_else(|| format!("{name}: expected a node's number, found {value}"));
    Ok(match name.as_str() {
        "crash" => Fault::Crash(node()?),
        "restart" => Fault::Restart(node()?),
        "pause" => Fault::Pause(node()?),
        "resume" => Fault::Resume(node()?),
        "heal" => Fault::Heal,
        "drop_token" => Fault::DropToken,
        "partition" => {
            let sides = value.as_array().and_then(|sides| sides.iter().map(as_ids).collect());
            Fault::Partition(sides.ok_or_else(|| format!("partition: expected lists of nodes, found {value}"))?)
        }
        "leap" => Fault::Leap(value.as_i64().ok_or_else(|| format!("leap: expected 1 or -1, found {value}"))?),
        "time_server" => {
            let host = value.get("host").and_then(as_host);
            let serves = if host.is_some() { value.get("serves").and_then(Value::as_bool) } else { value.as_bool() };
            let wrong = || format!("time_server: expected true or false, or host and serves, found {value}");
            Fault::TimeServer { host, serves: serves.ok_or_else(wrong)? }
        }
        "lie" => {
            let (host, by_us) = (value.get("host").and_then(as_host), value.get("by_us").and_then(as_us));
            let (Some(host), Some(by_us), Some(ppm)) = (host, by_us, value.get("ppm").and_then(Value::as_f64)) else {
                return Err(format!("lie: expected host, by_us and ppm, found {value}"));
            };
            Fault::Lie { host, lie: Lie { by_us, ppm } }
        }
        "set_skew" => {
            let node = value.get("node").and_then(as_id);
            let ppm = value.get("ppm").and_then(Value::as_f64);
            let (Some(node), Some(ppm)) = (node, ppm) else {
                return Err(format!("set_skew: expected node and ppm, found {value}"));
            };
            Fault::SetSkew { node, ppm }
        }
        _ => Fault::Other(map),
    })
}

pub(crate) fn vector(value: &Value) -> Result<Vector, String> {
    let wrong = || format!("vector: expected entries like \"3\":17 or \"3\":\"2.17\", found {value}");
    let map = value.as_object().ok_or_else(wrong)?;
    map.iter()
        .map(|(node, entry)| Some((node.parse().ok()?, stamp(entry)?)))
        .collect::<Option<Vector>>()
        .ok_or_else(wrong)
}

fn stamp(entry: &Value) -> Option<Stamp> {
    match entry {
        Value::String(text) => {
            let (inc, count) = text.split_once('.')?;
            Some((inc.parse().ok().filter(|inc| *inc > 0)?, count.parse().ok()?))
        }
        _ => entry.as_u64().map(|count| (1, count)),
    }
}

/// A time; farther from zero than the 285 years that a JSON number holds exactly, it is none.
fn as_us(value: &Value) -> Option<i64> {
    value.as_i64().filter(|us| us.unsigned_abs() <= 1 << 53)
}

fn as_id(value: &Value) -> Option<u16> {
    value.as_u64().and_then(|id| u16::try_from(id).ok())
}

/// Whom a clock was compared with: a node, or a host.
fn as_source(value: &Value) -> Option<u16> {
    let Some(name) = value.as_str() else { return as_id(value) };
    (0..HOSTS_MAX).find(|number| host_name(*number) == name).map(|number| NodeId::host(number).0)
}

/// The number of a host.
fn as_host(value: &Value) -> Option<u8> {
    value.as_u64().filter(|number| *number < HOSTS_MAX as u64).map(|number| number as u8)
}

fn as_ids(value: &Value) -> Option<Vec<u16>> {
    value.as_array()?.iter().map(as_id).collect()
}

/// What a disciplined clock claims; older traces tell less of it.
fn course(map: &Map<String, Value>) -> Result<Option<Course>, String> {
    let Some(rate_ppb) = optional(map, "rate_ppb", as_claim)? else { return Ok(None) };
    let number = |key: &str| required(map, key, as_claim);
    let brace = optional(map, "leap_ppb", as_width)?
        .map(|leap_ppb| {
            let (behind_us, ahead_us) = (number("braced_behind_us")?, number("braced_ahead_us")?);
            Ok::<_, String>(Brace { behind_us, ahead_us, leap_ppb })
        })
        .transpose()?;
    let certain = optional(map, "certain_ppb", as_width)?
        .map(|ppb| {
            let (behind_us, ahead_us) = (number("certain_behind_us")?, number("certain_ahead_us")?);
            Ok::<_, String>(Certain { behind_us, ahead_us, ppb })
        })
        .transpose()?;
    Ok(Some(Course {
        rate_ppb,
        behind_us: number("behind_us")?,
        ahead_us: number("ahead_us")?,
        slow_ppb: number("slow_ppb")?,
        fast_ppb: number("fast_ppb")?,
        locked: required(map, "locked", Value::as_bool)?,
        brace,
        certain,
    }))
}

/// A number that a clock can claim: boards tell none that needs more than 32 bits.
fn as_claim(value: &Value) -> Option<i64> {
    value.as_i64().filter(|number| number.unsigned_abs() <= u32::MAX.into())
}

/// The same, of what is never negative.
fn as_width(value: &Value) -> Option<i64> {
    as_claim(value).filter(|number| *number >= 0)
}

fn required<T>(map: &Map<String, Value>, key: &str, read: impl Fn(&Value) -> Option<T>) -> Result<T, String> {
    optional(map, key, read)?.ok_or_else(|| format!("{key}: missing"))
}

fn optional<T>(map: &Map<String, Value>, key: &str, read: impl Fn(&Value) -> Option<T>) -> Result<Option<T>, String> {
    match map.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => read(value).map(Some).ok_or_else(|| format!("{key}: unexpected value {value}")),
    }
}

fn id(map: &Map<String, Value>, key: &str) -> Result<u16, String> {
    required(map, key, as_id)
}

fn text(map: &Map<String, Value>, key: &str) -> Result<Text, String> {
    required(map, key, |value| value.as_str().map(|text| Text::Owned(text.to_owned())))
}

fn texts(map: &Map<String, Value>, key: &str) -> Result<Vec<Text>, String> {
    let as_texts = |value: &Value| -> Option<Vec<Text>> {
        value.as_array()?.iter().map(|item| Some(Text::Owned(item.as_str()?.to_owned()))).collect()
    };
    Ok(optional(map, key, as_texts)?.unwrap_or_default())
}

fn resource(map: &Map<String, Value>) -> Result<Text, String> {
    Ok(optional(map, "resource", |value| value.as_str().map(|text| Text::Owned(text.to_owned())))?
        .unwrap_or(Text::Borrowed(DEFAULT_RESOURCE)))
}

/// Traces from elsewhere may have no fences: 0 then, and nothing is concluded from it.
fn fence(map: &Map<String, Value>) -> Result<u64, String> {
    Ok(optional(map, "fence", Value::as_u64)?.unwrap_or(0))
}

fn incarnation(map: &Map<String, Value>, key: &str) -> Result<u32, String> {
    let read = |value: &Value| value.as_u64().and_then(|inc| u32::try_from(inc).ok()).filter(|inc| *inc > 0);
    Ok(optional(map, key, read)?.unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::write_line;

    #[test]
    fn the_example_of_the_interface_reads_and_writes_back_byte_by_byte() {
        for line in [
            r#"{"node":3,"seq":17,"lamport":41,"vector":{"0":4,"3":17},"hw_us":1203344,"cluster_us":1203001,"true_us":1203007,"event":"cs_enter","resource":"cs","fence":4294967297,"lease_us":900000}"#,
            r#"{"node":3,"seq":1,"inc":2,"lamport":41,"vector":{"0":4,"3":"2.1"},"event":"boot","incarnation":2}"#,
            r#"{"node":3,"seq":2,"event":"recv","from":1,"kind":"token","id":9,"from_inc":2}"#,
            r#"{"node":3,"seq":3,"event":"send","to":1,"kind":"token","id":9,"again":true}"#,
            r#"{"node":"stage","seq":1,"true_us":0,"event":"scenario","name":"x","ids":[0,1]}"#,
            r#"{"node":"stage","seq":2,"true_us":5,"event":"fault","partition":[[0,1],[2]]}"#,
            r#"{"node":"stage","seq":3,"true_us":5,"event":"fault","set_skew":{"node":1,"ppm":-4.5}}"#,
            r#"{"node":"stage","seq":3,"true_us":5,"event":"fault","time_server":false}"#,
            r#"{"node":"stage","seq":3,"true_us":5,"event":"fault","time_server":{"host":2,"serves":true}}"#,
            r#"{"node":"stage","seq":3,"true_us":5,"event":"fault","lie":{"host":1,"by_us":-80000,"ppm":200.0}}"#,
            r#"{"node":3,"seq":4,"event":"falseticker","source":"host-1","lies":true}"#,
            r#"{"node":3,"seq":4,"event":"sync","offset_us":-3,"rtt_us":400,"error_us":200,"source":"host-2"}"#,
            r#"{"node":"stage","seq":4,"true_us":5,"event":"gap","of":3,"inc":2,"missed":12}"#,
            r#"{"node":0,"seq":4,"event":"deadlock","cycle":[0,1],"victim":1}"#,
        ] {
            let event = parse_line(line).expect(line);
            let mut out = String::new();
            write_line(&event, &mut out);
            assert_eq!(out.trim_end(), line);
        }
    }

    #[test]
    fn whatever_is_wrong_is_one_line_with_file_and_line() {
        let good = "{\"node\":0,\"seq\":1,\"event\":\"boot\"}\n";
        let error = |bytes: &[u8]| read_trace(bytes, "t.jsonl").expect_err("must be refused").to_string();
        let cut = error(format!("{good}{{\"node\":0,\"seq\":2,\"eve").as_bytes());
        assert!(
            cut.starts_with("t.jsonl:2: expected one JSON object a line: EOF") && cut.contains("middle of a line"),
            "{cut}"
        );
        assert!(error(&[0x7f, b'E', b'L', b'F', 0xff, 0xfe]).contains("t.jsonl:1: expected a text file"));
        assert!(error(&[0, 1, 2, 3]).starts_with("t.jsonl:1: "));
        let claim = r#"{"node":0,"seq":1,"event":"sync","offset_us":0,"rtt_us":9,"error_us":5,"rate_ppb":0,"behind_us":5,"ahead_us":5,"slow_ppb":0,"fast_ppb":0,"locked":true,"leap_ppb":1,"braced_behind_us":1,"braced_ahead_us":1,"certain_ppb":9,"certain_behind_us":5,"certain_ahead_us":5}"#;
        assert!(parse_line(claim).is_ok(), "{:?}", parse_line(claim));
        for (field, wild) in [("\"behind_us\":5", "9223372036854775807"), ("\"certain_ppb\":9", "-1")] {
            let key = field.split(':').next().unwrap_or_default();
            let refused = error(format!("{}\n", claim.replace(field, &format!("{key}:{wild}"))).as_bytes());
            assert_eq!(refused, format!("t.jsonl:1: {}: unexpected value {wild}", key.trim_matches('"')));
        }
        assert_eq!(error(b""), "t.jsonl: expected at least one event, found none");
        assert_eq!(error(b"[]\n"), "t.jsonl:1: expected a JSON object");
        assert_eq!(
            error(b"{\"node\":0,\"seq\":1,\"event\":\"send\",\"to\":1,\"kind\":\"x\"}\n"),
            "t.jsonl:1: id: missing"
        );
        assert_eq!(
            error(b"{\"node\":-1,\"seq\":1,\"event\":\"boot\"}\n"),
            "t.jsonl:1: node: expected a node's number or \"stage\""
        );
        assert_eq!(error(b"{\"node\":1,\"event\":\"boot\"}\n"), "t.jsonl:1: seq: missing");
        for text in [error(b"{\"node\":1,\"seq\":1,\"vector\":{\"0\":\"x\"},\"event\":\"boot\"}"), cut] {
            assert_eq!(text.lines().count(), 1, "{text}");
        }
    }
}
