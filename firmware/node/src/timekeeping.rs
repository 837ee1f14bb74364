//! Keeping time: the clock follows whoever leads, and knows how far it may be off.
//!
//! The clock's interval holds the time of its *reference*: the host's true time, if that is where the
//! time comes from, or else the timeline of a coordinator, one for each term that it leads in. Half its width is
//! the sum of what may be wrong:
//! half the round trip of the last exchange, what the reference itself was on its way to correct then,
//! the drift of both crystals since that exchange was begun, and what this clock has yet to slew.
//! A coordinator that is its own reference is exactly right about itself.

use crate::{departures::Departures, node::Node, transmit::Outgoing};
use compasso_algorithms::{
    Algorithm, Context, Output,
    time::{
        Asking, Berkeley, Cristian, LeapTable, Utc,
        asking::{AskingMessage, Exchanged},
        berkeley::BerkeleyMessage,
        cristian,
        disciplined::SOURCES_MAX,
    },
};
use compasso_wire::{
    Body, ClusterTime, Duration, Event, Instant, Interval, NO_LISTS, NodeId, Term,
    config::{ClockChoice, TimeSource},
    message::TimeKnown,
};

/// Each reading that goes into an offset is cut to whole microseconds: two of the client, two of the
/// server, and the slewing of both.
pub(crate) const GRAIN_US: u64 = 6;

/// Whose time the clock was last set by, and how well.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reference {
    pub(crate) source: NodeId,
    /// The term in which the source leads: in another its timeline may be another.
    pub(crate) term: Term,
    /// From when on the crystals may have drifted apart.
    pub(crate) since: Instant,
    /// How wrong the clock could have been then.
    pub(crate) error_us: u64,
}

/// Exchanges of a disciplined clock that shows nothing yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct First {
    /// How many were made.
    pub(crate) made: u8,
    pub(crate) quickest: Exchanged,
}

/// What a node knows about time besides what its clock shows.
#[derive(Default)]
pub(crate) struct Timekeeping {
    pub(crate) reference: Option<Reference>,
    /// The term in which the server is asked.
    pub(crate) asked_in: Term,
    /// One a source; all but the first are idle unless this node asks several hosts.
    pub(crate) askings: [Asking; SOURCES_MAX],
    pub(crate) departures: Departures,
    /// The first exchanges with the only source, until the quickest of them sets the clock.
    pub(crate) first: Option<First>,
    /// When the clock was last set or corrected.
    pub(crate) adjusted: Instant,
    pub(crate) berkeley: Berkeley,
    pub(crate) leaps: LeapTable,
    /// The next whole second of cluster time that is to be told in UTC.
    pub(crate) next_second: Option<i64>,
    /// The last one that was told.
    pub(crate) told: Option<Utc>,
}

impl Timekeeping {
    /// Whom the disciplined clock goes by; the first of them, if it asks several hosts.
    pub(crate) fn server(&self) -> Option<NodeId> {
        self.askings.first().and_then(Asking::server)
    }
}

impl Node {
    /// Between which times the reference's clock is now: nothing while this node has no cluster time.
    ///
    /// The reference is the host's true time, or the clock of the coordinator that this clock was last
    /// synchronized with, as it went on from then. Intervals of two nodes compare only if they have the
    /// same reference: see [`Node::shared_interval`].
    #[must_use]
    pub fn cluster_interval(&self, now: Instant) -> Option<Interval> {
        let best = self.clock.read(now)?;
        match self.clock.disciplined() {
            Some(clock) => clock.interval(now),
            None => Some(Interval::around(best, self.half_width_us(now))),
        }
    }

    /// The same whatever the crystals do within the declared drift: for whoever decides by comparing clocks.
    #[must_use]
    pub fn certain_interval(&self, now: Instant) -> Option<Interval> {
        match self.clock.disciplined() {
            Some(clock) => clock.certain(now),
            None => self.cluster_interval(now),
        }
    }

    /// The certain interval, but only if the reference is what everybody means by cluster time at present: the
    /// host's time, or that of the coordinator of this term.
    #[must_use]
    pub fn shared_interval(&self, now: Instant) -> Option<Interval> {
        let reference = self.time.reference?;
        let is_shared = match self.membership.following() {
            _ if self.config.time_source == TimeSource::Host => true,
            Some(leader) => reference.source == leader && reference.term == self.membership.promised(),
            None => self.membership.leads() && reference.source == self.config.me,
        };
        self.certain_interval(now).filter(|_| is_shared)
    }

