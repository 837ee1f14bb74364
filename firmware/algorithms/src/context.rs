//! What an algorithm is handed, and where it puts what it wants.

use crate::members::Members;
use compasso_wire::{Duration, Instant, Lists, NodeId, NodeSet, limits::MEMBERS_MAX};
use heapless::Vec;

/// Most messages that one input can cause: one to everybody, and a few answers.
pub const MESSAGES_MAX: usize = MEMBERS_MAX + 16;
/// Most events that one input can cause.
pub const EVENTS_MAX: usize = 8;

/// A state machine that is handed inputs and the time.
pub trait Algorithm {
    /// What it says to its peers.
    type Message;
    /// What it is asked to do.
    type Command;
    /// What it tells the node that it is part of.
    type Event;

    /// Takes a command.
    fn handle_command(&mut self, command: Self::Command, cx: &mut Context<'_, Self::Message, Self::Event>);
    /// Takes a peer's message.
    fn handle_message(
        &mut self,
        from: NodeId,
        message: Self::Message,
        cx: &mut Context<'_, Self::Message, Self::Event>,
    );
    /// Acts on every deadline at or before `cx.now`; otherwise does nothing, as where there are none.
    fn handle_timeout(&mut self, _cx: &mut Context<'_, Self::Message, Self::Event>) {}
    /// When to call `handle_timeout` next.
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
    /// The lists that leave with a message of its own, asked for when it leaves: a message that waits
    /// is small, so the algorithm keeps them.
    fn lists(&self, _message: &Self::Message) -> Lists {
        Lists::default()
    }
}

/// How slow the network and the nodes may be, as far as anybody knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delays {
    /// Longest one-way delay, `T_trans`.
    pub trans: Duration,
    /// Longest handling, `T_process`.
    pub process: Duration,
}

impl Delays {
    /// `T = 2·T_trans + T_process`: whoever has not answered by then is dead.
    #[must_use]
    pub fn answer(self) -> Duration {
        self.trans.times(2) + self.process
    }
}

/// What one input caused, in order.
#[derive(Debug)]
pub struct Output<M, E> {
    /// Messages, each with its destination.
    pub messages: Vec<(NodeId, M), MESSAGES_MAX>,
    /// Events.
    pub events: Vec<E, EVENTS_MAX>,
    /// Something did not fit and is lost.
    pub overflowed: bool,
}

impl<M, E> Default for Output<M, E> {
    fn default() -> Self {
        Output { messages: Vec::new(), events: Vec::new(), overflowed: false }
    }
}

/// The surroundings of one input.
pub struct Context<'a, M, E> {
    /// Hardware time of the input.
    pub now: Instant,
    /// Everybody who is configured.
    pub members: &'a Members,
    /// Who takes part at present, by position: the ring, the voters.
    pub view: NodeSet,
    /// The coordinator: who leads the view.
    pub leader: NodeId,
    /// Lamport time of the event that is being handled.
    pub lamport: u64,
    /// A number that differs from node to node and from input to input.
    pub random: u32,
    /// What is known of delays.
    pub delays: Delays,
    /// The lists that came with the message that is being handled.
    pub lists: &'a Lists,
    /// Where messages and events go.
    pub output: &'a mut Output<M, E>,
}

impl<M, E> Context<'_, M, E> {
    /// This node.
    #[must_use]
    pub fn me(&self) -> NodeId {
        self.members.me()
    }

    /// Sends `message` to `to`.
    pub fn send(&mut self, to: NodeId, message: M) {
        self.output.overflowed |= self.output.messages.push((to, message)).is_err();
    }

    /// Tells the node that `event` happened.
    pub fn emit(&mut self, event: E) {
        self.output.overflowed |= self.output.events.push(event).is_err();
    }
}
