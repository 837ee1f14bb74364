//! What the elections on a ring share: the ring of those who live, and taking part.
//!
//! An election has a **number**, the counter of its terms. Concurrent calls with one number are one
//! election; a higher number resets participation; messages of a lower one are taken out.
//! The winner leads in a term of its own: (number, winner), or higher if it has seen higher.
//!
//! Why no term is used twice: a term names its leader, so nobody else can lead in it. The leader
//! takes it up only while it takes part in an election of that or a lower number, and doing so ends
//! its part. It never takes part again, since it joins only numbers above every term it has seen,
//! and what it has seen is remembered over restarts.
//!
//! Who does not acknowledge is stepped over until the next election, which tries everybody anew.

use super::{Command, Event};
use crate::{context::Context, members::Members};
use compasso_wire::{Duration, Instant, NodeId, NodeSet, Term, message::ElectionMessage as Message};
use heapless::Vec;

pub(super) type Cx<'a> = Context<'a, Message, Event>;

/// Messages kept in case that the neighbour turns out to be dead. The oldest makes room: its loss
/// costs a time-out, not the election.
const FORWARDED_MAX: usize = 4;
/// For so many `T` a message is worth sending to the next one: by then the channel has given up.
const FORWARDED_FOR: u64 = 4;

/// So often the patience for a result doubles at most.
const DOUBLINGS_MAX: u32 = 4;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Nobody is elected and nobody elects.
    Idle,
    /// We take part in the election of this number; if it has no result by then, we start over.
    Participating { number: u64, result_by: Instant },
    /// Somebody else leads.
    Following { leader: NodeId },
    /// We lead.
    Leading,
}

/// What a message's term says of our part in its election.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// That election is over, or a later one goes on: the message is taken out of the ring.
    Superseded,
    /// We were not a participant, and are one from now on.
    Joined,
    /// We were a participant before.
    Participant,
}

/// What is left to the algorithm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(super) enum Next {
    /// Nothing.
    Nothing,
    /// We have won.
    Lead,
    /// Call an election.
    Start { dead: Option<NodeId> },
}

/// Where a message goes.
enum Route {
    To(NodeId),
    /// This one is dead, and the message means nothing without it.
    Void(NodeId),
    /// Whoever would take it out is dead: its round ends here.
    Over,
    /// There is nobody else.
    Alone,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Forwarded {
    to: NodeId,
    clockwise: bool,
    message: Message,
    until: Instant,
}

/// One node's place on the ring, and its part in the election.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Circle {
    state: State,
    /// The highest term that anybody was seen to claim.
    seen: Term,
    /// The term of the last elected leader: lower ones have no authority any more.
    elected: Term,
    /// Who is stepped over in this election, by position.
    skipped: NodeSet,
    /// How many elections in a row had no result in time.
    failures: u32,
    forwarded: Vec<Forwarded, FORWARDED_MAX>,
}

impl Circle {
    pub fn new(seen: Term) -> Circle {
        Circle {
            state: State::Idle,
            seen,
            elected: Term::ZERO,
            skipped: NodeSet::EMPTY,
            failures: 0,
            forwarded: Vec::new(),
        }
    }

    pub fn seen(&self) -> Term {
        self.seen
    }

    pub fn leader(&self, me: NodeId) -> Option<(NodeId, Term)> {
        match self.state {
            State::Idle | State::Participating { .. } => None,
            State::Following { leader } => Some((leader, self.elected)),
            State::Leading => Some((me, self.elected)),
        }
    }

    /// Calls an election of a number that nobody was seen to use.
    pub fn call(&mut self, dead: Option<NodeId>, patience: Duration, cx: &mut Cx<'_>) -> Term {
        let term = Term::new(self.seen.counter() + 1, cx.me());
        self.participate(term, patience, cx);
        if let Some(position) = dead.and_then(|id| cx.members.position(id)) {
            self.skipped.insert(position);
        }
        cx.emit(Event::Started { term });
        term
    }

    /// Takes part in the election of this term, unless it is over.
    pub fn take_part(&mut self, term: Term, patience: Duration, cx: &mut Cx<'_>) -> Part {
        match self.state {
            State::Participating { number, .. } if term.counter() == number => {
                self.seen = self.seen.max(term);
                Part::Participant
            }
            State::Idle | State::Participating { .. } | State::Following { .. } | State::Leading
                if term.counter() > self.seen.counter() =>
            {
                self.participate(term, patience, cx);
                cx.emit(Event::Joined { term });
                Part::Joined
            }
            State::Idle | State::Participating { .. } | State::Following { .. } | State::Leading => Part::Superseded,
        }
    }

