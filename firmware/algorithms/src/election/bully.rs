//! The bully algorithm.
//! Safety (E1): every live node names the same leader, the one with the highest id.
//! Liveness (E2): every election ends.
//! Assumes that whoever lives answers within `T = 2·T_trans + T_process`. Where that fails, two
//! nodes may announce themselves, but never in the same term: a term names its claimant.

use super::{Command, Event};
use crate::context::{Algorithm, Context};
use compasso_wire::{Duration, Instant, NodeId, Term, message::ElectionMessage as Message};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Nobody is elected and nobody elects.
    Idle,
    /// We asked everybody above us; silence until then means that we lead.
    Electing { term: Term, answer_by: Instant },
    /// Somebody above us lives; it has until then to announce itself.
    Deferring { coordinator_by: Instant },
    /// Somebody above us leads.
    Following { leader: NodeId },
    /// We lead. Until then our announcement is still on its way, and the election is being held.
    Leading { announced_until: Instant },
}

/// One node's part in the election.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bully {
    state: State,
    /// The highest term that anybody was seen to claim.
    seen: Term,
    /// The term of the last elected leader: lower ones have no authority any more.
    elected: Term,
}

type Cx<'a> = Context<'a, Message, Event>;

impl Bully {
    /// A node that takes no part yet and knows that `seen` was claimed before.
    #[must_use]
    pub fn new(seen: Term) -> Bully {
        Bully { state: State::Idle, seen, elected: Term::ZERO }
    }

    /// Whom this node names as its leader, and in which term; nobody during an election.
    #[must_use]
    pub fn leader(&self, me: NodeId) -> Option<(NodeId, Term)> {
        match self.state {
            State::Idle | State::Electing { .. } | State::Deferring { .. } => None,
            State::Following { leader } => Some((leader, self.elected)),
            State::Leading { .. } => Some((me, self.elected)),
        }
    }

    /// The highest term seen: what must be remembered over a restart.
    #[must_use]
    pub fn seen(&self) -> Term {
        self.seen
    }

    /// "P sends ELECTION to all processes with higher numbers."
    fn start(&mut self, dead: Option<NodeId>, cx: &mut Cx<'_>) {
        let me = cx.me();
        let term = self.seen.next_for(me);
        self.seen = term;
        cx.emit(Event::Started { term });
        let members = cx.members;
        if members.ids().any(|id| id > me && Some(id) != dead) {
            self.state = State::Electing { term, answer_by: cx.now + cx.delays.answer() };
            for higher in members.ids().filter(|id| *id > me) {
                cx.send(higher, Message::Election { term });
            }
        } else {
            // The highest announces at once, and so does who noticed the death of the only higher one.
            self.announce(term, cx);
        }
    }

    /// "P wins the election and becomes coordinator", and tells all lower ones.
    fn announce(&mut self, term: Term, cx: &mut Cx<'_>) {
        let me = cx.me();
        self.state = State::Leading { announced_until: cx.now + patience(cx) };
        self.elected = term;
        let members = cx.members;
        for lower in members.ids().filter(|id| *id < me) {
            cx.send(lower, Message::Coordinator { term });
        }
        cx.emit(Event::Elected { leader: me, term });
    }

    fn follow(&mut self, leader: NodeId, term: Term, cx: &mut Cx<'_>) {
        let news = self.leader(cx.me()) != Some((leader, term));
        self.state = State::Following { leader };
        self.elected = term;
        self.seen = self.seen.max(term);
        if news {
            cx.emit(Event::Elected { leader, term });
        }
    }

    /// Somebody leads in this term: a lower one of ours is over.
    fn note(&mut self, term: Term) {
        self.seen = self.seen.max(term);
        if matches!(self.state, State::Leading { .. }) && term > self.elected {
            self.state = State::Idle;
        }
    }

    fn is_holding(&self, now: Instant) -> bool {
        match self.state {
            State::Electing { .. } | State::Deferring { .. } => true,
            State::Leading { announced_until } => now < announced_until,
            State::Idle | State::Following { .. } => false,
        }
    }
}

/// `T'`: how long who was answered waits for COORDINATOR.
fn patience(cx: &Cx<'_>) -> Duration {
    cx.delays.answer() + cx.delays.trans + cx.delays.process
}

impl Algorithm for Bully {
    type Message = Message;
    type Command = Command;
    type Event = Event;

    fn handle_command(&mut self, command: Command, cx: &mut Cx<'_>) {
        match command {
            // A node calls at most one election at a time.
            Command::Start { dead } if !self.is_holding(cx.now) => self.start(dead, cx),
            Command::Start { .. } => {}
            Command::Observe { leader, term } if term >= self.elected && leader > cx.me() => {
                self.follow(leader, term, cx);
            }
            // A lower node leads although we live: we bully our way back.
            Command::Observe { leader, term } if leader < cx.me() && term >= self.elected => {
                self.note(term);
                if !self.is_holding(cx.now) {
                    self.start(None, cx);
                }
            }
            Command::Observe { .. } => {}
            Command::Assume { leader, term } if leader == cx.me() => {
                self.state = State::Leading { announced_until: cx.now };
                self.elected = term;
                self.seen = self.seen.max(term);
                cx.emit(Event::Elected { leader, term });
            }
            Command::Assume { leader, term } => self.follow(leader, term, cx),
            Command::Note { term } => self.note(term),
            // Silence within `T` is all that tells this algorithm who is dead.
            Command::Unreachable { .. } | Command::Suspected { .. } | Command::Trusted { .. } => {}
        }
    }

