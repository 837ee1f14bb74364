//! ShiViz logs: a regular expression with the groups `host`, `clock` (a vector as a JSON object)
//! and `event` finds the events; a host's own entry numbers them. A log has no sends and receives:
//! a message is where a host's clock learns something of another host.
//!
//! A file may begin as ShiViz's own upload format does: its expression on the first line, the
//! delimiter of several executions on the second. A group `name`, which our export writes, gives
//! an event a second name.

use super::{
    Form, Unread,
    history::{History, Life, Place},
    name, pattern,
};
use crate::trace::TraceError;
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use std::{borrow::Cow, collections::HashMap, fmt, ops::Range, path::Path};

/// The common two-line form: `host {clock}`, then the event. The clock is all the rest of its line:
/// an end that the expression had to search for would double the time.
const HOST_FIRST: &str = r"^(?<host>\S+) (?<clock>\{.*)\n(?<event>.*)";
/// ShiViz's own default: the event, then `host {clock}`. It begins at a line here, so that an event
/// that ends in braces is not taken for a clock.
const EVENT_FIRST: &str = r"^(?<event>.*)\n(?<host>\S+) (?<clock>\{.*)$";

/// One event: its number, and where its parts stand in the text.
#[derive(Clone, Debug)]
pub(super) struct Logged {
    pub own: u64,
    pub clock: Range<usize>,
    pub event: Range<usize>,
    pub name: Range<usize>,
}

/// A log, indexed. Clocks stay text until one is asked for.
pub(super) struct Log {
    file: String,
    text: String,
    /// The hosts, as they appear.
    pub hosts: Vec<String>,
    index: HashMap<String, usize>,
    /// Each host's events, ascending.
    pub events: Vec<Vec<Logged>>,
    /// Lines that the expression does not match.
    pub unread: Unread,
}

/// A vector as the log writes it.
struct Clock<'a>(Vec<(Cow<'a, str>, u64)>);

