//! Transactions that happen everywhere or nowhere: two-phase commit, and the settlement that lets a
//! decision outlive its coordinator.
//!
//! The coordinator is the leader of the view, the participants are its members; there is one transaction
//! at a time. In the textbook form everybody takes part, the highest id coordinates for good, and a
//! decision is announced as soon as it is made.

use crate::{defences::Defence, node::Node, pace::Pace};
use compasso_algorithms::{
    Algorithm, Context, Output,
    commit::{Settlement, TwoPhase, settlement, two_phase},
};
use compasso_wire::{
    Event, Instant, NodeConfig, NodeId, Payload,
    commit::{CommitMemory, CommitMessage, Decision, TransactionId},
    telemetry::Queue,
};
use heapless::Deque;

/// Transactions that may wait for the present one.
const WAITING_MAX: u8 = 8;
/// Messages that a node may have for itself at one time: the most that one input causes, and room to spare.
const TO_SELF_MAX: usize = 8;
/// Messages to itself that one input may lead to: a whole transaction and the settlement of another.
const SELF_ROUNDS_MAX: usize = 32;

/// One node's part in the atomic commit.
pub(crate) struct CommitService {
    enabled: bool,
    two_phase: TwoPhase,
    settlement: Settlement,
    pace: Pace,
    refuse_one_in: u16,
    refuses: bool,
    /// Transactions that are still to begin.
    waiting: u8,
    /// Of the last transaction that began in this view.
    serial: u32,
    to_self: Deque<CommitMessage, TO_SELF_MAX>,
    begun: bool,
}

impl CommitService {
    pub(crate) fn new(config: &NodeConfig, now: Instant) -> CommitService {
        // The textbook's nodes remember nothing over a restart.
        let memory = if config.hardening { config.stored.commit } else { CommitMemory::default() };
        let every = config.commit.and_then(|commit| commit.every);
        CommitService {
            enabled: config.commit.is_some(),
            two_phase: TwoPhase::new(memory.doubt),
            settlement: Settlement::new(memory),
            pace: Pace::new(every, config.seed.rotate_left(7), now),
            refuse_one_in: config.commit.map_or(0, |commit| commit.refuse_one_in),
            refuses: false,
            waiting: 0,
            serial: 0,
            to_self: Deque::new(),
            begun: false,
        }
    }

    pub(crate) fn stop_workload(&mut self) {
        self.pace.stop();
    }

    pub(crate) fn refuse_next(&mut self) {
        self.refuses = true;
    }

    pub(crate) fn poll_timeout(&self) -> Option<(Instant, &'static str)> {
        let votes = self.two_phase.poll_timeout().map(|at| (at, "votes"));
        let workload = self.pace.poll_timeout().map(|at| (at, "transactions"));
        [votes, workload].into_iter().flatten().min_by_key(|(at, _)| *at)
    }
}

impl Node {
    /// If this node coordinates, it begins a transaction when it can.
    pub(crate) fn begin_transaction(&mut self, _now: Instant) {
        if !self.commit.enabled || !self.coordinates() {
            return;
        }
        if self.commit.waiting < WAITING_MAX {
            self.commit.waiting += 1;
        } else {
            self.overflowed(Queue::Requests);
        }
    }

    /// The view begins: what an earlier one left undone is settled first.
    pub(crate) fn begin_commit(&mut self, now: Instant) {
        if !self.commit.enabled {
            return;
        }
        self.commit.begun = true;
        if self.hardened() {
            self.commit.two_phase = TwoPhase::new(self.commit.settlement.memory().doubt);
            (self.commit.waiting, self.commit.serial) = (0, 0);
            self.commit.to_self.clear();
            let epoch = self.epoch();
            self.with_settlement(now, |settlement, cx| {
                settlement.handle_command(settlement::Command::Begin { epoch }, cx);
            });
        }
    }

    pub(crate) fn settle_commit(&mut self, now: Instant) {
        for _ in 0..SELF_ROUNDS_MAX {
            if let Some(message) = self.commit.to_self.pop_front() {
                self.handle_commit(now, self.config.me, message);
            } else if !self.begin_waiting(now) {
                return;
            }
        }
    }

    pub(crate) fn commit_timeouts(&mut self, now: Instant) {
        if !self.commit.enabled {
            return;
        }
        self.with_two_phase(now, |two_phase, cx| two_phase.handle_timeout(cx));
        if self.commit.pace.is_due(now) && self.commit.waiting == 0 {
            self.begin_transaction(now);
        }
    }

    pub(crate) fn handle_commit(&mut self, now: Instant, from: NodeId, message: CommitMessage) {
        if !self.commit.enabled {
            return;
        }
        if matches!(message, CommitMessage::Prepare { .. }) {
            let one_in = u32::from(self.commit.refuse_one_in);
            let by_chance = one_in > 0 && self.random().is_multiple_of(one_in);
            if core::mem::take(&mut self.commit.refuses) || by_chance {
                self.with_two_phase(now, |two_phase, cx| two_phase.handle_command(two_phase::Command::Refuse, cx));
            }
        }
        if self.hardened() {
            let heard = message;
            self.with_settlement(now, |settlement, cx| settlement.handle_message(from, heard, cx));
        }
        self.with_two_phase(now, |two_phase, cx| two_phase.handle_message(from, message, cx));
    }

