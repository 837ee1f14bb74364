//! A room that one at a time may enter: the nodes, their Lamport clocks and their channels, which
//! lose nothing, repeat nothing and keep order, but are as slow as the test wants each of them.

use super::{Command, Event, VotingSets};
use crate::{Algorithm, Context, Delays, Members, Output, order::lamport::LamportClock};
use compasso_wire::{
    Duration, Instant, Lists, NO_LISTS, NodeId, NodeSet, limits::MEMBERS_MAX, message::MutexMessage as Message,
};
use std::collections::{BTreeMap, BTreeSet};

/// Inputs after which a room that still is not quiet never will be.
const STEPS_MAX: usize = 200_000;

/// The textbook's `V0={0,1}, V1={1,2}, V2={2,0}`.
pub fn three_sets() -> heapless::Vec<NodeSet, MEMBERS_MAX> {
    let pair = |a, b| {
        let mut set = NodeSet::EMPTY;
        set.insert(a);
        set.insert(b);
        set
    };
    heapless::Vec::from_slice(&[pair(0, 1), pair(1, 2), pair(2, 0)]).unwrap()
}

/// The textbook's sets, as the node of that id has them among 0, 1, 2.
pub fn three_voting_sets(id: NodeId) -> VotingSets {
    VotingSets::new(Some(&three_sets()), &members(&[0, 1, 2], id))
}

pub fn members(ids: &[u16], me: NodeId) -> Members {
    let ids: Vec<NodeId> = ids.iter().copied().map(NodeId).collect();
    Members::new(&ids, me).unwrap()
}

/// SplitMix64: the same seed, the same numbers.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// One entry, in the order of entering.
pub struct Entry {
    pub id: NodeId,
    pub serial: u64,
    /// Of its request.
    pub stamp: u64,
}

struct Flight {
    from: NodeId,
    to: NodeId,
    lamport: u64,
    message: Message,
    lists: Lists,
}

pub struct Room<A> {
    /// What a failure prints.
    pub label: String,
    /// Two inside or a stuck storm are counted, not asserted.
    pub tolerant: bool,
    ids: Vec<NodeId>,
    view: NodeSet,
    nodes: BTreeMap<NodeId, A>,
    clocks: BTreeMap<NodeId, LamportClock>,
    now: Instant,
    random: Random,
    in_flight: Vec<Flight>,
    /// (from, to, message) in the order of sending, also to the dead.
    pub sent: Vec<(NodeId, NodeId, Message)>,
    pub entries: Vec<Entry>,
    pub most_inside: usize,
    wanting: BTreeMap<NodeId, u64>,
    inside: BTreeSet<NodeId>,
}

impl<A: Algorithm<Message = Message, Command = Command, Event = Event>> Room<A> {
    /// Everybody takes part, and the view begins.
    pub fn new(ids: &[u16], make: impl Fn(NodeId) -> A) -> Room<A> {
        Room::in_view(ids, &[], make)
    }

    /// Everybody takes part but for the absent. The coordinator is the highest of the view.
    pub fn in_view(ids: &[u16], absent: &[u16], make: impl Fn(NodeId) -> A) -> Room<A> {
        let ids: Vec<NodeId> = ids.iter().copied().map(NodeId).collect();
        let present = |id: &NodeId| !absent.contains(&id.0);
        let mut view = NodeSet::EMPTY;
        ids.iter().enumerate().filter(|(_, id)| present(id)).for_each(|(at, _)| view.insert(at));
        let mut room = Room {
            label: String::new(),
            tolerant: false,
            view,
            nodes: ids.iter().filter(|id| present(id)).map(|id| (*id, make(*id))).collect(),
            clocks: ids.iter().map(|id| (*id, LamportClock::default())).collect(),
            ids,
            now: Instant(0),
            random: Random(1),
            in_flight: Vec::new(),
            sent: Vec::new(),
            entries: Vec::new(),
            most_inside: 0,
            wanting: BTreeMap::new(),
            inside: BTreeSet::new(),
        };
        for id in room.ids.clone() {
            room.command(id.0, Command::Begin);
        }
        room
    }