#[derive(Deserialize)]
struct Host<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Deserialize<'de> for Clock<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Clock<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a vector like {\"a\":1,\"b\":2}")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Clock<'de>, A::Error> {
                let mut entries = Vec::with_capacity(8);
                while let Some((Host(host), count)) = map.next_entry()? {
                    entries.push((host, count));
                }
                Ok(Clock(entries))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

impl Log {
    /// Reads a log.
    pub fn read(path: &Path, form: &Form) -> Result<Log, TraceError> {
        let file = path.display().to_string();
        let wrong = |message: String| TraceError { file: file.clone(), line: 0, message };
        let bytes = std::fs::read(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
        let text = String::from_utf8(bytes)
            .map_err(|_| wrong("expected a trace of JSON lines or a ShiViz log, found binary data".to_owned()))?;
        let text = if text.contains('\r') { text.replace("\r\n", "\n") } else { text };
        Log::parse(text, &file, form)
    }

    /// Reads a log's text; `file` is what errors call it.
    pub fn parse(text: String, file: &str, form: &Form) -> Result<Log, TraceError> {
        let wrong = |message: String| TraceError { file: file.to_owned(), line: 0, message };
        let header = Header::of(&text);
        let pattern = form.regex.as_deref().or(header.regex).unwrap_or_else(|| two_line_form(&text[header.body..]));
        let regex = pattern::compile(pattern).map_err(wrong)?;
        for group in ["host", "clock", "event"] {
            if !regex.capture_names().any(|name| name == Some(group)) {
                return Err(wrong(format!("the regular expression {pattern:?} lacks the group (?<{group}>…)")));
            }
        }
        let delimiter = form.delimiter.as_deref().or(header.delimiter);
        let span = execution(&text, header.body, delimiter, form.execution.as_deref()).map_err(wrong)?;
        let mut log = Log {
            file: file.to_owned(),
            hosts: Vec::new(),
            index: HashMap::new(),
            events: Vec::new(),
            unread: Unread::default(),
            text: String::new(),
        };
        let mut end = span.start;
        for found in regex.captures_iter(&text[span.clone()]) {
            let group = |name: &str| {
                found.name(name).map_or(0..0, |group| span.start + group.start()..span.start + group.end())
            };
            let Some(whole) = found.get(0) else { continue };
            log.unread.add(&text[end..span.start + whole.start()]);
            end = span.start + whole.end();
            log.take(&text, group("host"), group("clock"), group("event"), group("name"))?;
        }
        log.unread.add(&text[end..span.end]);
        if log.hosts.is_empty() {
            return Err(wrong(format!("expected a trace of JSON lines or a ShiViz log; {pattern:?} matches no event")));
        }
        for events in &mut log.events {
            events.sort_by_key(|event| event.own);
        }
        log.text = text;
        Ok(log)
    }

    fn take(
        &mut self,
        text: &str,
        host: Range<usize>,
        clock: Range<usize>,
        event: Range<usize>,
        name: Range<usize>,
    ) -> Result<(), TraceError> {
        let wrong = |message: String| TraceError { file: self.file.clone(), line: line_of(text, clock.start), message };
        let host = &text[host];
        let Clock(entries) = parse_clock(&text[clock.clone()]).map_err(wrong)?;
        let own = entries.iter().find(|(name, _)| name == host).map(|(_, count)| *count);
        let Some(own) = own.filter(|own| *own > 0) else {
            return Err(wrong(format!("the clock of host {host:?} lacks its own entry")));
        };
        let at = match self.index.get(host) {
            Some(at) => *at,
            None => {
                self.hosts.push(host.to_owned());
                self.events.push(Vec::new());
                self.index.insert(host.to_owned(), self.hosts.len() - 1);
                self.hosts.len() - 1
            }
        };
        self.events[at].push(Logged { own, clock, event, name });
        Ok(())
    }

    /// The event of this name: `host:n` with `n` its own entry, or its name in the group `name`.
    pub fn find(&self, wanted: &str) -> Result<Place, String> {
        let (host, number) = name::split(wanted)?;
        let place = |host: usize, own: u64| Place { host, stamp: (1, own) };
        if let (Some(host), Some((1, own))) = (self.index.get(host).copied(), name::stamp(number)) {
            let events = &self.events[host];
            let at = events.partition_point(|event| event.own < own);
            let same = events[at..].iter().take_while(|event| event.own == own).count();
            match same {
                0 => {}
                1 => return Ok(place(host, own)),
                _ => return Err(format!("two events are called {wanted}")),
            }
        }
        for (host, events) in self.events.iter().enumerate() {
            if let Some(event) = events.iter().find(|event| self.text[event.name.clone()] == *wanted) {
                return Ok(place(host, event.own));
            }
        }
        let known = match self.index.get(host) {
            Some(host) => {
                let ends = (self.events[*host].first(), self.events[*host].last());
                let (Some(first), Some(last)) = ends else { return Err(format!("no event {wanted}")) };
                format!("{} has {} to {}", self.hosts[*host], first.own, last.own)
            }
            None => format!("the hosts are {}", self.hosts.join(", ")),
        };
        Err(format!("no event {wanted}: {known}"))
    }

    /// The history, with the vectors of these events.
    pub fn history(&self, wanted: &[Place]) -> Result<History, TraceError> {
        let mut history = History { stamped: true, ..History::default() };
        for (host, events) in self.hosts.iter().zip(&self.events) {
            let at = history.add_host(host.clone());
            let (present, last) = (events.len() as u64, events.last().map_or(0, |event| event.own));
            history.lives[at].insert(1, Life { last, present, ..Life::default() });
            history.work.events += present;
        }
        let mut strangers: HashMap<String, usize> = HashMap::new();
        for place in wanted {
            let Some(event) = self.event(*place) else { continue };
            let Clock(entries) = self.clock(event)?;
            history.work.vectors += 1;
            let mut known = Vec::with_capacity(entries.len());
            for (host, count) in entries.iter().filter(|(_, count)| *count > 0) {
                // A clock may name hosts of which the log holds no event.
                let at = self.index.get(host.as_ref()).copied().unwrap_or_else(|| {
                    *strangers.entry(host.to_string()).or_insert_with(|| history.add_host(host.to_string()))
                });
                known.push(Place { host: at, stamp: (1, *count) });
            }
            history.recorded.insert(*place, known);
        }
        Ok(history)
    }

    /// The messages that were received up to the frontier and sent behind it. Only events at which
    /// a host learns of something outside are looked at closely.
    pub fn crossing(&self, frontier: &[u64]) -> Result<Vec<(Place, Place)>, TraceError> {
        let inside = |host: usize| frontier.get(host).copied().unwrap_or(0);
        let mut crossing = Vec::new();
        for (host, events) in self.events.iter().enumerate() {
            let mut known = vec![0; self.hosts.len()];
            for event in events.iter().take_while(|event| event.own <= inside(host)) {
                let mut learned = Vec::new();
                for (other, count) in self.entries(event)? {
                    if other != host && known[other] < count {
                        known[other] = count;
                        learned.push(Place { host: other, stamp: (1, count) });
                    }
                }
                if !learned.iter().any(|from| from.stamp.1 > inside(from.host)) {
                    continue;
                }
                let to = Place { host, stamp: (1, event.own) };
                for from in self.directly(&learned)? {
                    if from.stamp.1 > inside(from.host) {
                        crossing.push((from, to));
                    }
                }
            }
        }
        Ok(crossing)
    }

    /// Of what was learned at one event, that which no other part of it already knew: the messages.
    fn directly(&self, learned: &[Place]) -> Result<Vec<Place>, TraceError> {
        let mut second_hand = vec![false; learned.len()];
        for (at, teller) in learned.iter().enumerate() {
            let Some(event) = self.event(*teller) else { continue };
            let told = self.entries(event)?;
            for (other, place) in learned.iter().enumerate() {
                second_hand[other] |=
                    other != at && told.iter().any(|(host, count)| *host == place.host && *count >= place.stamp.1);
            }
        }
        Ok(learned.iter().zip(second_hand).filter(|(_, second_hand)| !second_hand).map(|(place, _)| *place).collect())
    }

    fn event(&self, place: Place) -> Option<&Logged> {
        let events = self.events.get(place.host)?;
        let at = events.binary_search_by_key(&place.stamp.1, |event| event.own).ok()?;
        events.get(at)
    }

    /// A clock's entries, of hosts that have events.
    fn entries(&self, event: &Logged) -> Result<Vec<(usize, u64)>, TraceError> {
        let Clock(entries) = self.clock(event)?;
        Ok(entries.iter().filter_map(|(host, count)| Some((*self.index.get(host.as_ref())?, *count))).collect())
    }

    fn clock(&self, event: &Logged) -> Result<Clock<'_>, TraceError> {
        parse_clock(&self.text[event.clock.clone()]).map_err(|message| TraceError {
            file: self.file.clone(),
            line: line_of(&self.text, event.clock.start),
            message,
        })
    }

