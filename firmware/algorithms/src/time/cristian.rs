//! Cristian's algorithm: ask a time server, halve the round trip, believe the quickest answer.
//! Promise: the measured offset is wrong by at most half of (round trip − 2·minimum delay).
//! Assumes that the server has the time, and that the delay of the quickest try is about
//! symmetric.

use crate::context::{Algorithm, Context};
use compasso_wire::{ClusterTime, Duration, Instant, NodeId};

/// Tries in one round; the one with the shortest round trip counts.
pub const TRIES: u8 = 8;

/// What client and server say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimeMessage {
    /// "What time is it?" The time of sending is stamped when it leaves.
    Request,
    /// The server's answer.
    Reply {
        /// The client's hardware time when the request left.
        echo: Instant,
        /// The server's time when the reply left.
        cluster: ClusterTime,
        /// How long the server kept the request.
        handling: Duration,
        /// The server's own clock may be wrong by so much.
        error_us: u32,
    },
}

/// What the client is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimeCommand {
    /// Ask this server from now on; nobody if there is none, or if this node serves itself.
    Follow {
        /// The server.
        server: Option<NodeId>,
        /// From one round to the next.
        every: Duration,
    },
}

/// What a round found out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Measured {
    /// The server that was asked.
    pub server: NodeId,
    /// At this hardware time ...
    pub at: Instant,
    /// ... the server's clock showed this.
    pub cluster: ClusterTime,
    /// Round trip of the quickest try, without the server's handling.
    pub rtt: Duration,
    /// When that try was begun.
    pub asked: Instant,
    /// The server's clock itself was wrong by at most this.
    pub error_us: u32,
}

impl Measured {
    /// The reading is wrong by at most this: half the round trip, and what the server's clock lacks.
    #[must_use]
    pub fn wrong_by_us(&self) -> u64 {
        self.rtt.0.div_ceil(2) + u64::from(self.error_us)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Off,
    Waiting { ask_at: Instant },
    Asking { asked: Instant, tries_left: u8, best: Option<Measured>, answer_by: Instant },
}

/// The client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cristian {
    state: State,
    server: Option<NodeId>,
    every: Duration,
}

impl Cristian {
    /// A client without a server.
    #[must_use]
    pub fn new() -> Cristian {
        Cristian { state: State::Off, server: None, every: Duration::ZERO }
    }

    /// Whom the client asks.
    #[must_use]
    pub fn server(&self) -> Option<NodeId> {
        self.server
    }

    fn ask(&mut self, tries_left: u8, best: Option<Measured>, cx: &mut Cx<'_>) {
        match (self.server, tries_left) {
            (Some(server), 1..) => {
                cx.send(server, TimeMessage::Request);
                self.state = State::Asking {
                    asked: cx.now,
                    tries_left: tries_left - 1,
                    best,
                    answer_by: cx.now + cx.delays.answer(),
                };
            }
            (Some(_), 0) => {
                if let Some(measured) = best {
                    cx.emit(measured);
                }
                self.state = State::Waiting { ask_at: cx.now + self.every };
            }
            (None, _) => self.state = State::Off,
        }
    }
}

impl Default for Cristian {
    fn default() -> Cristian {
        Cristian::new()
    }
}

type Cx<'a> = Context<'a, TimeMessage, Measured>;

impl Algorithm for Cristian {
    type Message = TimeMessage;
    type Command = TimeCommand;
    type Event = Measured;

    fn handle_command(&mut self, command: TimeCommand, cx: &mut Cx<'_>) {
        let TimeCommand::Follow { server, every } = command;
        self.every = every;
        if server != self.server {
            self.server = server;
            self.state = match server {
                Some(_) => State::Waiting { ask_at: cx.now },
                None => State::Off,
            };
        }
    }

    fn handle_message(&mut self, from: NodeId, message: TimeMessage, cx: &mut Cx<'_>) {
        let TimeMessage::Reply { echo, cluster, handling, error_us } = message else { return };
        let State::Asking { asked, tries_left, best, .. } = self.state else { return };
        if Some(from) != self.server || echo < asked || echo > cx.now {
            return; // An answer to an earlier try, or from an earlier server.
        }
        let rtt = Duration(cx.now.since(echo).0.saturating_sub(handling.0));
        let half = (rtt.0 / 2) as i64;
        let cluster = ClusterTime(cluster.0.saturating_add(half));
        let measured = Measured { server: from, at: cx.now, cluster, rtt, asked: echo, error_us };
        let best = match best {
            Some(quicker) if quicker.rtt <= rtt => Some(quicker),
            Some(_) | None => Some(measured),
        };
        self.ask(tries_left, best, cx);
    }

    fn handle_timeout(&mut self, cx: &mut Cx<'_>) {
        match self.state {
            State::Waiting { ask_at } if cx.now >= ask_at => self.ask(TRIES, None, cx),
            State::Asking { tries_left, best, answer_by, .. } if cx.now >= answer_by => {
                self.ask(tries_left, best, cx);
            }
            State::Off | State::Waiting { .. } | State::Asking { .. } => {}
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match self.state {
            State::Off => None,
            State::Waiting { ask_at } => Some(ask_at),
            State::Asking { answer_by, .. } => Some(answer_by),
        }
    }
}