    /// Whether the message can be one of this ring's. Who sends is evidently alive.
    pub fn hear(&mut self, from: NodeId, message: &Message, members: &Members) -> bool {
        self.trust(from, members);
        let is_member = |id: &NodeId| members.position(*id).is_some();
        match message {
            Message::ListElection { list, .. } => !list.members.is_empty(),
            Message::ListCoordinator { leader, list, .. } => {
                members.position(*leader).is_some_and(|position| list.members.contains(position))
            }
            Message::Candidate { id, .. }
            | Message::Elected { id, .. }
            | Message::Probe { id, .. }
            | Message::Reply { id, .. } => is_member(id),
            Message::Election { .. } | Message::Answer { .. } | Message::Coordinator { .. } => false,
        }
    }

    /// Sends to the next one on the ring that is not known to be dead.
    pub fn pass(&mut self, clockwise: bool, message: Message, cx: &mut Cx<'_>) -> Next {
        match self.route(clockwise, &message, cx.members) {
            Route::To(to) => {
                self.remember(to, clockwise, message, cx);
                cx.send(to, message);
                Next::Nothing
            }
            // Without its leader a result is worth nothing; a call only matters while it goes on.
            Route::Void(dead) if is_result(&message) || self.participates() => Next::Start { dead: Some(dead) },
            Route::Alone if self.participates() => Next::Lead,
            Route::Void(_) | Route::Over | Route::Alone => Next::Nothing,
        }
    }

    /// The term in which the winner of the election at hand leads: never below any that we have seen.
    pub fn term_for(&self, leader: NodeId) -> Option<Term> {
        match self.state {
            State::Participating { number, .. } => {
                let term = Term::new(number, leader);
                Some(if term >= self.seen { term } else { self.seen.next_for(leader) })
            }
            State::Idle | State::Following { .. } | State::Leading => None,
        }
    }

    /// Whether we may lead in this term: see the head of this file.
    pub fn may_lead_in(&self, term: Term) -> bool {
        self.participates() && self.accepts(term) && term >= self.seen
    }

    /// Whether a result of this term is news: of the election we take part in, or of a later one.
    pub fn accepts(&self, term: Term) -> bool {
        match self.state {
            State::Participating { number, .. } => term.counter() >= number && term >= self.elected,
            State::Idle | State::Following { .. } | State::Leading => term >= self.elected,
        }
    }

    /// The election has this result.
    pub fn conclude(&mut self, leader: NodeId, term: Term, cx: &mut Cx<'_>) {
        let news = self.leader(cx.me()) != Some((leader, term));
        self.state = if leader == cx.me() { State::Leading } else { State::Following { leader } };
        self.elected = term;
        self.failures = 0;
        self.seen = self.seen.max(term);
        if news {
            cx.emit(Event::Elected { leader, term });
        }
    }

    /// We have won: ELECTED goes round the ring.
    pub fn announce(&mut self, cx: &mut Cx<'_>) -> Next {
        let me = cx.me();
        let Some(term) = self.term_for(me) else { return Next::Nothing };
        self.conclude(me, term, cx);
        self.pass(true, Message::Elected { term, id: me }, cx)
    }

    /// ELECTED passes.
    pub fn handle_elected(&mut self, id: NodeId, term: Term, cx: &mut Cx<'_>) -> Next {
        if id == cx.me() || !self.accepts(term) {
            return Next::Nothing; // Back where it came from, or superseded.
        }
        if id < cx.me() {
            return self.outbid(term);
        }
        self.conclude(id, term, cx);
        self.pass(true, Message::Elected { term, id }, cx)
    }

    /// A lower node leads although we live: we must be elected in a higher term.
    pub fn outbid(&mut self, term: Term) -> Next {
        self.note(term);
        Next::Start { dead: None }
    }

    pub fn handle_command(&mut self, command: Command, cx: &mut Cx<'_>) -> Next {
        match command {
            // A node calls at most one election at a time.
            Command::Start { dead } if self.participates() => dead.map_or(Next::Nothing, |id| self.step_over(id, cx)),
            Command::Start { dead } => Next::Start { dead },
            Command::Observe { leader, term } => {
                if leader == cx.me() || !self.accepts(term) {
                    return Next::Nothing;
                }
                if leader < cx.me() {
                    return self.outbid(term);
                }
                self.conclude(leader, term, cx);
                Next::Nothing
            }
            Command::Assume { leader, term } => {
                self.conclude(leader, term, cx);
                Next::Nothing
            }
            Command::Note { term } => {
                self.note(term);
                Next::Nothing
            }
            Command::Unreachable { id } | Command::Suspected { id } => self.step_over(id, cx),
            Command::Trusted { id } => {
                self.trust(id, cx.members);
                Next::Nothing
            }
        }
    }

    pub fn handle_timeout(&mut self, now: Instant) -> Next {
        match self.state {
            State::Participating { result_by, .. } if now >= result_by => {
                self.failures += 1;
                Next::Start { dead: None }
            }
            State::Idle | State::Participating { .. } | State::Following { .. } | State::Leading => Next::Nothing,
        }
    }