    pub(crate) fn half_width_us(&self, now: Instant) -> u64 {
        match (self.time.reference, self.clock.disciplined()) {
            (Some(_), Some(clock)) => clock.interval(now).map_or(0, |within| within.half_us().unsigned_abs()),
            (Some(reference), None) if reference.source != self.config.me => {
                let apart_us = self.apart_us(now.since(reference.since));
                reference.error_us + apart_us + self.clock.pending_us(now)
            }
            (Some(_) | None, _) => 0,
        }
    }

    /// How far this clock and its reference may have come apart in such a time.
    pub(crate) fn apart_us(&self, elapsed: Duration) -> u64 {
        let rate_ppm = self.config.clock.bound_ppm(self.config.timing.drift_ppm);
        elapsed.0.saturating_mul(u64::from(rate_ppm)).div_ceil(1_000_000)
    }

    /// The clock follows whoever leads.
    pub(crate) fn settle_clock(&mut self, now: Instant) {
        let server = match self.config.clock {
            ClockChoice::None => return,
            ClockChoice::Berkeley => return self.settle_average(now),
            ClockChoice::Disciplined => return self.settle_discipline(now),
            ClockChoice::Cristian => self.membership.following().or_else(|| self.leaders_source(now)),
        };
        let term = self.membership.promised();
        if server != self.cristian.server() || (server.is_some() && term != self.time.asked_in) {
            // In another term the same server may stand for another timeline: what it said before is void.
            self.time.asked_in = term;
            self.follow_clock(now, None);
            self.follow_clock(now, server);
        }
    }

    /// From whom a leader has the time: a follower that has it if the leader has none, then the host if
    /// that serves it; otherwise the leader is what others go by.
    fn leaders_source(&mut self, now: Instant) -> Option<NodeId> {
        if !self.membership.leads() {
            return None;
        }
        let is_unset = !self.clock.is_set();
        let follower = self.membership.follower_with(TimeKnown::Time).filter(|_| is_unset);
        match (follower.and_then(|position| self.members.id(position)), self.config.time_source) {
            (Some(follower), _) => Some(follower),
            (None, TimeSource::Host) => Some(NodeId::HOST),
            (None, TimeSource::Coordinator) => {
                if is_unset && self.has_authority(now) {
                    // Nobody has cluster time: it begins here.
                    self.clock.begin(now, self.unset_clock(now));
                }
                if self.clock.is_set() {
                    self.refer_to_self(now);
                }
                None
            }
        }
    }

    /// May this node, as leader, begin what others are to follow?
    pub(crate) fn has_authority(&self, now: Instant) -> bool {
        self.membership.leads() && (!self.hardened() || self.membership.authority_until(&self.members, now).is_some())
    }

    pub(crate) fn clock_timeouts(&mut self, now: Instant) {
        self.with_cristian(now, |cristian, cx| cristian.handle_timeout(cx));
        self.with_berkeley(now, |berkeley, cx| berkeley.handle_timeout(cx));
        for source in 0..SOURCES_MAX {
            self.with_asking(now, source, |asking, cx| asking.handle_timeout(cx));
        }
        self.tell_utc(now);
    }

    pub(crate) fn clock_timeout(&self) -> Option<(Instant, &'static str)> {
        let textbook = [self.cristian.poll_timeout(), self.time.berkeley.poll_timeout()];
        let asked = self.time.askings.iter().map(Asking::poll_timeout);
        let exchange = textbook.into_iter().chain(asked).flatten().min();
        let second = self.next_utc_at().map(|at| (at, "second of UTC"));
        exchange.map(|at| (at, "clock exchange")).into_iter().chain(second).min_by_key(|(at, _)| *at)
    }

    fn follow_clock(&mut self, now: Instant, server: Option<NodeId>) {
        let every = self.config.timing.sync_every;
        self.with_cristian(now, |cristian, cx| {
            cristian.handle_command(cristian::TimeCommand::Follow { server, every }, cx);
        });
    }

    /// What the clock has shown since boot, before anybody set it.
    pub(crate) fn unset_clock(&self, now: Instant) -> ClusterTime {
        ClusterTime(self.config.wrong_clock_us + now.0 as i64)
    }

    /// From here on others set their clocks by this one.
    pub(crate) fn refer_to_self(&mut self, now: Instant) {
        let (source, term) = (self.config.me, self.membership.promised());
        if self.time.reference.is_none_or(|reference| reference.source != source) {
            self.record(
                now,
                Event::Sync { source, offset_us: 0, rtt_us: 0, error_us: 0, bound_us: 0, course: self.course(now) },
            );
        }
        self.time.reference = Some(Reference { source, term, since: now, error_us: 0 });
    }

