//! ShiViz: its expression on the first line, an empty delimiter on the second, then two lines an
//! event. ShiViz wants a host to count from 1 without holes. So a node's lives stand on one line
//! of the diagram and its count goes on over a restart, with what the earlier lives knew; events
//! that the trace lost are put in as `lost`. The group `name` keeps the event's own name.

use super::described;
use crate::{
    index::Trace,
    order::shiviz::Log,
    trace::{TraceError, Vector},
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, HashMap},
    io,
};

/// The first line of an exported trace.
const NAMED: &str = r"(?<host>\S+) (?<clock>\{.*)\n(?<name>\S+) (?<event>.*)";
/// The first line of an exported log.
const PLAIN: &str = r"(?<host>\S+) (?<clock>\{.*)\n(?<event>.*)";
/// At most so many lost events are put in.
const LOST_MAX: u64 = 100_000;

/// Writes a trace's node events; the stage's lines have no place in the order.
pub(super) fn write_trace(
    trace: &Trace<'_>,
    refused: &dyn Fn(String) -> TraceError,
    out: &mut dyn io::Write,
) -> Result<(), super::ExportError> {
    let lives = Lives::of(trace);
    let lost = lives.total.values().copied().fold(0, u64::saturating_add).saturating_sub(lives.present);
    if lost > LOST_MAX {
        return Err(refused(format!("{lost} events are missing: ShiViz needs every one of a node's events")).into());
    }
    writeln!(out, "{NAMED}\n")?;
    let mut written: HashMap<(u16, u32), (u64, Vector)> = HashMap::new();
    for index in in_order(trace) {
        let event = trace.event(index);
        let Some(node) = event.node_id() else { continue };
        let life = (node, event.inc);
        let known = lives.complete(trace.vector(index));
        let from = written.get(&life).map_or(0, |(seq, _)| *seq);
        let until = lives.in_life(life, event.seq).saturating_sub(1);
        let before = written.get(&life).map_or_else(Vector::default, |(_, vector)| vector.clone());
        lives.write_lost(life, &before, from..until, out)?;
        writeln!(out, "{node} {}\n{} {}", lives.clock(&known), event.name(), described(&event.event))?;
        written.insert(life, (until + 1, known));
    }
    for (life, total) in &lives.total {
        let (from, known) = written.remove(life).unwrap_or_default();
        lives.write_lost(*life, &known, from..*total, out)?;
    }
    Ok(())
}

/// Writes a log in the two-line form.
pub(super) fn write_log(log: &Log, out: &mut dyn io::Write) -> io::Result<()> {
    writeln!(out, "{PLAIN}\n")?;
    for (host, event) in log.in_file_order() {
        let text = log.text(&event.event).replace('\n', " ");
        writeln!(out, "{} {}\n{text}", log.hosts[host], log.text(&event.clock).replace('\n', " "))?;
    }
    Ok(())
}

/// As collected, but each node's events by number: a hole is known only then.
fn in_order(trace: &Trace<'_>) -> Vec<usize> {
    let mut next: HashMap<(u16, u32), std::slice::Iter<'_, usize>> =
        trace.streams.iter().map(|(life, stream)| (*life, stream.iter())).collect();
    let lives = trace.events.iter().filter_map(|event| Some((event.node_id()?, event.inc)));
    lives.filter_map(|life| next.get_mut(&life)?.next().copied()).collect()
}

/// A node's lives, one after the other.
struct Lives {
    /// How many events each had.
    total: BTreeMap<(u16, u32), u64>,
    /// How many its node had before it.
    offset: HashMap<(u16, u32), u64>,
    /// What the lives before it knew.
    floor: HashMap<(u16, u32), Vector>,
    /// Lives whose numbers begin at 0.
    from_zero: HashMap<(u16, u32), bool>,
    present: u64,
}

