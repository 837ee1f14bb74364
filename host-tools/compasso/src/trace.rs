//! `compasso trace`: questions about the order of events, and exports to other tools.

use crate::outcome::{Outcome, Talk};
use clap::{Args, Subcommand, ValueEnum};
use compasso_checker::order::{
    Cut, Form, Order, Placed, Relation, Unread, cut as ask_cut,
    export::{ExportError, Format, export as write_export},
    order as ask_order,
};
use serde_json::{Map, Value, json};
use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

/// More crossing messages or incompatible pairs than these are only counted, where a person reads.
const SHOWN_MAX: usize = 20;

/// `compasso trace`.
#[derive(Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:
  compasso trace order trace.jsonl 0:5 2:6               before, after, concurrent or same
  compasso trace cut trace.jsonl 0:5 1:9 2:6             consistent, or which messages cross
  compasso trace export trace.jsonl --format perfetto    for ui.perfetto.dev
  compasso trace order run.log alice:3 bob:2             a ShiViz log

An event is node:seq, or node:inc.seq after a restart; in a ShiViz log host:n, with n the host's
own entry. An answer is exit status 0, whatever it says."
)]
pub struct TraceArgs {
    /// What to do with the trace.
    #[command(subcommand)]
    command: TraceCommand,
}

#[derive(Subcommand)]
enum TraceCommand {
    /// How two events stand to each other, how many precede each, and their vectors.
    Order(OrderArgs),
    /// Whether a cut is consistent, and which messages cross it backwards.
    Cut(CutArgs),
    /// Write the trace for another tool.
    Export(ExportArgs),
}

/// `compasso trace order`.
#[derive(Args)]
#[command(after_help = "Examples:
  compasso trace order runs/concert-7-sim/trace.jsonl 0:5 2:6
  compasso trace order runs/concert-7-sim/trace.jsonl 4:2.17 0:300 --json   after a restart of 4
  compasso trace order run.log alice:3 bob:2
  compasso trace order run.log a:3 b:2 --regex '(?<host>\\w+) \"(?<event>.*)\" (?<clock>\\{.*\\})'

Entries compare by incarnation, then count. A boot follows all earlier lives of its node and all
that they knew. A trace without stamps is followed along its sends and receives.")]
struct OrderArgs {
    /// The trace: JSON Lines, or a ShiViz log.
    trace: PathBuf,
    /// An event.
    a: String,
    /// Another one.
    b: String,
    #[command(flatten)]
    form: FormArgs,
    /// Print the answer as one JSON document on stdout.
    #[arg(long)]
    json: bool,
    /// Say nothing but the relation.
    #[arg(long, short)]
    quiet: bool,
}

/// `compasso trace cut`.
#[derive(Args)]
#[command(after_help = "Examples:
  compasso trace cut runs/concert-7-sim/trace.jsonl 0:5 1:9 2:6
  compasso trace cut run.log alice:3 bob:2 --json

The events are the cut's frontier: the last event of each node inside. A node without an event in
the list has nothing inside. A cut is consistent if every message received inside was sent inside.")]
struct CutArgs {
    /// The trace: JSON Lines, or a ShiViz log.
    trace: PathBuf,
    /// The frontier, at most one event a node.
    #[arg(required = true, value_name = "EVENT")]
    frontier: Vec<String>,
    #[command(flatten)]
    form: FormArgs,
    /// Print the answer as one JSON document on stdout.
    #[arg(long)]
    json: bool,
    /// Say nothing but whether it is consistent.
    #[arg(long, short)]
    quiet: bool,
}

/// `compasso trace export`.
#[derive(Args)]
#[command(after_help = "Examples:
  compasso trace export trace.jsonl --format shiviz --out run.log       open at bestchai.bitbucket.io/shiviz
  compasso trace export trace.jsonl --format perfetto --out run.json    open at ui.perfetto.dev
  compasso trace export trace.jsonl --format vcd --out run.vcd          open in GTKWave
  compasso trace export trace.jsonl --format csv | head

