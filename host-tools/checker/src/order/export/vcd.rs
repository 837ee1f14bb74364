//! Value Change Dump, for waveform viewers: each node is a module with the wires `alive`, `inside`,
//! `leads` and `has_token`.

use super::spans::{Clock, What, spans};
use crate::index::Trace;
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
};

const WIRES: [&str; 4] = ["alive", "inside", "leads", "has_token"];

/// Writes a trace.
pub(super) fn write(trace: &Trace<'_>, out: &mut dyn io::Write) -> io::Result<Clock> {
    let clock = Clock::of(trace);
    let nodes: BTreeSet<u16> = trace.streams.keys().map(|(node, _)| *node).collect();
    let code: BTreeMap<u16, usize> = nodes.iter().enumerate().map(|(at, node)| (*node, at * WIRES.len())).collect();
    // At each moment, how many more of what a wire stands for begin than end: several resources
    // share one wire, and a moment of no length shows nothing.
    let mut steps: BTreeMap<(i64, usize), i64> = BTreeMap::new();
    let mut last = i64::MIN;
    for span in spans(trace, clock) {
        let wire = match span.what {
            What::Alive(_) => 0,
            What::Inside { .. } => 1,
            What::Leads { .. } => 2,
            What::Token { .. } => 3,
        };
        let wire = code[&span.node] + wire;
        *steps.entry((span.from_us, wire)).or_default() += 1;
        *steps.entry((span.to_us, wire)).or_default() -= 1;
        last = last.max(span.to_us);
    }
    let origin = steps.keys().next().map_or(0, |(at, _)| (*at).min(0)); // A dump has no time below 0.
    header(&nodes, &code, out)?;
    let mut levels = vec![0_i64; nodes.len() * WIRES.len()];
    let mut shown = vec![false; levels.len()];
    let mut now = None;
    for ((at, wire), step) in steps {
        levels[wire] += step;
        let high = levels[wire] > 0;
        if shown[wire] != high {
            if now != Some(at) {
                writeln!(out, "#{}", at.saturating_sub(origin))?;
                now = Some(at);
            }
            shown[wire] = high;
            writeln!(out, "{}{}", u8::from(high), identifier(wire))?;
        }
    }
    if last != i64::MIN && now != Some(last) {
        writeln!(out, "#{}", last.saturating_sub(origin))?; // So that the last level is drawn to the end.
    }
    Ok(clock)
}

fn header(nodes: &BTreeSet<u16>, code: &BTreeMap<u16, usize>, out: &mut dyn io::Write) -> io::Result<()> {
    writeln!(out, "$version compasso {} $end\n$timescale 1 us $end", env!("CARGO_PKG_VERSION"))?;
    for node in nodes {
        writeln!(out, "$scope module node_{node} $end")?;
        for (at, wire) in WIRES.into_iter().enumerate() {
            writeln!(out, "$var wire 1 {} {wire} $end", identifier(code[node] + at))?;
        }
        writeln!(out, "$upscope $end")?;
    }
    writeln!(out, "$enddefinitions $end\n$dumpvars")?;
    for wire in 0..nodes.len() * WIRES.len() {
        writeln!(out, "0{}", identifier(wire))?;
    }
    writeln!(out, "$end")
}

/// A wire's short name, of the printable characters from `!` to `~`.
fn identifier(mut wire: usize) -> String {
    let mut name = String::new();
    loop {
        name.push(char::from(b'!' + (wire % 94) as u8));
        wire /= 94;
        if wire == 0 {
            return name;
        }
        wire -= 1;
    }
}
