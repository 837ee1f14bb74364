//! Mutual exclusion: one at a time.
//!
//! Every algorithm here runs within one **view**: a fixed set of nodes (`cx.view`) that all live,
//! with channels that lose nothing, repeat nothing and keep order, and a coordinator (`cx.leader`).
//! That is what the textbook assumes. When it stops being true, the membership makes a new view:
//! nobody is inside at that moment, every algorithm begins anew, and whoever still wants to enter
//! asks again. So the files hold the book's rules and nothing else.

pub mod central;
mod choice;
pub mod guardian;
pub mod lamport;
pub mod maekawa;
pub mod maekawa_plain;
mod queue;
pub mod ricart_agrawala;
pub mod suzuki_kasami;
#[cfg(test)]
pub(crate) mod testing;
pub mod token_ring;
pub mod voting;
pub mod voting_sets;

pub use central::Central;
pub use choice::Mutex;
pub use guardian::Guardian;
pub use lamport::Lamport;
pub use maekawa::Maekawa;
pub use maekawa_plain::MaekawaPlain;
pub use ricart_agrawala::RicartAgrawala;
pub use suzuki_kasami::SuzukiKasami;
pub use token_ring::TokenRing;
pub use voting::Voting;
pub use voting_sets::VotingSets;

use crate::context::Context;
use compasso_wire::{NodeId, message::MutexMessage};
use queue::{Queue, Request};

/// Most messages that a node says to itself because of one input: it asks itself, is inquired,
/// yields, and has room to spare.
const TO_SELF_MAX: usize = 8;

type Cx<'a> = Context<'a, MutexMessage, Event>;

/// What the node asks of an algorithm of mutual exclusion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// The view begins: the coordinator makes the token, where there is one.
    Begin,
    /// The application wants to enter.
    Request {
        /// Lamport time of the request: unique for this node, and kept when it has to ask again.
        stamp: u64,
    },
    /// The application is outside again.
    Release,
    /// Lose the token, if it is here: a fault that a scenario asks for.
    Discard,
}

/// What an algorithm of mutual exclusion tells its node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// The application may enter.
    Granted {
        /// Grows from entry to entry within the view, whoever enters.
        serial: u64,
    },
    /// The token is here.
    TokenArrived {
        /// Its serial.
        serial: u64,
    },
}

/// Everybody else in the view.
fn others<'a>(cx: &Cx<'a>) -> impl Iterator<Item = NodeId> + use<'a> {
    let me = cx.me();
    cx.members.of(cx.view).filter(move |id| *id != me)
}

/// A node that is its own server or voter talks to itself as to anybody, but not over the network:
/// takes such messages out of the output and has them heard, until there are no more.
fn hear_self(cx: &mut Cx<'_>, mut hear: impl FnMut(NodeId, MutexMessage, &mut Cx<'_>)) {
    let me = cx.me();
    for _ in 0..TO_SELF_MAX {
        let Some(at) = cx.output.messages.iter().position(|(to, _)| *to == me) else { return };
        let (_, message) = cx.output.messages.remove(at);
        hear(me, message, cx);
    }
    cx.output.overflowed |= cx.output.messages.iter().any(|(to, _)| *to == me);
}