    pub fn poll_timeout(&self) -> Option<Instant> {
        match self.state {
            State::Participating { result_by, .. } => Some(result_by),
            State::Idle | State::Following { .. } | State::Leading => None,
        }
    }

    fn participates(&self) -> bool {
        matches!(self.state, State::Participating { .. })
    }

    fn participate(&mut self, term: Term, patience: Duration, cx: &Cx<'_>) {
        // Nobody knows how slow the network is: who has waited in vain waits twice as long the next time.
        let patience = patience.times(1 << self.failures.min(DOUBLINGS_MAX));
        self.state = State::Participating { number: term.counter(), result_by: cx.now + patience };
        self.seen = self.seen.max(term);
        self.skipped = NodeSet::EMPTY;
        self.forwarded.clear();
    }

    /// Somebody leads in this term: a lower one of ours is over.
    fn note(&mut self, term: Term) {
        self.seen = self.seen.max(term);
        if self.state == State::Leading && term > self.elected {
            self.state = State::Idle;
        }
    }

    fn trust(&mut self, id: NodeId, members: &Members) {
        members.position(id).into_iter().for_each(|position| self.skipped.remove(position));
    }

    /// "If the successor is down, the sender skips over it": what it may not have got goes to the next.
    fn step_over(&mut self, id: NodeId, cx: &mut Cx<'_>) -> Next {
        let Some(position) = cx.members.position(id).filter(|_| id != cx.me()) else { return Next::Nothing };
        self.skipped.insert(position);
        for kept in core::mem::take(&mut self.forwarded) {
            if kept.to != id {
                self.keep(kept);
            } else if cx.now < kept.until {
                let next = self.pass(kept.clockwise, kept.message, cx);
                if next != Next::Nothing {
                    return next;
                }
            }
        }
        Next::Nothing
    }

    fn remember(&mut self, to: NodeId, clockwise: bool, message: Message, cx: &Cx<'_>) {
        self.forwarded.retain(|kept| cx.now < kept.until);
        let until = cx.now + cx.delays.answer().times(FORWARDED_FOR);
        self.keep(Forwarded { to, clockwise, message, until });
    }

    fn keep(&mut self, forwarded: Forwarded) {
        if self.forwarded.is_full() {
            self.forwarded.remove(0);
        }
        let _has_room = self.forwarded.push(forwarded);
    }

    fn route(&self, clockwise: bool, message: &Message, members: &Members) -> Route {
        let (count, mine) = (members.count(), members.my_position());
        for step in 1..count {
            let position = (mine + if clockwise { step } else { count - step }) % count;
            let Some(id) = members.id(position) else { continue };
            let is_dead = self.skipped.contains(position);
            if is_dead && owner(message, members) == Some(id) {
                return Route::Void(id);
            }
            if is_dead && collector(message, members) == Some(id) {
                return Route::Over;
            }
            if !is_dead && is_on_ring(message, position) {
                return Route::To(id);
            }
        }
        Route::Alone
    }
}

/// Who must live for the message to mean anything.
fn owner(message: &Message, members: &Members) -> Option<NodeId> {
    match message {
        Message::ListElection { list, .. } => members.id(usize::from(list.first)),
        Message::ListCoordinator { leader, .. } => Some(*leader),
        Message::Candidate { id, .. }
        | Message::Elected { id, .. }
        | Message::Probe { id, .. }
        | Message::Reply { id, .. } => Some(*id),
        Message::Election { .. } | Message::Answer { .. } | Message::Coordinator { .. } => None,
    }
}

/// Who takes the message out of the ring, if that is not its owner.
fn collector(message: &Message, members: &Members) -> Option<NodeId> {
    match message {
        Message::ListCoordinator { list, .. } => members.id(usize::from(list.first)),
        Message::ListElection { .. }
        | Message::Candidate { .. }
        | Message::Elected { .. }
        | Message::Probe { .. }
        | Message::Reply { .. }
        | Message::Election { .. }
        | Message::Answer { .. }
        | Message::Coordinator { .. } => None,
    }
}

fn is_result(message: &Message) -> bool {
    matches!(message, Message::ListCoordinator { .. } | Message::Elected { .. })
}

/// COORDINATOR of the ring with a list goes round the new ring only.
fn is_on_ring(message: &Message, position: usize) -> bool {
    match message {
        Message::ListCoordinator { list, .. } => list.members.contains(position),
        Message::ListElection { .. }
        | Message::Candidate { .. }
        | Message::Elected { .. }
        | Message::Probe { .. }
        | Message::Reply { .. }
        | Message::Election { .. }
        | Message::Answer { .. }
        | Message::Coordinator { .. } => true,
    }
}
