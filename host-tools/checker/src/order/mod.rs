//! Questions about the order of events: which of two happened first, and whether a cut is consistent.
//!
//! A trace of ours is read as a stream: an answer keeps a vector for each event asked for and one
//! for each life that ended, and the messages only where the question needs them. Where a trace
//! has no stamps, order is followed back along its sends and receives. A ShiViz log is kept as
//! text, with an index of its events.
//!
//! Entries of a vector compare by incarnation, then count. A boot follows all earlier lives of its
//! node and, since "before" is transitive, everything that those lives knew.

pub mod export;
mod history;
mod name;
mod pattern;
mod scan;
mod shiviz;

use crate::trace::{Stamp, TraceError};
use history::{History, Place};
use scan::Wanted;
use serde_json::{Map, Value, json};
use shiviz::Log;
use std::{
    collections::BTreeSet,
    fs::File,
    io::{BufRead, BufReader},
    path::Path,
};

pub use history::Work;

/// How a log that is not ours is to be read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Form {
    /// With the groups `host`, `clock` and `event`; without one, the log's first line or its
    /// two-line form decides.
    pub regex: Option<String>,
    /// What separates several executions; its group `trace` names the one that follows.
    pub delimiter: Option<String>,
    /// Which of several executions: its name, or its number from 1.
    pub execution: Option<String>,
}

/// How one event stands to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Relation {
    /// The first happened before the second.
    Before,
    /// The second happened before the first.
    After,
    /// Neither could know of the other.
    Concurrent,
    /// They are one event.
    Same,
}

impl Relation {
    /// Its name in answers.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Relation::Before => "before",
            Relation::After => "after",
            Relation::Concurrent => "concurrent",
            Relation::Same => "same",
        }
    }
}

/// Lines of a log that no event was found in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Unread(pub usize);

impl Unread {
    fn add(&mut self, text: &str) {
        self.0 += text.lines().filter(|line| !line.trim().is_empty()).count();
    }
}

/// One of the events asked for.
#[derive(Clone, PartialEq, Debug)]
pub struct Placed {
    /// Its name.
    pub name: String,
    /// How many events happened before it.
    pub preceding: u64,
    /// Its vector: what the trace says, or what its sends and receives imply.
    pub vector: Map<String, Value>,
    /// Its past holds more than its vector says: a restart forgot it.
    pub forgotten: bool,
}

/// The order of two events.
#[derive(Clone, PartialEq, Debug)]
pub struct Order {
    /// How the first stands to the second.
    pub relation: Relation,
    /// The first.
    pub a: Placed,
    /// The second.
    pub b: Placed,
    /// The trace has no stamps of its own: they come from its sends and receives.
    pub computed: bool,
    /// Lines without an event.
    pub unread: Unread,
    /// What the answer took.
    pub work: Work,
}

/// A message against the cut: received inside, sent outside.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Crossing {
    /// The send.
    pub from: String,
    /// The receive.
    pub to: String,
}

/// An event on the frontier that knows of something outside the cut.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Incompatible {
    /// The event on the frontier.
    pub event: String,
    /// The latest event of another node in its past.
    pub knows: String,
    /// The frontier's event there; none if the cut holds nothing of that node.
    pub frontier: Option<String>,
}

/// Whether a cut is consistent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cut {
    /// It is closed under "happened before".
    pub consistent: bool,
    /// The messages that cross it backwards.
    pub crossing: Vec<Crossing>,
    /// The pairs of the frontier that cannot stand together.
    pub incompatible: Vec<Incompatible>,
    /// The trace has no stamps of its own: they come from its sends and receives.
    pub computed: bool,
    /// Lines without an event.
    pub unread: Unread,
    /// What the answer took.
    pub work: Work,
}

/// How two events of a trace stand to each other.
///
/// # Errors
/// One line: the file cannot be read, or there is no such event.
pub fn order(path: &Path, a: &str, b: &str, form: &Form) -> Result<Order, TraceError> {
    let mut question = Question::ask(path, &[a, b], form, false)?;
    let (Some(first), Some(second)) = (question.places.first().copied(), question.places.get(1).copied()) else {
        return Err(refused(path, "expected two events".to_owned()));
    };
    let unread = question.unread();
    let history = &mut question.history;
    let (past_a, past_b) = (history.past(first), history.past(second));
    let before = past_b[first.host] >= first.stamp;
    let after = past_a[second.host] >= second.stamp;
    let relation = match (first == second, before, after) {
        (true, _, _) => Relation::Same,
        (false, true, false) => Relation::Before,
        (false, false, true) => Relation::After,
        (false, false, false) => Relation::Concurrent,
        (false, true, true) => {
            return Err(refused(
                path,
                format!("{a} and {b} each happened before the other: `compasso check` says where the trace is broken"),
            ));
        }
    };
    Ok(Order {
        relation,
        a: placed(history, first, &past_a),
        b: placed(history, second, &past_b),
        computed: !history.stamped,
        unread,
        work: history.work,
    })
}

