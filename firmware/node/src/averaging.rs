//! Berkeley's rounds: the leader averages, everybody takes its correction.
//!
//! What the rules leave open on a real network: whoever leads with a majority's authority coordinates, so a
//! round outlives a coordinator's death; a correction is for the clock as it was when it was asked, so
//! one that comes late or twice does nothing; and the coordinator, whose clock is what the
//! others' intervals hold, moves it only slowly once they have set theirs by it.

use crate::{
    node::Node,
    timekeeping::{GRAIN_US, Reference, saturated},
    transmit::Outgoing,
};
use compasso_algorithms::{
    Algorithm, Context, Output,
    time::{
        Berkeley,
        berkeley::{Averaged, BerkeleyCommand, BerkeleyMessage, Reading},
    },
};
use compasso_wire::{
    ClusterTime, Event, Instant, NO_LISTS, NodeId, config::BERKELEY_PULL_PPM, message::TimeKnown, telemetry::Queue,
};

impl Node {
    /// Whoever leads coordinates.
    pub(crate) fn settle_average(&mut self, now: Instant) {
        let leads = self.has_authority(now);
        if leads != self.time.berkeley.leads() {
            let every = self.config.timing.sync_every;
            let command = if leads { BerkeleyCommand::Lead { every } } else { BerkeleyCommand::Retire };
            self.with_berkeley(now, |berkeley, cx| berkeley.handle_command(command, cx));
        }
    }

    pub(crate) fn with_berkeley(
        &mut self,
        now: Instant,
        act: impl FnOnce(&mut Berkeley, &mut Context<'_, BerkeleyMessage, Averaged>),
    ) {
        let is_set = self.clock.is_set();
        let shown = self.clock.read(now).unwrap_or(self.unset_clock(now));
        let own = Reading { ahead_us: shown.0.saturating_sub(now.0 as i64), is_set };
        self.time.berkeley.tell_own(own, self.membership.follower_with(TimeKnown::Time).is_some());
        let mut output = Output::default();
        let mut cx = Context {
            now,
            members: &self.members,
            view: self.view(),
            leader: self.coordinator(),
            lamport: 0,
            random: 0,
            delays: self.delays(),
            lists: &NO_LISTS,
            output: &mut output,
        };
        act(&mut self.time.berkeley, &mut cx);
        let mut distance_us = 0;
        for averaged in &output.events {
            distance_us = self.follow_average(now, averaged.offset_us);
        }
        for &(to, message) in &output.messages {
            match message {
                BerkeleyMessage::Poll => self.push(to, Outgoing::TimeRequest),
                BerkeleyMessage::Correction { polled, offset_us, rtt } => {
                    let (rtt_us, error_us) = (saturated(rtt.0), saturated(distance_us));
                    self.push(to, Outgoing::Correction { polled, offset_us, rtt_us, error_us });
                }
                BerkeleyMessage::Answer { .. } => {} // Only the asked say this.
            }
        }
        if output.overflowed {
            self.overflowed(Queue::Algorithm);
        }
    }

    /// The coordinator's own correction. Returns how far its clock is from the average right after it.
    fn follow_average(&mut self, now: Instant, offset_us: i64) -> u64 {
        let source = self.config.me;
        let is_reference = self.time.reference.is_some_and(|reference| reference.source == source);
        let mut by_us = offset_us;
        if is_reference && self.clock.is_set() {
            let elapsed = now.since(self.time.adjusted).0;
            let most = i64::try_from(elapsed.saturating_mul(BERKELEY_PULL_PPM.into()) / 1_000_000).unwrap_or(i64::MAX);
            by_us = offset_us.clamp(-most, most);
        }
        let shown = self.clock.read(now).unwrap_or(self.unset_clock(now));
        let target = ClusterTime(shown.0.saturating_add(by_us));
        self.clock.adjust(now, target, by_us, self.config.adjustment);
        self.time.adjusted = now;
        let term = self.membership.promised();
        self.time.reference = Some(Reference { source, term, since: now, error_us: 0 });
        self.record(now, Event::Sync { source, offset_us, rtt_us: 0, error_us: 0, bound_us: 0, course: None });
        let shown = self.clock.read(now).unwrap_or(target);
        target.0.saturating_sub(by_us).saturating_add(offset_us).saturating_sub(shown.0).unsigned_abs()
    }

    /// Takes what a node's clock showed.
    pub(crate) fn handle_answer(&mut self, now: Instant, from: NodeId, answer: BerkeleyMessage) {
        self.with_berkeley(now, |berkeley, cx| berkeley.handle_message(from, answer, cx));
    }

    /// Takes a correction of the clock as it was at `polled`.
    pub(crate) fn handle_correction(
        &mut self,
        now: Instant,
        from: NodeId,
        polled: Instant,
        offset_us: i64,
        rtt_us: u32,
        error_us: u32,
    ) {
        let is_stale = polled > now || (self.clock.is_set() && polled < self.time.adjusted);
        if self.membership.following() != Some(from) || is_stale {
            return; // Not for this clock as it is: it was corrected since, or somebody else leads.
        }
        let was = self.clock.read(polled).unwrap_or(self.unset_clock(polled));
        let target = ClusterTime(was.0.saturating_add(offset_us).saturating_add(now.since(polled).0 as i64));
        let error_us =
            u64::from(rtt_us).div_ceil(2) + u64::from(error_us) + GRAIN_US + self.apart_us(now.since(polled));
        let term = self.membership.promised();
        self.adjust(now, target, Reference { source: from, term, since: now, error_us }, rtt_us);
    }
}
