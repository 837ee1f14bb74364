//! Leading and following: election, failure detector and membership, as they act on each other.

use crate::{defences::Defence, membership::Heard, node::Node, transmit::Outgoing};
use compasso_algorithms::{
    Algorithm, Context, Output,
    detector::Change,
    election::{Command, Election, Event as Elected},
};
use compasso_wire::{
    Event, Instant, NO_LISTS, NodeId, NodeSet, Payload, Term,
    config::{DetectorChoice, ElectionChoice},
    message::{ElectionMessage, Heartbeat, HeartbeatAck},
    telemetry::Queue,
};

impl Node {
    pub(crate) fn changed(&mut self, now: Instant, change: Change) {
        match change {
            Change::Suspected(id) => {
                self.record(now, Event::Suspect { id });
                self.elect(now, Command::Suspected { id });
                if self.membership.following() == Some(id) {
                    self.membership.disband();
                    self.named = None;
                    // Where the detector elects, the suspicion has done so and nobody is followed any more; but not
                    // where this node has no part in elections yet.
                    if self.config.election != ElectionChoice::None && self.speaks(now) {
                        self.elect(now, Command::Start { dead: Some(id) });
                    } else {
                        self.stand_later(now);
                    }
                }
            }
            Change::Trusted(id) => {
                self.record(now, Event::Trust { id });
                self.elect(now, Command::Trusted { id });
            }
        }
    }

    pub(crate) fn settle_membership(&mut self, now: Instant) {
        let mut watched = self.election.watches(&self.members);
        if self.membership.leads() {
            watched = self.members.all();
        }
        if let Some(position) = self.membership.following().and_then(|leader| self.members.position(leader)) {
            watched.insert(position);
        }
        watched.remove(self.members.my_position());
        self.detector.watch(watched, now);
        let detector = &self.detector;
        let is_trusted = |position| !detector.suspects(position);
        let holdings = self.holdings();
        if self.membership.reconsider(&self.members, is_trusted, holdings, now) {
            self.view_installed(now);
        }
        if self.membership.heartbeat_due(now) {
            let receivers = if self.is_staged() { NodeSet::EMPTY } else { self.members.all() };
            for position in receivers.iter() {
                if let Some(id) = self.members.id(position).filter(|id| *id != self.config.me) {
                    self.push(id, Outgoing::Heartbeat);
                }
            }
            self.membership.heartbeats_made(now);
        }
    }

    pub(crate) fn view_installed(&mut self, now: Instant) {
        let Some(view) = self.membership.view() else { return };
        self.record(
            now,
            Event::View { term: view.term, number: view.number, epoch: view.epoch, members: view.members },
        );
        if view.members.contains(self.members.my_position()) {
            self.admitted = true;
            self.elect_at = None;
        }
        for position in 0..self.members.count() {
            if !view.members.contains(position) {
                self.delivery.abandon(position);
            }
        }
        if self.hardened() {
            self.begin_view(now);
        }
    }

    pub(crate) fn elect(&mut self, now: Instant, command: Command) {
        self.with_election(now, |election, cx| election.handle_command(command, cx));
    }

