//! Inputs from the network: checked layer by layer, then handed to whom they concern.

use crate::{
    delivery::stream,
    node::{Effect, Node, hosts},
    session::Proven,
    transmit::Outgoing,
};
use compasso_algorithms::Algorithm;
use compasso_wire::{
    Body, Event, Header, Instant, NO_LISTS, NodeId, Opened, Payload, Refusal,
    lists::Carries,
    message::{Challenge, ElectionMessage, Stream},
    open, peek_sender,
};

impl Node {
    pub(crate) fn handle_datagram(&mut self, now: Instant, datagram: &[u8]) {
        let (members, me) = (&self.members, self.config.me);
        let hosts = hosts(&self.config);
        let is_host = |id: NodeId| id.host_number().is_some_and(|number| number < hosts);
        let is_known = |id| is_host(id) || (id != me && members.position(id).is_some());
        match open(&self.config.key, self.config.cluster, me, is_known, datagram) {
            Ok(opened) => {
                let from = opened.header.sender;
                if let Err(reason) = self.take(now, &opened) {
                    self.refuse(now, Some(from), reason);
                }
            }
            Err(reason) => self.refuse(now, peek_sender(datagram), reason),
        }
    }

    fn refuse(&mut self, now: Instant, from: Option<NodeId>, reason: Refusal) {
        let is_host = from.is_some_and(|from| from.host_number().is_some());
        if !is_host || reason != Refusal::Unproven {
            self.record(now, Event::Drop { from, reason });
        }
    }

    /// Passes an authentic datagram through session and delivery.
    fn take(&mut self, now: Instant, opened: &Opened<'_>) -> Result<(), Refusal> {
        let Opened { header, body, .. } = opened;
        let host = header.sender.host_number();
        let slot = match self.members.position(header.sender) {
            Some(position) => position,
            None => self.members.count() + host.unwrap_or(0),
        };
        match *body {
            Body::Proof(challenge) => return self.handle_proof(now, slot, header, challenge),
            Body::Challenge(challenge) => {
                // Answered whoever asks: the answer is worth nothing to anybody else.
                self.push(header.sender, Outgoing::Proof(challenge));
            }
            Body::Heartbeat(_)
            | Body::HeartbeatAck(_)
            | Body::TimeRequest { .. }
            | Body::TimeReply { .. }
            | Body::Correction { .. }
            | Body::Plain(_)
            | Body::Ordered { .. }
            | Body::Ack { .. }
            | Body::Census { .. }
            | Body::CensusReply { .. }
            | Body::Access { .. }
            | Body::AccessReply { .. }
            | Body::Alive
            | Body::Telemetry(_)
            | Body::TelemetryAck { .. }
            | Body::Command { .. }
            | Body::CommandAck { .. } => {}
        }
        if self.is_staged()
            && host.is_none()
            && let Some(proven) = self.sessions.trust(slot, header)
        {
            self.peer_lives(now, slot, header.incarnation, proven);
        }
        let admitted = self.sessions.admit(slot, header);
        if admitted == Err(Refusal::Unproven) {
            self.challenge(now, slot);
        }
        admitted?;
        if host.is_some() {
            return self.handle_host(now, header.sender, body);
        }
        if let Some(change) = self.detector.heard(slot, &self.members, now) {
            self.changed(now, change);
        }
        if let Body::Ordered { life, index, floor, ref payload } = *body {
            // A message of a view that is not in force here yet: the sender will repeat it.
            // And a returned node that may not yet speak for itself is not there, as far as elections go.
            let ahead = match payload.epoch() {
                Some(epoch) => epoch > self.epoch(),
                None => matches!(payload, Payload::Election(_)) && !self.speaks(now),
            };
            let taken = self.take_ordered(slot, header, life, stream(payload), index, floor, ahead);
            if taken == Err(Refusal::Misaddressed) {
                self.challenge(now, slot); // A word from us tells the sender that we live anew.
            }
            taken?;
        }
        if body.is_host_traffic() || (self.hardened() && matches!(body, Body::Plain(_))) {
            return Err(Refusal::Unexpected);
        }
        self.heed_snapshot(now, header);
        self.received(now, header, body);
        if let Some(payload) = body.payload() {
            self.note_in_flight(now, header.sender, payload);
        }
        self.dispatch(now, slot, opened)
    }

    fn received(&mut self, now: Instant, header: &Header, body: &Body<'_>) {
        self.journal.merge(header);
        let (from, incarnation) = (header.sender, header.incarnation);
        self.record(now, Event::Recv { from, incarnation, kind: body.kind(), id: header.sequence });
    }

    fn handle_proof(
        &mut self,
        now: Instant,
        slot: usize,
        header: &Header,
        challenge: Challenge,
    ) -> Result<(), Refusal> {
        let proven = self.sessions.prove(slot, header, challenge)?;
        if header.sender.host_number().is_some() {
            return Ok(());
        }
        self.heed_snapshot(now, header);
        self.received(now, header, &Body::Proof(challenge));
        self.peer_lives(now, slot, header.incarnation, proven);
        Ok(())
    }

