//! The disciplined clock in the node: whom it asks, when it leads, and what it says of itself.
//!
//! A coordinator goes on from its own clock: the time does not jump when another begins to lead, and its rate
//! is the one that was learnt from the coordinator before. One that comes back without the time learns it
//! first, from a follower that goes on at the rate it knows; it serves nobody before its own clock has found
//! that rate, and never the one that it learns from.
//!
//! Where several hosts have the time, a coordinator asks all of them, and goes by what most of them agree on; everybody
//! else goes by the coordinator.

use crate::{
    node::{Node, hosts},
    timekeeping::{First, GRAIN_US, Reference, saturated},
    transmit::Outgoing,
};
use compasso_algorithms::{
    Algorithm, Context, Output,
    time::{
        Asking,
        asking::{AskingCommand, AskingMessage, Exchanged},
        cristian,
        disciplined::{HANDLED_WITHIN, SOURCES_MAX, round_trip_us},
    },
};
use compasso_wire::{
    Duration, Event, Instant, NO_LISTS, NodeId,
    config::TimeSource,
    message::TimeKnown,
    telemetry::{Course, Queue},
};

/// Several sources are asked in turn: what one says can be made use of before the next one speaks.
const APART: Duration = Duration::from_millis(80);

/// A clock that shows nothing yet is set by the quickest of so many exchanges, as Cristian's is.
const FIRST_EXCHANGES: u8 = cristian::TRIES;

/// From one of them to the next.
const FIRST_EVERY: Duration = Duration::from_millis(20);

impl Node {
    /// The clock follows whoever leads; whoever leads goes on from its own clock.
    pub(crate) fn settle_discipline(&mut self, now: Instant) {
        let server = self.membership.following().or_else(|| self.teacher(now));
        let term = self.membership.promised();
        if server == self.time.server() && (server.is_none() || term == self.time.asked_in) {
            return;
        }
        self.time.asked_in = term;
        let sources = server.and_then(NodeId::host_number).map_or(1, |_| hosts(&self.config));
        self.time.first = None;
        if server.is_some()
            && let Some(clock) = self.clock.disciplined_mut()
        {
            clock.hand_over(now, sources);
        }
        for source in 0..SOURCES_MAX {
            let other = (0 < source && source < sources).then(|| NodeId::host(source));
            let server = if source == 0 { server } else { other };
            let follow = AskingCommand::Follow { server, after: APART.times(source as u64) };
            self.with_asking(now, source, |asking, cx| asking.handle_command(follow, cx));
        }
    }

    /// From whom a leader learns the time; nobody if it is what others go by.
    fn teacher(&mut self, now: Instant) -> Option<NodeId> {
        if !self.membership.leads() {
            return None;
        }
        let clock = self.clock.disciplined()?;
        let (is_set, is_fit) = (clock.is_set(), clock.is_fit());
        // Where nobody knows the rate, whoever has kept time until now is as good as any.
        let enough = if clock.has_followed() { TimeKnown::Rate } else { TimeKnown::Time };
        let present = self.time.server().filter(|_| self.time.asked_in == self.membership.promised());
        let teaches = |id: &NodeId| {
            self.members.position(*id).is_some_and(|position| self.membership.time_known(position) >= enough)
        };
        let best = self.membership.follower_with(TimeKnown::Rate);
        let any = || best.or_else(|| self.membership.follower_with(enough));
        // Nobody has its time from here, as nobody is served before that.
        let follower = present.filter(teaches).or_else(|| self.members.id(any()?)).filter(|_| !is_fit);
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
        !self.membership.leads() || (is_ready && self.time.server() != Some(to))
    }

    pub(crate) fn with_asking(
        &mut self,
        now: Instant,
        source: usize,
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
        let Some(asking) = self.time.askings.get_mut(source) else { return };
        act(asking, &mut cx);
        for &(to, _) in &output.messages {
            self.push(to, Outgoing::TimeRequest);
        }
        for exchanged in &output.events {
            self.discipline(now, source, exchanged);
        }
        if output.overflowed {
            self.overflowed(Queue::Algorithm);
        }
    }

    /// What the clock is told next: each exchange, but of the first ones only the quickest, once they are made. A clock
    /// that a slow one sets may be far ahead, and comes back by no more than 500 µs a second. Several sources are each
    /// heard several times before they set it.
    fn next_told(&mut self, now: Instant, index: usize, exchanged: Exchanged) -> Option<Exchanged> {
        let before = self.time.first.take();
        let has_several = self.clock.disciplined().is_some_and(|clock| clock.sources() > 1);
        if self.clock.is_set() || has_several {
            return Some(exchanged);
        }
        let round_trip = |exchanged: &Exchanged| round_trip_us(&exchanged.exchange);
        let made = before.map_or(0, |first| first.made) + 1;
        let quicker = before.map(|first| first.quickest).filter(|first| round_trip(first) <= round_trip(&exchanged));
        let quickest = quicker.unwrap_or(exchanged);
        if made >= FIRST_EXCHANGES {
            return Some(quickest);
        }
        self.time.first = Some(First { made, quickest });
        let pace = AskingCommand::Pace { every: FIRST_EVERY };
        self.with_asking(now, index, |asking, cx| asking.handle_command(pace, cx));
        None
    }

    /// Takes the stamps of one exchange with one of the sources.
    fn discipline(&mut self, now: Instant, index: usize, exchanged: &Exchanged) {
        let Some(Exchanged { server: source, mut exchange }) = self.next_told(now, index, *exchanged) else { return };
        if self.clock.is_set() && now.since(exchange.arrived) > HANDLED_WITHIN {
            exchange.arrived = now; // It lay about: what was shown since must stay true.
        }
        let Some(clock) = self.clock.disciplined_mut() else { return };
        let before = clock.falsetickers();
        let taken = clock.exchange(index, &exchange);
        let (every, after, is_set) = (clock.next_in(index), clock.falsetickers(), clock.is_set());
        self.with_asking(now, index, |asking, cx| asking.handle_command(AskingCommand::Pace { every }, cx));
        self.tell_falsetickers(now, before, after);
        // Before most of several sources were heard, there is no time that anything could be said of.
        if taken.refused.is_some() || !is_set {
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

    fn tell_falsetickers(&mut self, now: Instant, before: [bool; SOURCES_MAX], after: [bool; SOURCES_MAX]) {
        for (index, (before, lies)) in before.into_iter().zip(after).enumerate() {
            if before != lies {
                self.record(now, Event::Falseticker { source: NodeId::host(index), lies });
            }
        }
    }

    /// What the disciplined clock claims of its reference from now on, and of its crystal.
    pub(crate) fn course(&self, now: Instant) -> Option<Course> {
        self.clock.disciplined()?.course(now)
    }
}
