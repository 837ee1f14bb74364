//! A node that reads and writes the cached value.
//! It reads its copy as long as its lease lasts, and asks the server otherwise; what it writes, it asks
//! the server to write. A version is a fence: whoever has heard of one takes no lower one.

use super::{Options, leases::Held};
use crate::context::Context;
use compasso_wire::{
    Instant, Interval, NodeId,
    cache::{CacheMessage as Message, Cached},
};

type Cx<'a> = Context<'a, Message, Event>;

/// On a channel that may lose the question it is asked again after so many times an answer's time.
const PATIENCE: u64 = 4;

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// The value was read.
    Read {
        /// Its version.
        version: u64,
        /// From this node's copy, without asking.
        cached: bool,
    },
    /// What this node wanted to write is written.
    Written {
        /// As this version.
        version: u64,
    },
}

/// A question to the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Asked {
    question: u32,
    /// When to ask again, if an answer is not sure to come, or was of no use.
    again_at: Option<Instant>,
}

/// One node's wish to read and to write, and its copy. There is one of each at a time; whoever wants to
/// read while an answer is waited for reads that answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Client {
    options: Options,
    begun: bool,
    copy: Option<Held>,
    /// The highest version that this node was told to make way for.
    fence: u64,
    /// The highest version that a server had kept here.
    kept: Cached,
    questions: u32,
    reading: Option<Asked>,
    writing: Option<(Asked, u64)>,
}

impl Client {
    /// A node with what it kept in earlier lives.
    #[must_use]
    pub fn new(options: Options, kept: Cached) -> Client {
        let (copy, reading, writing) = (None, None, None);
        Client { options, begun: false, copy, fence: 0, kept, questions: 0, reading, writing }
    }

    /// What must survive a restart: to be stored before any message leaves.
    #[must_use]
    pub fn kept(&self) -> Cached {
        self.kept
    }

    /// Whether an answer is waited for before something can be read.
    #[must_use]
    pub fn is_reading(&self) -> bool {
        self.reading.is_some()
    }

    /// Whether something is to be written and is not yet.
    #[must_use]
    pub fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    /// A view begins: its server knows of no copy. Whatever was asked is asked again.
    pub fn begin(&mut self, cx: &mut Cx<'_>) {
        self.begun = true;
        self.copy = None;
        self.fence = 0; // An announced version may have died with its server.
        if self.options.replicates {
            let Cached { version, value } = self.kept;
            cx.send(cx.leader, Message::Known { version, value });
        }
        if self.reading.is_some() {
            self.ask_to_read(cx);
        }
        if let Some((_, value)) = self.writing {
            self.ask_to_write(value, cx);
        }
    }

    /// "Read from the copy while it is valid, otherwise ask."
    pub fn read(&mut self, clock: Option<Interval>, cx: &mut Cx<'_>) {
        let valid = clock.and_then(|clock| self.copy.filter(|copy| copy.is_valid(clock)));
        match valid {
            Some(Held { version, .. }) => cx.emit(Event::Read { version, cached: true }),
            None if self.reading.is_none() => self.ask_to_read(cx),
            None => {}
        }
    }

    /// Asks the server to write.
    pub fn write(&mut self, value: u64, cx: &mut Cx<'_>) {
        if self.writing.is_none() {
            self.ask_to_write(value, cx);
        }
    }

    /// Takes the server's message.
    pub fn handle_message(&mut self, from: NodeId, message: &Message, clock: Option<Interval>, cx: &mut Cx<'_>) {
        if from != cx.leader {
            return;
        }
        match *message {
            Message::Copy { question, version, value, until } => {
                if self.reading.is_some_and(|asked| asked.question == question) {
                    self.copied(Held { version, value, until }, clock, cx);
                }
            }
            Message::Invalidate { version } => {
                // Also where there is no copy: one that is still on its way is stopped by the fence.
                self.fence = self.fence.max(version);
                self.copy = self.copy.filter(|copy| copy.version >= version);
                cx.send(from, Message::Invalidated { version });
            }
            Message::Store { version, value } if version >= self.kept.version => {
                self.kept = Cached { version, value };
                cx.send(from, Message::Stored { version });
            }
            Message::Written { question, version, .. } => {
                if self.writing.is_some_and(|(asked, _)| asked.question == question) {
                    self.writing = None;
                    cx.emit(Event::Written { version });
                }
            }
            Message::Store { .. }
            | Message::Known { .. }
            | Message::Read { .. }
            | Message::Write { .. }
            | Message::Stored { .. }
            | Message::Invalidated { .. } => {}
        }
    }

    /// Asks again where no answer came, or none that was of use.
    pub fn handle_timeout(&mut self, cx: &mut Cx<'_>) {
        let is_due = |asked: &Asked| asked.again_at.is_some_and(|at| cx.now >= at);
        let (reads, writes) = (self.reading.filter(is_due), self.writing.filter(|(asked, _)| is_due(asked)));
        if reads.is_some() {
            self.ask_to_read(cx);
        }
        if let Some((_, value)) = writes {
            self.ask_to_write(value, cx);
        }
    }

    /// When to call [`Self::handle_timeout`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let asked = self.reading.into_iter().chain(self.writing.map(|(asked, _)| asked));
        asked.filter_map(|asked| asked.again_at).min()
    }

    fn copied(&mut self, copy: Held, clock: Option<Interval>, cx: &mut Cx<'_>) {
        let usable = copy.version >= self.fence && clock.is_some_and(|clock| copy.is_valid(clock));
        if usable {
            self.copy = Some(copy);
            self.reading = None;
            cx.emit(Event::Read { version: copy.version, cached: false });
        } else if let Some(asked) = &mut self.reading {
            // It came too late, or this node cannot tell: it has no time yet.
            asked.again_at = Some(cx.now + cx.delays.answer());
        }
    }

    /// The same question once more, or a new one.
    fn asked(&mut self, before: Option<Asked>, cx: &Cx<'_>) -> Asked {
        if before.is_none() {
            self.questions = self.questions.wrapping_add(1);
        }
        let question = before.map_or(self.questions, |asked| asked.question);
        let again_at = (!self.options.replicates).then_some(cx.now + cx.delays.answer().times(PATIENCE));
        Asked { question, again_at }
    }

    fn ask_to_read(&mut self, cx: &mut Cx<'_>) {
        let asked = self.asked(self.reading, cx);
        self.reading = Some(asked);
        if self.begun {
            cx.send(cx.leader, Message::Read { question: asked.question });
        }
    }

    fn ask_to_write(&mut self, value: u64, cx: &mut Cx<'_>) {
        let asked = self.asked(self.writing.map(|(asked, _)| asked), cx);
        self.writing = Some((asked, value));
        if self.begun {
            cx.send(cx.leader, Message::Write { question: asked.question, value });
        }
    }
}
