//! Random executions with messages, losses and restarts, stamped as nodes stamp them; and what
//! happened before what in them, by brute force.
#![allow(dead_code, reason = "each test file uses its own part")]

use compasso_checker::{
    Event, NodeRef, TraceEvent,
    trace::{Stamp, Vector, write_trace},
};
use std::{collections::HashMap, fs, io::BufWriter, path::Path};

/// A small generator of random numbers (xorshift), the same everywhere.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit
    }
}

struct Node {
    inc: u32,
    seq: u64,
    lamport: u64,
    vector: Vector,
}

struct Message {
    from: u16,
    from_inc: u32,
    to: u16,
    id: u64,
    lamport: u64,
    vector: Vector,
}

/// An execution in an order in which it could have happened.
pub struct Execution {
    pub events: Vec<TraceEvent>,
}

impl Execution {
    /// `restarts` of a thousand events are boots.
    pub fn random(seed: u64, nodes: u16, length: usize, restarts: usize) -> Execution {
        let mut dice = Dice::new(seed);
        let mut alive: Vec<Node> = Vec::new();
        let mut execution = Execution { events: Vec::with_capacity(length) };
        let mut on_the_way: Vec<Message> = Vec::new();
        for id in 0..nodes {
            alive.push(Node { inc: 1, seq: 0, lamport: 0, vector: Vector::default() });
            execution.add(&mut alive, id, Event::Boot { incarnation: 1 });
        }
        for id in 0.. {
            if execution.events.len() >= length {
                break;
            }
            let node = dice.below(usize::from(nodes)) as u16;
            match dice.below(1000) {
                chance if chance < restarts => {
                    let life = &mut alive[usize::from(node)];
                    *life = Node { inc: life.inc + 1, seq: 0, lamport: 0, vector: Vector::default() };
                    let incarnation = life.inc;
                    execution.add(&mut alive, node, Event::Boot { incarnation });
                }
                0..450 => {
                    let to = dice.below(usize::from(nodes)) as u16;
                    execution.add(&mut alive, node, Event::Send { to, kind: "token".into(), id, again: false });
                    let life = &alive[usize::from(node)];
                    let (lamport, vector) = (life.lamport, life.vector.clone());
                    on_the_way.push(Message { from: node, from_inc: life.inc, to, id, lamport, vector });
                }
                450..900 if !on_the_way.is_empty() => {
                    let message = on_the_way.swap_remove(dice.below(on_the_way.len()));
                    if dice.below(10) == 0 {
                        continue; // Lost.
                    }
                    let life = &mut alive[usize::from(message.to)];
                    life.lamport = life.lamport.max(message.lamport);
                    let own = life.vector.get(message.to);
                    life.vector.merge(&message.vector);
                    life.vector.set(message.to, own); // Nobody else counts a node's events.
                    let Message { from, from_inc, to, id, .. } = message;
                    execution.add(&mut alive, to, Event::Recv { from, kind: "token".into(), id, from_inc });
                }
                _ => execution.add(&mut alive, node, Event::Request { resource: "cs".into() }),
            }
        }
        execution
    }

    fn add(&mut self, alive: &mut [Node], id: u16, event: Event) {
        let node = &mut alive[usize::from(id)];
        node.seq += 1;
        node.lamport += 1;
        node.vector.set(id, (node.inc, node.seq));
        let at = self.events.len() as i64 * 100;
        self.events.push(TraceEvent {
            node: NodeRef::Node(id),
            seq: node.seq,
            inc: node.inc,
            lamport: Some(node.lamport),
            vector: Some(node.vector.clone()),
            hw_us: Some(at),
            cluster_us: Some(at),
            true_us: Some(at),
            event,
        });
    }

    /// Writes the trace.
    pub fn write(&self, path: &Path) {
        let mut file = BufWriter::new(fs::File::create(path).expect("a file in a temporary folder"));
        write_trace(&self.events, &mut file).expect("room for the trace");
    }

    /// The same without stamps.
    pub fn without_stamps(&self) -> Execution {
        let bare = |event: &TraceEvent| TraceEvent { lamport: None, vector: None, ..event.clone() };
        Execution { events: self.events.iter().map(bare).collect() }
    }

    /// The same lines in a random order.
    pub fn shuffled(&self, dice: &mut Dice) -> Execution {
        let mut events = self.events.clone();
        for at in (1..events.len()).rev() {
            events.swap(at, dice.below(at + 1));
        }
        Execution { events }
    }

    pub fn name(&self, index: usize) -> String {
        self.events[index].name()
    }
}

/// Happened-before as its definition says: own order, messages, and nothing else.
pub struct Truth {
    /// For each event, whether each other one happened before it.
    past: Vec<Vec<bool>>,
    /// For each receive, its send.
    pub sends: Vec<Option<usize>>,
}

impl Truth {
    pub fn of(execution: &Execution) -> Truth {
        let mut last: HashMap<u16, usize> = HashMap::new();
        let mut sent: HashMap<(u16, u32, u64), usize> = HashMap::new();
        let mut truth = Truth { past: Vec::new(), sends: Vec::new() };
        for (index, event) in execution.events.iter().enumerate() {
            let node = event.node_id().expect("only nodes act");
            let mut send = None;
            match &event.event {
                Event::Send { id, .. } => drop(sent.insert((node, event.inc, *id), index)),
                Event::Recv { from, id, from_inc, .. } => send = Some(sent[&(*from, *from_inc, *id)]),
                _ => {}
            }
            let mut past = vec![false; execution.events.len()];
            for earlier in [last.insert(node, index), send].into_iter().flatten() {
                past[earlier] = true;
                for (mine, theirs) in past.iter_mut().zip(&truth.past[earlier]) {
                    *mine |= theirs;
                }
            }
            truth.past.push(past);
            truth.sends.push(send);
        }
        truth
    }

    pub fn before(&self, a: usize, b: usize) -> bool {
        self.past[b][a]
    }

    pub fn preceding(&self, index: usize) -> u64 {
        self.past[index].iter().filter(|before| **before).count() as u64
    }
}

/// Where an event stands in its node's history.
pub fn place(event: &TraceEvent) -> (u16, Stamp) {
    (event.node_id().expect("a node's event"), event.stamp())
}
