//! Election by the failure detector alone ("Luís").
//! Safety (E1): the leader is the highest of those that the detector does not suspect, so all name
//! the same one once their detectors agree.
//! Liveness (E2): with a detector that in the end suspects exactly the dead, they agree in the end.
//! Assumes that everybody watches everybody, and that a leader's term rides on its heartbeats
//! (`Observe`). There are no messages and no deadlines of its own: the detector has those.
//! Until detectors agree two nodes may lead, but never in one term: a term names its claimant.

use super::{Command, Event};
use crate::{
    context::{Algorithm, Context},
    members::Members,
};
use compasso_wire::{Instant, NodeId, NodeSet, Term, message::ElectionMessage as Message};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Not asked to take part yet.
    Idle,
    /// The leader is whoever is highest; its first heartbeat will tell the term.
    Waiting,
    /// Somebody else leads.
    Following { leader: NodeId },
    /// We lead.
    Leading,
}

/// One node's part in the election.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ByDetector {
    state: State,
    /// Who is not alive, as far as the detector can tell, by position.
    suspected: NodeSet,
    /// The highest term that anybody was seen to claim.
    seen: Term,
    /// The term of the last elected leader: lower ones have no authority any more.
    elected: Term,
}

type Cx<'a> = Context<'a, Message, Event>;

impl ByDetector {
    /// A node that takes no part yet and knows that `seen` was claimed before.
    #[must_use]
    pub fn new(seen: Term) -> ByDetector {
        ByDetector { state: State::Idle, suspected: NodeSet::EMPTY, seen, elected: Term::ZERO }
    }

    /// Whom this node names as its leader, and in which term; nobody until its first heartbeat.
    #[must_use]
    pub fn leader(&self, me: NodeId) -> Option<(NodeId, Term)> {
        match self.state {
            State::Idle | State::Waiting => None,
            State::Following { leader } => Some((leader, self.elected)),
            State::Leading => Some((me, self.elected)),
        }
    }

    /// The highest term seen: what must be remembered over a restart.
    #[must_use]
    pub fn seen(&self) -> Term {
        self.seen
    }

    /// Leader = max(alive).
    fn highest_alive(&self, members: &Members) -> NodeId {
        let mut alive = members.all();
        for position in self.suspected.iter() {
            alive.remove(position);
        }
        members.of(alive).max().unwrap_or(members.me()).max(members.me())
    }

    /// Whether nobody higher lives, as far as the detector can tell.
    #[must_use]
    pub fn is_highest(&self, members: &Members) -> bool {
        self.highest_alive(members) == members.me()
    }

    /// Somebody is suspected: where that was the leader, the highest of the others takes over.
    fn suspect(&mut self, id: NodeId, cx: &mut Cx<'_>) {
        let Some(position) = cx.members.position(id).filter(|_| id != cx.me()) else { return };
        self.suspected.insert(position);
        match self.state {
            State::Following { leader } if leader == id => self.take_over(cx),
            State::Waiting => {
                if self.is_highest(cx.members) {
                    self.take_over(cx);
                }
            }
            State::Idle | State::Following { .. } | State::Leading => {}
        }
    }

    /// Whoever is highest leads from now on: we do, in a term of our own, or it will say so.
    fn take_over(&mut self, cx: &mut Cx<'_>) {
        let me = cx.me();
        if self.is_highest(cx.members) {
            let term = self.seen.next_for(me);
            cx.emit(Event::Started { term });
            self.adopt(State::Leading, me, term, cx);
        } else {
            self.state = State::Waiting;
            cx.emit(Event::Joined { term: self.seen });
        }
    }

    /// A heartbeat tells the term of who leads.
    fn observe(&mut self, leader: NodeId, term: Term, cx: &mut Cx<'_>) {
        let me = cx.me();
        self.trust(leader, cx);
        if leader == me || term < self.elected {
            return;
        }
        if leader > me {
            // Where somebody higher lives, that one will claim a higher term.
            return self.adopt(State::Following { leader }, leader, term, cx);
        }
        // A lower node leads although we live.
        self.seen = self.seen.max(term);
        if self.is_highest(cx.members) {
            self.take_over(cx);
        }
    }

    fn adopt(&mut self, state: State, leader: NodeId, term: Term, cx: &mut Cx<'_>) {
        let news = self.leader(cx.me()) != Some((leader, term));
        self.state = state;
        self.elected = term;
        self.seen = self.seen.max(term);
        if news {
            cx.emit(Event::Elected { leader, term });
        }
    }

