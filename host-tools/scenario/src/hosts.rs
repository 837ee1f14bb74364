//! Servers of true time: how many a scenario has, what they say when they are asked, and how they lie.
//!
//! Every stage has the same ones: what is said here is what a receiver of radio or satellite time would say, and only
//! the network between it and the boards is the stage's.

use crate::{
    error::ScenarioError,
    model::{NODE_PPM_MAX, Scenario},
    reader::{Field, Section},
    span::{format_duration, parse_duration},
    step::Action,
};
use compasso_wire::{
    Body, ClusterTime, Duration, Header, Instant, Key, Leap, NodeId, Refusal, Vector,
    config::{ClockChoice, TimeSource},
    limits::{DATAGRAM_MAX, HOSTS_MAX},
    open, seal,
};
use std::fmt;

/// How a server's time differs from the true one.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Lie {
    /// It is ahead by so much at first,
    pub by_us: i64,
    /// and runs so much faster.
    pub ppm: f64,
}

impl Lie {
    /// By how much it is ahead after so long.
    #[must_use]
    pub fn after(&self, span: Duration) -> i64 {
        self.by_us + (span.0 as f64 * self.ppm / 1e6).round() as i64
    }
}

impl fmt::Display for Lie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.by_us < 0 { "-" } else { "" };
        let by = format_duration(Duration(self.by_us.unsigned_abs()));
        match (self.by_us, self.ppm) {
            (0, 0.0) => f.write_str("tells the truth"),
            (_, 0.0) => write!(f, "lies by {sign}{by}"),
            (0, ppm) => write!(f, "lies by {ppm} ppm"),
            (_, ppm) => write!(f, "lies by {sign}{by} and {ppm} ppm"),
        }
    }
}

/// A server of true time. It keeps nothing of whom it answers: a question that is repeated is answered again, and who
/// asked knows which answer it waits for.
pub struct TimeServer {
    id: NodeId,
    key: Key,
    cluster: u32,
    incarnation: u32,
    sequence: u32,
    /// Questions are answered.
    pub serves: bool,
    /// The leap second that was announced.
    pub leap: Option<Leap>,
    lie: Lie,
    since: Duration,
}

impl TimeServer {
    /// The server with this number, in this life.
    #[must_use]
    pub fn new(number: usize, key: Key, cluster: u32, incarnation: u32) -> TimeServer {
        TimeServer {
            id: NodeId::host(number),
            key,
            cluster,
            incarnation,
            sequence: 0,
            serves: true,
            leap: None,
            lie: Lie::default(),
            since: Duration::ZERO,
        }
    }

    /// Lies like this from here on.
    pub fn lie(&mut self, now: Duration, lie: Lie) {
        (self.lie, self.since) = (lie, now);
    }

    /// The answer to a question, if there is one: true time was `origin_us` when the stage's was zero.
    #[must_use]
    pub fn reply(&self, now: Duration, origin_us: i64, echo: Instant) -> Option<Body<'static>> {
        let lie_us = self.lie.after(Duration(now.0.saturating_sub(self.since.0)));
        self.serves.then(|| Body::TimeReply {
            echo,
            cluster: ClusterTime(origin_us + now.0 as i64 + lie_us),
            handling_us: 0,
            sent: Instant(now.0),
            error_us: 0,
            certain_us: 0,
            leaves_us: 0,
            is_set: true,
            leap: self.leap,
        })
    }

    /// The answer to a datagram that is for this server, if it gets one, and to whom.
    ///
    /// # Errors
    /// Why it was refused.
    pub fn answer(
        &mut self,
        now: Duration,
        origin_us: i64,
        is_member: impl Fn(NodeId) -> bool,
        datagram: &[u8],
    ) -> Result<Option<(NodeId, Vec<u8>)>, Refusal> {
        let opened = open(&self.key, self.cluster, self.id, is_member, datagram)?;
        let body = match opened.body {
            Body::Challenge(challenge) => Some(Body::Proof(challenge)),
            Body::TimeRequest { sent } => self.reply(now, origin_us, sent),
            _ => return Err(Refusal::Unexpected),
        };
        let to = opened.header.sender;
        Ok(body.map(|body| (to, self.seal(to, &body))))
    }

    fn seal(&mut self, to: NodeId, body: &Body<'_>) -> Vec<u8> {
        self.sequence += 1;
        let header = Header {
            cluster: self.cluster,
            sender: self.id,
            incarnation: self.incarnation,
            sequence: self.sequence,
            snapshot: 0,
            lamport: 0,
            vector: Vector::default(),
        };
        seal(&self.key, &header, to, body, &mut [0; DATAGRAM_MAX]).to_vec()
    }
}

/// How many hosts a `[clock]` section has.
pub(crate) fn count(clock: &Section<'_>, sync: ClockChoice, source: TimeSource) -> Result<u8, ScenarioError> {
    let Some(field) = clock.get("hosts") else { return Ok(1) };
    let hosts = field.integer(1..=HOSTS_MAX as u64, "how many hosts have the time")?;
    if hosts > 1 && (sync, source) != (ClockChoice::Disciplined, TimeSource::Host) {
        return Err(field.error(
            "expected 1 without sync = \"disciplined\" and source = \"host\": only that clock asks several hosts",
        ));
    }
    Ok(hosts as u8)
}

/// `time_server` or `lie`.
pub(crate) fn action(field: &Field<'_>, name: &str, scenario: &Scenario) -> Result<Action, ScenarioError> {
    let host = |table: &Section<'_>| {
        let what = "the number of a host";
        let number = table.require("host", what)?.integer(0..=u64::from(scenario.clock.hosts) - 1, what)?;
        Ok(number as u8)
    };
    if name == "time_server" {
        if !field.is_table() {
            return Ok(Action::TimeServer { host: None, serves: field.boolean()? });
        }
        let table = field.table("a table")?;
        table.refuse_unknown(&["host", "serves"], &[])?;
        let serves = table.require("serves", "true or false")?.boolean()?;
        return Ok(Action::TimeServer { host: Some(host(&table)?), serves });
    }
    let table = field.table("a table like { host = 1, by = \"80ms\" }, or with ppm = 200")?;
    table.refuse_unknown(&["host", "by", "ppm"], &[])?;
    let host = host(&table)?;
    let by_us = table.get("by").map(|by| signed(&by)).transpose()?;
    let ppm = table.get("ppm").map(|ppm| ppm.number(-NODE_PPM_MAX..=NODE_PPM_MAX, "parts per million")).transpose()?;
    if by_us.is_none() && ppm.is_none() {
        return Err(field.error("expected `by` (like \"80ms\"; \"0ms\" ends a lie), `ppm`, or both"));
    }
    Ok(Action::Lie { host, lie: Lie { by_us: by_us.unwrap_or(0), ppm: ppm.unwrap_or(0.0) } })
}

/// A duration that may be negative, in microseconds.
fn signed(field: &Field<'_>) -> Result<i64, ScenarioError> {
    let text = field.string()?;
    let (sign, span) = text.trim().strip_prefix('-').map_or((1, text), |span| (-1, span));
    let span = parse_duration(span).map_err(|message| field.error(format!("{message} (may be negative)")))?;
    Ok(sign * span.0 as i64)
}
