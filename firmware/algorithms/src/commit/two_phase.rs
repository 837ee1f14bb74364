//! Two-phase commit.
//! Safety: nobody commits what another aborts, and nothing is committed that somebody refused.
//! Liveness: whoever voted yes is bound until it learns the decision. If the coordinator dies in
//! between, it is *blocked*: it may neither commit (somebody may have refused) nor abort (everybody may
//! have agreed, and the others know). `settlement.rs` is the cure.
//! Costs PREPARE, VOTE and DECIDE for each participant but the coordinator: `3(N−1)` messages.
//! Assumes that the coordinator and whoever has voted live, and channels that lose nothing.

use crate::context::{Algorithm, Context};
use compasso_wire::{
    Instant, NodeId, NodeSet,
    commit::{CommitMessage as Message, Decision, TransactionId},
};

type Cx<'a> = Context<'a, Message, Event>;

/// A vote is waited for so many times as long as an answer takes: it may have to be sent again.
const PATIENCE: u64 = 4;

/// What is asked of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// The coordinator begins a transaction.
    Begin {
        /// Which: it was never used before.
        transaction: TransactionId,
    },
    /// The coordinator tells everybody how a transaction ends.
    Announce {
        /// Which.
        transaction: TransactionId,
        /// How.
        decision: Decision,
    },
    /// Vote no the next time.
    Refuse,
}

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// This node votes; a yes binds it.
    Voted {
        /// Which transaction.
        transaction: TransactionId,
        /// The vote.
        yes: bool,
    },
    /// The coordinator has made up its mind. It is to be announced.
    Concluded {
        /// Which transaction.
        transaction: TransactionId,
        /// How it ends.
        decision: Decision,
    },
    /// The transaction has ended here.
    Decided {
        /// Which.
        transaction: TransactionId,
        /// How.
        decision: Decision,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Coordinator {
    Idle,
    Voting { transaction: TransactionId, yes: NodeSet, vote_by: Instant },
    Concluded { transaction: TransactionId },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Participant {
    Free,
    Bound { transaction: TransactionId },
}

/// One node's part: a participant, and the coordinator if it leads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TwoPhase {
    coordinator: Coordinator,
    participant: Participant,
    refuses: bool,
}

impl TwoPhase {
    /// A node that is bound by a yes of earlier times, or by none.
    #[must_use]
    pub fn new(bound: Option<TransactionId>) -> TwoPhase {
        let participant = bound.map_or(Participant::Free, |transaction| Participant::Bound { transaction });
        TwoPhase { coordinator: Coordinator::Idle, participant, refuses: false }
    }

    /// Whether the coordinator may begin a transaction: there is one at a time.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.coordinator == Coordinator::Idle
    }

    /// "Asked to prepare, a participant votes yes only if it can commit whatever happens." Bound by
    /// an earlier yes it cannot. A no is final: it aborts at once.
    fn prepare(&mut self, transaction: TransactionId, cx: &mut Cx<'_>) {
        let refuses = core::mem::take(&mut self.refuses);
        let yes = self.participant == Participant::Free && !refuses;
        cx.emit(Event::Voted { transaction, yes });
        if yes {
            self.participant = Participant::Bound { transaction };
        } else {
            cx.emit(Event::Decided { transaction, decision: Decision::Abort });
        }
        cx.send(cx.leader, Message::Vote { transaction, yes });
    }

    /// "All yes: commit. One no: abort."
    fn voted(&mut self, from: NodeId, of: TransactionId, vote: bool, cx: &mut Cx<'_>) {
        let Coordinator::Voting { transaction, yes, .. } = &mut self.coordinator else { return };
        if *transaction != of {
            return; // It was given up waiting for.
        }
        if !vote {
            return self.conclude(of, Decision::Abort, cx);
        }
        cx.members.position(from).into_iter().for_each(|position| yes.insert(position));
        if cx.view.iter().all(|position| yes.contains(position)) {
            self.conclude(of, Decision::Commit, cx);
        }
    }

    fn conclude(&mut self, transaction: TransactionId, decision: Decision, cx: &mut Cx<'_>) {
        self.coordinator = Coordinator::Concluded { transaction };
        cx.emit(Event::Concluded { transaction, decision });
    }

    /// "A participant that voted yes does as the coordinator says."
    fn decided(&mut self, transaction: TransactionId, decision: Decision, cx: &mut Cx<'_>) {
        if self.participant == (Participant::Bound { transaction }) {
            self.participant = Participant::Free;
            cx.emit(Event::Decided { transaction, decision });
        }
    }
}

impl Algorithm for TwoPhase {
    type Message = Message;
    type Command = Command;
    type Event = Event;

    fn handle_command(&mut self, command: Command, cx: &mut Cx<'_>) {
        match command {
            Command::Begin { transaction } if self.is_idle() => {
                let vote_by = cx.now + cx.delays.answer().times(PATIENCE);
                self.coordinator = Coordinator::Voting { transaction, yes: NodeSet::EMPTY, vote_by };
                for id in cx.members.of(cx.view) {
                    cx.send(id, Message::Prepare { transaction });
                }
            }
            Command::Begin { .. } => {}
            Command::Announce { transaction, decision } => {
                if self.coordinator == (Coordinator::Concluded { transaction }) {
                    self.coordinator = Coordinator::Idle;
                }
                for id in cx.members.of(cx.view) {
                    cx.send(id, Message::Decide { transaction, decision });
                }
            }
            Command::Refuse => self.refuses = true,
        }
    }

