//! The host's end of the protocol: collects every node's observations and gives commands.
//!
//! Sans-IO: datagrams and the time go in, datagrams and batches come out.
//! Promises: each record of a life is handed out once and in order; a command is carried out
//! once and in order; nothing is believed from a life that has not proven to be the present one.

use crate::anchor::Reading;
use compasso_wire::{
    Body, ClusterTime, Header, Instant, Key, Leap, NodeId, Observation, Refusal, Vector,
    limits::DATAGRAM_MAX,
    message::{Challenge, Command, Telemetry},
    replay::ReplayWindow,
};
use std::{collections::VecDeque, time::Duration};

/// A command that is not acknowledged is sent again after this time.
pub const COMMAND_AGAIN: Duration = Duration::from_millis(100);
/// A life that goes on talking unproven is challenged again after this time.
pub const CHALLENGE_AGAIN: Duration = Duration::from_millis(100);
/// Boards that lived before the host go back to their first record that nobody has acknowledged within
/// this time: by then the least number seen is theirs.
pub const JOIN_AFTER: Duration = Duration::from_millis(600);
/// No command has this index: whoever is asked to carry it out only answers which one is next.
const NO_COMMAND: u32 = u32::MAX;

/// Records of one life, complete and in order.
#[derive(Clone, PartialEq, Debug)]
pub struct Batch {
    /// Whose.
    pub node: NodeId,
    /// Of which life.
    pub incarnation: u32,
    /// When the board sent them, on its own two clocks.
    pub reading: Reading,
    /// Observations that found the board's buffer full so far.
    pub missed: u32,
    /// What happened.
    pub observations: Vec<Observation>,
}

/// The host.
pub struct Host {
    key: Key,
    cluster: u32,
    incarnation: u32,
    /// Boards may have lived before: what of their streams earlier hosts took is asked for, not assumed.
    joins: bool,
    sequence: u32,
    challenges: u32,
    peers: Vec<Peer>,
    transmits: VecDeque<(NodeId, Vec<u8>)>,
    batches: VecDeque<Batch>,
    /// True time when the host's own clock was at zero, while that is served.
    tai_origin_us: Option<i64>,
    leap: Option<Leap>,
}

struct Peer {
    id: NodeId,
    trusted: Option<Trusted>,
    challenged: Option<Challenged>,
    /// Commands given while no life was trusted wait here for the next one.
    commands: VecDeque<Command>,
    /// Index of the first of `commands` in the trusted life; none while it must be asked for.
    first_command: Option<u32>,
    command_at: Option<Duration>,
    /// The last life that is known to be over.
    buried: u32,
}

struct Trusted {
    incarnation: u32,
    window: ReplayWindow,
    next: Next,
}

/// Which record of a life is awaited.
#[derive(Clone, Copy)]
enum Next {
    /// This one.
    Record(u32),
    /// The first that no earlier host has taken: not before `since` and [`JOIN_AFTER`] it is `least`.
    Unknown { least: u32, since: Duration },
}

impl Next {
    fn record(self) -> u32 {
        match self {
            Next::Record(next) => next,
            Next::Unknown { .. } => 0,
        }
    }
}

#[derive(Clone, Copy)]
struct Challenged {
    incarnation: u32,
    challenge: Challenge,
    at: Duration,
}

impl Host {
    /// The host of a cluster whose key is as fresh as all its boards: it needs no other life than its first.
    #[must_use]
    pub fn new(key: Key, cluster: u32, members: &[NodeId]) -> Host {
        Host::made(key, cluster, members, 1, false)
    }

    /// The host of a cluster whose boards may have lived before. No host of this key ever had this
    /// incarnation, and none has a higher one.
    #[must_use]
    pub fn joining(key: Key, cluster: u32, members: &[NodeId], incarnation: u32) -> Host {
        Host::made(key, cluster, members, incarnation, true)
    }

    fn made(key: Key, cluster: u32, members: &[NodeId], incarnation: u32, joins: bool) -> Host {
        let peer = |id: &NodeId| Peer {
            id: *id,
            trusted: None,
            challenged: None,
            commands: VecDeque::new(),
            first_command: None,
            command_at: None,
            buried: 0,
        };
        Host {
            key,
            cluster,
            incarnation,
            joins,
            sequence: 0,
            challenges: 0,
            peers: members.iter().map(peer).collect(),
            transmits: VecDeque::new(),
            batches: VecDeque::new(),
            tai_origin_us: None,
            leap: None,
        }
    }

    /// Serves true time from here on, which was `tai_origin_us` when the host's clock was at zero; or no more.
    pub fn serve_time(&mut self, tai_origin_us: Option<i64>) {
        self.tai_origin_us = tai_origin_us;
    }

    /// Tells of a leap second with the time.
    pub fn announce(&mut self, leap: Leap) {
        self.leap = Some(leap);
    }

