//! Writing a trace: one field order, so that the same run gives the same bytes.

use super::event::{DEFAULT_RESOURCE, Event, Fault, NodeRef, Text, TraceEvent, host_name};
use compasso_wire::NodeId;
use serde_json::{Map, Value};
use std::{fmt::Write as _, io};

/// Appends one event as one line, newline included.
pub fn write_line(event: &TraceEvent, out: &mut String) {
    out.push('{');
    match event.node {
        NodeRef::Node(id) => number(out, "node", id),
        NodeRef::Stage => text(out, "node", "stage"),
    }
    number(out, "seq", event.seq);
    if event.inc != 1 {
        number(out, "inc", event.inc);
    }
    optional(out, "lamport", event.lamport);
    if let Some(vector) = &event.vector {
        key(out, "vector");
        out.push('{');
        for (position, (node, (inc, count))) in vector.iter().enumerate() {
            let comma = if position == 0 { "" } else { "," };
            let _ = if inc == 1 {
                write!(out, "{comma}\"{node}\":{count}")
            } else {
                write!(out, "{comma}\"{node}\":\"{inc}.{count}\"")
            };
        }
        out.push('}');
    }
    optional(out, "hw_us", event.hw_us);
    optional(out, "cluster_us", event.cluster_us);
    optional(out, "true_us", event.true_us);
    text(out, "event", event.event.name());
    fields(out, &event.event);
    out.push_str("}\n");
}

/// Writes a whole trace.
///
/// # Errors
/// Those of the writer.
pub fn write_trace<'a>(events: impl IntoIterator<Item = &'a TraceEvent>, out: &mut impl io::Write) -> io::Result<()> {
    let mut buffer = String::new();
    for event in events {
        write_line(event, &mut buffer);
        if buffer.len() > 1 << 16 {
            out.write_all(buffer.as_bytes())?;
            buffer.clear();
        }
    }
    out.write_all(buffer.as_bytes())
}

/// An event's own fields as one JSON object.
pub(crate) fn fields_json(event: &Event) -> String {
    let mut out = "{".to_owned();
    fields(&mut out, event);
    out.push('}');
    out
}

