//! Settlement: a decision that outlives its coordinator.
//! Safety: at most one decision of a transaction is ever announced, whoever coordinates.
//! Liveness: whoever voted yes learns the decision in some later view, also if it was away.
//!
//! Around two-phase commit stand three rules. A view's epoch is its *ballot*: every message belongs to
//! one, and whoever is in a view takes nothing of an earlier one.
//!
//! 1. **Store, then announce.** A decision is stored by every member that can, with the ballot, and
//!    announced when a majority of the configured nodes have it. The next transaction begins when every
//!    member of the view has said that it knows the end of this one.
//! 2. **Whoever comes next finishes.** When a view begins, its coordinator hears from every member the
//!    record of the latest transaction. The record with the highest ballot counts: if it holds a
//!    decision, that is adopted, otherwise nobody can have announced one and the transaction is aborted.
//!    Either is stored again, with the new ballot, before it is announced. A majority that stored a
//!    decision and the members of a later view share a node, so what was announced is always found.
//! 3. **Whoever was away asks.** A participant may return when the others are transactions ahead. It
//!    learns that from a decision about another transaction than its own, and asks every member. Whoever
//!    saw the end of that participant's last transaction still knows it: nobody forgets it before the
//!    participant takes part in another. If not one member does, nobody can have committed: the view in
//!    which the next transaction began had not heard of it, so no majority had stored it, and none will.
//!
//! Assumes a view's members and reliable channels among them, and memory that survives restarts.

use crate::context::{Algorithm, Context};
use compasso_wire::{
    Instant, NodeId, NodeSet,
    commit::{CommitMemory, CommitMessage as Message, CommitRecord, Decision, Progress, TransactionId},
};

type Cx<'a> = Context<'a, Message, Event>;

/// What is asked of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// A view begins.
    Begin {
        /// Its epoch.
        epoch: u32,
    },
    /// This node is about to send its vote.
    Promise {
        /// On which transaction.
        transaction: TransactionId,
        /// The vote.
        yes: bool,
    },
    /// The coordinator has made up its mind.
    Settle {
        /// About which transaction.
        transaction: TransactionId,
        /// How it ends.
        decision: Decision,
    },
}

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A majority has stored the decision: the coordinator may announce it.
    Settled {
        /// Which transaction.
        transaction: TransactionId,
        /// How it ends.
        decision: Decision,
    },
    /// This node was away and has learned how its transaction ended.
    Learned {
        /// Which transaction.
        transaction: TransactionId,
        /// How it ended.
        decision: Decision,
    },
}

/// What the coordinator of a view does beside the vote.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Office {
    /// Nothing: another node coordinates, or no view has begun.
    None,
    /// Hears what the members know.
    Collecting { known: NodeSet, best: Option<CommitRecord> },
    /// Has a decision stored.
    Storing { transaction: TransactionId, decision: Decision, stored: NodeSet },
    /// Has announced it.
    Announced { transaction: TransactionId, done: NodeSet },
    /// Ready for the next transaction.
    Open,
}

/// One node's part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settlement {
    memory: CommitMemory,
    epoch: u32,
    office: Office,
    /// Who does not know how the transaction in doubt ended; nothing while nobody was asked.
    ignorant: Option<NodeSet>,
}

impl Settlement {
    /// A node with what it remembers of earlier lives.
    #[must_use]
    pub fn new(memory: CommitMemory) -> Settlement {
        Settlement { memory, epoch: 0, office: Office::None, ignorant: None }
    }

    /// What must survive a restart: to be stored before any message leaves.
    #[must_use]
    pub fn memory(&self) -> &CommitMemory {
        &self.memory
    }

