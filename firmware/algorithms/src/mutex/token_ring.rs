//! Mutual exclusion by a token that circulates on a ring.
//! Safety (ME1): at most one node is inside, since there is one token.
//! Liveness (ME2): a request is granted within one round.
//! Assumes that no neighbour dies and no message is lost.

use super::{Command, Event};
use crate::context::{Algorithm, Context};
use compasso_wire::{Duration, Instant, NodeId, message::MutexMessage as Message};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// The token is elsewhere.
    Without { wanted: bool },
    /// The token rests here, and nobody here wants it.
    Resting { serial: u64, pass_at: Instant },
    /// The token is here and the application is inside.
    Inside { serial: u64 },
}

/// One node's part in the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TokenRing {
    state: State,
    rest: Duration,
}

type Cx<'a> = Context<'a, Message, Event>;

impl TokenRing {
    /// A node without the token, at which an idle token rests for `rest`.
    #[must_use]
    pub fn new(rest: Duration) -> TokenRing {
        TokenRing { state: State::Without { wanted: false }, rest }
    }

    /// Whether the token is here.
    #[must_use]
    pub fn has_token(&self) -> bool {
        match self.state {
            State::Without { .. } => false,
            State::Resting { .. } | State::Inside { .. } => true,
        }
    }

    /// "When a process acquires the token, it checks whether it wants to enter; if not, it passes
    /// the token along."
    fn arrive(&mut self, serial: u64, cx: &mut Cx<'_>) {
        cx.emit(Event::TokenArrived { serial });
        match self.state {
            State::Without { wanted: true } => self.enter(serial, cx),
            State::Without { wanted: false } | State::Resting { .. } => {
                self.state = State::Resting { serial, pass_at: cx.now + self.rest };
            }
            State::Inside { .. } => {} // A second token while we are inside: it ends here.
        }
    }

    fn enter(&mut self, serial: u64, cx: &mut Cx<'_>) {
        self.state = State::Inside { serial };
        cx.emit(Event::Granted { serial });
    }

    fn pass(&mut self, serial: u64, cx: &mut Cx<'_>) {
        let next = cx.members.successor(cx.view);
        if next == cx.me() {
            // Alone on the ring: the token comes round at once.
            self.state = State::Resting { serial: serial + 1, pass_at: cx.now + self.rest };
            cx.emit(Event::TokenArrived { serial: serial + 1 });
        } else {
            self.state = State::Without { wanted: false };
            cx.send(next, Message::Token { serial: serial + 1 });
        }
    }
}

impl Algorithm for TokenRing {
    type Message = Message;
    type Command = Command;
    type Event = Event;

    fn handle_command(&mut self, command: Command, cx: &mut Cx<'_>) {
        match (command, self.state) {
            (Command::Begin, _) if cx.leader == cx.me() => self.arrive(0, cx),
            (Command::Begin, _) => {}
            (Command::Request { .. }, State::Without { .. }) => self.state = State::Without { wanted: true },
            (Command::Request { .. }, State::Resting { serial, .. }) => self.enter(serial, cx),
            // One entry per visit: the token moves on, whoever else wants to enter here.
            (Command::Release, State::Inside { serial }) => self.pass(serial, cx),
            (Command::Release, State::Without { .. }) => self.state = State::Without { wanted: false },
            (Command::Discard, State::Resting { .. } | State::Inside { .. }) => {
                self.state = State::Without { wanted: false };
            }
            (Command::Request { .. }, State::Inside { .. })
            | (Command::Release, State::Resting { .. })
            | (Command::Discard, State::Without { .. }) => {}
        }
    }

    fn handle_message(&mut self, _from: NodeId, message: Message, cx: &mut Cx<'_>) {
        if let Message::Token { serial } = message {
            self.arrive(serial, cx);
        }
    }

    fn handle_timeout(&mut self, cx: &mut Cx<'_>) {
        match self.state {
            State::Resting { serial, pass_at } if cx.now >= pass_at => self.pass(serial, cx),
            State::Without { .. } | State::Resting { .. } | State::Inside { .. } => {}
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match self.state {
            State::Resting { pass_at, .. } => Some(pass_at),
            State::Without { .. } | State::Inside { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::World;

    fn world(count: u16) -> World<TokenRing> {
        let mut world = World::new(&(0..count).collect::<Vec<_>>(), |_| TokenRing::new(Duration::from_millis(20)));
        for id in 0..count {
            world.command(id, Command::Begin);
        }
        world
    }

    fn entries(world: &World<TokenRing>) -> Vec<u16> {
        world.events.iter().filter(|(_, event)| matches!(event, Event::Granted { .. })).map(|(id, _)| id.0).collect()
    }

    #[test]
    fn under_full_load_an_entry_costs_one_message() {
        let mut world = world(4);
        for id in 0..4 {
            world.command(id, Command::Request { stamp: 1 });
        }
        for _ in 0..5 {
            for id in [3, 0, 1, 2] {
                assert_eq!(entries(&world).last(), Some(&id));
                world.command(id, Command::Release);
                world.command(id, Command::Request { stamp: 1 });
                world.deliver_while(|_| true);
            }
        }
        assert_eq!(entries(&world).len(), 21);
        assert_eq!(world.sent.len(), 20);
    }

    #[test]
    fn a_resting_token_is_entered_at_once_and_an_unwanted_one_moves_on() {
        let mut world = world(3);
        world.command(2, Command::Request { stamp: 1 });
        assert_eq!(entries(&world), [2]);
        world.command(2, Command::Release);
        world.command(1, Command::Request { stamp: 1 });
        world.deliver_while(|_| true);
        assert_eq!(entries(&world), [2], "it rests at 0");
        world.settle_one_deadline();
        assert_eq!(entries(&world), [2, 1]);
    }

    #[test]
    fn a_lost_token_stops_the_ring() {
        let mut world = world(3);
        world.command(2, Command::Discard);
        world.command(1, Command::Request { stamp: 1 });
        world.settle();
        assert!(entries(&world).is_empty());
    }

    #[test]
    fn a_node_alone_on_its_ring_enters_with_growing_serials() {
        let mut world = world(1);
        for _ in 0..3 {
            world.command(0, Command::Request { stamp: 1 });
            world.command(0, Command::Release);
        }
        let serials: Vec<_> = world
            .events
            .iter()
            .filter_map(|(_, event)| if let Event::Granted { serial } = event { Some(*serial) } else { None })
            .collect();
        assert_eq!(serials, [0, 1, 2]);
        assert!(world.sent.is_empty());
    }
}
