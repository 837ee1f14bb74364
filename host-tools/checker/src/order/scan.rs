//! Reads a trace of ours line by line. A line is looked at only as far as the order of events
//! needs it, so a trace of any length takes little memory; vectors stay text until one is asked for.

use super::history::{History, Life, Place, Receive, SendName};
use crate::trace::{Stamp, TraceError, each_line, parse_line, vector};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap, hash_map::Entry},
    io::BufRead,
};

/// A line as far as it is looked at.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    node: &'a RawValue,
    seq: u64,
    #[serde(borrow)]
    event: Cow<'a, str>,
    inc: Option<u32>,
    #[serde(borrow)]
    vector: Option<&'a RawValue>,
    // An unknown event may use these names for anything: they are read only where they are known.
    #[serde(borrow)]
    to: Option<&'a RawValue>,
    #[serde(borrow)]
    from: Option<&'a RawValue>,
    #[serde(borrow)]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    from_inc: Option<&'a RawValue>,
    #[serde(borrow)]
    of: Option<&'a RawValue>,
    #[serde(borrow)]
    missed: Option<&'a RawValue>,
}

/// What a scan is to keep.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    /// The vectors of these events.
    pub events: &'a [(u16, Stamp)],
    /// Sends, receives and the numbers of all events.
    pub messages: bool,
}

/// A trace, scanned: the history, and the events that were asked for.
pub(super) struct Scanned {
    pub history: History,
    /// In the order of [`Wanted::events`]; `None` where the trace has no such event.
    pub places: Vec<Option<Place>>,
    /// Sends, receives and numbers were kept.
    pub messages: bool,
    hosts: HashMap<u16, usize>,
}

/// One life while the trace is read.
#[derive(Default)]
struct Draft {
    life: Life,
    /// The vector of its last event, as text.
    tail: String,
    sorted: bool,
}

struct Scan<'a> {
    wanted: Wanted<'a>,
    scanned: Scanned,
    lives: Vec<BTreeMap<u32, Draft>>,
    kinds: HashMap<String, u16>,
}

/// Reads a trace.
pub(super) fn scan(input: impl BufRead, file: &str, wanted: Wanted<'_>) -> Result<Scanned, TraceError> {
    let mut scan = Scan {
        wanted,
        scanned: Scanned {
            history: History { stamped: true, ..History::default() },
            places: vec![None; wanted.events.len()],
            messages: false,
            hosts: HashMap::new(),
        },
        lives: Vec::new(),
        kinds: HashMap::new(),
    };
    each_line(input, file, |line| scan.line(line))?;
    scan.scanned.messages = scan.wanted.messages;
    scan.finish().map_err(|message| TraceError { file: file.to_owned(), line: 0, message })
}

impl Scanned {
    /// The host of a node, if the trace knows it.
    pub fn host(&self, node: u16) -> Option<usize> {
        self.hosts.get(&node).copied()
    }
}