    fn leader(&self) -> NodeId {
        let in_view = self.ids.iter().enumerate().filter(|(at, _)| self.view.contains(*at));
        in_view.map(|(_, id)| *id).max().unwrap()
    }

    /// A node dies, and nobody notices.
    pub fn crash(&mut self, id: u16) {
        self.nodes.remove(&NodeId(id));
    }

    pub fn node(&self, id: u16) -> &A {
        &self.nodes[&NodeId(id)]
    }

    pub fn live(&self) -> impl Iterator<Item = (NodeId, &A)> {
        self.nodes.iter().map(|(id, node)| (*id, node))
    }

    pub fn inside(&self) -> Vec<u16> {
        self.inside.iter().map(|id| id.0).collect()
    }

    pub fn entered(&self) -> Vec<u16> {
        self.entries.iter().map(|entry| entry.id.0).collect()
    }

    pub fn command(&mut self, id: u16, command: Command) {
        self.act(NodeId(id), &NO_LISTS, |node, cx| node.handle_command(command, cx));
    }

    pub fn request(&mut self, id: u16) {
        self.request_at(id, 0);
    }

    /// The request happens at this Lamport time, or later if it is past.
    pub fn request_at(&mut self, id: u16, stamp: u64) {
        let clock = self.clocks.get_mut(&NodeId(id)).unwrap();
        clock.merge(stamp.saturating_sub(1));
        let stamp = clock.read() + 1;
        self.wanting.insert(NodeId(id), stamp);
        self.command(id, Command::Request { stamp });
    }

    /// Asks in this view for what it asked in an earlier one, with the old stamp.
    pub fn ask_again(&mut self, id: u16, stamp: u64) {
        self.wanting.insert(NodeId(id), stamp);
        self.command(id, Command::Request { stamp });
    }

    /// Leaves the room, or withdraws the request.
    pub fn release(&mut self, id: u16) {
        self.wanting.remove(&NodeId(id));
        self.inside.remove(&NodeId(id));
        self.command(id, Command::Release);
    }

    pub fn enter_and_leave(&mut self, id: u16) {
        self.request(id);
        self.deliver_all();
        assert_eq!(self.inside(), [id]);
        self.release(id);
        self.deliver_all();
    }

    /// Hands over a message that nobody sent.
    pub fn message(&mut self, to: u16, from: u16, message: Message) {
        self.act(NodeId(to), &NO_LISTS, |node, cx| node.handle_message(NodeId(from), message, cx));
    }

    /// The next message of that channel arrives.
    pub fn deliver(&mut self, from: u16, to: u16) {
        let channel = (NodeId(from), NodeId(to));
        let next = self.in_flight.iter().position(|flight| (flight.from, flight.to) == channel);
        self.arrive(next.expect("something is on its way"));
    }

    /// Everything arrives, in the order of sending, before any deadline.
    pub fn deliver_all(&mut self) {
        while !self.in_flight.is_empty() {
            self.arrive(0);
        }
    }

    /// Everything arrives and every deadline passes, until nothing happens any more.
    pub fn settle(&mut self) {
        for _ in 0..STEPS_MAX {
            self.deliver_all();
            if !self.settle_one_deadline() {
                return;
            }
        }
        panic!("never settles: {}", self.label);
    }

    pub fn settle_until_somebody_enters(&mut self) {
        let before = self.entries.len();
        for _ in 0..STEPS_MAX {
            self.deliver_all();
            if self.entries.len() > before {
                return;
            }
            assert!(self.settle_one_deadline(), "nobody enters: {}", self.label);
        }
        panic!("nobody enters: {}", self.label);
    }

    /// The next deadline passes, if there is one, and nothing arrives.
    pub fn settle_one_deadline(&mut self) -> bool {
        let Some(next) = self.nodes.values().filter_map(A::poll_timeout).min() else { return false };
        self.now = self.now.max(next);
        for id in self.ids.clone() {
            self.act(id, &NO_LISTS, |node, cx| node.handle_timeout(cx));
        }
        true
    }