    /// Whether this node leads the view in force, or the only one of the textbook.
    fn coordinates(&self) -> bool {
        let leads = !self.hardened() || (self.membership.leads() && !self.membership.changing());
        self.commit.begun && leads && self.coordinator() == self.config.me
    }

    /// Begins the next transaction, if one waits and none is under way.
    fn begin_waiting(&mut self, now: Instant) -> bool {
        let is_open = !self.hardened() || self.commit.settlement.is_open();
        if self.commit.waiting == 0 || !self.commit.two_phase.is_idle() || !is_open || !self.coordinates() {
            return false;
        }
        self.commit.waiting -= 1;
        self.commit.serial += 1;
        // The textbook form has one view for good, and a coordinator that comes back counts anew.
        let era = if self.hardened() { self.epoch() } else { self.config.incarnation };
        let transaction = TransactionId::new(era, self.commit.serial);
        self.record(now, Event::Transaction { transaction, participants: self.view() });
        self.with_two_phase(now, |two_phase, cx| {
            two_phase.handle_command(two_phase::Command::Begin { transaction }, cx);
        });
        true
    }

    fn with_two_phase(
        &mut self,
        now: Instant,
        act: impl FnOnce(&mut TwoPhase, &mut Context<'_, CommitMessage, two_phase::Event>),
    ) {
        let mut output = Output::default();
        let (view, leader, delays) = (self.view(), self.coordinator(), self.delays());
        let (lamport, random) = (0, 0);
        let mut cx = Context {
            now,
            members: &self.members,
            view,
            leader,
            lamport,
            random,
            delays,
            lists: &compasso_wire::NO_LISTS,
            output: &mut output,
        };
        act(&mut self.commit.two_phase, &mut cx);
        for event in &output.events {
            match *event {
                two_phase::Event::Voted { transaction, yes } => {
                    self.record(now, Event::Voted { transaction, yes });
                    self.settle_transaction(now, settlement::Command::Promise { transaction, yes });
                }
                two_phase::Event::Concluded { transaction, decision }
                    if self.hardened() && self.defences.has(Defence::StoredDecision) =>
                {
                    self.settle_transaction(now, settlement::Command::Settle { transaction, decision });
                }
                two_phase::Event::Concluded { transaction, decision } => self.announce(now, transaction, decision),
                two_phase::Event::Decided { transaction, decision } => {
                    self.record(now, Event::Decided { transaction, decision });
                }
            }
        }
        self.send_commit(now, &output.messages);
        if output.overflowed {
            self.overflowed(Queue::Algorithm);
        }
    }

    fn settle_transaction(&mut self, now: Instant, command: settlement::Command) {
        if self.hardened() {
            self.with_settlement(now, |settlement, cx| settlement.handle_command(command, cx));
        }
    }

    fn announce(&mut self, now: Instant, transaction: TransactionId, decision: Decision) {
        self.with_two_phase(now, |two_phase, cx| {
            two_phase.handle_command(two_phase::Command::Announce { transaction, decision }, cx);
        });
    }

    fn with_settlement(
        &mut self,
        now: Instant,
        act: impl FnOnce(&mut Settlement, &mut Context<'_, CommitMessage, settlement::Event>),
    ) {
        let mut output = Output::default();
        let (view, leader, delays) = (self.view(), self.coordinator(), self.delays());
        let (lamport, random) = (0, 0);
        let mut cx = Context {
            now,
            members: &self.members,
            view,
            leader,
            lamport,
            random,
            delays,
            lists: &compasso_wire::NO_LISTS,
            output: &mut output,
        };
        act(&mut self.commit.settlement, &mut cx);
        if self.stored.commit != *self.commit.settlement.memory() {
            self.stored.commit = *self.commit.settlement.memory();
            self.store_pending = true;
        }
        self.send_commit(now, &output.messages);
        for event in &output.events {
            match *event {
                settlement::Event::Settled { transaction, decision } => self.announce(now, transaction, decision),
                settlement::Event::Learned { transaction, decision } => {
                    let message = CommitMessage::Decide { transaction, decision };
                    self.with_two_phase(now, |two_phase, cx| two_phase.handle_message(leader, message, cx));
                }
            }
        }
        if output.overflowed {
            self.overflowed(Queue::Algorithm);
        }
    }

    fn send_commit(&mut self, now: Instant, messages: &[(NodeId, CommitMessage)]) {
        let epoch = self.epoch();
        for (to, message) in messages {
            if *to != self.config.me {
                self.post(now, *to, Payload::Commit { epoch, message: *message }, None);
            } else if self.commit.to_self.push_back(*message).is_err() {
                self.overflowed(Queue::Algorithm);
            }
        }
    }
}
