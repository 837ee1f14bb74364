//! Keeping time: the clock follows whoever leads, and knows how far it may be off.
//!
//! The clock's interval holds the time of its *reference*: the timeline of a coordinator, one for each
//! term that it leads in. Half its width is the sum of what may be wrong:
//! half the round trip of the last exchange, what the reference itself was on its way to correct then,
//! the drift of both crystals since that exchange was begun, and what this clock has yet to slew.
//! A coordinator that is its own reference is exactly right about itself.

use crate::{node::Node, transmit::Outgoing};
use compasso_algorithms::{
    Algorithm, Context, Output,
    time::{Cristian, SoftwareClock, cristian},
};
use compasso_wire::{
    Body, ClusterTime, Duration, Event, Instant, Interval, NodeId, Term,
    config::{Adjustment, ClockChoice},
};

/// Each reading that goes into an offset is cut to whole microseconds: two of the client, two of the
/// server, and the slewing of both.
const GRAIN_US: u64 = 6;

/// Whose time the clock was last set by, and how well.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reference {
    source: NodeId,
    /// The term in which the source leads: in another its timeline may be another.
    term: Term,
    /// From when on the crystals may have drifted apart.
    since: Instant,
    /// How wrong the clock could have been then.
    error_us: u64,
}

/// What a node knows about time besides what its clock shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Timekeeping {
    reference: Option<Reference>,
    /// The term in which the server is asked.
    asked_in: Term,
}

impl Node {
    /// Between which times the reference's clock is now: nothing while this node has no cluster time.
    ///
    /// The reference is the coordinator that this clock was last synchronized with, as it went on from
    /// then. Intervals of nodes compare only if they have the same reference: see
    /// [`Node::shared_interval`].
    #[must_use]
    pub fn cluster_interval(&self, now: Instant) -> Option<Interval> {
        let best = self.clock.read(now)?;
        Some(Interval::around(best, self.half_width_us(now)))
    }

    /// The same, but only if the reference is the coordinator of the present term: what everybody who
    /// is asked in this term means by cluster time.
    #[must_use]
    pub fn shared_interval(&self, now: Instant) -> Option<Interval> {
        let reference = self.time.reference?;
        let is_shared = match self.membership.following() {
            Some(leader) => reference.source == leader && reference.term == self.membership.promised(),
            None => self.membership.leads() && reference.source == self.config.me,
        };
        self.cluster_interval(now).filter(|_| is_shared)
    }

    fn half_width_us(&self, now: Instant) -> u64 {
        match self.time.reference {
            Some(reference) if reference.source != self.config.me => {
                let apart_us = self.apart_us(now.since(reference.since));
                reference.error_us + apart_us + self.clock.pending_us(now).unsigned_abs()
            }
            Some(_) | None => 0,
        }
    }

    /// How far this clock and its reference may have come apart in such a time.
    fn apart_us(&self, elapsed: Duration) -> u64 {
        let rate_ppm = self.config.clock.bound_ppm(self.config.timing.drift_ppm);
        elapsed.0.saturating_mul(u64::from(rate_ppm)).div_ceil(1_000_000)
    }

    /// The clock follows whoever leads; a leader without time takes it from a follower that has it.
    pub(crate) fn settle_clock(&mut self, now: Instant) {
        let server = match (self.config.clock, self.clock, self.membership.following()) {
            (ClockChoice::None | ClockChoice::Berkeley, _, _) => return,
            (ClockChoice::Cristian, _, Some(leader)) => Some(leader),
            (ClockChoice::Cristian, SoftwareClock::Unset, None) => {
                let source = self.membership.follower_with_time().and_then(|position| self.members.id(position));
                let alone = source.is_none() && self.membership.leads();
                if alone && (!self.hardened() || self.membership.authority_until(&self.members, now).is_some()) {
                    // Nobody has cluster time: it begins here.
                    self.clock.set(now, self.unset_clock(now));
                    self.refer_to_self(now);
                }
                source
            }
            (ClockChoice::Cristian, SoftwareClock::Running { .. }, None) => {
                if self.membership.leads() {
                    self.refer_to_self(now);
                }
                None
            }
        };
        let term = self.membership.promised();
        if server != self.cristian.server() || (server.is_some() && term != self.time.asked_in) {
            // In another term the same server may stand for another timeline: what it said before is void.
            self.time.asked_in = term;
            self.follow_clock(now, None);
            self.follow_clock(now, server);
        }
    }

