//! What follows from an election's own rules when its messages go round the circle: the same for all three.

use super::{
    Command, Event,
    circle::{Circle, Cx, Next},
};
use crate::context::Algorithm;
use compasso_wire::{Instant, NodeId, Term, message::ElectionMessage as Message};

/// An election whose messages go round the circle: what its own rules must say, and what follows from that.
pub(super) trait OnCircle {
    fn circle(&self) -> &Circle;

    fn circle_mut(&mut self) -> &mut Circle;

    /// Calls an election.
    fn start(&mut self, dead: Option<NodeId>, cx: &mut Cx<'_>);

    /// A message that can be one of this ring's.
    fn hear(&mut self, message: Message, cx: &mut Cx<'_>);

    /// This node has won: ELECTED goes round, unless the rules say otherwise.
    fn lead(&mut self, cx: &mut Cx<'_>) {
        let next = self.circle_mut().announce(cx);
        self.go_on(next, cx);
    }

    fn pass(&mut self, clockwise: bool, message: Message, cx: &mut Cx<'_>) {
        let next = self.circle_mut().pass(clockwise, message, cx);
        self.go_on(next, cx);
    }

    fn go_on(&mut self, next: Next, cx: &mut Cx<'_>) {
        match next {
            Next::Nothing => {}
            Next::Lead => self.lead(cx),
            Next::Start { dead } => self.start(dead, cx),
        }
    }

    /// Whom this node names as its leader, and in which term; nobody during an election.
    fn leader(&self, me: NodeId) -> Option<(NodeId, Term)> {
        self.circle().leader(me)
    }

    /// The highest term seen: what must be remembered over a restart.
    fn seen(&self) -> Term {
        self.circle().seen()
    }
}

impl<Election: OnCircle> Algorithm for Election {
    type Message = Message;
    type Command = Command;
    type Event = Event;

    fn handle_command(&mut self, command: Command, cx: &mut Cx<'_>) {
        let next = self.circle_mut().handle_command(command, cx);
        self.go_on(next, cx);
    }

    fn handle_message(&mut self, from: NodeId, message: Message, cx: &mut Cx<'_>) {
        if self.circle_mut().hear(from, &message, cx.members) {
            self.hear(message, cx);
        }
    }

    fn handle_timeout(&mut self, cx: &mut Cx<'_>) {
        let next = self.circle_mut().handle_timeout(cx.now);
        self.go_on(next, cx);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.circle().poll_timeout()
    }
}