    fn handle_message(&mut self, from: NodeId, message: Message, cx: &mut Cx<'_>) {
        match message {
            Message::Prepare { transaction } if from == cx.leader => self.prepare(transaction, cx),
            Message::Vote { transaction, yes } => self.voted(from, transaction, yes, cx),
            Message::Decide { transaction, decision } if from == cx.leader => self.decided(transaction, decision, cx),
            Message::Prepare { .. }
            | Message::Decide { .. }
            | Message::Store { .. }
            | Message::Stored { .. }
            | Message::Known(_)
            | Message::Ask { .. }
            | Message::Told { .. }
            | Message::Done { .. } => {}
        }
    }

    /// "Whoever does not vote in time counts as a no."
    fn handle_timeout(&mut self, cx: &mut Cx<'_>) {
        if let Coordinator::Voting { transaction, vote_by, .. } = self.coordinator
            && cx.now >= vote_by
        {
            self.conclude(transaction, Decision::Abort, cx);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match self.coordinator {
            Coordinator::Voting { vote_by, .. } => Some(vote_by),
            Coordinator::Idle | Coordinator::Concluded { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::World;

    const T: TransactionId = TransactionId(7);

    fn world() -> World<TwoPhase> {
        World::new(&[0, 1, 2, 3], |_| TwoPhase::new(None))
    }

    /// What the coordinator's node does in the textbook form: announce what is concluded.
    fn announce(world: &mut World<TwoPhase>) {
        let concluded = world.events.iter().find_map(|(_, event)| match *event {
            Event::Concluded { transaction, decision } => Some((transaction, decision)),
            Event::Voted { .. } | Event::Decided { .. } => None,
        });
        let (transaction, decision) = concluded.expect("a conclusion");
        world.command(3, Command::Announce { transaction, decision });
        world.settle();
    }

    fn decisions(world: &World<TwoPhase>) -> Vec<(u16, Decision)> {
        let decided = |(id, event): &(NodeId, Event)| match *event {
            Event::Decided { decision, .. } => Some((id.0, decision)),
            Event::Voted { .. } | Event::Concluded { .. } => None,
        };
        let mut decisions: Vec<_> = world.events.iter().filter_map(decided).collect();
        decisions.sort_by_key(|(id, _)| *id);
        decisions
    }

    #[test]
    fn what_everybody_agrees_to_is_committed_everywhere_with_three_messages_each() {
        let mut world = world();
        world.command(3, Command::Begin { transaction: T });
        world.deliver_while(|_| true);
        announce(&mut world);
        assert_eq!(decisions(&world), [0, 1, 2, 3].map(|id| (id, Decision::Commit)));
        assert_eq!(world.sent.iter().filter(|(from, to, _)| from != to).count(), 3 * 3);
        assert!(world.live().all(|(_, node)| node.participant == Participant::Free && node.is_idle()));
    }

    #[test]
    fn one_no_aborts_everywhere() {
        let mut world = world();
        world.command(1, Command::Refuse);
        world.command(3, Command::Begin { transaction: T });
        world.deliver_while(|_| true);
        announce(&mut world);
        assert_eq!(decisions(&world), [0, 1, 2, 3].map(|id| (id, Decision::Abort)));
        world.events.clear();
        world.command(3, Command::Begin { transaction: TransactionId(8) });
        world.deliver_while(|_| true);
        announce(&mut world);
        assert_eq!(decisions(&world), [0, 1, 2, 3].map(|id| (id, Decision::Commit)), "a refusal is for once");
    }

    #[test]
    fn silence_is_a_no_and_a_late_yes_changes_nothing() {
        let mut world = world();
        world.command(3, Command::Begin { transaction: T });
        world.deliver_while(|message| matches!(message, Message::Prepare { .. }));
        world.lose(|message| matches!(message, Message::Vote { .. }));
        assert!(world.pass_one_deadline());
        world.message(3, 0, Message::Vote { transaction: T, yes: true });
        announce(&mut world);
        assert_eq!(decisions(&world), [0, 1, 2, 3].map(|id| (id, Decision::Abort)));
    }

    #[test]
    fn who_voted_yes_is_blocked_when_the_coordinator_dies_and_promises_nothing_else() {
        let mut world = world();
        world.command(3, Command::Begin { transaction: T });
        world.deliver_while(|message| matches!(message, Message::Prepare { .. }));
        world.crash(3);
        world.settle();
        assert_eq!(decisions(&world), []);
        assert!(world.live().all(|(_, node)| node.participant == Participant::Bound { transaction: T }));
        world.message(0, 3, Message::Prepare { transaction: TransactionId(9) });
        let vote = (NodeId(0), Event::Voted { transaction: TransactionId(9), yes: false });
        assert!(world.events.contains(&vote), "bound by an earlier yes it cannot");
    }

    #[test]
    fn only_the_coordinator_is_obeyed_and_only_about_the_transaction_in_hand() {
        let mut world = world();
        world.command(3, Command::Begin { transaction: T });
        world.deliver_while(|message| matches!(message, Message::Prepare { .. }));
        world.message(0, 1, Message::Decide { transaction: T, decision: Decision::Commit });
        world.message(0, 3, Message::Decide { transaction: TransactionId(6), decision: Decision::Abort });
        world.message(0, 1, Message::Prepare { transaction: TransactionId(9) });
        assert_eq!(decisions(&world), []);
        world.message(3, 1, Message::Vote { transaction: TransactionId(6), yes: false });
        world.deliver_while(|_| true);
        announce(&mut world);
        assert_eq!(decisions(&world), [0, 1, 2, 3].map(|id| (id, Decision::Commit)));
    }
}