impl Scan<'_> {
    fn line(&mut self, text: &str) -> Result<(), String> {
        // The thorough reader knows better words for what is wrong with a line.
        let explain =
            || parse_line(text).err().unwrap_or_else(|| "expected an event, one JSON object a line".to_owned());
        let line: Line<'_> = serde_json::from_str(text).map_err(|_| explain())?;
        if line.event == "gap" {
            let (of, missed) = (number::<u16>(line.of), number::<u64>(line.missed));
            let (Some(of), Some(missed)) = (of, missed) else { return Err(explain()) };
            let life = &mut self.draft(of, line.inc.unwrap_or(1)).life;
            life.missed = life.missed.saturating_add(missed);
        }
        if line.node.get() == "\"stage\"" {
            return Ok(());
        }
        let Some(node) = number::<u16>(Some(line.node)) else { return Err(explain()) };
        let inc = match line.inc {
            Some(0) => return Err(explain()),
            inc => inc.unwrap_or(1),
        };
        self.scanned.history.work.events += 1;
        // A trace whose first event has no stamp has none at all, as a rule: one reading is enough.
        self.wanted.messages |= self.scanned.history.work.events == 1 && line.vector.is_none();
        let messages = self.wanted.messages;
        let draft = self.draft(node, inc);
        draft.life.present += 1;
        if line.seq >= draft.life.last {
            draft.life.last = line.seq;
            draft.tail.clear();
            draft.tail.push_str(line.vector.map_or("", RawValue::get));
        } else {
            draft.sorted = false;
        }
        if messages {
            draft.life.seqs.push(line.seq);
            self.message(&line, node, inc).ok_or_else(explain)?;
        }
        self.scanned.history.stamped &= line.vector.is_some();
        let wanted = self.wanted.events.iter().enumerate().filter(|(_, event)| **event == (node, (inc, line.seq)));
        for (position, _) in wanted {
            if self.scanned.places[position].is_some() {
                let place = Place { host: self.scanned.hosts[&node], stamp: (inc, line.seq) };
                return Err(format!("two events are called {}", self.scanned.history.name(place)));
            }
            let place = Place { host: self.scanned.hosts[&node], stamp: (inc, line.seq) };
            self.scanned.places[position] = Some(place);
            if let Some(vector) = line.vector {
                let known = self.places(vector.get())?;
                self.scanned.history.recorded.insert(place, known);
            }
        }
        Ok(())
    }

    /// Keeps a send or a receive; `None` if it lacks what names it.
    fn message(&mut self, line: &Line<'_>, node: u16, inc: u32) -> Option<()> {
        let sends = match line.event.as_ref() {
            "send" => true,
            "recv" => false,
            _ => return Some(()),
        };
        let peer = number::<u16>(if sends { line.to } else { line.from })?;
        let id = number::<u64>(line.id)?;
        let kind = line.kind.and_then(|kind| serde_json::from_str::<Cow<'_, str>>(kind.get()).ok())?;
        let kind = match self.kinds.get(kind.as_ref()) {
            Some(kind) => *kind,
            None => {
                let next = u16::try_from(self.kinds.len()).ok()?;
                self.kinds.insert(kind.into_owned(), next);
                next
            }
        };
        let (host, peer) = (self.host(node), self.host(peer));
        let history = &mut self.scanned.history;
        history.work.messages += 1;
        if sends {
            history.sends.entry((host, inc, peer, id, kind)).or_insert(line.seq);
        } else {
            let from_inc =
                if line.from_inc.is_some() { number::<u32>(line.from_inc).filter(|inc| *inc > 0)? } else { 1 };
            let send: SendName = (peer, from_inc, host, id, kind);
            self.draft(node, inc).life.receives.push(Receive { seq: line.seq, send });
        }
        Some(())
    }

    fn host(&mut self, node: u16) -> usize {
        match self.scanned.hosts.entry(node) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                self.lives.push(BTreeMap::new());
                *new.insert(self.scanned.history.add_host(node.to_string()))
            }
        }
    }

    fn draft(&mut self, node: u16, inc: u32) -> &mut Draft {
        let host = self.host(node);
        self.lives[host].entry(inc).or_insert_with(|| Draft { sorted: true, ..Draft::default() })
    }

    /// A vector's entries.
    fn places(&mut self, text: &str) -> Result<Vec<Place>, String> {
        self.scanned.history.work.vectors += 1;
        let value = serde_json::from_str(text).map_err(|error| format!("vector: {error}"))?;
        Ok(vector(&value)?.iter().map(|(node, stamp)| Place { host: self.host(node), stamp }).collect())
    }

    fn finish(mut self) -> Result<Scanned, String> {
        let mut lives = std::mem::take(&mut self.lives);
        for drafts in &mut lives {
            let last = drafts.last_key_value().map_or(0, |(inc, _)| *inc);
            for (inc, draft) in drafts.iter_mut() {
                if !draft.sorted {
                    draft.life.seqs.sort_unstable();
                    draft.life.receives.sort_by_key(|receive| receive.seq);
                }
                if *inc < last && !draft.tail.is_empty() {
                    draft.life.tail = self.places(&draft.tail)?;
                }
            }
        }
        // Vectors may name hosts that have no event of their own in the trace.
        lives.resize_with(self.scanned.history.hosts.len(), BTreeMap::new);
        self.scanned.history.lives = lives
            .into_iter()
            .map(|drafts| drafts.into_iter().map(|(inc, draft)| (inc, draft.life)).collect())
            .collect();
        Ok(self.scanned)
    }
}

fn number<T: std::str::FromStr>(value: Option<&RawValue>) -> Option<T> {
    value.and_then(|value| value.get().parse().ok())
}
