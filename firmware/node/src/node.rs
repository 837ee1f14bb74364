//! The node: where the algorithms meet.

use crate::{
    defences::Defences,
    delivery::Delivery,
    journal::Journal,
    membership::Membership,
    session::Sessions,
    transmit::{OUTGOING_MAX, Outgoing},
    turns::Turn,
    workload::Requests,
};
use compasso_algorithms::{
    Algorithm, Context, Delays, Members, Output,
    detector::{EventuallyPerfect, eventually_perfect::Change},
    election::{Bully, bully},
    time::{Cristian, SoftwareClock, cristian},
};
use compasso_wire::{
    ClusterTime, Event, Instant, NodeConfig, NodeId, NodeSet, Observation, Payload, Term,
    config::{ClockChoice, DetectorChoice, ElectionChoice, MutexChoice, Stored},
    limits::RESOURCES_MAX,
    message::{Body, Command},
    telemetry::Queue,
};
use heapless::{Deque, Vec};

/// What happens to a node.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// A datagram arrived.
    Datagram(&'a [u8]),
    /// The stage asks for something, without a datagram.
    Command(Command),
    /// A deadline may have passed.
    Timeout,
}

/// What the driver must do for the node besides sending.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Store this before anything more is sent.
    Store(Stored),
    /// Bend the emulated crystal.
    SetRate {
        /// Parts per billion.
        ppb: i32,
    },
    /// The collector has every record before this one.
    TelemetryAcknowledged {
        /// The next record it expects.
        next: u32,
    },
}

/// Effects other than storing that may wait for the driver.
const EFFECTS_MAX: usize = 4;
/// Rounds in which the algorithms may react to each other within one input.
const SETTLE_MAX: usize = 16;
/// How many heartbeat periods the strangers are challenged after boot.
const INTRODUCTIONS: u64 = 20;
/// How many heartbeat periods pass before the first election: time to get to know each other.
const FIRST_ELECTION: u64 = 3;

/// One node: handed inputs and the time, asked for outputs.
pub struct Node {
    pub(crate) config: NodeConfig,
    pub(crate) members: Members,
    pub(crate) sequence: u32,
    pub(crate) sessions: Sessions,
    pub(crate) delivery: Delivery,
    pub(crate) journal: Journal,
    pub(crate) detector: EventuallyPerfect,
    pub(crate) bully: Bully,
    pub(crate) membership: Membership,
    pub(crate) clock: SoftwareClock,
    pub(crate) cristian: Cristian,
    pub(crate) turns: Vec<Turn, RESOURCES_MAX>,
    pub(crate) requests: Requests,
    pub(crate) outgoing: Deque<(NodeId, Outgoing), OUTGOING_MAX>,
    pub(crate) effects: Deque<Effect, EFFECTS_MAX>,
    pub(crate) stored: Stored,
    pub(crate) store_pending: bool,
    /// Whom this node names as leader.
    pub(crate) named: Option<(NodeId, Term)>,
    /// From when on a returned node may speak for itself.
    pub(crate) votes_from: Instant,
    /// A returned node is admitted once a majority's view holds it.
    pub(crate) admitted: bool,
    /// Hold an election then, if nobody leads.
    pub(crate) elect_at: Option<Instant>,
    /// The view for which the guardians were appointed.
    pub(crate) guarded: Option<(Term, u32)>,
    pub(crate) introduce_at: Option<Instant>,
    pub(crate) introduced_by: Instant,
    pub(crate) commands_next: u32,
    pub(crate) overflows: u32,
    pub(crate) overflowing: Option<Queue>,
    /// The time of the last input.
    pub(crate) handled_at: Instant,
    /// An input later than this means that the node itself was asleep.
    pub(crate) slept_after: Instant,
    pub(crate) defences: Defences,
}