/// Whether the cut with this frontier, at most one event a node, is consistent.
///
/// # Errors
/// One line: the file cannot be read, there is no such event, or a node has two in the frontier.
pub fn cut(path: &Path, frontier: &[&str], form: &Form) -> Result<Cut, TraceError> {
    let mut question = Question::ask(path, frontier, form, true)?;
    let mut inside: Vec<Stamp> = vec![(0, 0); question.history.hosts.len()];
    for (place, name) in question.places.iter().zip(frontier) {
        if inside[place.host] != (0, 0) {
            let host = &question.history.hosts[place.host];
            return Err(refused(path, format!("{name}: {host} has two events in the frontier, expected one a node")));
        }
        inside[place.host] = place.stamp;
    }
    let mut incompatible = Vec::new();
    for event in question.places.clone() {
        let past = question.history.past(event);
        for (host, known) in past.iter().enumerate().filter(|(host, known)| **known > inside[*host]) {
            let at = |stamp: Stamp| Place { host, stamp };
            incompatible.push((event, at(*known), Some(at(inside[host])).filter(|place| place.stamp != (0, 0))));
        }
    }
    incompatible.sort_by_key(|(event, knows, _)| (question.history.rank(*event), question.history.rank(*knows)));
    let history = &question.history;
    let incompatible: Vec<Incompatible> = incompatible
        .into_iter()
        .map(|(event, knows, frontier)| Incompatible {
            event: history.name(event),
            knows: history.name(knows),
            frontier: frontier.map(|place| history.name(place)),
        })
        .collect();
    let crossing = question.crossing(&inside)?;
    Ok(Cut {
        consistent: incompatible.is_empty() && crossing.is_empty(),
        crossing,
        incompatible,
        computed: !question.history.stamped,
        unread: question.unread(),
        work: question.history.work,
    })
}

impl Order {
    /// The answer for machines.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "relation": self.relation.as_str(),
            "preceding": { "A": self.a.preceding, "B": self.b.preceding },
            "vector": { "A": self.a.vector, "B": self.b.vector },
            "events": { "A": self.a.name, "B": self.b.name },
            "computed": self.computed,
        })
    }
}

impl Cut {
    /// The answer for machines.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let crossing = self.crossing.iter().map(|crossing| json!({ "from": crossing.from, "to": crossing.to }));
        let incompatible = self
            .incompatible
            .iter()
            .map(|pair| json!({ "event": pair.event, "knows": pair.knows, "frontier": pair.frontier }));
        json!({
            "consistent": self.consistent,
            "crossing": crossing.collect::<Vec<_>>(),
            "incompatible": incompatible.collect::<Vec<_>>(),
            "computed": self.computed,
        })
    }
}

/// A trace with the events asked for.
struct Question {
    history: History,
    places: Vec<Place>,
    log: Option<Log>,
}

impl Question {
    fn ask(path: &Path, names: &[&str], form: &Form, messages: bool) -> Result<Question, TraceError> {
        if is_log(path, form)? {
            let log = Log::read(path, form)?;
            let places = names.iter().map(|name| log.find(name)).collect::<Result<Vec<_>, _>>();
            let places = places.map_err(|message| refused(path, message))?;
            let history = log.history(&places)?;
            return Ok(Question { history, places, log: Some(log) });
        }
        let events = names.iter().map(|name| our_event(name)).collect::<Result<Vec<_>, _>>();
        let events = events.map_err(|message| refused(path, message))?;
        let file = path.display().to_string();
        let read = |messages| scan::scan(open(path)?, &file, Wanted { events: &events, messages });
        let mut scanned = read(messages)?;
        if !scanned.messages && !scanned.history.stamped {
            scanned = read(true)?;
        }
        let mut places = Vec::with_capacity(names.len());
        for ((name, place), (node, _)) in names.iter().zip(&scanned.places).zip(&events) {
            match place {
                Some(place) => places.push(*place),
                None => {
                    let lives = scanned.host(*node).map(|host| &scanned.history.lives[host]);
                    let known: Vec<String> = lives
                        .into_iter()
                        .flatten()
                        .filter(|(_, life)| life.present > 0)
                        .map(
                            |(inc, life)| {
                                if *inc == 1 { format!("{}", life.last) } else { format!("{inc}.{}", life.last) }
                            },
                        )
                        .collect();
                    let known = match &known[..] {
                        [] => format!("the trace has no node {node}"),
                        lives => format!("node {node} counts up to {}", lives.join(", ")),
                    };
                    return Err(refused(path, format!("no event {name}: {known}")));
                }
            }
        }
        Ok(Question { history: scanned.history, places, log: None })
    }