impl Lives {
    fn of(trace: &Trace<'_>) -> Lives {
        let mut lives = Lives {
            total: BTreeMap::new(),
            offset: HashMap::new(),
            floor: HashMap::new(),
            from_zero: HashMap::new(),
            present: trace.streams.values().map(|stream| stream.len() as u64).sum(),
        };
        for (life, stream) in &trace.streams {
            let first = stream.first().map_or(1, |index| trace.event(*index).seq);
            let last = stream.last().map_or(0, |index| trace.event(*index).seq);
            let missed = trace.gaps.get(life).copied().unwrap_or(0);
            lives.from_zero.insert(*life, first == 0);
            let total = lives.in_life(*life, last).max((stream.len() as u64).saturating_add(missed));
            lives.total.insert(*life, total);
        }
        // Others may know of events at a life's end that never reached the trace.
        for index in trace.streams.values().flatten() {
            for (node, (inc, count)) in trace.vector(*index).iter() {
                let total = lives.total.entry((node, inc)).or_default();
                *total = (*total).max(count);
            }
        }
        let mut before: Option<((u16, u32), u64)> = None;
        for (life, total) in &lives.total {
            let offset = before.filter(|(earlier, _)| earlier.0 == life.0).map_or(0, |(_, offset)| offset);
            lives.offset.insert(*life, offset);
            before = Some((*life, offset.saturating_add(*total)));
        }
        lives.find_floors(trace);
        lives
    }

    /// Until nothing is added: an earlier life may itself have known of somebody's later life.
    fn find_floors(&mut self, trace: &Trace<'_>) {
        loop {
            let mut floors = HashMap::new();
            let mut known = Vector::default();
            let mut node = None;
            for life in self.total.keys() {
                if node.replace(life.0) != Some(life.0) {
                    known = Vector::default();
                }
                floors.insert(*life, known.clone());
                if let Some(last) = trace.streams.get(life).and_then(|stream| stream.last()) {
                    known.merge(&self.complete(trace.vector(*last)));
                }
            }
            if floors == self.floor {
                return;
            }
            self.floor = floors;
        }
    }

    /// A vector with all that earlier lives of the nodes in it knew.
    fn complete(&self, vector: &Vector) -> Vector {
        let mut complete = vector.clone();
        for (node, (inc, _)) in vector.iter().filter(|(_, (inc, _))| *inc > 1) {
            if let Some(floor) = self.floor.get(&(node, inc)) {
                complete.merge(floor);
            }
        }
        complete
    }

    /// The how-manieth event of its life a number means.
    fn in_life(&self, life: (u16, u32), seq: u64) -> u64 {
        seq.saturating_add(u64::from(self.from_zero.get(&life).copied().unwrap_or(false)))
    }

    /// A vector with counts that go on over restarts.
    fn clock(&self, vector: &Vector) -> Value {
        let count = |(node, (inc, count)): (u16, (u32, u64))| {
            let life = (node, inc);
            let offset = self.offset.get(&life).copied().unwrap_or(0);
            (node.to_string(), json!(offset.saturating_add(self.in_life(life, count))))
        };
        Value::Object(vector.iter().map(count).collect())
    }

    /// Puts events in that the trace does not hold: they knew what the one before them knew.
    fn write_lost(
        &self,
        life: (u16, u32),
        known: &Vector,
        numbers: std::ops::Range<u64>,
        out: &mut dyn io::Write,
    ) -> io::Result<()> {
        let (node, inc) = life;
        let mut known = known.clone();
        if let Some(floor) = self.floor.get(&life) {
            known.merge(floor);
        }
        let back = u64::from(self.from_zero.get(&life).copied().unwrap_or(false));
        for number in numbers {
            let seq = number + 1 - back;
            known.set(node, (inc, seq));
            let name = if inc == 1 { format!("{node}:{seq}") } else { format!("{node}:{inc}.{seq}") };
            writeln!(out, "{node} {}\n{name} lost", self.clock(&known))?;
        }
        Ok(())
    }
}
