//! A world of several nodes with instant, reliable channels: for tests of the bare rules.

use crate::{Algorithm, Context, Delays, Members, Output};
use compasso_wire::{Duration, Instant, NodeId};
use std::collections::{BTreeMap, VecDeque};

/// Several nodes of one algorithm, and every message that was ever sent among them.
pub struct World<A: Algorithm> {
    members: Vec<NodeId>,
    nodes: BTreeMap<NodeId, A>,
    now: Instant,
    in_flight: VecDeque<(NodeId, NodeId, A::Message)>,
    /// (from, to, message) in the order of sending, also to the dead.
    pub sent: Vec<(NodeId, NodeId, A::Message)>,
    /// (node, event) in the order of happening.
    pub events: Vec<(NodeId, A::Event)>,
}

impl<A: Algorithm> World<A>
where
    A::Message: Clone,
{
    pub fn new(ids: &[u16], make: impl Fn(NodeId) -> A) -> World<A> {
        let members: Vec<NodeId> = ids.iter().copied().map(NodeId).collect();
        let nodes = members.iter().map(|id| (*id, make(*id))).collect();
        World { members, nodes, now: Instant(0), in_flight: VecDeque::new(), sent: Vec::new(), events: Vec::new() }
    }

    pub fn crash(&mut self, id: u16) {
        self.nodes.remove(&NodeId(id));
    }

    pub fn node(&self, id: u16) -> &A {
        &self.nodes[&NodeId(id)]
    }

    pub fn live(&self) -> impl Iterator<Item = (NodeId, &A)> {
        self.nodes.iter().map(|(id, node)| (*id, node))
    }

    pub fn command(&mut self, id: u16, command: A::Command) {
        self.act(NodeId(id), |node, cx| node.handle_command(command, cx));
    }

    pub fn message(&mut self, to: u16, from: u16, message: A::Message) {
        self.act(NodeId(to), |node, cx| node.handle_message(NodeId(from), message, cx));
    }

    /// Delivers in the order of sending, as long as the next message is one of those.
    pub fn deliver_while(&mut self, wanted: impl Fn(&A::Message) -> bool) {
        while self.in_flight.front().is_some_and(|(_, _, message)| wanted(message)) {
            if let Some((from, to, message)) = self.in_flight.pop_front() {
                self.act(to, |node, cx| node.handle_message(from, message, cx));
            }
        }
    }

    /// Delivers everything and lets every deadline pass, until nothing happens any more.
    pub fn settle(&mut self) {
        for _ in 0..10_000 {
            self.deliver_while(|_| true);
            let Some(next) = self.nodes.values().filter_map(A::poll_timeout).min() else { return };
            self.now = self.now.max(next);
            for id in self.members.clone() {
                self.act(id, |node, cx| node.handle_timeout(cx));
            }
        }
        panic!("never settles");
    }

    pub(crate) fn act(&mut self, id: NodeId, act: impl FnOnce(&mut A, &mut Context<'_, A::Message, A::Event>)) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let members = Members::new(&self.members, id).unwrap();
        let mut output = Output::default();
        let mut cx = Context {
            now: self.now,
            members: &members,
            view: members.all(),
            delays: Delays { trans: Duration(1000), process: Duration(100) },
            output: &mut output,
        };
        act(node, &mut cx);
        assert!(!output.overflowed);
        for (to, message) in output.messages {
            self.sent.push((id, to, message.clone()));
            self.in_flight.push_back((id, to, message));
        }
        self.events.extend(output.events.into_iter().map(|event| (id, event)));
    }
}

impl<A: Algorithm> World<A>
where
    A::Message: Clone,
{
    /// Lets the next deadline pass, and delivers what comes of it.
    pub fn settle_one_deadline(&mut self) {
        let Some(next) = self.nodes.values().filter_map(A::poll_timeout).min() else { return };
        self.now = self.now.max(next);
        for id in self.members.clone() {
            self.act(id, |node, cx| node.handle_timeout(cx));
        }
        self.deliver_while(|_| true);
    }
}