    /// All events with their hosts, as the file has them.
    pub fn in_file_order(&self) -> Vec<(usize, &Logged)> {
        let hosts = self.events.iter().enumerate();
        let mut all: Vec<_> = hosts.flat_map(|(host, events)| events.iter().map(move |event| (host, event))).collect();
        all.sort_by_key(|(_, event)| event.clock.start);
        all
    }

    /// A part of the text.
    pub fn text(&self, range: &Range<usize>) -> &str {
        &self.text[range.clone()]
    }
}

/// The two lines that ShiViz's upload format puts first.
struct Header<'a> {
    regex: Option<&'a str>,
    delimiter: Option<&'a str>,
    /// Where the log itself begins.
    body: usize,
}

impl<'a> Header<'a> {
    fn of(text: &'a str) -> Header<'a> {
        let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
        let first = first.trim();
        let names = |group: &str| first.contains(&format!("(?<{group}>")) || first.contains(&format!("(?P<{group}>"));
        if !["host", "clock", "event"].into_iter().all(names) {
            return Header { regex: None, delimiter: None, body: 0 };
        }
        let (second, body) = rest.split_once('\n').unwrap_or((rest, ""));
        let delimiter = Some(second.trim()).filter(|second| !second.is_empty());
        Header { regex: Some(first), delimiter, body: text.len() - body.len() }
    }
}

/// Which of the two-line forms this is.
fn two_line_form(text: &str) -> &'static str {
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let clock = first.split_once(' ').map(|(_, clock)| clock.trim());
    if clock.is_some_and(|clock| parse_clock(clock).is_ok()) { HOST_FIRST } else { EVENT_FIRST }
}

/// Where the execution stands that is asked for.
fn execution(text: &str, body: usize, delimiter: Option<&str>, wanted: Option<&str>) -> Result<Range<usize>, String> {
    let mut found: Vec<(String, Range<usize>)> = Vec::new();
    let mut from = body;
    let mut label = String::new();
    if let Some(delimiter) = delimiter {
        for cut in pattern::compile(delimiter)?.captures_iter(&text[body..]) {
            let Some(whole) = cut.get(0).filter(|whole| !whole.is_empty()) else { continue };
            found.push((label, from..body + whole.start()));
            from = body + whole.end();
            label = cut.name("trace").map_or_else(String::new, |label| label.as_str().trim().to_owned());
        }
    }
    found.push((label, from..text.len()));
    found.retain(|(_, span)| !text[span.clone()].trim().is_empty());
    let Some(wanted) = wanted else {
        return match &found[..] {
            [] => Ok(body..text.len()),
            [(_, only)] => Ok(only.clone()),
            several => Err(format!("the log holds {}: name one with --execution", listed(several))),
        };
    };
    let by_number = wanted.parse::<usize>().ok().and_then(|number| found.get(number.checked_sub(1)?));
    let chosen = found.iter().find(|(label, _)| label == wanted).or(by_number);
    chosen
        .map(|(_, span)| span.clone())
        .ok_or_else(|| format!("no execution {wanted:?}: the log holds {}", listed(&found)))
}

fn listed(executions: &[(String, Range<usize>)]) -> String {
    let labels: Vec<&str> =
        executions.iter().map(|(label, _)| label.as_str()).filter(|label| !label.is_empty()).collect();
    let named = if labels.is_empty() { String::new() } else { format!(" ({})", labels.join(", ")) };
    format!("{} executions{named}, numbered from 1", executions.len())
}

fn parse_clock(text: &str) -> Result<Clock<'_>, String> {
    serde_json::from_str(text).map_err(|_| format!("expected a clock like {{\"a\":1,\"b\":2}}, found {text}"))
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}
