//! Three nodes, a host and the wires between them, in one memory and in scripted time.

use super::{counter::Counter, stack, tally::Tally};
use compasso_node::{Effect, Input, Node};
use compasso_wire::{
    Body, Header, Instant, Key, Kind, NodeConfig, NodeId, Vector,
    config::{ClockChoice, ElectionChoice, MutexChoice, Workload},
    limits::{DATAGRAM_MAX, OBSERVATION_MAX},
    message::Command,
    open, seal,
};
use core::mem::MaybeUninit;
use heapless::{Deque, Vec};

/// How many nodes there are: enough for a majority, an election and a ring.
pub const NODES: usize = 3;
/// The cluster's key.
pub const KEY: Key = Key([0x5a; 16]);
/// The cluster's number.
pub const CLUSTER: u32 = 77;

/// Every datagram takes so long, in microseconds: they arrive in the order of sending.
const DELAY_US: u64 = 400;
/// Datagrams under way at once.
const FLIGHTS_MAX: usize = 64;

struct Flight {
    at_us: u64,
    to: NodeId,
    bytes: Vec<u8, DATAGRAM_MAX>,
}

/// The memory of a cluster: one after the other works in it.
pub struct Room {
    nodes: [MaybeUninit<Node>; NODES],
    flights: Deque<Flight, FLIGHTS_MAX>,
    outgoing: [u8; DATAGRAM_MAX],
    record: [u8; OBSERVATION_MAX],
}

impl Room {
    /// Nobody is there.
    pub const fn new() -> Room {
        Room {
            nodes: [const { MaybeUninit::uninit() }; NODES],
            flights: Deque::new(),
            outgoing: [0; DATAGRAM_MAX],
            record: [0; OBSERVATION_MAX],
        }
    }
}

/// What a cluster performs, and what of it is counted.
#[derive(Clone)]
pub struct Piece {
    /// The first half of the names, or nothing where everything is counted, as `handle` and `make`.
    pub name: Option<&'static str>,
    /// Handling of these messages is counted.
    pub counts: fn(&Body<'_>) -> bool,
    /// Who becomes coordinator.
    pub election: ElectionChoice,
    /// How the nodes take turns.
    pub mutex: MutexChoice,
    /// What they ask for by themselves.
    pub workload: Option<Workload>,
}

/// The cluster, and what its work has cost so far.
pub struct Cluster<'a> {
    piece: &'a Piece,
    nodes: Vec<&'a mut Node, NODES>,
    now_us: u64,
    flights: &'a mut Deque<Flight, FLIGHTS_MAX>,
    outgoing: &'a mut [u8; DATAGRAM_MAX],
    record: &'a mut [u8; OBSERVATION_MAX],
    host_sequence: u32,
    counter: &'a Counter,
    /// Instructions, by what was done to which kind of message.
    pub tally: Tally,
    /// Where the stack stood when the nodes began to work.
    works_from: usize,
    /// The deepest stack that the making of a node took.
    pub boot_stack: usize,
}