    /// Whether this node coordinates, and nothing of earlier times is left to do.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.office == Office::Open
    }

    fn begin(&mut self, epoch: u32, cx: &mut Cx<'_>) {
        self.epoch = epoch;
        self.ignorant = None;
        let coordinates = cx.leader == cx.me();
        self.office = if coordinates { Office::Collecting { known: NodeSet::EMPTY, best: None } } else { Office::None };
        cx.send(cx.leader, Message::Known(self.memory.latest));
    }

    fn promise(&mut self, transaction: TransactionId, yes: bool, cx: &Cx<'_>) {
        // A no is as good as a decision: nobody commits without this node.
        let progress = if yes { Progress::Prepared } else { Progress::Decided(Decision::Abort) };
        self.memory.latest = Some(CommitRecord { transaction, ballot: self.epoch, participants: cx.view, progress });
        if yes {
            self.memory.doubt = Some(transaction);
        } else {
            self.memory.outcomes.note(cx.view, transaction, Decision::Abort);
        }
    }

    fn settle(&mut self, transaction: TransactionId, decision: Decision, participants: NodeSet, cx: &mut Cx<'_>) {
        self.office = Office::Storing { transaction, decision, stored: NodeSet::EMPTY };
        for id in cx.members.of(cx.view) {
            cx.send(id, Message::Store { transaction, decision, participants });
        }
    }

    /// Rule 2.
    fn known(&mut self, from: NodeId, record: Option<CommitRecord>, cx: &mut Cx<'_>) {
        let Office::Collecting { known, best } = &mut self.office else { return };
        cx.members.position(from).into_iter().for_each(|position| known.insert(position));
        *best = match (*best, record) {
            (Some(best), Some(record)) => Some(if rank(&record) > rank(&best) { record } else { best }),
            (best, record) => best.or(record),
        };
        if !cx.view.iter().all(|position| known.contains(position)) {
            return;
        }
        match *best {
            None => self.office = Office::Open,
            Some(CommitRecord { transaction, participants, progress, .. }) => {
                let decision = match progress {
                    Progress::Prepared => Decision::Abort,
                    Progress::Stored(decision) | Progress::Decided(decision) => decision,
                };
                self.settle(transaction, decision, participants, cx);
            }
        }
    }

    fn store(&mut self, transaction: TransactionId, decision: Decision, participants: NodeSet, cx: &mut Cx<'_>) {
        let ballot = self.epoch;
        match &mut self.memory.latest {
            Some(latest) if latest.ballot > ballot => return, // Promised to a later view.
            Some(CommitRecord { transaction: known, ballot: of, progress: Progress::Decided(_), .. })
                if *known == transaction =>
            {
                *of = ballot;
            }
            latest => {
                let progress = Progress::Stored(decision);
                *latest = Some(CommitRecord { transaction, ballot, participants, progress });
            }
        }
        cx.send(cx.leader, Message::Stored { transaction });
    }

    /// Rule 1.
    fn stored(&mut self, from: NodeId, of: TransactionId, cx: &mut Cx<'_>) {
        let Office::Storing { transaction, decision, stored } = &mut self.office else { return };
        if *transaction != of {
            return;
        }
        cx.members.position(from).into_iter().for_each(|position| stored.insert(position));
        if stored.len() >= cx.members.majority() {
            let (transaction, decision) = (*transaction, *decision);
            self.office = Office::Announced { transaction, done: NodeSet::EMPTY };
            cx.emit(Event::Settled { transaction, decision });
        }
    }

    fn decided(&mut self, transaction: TransactionId, decision: Decision, cx: &mut Cx<'_>) {
        if let Some(latest) = self.memory.latest.as_mut().filter(|latest| latest.transaction == transaction) {
            latest.progress = Progress::Decided(decision);
            self.memory.outcomes.note(latest.participants, transaction, decision);
        }
        if self.memory.doubt == Some(transaction) {
            self.memory.doubt = None;
        }
        if let (Some(doubt), None) = (self.memory.doubt, self.ignorant) {
            self.ignorant = Some(NodeSet::EMPTY);
            for id in cx.members.of(cx.view) {
                cx.send(id, Message::Ask { transaction: doubt });
            }
        }
        cx.send(cx.leader, Message::Done { transaction });
    }

    fn done(&mut self, from: NodeId, of: TransactionId, cx: &mut Cx<'_>) {
        let Office::Announced { transaction, done } = &mut self.office else { return };
        if *transaction == of {
            cx.members.position(from).into_iter().for_each(|position| done.insert(position));
            if cx.view.iter().all(|position| done.contains(position)) {
                self.office = Office::Open;
            }
        }
    }

    /// Rule 3.
    fn told(&mut self, from: NodeId, transaction: TransactionId, known: Option<Decision>, cx: &mut Cx<'_>) {
        let Some(ignorant) = self.ignorant.as_mut().filter(|_| self.memory.doubt == Some(transaction)) else { return };
        cx.members.position(from).into_iter().for_each(|position| ignorant.insert(position));
        let nobody_knows = cx.view.iter().all(|position| ignorant.contains(position));
        if let Some(decision) = known.or(nobody_knows.then_some(Decision::Abort)) {
            let mut me = NodeSet::EMPTY;
            me.insert(cx.members.my_position());
            self.memory.outcomes.note(me, transaction, decision);
            self.memory.doubt = None;
            self.ignorant = None;
            cx.emit(Event::Learned { transaction, decision });
        }
    }
}

/// Of several records the one with the highest counts.
fn rank(record: &CommitRecord) -> (u32, TransactionId, u8) {
    let progress = match record.progress {
        Progress::Prepared => 0,
        Progress::Stored(_) => 1,
        Progress::Decided(_) => 2,
    };
    (record.ballot, record.transaction, progress)
}

impl Algorithm for Settlement {
    type Message = Message;
    type Command = Command;
    type Event = Event;

    fn handle_command(&mut self, command: Command, cx: &mut Cx<'_>) {
        match command {
            Command::Begin { epoch } => self.begin(epoch, cx),
            Command::Promise { transaction, yes } => self.promise(transaction, yes, cx),
            Command::Settle { transaction, decision } => self.settle(transaction, decision, cx.view, cx),
        }
    }

    fn handle_message(&mut self, from: NodeId, message: Message, cx: &mut Cx<'_>) {
        match message {
            Message::Known(record) => self.known(from, record, cx),
            Message::Store { transaction, decision, participants } if from == cx.leader => {
                self.store(transaction, decision, participants, cx);
            }
            Message::Stored { transaction } => self.stored(from, transaction, cx),
            Message::Decide { transaction, decision } if from == cx.leader => self.decided(transaction, decision, cx),
            Message::Ask { transaction } => {
                let position = cx.members.position(from);
                let decision = position.and_then(|position| self.memory.outcomes.of(position, transaction));
                cx.send(from, Message::Told { transaction, decision });
            }
            Message::Told { transaction, decision } => self.told(from, transaction, decision, cx),
            Message::Done { transaction } => self.done(from, transaction, cx),
            Message::Store { .. } | Message::Decide { .. } | Message::Prepare { .. } | Message::Vote { .. } => {}
        }
    }

    fn handle_timeout(&mut self, _: &mut Cx<'_>) {}

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}
