//! The server of the cached value: hands out copies with leases, and writes when no older copy can be read.
//!
//! 1. A copy is given with the time until which it may be read. While a write is under way no copy is
//!    given: whoever asks waits for the new one.
//! 2. A write is acknowledged when every lease on an older version has run out or was given up. The server
//!    may ask for that (`invalidate`), and goes on at once if all answer; who does not is waited for.
//! 3. Hardening: what is written is kept by every member of the view before it is acknowledged. A new
//!    server takes the newest that a member knows, has everybody keep it, and waits until no lease that an
//!    earlier server may have given can be valid.
//!
//! Versions are (epoch, serial): whoever serves later gives higher ones.

use super::{Options, leases::Leases};
use crate::context::Context;
use compasso_wire::{
    ClusterTime, Instant, Interval, NodeId, NodeSet,
    cache::{CacheMessage as Message, Cached},
    limits::MEMBERS_MAX,
};
use heapless::Vec;

type Cx<'a> = Context<'a, Message, Event>;

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A write has begun: no copy of an older version is given any more.
    Writing {
        /// The version that will come.
        version: u64,
    },
    /// The write is acknowledged.
    Written {
        /// The version.
        version: u64,
        /// Who asked for it.
        writer: NodeId,
        /// Some lease had to run out: its reader was not asked, or did not answer.
        expired: bool,
    },
}

/// What has to pass before the server can go on by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wake {
    /// This instant.
    At(Instant),
    /// The server's clock must be wholly past this.
    Past(ClusterTime),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Another node serves.
    Closed,
    /// Hears what the members have kept.
    Collecting { known: NodeSet, open_at: Instant },
    /// Has the newest of it kept by all.
    Restoring { stored: NodeSet, open_at: Instant },
    /// Serves.
    Open,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// Older copies run out, or are given up.
    Draining,
    /// The members keep the new version.
    Storing { stored: NodeSet },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Writing {
    wish: Wish,
    next: Cached,
    /// Who had a lease when it began and has not given it up.
    holders: NodeSet,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Wish {
    writer: NodeId,
    question: u32,
    value: u64,
}

/// The server's part; closed at every node that is not the server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Server {
    options: Options,
    phase: Phase,
    current: Cached,
    /// Above the serials of this server's versions.
    era: u32,
    serial: u32,
    leases: Leases,
    readers: Vec<(NodeId, u32), MEMBERS_MAX>,
    writers: Vec<Wish, MEMBERS_MAX>,
    writing: Option<Writing>,
}

impl Server {
    /// A node that does not serve.
    #[must_use]
    pub fn new(options: Options) -> Server {
        Server {
            options,
            phase: Phase::Closed,
            current: Cached::default(),
            era: 0,
            serial: 0,
            leases: Leases::new(0),
            readers: Vec::new(),
            writers: Vec::new(),
            writing: None,
        }
    }

    /// A view begins, in which this node serves or does not. No earlier server's lease is valid from
    /// `open_at` on.
    pub fn begin(&mut self, era: u32, open_at: Instant, cx: &Cx<'_>) {
        let phase = match (cx.leader == cx.me(), self.options.replicates) {
            (false, _) => Phase::Closed,
            (true, true) => Phase::Collecting { known: NodeSet::EMPTY, open_at },
            (true, false) => Phase::Open,
        };
        (self.phase, self.era, self.serial) = (phase, era, 0);
        self.current = Cached { version: if self.options.replicates { 0 } else { version(era, 0) }, value: 0 };
        self.leases = Leases::new(cx.members.count());
        self.readers.clear();
        self.writers.clear();
        self.writing = None;
    }

    /// Takes a member's message. [`Self::proceed`] follows.
    pub fn handle_message(&mut self, from: NodeId, message: &Message, cx: &mut Cx<'_>) {
        let Some(position) = cx.members.position(from).filter(|_| self.phase != Phase::Closed) else { return };
        match *message {
            Message::Known { version, value } => self.known(position, Cached { version, value }, cx),
            Message::Stored { version } => match (&mut self.phase, &mut self.writing) {
                (Phase::Restoring { stored, .. }, _) if version == self.current.version => stored.insert(position),
                (Phase::Open, Some(Writing { next, stage: Stage::Storing { stored }, .. }))
                    if version == next.version =>
                {
                    stored.insert(position);
                }
                (Phase::Closed | Phase::Collecting { .. } | Phase::Restoring { .. } | Phase::Open, _) => {}
            },
            Message::Read { question } => {
                self.readers.retain(|(reader, _)| *reader != from);
                cx.output.overflowed |= self.readers.push((from, question)).is_err();
            }
            Message::Write { question, value } => {
                self.writers.retain(|wish| wish.writer != from);
                let wish = Wish { writer: from, question, value };
                let under_way = self.writing.is_some_and(|writing| writing.wish == wish);
                cx.output.overflowed |= !under_way && self.writers.push(wish).is_err();
            }
            Message::Invalidated { version } => {
                if let Some(writing) = self.writing.as_mut().filter(|writing| writing.next.version == version) {
                    self.leases.give_up(position);
                    writing.holders.remove(position);
                }
            }
            Message::Copy { .. } | Message::Store { .. } | Message::Invalidate { .. } | Message::Written { .. } => {}
        }
    }