impl<'a> Cluster<'a> {
    /// Three nodes that have just booted.
    pub fn boot(room: &'a mut Room, counter: &'a Counter, piece: &'a Piece) -> Cluster<'a> {
        let Room { nodes, flights, outgoing, record } = room;
        flights.clear();
        let mut cluster = Cluster {
            piece,
            nodes: Vec::new(),
            now_us: 0,
            flights,
            outgoing,
            record,
            host_sequence: 0,
            counter,
            tally: Tally::new(),
            works_from: stack::pointer(),
            boot_stack: 0,
        };
        for (index, slot) in nodes.iter_mut().enumerate() {
            let config = config(id(index), piece);
            stack::paint();
            let node = make_node(slot, &config);
            cluster.boot_stack = cluster.boot_stack.max(stack::used_below(stack::pointer()));
            assert!(cluster.nodes.push(node).is_ok(), "as many as there are places");
        }
        stack::paint();
        for index in 0..NODES {
            cluster.drain(index);
        }
        cluster
    }

    /// How deep the stack got in the nodes' work since they booted.
    pub fn work_stack(&self) -> usize {
        stack::used_below(self.works_from)
    }

    /// The host's order to a node, without a datagram. Not counted.
    pub fn command(&mut self, index: usize, command: Command) {
        if let Some(node) = self.nodes.get_mut(index) {
            node.handle(Instant(self.now_us), Input::Command(command));
            self.drain(index);
        }
    }

    /// Lets time pass: datagrams arrive, deadlines are met.
    pub fn run_until(&mut self, end_us: u64) {
        loop {
            let deadline = (0..NODES)
                .filter_map(|index| self.nodes.get(index)?.poll_timeout().map(|(at, _)| (at.0.max(self.now_us), index)))
                .min();
            let arrival_us = self.flights.front().map(|flight| flight.at_us);
            match (deadline, arrival_us) {
                // A deadline first: then a datagram's cost is its own.
                (Some((at_us, index)), arrival)
                    if at_us <= end_us && arrival.is_none_or(|arrival| at_us <= arrival) =>
                {
                    self.now_us = at_us;
                    let counted = self.piece.name.is_none().then_some("timeout");
                    self.hand_over(index, counted, Input::Timeout);
                }
                (_, Some(at_us)) if at_us <= end_us => {
                    self.now_us = at_us;
                    if let Some(flight) = self.flights.pop_front() {
                        self.arrive(&flight);
                    }
                }
                (_, _) => break,
            }
        }
        self.now_us = end_us;
    }

    /// The host sends a datagram to one of the nodes.
    pub fn send_from_host(&mut self, to: NodeId, body: &Body<'_>) {
        self.host_sequence += 1;
        let header = header(NodeId::HOST, self.host_sequence);
        let bytes = seal(&KEY, &header, to, body, self.outgoing);
        self.flights.launch(self.now_us, to, bytes);
    }

    /// Hands a datagram that the script made to a node, counted under a name of its own.
    pub fn inject(&mut self, to: NodeId, name: &'static str, datagram: &[u8]) {
        self.hand_over(index(to), Some(name), Input::Datagram(datagram));
    }

    /// Counts what `act` costs a node.
    pub fn count<R>(&mut self, what: &'static str, kind: &'static str, act: impl FnOnce(&mut Node) -> R) -> Option<R> {
        let node = self.nodes.first_mut()?;
        let (count, result) = self.counter.count(|| act(node));
        self.tally.note(what, kind, count);
        Some(result)
    }

    fn arrive(&mut self, flight: &Flight) {
        let Ok(opened) = open(&KEY, CLUSTER, flight.to, |_| true, &flight.bytes) else {
            unreachable!("only sealed datagrams are under way");
        };
        match (flight.to, opened.body) {
            (NodeId::HOST, Body::Challenge(challenge)) => {
                self.send_from_host(opened.header.sender, &Body::Proof(challenge));
            }
            (NodeId::HOST, _) => {}
            (to, body) => {
                let counted = (self.piece.counts)(&body).then_some(body.kind().as_str());
                self.hand_over(index(to), counted, Input::Datagram(&flight.bytes));
            }
        }
    }

    fn hand_over(&mut self, index: usize, counted: Option<&'static str>, input: Input<'_>) {
        let Some(node) = self.nodes.get_mut(index) else { return };
        let now = Instant(self.now_us);
        self.works_from = stack::pointer();
        let (count, ()) = self.counter.count(|| node.handle(now, input));
        if let Some(name) = counted {
            self.tally.note(self.piece.name.unwrap_or("handle"), name, count);
        }
        self.drain(index);
    }

    /// As the boards' driver does it.
    fn drain(&mut self, index: usize) {
        let Some(node) = self.nodes.get_mut(index) else { return };
        let now = Instant(self.now_us);
        while let Some(effect) = node.poll_effect() {
            match effect {
                Effect::Store | Effect::SetRate { .. } | Effect::TelemetryAcknowledged { .. } => {}
            }
        }
        loop {
            let (count, transmit) = self.counter.count(|| node.poll_transmit(now, self.outgoing));
            let Some(transmit) = transmit else { break };
            if self.piece.name.is_none() {
                self.tally.note("make", kind(transmit.to, transmit.datagram).as_str(), count);
            }
            self.flights.launch(self.now_us, transmit.to, transmit.datagram);
        }
        loop {
            let (count, observation) = self.counter.count(|| {
                let observation = node.poll_observation()?;
                postcard::to_slice(&observation, self.record).ok().map(|record| record.len())
            });
            if observation.is_none() {
                break;
            }
            if self.piece.name.is_none() {
                self.tally.note("make", "observation", count);
            }
        }
    }
}

trait Wires {
    fn launch(&mut self, now_us: u64, to: NodeId, bytes: &[u8]);
}

impl Wires for Deque<Flight, FLIGHTS_MAX> {
    fn launch(&mut self, now_us: u64, to: NodeId, bytes: &[u8]) {
        let bytes = bytes.iter().copied().collect();
        let launched = self.push_back(Flight { at_us: now_us + DELAY_US, to, bytes });
        assert!(launched.is_ok(), "there is room for every datagram under way");
    }
}

/// What a datagram is.
pub fn kind(to: NodeId, datagram: &[u8]) -> Kind {
    match open(&KEY, CLUSTER, to, |_| true, datagram) {
        Ok(opened) => opened.body.kind(),
        Err(_) => unreachable!("it was sealed a moment ago"),
    }
}

/// The header of a datagram that the script makes.
pub fn header(sender: NodeId, sequence: u32) -> Header {
    Header { cluster: CLUSTER, sender, incarnation: 1, sequence, snapshot: 0, lamport: 0, vector: Vector::default() }
}

/// The nodes are called 1, 2, 3 in ring order.
pub fn id(index: usize) -> NodeId {
    NodeId(index as u16 + 1)
}

fn index(id: NodeId) -> usize {
    usize::from(id.0).wrapping_sub(1)
}

fn config(me: NodeId, piece: &Piece) -> NodeConfig {
    NodeConfig {
        clock: ClockChoice::Cristian,
        election: piece.election,
        mutex: piece.mutex.clone(),
        workload: piece.workload,
        seed: u32::from(me.0),
        ..NodeConfig::new(CLUSTER, KEY, me, (0..NODES).map(id))
    }
}

/// A function of its own, as on the board.
#[inline(never)]
fn make_node<'a>(slot: &'a mut MaybeUninit<Node>, config: &NodeConfig) -> &'a mut Node {
    let node = slot.write(Node::new(config, Instant(0)));
    node.start(Instant(0));
    node
}