    /// The peer lives, in this life, as far as is proven.
    fn peer_lives(&mut self, now: Instant, slot: usize, incarnation: u32, proven: Proven) {
        if proven != Proven::Same {
            // What was said in this view is for the life that is in it, if we knew of it or not.
            let current = self.epoch();
            let of_this_view = |payload: &Payload| payload.epoch() == Some(current);
            self.delivery.peer_lives(slot, incarnation, of_this_view);
        }
        if proven == Proven::Reborn {
            self.membership.peer_reborn(slot);
        }
        let change = match proven {
            Proven::Reborn => self.detector.reborn(slot, &self.members, now),
            Proven::First | Proven::Same => self.detector.heard(slot, &self.members, now),
        };
        if let Some(change) = change {
            self.changed(now, change);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "each is one field of the message")]
    fn take_ordered(
        &mut self,
        slot: usize,
        header: &Header,
        life: u32,
        stream: Stream,
        index: u32,
        floor: u32,
        ahead: bool,
    ) -> Result<(), Refusal> {
        if !self.hardened() && stream != Stream::Election {
            return Err(Refusal::Unexpected);
        }
        if life != 0 && life != self.config.incarnation {
            return Err(Refusal::Misaddressed);
        }
        let taken = if ahead { Err(Refusal::Early) } else { self.delivery.take(slot, stream, index, floor) };
        let ack = Outgoing::Ack { stream, life: header.incarnation, next: self.delivery.next_in(slot, stream) };
        self.push(header.sender, ack);
        taken
    }

    /// From one of the hosts. Those beside the first have the time, and nothing else to say.
    fn handle_host(&mut self, now: Instant, from: NodeId, body: &Body<'_>) -> Result<(), Refusal> {
        match *body {
            Body::Challenge(_) => Ok(()),
            Body::TelemetryAck { next } if from == NodeId::HOST => {
                // A full queue only delays: the collector acknowledges again with the next batch.
                let _later = self.effects.push_back(Effect::TelemetryAcknowledged { next });
                Ok(())
            }
            Body::Command { index, command } if from == NodeId::HOST => {
                self.carry_out(now, index, command);
                Ok(())
            }
            Body::TimeReply { .. } => {
                self.handle_time_reply(now, from, body);
                Ok(())
            }
            Body::Proof(_)
            | Body::Heartbeat(_)
            | Body::HeartbeatAck(_)
            | Body::TimeRequest { .. }
            | Body::Correction { .. }
            | Body::Plain(_)
            | Body::Ordered { .. }
            | Body::Ack { .. }
            | Body::Census { .. }
            | Body::CensusReply { .. }
            | Body::Access { .. }
            | Body::AccessReply { .. }
            | Body::Alive
            | Body::Telemetry(_)
            | Body::TelemetryAck { .. }
            | Body::Command { .. }
            | Body::CommandAck { .. } => Err(Refusal::Unexpected),
        }
    }

    fn dispatch(&mut self, now: Instant, slot: usize, opened: &Opened<'_>) -> Result<(), Refusal> {
        let from = opened.header.sender;
        match opened.body {
            Body::Challenge(_) | Body::Proof(_) | Body::Alive => {}
            Body::Heartbeat(ref heartbeat) => self.handle_heartbeat(now, from, heartbeat),
            Body::HeartbeatAck(ref ack) => self.handle_heartbeat_ack(now, slot, ack),
            Body::TimeRequest { sent } => self.push(from, Outgoing::TimeReply { echo: sent, received: now }),
            Body::TimeReply { .. } => self.handle_time_reply(now, from, &opened.body),
            Body::Correction { polled, offset_us, rtt_us, error_us } => {
                self.handle_correction(now, from, polled, offset_us, rtt_us, error_us);
            }
            Body::Ack { stream, life, next } => {
                if life == self.config.incarnation
                    && let Some(took) = self.delivery.handle_ack(slot, stream, next, now)
                {
                    self.detector.round_trip(took);
                }
            }
            Body::Plain(payload) | Body::Ordered { payload, .. } => self.handle_payload(now, from, payload, opened),
            Body::Census { epoch, round, resource } => self.handle_census(now, from, epoch, round, resource),
            Body::CensusReply { epoch, round, resource, custody } => {
                self.handle_census_reply(now, slot, epoch, round, resource, custody);
            }
            Body::Access { resource, fence } => self.handle_access(now, from, resource, fence),
            Body::AccessReply { resource, fence, accepted } => self.handle_verdict(now, resource, fence, accepted),
            Body::Telemetry(_) | Body::TelemetryAck { .. } | Body::Command { .. } | Body::CommandAck { .. } => {
                return Err(Refusal::Unexpected);
            }
        }
        Ok(())
    }

    fn handle_payload(&mut self, now: Instant, from: NodeId, payload: Payload, opened: &Opened<'_>) {
        match payload {
            Payload::Election(mut message) => {
                if let ElectionMessage::ListElection { list, .. } | ElectionMessage::ListCoordinator { list, .. } =
                    &mut message
                {
                    // A list with a stranger in it is nobody's: the empty list, which means nothing.
                    *list = self.members.list(&opened.lists().names).unwrap_or_default();
                }
                self.with_election(now, |election, cx| election.handle_message(from, message, cx));
            }
            Payload::Mutex { resource, epoch, message } => match payload.carries() {
                Carries::Nothing => self.handle_mutex(now, from, resource, epoch, message, &NO_LISTS),
                Carries::Names | Carries::Token => {
                    self.handle_mutex(now, from, resource, epoch, message, &opened.lists());
                }
            },
            // What belongs to an earlier view means nothing in this one.
            Payload::Locks { epoch, .. }
            | Payload::Cache { epoch, .. }
            | Payload::Commit { epoch, .. }
            | Payload::Marker { epoch, .. }
                if epoch != self.epoch() => {}
            Payload::Locks { message, .. } => self.handle_locks(now, from, message),
            Payload::Cache { message, .. } => self.handle_cache(now, from, message),
            Payload::Commit { message, .. } => self.handle_commit(now, from, message),
            Payload::Marker { snapshot, .. } => self.handle_marker(now, from, snapshot),
            Payload::Labelled { label } => self.record(now, Event::Label { label }),
            Payload::Make(message) => self.handle_make(now, from, message),
        }
    }
}