    fn handle_message(&mut self, from: NodeId, message: Message, cx: &mut Cx<'_>) {
        match message {
            Message::Election { term } if from < cx.me() => {
                self.seen = self.seen.max(term);
                cx.send(from, Message::Answer { term });
                if !self.is_holding(cx.now) {
                    self.start(None, cx);
                }
            }
            Message::Answer { term } => {
                // Only an answer to the election we hold; a late one to an earlier election says nothing.
                if matches!(self.state, State::Electing { term: ours, .. } if ours == term) {
                    self.state = State::Deferring { coordinator_by: cx.now + patience(cx) };
                }
            }
            Message::Coordinator { term } if from > cx.me() && term >= self.elected => {
                self.follow(from, term, cx);
            }
            // Against the direction, of a term that has been superseded, or another algorithm's.
            Message::Election { .. }
            | Message::Coordinator { .. }
            | Message::ListElection { .. }
            | Message::ListCoordinator { .. }
            | Message::Candidate { .. }
            | Message::Elected { .. }
            | Message::Probe { .. }
            | Message::Reply { .. } => {}
        }
    }

    fn handle_timeout(&mut self, cx: &mut Cx<'_>) {
        match self.state {
            State::Electing { term, answer_by } if cx.now >= answer_by => self.announce(term, cx),
            State::Deferring { coordinator_by } if cx.now >= coordinator_by => self.start(None, cx),
            State::Idle
            | State::Electing { .. }
            | State::Deferring { .. }
            | State::Following { .. }
            | State::Leading { .. } => {}
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match self.state {
            State::Electing { answer_by, .. } => Some(answer_by),
            State::Deferring { coordinator_by } => Some(coordinator_by),
            State::Idle | State::Following { .. } | State::Leading { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::World;

    fn world(ids: &[u16]) -> World<Bully> {
        World::new(ids, |_| Bully::new(Term::ZERO))
    }

    fn kinds(world: &World<Bully>) -> [usize; 3] {
        let count = |wanted: fn(&Message) -> bool| world.sent.iter().filter(|(_, _, message)| wanted(message)).count();
        [
            count(|message| matches!(message, Message::Election { .. })),
            count(|message| matches!(message, Message::Answer { .. })),
            count(|message| matches!(message, Message::Coordinator { .. })),
        ]
    }

    fn leaders(world: &World<Bully>) -> Vec<Option<NodeId>> {
        world.live().map(|(id, bully)| bully.leader(id).map(|(leader, _)| leader)).collect()
    }

    #[test]
    fn eight_nodes_whose_highest_is_dead_and_four_notices() {
        let mut world = world(&[0, 1, 2, 3, 4, 5, 6, 7]);
        world.crash(7);
        world.command(4, Command::Start { dead: Some(NodeId(7)) });
        world.settle();
        assert_eq!(leaders(&world), vec![Some(NodeId(6)); 7]);
        assert_eq!(kinds(&world), [6, 3, 6], "ELECTION, ANSWER, COORDINATOR");
    }

    #[test]
    fn the_best_case_costs_n_minus_2_and_the_worst_n_squared_minus_n_minus_1() {
        for n in 3..10u16 {
            let ids: Vec<u16> = (0..n).collect();
            let mut best = world(&ids);
            best.crash(n - 1);
            best.command(n - 2, Command::Start { dead: Some(NodeId(n - 1)) });
            best.settle();
            assert_eq!(best.sent.len(), usize::from(n - 2));
            let mut worst = world(&ids);
            worst.crash(n - 1);
            worst.command(0, Command::Start { dead: Some(NodeId(n - 1)) });
            worst.settle();
            let n = usize::from(n);
            assert_eq!(worst.sent.len(), n * n - n - 1, "N = {n}");
        }
    }

    #[test]
    fn a_winner_that_dies_before_it_announces_is_replaced_by_the_next() {
        let mut world = world(&[1, 2, 3, 4]);
        world.crash(4);
        world.command(1, Command::Start { dead: Some(NodeId(4)) });
        world.deliver_while(|message| !matches!(message, Message::Coordinator { .. }));
        world.crash(3);
        world.settle();
        assert_eq!(leaders(&world), vec![Some(NodeId(2)); 2]);
    }

    #[test]
    fn a_lower_node_never_leads_while_a_higher_one_answers() {
        let mut world = world(&[0, 1, 2]);
        for id in 0..3 {
            world.command(id, Command::Start { dead: None });
        }
        world.settle();
        assert_eq!(leaders(&world), vec![Some(NodeId(2)); 3]);
    }

    #[test]
    fn an_order_of_a_superseded_term_is_refused() {
        let mut world = world(&[0, 1, 2]);
        world.command(0, Command::Observe { leader: NodeId(1), term: Term::new(5, NodeId(1)) });
        world.message(0, 2, Message::Coordinator { term: Term::new(4, NodeId(2)) });
        assert_eq!(world.node(0).leader(NodeId(0)), Some((NodeId(1), Term::new(5, NodeId(1)))));
        world.message(0, 2, Message::Coordinator { term: Term::new(5, NodeId(2)) });
        assert_eq!(world.node(0).leader(NodeId(0)), Some((NodeId(2), Term::new(5, NodeId(2)))));
    }
}
