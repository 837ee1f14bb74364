//! What is kept of a trace to answer for its order: lives, the few vectors that are asked for, and
//! the messages where they are needed. Everything else is read and forgotten.

use crate::trace::Stamp;
use std::collections::{BTreeMap, HashMap};

/// One event: whose, and the how-manieth.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Place {
    /// Index into [`History::hosts`].
    pub host: usize,
    pub stamp: Stamp,
}

/// Names a datagram: sender, its life, receiver, id, kind.
pub(super) type SendName = (usize, u32, usize, u64, u16);

/// A receive, by its number in its life, and the datagram it names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Receive {
    pub seq: u64,
    pub send: SendName,
}

/// One incarnation of one host.
#[derive(Clone, Default, Debug)]
pub(super) struct Life {
    /// The highest number of an event.
    pub last: u64,
    /// Events that the trace holds.
    pub present: u64,
    /// Events that the trace says it lost.
    pub missed: u64,
    /// What its last event knew, kept for lives that another followed.
    pub tail: Vec<Place>,
    /// The numbers of its events, ascending, where they have to be counted.
    pub seqs: Vec<u64>,
    /// Its receives, ascending, where messages are kept.
    pub receives: Vec<Receive>,
}

/// Work done for an answer, in counts that do not depend on the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Work {
    /// Events read.
    pub events: u64,
    /// Vectors taken apart and kept.
    pub vectors: u64,
    /// Sends and receives kept.
    pub messages: u64,
    /// Receives followed back to their sends.
    pub followed: u64,
}

/// The history of all hosts, as far as the question needs it.
#[derive(Default, Debug)]
pub(super) struct History {
    /// The hosts' names.
    pub hosts: Vec<String>,
    /// Their lives, by incarnation.
    pub lives: Vec<BTreeMap<u32, Life>>,
    /// Every event carries its vector; otherwise order comes from sends and receives.
    pub stamped: bool,
    /// The vectors of the events asked for.
    pub recorded: HashMap<Place, Vec<Place>>,
    /// Where each datagram was sent first.
    pub sends: HashMap<SendName, u64>,
    pub work: Work,
}

impl History {
    /// A new host.
    pub fn add_host(&mut self, name: String) -> usize {
        self.hosts.push(name);
        self.lives.push(BTreeMap::new());
        self.hosts.len() - 1
    }

    /// An event's name.
    pub fn name(&self, place: Place) -> String {
        let host = &self.hosts[place.host];
        match place.stamp {
            (1, count) => format!("{host}:{count}"),
            (inc, count) => format!("{host}:{inc}.{count}"),
        }
    }

    /// Where it stands in a list: nodes by number, other hosts as the log names them first.
    pub fn rank(&self, place: Place) -> (u16, usize, Stamp) {
        (self.hosts[place.host].parse().unwrap_or(u16::MAX), place.host, place.stamp)
    }

    /// The send that a receive names.
    pub fn send_of(&self, receive: &Receive) -> Option<Place> {
        let seq = *self.sends.get(&receive.send)?;
        Some(Place { host: receive.send.0, stamp: (receive.send.1, seq) })
    }

    /// The latest event of every host in the past of an event, itself included.
    ///
    /// A boot follows all earlier lives of its host, so their knowledge belongs to the past too,
    /// although the node itself has forgotten it: its own vector starts empty.
    pub fn past(&mut self, place: Place) -> Vec<Stamp> {
        let mut past = vec![(0, 0); self.hosts.len()];
        let mut todo = vec![place];
        todo.extend(self.recorded.get(&place).into_iter().flatten());
        while let Some(Place { host, stamp }) = todo.pop() {
            let known = past[host];
            if stamp <= known {
                continue;
            }
            past[host] = stamp;
            for (inc, life) in self.lives[host].range(known.0..=stamp.0) {
                if *inc < stamp.0 {
                    todo.extend(&life.tail);
                }
                if self.stamped {
                    continue; // A vector holds what its host's earlier events in that life knew.
                }
                let from =
                    if *inc == known.0 { life.receives.partition_point(|receive| receive.seq <= known.1) } else { 0 };
                let new = life.receives[from..].iter();
                for receive in new.take_while(|receive| *inc < stamp.0 || receive.seq <= stamp.1) {
                    self.work.followed += 1;
                    todo.extend(self.send_of(receive));
                }
            }
        }
        past
    }

    /// How many events a past holds.
    pub fn count(&self, past: &[Stamp]) -> u64 {
        past.iter().enumerate().map(|(host, stamp)| self.up_to(host, *stamp)).fold(0, u64::saturating_add)
    }

    /// How many events a host had, this one included.
    fn up_to(&self, host: usize, (inc, count): Stamp) -> u64 {
        let earlier =
            self.lives[host].range(..inc).map(|(_, life)| life.total(self.stamped)).fold(0, u64::saturating_add);
        let life = self.lives[host].get(&inc);
        let in_it = match life {
            Some(life) if !self.stamped => life.seqs.partition_point(|seq| *seq <= count) as u64,
            Some(_) | None => count,
        };
        earlier.saturating_add(in_it)
    }
}

impl Life {
    /// How many events it had. Numbers count lost events too; without vectors only those are
    /// counted that the trace holds, because others' numbering may have holes of its own.
    fn total(&self, stamped: bool) -> u64 {
        if stamped { self.last.max(self.present.saturating_add(self.missed)) } else { self.present }
    }
}