fn fields(out: &mut String, event: &Event) {
    match event {
        Event::Boot { incarnation } => number(out, "incarnation", incarnation),
        Event::Send { to, kind, id, again } => {
            number(out, "to", to);
            text(out, "kind", kind);
            number(out, "id", id);
            if *again {
                number(out, "again", true);
            }
        }
        Event::Recv { from, kind, id, from_inc } => {
            number(out, "from", from);
            text(out, "kind", kind);
            number(out, "id", id);
            if *from_inc != 1 {
                number(out, "from_inc", from_inc);
            }
        }
        Event::Drop { from, reason } => {
            optional(out, "from", *from);
            text(out, "reason", reason);
        }
        Event::Request { resource } => text(out, "resource", resource),
        Event::CsEnter { resource, fence, lease_us } => {
            text(out, "resource", resource);
            number(out, "fence", fence);
            optional(out, "lease_us", *lease_us);
        }
        Event::CsRenew { resource, fence, lease_us } => {
            text(out, "resource", resource);
            number(out, "fence", fence);
            number(out, "lease_us", lease_us);
        }
        Event::CsExit { resource, fence } | Event::Fenced { resource, fence } => {
            text(out, "resource", resource);
            number(out, "fence", fence);
        }
        Event::ElectionStart { term } => number(out, "term", term),
        Event::Leader { id, term } => {
            number(out, "id", id);
            number(out, "term", term);
        }
        Event::View { term, number: view, epoch, members } => {
            number(out, "term", term);
            number(out, "number", view);
            optional(out, "epoch", *epoch);
            ids(out, "members", members);
        }
        Event::Suspect { id } | Event::Trust { id } => number(out, "id", id),
        Event::Sync { offset_us, rtt_us, error_us, bound_us, source, course } => {
            number(out, "offset_us", offset_us);
            number(out, "rtt_us", rtt_us);
            number(out, "error_us", error_us);
            optional(out, "bound_us", *bound_us);
            if let Some(id) = source {
                source_of(out, *id);
            }
            if let Some(course) = course {
                number(out, "rate_ppb", course.rate_ppb);
                number(out, "behind_us", course.behind_us);
                number(out, "ahead_us", course.ahead_us);
                number(out, "slow_ppb", course.slow_ppb);
                number(out, "fast_ppb", course.fast_ppb);
                number(out, "locked", course.locked);
                if let Some(brace) = course.brace {
                    number(out, "braced_behind_us", brace.behind_us);
                    number(out, "braced_ahead_us", brace.ahead_us);
                    number(out, "leap_ppb", brace.leap_ppb);
                }
                if let Some(certain) = course.certain {
                    number(out, "certain_behind_us", certain.behind_us);
                    number(out, "certain_ahead_us", certain.ahead_us);
                    number(out, "certain_ppb", certain.ppb);
                }
            }
        }
        Event::Token { resource, epoch, serial } => {
            number(out, "epoch", epoch);
            number(out, "serial", serial);
            special(out, resource);
        }
        Event::TokenRegenerated { resource, epoch } | Event::TokenDropped { resource, epoch } => {
            number(out, "epoch", epoch);
            special(out, resource);
        }
        Event::Wait { on, resource } => {
            ids(out, "for", on);
            if let Some(resource) = resource {
                text(out, "resource", resource);
            }
        }
        Event::Withdraw { resource } => text(out, "resource", resource),
        Event::Deadlock { cycle, victim } => {
            ids(out, "cycle", cycle);
            optional(out, "victim", *victim);
        }
        Event::Abandon { reason } => text(out, "reason", reason),
        Event::Snapshot { id, leader, epoch, tokens, holds, wants } => {
            number(out, "id", id);
            optional(out, "leader", *leader);
            number(out, "epoch", epoch);
            texts(out, "tokens", tokens);
            texts(out, "holds", holds);
            texts(out, "wants", wants);
        }
        Event::SnapshotMessage { id, from, kind, token } => {
            number(out, "id", id);
            number(out, "from", from);
            text(out, "kind", kind);
            if let Some((resource, epoch)) = token {
                number(out, "epoch", epoch);
                text(out, "resource", resource);
            }
        }
        Event::SnapshotDone { id } | Event::SnapshotAborted { id } => number(out, "id", id),
        Event::Label { text: label } => text(out, "text", label),
        Event::Utc { seconds, leap } => {
            number(out, "seconds", seconds);
            if *leap {
                number(out, "leap", true);
            }
        }
        Event::Temperature { milli_celsius } => number(out, "milli_celsius", milli_celsius),
        Event::Falseticker { source, lies } => {
            source_of(out, *source);
            number(out, "lies", lies);
        }
        Event::Read { version, cached } => {
            number(out, "version", version);
            number(out, "cached", cached);
        }
        Event::Writing { version } => number(out, "version", version),
        Event::Written { version, expired } => {
            number(out, "version", version);
            if *expired {
                number(out, "expired", true);
            }
        }
        Event::Transaction { transaction, participants } => {
            number(out, "transaction", transaction);
            ids(out, "participants", participants);
        }
        Event::Voted { transaction, yes } => {
            number(out, "transaction", transaction);
            number(out, "yes", yes);
        }
        Event::Decided { transaction, commit } => {
            number(out, "transaction", transaction);
            number(out, "commit", commit);
        }
        Event::RequestRefused { resource, wanted } => {
            number(out, "wanted", wanted);
            text(out, "resource", resource);
        }
        Event::Edited { file } => text(out, "file", file),
        Event::Built { file, source, source_inc, edit, raw, synchronized, logical } => {
            text(out, "file", file);
            number(out, "source", source);
            if *source_inc != 1 {
                number(out, "source_inc", source_inc);
            }
            number(out, "edit", edit);
            number(out, "raw", raw);
            optional(out, "synchronized", *synchronized);
            number(out, "logical", logical);
        }
        Event::Overflow { queue, count } => {
            text(out, "queue", queue);
            number(out, "count", count);
        }
        Event::Scenario(map) | Event::Other { fields: map, .. } => all(out, map),
        Event::Fault(fault) => self::fault(out, fault),
        Event::Gap { of, inc, missed } => {
            number(out, "of", of);
            number(out, "inc", inc);
            number(out, "missed", missed);
        }
        Event::End => {}
    }
}

