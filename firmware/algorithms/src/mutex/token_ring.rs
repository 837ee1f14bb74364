//! Mutual exclusion by a token that circulates on a ring.
//! Safety (ME1): at most one node is inside, as long as there is at most one token.
//! Liveness (ME2): a request is granted within one round, as long as there is a token.
//! Assumes that no neighbour dies and no message is lost. The token's epoch outlives its loss: see
//! `guardian.rs`.

use crate::context::{Algorithm, Context};
use compasso_wire::{Duration, Fence, Instant, NodeId, message::MutexMessage as Message};

/// What the application and the guardian ask of the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// The application wants to enter.
    Request,
    /// The application is outside again.
    Release,
    /// A token was made here.
    Adopt {
        /// Its epoch.
        epoch: u32,
    },
    /// The token here, if any, is void.
    Discard,
}

/// What the ring tells its node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// The token is here.
    Arrived {
        /// Its epoch and serial.
        token: Fence,
    },
    /// The application may enter.
    Granted {
        /// Grows from entry to entry.
        fence: Fence,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// The token is elsewhere.
    Without { wanted: bool },
    /// The token rests here, and nobody here wants it.
    Resting { token: Fence, pass_at: Instant },
    /// The token is here and the application is inside.
    Inside { token: Fence },
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

    /// The token, if it is here.
    #[must_use]
    pub fn token(&self) -> Option<Fence> {
        match self.state {
            State::Without { .. } => None,
            State::Resting { token, .. } | State::Inside { token } => Some(token),
        }
    }

    /// "When a process acquires the token, it checks whether it wants to enter; if not, it passes
    /// the token along."
    fn arrive(&mut self, token: Fence, cx: &mut Cx<'_>) {
        cx.emit(Event::Arrived { token });
        match self.state {
            State::Without { wanted: true } => self.enter(token, cx),
            State::Without { wanted: false } | State::Resting { .. } => {
                self.state = State::Resting { token, pass_at: cx.now + self.rest };
            }
            State::Inside { .. } => {} // A second token while we are inside: it ends here.
        }
    }

    fn enter(&mut self, token: Fence, cx: &mut Cx<'_>) {
        self.state = State::Inside { token };
        cx.emit(Event::Granted { fence: token });
    }

    fn pass(&mut self, token: Fence, cx: &mut Cx<'_>) {
        let next = cx.members.successor(cx.view);
        let onward = Fence::new(token.epoch(), token.serial() + 1);
        if next == cx.me() {
            // Alone on the ring: the token comes round at once.
            self.state = State::Resting { token: onward, pass_at: cx.now + self.rest };
            cx.emit(Event::Arrived { token: onward });
        } else {
            self.state = State::Without { wanted: false };
            cx.send(next, Message::Token { epoch: onward.epoch(), serial: onward.serial() });
        }
    }
}

impl Algorithm for TokenRing {
    type Message = Message;
    type Command = Command;
    type Event = Event;

    fn handle_command(&mut self, command: Command, cx: &mut Cx<'_>) {
        match (command, self.state) {
            (Command::Request, State::Without { .. }) => self.state = State::Without { wanted: true },
            (Command::Request, State::Resting { token, .. }) => self.enter(token, cx),
            // One entry per visit: the token moves on, whoever else wants to enter here.
            (Command::Release, State::Inside { token }) => self.pass(token, cx),
            (Command::Release, State::Without { .. }) => self.state = State::Without { wanted: false },
            (Command::Adopt { epoch }, _) => self.arrive(Fence::new(epoch, 0), cx),
            (Command::Discard, State::Resting { .. } | State::Inside { .. }) => {
                self.state = State::Without { wanted: false };
            }
            (Command::Request, State::Inside { .. })
            | (Command::Release, State::Resting { .. })
            | (Command::Discard, State::Without { .. }) => {}
        }
    }

    fn handle_message(&mut self, _from: NodeId, message: Message, cx: &mut Cx<'_>) {
        let Message::Token { epoch, serial } = message;
        self.arrive(Fence::new(epoch, serial), cx);
    }

    fn handle_timeout(&mut self, cx: &mut Cx<'_>) {
        match self.state {
            State::Resting { token, pass_at } if cx.now >= pass_at => self.pass(token, cx),
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
        World::new(&(0..count).collect::<Vec<_>>(), |_| TokenRing::new(Duration::from_millis(20)))
    }

    fn entries(world: &World<TokenRing>) -> Vec<u16> {
        world.events.iter().filter(|(_, event)| matches!(event, Event::Granted { .. })).map(|(id, _)| id.0).collect()
    }

    #[test]
    fn under_full_load_an_entry_costs_one_message() {
        let mut world = world(4);
        world.command(0, Command::Adopt { epoch: 1 });
        for id in 0..4 {
            world.command(id, Command::Request);
        }
        for _ in 0..5 {
            for id in 0..4 {
                assert_eq!(entries(&world).last(), Some(&id));
                world.command(id, Command::Release);
                world.command(id, Command::Request);
                world.deliver_while(|_| true);
            }
        }
        assert_eq!(entries(&world).len(), 21);
        assert_eq!(world.sent.len(), 20);
    }

    #[test]
    fn a_resting_token_is_entered_at_once_and_an_unwanted_one_moves_on() {
        let mut world = world(3);
        world.command(0, Command::Adopt { epoch: 1 });
        world.command(0, Command::Request);
        assert_eq!(entries(&world), [0]);
        world.command(0, Command::Release);
        world.command(2, Command::Request);
        world.deliver_while(|_| true);
        assert_eq!(entries(&world), [0], "it rests at 1");
        world.settle_one_deadline();
        assert_eq!(entries(&world), [0, 2]);
    }

    #[test]
    fn nobody_enters_without_the_token() {
        let mut world = world(3);
        world.command(1, Command::Request);
        world.settle();
        assert!(entries(&world).is_empty());
    }

    #[test]
    fn a_node_alone_on_its_ring_enters_with_growing_fences() {
        let mut world = world(1);
        world.command(0, Command::Adopt { epoch: 3 });
        let mut last = Fence::default();
        for _ in 0..3 {
            world.command(0, Command::Request);
            let fence = world.node(0).token().unwrap();
            assert!(fence > last);
            last = fence;
            world.command(0, Command::Release);
        }
        assert!(world.sent.is_empty());
    }
}