    fn follow_clock(&mut self, now: Instant, server: Option<NodeId>) {
        let every = self.config.timing.sync_every;
        self.with_cristian(now, |cristian, cx| {
            cristian.handle_command(cristian::TimeCommand::Follow { server, every }, cx);
        });
    }

    /// What the clock has shown since boot, before anybody set it.
    fn unset_clock(&self, now: Instant) -> ClusterTime {
        ClusterTime(self.config.wrong_clock_us + now.0 as i64)
    }

    /// From here on others set their clocks by this one.
    fn refer_to_self(&mut self, now: Instant) {
        let (source, term) = (self.config.me, self.membership.promised());
        if self.time.reference.is_none_or(|reference| reference.source != source) {
            self.record(now, Event::Sync { source, offset_us: 0, rtt_us: 0, error_us: 0, bound_us: 0 });
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
    pub(crate) fn time_reply(&self, now: Instant, echo: Instant, received: Instant) -> Option<Body<'static>> {
        let cluster = self.clock.read(now)?;
        // Others take what this clock shows for the time; what it has yet to slew will have moved it.
        let error_us = self.half_width_us(now).max(self.clock.pending_us(now).unsigned_abs());
        Some(Body::TimeReply {
            echo,
            cluster,
            handling_us: saturated(now.since(received).0),
            sent: now,
            error_us: saturated(error_us),
            is_set: true,
            leap: None,
        })
    }

    fn synchronize(&mut self, now: Instant, measured: cristian::Measured) {
        let target = ClusterTime(measured.cluster.0.saturating_add(now.since(measured.at).0 as i64));
        let error_us = measured.wrong_by_us() + GRAIN_US + self.apart_us(now.since(measured.asked));
        let term = self.membership.promised();
        let reference = Reference { source: measured.server, term, since: now, error_us };
        self.adjust(now, target, reference, saturated(measured.rtt.0));
    }

    /// Brings the clock to `target`, which is as good as `reference` says.
    fn adjust(&mut self, now: Instant, target: ClusterTime, mut reference: Reference, rtt_us: u32) {
        let shown = self.clock.read(now).unwrap_or(self.unset_clock(now));
        let offset_us = target.ahead_of_us(shown);
        match (self.clock, self.config.adjustment) {
            (SoftwareClock::Unset, _) | (_, Adjustment::Step) => self.clock.set(now, target),
            (SoftwareClock::Running { .. }, Adjustment::Slew) => {
                reference.error_us += self.clock.correct(now, offset_us).unsigned_abs();
            }
        }
        self.time.reference = Some(reference);
        let bound_us = saturated(reference.error_us + self.clock.pending_us(now).unsigned_abs());
        let (source, error_us) = (reference.source, saturated(reference.error_us));
        self.record(now, Event::Sync { source, offset_us, rtt_us, error_us, bound_us });
    }

    pub(crate) fn handle_correction(
        &mut self,
        _now: Instant,
        _from: NodeId,
        _polled: Instant,
        _offset_us: i64,
        _rtt_us: u32,
        _error_us: u32,
    ) {
    }

    pub(crate) fn handle_leap(&mut self, _now: Instant, _at: ClusterTime, _by: i8) {}
}

fn saturated(us: u64) -> u32 {
    u32::try_from(us).unwrap_or(u32::MAX)
}