    fn arrive(&mut self, at: usize) {
        let Flight { from, to, lamport, message, lists } = self.in_flight.remove(at);
        self.clocks.get_mut(&to).unwrap().merge(lamport);
        self.act(to, &lists, |node, cx| node.handle_message(from, message, cx));
    }

    fn act(&mut self, id: NodeId, lists: &Lists, act: impl FnOnce(&mut A, &mut Context<'_, Message, Event>)) {
        let leader = self.leader();
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let clock = self.clocks.get_mut(&id).unwrap();
        let members = Members::new(&self.ids, id).unwrap();
        let mut output = Output::default();
        let mut cx = Context {
            now: self.now,
            members: &members,
            view: self.view,
            leader,
            lamport: clock.tick(),
            random: self.random.next() as u32,
            delays: Delays { trans: Duration(1000), process: Duration(100) },
            lists,
            output: &mut output,
        };
        act(node, &mut cx);
        assert!(!output.overflowed);
        for (to, message) in &output.messages {
            assert_ne!(*to, id, "nobody sends to itself");
            let (to, message, lists) = (*to, *message, node.lists(message));
            self.sent.push((id, to, message));
            self.in_flight.push(Flight { from: id, to, lamport: clock.tick(), message, lists });
        }
        for event in &output.events {
            match event {
                Event::Granted { serial } => self.enter(id, *serial),
                Event::TokenArrived { .. } => {}
            }
        }
    }

    fn enter(&mut self, id: NodeId, serial: u64) {
        let stamp = self.wanting.remove(&id).expect("only who wants to enter is granted it");
        self.inside.insert(id);
        self.most_inside = self.most_inside.max(self.inside.len());
        if !self.tolerant {
            assert_eq!(self.inside.len(), 1, "ME1: {:?} inside: {}", self.inside, self.label);
            assert!(self.entries.last().is_none_or(|last| last.serial < serial), "serials grow: {}", self.label);
        }
        self.entries.push(Entry { id, serial, stamp });
    }

    /// Everybody enters so many times, with requests, releases, deliveries and deadlines in an
    /// order that the seed chooses; each channel keeps its own.
    pub fn storm(&mut self, seed: u64, times: usize) {
        self.random = Random(seed);
        let mut left: BTreeMap<NodeId, usize> = self.nodes.keys().map(|id| (*id, times)).collect();
        for _ in 0..STEPS_MAX {
            let idle = |id: &NodeId| !self.wanting.contains_key(id) && !self.inside.contains(id);
            let askers: Vec<NodeId> =
                left.iter().filter(|(id, left)| **left > 0 && idle(id)).map(|(id, _)| *id).collect();
            let leavers: Vec<NodeId> = self.inside.iter().copied().collect();
            let mut channels = BTreeSet::new();
            let arrivals: Vec<usize> = (0..self.in_flight.len())
                .filter(|at| channels.insert((self.in_flight[*at].from, self.in_flight[*at].to)))
                .collect();
            let done = askers.is_empty() && leavers.is_empty() && self.wanting.is_empty();
            if done {
                return;
            }
            // Now and then a deadline passes before what is on its way arrives.
            let choices = askers.len() + leavers.len() + arrivals.len();
            if choices == 0 || self.random.below(50) == 0 {
                let passed = self.settle_one_deadline();
                if !passed && choices == 0 {
                    assert!(self.tolerant, "ME2: {:?} wait for ever: {}", self.wanting, self.label);
                    return;
                }
                continue;
            }
            let mut choice = self.random.below(choices);
            if let Some(id) = askers.get(choice) {
                *left.get_mut(id).unwrap() -= 1;
                self.request(id.0);
                continue;
            }
            choice -= askers.len();
            if let Some(id) = leavers.get(choice) {
                self.release(id.0);
                continue;
            }
            self.arrive(arrivals[choice - leavers.len()]);
        }
        assert!(self.tolerant, "ME2: {:?} are not served: {}", self.wanting, self.label);
    }
}
