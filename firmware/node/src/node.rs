//! The node: where the algorithms meet.

use crate::{
    cache::CacheService,
    clock::Clock,
    commit::CommitService,
    defences::Defences,
    delivery::Delivery,
    journal::Journal,
    locks::LockService,
    make::Files,
    membership::{Holdings, Membership},
    mutex::resource_id,
    session::Sessions,
    snapshots::Snapshots,
    timekeeping::Timekeeping,
    transmit::{OUTGOING_MAX, Outgoing},
    turns::{Turn, Wish},
    workload::Requests,
};
use compasso_algorithms::{
    Algorithm, Delays, Members,
    detector::Detector,
    election::{Command as ElectionCommand, Election},
    time::Cristian,
};
use compasso_wire::{
    ClusterTime, Event, Instant, Leap, NodeConfig, NodeId, NodeSet, Observation, Payload, Term,
    config::{DetectorChoice, ElectionChoice, MutexChoice, Stored},
    limits::{HOSTS_MAX, TURNS_MAX},
    message::Command,
    telemetry::Queue,
};
use core::num::NonZeroU64;
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
    /// The board's sensor was read; for the trace alone.
    Temperature {
        /// Thousandths of a degree Celsius.
        milli_celsius: i32,
    },
}

/// What the driver must do for the node besides sending.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Store [`Node::stored`] before anything more is sent.
    Store,
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

fn is_staged(config: &NodeConfig) -> bool {
    !config.hardening && config.detector == DetectorChoice::Scripted
}

/// How many hosts there are.
pub(crate) fn hosts(config: &NodeConfig) -> usize {
    usize::from(config.hosts).clamp(1, HOSTS_MAX)
}