impl Node {
    /// A node that boots now.
    ///
    /// # Panics
    /// If the configuration does not list this node among distinct members: the driver must not
    /// start such a node.
    #[must_use]
    pub fn new(config: &NodeConfig, now: Instant) -> Node {
        let Some(members) = Members::new(&config.members, config.me) else {
            panic!("the configuration must list this node among distinct members");
        };
        let timing = &config.timing;
        let returned = config.incarnation > 1;
        let votes_from = if returned { now + timing.lease.widened(timing.drift_ppm) } else { now };
        let resources = match config.mutex {
            MutexChoice::None => 0,
            MutexChoice::TokenRing => usize::from(config.resources).min(RESOURCES_MAX),
        };
        let elect_at = match (config.election, config.detector) {
            (ElectionChoice::Bully, DetectorChoice::EventuallyPerfect) if returned => {
                Some(votes_from + timing.suspect_after.times(2))
            }
            (ElectionChoice::Bully, DetectorChoice::EventuallyPerfect) => {
                // Who is likely to win calls first: then most need not call at all.
                let higher = members.ids().filter(|id| *id > config.me).count() as u64;
                Some(now + timing.heartbeat.times(FIRST_ELECTION) + timing.process.times(higher))
            }
            (ElectionChoice::Bully, DetectorChoice::Scripted) | (ElectionChoice::None, _) => None,
        };
        Node {
            sequence: 0,
            sessions: Sessions::new(members.count() + 1, config.incarnation, timing.process),
            delivery: Delivery::new(members.count()),
            journal: Journal::new(&members, config.incarnation),
            detector: EventuallyPerfect::new(members.count(), timing.suspect_after, now),
            bully: Bully::new(config.stored.term),
            membership: Membership::new(config.stored.term, resources, timing),
            clock: SoftwareClock::Unset,
            cristian: Cristian::new(),
            turns: (0..resources)
                .map(|resource| Turn::new(config.stored.epochs.get(resource).copied().unwrap_or(0), timing))
                .collect(),
            requests: Requests::new(config.workload, config.seed, now),
            outgoing: Deque::new(),
            effects: Deque::new(),
            stored: config.stored,
            store_pending: false,
            named: None,
            votes_from,
            admitted: !returned,
            elect_at,
            guarded: None,
            introduce_at: Some(now),
            introduced_by: now + timing.heartbeat.times(INTRODUCTIONS),
            commands_next: 0,
            overflows: 0,
            overflowing: None,
            handled_at: now,
            slept_after: now + timing.heartbeat.times(4),
            defences: Defences::ALL,
            members,
            config: config.clone(),
        }
    }

    /// Begins this life: the first call after [`Self::new`]. Apart from it, so that a large node can
    /// be made in place.
    pub fn start(&mut self, now: Instant) {
        self.record(now, Event::Boot { incarnation: self.config.incarnation });
        if self.elect_at.is_none() {
            // Nobody elects at boot: the highest id leads.
            let leader = self.members.highest();
            let counter = if leader == self.config.me { u64::from(self.config.incarnation) } else { 1 };
            self.elect(now, bully::Command::Assume { leader, term: Term::new(counter, leader) });
        }
        self.first_token(now);
        self.settle(now);
    }

    /// Takes one defence away, so that a test can show that it is needed.
    #[cfg(any(test, feature = "sabotage"))]
    pub fn sabotage(&mut self, missing: crate::defences::Defence) {
        self.defences = self.defences.without(missing);
        self.membership.set_defences(self.defences);
        if missing == crate::defences::Defence::Quarantine {
            self.votes_from = Instant::default();
            self.admitted = true;
        }
    }

    /// Takes one input, after every deadline at or before `now`.
    pub fn handle(&mut self, now: Instant, input: Input<'_>) {
        if now > self.slept_after {
            self.detector.slept(now); // We were away: others' silence says nothing.
        }
        self.handled_at = now;
        self.handle_timeout(now);
        match input {
            Input::Datagram(datagram) => self.handle_datagram(now, datagram),
            Input::Command(command) => self.handle_command(now, command),
            Input::Timeout => {}
        }
        self.settle(now);
        let heartbeat = self.config.timing.heartbeat;
        let wake = self.poll_timeout().map_or(now + heartbeat, |(at, _)| at);
        self.slept_after = wake.max(now) + heartbeat.times(2);
    }

    /// The next thing to do for the node. Drain before [`Self::poll_transmit`].
    pub fn poll_effect(&mut self) -> Option<Effect> {
        if core::mem::take(&mut self.store_pending) {
            return Some(Effect::Store(self.stored));
        }
        self.effects.pop_front()
    }

    /// The next event that happened.
    pub fn poll_observation(&mut self) -> Option<Observation> {
        self.journal.poll()
    }

