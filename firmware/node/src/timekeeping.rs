//! Keeping time: the clock follows whoever leads.

use crate::{node::Node, transmit::Outgoing};
use compasso_algorithms::{
    Algorithm, Context, Output,
    time::{Cristian, SoftwareClock, cristian},
};
use compasso_wire::{ClusterTime, Event, Instant, NO_LISTS, NodeId, config::ClockChoice};

impl Node {
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
                    self.clock.set(now, ClusterTime(self.config.wrong_clock_us + now.0 as i64));
                    self.record(now, Event::Sync { source: self.config.me, offset_us: 0, rtt_us: 0, error_us: 0 });
                }
                source
            }
            (ClockChoice::Cristian, SoftwareClock::Running { .. }, None) => None,
        };
        if server != self.cristian.server() {
            let every = self.config.timing.sync_every;
            self.with_cristian(now, |cristian, cx| {
                cristian.handle_command(cristian::TimeCommand::Follow { server, every }, cx);
            });
        }
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

    fn synchronize(&mut self, now: Instant, measured: cristian::Measured) {
        let target = ClusterTime(measured.cluster.0 + now.since(measured.at).0 as i64);
        let offset_us = match self.clock.read(now) {
            Some(shown) => target.ahead_of_us(shown),
            None => target.ahead_of_us(ClusterTime(self.config.wrong_clock_us + now.0 as i64)),
        };
        match self.clock {
            SoftwareClock::Unset => self.clock.set(now, target),
            SoftwareClock::Running { .. } => self.clock.correct(now, offset_us),
        }
        let rtt_us = u32::try_from(measured.rtt.0).unwrap_or(u32::MAX);
        self.record(now, Event::Sync { source: measured.server, offset_us, rtt_us, error_us: rtt_us / 2 });
    }

    pub(crate) fn handle_correction(
        &mut self,
        _now: Instant,
        _from: NodeId,
        _polled: Instant,
        _offset_us: i64,
        _rtt_us: u32,
    ) {
    }

    pub(crate) fn handle_leap(&mut self, _now: Instant, _at: ClusterTime, _by: i8) {}
}