    /// Takes a datagram.
    ///
    /// # Errors
    /// Why it was refused. A refusal may still be answered: with a challenge.
    pub fn handle(&mut self, now: Duration, datagram: &[u8]) -> Result<(), Refusal> {
        let known = |id| self.peers.iter().any(|peer| peer.id == id);
        let opened = compasso_wire::open(&self.key, self.cluster, NodeId::HOST, known, datagram)?;
        let header = opened.header;
        let Some(index) = self.peers.iter().position(|peer| peer.id == header.sender) else {
            return Err(Refusal::NotAMember(header.sender));
        };
        let trusted = self.peers[index].trusted.as_ref().map_or(0, |trusted| trusted.incarnation);
        if header.incarnation < trusted || header.incarnation <= self.peers[index].buried {
            return Err(Refusal::PastLife);
        }
        match opened.body {
            // A challenge proves nothing and asks for little: it is answered before anything else.
            Body::Challenge(challenge) => {
                self.send(header.sender, &Body::Proof(challenge));
                if header.incarnation > trusted { self.challenge(now, index, header.incarnation) } else { Ok(()) }
            }
            Body::Proof(challenge) if header.incarnation > trusted => self.prove(now, index, &header, challenge),
            _ if header.incarnation > trusted => self.challenge(now, index, header.incarnation),
            body => {
                let fresh = self.peers[index].trusted.as_mut().is_some_and(|t| t.window.take(header.sequence));
                if !fresh {
                    return Err(Refusal::Replayed);
                }
                self.deliver(now, index, body)
            }
        }
    }

    /// Gives a node a command; it is repeated until the node says that it was carried out.
    pub fn command(&mut self, now: Duration, node: NodeId, command: Command) {
        if let Some(peer) = self.peers.iter_mut().find(|peer| peer.id == node) {
            peer.commands.push_back(command);
            peer.command_at = Some(now);
        }
        self.handle_timeout(now);
    }

    /// The node's life is over: its commands die with it, and nothing more is taken from it.
    /// Returns the first record of that life that was not taken.
    pub fn bury(&mut self, node: NodeId, incarnation: u32) -> u32 {
        let Some(peer) = self.peers.iter_mut().find(|peer| peer.id == node) else { return 0 };
        peer.commands.clear();
        peer.command_at = None;
        peer.challenged = None;
        peer.buried = incarnation;
        match peer.trusted.take() {
            Some(trusted) if trusted.incarnation == incarnation => trusted.next.record(),
            _ => 0,
        }
    }

    /// Acts on every deadline at or before `now`; otherwise does nothing.
    pub fn handle_timeout(&mut self, now: Duration) {
        for index in 0..self.peers.len() {
            let peer = &mut self.peers[index];
            if peer.command_at.is_none_or(|at| at > now) {
                continue;
            }
            peer.command_at = Some(now + COMMAND_AGAIN);
            if peer.trusted.is_none() {
                continue; // Whose first command would it be?
            }
            // One at a time: the node carries them out in order, and none is urgent.
            if let Some(command) = peer.commands.front() {
                let index = peer.first_command.unwrap_or(NO_COMMAND);
                let body = Body::Command { index, command: *command };
                let to = peer.id;
                self.send(to, &body);
            }
        }
    }