    pub(crate) fn with_election(
        &mut self,
        now: Instant,
        act: impl FnOnce(&mut Election, &mut Context<'_, ElectionMessage, Elected>),
    ) {
        let mut output = Output::default();
        let mut cx = Context {
            now,
            members: &self.members,
            view: self.members.all(),
            leader: self.coordinator(),
            lamport: 0,
            random: 0,
            delays: self.delays(),
            lists: &NO_LISTS,
            output: &mut output,
        };
        act(&mut self.election, &mut cx);
        self.remember();
        for &event in &output.events {
            match event {
                Elected::Started { term } => {
                    self.membership.disband();
                    self.named = None;
                    self.record(now, Event::ElectionStart { term });
                }
                Elected::Joined { .. } => {
                    self.membership.disband();
                    self.named = None;
                }
                Elected::Elected { leader, term } if leader == self.config.me => {
                    self.membership.lead(term, &self.members, now);
                    self.name(now, leader, term);
                }
                // It does not know yet that its term is over; our answers to its heartbeats will tell.
                Elected::Elected { term, .. } if term < self.membership.promised() => {}
                Elected::Elected { leader, term } => {
                    self.membership.follow(leader, term);
                    self.name(now, leader, term);
                }
            }
        }
        // An election's messages are worth repeating only while somebody waits for them.
        let until = now + self.delays().answer().times(4);
        for (to, message) in &output.messages {
            self.post(now, *to, Payload::Election(*message), Some(until));
        }
        if output.overflowed {
            self.overflowed(Queue::Algorithm);
        }
    }

    /// Who has no part in elections stands all the same, if nobody leads for long enough from now on.
    fn stand_later(&mut self, now: Instant) {
        let elects = self.config.election != ElectionChoice::None && self.config.detector != DetectorChoice::Scripted;
        let from = now.max(self.votes_from);
        self.elect_at = (elects && !self.speaks(from)).then_some(from + self.config.timing.suspect_after.times(2));
    }

    pub(crate) fn name(&mut self, now: Instant, leader: NodeId, term: Term) {
        self.elect_at = None;
        if self.named != Some((leader, term)) {
            self.named = Some((leader, term));
            self.record(now, Event::Leader { id: leader, term });
        }
    }

    /// Where an election's message was not acknowledged in time, its receiver counts as dead for it.
    pub(crate) fn skip_the_unreachable(&mut self, now: Instant) {
        let patience = self.delays().answer();
        while let Some(position) = self.delivery.poll_unacknowledged(now, patience) {
            if let Some(id) = self.members.id(position) {
                self.elect(now, Command::Unreachable { id });
            }
        }
    }

    /// Tells everybody that we live: where the detector elects, everybody watches everybody.
    pub(crate) fn say_alive(&mut self, now: Instant) {
        for position in 0..self.members.count() {
            if let Some(id) = self.members.id(position).filter(|id| *id != self.config.me) {
                self.push(id, Outgoing::Alive);
            }
        }
        self.alive_at = Some(now + self.config.timing.heartbeat);
    }

    pub(crate) fn handle_heartbeat(&mut self, now: Instant, from: NodeId, heartbeat: &Heartbeat) {
        let elects = self.config.election != ElectionChoice::None;
        let current = heartbeat.term >= self.membership.promised();
        let outranks = from < self.config.me && self.speaks(now) && self.election.takes_over(&self.members);
        if elects && current && outranks {
            // A lower node leads although we live. Where it is somebody else's to take over we follow until then: that
            // one may wait for a view that admits it, and the view for our answer.
            return self.elect(now, Command::Observe { leader: from, term: heartbeat.term });
        }
        let votes = now >= self.votes_from;
        let mut heartbeat = heartbeat.clone();
        if heartbeat.life != self.config.incarnation && self.defences.has(Defence::OwnLease) {
            heartbeat.lease = None; // It was asked for by an earlier life, whose clock is gone.
        }
        let heartbeat = &heartbeat;
        match self.membership.handle_heartbeat(from, heartbeat, votes, &self.members) {
            Heard::Stale => {}
            Heard::Leads { installed } => {
                let (leader, term) = (from, heartbeat.term);
                let news =
                    if from > self.config.me { Command::Observe { leader, term } } else { Command::Note { term } };
                self.elect(now, news);
                if from < self.config.me {
                    self.name(now, leader, term); // Until we may speak, and take over.
                }
                // It may cease to lead and live on: who is not admitted yet waits for its heartbeats, not for its death.
                self.stand_later(now);
                if installed {
                    self.view_installed(now);
                }
                self.lease_renewed(now);
            }
        }
        let Heartbeat { term, view, sent: echo, .. } = *heartbeat;
        self.push(from, Outgoing::HeartbeatAck { term, view, echo });
    }

    pub(crate) fn handle_heartbeat_ack(&mut self, now: Instant, slot: usize, ack: &HeartbeatAck) {
        if ack.echo <= now {
            self.detector.round_trip(now.since(ack.echo));
        }
        if !self.membership.handle_ack(slot, ack) {
            // Our term is over: whoever is highest must claim a higher one.
            self.membership.disband();
            self.elect(now, Command::Note { term: ack.term });
            self.elect(now, Command::Start { dead: None });
        }
        self.lease_renewed(now);
    }
}
