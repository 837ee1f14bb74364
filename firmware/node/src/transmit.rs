//! Outputs: what leaves the node, stamped and sealed as late as possible.

use crate::node::Node;
use compasso_algorithms::Algorithm;
use compasso_wire::{
    Body, Event, Fence, Header, Instant, Lists, NodeId, Payload, ResourceId, Term, Vector,
    limits::MEMBERS_MAX,
    lists::Carries,
    message::{Challenge, ElectionMessage, Stream, Telemetry, TimeKnown},
    seal, seal_with_lists,
    telemetry::Queue,
};

/// Datagrams that may wait to be sent: heartbeats and questions to everybody, and as many answers.
pub const OUTGOING_MAX: usize = 4 * MEMBERS_MAX + 16;

/// What waits to be sent. What can be known only when it leaves is filled in then, so this is small.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outgoing {
    /// See [`Body::Challenge`].
    Challenge(Challenge),
    /// See [`Body::Proof`].
    Proof(Challenge),
    /// A leader's heartbeat.
    Heartbeat,
    /// The answer to a heartbeat of this term and view.
    HeartbeatAck {
        /// The heartbeat's term.
        term: Term,
        /// The heartbeat's view.
        view: u32,
        /// The heartbeat's stamp.
        echo: Instant,
    },
    /// Cristian's question.
    TimeRequest,
    /// Cristian's answer to a question that arrived at `received`.
    TimeReply {
        /// The question's stamp.
        echo: Instant,
        /// When it arrived.
        received: Instant,
    },
    /// See [`Body::Correction`].
    Correction {
        /// The receiver's hardware time of its answer.
        polled: Instant,
        /// What its clock lacked then.
        offset_us: i64,
        /// Round trip of question and answer.
        rtt_us: u32,
        /// How far the coordinator's own clock is from the average.
        error_us: u32,
    },
    /// See [`Body::Ack`].
    Ack {
        /// Which stream.
        stream: Stream,
        /// The acknowledged sender's incarnation.
        life: u32,
        /// The next position expected.
        next: u32,
    },
    /// See [`Body::Census`].
    Census {
        /// The view's epoch.
        epoch: u32,
        /// Which count.
        round: u32,
        /// Which token.
        resource: ResourceId,
    },
    /// See [`Body::CensusReply`].
    CensusReply {
        /// The view's epoch.
        epoch: u32,
        /// Which count.
        round: u32,
        /// Which token.
        resource: ResourceId,
        /// It is here.
        custody: bool,
    },
    /// See [`Body::Access`].
    Access {
        /// Which resource.
        resource: ResourceId,
        /// The entry's fence.
        fence: Fence,
    },
    /// See [`Body::AccessReply`].
    AccessReply {
        /// Which resource.
        resource: ResourceId,
        /// The access's fence.
        fence: Fence,
        /// The verdict.
        accepted: bool,
    },
    /// See [`Body::Alive`].
    Alive,
    /// See [`Body::CommandAck`].
    CommandAck {
        /// The next command expected.
        next: u32,
    },
}

/// A datagram to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transmit<'b> {
    /// To whom: a member or a host.
    pub to: NodeId,
    /// Its bytes.
    pub datagram: &'b [u8],
}

