//! A world of several nodes with instant, reliable channels: for tests of the bare rules.

use crate::{Algorithm, Context, Delays, Members, Output};
use compasso_wire::{Duration, Instant, NodeId};
use std::collections::{BTreeMap, VecDeque};

/// Several nodes of one algorithm, and every message that was ever sent among them.
pub struct World<A: Algorithm> {
    members: Vec<NodeId>,
    nodes: BTreeMap<NodeId, A>,
    now: Instant,
    /// One clock for all: it grows with every input, as every node's own would.
    pub lamport: u64,
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
        World {
            members,
            nodes,
            now: Instant(0),
            lamport: 0,
            in_flight: VecDeque::new(),
            sent: Vec::new(),
            events: Vec::new(),
        }
    }

    pub fn now(&self) -> Instant {
        self.now
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
        self.lamport += 1;
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let members = Members::new(&self.members, id).unwrap();
        let mut output = Output::default();
        let mut cx = Context {
            now: self.now,
            members: &members,
            view: members.all(),
            leader: members.highest(),
            lamport: self.lamport,
            random: (self.lamport as u32).wrapping_mul(2_654_435_761) >> 7,
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

impl<A: Algorithm> World<A>
where
    A::Message: Clone,
{
    /// Delivers the oldest message of one of the links that have any: each link keeps its order, the
    /// network does not. Says whose it was, and for whom.
    pub fn deliver_one_of(&mut self, pick: u32) -> Option<(NodeId, NodeId)> {
        let links: std::collections::BTreeSet<_> = self.in_flight.iter().map(|(from, to, _)| (*from, *to)).collect();
        let link = *links.iter().nth(pick as usize % links.len().max(1))?;
        let at = self.in_flight.iter().position(|(from, to, _)| (*from, *to) == link)?;
        let (from, to, message) = self.in_flight.remove(at)?;
        self.act(to, |node, cx| node.handle_message(from, message, cx));
        Some(link)
    }

    /// Lets the next deadline pass, if there is one, and delivers nothing.
    pub fn pass_one_deadline(&mut self) -> bool {
        let Some(next) = self.nodes.values().filter_map(A::poll_timeout).min() else { return false };
        self.now = self.now.max(next);
        for id in self.members.clone() {
            self.act(id, |node, cx| node.handle_timeout(cx));
        }
        true
    }

    /// When something will happen next without a message.
    pub fn poll_deadline(&self) -> Option<Instant> {
        self.nodes.values().filter_map(A::poll_timeout).min()
    }

    /// Messages that are under way and never arrive.
    pub fn lose(&mut self, is_lost: impl Fn(&A::Message) -> bool) {
        self.in_flight.retain(|(_, _, message)| !is_lost(message));
    }

    pub fn revive(&mut self, id: u16, node: A) {
        self.nodes.insert(NodeId(id), node);
    }
}
