//! Outputs: what leaves the node, stamped and sealed as late as possible.

use crate::node::Node;
use compasso_wire::{
    Body, ClusterTime, Event, Header, Instant, NodeId, Payload, Vector, limits::MEMBERS_MAX, message::Telemetry, seal,
    telemetry::Queue,
};

/// Datagrams that may wait to be sent: heartbeats and questions to everybody, and as many answers.
pub const OUTGOING_MAX: usize = 4 * MEMBERS_MAX + 16;

/// What waits to be sent; times are filled in when it leaves.
#[derive(Clone, Debug)]
pub enum Outgoing {
    /// Complete.
    Body(Body<'static>),
    /// Cristian's question.
    TimeRequest,
    /// Cristian's answer to a question that arrived at `received`.
    TimeReply {
        /// The question's stamp.
        echo: Instant,
        /// When it arrived.
        received: Instant,
    },
}

/// A datagram to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transmit<'b> {
    /// To whom: a member or the host.
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
        if !self.hardened() {
            return self.push(to, Outgoing::Body(Body::Plain(payload)));
        }
        let sent = self.members.position(to).is_some_and(|position| self.delivery.send(position, payload, now, until));
        if !sent {
            self.overflowed(Queue::Delivery);
        }
    }

    /// Asks the peer in `slot` to prove that it is alive, unless it was asked a moment ago.
    pub(crate) fn challenge(&mut self, now: Instant, slot: usize) {
        if let Some(challenge) = self.sessions.challenge(slot, now) {
            let to = self.members.id(slot).unwrap_or(NodeId::HOST);
            self.push(to, Outgoing::Body(Body::Challenge(challenge)));
        }
    }

    fn next_body(&mut self, now: Instant) -> Option<(NodeId, Body<'static>, bool)> {
        while let Some((to, outgoing)) = self.outgoing.pop_front() {
            let body = match outgoing {
                Outgoing::Body(body) => Some(body),
                Outgoing::TimeRequest => Some(Body::TimeRequest { sent: now }),
                Outgoing::TimeReply { echo, received } => self.clock.read(now).map(|ClusterTime(cluster)| {
                    let handling_us = u32::try_from(now.since(received).0).unwrap_or(u32::MAX);
                    Body::TimeReply { echo, cluster: ClusterTime(cluster), handling_us }
                }),
            };
            if let Some(body) = body {
                return Some((to, body, false));
            }
        }
        let departure = self.delivery.poll_transmit(now)?;
        Some((self.members.id(departure.to)?, departure.body, departure.again))
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
        let (lamport, vector) = if to == NodeId::HOST {
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
            lamport,
            vector,
        };
        Transmit { to, datagram: seal(&self.config.key, &header, to, body, buffer) }
    }
}