/// A source of time: a node or a host.
fn source_of(out: &mut String, id: u16) {
    match NodeId(id).host_number() {
        Some(number) => text(out, "source", &host_name(number)),
        None => number(out, "source", id),
    }
}

fn fault(out: &mut String, fault: &Fault) {
    match fault {
        Fault::Crash(id) => number(out, "crash", id),
        Fault::Restart(id) => number(out, "restart", id),
        Fault::Pause(id) => number(out, "pause", id),
        Fault::Resume(id) => number(out, "resume", id),
        Fault::Partition(sides) => {
            key(out, "partition");
            out.push_str(&Value::from(sides.clone()).to_string());
        }
        Fault::Heal => number(out, "heal", true),
        Fault::DropToken => number(out, "drop_token", true),
        Fault::Leap(by) => number(out, "leap", by),
        Fault::TimeServer { host: None, serves } => number(out, "time_server", serves),
        Fault::TimeServer { host: Some(host), serves } => {
            key(out, "time_server");
            let _ = write!(out, "{{\"host\":{host},\"serves\":{serves}}}");
        }
        Fault::Lie { host, lie } => {
            key(out, "lie");
            let _ = write!(out, "{{\"host\":{host},\"by_us\":{},\"ppm\":{}}}", lie.by_us, Value::from(lie.ppm));
        }
        Fault::SetSkew { node, ppm } => {
            key(out, "set_skew");
            let _ = write!(out, "{{\"node\":{node},\"ppm\":{}}}", Value::from(*ppm));
        }
        Fault::Other(map) => all(out, map),
    }
}

fn key(out: &mut String, name: &str) {
    if !out.ends_with('{') {
        out.push(',');
    }
    let _ = write!(out, "\"{name}\":");
}

fn number(out: &mut String, name: &str, value: impl std::fmt::Display) {
    key(out, name);
    let _ = write!(out, "{value}");
}

fn optional(out: &mut String, name: &str, value: Option<impl std::fmt::Display>) {
    if let Some(value) = value {
        number(out, name, value);
    }
}

fn text(out: &mut String, name: &str, value: &str) {
    key(out, name);
    if value.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-')) {
        let _ = write!(out, "\"{value}\"");
    } else {
        out.push_str(&Value::from(value).to_string());
    }
}

/// The resource, where it is not the only one.
fn special(out: &mut String, resource: &str) {
    if resource != DEFAULT_RESOURCE {
        text(out, "resource", resource);
    }
}

fn ids(out: &mut String, name: &str, ids: &[u16]) {
    key(out, name);
    out.push('[');
    for (position, id) in ids.iter().enumerate() {
        let _ = write!(out, "{}{id}", if position == 0 { "" } else { "," });
    }
    out.push(']');
}

fn texts(out: &mut String, name: &str, texts: &[Text]) {
    key(out, name);
    let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
    out.push_str(&Value::from(texts).to_string());
}

fn all(out: &mut String, map: &Map<String, Value>) {
    for (name, value) in map {
        if !out.ends_with('{') {
            out.push(',');
        }
        let _ = write!(out, "{}:{value}", Value::from(name.as_str()));
    }
}