    /// Who comes back leads when it says so; until then the present leader stays.
    fn trust(&mut self, id: NodeId, cx: &Cx<'_>) {
        cx.members.position(id).into_iter().for_each(|position| self.suspected.remove(position));
    }
}

impl Algorithm for ByDetector {
    type Message = Message;
    type Command = Command;
    type Event = Event;

    fn handle_command(&mut self, command: Command, cx: &mut Cx<'_>) {
        match command {
            Command::Start { dead } => {
                if let Some(position) = dead.filter(|id| *id != cx.me()).and_then(|id| cx.members.position(id)) {
                    self.suspected.insert(position);
                }
                self.take_over(cx);
            }
            Command::Observe { leader, term } => self.observe(leader, term, cx),
            Command::Assume { leader, term } if leader == cx.me() => self.adopt(State::Leading, leader, term, cx),
            Command::Assume { leader, term } => self.adopt(State::Following { leader }, leader, term, cx),
            Command::Note { term } => {
                self.seen = self.seen.max(term);
                if self.state == State::Leading && term > self.elected {
                    self.state = State::Waiting;
                }
            }
            Command::Suspected { id } | Command::Unreachable { id } => self.suspect(id, cx),
            Command::Trusted { id } => self.trust(id, cx),
        }
    }

    /// There are no election messages.
    fn handle_message(&mut self, _from: NodeId, _message: Message, _cx: &mut Cx<'_>) {}

    fn handle_timeout(&mut self, _cx: &mut Cx<'_>) {}

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::World;

    fn world() -> World<ByDetector> {
        let mut world = World::new(&[1, 2, 3], |_| ByDetector::new(Term::ZERO));
        (1..=3).for_each(|id| world.command(id, Command::Start { dead: None }));
        world
    }

    #[test]
    fn the_highest_leads_at_once_and_the_others_name_it_when_its_heartbeat_tells_the_term() {
        let mut world = world();
        let term = Term::new(1, NodeId(3));
        assert_eq!(world.node(3).leader(NodeId(3)), Some((NodeId(3), term)));
        assert_eq!(world.node(1).leader(NodeId(1)), None);
        world.command(1, Command::Observe { leader: NodeId(3), term });
        assert_eq!(world.node(1).leader(NodeId(1)), Some((NodeId(3), term)));
        assert!(world.sent.is_empty(), "no election messages");
    }

    #[test]
    fn whoever_is_the_highest_not_suspected_claims_a_fresh_term() {
        let mut world = world();
        for id in [1, 2] {
            world.command(id, Command::Observe { leader: NodeId(3), term: Term::new(1, NodeId(3)) });
            world.command(id, Command::Suspected { id: NodeId(3) });
        }
        let term = Term::new(2, NodeId(2));
        assert_eq!(world.node(2).leader(NodeId(2)), Some((NodeId(2), term)));
        assert_eq!(world.node(1).leader(NodeId(1)), None, "undefined until the heartbeat");
        world.command(1, Command::Observe { leader: NodeId(2), term });
        assert_eq!(world.node(1).leader(NodeId(1)), Some((NodeId(2), term)));
        // The suspicion was wrong: the highest outbids, and everybody goes back to it.
        world.command(2, Command::Trusted { id: NodeId(3) });
        assert_eq!(world.node(2).leader(NodeId(2)), Some((NodeId(2), term)), "until the higher one speaks");
        world.command(3, Command::Observe { leader: NodeId(2), term });
        let (_, again) = world.node(3).leader(NodeId(3)).unwrap();
        assert!(again > term);
        world.command(2, Command::Observe { leader: NodeId(3), term: again });
        assert_eq!(world.node(2).leader(NodeId(2)), Some((NodeId(3), again)));
        world.command(2, Command::Observe { leader: NodeId(3), term: Term::new(1, NodeId(3)) });
        assert_eq!(world.node(2).leader(NodeId(2)), Some((NodeId(3), again)), "a superseded term is refused");
    }

    #[test]
    fn the_suspicion_of_one_who_does_not_lead_changes_nothing() {
        let mut world = world();
        let events = world.events.len();
        world.command(3, Command::Suspected { id: NodeId(1) });
        world.command(3, Command::Suspected { id: NodeId(3) });
        assert_eq!(world.events.len(), events);
    }
}