    /// When to call `handle(Timeout)`, and why.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Instant, &'static str)> {
        let turns = self.turns.iter().flat_map(|turn| {
            [
                turn.ring.poll_timeout().map(|at| (at, "token rested")),
                turn.guardian.poll_timeout().map(|at| (at, "guardian")),
                turn.client_timeout(),
            ]
        });
        [
            self.bully.poll_timeout().map(|at| (at, "election")),
            self.cristian.poll_timeout().map(|at| (at, "clock exchange")),
            self.detector.poll_timeout().map(|at| (at, "failure detector")),
            self.delivery.poll_timeout().map(|at| (at, "repeat")),
            self.membership.poll_timeout(self.handled_at),
            self.elect_at.map(|at| (at, "nobody leads")),
            self.introduce_at.map(|at| (at, "introduction")),
            self.requests.poll_timeout().map(|at| (at, "workload")),
        ]
        .into_iter()
        .chain(turns)
        .flatten()
        .min_by_key(|(at, _)| *at)
    }

    /// The cluster's time, once this node has it.
    #[must_use]
    pub fn cluster_time(&self, now: Instant) -> Option<ClusterTime> {
        self.clock.read(now)
    }

    /// Whom this node names as its leader, and in which term.
    #[must_use]
    pub fn leader(&self) -> Option<(NodeId, Term)> {
        self.named
    }

    pub(crate) fn record(&mut self, now: Instant, event: Event) {
        if !self.journal.record(now, self.clock.read(now), event) {
            self.overflowed(Queue::Journal);
        }
    }

    pub(crate) fn hardened(&self) -> bool {
        self.config.hardening
    }

    pub(crate) fn delays(&self) -> Delays {
        let timing = &self.config.timing;
        self.detector.delays(Delays { trans: timing.trans, process: timing.process })
    }

    /// Who takes part: the view in force, or everybody where nothing is hardened.
    pub(crate) fn view(&self) -> NodeSet {
        match self.membership.view() {
            Some(view) if self.hardened() => view.members,
            Some(_) | None => self.members.all(),
        }
    }

    /// Whether this node may answer for itself: always in its first life, later when admitted.
    pub(crate) fn speaks(&self, now: Instant) -> bool {
        !self.hardened() || (self.admitted && now >= self.votes_from)
    }

    /// Counts what a full queue refused; reported once an input, or it would fill the journal too.
    pub(crate) fn overflowed(&mut self, queue: Queue) {
        self.overflows += 1;
        self.overflowing = Some(queue);
    }

    pub(crate) fn remember(&mut self) {
        let mut stored = self.stored;
        stored.term = stored.term.max(self.bully.seen()).max(self.membership.promised());
        for (epoch, turn) in stored.epochs.iter_mut().zip(&self.turns) {
            *epoch = (*epoch).max(turn.guardian.sealed());
        }
        if stored != self.stored {
            self.stored = stored;
            self.store_pending = true;
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.introduce_at.is_some_and(|at| now >= at) {
            self.introduce(now);
        }
        while let Some(change) = self.detector.handle_timeout(&self.members, now) {
            self.changed(now, change);
        }
        if self.elect_at.is_some_and(|at| now >= at) {
            self.elect_at = None;
            if self.named.is_none() {
                // Nobody is left who could admit us: what we promised is stored, what we granted has ended.
                self.admitted = true;
                self.elect(now, bully::Command::Start { dead: None });
            }
        }
        self.with_bully(now, |bully, cx| bully.handle_timeout(cx));
        self.with_cristian(now, |cristian, cx| cristian.handle_timeout(cx));
        self.turn_timeouts(now);
    }

    /// Challenges those who have not proven themselves yet; everybody does so for a while after boot.
    fn introduce(&mut self, now: Instant) {
        for position in 0..self.members.count() {
            if position != self.members.my_position() && self.sessions.incarnation(position).is_none() {
                self.challenge(now, position);
            }
        }
        let again_at = now + self.config.timing.trans;
        self.introduce_at = (again_at < self.introduced_by).then_some(again_at);
    }

    pub(crate) fn changed(&mut self, now: Instant, change: Change) {
        match change {
            Change::Suspected(id) => {
                self.record(now, Event::Suspect { id });
                if self.membership.following() == Some(id) {
                    self.membership.disband();
                    self.named = None;
                    if self.config.election == ElectionChoice::Bully && self.speaks(now) {
                        self.elect(now, bully::Command::Start { dead: Some(id) });
                    } else if self.config.election == ElectionChoice::Bully {
                        self.elect_at = Some(now.max(self.votes_from) + self.config.timing.suspect_after.times(2));
                    }
                }
            }
            Change::Trusted(id) => self.record(now, Event::Trust { id }),
        }
    }

    fn handle_command(&mut self, now: Instant, command: Command) {
        match command {
            Command::Lock { resource, hold, lamport } => self.request_turn(now, resource, hold, lamport),
            Command::Elect => {
                let dead = self.membership.following();
                self.membership.disband();
                self.elect(now, bully::Command::Start { dead });
            }
            Command::SetRate { ppb } => {
                if self.effects.push_back(Effect::SetRate { ppb }).is_err() {
                    self.overflowed(Queue::Effects);
                }
            }
            Command::DropToken => {
                for turn in &mut self.turns {
                    turn.drop_token = true;
                }
            }
            Command::StopWorkload => self.requests.stop(),
        }
    }

    pub(crate) fn carry_out(&mut self, now: Instant, index: u32, command: Command) {
        if index == self.commands_next {
            self.commands_next += 1;
            self.handle_command(now, command);
        }
        let next = self.commands_next;
        self.push(NodeId::HOST, Outgoing::Body(Body::CommandAck { next }));
    }

    /// Lets the layers react to each other until nothing changes any more.
    fn settle(&mut self, now: Instant) {
        for _ in 0..SETTLE_MAX {
            let before = self.outgoing.len();
            self.settle_membership(now);
            self.settle_clock(now);
            self.settle_turns(now);
            if self.outgoing.len() == before {
                break;
            }
        }
        self.remember();
        if let Some(queue) = self.overflowing.take() {
            self.record(now, Event::Overflow { queue, count: self.overflows });
        }
    }

    fn settle_membership(&mut self, now: Instant) {
        let mut watched = match (self.config.detector, self.membership.following()) {
            (DetectorChoice::Scripted, _) => NodeSet::EMPTY,
            (DetectorChoice::EventuallyPerfect, Some(leader)) => {
                let mut set = NodeSet::EMPTY;
                self.members.position(leader).into_iter().for_each(|position| set.insert(position));
                set
            }
            (DetectorChoice::EventuallyPerfect, None) if self.membership.leads() => self.members.all(),
            (DetectorChoice::EventuallyPerfect, None) => NodeSet::EMPTY,
        };
        watched.remove(self.members.my_position());
        self.detector.watch(watched, now);
        let detector = &self.detector;
        let is_trusted = |position| !detector.suspects(position);
        if self.membership.reconsider(&self.members, is_trusted, now) {
            self.view_installed(now);
        }
        if self.membership.heartbeat_due(now) {
            let has_time = self.clock != SoftwareClock::Unset;
            for position in 0..self.members.count() {
                let Some(id) = self.members.id(position).filter(|id| *id != self.config.me) else { continue };
                if let Some(heartbeat) = self.membership.heartbeat_for(position, &self.members, has_time, now) {
                    self.push(id, Outgoing::Body(Body::Heartbeat(heartbeat)));
                }
            }
            self.membership.heartbeats_made(now);
        }
    }

    pub(crate) fn view_installed(&mut self, now: Instant) {
        let Some(view) = self.membership.view() else { return };
        self.record(now, Event::View { term: view.term, number: view.number, members: view.members });
        if view.members.contains(self.members.my_position()) {
            self.admitted = true;
        }
        for position in 0..self.members.count() {
            if !view.members.contains(position) {
                self.delivery.abandon(position);
            }
        }
        for resource in 0..self.turns.len() {
            self.retire_tokens(now, resource, self.membership.fence(resource).epoch());
        }
    }

    /// The clock follows whoever leads; a leader without time takes it from a follower that has it.
    fn settle_clock(&mut self, now: Instant) {
        let server = match (self.config.clock, self.clock, self.membership.following()) {
            (ClockChoice::None, _, _) => return,
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

    pub(crate) fn elect(&mut self, now: Instant, command: bully::Command) {
        self.with_bully(now, |bully, cx| bully.handle_command(command, cx));
    }

    pub(crate) fn with_bully(
        &mut self,
        now: Instant,
        act: impl FnOnce(&mut Bully, &mut Context<'_, compasso_wire::message::ElectionMessage, bully::Event>),
    ) {
        let mut output = Output::default();
        let mut cx = Context {
            now,
            members: &self.members,
            view: self.members.all(),
            delays: self.delays(),
            output: &mut output,
        };
        act(&mut self.bully, &mut cx);
        self.remember();
        for &event in &output.events {
            match event {
                bully::Event::Started { term } => {
                    self.membership.disband();
                    self.named = None;
                    self.record(now, Event::ElectionStart { term });
                }
                bully::Event::Elected { leader, term } if leader == self.config.me => {
                    self.membership.lead(term, &self.members, now);
                    self.name(now, leader, term);
                }
                bully::Event::Elected { leader, term } => {
                    self.membership.follow(leader, term);
                    self.name(now, leader, term);
                }
            }
        }
        // An election's messages are worth repeating only while somebody waits for them.
        let until = now + self.delays().answer().times(4);
        for &(to, message) in &output.messages {
            self.post(now, to, Payload::Election(message), Some(until));
        }
        if output.overflowed {
            self.overflowed(Queue::Algorithm);
        }
    }

    pub(crate) fn name(&mut self, now: Instant, leader: NodeId, term: Term) {
        self.elect_at = None;
        if self.named != Some((leader, term)) {
            self.named = Some((leader, term));
            self.record(now, Event::Leader { id: leader, term });
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
}