/// One node: handed inputs and the time, asked for outputs.
pub struct Node {
    pub(crate) config: NodeConfig,
    pub(crate) members: Members,
    pub(crate) sequence: u32,
    pub(crate) sessions: Sessions,
    pub(crate) delivery: Delivery,
    pub(crate) journal: Journal,
    pub(crate) detector: Detector,
    pub(crate) election: Election,
    pub(crate) membership: Membership,
    pub(crate) clock: Clock,
    pub(crate) cristian: Cristian,
    pub(crate) time: Timekeeping,
    pub(crate) turns: Vec<Turn, TURNS_MAX>,
    pub(crate) requests: Requests,
    pub(crate) locks: LockService,
    pub(crate) cache: CacheService,
    pub(crate) commit: CommitService,
    pub(crate) files: Files,
    pub(crate) snapshots: Snapshots,
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
    /// The epoch for which the guardians were appointed.
    pub(crate) guarded: Option<u32>,
    /// The algorithms of mutual exclusion have begun.
    pub(crate) begun: bool,
    /// In the textbook form they begin then: time to get to know each other.
    pub(crate) begin_at: Option<Instant>,
    pub(crate) dice: u32,
    /// Tell everybody that we live then, where everybody watches everybody.
    pub(crate) alive_at: Option<Instant>,
    pub(crate) introduce_at: Option<Instant>,
    pub(crate) introduced_by: Instant,
    pub(crate) commands_next: u32,
    pub(crate) overflows: u32,
    pub(crate) overflowing: Option<Queue>,
    /// The time of the last input.
    pub(crate) handled_at: Instant,
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
        let takes_turns = config.mutex != MutexChoice::None;
        let resources = if takes_turns { usize::from(config.resources).min(TURNS_MAX) } else { 0 };
        let elect_at = match (config.election, config.detector) {
            (ElectionChoice::None, _) | (_, DetectorChoice::Scripted) => None,
            (_, _) if returned && config.hardening => Some(votes_from + timing.suspect_after.times(2)),
            (_, _) => {
                // Who is likely to win calls first: then most need not call at all.
                let higher = members.ids().filter(|id| *id > config.me).count() as u64;
                Some(now + timing.heartbeat.times(FIRST_ELECTION) + timing.process.times(higher))
            }
        };
        let staged = is_staged(config);
        // The textbook's nodes remember nothing over a restart.
        let stored = if config.hardening { config.stored } else { Stored::default() };
        Node {
            sequence: 0,
            sessions: Sessions::new(members.count() + hosts(config), config.incarnation, timing.process),
            delivery: Delivery::new(members.count(), config.hardening),
            journal: Journal::new(&members, config.incarnation),
            detector: Detector::new(config.detector, members.count(), timing, now),
            election: Election::new(config.election, stored.term),
            membership: Membership::new(stored.term, stored.epoch, resources, timing),
            clock: Clock::new(config.clock, timing.drift_ppm, config.time_source),
            cristian: Cristian::new(),
            time: Timekeeping::default(),
            turns: Vec::new(),
            requests: Requests::new(config.workload, config.seed, now),
            locks: LockService::new(config, now),
            cache: CacheService::new(config, now),
            commit: CommitService::new(config, now),
            files: Files::default(),
            snapshots: Snapshots::default(),
            outgoing: Deque::new(),
            effects: Deque::new(),
            stored: config.stored,
            store_pending: false,
            named: None,
            votes_from,
            admitted: !returned,
            elect_at,
            guarded: None,
            begun: false,
            begin_at: (!config.hardening).then_some(now + timing.heartbeat.times(FIRST_ELECTION)),
            dice: config.seed | 1,
            alive_at: (config.election == ElectionChoice::Detector && !staged).then_some(now),
            introduce_at: (!staged).then_some(now),
            introduced_by: now + timing.heartbeat.times(INTRODUCTIONS),
            commands_next: 0,
            overflows: 0,
            overflowing: None,
            handled_at: now,
            defences: Defences::ALL,
            members,
            config: config.clone(),
        }
    }

    /// Begins this life: the first call after [`Self::new`]. Apart from it, so that a large node can
    /// be made in place.
    pub fn start(&mut self, now: Instant) {
        for _ in 0..self.membership.resources() {
            let turn = Turn::new(&self.config.mutex, &self.members, &self.config.timing);
            assert!(self.turns.push(turn).is_ok(), "there is a place for each resource");
        }
        self.record(now, Event::Boot { incarnation: self.config.incarnation });
        if self.elect_at.is_none() {
            // Nobody elects at boot: the highest id leads.
            let leader = self.members.highest();
            let again = u64::from(self.config.incarnation).max(self.config.stored.term.counter() + 1);
            let counter = if leader == self.config.me && self.config.incarnation > 1 { again } else { 1 };
            self.elect(now, ElectionCommand::Assume { leader, term: Term::new(counter, leader) });
        }
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
        // What the driver was told after it had drained: a repeat that was due then has left.
        let heartbeat = self.config.timing.heartbeat;
        if now > self.handled_at + heartbeat.times(2) {
            let wake = self.poll_timeout().map_or(self.handled_at + heartbeat, |(at, _)| at);
            if now > wake.max(self.handled_at) + heartbeat.times(2) {
                self.detector.slept(now); // We were away: others' silence says nothing.
            }
        }
        self.handled_at = now;
        self.handle_timeout(now);
        match input {
            Input::Datagram(datagram) => self.handle_datagram(now, datagram),
            Input::Command(command) => self.handle_command(now, command),
            Input::Timeout => {}
            Input::Temperature { milli_celsius } => self.record(now, Event::Temperature { milli_celsius }),
        }
        self.settle(now);
    }

    /// The next thing to do for the node. Drain before [`Self::poll_transmit`].
    pub fn poll_effect(&mut self) -> Option<Effect> {
        if core::mem::take(&mut self.store_pending) {
            return Some(Effect::Store);
        }
        self.effects.pop_front()
    }

    /// What the next life must know.
    #[must_use]
    pub fn stored(&self) -> &Stored {
        &self.stored
    }

    /// The next event that happened.
    pub fn poll_observation(&mut self) -> Option<Observation> {
        self.journal.poll()
    }

    /// When to call `handle(Timeout)`, and why.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Instant, &'static str)> {
        let takes_turns = self.takes_turns(self.handled_at);
        let turns = self.turns.iter().flat_map(|turn| turn.timeouts(takes_turns));
        [
            self.election.poll_timeout().map(|at| (at, "election")),
            self.clock_timeout(),
            self.detector.poll_timeout().map(|at| (at, "failure detector")),
            self.delivery.poll_timeout().map(|at| (at, "repeat")),
            self.delivery.unacknowledged_at(self.delays().answer()).map(|at| (at, "acknowledgement")),
            self.membership.poll_timeout(self.handled_at),
            self.elect_at.map(|at| (at, "nobody leads")),
            self.alive_at.map(|at| (at, "sign of life")),
            self.begin_at.map(|at| (at, "begin")),
            self.introduce_at.map(|at| (at, "introduction")),
            self.requests.poll_timeout().map(|at| (at, "workload")),
            self.locks.poll_timeout(),
            self.cache.poll_timeout(),
            self.commit.poll_timeout(),
            self.snapshots.poll_timeout(),
        ]
        .into_iter()
        .flatten()
        .chain(turns)
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

    /// Whether this is one of the book's executions: nobody says anything but what the script leads to.
    pub(crate) fn is_staged(&self) -> bool {
        is_staged(&self.config)
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

    /// The coordinator: who leads the view, or the highest id where nothing is hardened.
    pub(crate) fn coordinator(&self) -> NodeId {
        match self.membership.view() {
            Some(view) if self.hardened() => view.term.claimant(),
            Some(_) | None => self.members.highest(),
        }
    }

    /// What a change of view must wait for, or would like to know of.
    pub(crate) fn holdings(&self) -> Holdings {
        let mut holdings = Holdings::default();
        for (resource, turn) in self.turns.iter().enumerate() {
            holdings.busy |= turn.is_inside();
            if self.custody(resource) {
                holdings.custody.insert(resource_id(resource));
            }
        }
        holdings
    }

    pub(crate) fn random(&mut self) -> u32 {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 17;
        self.dice ^= self.dice << 5;
        self.dice
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
        let term = self.stored.term.max(self.election.seen()).max(self.membership.promised());
        let epoch = self.stored.epoch.max(self.membership.epoch());
        if (term, epoch) != (self.stored.term, self.stored.epoch) {
            (self.stored.term, self.stored.epoch) = (term, epoch);
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
            // Nobody is left who could admit us: what we promised is stored, what we granted has ended.
            self.admitted = true;
            self.elect(now, ElectionCommand::Start { dead: None });
        }
        if self.alive_at.is_some_and(|at| now >= at) {
            self.say_alive(now);
        }
        if self.begin_at.is_some_and(|at| now >= at) {
            self.begin_at = None;
            self.begin_view(now);
        }
        self.skip_the_unreachable(now);
        self.with_election(now, |election, cx| election.handle_timeout(cx));
        self.clock_timeouts(now);
        self.turn_timeouts(now);
        self.lock_timeouts(now);
        self.cache_timeouts(now);
        self.commit_timeouts(now);
        self.snapshot_timeouts(now);
    }

    /// A view begins, or in the textbook form the only one: whatever rests on it begins anew.
    pub(crate) fn begin_view(&mut self, now: Instant) {
        self.abort_snapshots(now);
        self.begin_turns(now);
        self.begin_locks(now);
        self.begin_cache(now);
        self.begin_commit(now);
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

    fn handle_command(&mut self, now: Instant, command: Command) {
        match command {
            Command::Lock { resource, hold, lamport } => {
                let lamport = lamport.and_then(NonZeroU64::new);
                self.request_turn(now, resource, Wish { hold, lamport });
            }
            Command::Elect => {
                let dead = self.membership.following();
                self.membership.disband();
                self.elect(now, ElectionCommand::Start { dead });
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
            Command::StopWorkload => {
                self.requests.stop();
                self.locks.stop_workload();
                self.cache.stop_workload();
                self.commit.stop_workload();
            }
            Command::Acquire { resources } => self.acquire(now, resources),
            Command::Release { resources } => self.release(now, resources),
            Command::Claims { resources } => self.claim(now, resources),
            Command::Snapshot { number } => self.take_snapshot(now, number),
            Command::Label { label } => self.record(now, Event::Label { label }),
            Command::Send { to, label } => {
                self.record(now, Event::Label { label });
                self.post(now, to, Payload::Labelled { label }, None);
            }
            Command::Leap { at, by } => self.handle_leap(Leap { at, by }),
            Command::Read => self.read_cached(now),
            Command::Write => self.write_cached(now),
            Command::Transaction => self.begin_transaction(now),
            Command::Refuse => self.commit.refuse_next(),
            Command::Edit { file } => self.edit(now, file),
            Command::Build { file, source } => self.build(now, file, source),
        }
    }

    pub(crate) fn carry_out(&mut self, now: Instant, index: u32, command: Command) {
        if index == self.commands_next {
            self.commands_next += 1;
            self.handle_command(now, command);
        }
        let next = self.commands_next;
        self.push(NodeId::HOST, Outgoing::CommandAck { next });
    }

    /// Lets the layers react to each other until nothing changes any more.
    fn settle(&mut self, now: Instant) {
        for _ in 0..SETTLE_MAX {
            let before = self.outgoing.len();
            self.settle_membership(now);
            self.settle_clock(now);
            self.settle_turns(now);
            self.settle_locks(now);
            self.settle_cache(now);
            self.settle_commit(now);
            if self.outgoing.len() == before {
                break;
            }
        }
        self.remember();
        if let Some(queue) = self.overflowing.take() {
            self.record(now, Event::Overflow { queue, count: self.overflows });
        }
    }
}