impl Node {
    /// The next datagram to send, stamped and sealed now. `buffer` holds at least `DATAGRAM_MAX`
    /// bytes. Nothing leaves before [`Node::poll_effect`] has handed out what must be stored.
    pub fn poll_transmit<'b>(&mut self, now: Instant, buffer: &'b mut [u8]) -> Option<Transmit<'b>> {
        if self.store_pending {
            return None;
        }
        let (to, body, again) = self.next_body(now)?;
        Some(self.send(now, to, &body, again, buffer))
    }

    /// Seals a batch of telemetry for the host. Not an event of the experiment.
    pub fn seal_telemetry<'b>(&mut self, batch: Telemetry<'_>, buffer: &'b mut [u8]) -> Transmit<'b> {
        self.send(Instant::default(), NodeId::HOST, &Body::Telemetry(batch), false, buffer)
    }

    /// Queues a datagram.
    pub(crate) fn push(&mut self, to: NodeId, outgoing: Outgoing) {
        if self.outgoing.push_back((to, outgoing)).is_err() {
            self.overflowed(Queue::Outgoing);
        }
    }

    /// Sends an algorithm's message: over the channel that repeats, or bare in the textbook form.
    pub(crate) fn post(&mut self, now: Instant, to: NodeId, payload: Payload, until: Option<Instant>) {
        let sent = self.members.position(to).is_some_and(|position| self.delivery.send(position, payload, now, until));
        if !sent {
            self.overflowed(Queue::Delivery);
        }
    }

    /// Asks the peer in `slot` to prove that it is alive, unless it was asked a moment ago.
    pub(crate) fn challenge(&mut self, now: Instant, slot: usize) {
        if let Some(challenge) = self.sessions.challenge(slot, now) {
            let host = || NodeId::host(slot.saturating_sub(self.members.count()));
            let to = self.members.id(slot).unwrap_or_else(host);
            self.push(to, Outgoing::Challenge(challenge));
        }
    }

    fn next_body(&mut self, now: Instant) -> Option<(NodeId, Body<'static>, bool)> {
        while let Some((to, outgoing)) = self.outgoing.pop_front() {
            if let Some(body) = self.complete(now, to, outgoing) {
                return Some((to, body, false));
            }
        }
        let departure = self.delivery.poll_transmit(now)?;
        Some((self.members.id(departure.to)?, departure.body, departure.again))
    }

    /// Fills in what is known only now; nothing if there is nothing to say any more.
    fn complete(&mut self, now: Instant, to: NodeId, outgoing: Outgoing) -> Option<Body<'static>> {
        let has_time = self.clock.read(now).is_some();
        Some(match outgoing {
            Outgoing::Challenge(challenge) => Body::Challenge(challenge),
            Outgoing::Proof(challenge) => Body::Proof(challenge),
            Outgoing::Heartbeat => {
                let position = self.members.position(to)?;
                let life = self.sessions.incarnation(position).unwrap_or(0);
                Body::Heartbeat(self.membership.heartbeat_for(position, life, &self.members, has_time, now)?)
            }
            Outgoing::HeartbeatAck { term, view, echo } => {
                let votes = now >= self.votes_from;
                let time = match self.clock.disciplined() {
                    _ if !has_time => TimeKnown::Nothing,
                    Some(clock) if !clock.is_fit() => TimeKnown::Time,
                    Some(_) | None => TimeKnown::Rate,
                };
                Body::HeartbeatAck(self.membership.acknowledge(term, view, echo, votes, time, self.holdings(), now))
            }
            Outgoing::TimeRequest => Body::TimeRequest { sent: now },
            Outgoing::TimeReply { echo, received } => self.time_reply(now, to, echo, received)?,
            Outgoing::Correction { polled, offset_us, rtt_us, error_us } => {
                Body::Correction { polled, offset_us, rtt_us, error_us }
            }
            Outgoing::Ack { stream, life, next } => Body::Ack { stream, life, next },
            Outgoing::Census { epoch, round, resource } => Body::Census { epoch, round, resource },
            Outgoing::CensusReply { epoch, round, resource, custody } => {
                Body::CensusReply { epoch, round, resource, custody }
            }
            Outgoing::Access { resource, fence } => Body::Access { resource, fence },
            Outgoing::AccessReply { resource, fence, accepted } => Body::AccessReply { resource, fence, accepted },
            Outgoing::Alive => Body::Alive,
            Outgoing::CommandAck { next } => Body::CommandAck { next },
        })
    }

    fn send<'b>(
        &mut self,
        now: Instant,
        to: NodeId,
        body: &Body<'_>,
        again: bool,
        buffer: &'b mut [u8],
    ) -> Transmit<'b> {
        // A number used twice would be a nonce used twice; a board that is told so boots again.
        let Some(sequence) = self.sequence.checked_add(1) else { panic!("sequence numbers are used up: boot again") };
        self.sequence = sequence;
        let (lamport, vector) = if to.host_number().is_some() {
            (0, Vector::default())
        } else {
            self.record(now, Event::Send { to, kind: body.kind(), id: self.sequence, again });
            let (lamport, vector) = self.journal.stamps();
            (lamport, vector.clone())
        };
        let header = Header {
            cluster: self.config.cluster,
            sender: self.config.me,
            incarnation: self.config.incarnation,
            sequence: self.sequence,
            snapshot: self.snapshots.latest(),
            lamport,
            vector,
        };
        let key = &self.config.key;
        let datagram = match body.payload().filter(|payload| payload.carries() != Carries::Nothing) {
            Some(payload) => seal_with_lists(key, &header, to, body, &self.lists(payload), buffer),
            None => seal(key, &header, to, body, buffer),
        };
        self.time.departures.note(to, body, now, datagram);
        Transmit { to, datagram }
    }

    /// The lists that leave with a message.
    fn lists(&self, payload: &Payload) -> Lists {
        match payload {
            Payload::Election(
                ElectionMessage::ListElection { list, .. } | ElectionMessage::ListCoordinator { list, .. },
            ) => Lists { names: self.members.listed(*list), ..Lists::default() },
            Payload::Election(_)
            | Payload::Locks { .. }
            | Payload::Cache { .. }
            | Payload::Commit { .. }
            | Payload::Marker { .. }
            | Payload::Labelled { .. }
            | Payload::Make(_) => Lists::default(),
            Payload::Mutex { resource, message, .. } => {
                let turn = self.turns.get(usize::from(resource.0));
                turn.map_or_else(Lists::default, |turn| turn.mutex.lists(message))
            }
        }
    }
}
