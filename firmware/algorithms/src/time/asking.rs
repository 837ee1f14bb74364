//! Asking for the time at the clock's own pace: the client of the disciplined clock.
//! Promise: one question at a time to one server, never faster than told; every answer gives four stamps.
//! Assumes that an answer echoes its question's stamp.

use super::disciplined::Exchange;
use crate::context::{Algorithm, Context};
use compasso_wire::{ClusterTime, Duration, Instant, NodeId};

/// What client and server say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AskingMessage {
    /// "What time is it?" The time of sending is stamped when it leaves.
    Request,
    /// The server's answer.
    Reply {
        /// `H1`: the client's hardware time when the request left.
        echo: Instant,
        /// `T3`: the server's time when the reply left.
        answered: ClusterTime,
        /// `T3 − T2`: how long the server kept the request.
        handling: Duration,
        /// `H4`: the client's hardware time when the reply came.
        arrived: Instant,
        /// The server's own clock may be wrong by so much,
        error_us: u32,
        /// and for certain by no more than this.
        certain_us: u32,
        /// From `T3` until the reply had left the server's board, at least, but for a few.
        leaves_us: u32,
    },
}

/// What the client is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AskingCommand {
    /// Ask this server from now on, and believe nothing that was asked before; nobody if there is none.
    Follow {
        /// The server.
        server: Option<NodeId>,
        /// The first question after so long.
        after: Duration,
    },
    /// From one question to the next.
    Pace {
        /// So long.
        every: Duration,
    },
}

/// An exchange with this server is complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exchanged {
    /// Who answered.
    pub server: NodeId,
    /// The stamps.
    pub exchange: Exchange,
}

/// Before anybody says otherwise.
const EVERY_DEFAULT: Duration = Duration::from_millis(250);

/// The client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asking {
    server: Option<NodeId>,
    /// What was asked before counts for another server, or another timeline.
    since: Instant,
    every: Duration,
    asked: Instant,
    ask_at: Option<Instant>,
}

impl Asking {
    /// A client without a server.
    #[must_use]
    pub const fn new() -> Asking {
        Asking { server: None, since: Instant(0), every: EVERY_DEFAULT, asked: Instant(0), ask_at: None }
    }

    /// Whom the client asks.
    #[must_use]
    pub fn server(&self) -> Option<NodeId> {
        self.server
    }
}

impl Default for Asking {
    fn default() -> Asking {
        Asking::new()
    }
}

type Cx<'a> = Context<'a, AskingMessage, Exchanged>;

impl Algorithm for Asking {
    type Message = AskingMessage;
    type Command = AskingCommand;
    type Event = Exchanged;

    fn handle_command(&mut self, command: AskingCommand, cx: &mut Cx<'_>) {
        match command {
            AskingCommand::Follow { server, after } => {
                self.server = server;
                self.since = cx.now;
                self.ask_at = server.map(|_| cx.now + after);
            }
            AskingCommand::Pace { every } => {
                self.every = every;
                self.ask_at = self.server.map(|_| self.asked + every);
            }
        }
    }

    fn handle_message(&mut self, from: NodeId, message: AskingMessage, cx: &mut Cx<'_>) {
        let AskingMessage::Reply { echo, answered, handling, arrived, error_us, certain_us, leaves_us } = message
        else {
            return;
        };
        if Some(from) != self.server || echo < self.since || echo > arrived || arrived > cx.now {
            return; // Of an earlier server, or of none.
        }
        let received = ClusterTime(answered.0.saturating_sub_unsigned(handling.0));
        let exchange = Exchange { asked: echo, received, answered, arrived, error_us, certain_us, leaves_us };
        cx.emit(Exchanged { server: from, exchange });
    }

    fn handle_timeout(&mut self, cx: &mut Cx<'_>) {
        let Some(server) = self.server.filter(|_| self.ask_at.is_some_and(|at| cx.now >= at)) else { return };
        cx.send(server, AskingMessage::Request);
        self.asked = cx.now;
        // An answer that is lost is not asked for sooner than the next one.
        self.ask_at = Some(cx.now + self.every);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.ask_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Delays, Members, context::Output};
    use compasso_wire::NO_LISTS;

    const SERVER: NodeId = NodeId(2);

    fn at(asking: &mut Asking, now: u64, act: impl FnOnce(&mut Asking, &mut Cx<'_>)) -> (usize, Option<Exchange>) {
        let members = Members::new(&[NodeId(1), SERVER], NodeId(1)).unwrap();
        let mut output = Output::default();
        let mut cx = Context {
            now: Instant(now),
            members: &members,
            view: members.all(),
            leader: SERVER,
            lamport: 0,
            random: 0,
            delays: Delays { trans: Duration(100), process: Duration(10) },
            lists: &NO_LISTS,
            output: &mut output,
        };
        act(asking, &mut cx);
        (output.messages.len(), output.events.first().map(|exchanged| exchanged.exchange))
    }

    fn reply(echo: u64, arrived: u64) -> AskingMessage {
        let (echo, arrived) = (Instant(echo), Instant(arrived));
        AskingMessage::Reply {
            echo,
            answered: ClusterTime(9000),
            handling: Duration(40),
            arrived,
            error_us: 3,
            certain_us: 5,
            leaves_us: 7,
        }
    }

    #[test]
    fn questions_keep_the_pace_whether_answers_come_or_not() {
        let mut asking = Asking::new();
        at(&mut asking, 1000, |asking, cx| {
            asking.handle_command(AskingCommand::Follow { server: Some(SERVER), after: Duration::ZERO }, cx);
            asking.handle_command(AskingCommand::Pace { every: Duration(500) }, cx);
            asking.handle_command(AskingCommand::Follow { server: Some(SERVER), after: Duration::ZERO }, cx);
        });
        let asked: Vec<u64> =
            (1000..4000).filter(|now| at(&mut asking, *now, |asking, cx| asking.handle_timeout(cx)).0 > 0).collect();
        assert_eq!(asked, [1000, 1500, 2000, 2500, 3000, 3500]);
    }

    #[test]
    fn only_answers_of_this_server_to_questions_since_it_is_followed_count() {
        let mut asking = Asking::new();
        at(&mut asking, 1000, |asking, cx| {
            asking.handle_command(AskingCommand::Follow { server: Some(SERVER), after: Duration::ZERO }, cx);
        });
        let mut taken = |from: NodeId, echo: u64, now: u64| {
            at(&mut asking, now, |asking, cx| asking.handle_message(from, reply(echo, now), cx)).1
        };
        assert_eq!(taken(SERVER, 999, 1200), None, "asked before");
        assert_eq!(taken(NodeId(1), 1000, 1200), None, "somebody else");
        assert_eq!(taken(SERVER, 1300, 1200), None, "asked in the future");
        let exchange = taken(SERVER, 1000, 1200).unwrap();
        assert_eq!((exchange.received, exchange.answered), (ClusterTime(8960), ClusterTime(9000)));
        assert_eq!((exchange.asked, exchange.arrived), (Instant(1000), Instant(1200)));
        assert_eq!((exchange.error_us, exchange.certain_us, exchange.leaves_us), (3, 5, 7));
    }
}
