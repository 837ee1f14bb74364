//! The disciplined clock in the node: whom it asks, when it leads, and what it says of itself.
//!
//! A coordinator goes on from its own clock: the time does not jump when another begins to lead, and its rate
//! is the one that was learnt from the coordinator before. One that comes back without the time learns it
//! first, from a follower that goes on at the rate it knows; it serves nobody before its own clock has found
//! that rate, and never the one that it learns from.

use crate::{
    node::Node,
    timekeeping::{GRAIN_US, Reference, saturated},
    transmit::Outgoing,
};
use compasso_algorithms::{
    Algorithm, Context, Output,
    time::{
        Asking,
        asking::{AskingCommand, AskingMessage, Exchanged},
        disciplined::HANDLED_WITHIN,
    },
};
use compasso_wire::{
    Event, Instant, NO_LISTS, NodeId,
    config::TimeSource,
    telemetry::{Course, Queue},
};

impl Node {
    /// The clock follows whoever leads; whoever leads goes on from its own clock.
    pub(crate) fn settle_discipline(&mut self, now: Instant) {
        let server = self.membership.following().or_else(|| self.teacher(now));
        let term = self.membership.promised();
        if server == self.time.asking.server() && (server.is_none() || term == self.time.asked_in) {
            return;
        }
        self.time.asked_in = term;
        if server.is_some()
            && let Some(clock) = self.clock.disciplined_mut()
        {
            clock.hand_over(now);
        }
        self.with_asking(now, |asking, cx| asking.handle_command(AskingCommand::Follow { server }, cx));
    }

    /// From whom a leader learns the time; nobody if it is what others go by.
    fn teacher(&mut self, now: Instant) -> Option<NodeId> {
        if !self.membership.leads() {
            return None;
        }
        let clock = self.clock.disciplined()?;
        let (is_set, is_fit) = (clock.is_set(), clock.is_fit());
        let present = self.time.asking.server().filter(|_| self.time.asked_in == self.membership.promised());
        let has_time = |id: NodeId| self.members.position(id).is_some_and(|at| self.membership.has_time(at));
        let any = || self.membership.follower_with_time().and_then(|position| self.members.id(position));
        // Nobody has its time from here, as nobody is served before that.
        let follower = present.filter(|id| has_time(*id)).or_else(any).filter(|_| !is_fit);
        match self.config.time_source {
            TimeSource::Host => follower.filter(|_| !is_set).or(Some(NodeId::HOST)),
            TimeSource::Coordinator if follower.is_some() => follower,
            TimeSource::Coordinator => {
                // A majority has answered, and nobody among them has the time.
                if is_fit || self.has_authority(now) {
                    self.lead_time(now);
                }
                None
            }
        }
    }

    /// From here on this clock is the time.
    fn lead_time(&mut self, now: Instant) {
        let (me, term) = (self.config.me, self.membership.promised());
        if self.time.reference.is_none_or(|reference| (reference.source, reference.term) != (me, term)) {
            let begin = self.unset_clock(now);
            self.clock.begin(now, begin);
        }
        self.refer_to_self(now);
    }

    /// Whether others may be told the time: not while this node leads and still learns it, and never the one
    /// that teaches it.
    pub(crate) fn serves_time(&self, to: NodeId) -> bool {
        let Some(clock) = self.clock.disciplined() else { return true };
        let is_ready = clock.is_fit() || self.config.time_source == TimeSource::Host;
        !self.membership.leads() || (is_ready && self.time.asking.server() != Some(to))
    }

    pub(crate) fn with_asking(
        &mut self,
        now: Instant,
        act: impl FnOnce(&mut Asking, &mut Context<'_, AskingMessage, Exchanged>),
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
        act(&mut self.time.asking, &mut cx);
        for &(to, _) in &output.messages {
            self.push(to, Outgoing::TimeRequest);
        }
        for exchanged in &output.events {
            self.discipline(now, exchanged);
        }
        if output.overflowed {
            self.overflowed(Queue::Algorithm);
        }
    }

    /// Takes the stamps of one exchange.
    fn discipline(&mut self, now: Instant, exchanged: &Exchanged) {
        let Exchanged { server: source, mut exchange } = *exchanged;
        if now.since(exchange.arrived) > HANDLED_WITHIN {
            exchange.arrived = now; // It lay about: what was shown since must stay true.
        }
        let Some(clock) = self.clock.disciplined_mut() else { return };
        let taken = clock.exchange(&exchange);
        let every = clock.next_in();
        self.with_asking(now, |asking, cx| asking.handle_command(AskingCommand::Pace { every }, cx));
        if taken.refused.is_some() {
            return;
        }
        let error_us = taken.rtt.0.div_ceil(2) + u64::from(exchange.error_us) + GRAIN_US;
        let term = self.membership.promised();
        self.time.reference = Some(Reference { source, term, since: now, error_us });
        let course = self.course(now);
        let bound_us = course.map_or(0, |course| course.behind_us.max(course.ahead_us));
        let (rtt_us, error_us) = (saturated(taken.rtt.0), saturated(error_us));
        self.record(now, Event::Sync { source, offset_us: taken.offset_us, rtt_us, error_us, bound_us, course });
    }

    /// What the disciplined clock claims of its reference from now on, and of its crystal.
    pub(crate) fn course(&self, now: Instant) -> Option<Course> {
        self.clock.disciplined()?.course(now)
    }
}