    fn crossing(&self, inside: &[Stamp]) -> Result<Vec<Crossing>, TraceError> {
        let mut crossing = BTreeSet::new();
        if let Some(log) = &self.log {
            let counts: Vec<u64> = inside.iter().map(|stamp| stamp.1).collect();
            crossing.extend(log.crossing(&counts)?);
        }
        for (host, lives) in self.history.lives.iter().enumerate() {
            for (inc, life) in lives {
                for receive in life.receives.iter().filter(|receive| (*inc, receive.seq) <= inside[host]) {
                    let send = self.history.send_of(receive).filter(|send| send.stamp > inside[send.host]);
                    crossing.extend(send.map(|send| (send, Place { host, stamp: (*inc, receive.seq) })));
                }
            }
        }
        let name = |place| self.history.name(place);
        let mut crossing: Vec<(Place, Place)> = crossing.into_iter().collect();
        crossing.sort_by_key(|(from, to)| (self.history.rank(*from), self.history.rank(*to)));
        Ok(crossing.into_iter().map(|(from, to)| Crossing { from: name(from), to: name(to) }).collect())
    }

    fn unread(&self) -> Unread {
        self.log.as_ref().map(|log| log.unread).unwrap_or_default()
    }
}

fn placed(history: &History, place: Place, past: &[Stamp]) -> Placed {
    let of_past = || (0..past.len()).map(|host| Place { host, stamp: past[host] }).filter(|at| at.stamp != (0, 0));
    let recorded = history.recorded.get(&place);
    let mut entries: Vec<Place> = match recorded {
        Some(recorded) => recorded.clone(),
        None => of_past().collect(),
    };
    let forgotten = recorded.is_some_and(|known| of_past().any(|at| !known.contains(&at)));
    entries.sort_by_key(|entry| history.rank(*entry));
    let entry = |(inc, count): Stamp| if inc == 1 { json!(count) } else { json!(format!("{inc}.{count}")) };
    Placed {
        name: history.name(place),
        preceding: history.count(past).saturating_sub(1),
        vector: entries.iter().map(|at| (history.hosts[at.host].clone(), entry(at.stamp))).collect(),
        forgotten,
    }
}

/// The event that a name means in a trace of ours.
fn our_event(name: &str) -> Result<(u16, Stamp), String> {
    let (node, number) = name::split(name)?;
    if node == "stage" {
        return Err(format!("{name}: the stage's own lines have no place in the order of the nodes' events"));
    }
    let event = node.parse::<u16>().ok().zip(name::stamp(number));
    event.ok_or_else(|| format!("expected an event like 3:17, or 3:2.17 after a restart, found {name:?}"))
}

/// Whether a file is a ShiViz log: whoever gives an expression says so, and a trace of ours begins
/// with a brace.
pub(crate) fn is_log(path: &Path, form: &Form) -> Result<bool, TraceError> {
    if *form != Form::default() {
        return Ok(true);
    }
    let mut input = open(path)?;
    loop {
        let bytes = input.fill_buf().map_err(|error| refused(path, format!("cannot be read: {error}")))?;
        if bytes.is_empty() {
            return Err(refused(path, "expected at least one event, found none".to_owned()));
        }
        if let Some(first) = bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
            return Ok(*first != b'{');
        }
        let blank = bytes.len();
        input.consume(blank);
    }
}

fn open(path: &Path) -> Result<BufReader<File>, TraceError> {
    let opened = File::open(path).map_err(|error| refused(path, format!("cannot be read: {error}")))?;
    Ok(BufReader::with_capacity(1 << 16, opened))
}

fn refused(path: &Path, message: String) -> TraceError {
    TraceError { file: path.display().to_string(), line: 0, message }
}