    pub(crate) fn with_cristian(
        &mut self,
        now: Instant,
        act: impl FnOnce(&mut Cristian, &mut Context<'_, cristian::TimeMessage, cristian::Measured>),
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
        act(&mut self.cristian, &mut cx);
        for &(to, _) in &output.messages {
            self.push(to, Outgoing::TimeRequest);
        }
        for &measured in &output.events {
            self.synchronize(now, measured);
        }
    }

    /// The answer to a question that arrived at `received`, if there is a time to tell.
    pub(crate) fn time_reply(
        &self,
        now: Instant,
        to: NodeId,
        echo: Instant,
        received: Instant,
    ) -> Option<Body<'static>> {
        let shown = self.clock.read(now).filter(|_| self.serves_time(to));
        // Berkeley's coordinator asks everybody what its clock shows, set or not.
        let is_asked_anyway = self.config.clock == ClockChoice::Berkeley;
        let cluster = shown.or(is_asked_anyway.then(|| self.unset_clock(now)))?;
        // Others take what this clock shows for the time; what it has yet to slew will have moved it.
        let pending_us = self.clock.pending_us(now);
        let error_us = self.half_width_us(now).max(pending_us);
        let certain_us = self.certain_interval(now).map_or(0, |within| within.half_us().unsigned_abs());
        Some(Body::TimeReply {
            echo,
            cluster,
            handling_us: saturated(self.clock.elapsed_us(received, now)),
            sent: now,
            error_us: saturated(error_us),
            certain_us: saturated(certain_us.max(error_us)),
            leaves_us: self.time.departures.leaves_us(),
            is_set: shown.is_some(),
            leap: self.time.leaps.announced(),
        })
    }

    /// Takes what somebody's clock showed.
    pub(crate) fn handle_time_reply(&mut self, now: Instant, from: NodeId, reply: &Body<'_>) {
        let Body::TimeReply { echo, cluster, handling_us, sent, error_us, certain_us, leaves_us, is_set, leap } =
            *reply
        else {
            return;
        };
        let handling = Duration(u64::from(handling_us));
        match self.config.clock {
            ClockChoice::None => {}
            ClockChoice::Berkeley => {
                self.handle_answer(now, from, BerkeleyMessage::Answer { echo, shown: cluster, sent, handling, is_set });
            }
            ClockChoice::Cristian | ClockChoice::Disciplined if !is_set => {}
            ClockChoice::Disciplined => {
                self.learn_leap(leap);
                // Both ways count from the wire, or both from their stamps.
                let (echo, leaves_us) = match self.time.departures.of(from, echo) {
                    Some(left) => (left, leaves_us),
                    None => (echo, 0),
                };
                let reply = AskingMessage::Reply {
                    echo,
                    answered: cluster,
                    handling,
                    arrived: now,
                    error_us,
                    certain_us,
                    leaves_us,
                };
                let asked = self.time.askings.iter().position(|asking| asking.server() == Some(from));
                if let Some(source) = asked {
                    self.with_asking(now, source, |asking, cx| asking.handle_message(from, reply, cx));
                }
            }
            ClockChoice::Cristian => {
                self.learn_leap(leap);
                let reply = cristian::TimeMessage::Reply { echo, cluster, handling, error_us };
                self.with_cristian(now, |cristian, cx| cristian.handle_message(from, reply, cx));
            }
        }
    }

    fn synchronize(&mut self, now: Instant, measured: cristian::Measured) {
        let target = ClusterTime(measured.cluster.0.saturating_add(now.since(measured.at).0 as i64));
        let error_us = measured.wrong_by_us() + GRAIN_US + self.apart_us(now.since(measured.asked));
        let term = self.membership.promised();
        let reference = Reference { source: measured.server, term, since: now, error_us };
        self.adjust(now, target, reference, saturated(measured.rtt.0));
    }

    /// Brings the clock to `target`, which is as good as `reference` says.
    pub(crate) fn adjust(&mut self, now: Instant, target: ClusterTime, mut reference: Reference, rtt_us: u32) {
        let shown = self.clock.read(now).unwrap_or(self.unset_clock(now));
        let offset_us = target.ahead_of_us(shown);
        reference.error_us += self.clock.adjust(now, target, offset_us, self.config.adjustment).unsigned_abs();
        self.time.reference = Some(reference);
        self.time.adjusted = now;
        let bound_us = saturated(reference.error_us + self.clock.pending_us(now));
        let (source, error_us) = (reference.source, saturated(reference.error_us));
        self.record(now, Event::Sync { source, offset_us, rtt_us, error_us, bound_us, course: None });
    }
}

pub(crate) fn saturated(us: u64) -> u32 {
    u32::try_from(us).unwrap_or(u32::MAX)
}