Times of perfetto and vcd are true_us where every event has it, else hw_us, else Lamport time. In
shiviz a node's count goes on over a restart.")]
struct ExportArgs {
    /// The trace: JSON Lines, or a ShiViz log.
    trace: PathBuf,
    /// For which tool.
    #[arg(long, value_enum)]
    format: FormatName,
    /// Where to write it [default: stdout].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    form: FormArgs,
    /// Print what was written as one JSON document on stdout; needs --out.
    #[arg(long, requires = "out")]
    json: bool,
    /// Say nothing.
    #[arg(long, short)]
    quiet: bool,
}

/// How to read a ShiViz log.
#[derive(Args)]
struct FormArgs {
    /// ShiViz log: a regular expression with the groups host, clock and event [default: the log's
    /// first line, or one of the two-line forms].
    #[arg(long, value_name = "REGEX")]
    regex: Option<String>,
    /// ShiViz log: what separates executions; a group trace names the one that follows.
    #[arg(long, value_name = "REGEX")]
    delimiter: Option<String>,
    /// ShiViz log: which of several executions, by name or number from 1.
    #[arg(long, value_name = "NAME")]
    execution: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum FormatName {
    Shiviz,
    Perfetto,
    Csv,
    Vcd,
}

impl FormArgs {
    fn form(&self) -> Form {
        Form { regex: self.regex.clone(), delimiter: self.delimiter.clone(), execution: self.execution.clone() }
    }
}

/// Answers or exports.
pub fn trace(args: &TraceArgs) -> Outcome {
    match &args.command {
        TraceCommand::Order(args) => order(args),
        TraceCommand::Cut(args) => cut(args),
        TraceCommand::Export(args) => export(args),
    }
}

fn order(args: &OrderArgs) -> Outcome {
    let talk = Talk { json: args.json, quiet: args.quiet };
    let answer = match ask_order(&args.trace, &args.a, &args.b, &args.form.form()) {
        Ok(answer) => answer,
        Err(error) => return talk.fail(Outcome::BadInput, &error.to_string()),
    };
    warn(talk, answer.unread);
    talk.document(&answer.to_json());
    talk.show(&if talk.quiet { answer.relation.as_str().to_owned() } else { render_order(&answer) });
    Outcome::Held
}

fn render_order(answer: &Order) -> String {
    let (a, b) = (&answer.a, &answer.b);
    let mut text = match answer.relation {
        Relation::Before => format!("before       {} happened before {}", a.name, b.name),
        Relation::After => format!("after        {} happened after {}", a.name, b.name),
        Relation::Concurrent => format!("concurrent   neither of {} and {} happened before the other", a.name, b.name),
        Relation::Same => format!("same         {} is one event", a.name),
    };
    let placed: &[&Placed] = if answer.relation == Relation::Same { &[a] } else { &[a, b] };
    for event in placed {
        text.push_str(&format!(
            "\n{:<12} {} events before it, vector {}",
            event.name,
            event.preceding,
            vector(&event.vector)
        ));
        if event.forgotten {
            text.push_str("\n             and all that an earlier life knew, which a restart forgot");
        }
    }
    if answer.computed {
        text.push_str("\nnote         the trace has no stamps: order follows its sends and receives");
    }
    text
}

fn vector(entries: &Map<String, Value>) -> String {
    let entries: Vec<String> = entries
        .iter()
        .map(|(host, count)| format!("{host}:{}", count.as_str().map_or_else(|| count.to_string(), str::to_owned)))
        .collect();
    format!("[{}]", entries.join(" "))
}

fn cut(args: &CutArgs) -> Outcome {
    let talk = Talk { json: args.json, quiet: args.quiet };
    let frontier: Vec<&str> = args.frontier.iter().map(String::as_str).collect();
    let answer = match ask_cut(&args.trace, &frontier, &args.form.form()) {
        Ok(answer) => answer,
        Err(error) => return talk.fail(Outcome::BadInput, &error.to_string()),
    };
    warn(talk, answer.unread);
    talk.document(&answer.to_json());
    let verdict = if answer.consistent { "consistent" } else { "inconsistent" };
    talk.show(&if talk.quiet { verdict.to_owned() } else { format!("{verdict}{}", render_cut(&answer)) });
    Outcome::Held
}

fn render_cut(answer: &Cut) -> String {
    let mut text = String::new();
    for crossing in answer.crossing.iter().take(SHOWN_MAX) {
        text.push_str(&format!("\ncrossing     sent at {} outside, received at {} inside", crossing.from, crossing.to));
    }
    text.push_str(&more(answer.crossing.len()));
    for pair in answer.incompatible.iter().take(SHOWN_MAX) {
        let reaches = match &pair.frontier {
            Some(frontier) => format!("but the cut reaches only {frontier}"),
            None => "but the cut has nothing of that node".to_owned(),
        };
        text.push_str(&format!("\nincompatible {} knows {}, {reaches}", pair.event, pair.knows));
    }
    text.push_str(&more(answer.incompatible.len()));
    if answer.crossing.is_empty() && !answer.consistent {
        text.push_str("\nnote         the trace does not hold the sends that the vectors know of");
    }
    if answer.computed {
        text.push_str("\nnote         the trace has no stamps: order follows its sends and receives");
    }
    text
}

fn more(count: usize) -> String {
    match count.saturating_sub(SHOWN_MAX) {
        0 => String::new(),
        more => format!("\n             and {more} more"),
    }
}

fn export(args: &ExportArgs) -> Outcome {
    let talk = Talk { json: args.json, quiet: args.quiet };
    let (format, name) = match args.format {
        FormatName::Shiviz => (Format::Shiviz, "shiviz"),
        FormatName::Perfetto => (Format::Perfetto, "perfetto"),
        FormatName::Csv => (Format::Csv, "csv"),
        FormatName::Vcd => (Format::Vcd, "vcd"),
    };
    let write = |out: &mut dyn Write| -> Result<_, ExportError> {
        let mut out = BufWriter::with_capacity(1 << 16, out);
        let exported = write_export(&args.trace, format, &args.form.form(), &mut out)?;
        out.flush()?;
        Ok(exported)
    };
    let written = match &args.out {
        Some(path) => write(&mut OnFirstWrite { path, file: None }),
        None => write(&mut io::stdout().lock()),
    };
    let exported = match written {
        Ok(exported) => exported,
        Err(ExportError::Trace(error)) => return talk.fail(Outcome::BadInput, &error.to_string()),
        // A reader that has seen enough, such as `head`, is no error.
        Err(ExportError::Output(error)) if args.out.is_none() && error.kind() == io::ErrorKind::BrokenPipe => {
            return Outcome::Held;
        }
        Err(ExportError::Output(error)) => {
            let place = args.out.as_ref().map_or_else(|| "stdout".to_owned(), |path| path.display().to_string());
            return talk.fail(Outcome::Environment, &format!("{place}: cannot be written: {error}"));
        }
    };
    warn(talk, exported.unread);
    let file = args.out.as_ref().map(|path| path.display().to_string());
    talk.document(&json!({ "format": name, "events": exported.events, "clock": exported.clock, "file": file }));
    if let Some(file) = file {
        let clock = exported.clock.map_or_else(String::new, |clock| format!(", times from {clock}"));
        talk.say(&format!("{} events written to {file}{clock}", exported.events));
    }
    Outcome::Held
}

/// A file that is made only when there is something to write: a trace that cannot be read leaves
/// what stands there as it is.
struct OnFirstWrite<'a> {
    path: &'a Path,
    file: Option<File>,
}

impl Write for OnFirstWrite<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.file {
            Some(file) => file.write(bytes),
            None => self.file.insert(File::create(self.path)?).write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), File::flush)
    }
}

fn warn(talk: Talk, unread: Unread) {
    if unread.0 > 0 {
        talk.say(&format!("note: {} lines of the log are no part of an event", unread.0));
    }
}