    /// Goes one step on, if time and messages allow it; then there may be another. `clock` is this node's
    /// time, if it may serve by it.
    pub fn proceed(&mut self, clock: Option<Interval>, cx: &mut Cx<'_>) -> bool {
        if let Phase::Restoring { stored, open_at } = self.phase
            && cx.now >= open_at
            && is_all(stored, cx)
        {
            self.phase = Phase::Open;
        }
        let Some(clock) = clock.filter(|_| self.phase == Phase::Open) else { return false };
        match &mut self.writing {
            Some(Writing { next, stage: stage @ Stage::Draining, .. }) if self.leases.outstanding(clock).is_none() => {
                *stage = Stage::Storing { stored: NodeSet::EMPTY };
                if self.options.replicates {
                    keep(*next, cx);
                }
                true
            }
            Some(Writing { stage: Stage::Storing { stored }, .. })
                if !self.options.replicates || is_all(*stored, cx) =>
            {
                self.finish(cx);
                true
            }
            Some(_) => false,
            None if !self.readers.is_empty() => {
                self.answer(clock, cx);
                true
            }
            None if !self.writers.is_empty() => {
                self.begin_writing(clock, cx);
                true
            }
            None => false,
        }
    }

    /// What has to pass before [`Self::proceed`] can do more.
    #[must_use]
    pub fn poll_wake(&self) -> Option<Wake> {
        match (self.phase, self.writing) {
            (Phase::Restoring { open_at, .. }, _) => Some(Wake::At(open_at)),
            (Phase::Open, Some(Writing { stage: Stage::Draining, .. })) => self.leases.last().map(Wake::Past),
            (Phase::Open | Phase::Closed | Phase::Collecting { .. }, _) => None,
        }
    }

    /// Rule 3.
    fn known(&mut self, position: usize, kept: Cached, cx: &mut Cx<'_>) {
        let Phase::Collecting { known, open_at } = &mut self.phase else { return };
        known.insert(position);
        if kept.version > self.current.version {
            self.current = kept;
        }
        if is_all(*known, cx) {
            self.phase = Phase::Restoring { stored: NodeSet::EMPTY, open_at: *open_at };
            keep(self.current, cx);
        }
    }

    /// Rule 1.
    fn answer(&mut self, clock: Interval, cx: &mut Cx<'_>) {
        let Cached { version, value } = self.current;
        for (reader, question) in &self.readers {
            let Some(position) = cx.members.position(*reader) else { continue };
            let until = self.leases.grant(position, clock, self.options.lease);
            cx.send(*reader, Message::Copy { question: *question, version, value, until });
        }
        self.readers.clear();
    }

    fn begin_writing(&mut self, clock: Interval, cx: &mut Cx<'_>) {
        let wish = self.writers.remove(0);
        self.serial += 1;
        let next = Cached { version: version(self.era, self.serial), value: wish.value };
        let mut holders = NodeSet::EMPTY;
        for position in self.leases.holders(clock) {
            holders.insert(position);
            if let Some(id) = cx.members.id(position).filter(|_| self.options.invalidate) {
                cx.send(id, Message::Invalidate { version: next.version });
            }
        }
        cx.emit(Event::Writing { version: next.version });
        self.writing = Some(Writing { wish, next, holders, stage: Stage::Draining });
    }

    /// Rule 2.
    fn finish(&mut self, cx: &mut Cx<'_>) {
        let Some(Writing { wish: Wish { writer, question, .. }, next, holders, .. }) = self.writing.take() else {
            return;
        };
        self.current = next;
        let version = next.version;
        cx.emit(Event::Written { version, writer, expired: !holders.is_empty() });
        cx.send(writer, Message::Written { question, version, writer });
    }
}

fn version(era: u32, serial: u32) -> u64 {
    (u64::from(era) << 32) | u64::from(serial)
}

fn is_all(some: NodeSet, cx: &Cx<'_>) -> bool {
    cx.view.iter().all(|position| some.contains(position))
}

/// Has every member keep this.
fn keep(Cached { version, value }: Cached, cx: &mut Cx<'_>) {
    for id in cx.members.of(cx.view) {
        cx.send(id, Message::Store { version, value });
    }
}