    /// When [`Host::handle_timeout`] has something to do.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        self.peers.iter().filter_map(|peer| peer.command_at).min()
    }

    /// The next datagram to send, and to whom.
    pub fn poll_transmit(&mut self) -> Option<(NodeId, Vec<u8>)> {
        self.transmits.pop_front()
    }

    /// The next batch of records.
    pub fn poll_batch(&mut self) -> Option<Batch> {
        self.batches.pop_front()
    }

    /// Whether every command given to the node was carried out.
    #[must_use]
    pub fn is_obeyed(&self, node: NodeId) -> bool {
        self.peers.iter().any(|peer| peer.id == node && peer.commands.is_empty())
    }

    /// How far the records of a node's trusted life have been taken: (incarnation, next record).
    #[must_use]
    pub fn taken(&self, node: NodeId) -> Option<(u32, u32)> {
        let trusted = self.peers.iter().find(|peer| peer.id == node)?.trusted.as_ref()?;
        Some((trusted.incarnation, trusted.next.record()))
    }

    fn deliver(&mut self, now: Duration, index: usize, body: Body<'_>) -> Result<(), Refusal> {
        match body {
            Body::Telemetry(telemetry) => self.telemetry(now, index, &telemetry),
            Body::CommandAck { next } => {
                let peer = &mut self.peers[index];
                let first = peer.first_command.get_or_insert(next);
                while *first < next && peer.commands.pop_front().is_some() {
                    *first += 1;
                }
                peer.command_at = if peer.commands.is_empty() { None } else { Some(now) };
                self.handle_timeout(now);
                Ok(())
            }
            Body::TimeRequest { sent } => {
                let Some(origin_us) = self.tai_origin_us else { return Ok(()) };
                let now_us = now.as_micros() as u64;
                let to = self.peers[index].id;
                self.send(
                    to,
                    &Body::TimeReply {
                        echo: sent,
                        cluster: ClusterTime(origin_us + now_us as i64),
                        handling_us: 0,
                        sent: Instant(now_us),
                        error_us: 0,
                        certain_us: 0,
                        is_set: true,
                        leap: self.leap,
                    },
                );
                Ok(())
            }
            Body::Proof(_) => Ok(()), // An answer to a challenge that was sent twice.
            _ => Err(Refusal::Unexpected),
        }
    }

    fn telemetry(&mut self, now: Duration, index: usize, telemetry: &Telemetry<'_>) -> Result<(), Refusal> {
        let observations = read_records(telemetry)?;
        let peer = &mut self.peers[index];
        let to = peer.id;
        let Some(trusted) = peer.trusted.as_mut() else { return Err(Refusal::Unproven) };
        // A batch that begins beyond what we have is refused whole: the board repeats from our ack.
        let next = match trusted.next {
            Next::Record(next) => next,
            Next::Unknown { least, since } => {
                let least = least.min(telemetry.first);
                trusted.next = Next::Unknown { least, since };
                if telemetry.first > 0 && (telemetry.first > least || now < since + JOIN_AFTER) {
                    return Ok(()); // Without an answer the board goes back to its first record.
                }
                telemetry.first
            }
        };
        trusted.next = Next::Record(next);
        if telemetry.first <= next {
            let known = (next - telemetry.first) as usize;
            let fresh: Vec<Observation> = observations.into_iter().skip(known).collect();
            trusted.next = Next::Record(next + fresh.len() as u32);
            self.batches.push_back(Batch {
                node: to,
                incarnation: trusted.incarnation,
                reading: Reading { hw_us: telemetry.hw.0, raw_ns: telemetry.raw_ns, rate_ppb: telemetry.rate_ppb },
                missed: telemetry.missed,
                observations: fresh,
            });
        }
        let next = trusted.next.record();
        self.send(to, &Body::TelemetryAck { next });
        Ok(())
    }

    fn prove(&mut self, now: Duration, index: usize, header: &Header, proof: Challenge) -> Result<(), Refusal> {
        let peer = &mut self.peers[index];
        match peer.challenged {
            Some(c) if c.challenge == proof && c.incarnation == header.incarnation => {
                peer.challenged = None;
                peer.trusted = Some(Trusted {
                    incarnation: header.incarnation,
                    window: ReplayWindow::starting_after(header.sequence),
                    next: if self.joins { Next::Unknown { least: u32::MAX, since: now } } else { Next::Record(0) },
                });
                peer.first_command = (!self.joins).then_some(0);
                peer.command_at = if peer.commands.is_empty() { None } else { Some(now) };
                // Tells the board at once that the collector is there, and lets it prove us in turn.
                let to = peer.id;
                self.send(to, &Body::TelemetryAck { next: 0 });
                self.handle_timeout(now);
                Ok(())
            }
            _ => self.challenge(now, index, header.incarnation),
        }
    }

    fn challenge(&mut self, now: Duration, index: usize, incarnation: u32) -> Result<(), Refusal> {
        let peer = &mut self.peers[index];
        let pending = peer.challenged.is_some_and(|c| {
            c.incarnation > incarnation || (c.incarnation == incarnation && now < c.at + CHALLENGE_AGAIN)
        });
        if !pending {
            // The same question again, should the answer to the first one still be on its way.
            let repeat = peer.challenged.filter(|c| c.incarnation == incarnation).map(|c| c.challenge);
            let challenge = repeat.unwrap_or_else(|| {
                self.challenges += 1;
                Challenge { incarnation: self.incarnation, count: self.challenges }
            });
            peer.challenged = Some(Challenged { incarnation, challenge, at: now });
            let to = peer.id;
            self.send(to, &Body::Challenge(challenge));
        }
        Err(Refusal::Unproven)
    }

    fn send(&mut self, to: NodeId, body: &Body<'_>) {
        self.sequence += 1;
        let header = Header {
            cluster: self.cluster,
            sender: NodeId::HOST,
            incarnation: self.incarnation,
            sequence: self.sequence,
            snapshot: 0,
            lamport: 0,
            vector: Vector::default(),
        };
        let mut buffer = [0; DATAGRAM_MAX];
        let datagram = compasso_wire::seal(&self.key, &header, to, body, &mut buffer).to_vec();
        self.transmits.push_back((to, datagram));
    }
}

fn read_records(telemetry: &Telemetry<'_>) -> Result<Vec<Observation>, Refusal> {
    let mut observations = Vec::with_capacity(usize::from(telemetry.count));
    let mut rest = telemetry.records;
    for _ in 0..telemetry.count {
        let (observation, left) = postcard::take_from_bytes(rest).map_err(|_| Refusal::Malformed)?;
        observations.push(observation);
        rest = left;
    }
    if rest.is_empty() { Ok(observations) } else { Err(Refusal::Malformed) }
}

#[cfg(test)]
#[path = "host_tests.rs"]
mod tests;
