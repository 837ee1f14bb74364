//! Mutual exclusion by a majority of votes (decentralised voting).
//! The resource has `m` replicas, each with a coordinator that has one vote: the first `m` of the
//! configured members. Whoever has more than `m/2` votes enters; whoever cannot get them gives
//! back what it has and tries again after a random pause, up to twice as long after each try.
//! Safety (ME1): two majorities share a coordinator, and it votes for one at a time.
//! Liveness (ME2): only with probability one; a node may starve. Order (ME3) is not promised.
//! Costs at most `3m` messages a try, `3mk` an entry with `k` tries.
//! Assumes channels that keep order, and that a majority of the replicas lives. `m` never shrinks:
//! a replica that is not in the view does not answer, and stays a missing vote.
//!
//! The serial of an entry is 1 + the highest that its voters know, and RELEASE brings it to them.
//! It grows from entry to entry: the coordinator that two entries share votes for the second only
//! after the RELEASE of the first.

use super::{Command, Cx, Event, Request, hear_self};
use crate::context::Algorithm;
use compasso_wire::{Duration, Instant, NodeId, NodeSet, message::MutexMessage as Message};

/// The pause no longer grows after so many tries.
const DOUBLINGS_MAX: u32 = 3;
/// So many times `T` at most is an answer waited for: the first guess of `T` may be too short.
const PATIENCE_MAX: u32 = 8;

/// One attempt to get a majority.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Try {
    /// Its number, never used twice by this node: what its messages carry.
    number: u64,
    votes: NodeSet,
    denials: NodeSet,
    /// The highest serial among the votes.
    known: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Client {
    Outside,
    /// The `k`-th try is on; a replica that has not answered by then is dead.
    Asking {
        k: u32,
        attempt: Try,
        answer_by: Instant,
    },
    /// The `k`-th try failed.
    Pausing {
        k: u32,
        again_at: Instant,
    },
    Inside {
        attempt: Try,
        serial: u64,
    },
}

/// One node's part: a client, and the coordinator of a replica if it is one of the first `m`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Voting {
    replicas: u16,
    client: Client,
    tries: u64,
    /// The coordinators that have not answered an earlier try yet: not asked again before they do.
    silent: NodeSet,
    /// The coordinator's vote: whose try has it.
    vote: Option<Request>,
    /// The coordinator's highest serial of an entry.
    known: u64,
}

impl Voting {
    /// A node that does not want to enter, where the first `replicas` members have a vote.
    #[must_use]
    pub fn new(replicas: u16) -> Voting {
        Voting { replicas, client: Client::Outside, tries: 0, silent: NodeSet::EMPTY, vote: None, known: 0 }
    }

    /// How often this node has tried so far, for all its requests.
    #[must_use]
    pub fn tries(&self) -> u64 {
        self.tries
    }

    /// `m`.
    fn m(&self, cx: &Cx<'_>) -> usize {
        usize::from(self.replicas).clamp(1, cx.members.count())
    }

    /// The coordinators that can answer, but for those of `without`.
    fn coordinators<'a>(&self, without: NodeSet, cx: &Cx<'a>) -> impl Iterator<Item = NodeId> + use<'a> {
        let (m, view, members) = (self.m(cx), cx.view, cx.members);
        members.of(view).filter(move |id| members.position(*id).is_some_and(|at| at < m && !without.contains(at)))
    }

    fn ask(&mut self, k: u32, cx: &mut Cx<'_>) {
        self.tries += 1;
        let attempt = Try { number: self.tries, votes: NodeSet::EMPTY, denials: self.silent, known: 0 };
        let patience = cx.delays.answer().times(u64::from(k.min(PATIENCE_MAX)));
        self.client = Client::Asking { k, attempt, answer_by: cx.now + patience };
        for coordinator in self.coordinators(self.silent, cx) {
            cx.send(coordinator, Message::Request { stamp: attempt.number });
        }
    }

    /// Also to those whose answer is still on its way: they hear the REQUEST first, so the vote
    /// that it may get is theirs again, and the GRANT finds a try that is over.
    fn give_back(&self, attempt: Try, serial: u64, cx: &mut Cx<'_>) {
        for coordinator in self.coordinators(attempt.denials, cx) {
            cx.send(coordinator, Message::Release { stamp: attempt.number, serial });
        }
    }

    /// "If permission is denied, back off for a randomly chosen time and make a next attempt later."
    fn back_off(&mut self, k: u32, attempt: Try, cx: &mut Cx<'_>) {
        self.give_back(attempt, 0, cx);
        for id in self.coordinators(attempt.denials, cx) {
            if let Some(position) = cx.members.position(id).filter(|position| !attempt.votes.contains(*position)) {
                self.silent.insert(position);
            }
        }
        let longest = cx.delays.answer().times(1 << k.min(DOUBLINGS_MAX));
        let pause = Duration(1 + u64::from(cx.random) % longest.0.max(1));
        self.client = Client::Pausing { k, again_at: cx.now + pause };
    }

    /// A vote of this client's try, or the refusal of one.
    fn answered(&mut self, from: NodeId, number: u64, grant: Option<u64>, cx: &mut Cx<'_>) {
        let majority = self.m(cx) / 2 + 1;
        cx.members.position(from).into_iter().for_each(|position| self.silent.remove(position));
        let (Client::Asking { k, mut attempt, answer_by }, Some(position)) = (self.client, cx.members.position(from))
        else {
            return; // Inside, a vote that comes late goes back with the others.
        };
        if attempt.number != number {
            return;
        }
        match grant {
            Some(known) => {
                attempt.votes.insert(position);
                attempt.known = attempt.known.max(known);
            }
            None => attempt.denials.insert(position),
        }
        if attempt.votes.len() >= majority {
            let serial = attempt.known.saturating_add(1);
            self.client = Client::Inside { attempt, serial };
            cx.emit(Event::Granted { serial });
        } else if self.coordinators(attempt.denials, cx).count() < majority {
            self.back_off(k, attempt, cx);
        } else {
            self.client = Client::Asking { k, attempt, answer_by };
        }
    }

    fn obey(&mut self, command: Command, cx: &mut Cx<'_>) {
        match (command, self.client) {
            (Command::Request { .. }, Client::Outside) => self.ask(1, cx),
            (Command::Release, Client::Inside { attempt, serial }) => {
                self.client = Client::Outside;
                self.give_back(attempt, serial, cx);
            }
            (Command::Release, Client::Asking { attempt, .. }) => {
                self.client = Client::Outside;
                self.give_back(attempt, 0, cx);
            }
            (Command::Release, Client::Pausing { .. }) => self.client = Client::Outside,
            (Command::Request { .. }, Client::Asking { .. } | Client::Pausing { .. } | Client::Inside { .. })
            | (Command::Release, Client::Outside)
            | (Command::Begin | Command::Discard, _) => {}
        }
    }

    fn hear(&mut self, from: NodeId, message: Message, cx: &mut Cx<'_>) {
        match message {
            // The coordinator: "one vote; if it is given, deny."
            Message::Request { stamp } if self.vote.is_none() => {
                self.vote = Some(Request { stamp, id: from });
                cx.send(from, Message::Grant { stamp, serial: self.known });
            }
            Message::Request { stamp } => cx.send(from, Message::Denied { stamp }),
            Message::Release { stamp, serial } => {
                self.known = self.known.max(serial);
                if self.vote == Some(Request { stamp, id: from }) {
                    self.vote = None;
                }
            }
            Message::Grant { stamp, serial } => self.answered(from, stamp, Some(serial), cx),
            Message::Denied { stamp } => self.answered(from, stamp, None, cx),
            Message::Token { .. }
            | Message::NumberedRequest { .. }
            | Message::ListToken { .. }
            | Message::Acknowledge { .. }
            | Message::Ok { .. }
            | Message::Deferred { .. }
            | Message::Inquire { .. }
            | Message::Yield { .. }
            | Message::Fail { .. } => {}
        }
    }
}

impl Algorithm for Voting {
    type Message = Message;
    type Command = Command;
    type Event = Event;

    fn handle_command(&mut self, command: Command, cx: &mut Cx<'_>) {
        self.obey(command, cx);
        hear_self(cx, |me, message, cx| self.hear(me, message, cx));
    }

    fn handle_message(&mut self, from: NodeId, message: Message, cx: &mut Cx<'_>) {
        self.hear(from, message, cx);
        hear_self(cx, |me, message, cx| self.hear(me, message, cx));
    }

    fn handle_timeout(&mut self, cx: &mut Cx<'_>) {
        match self.client {
            Client::Asking { k, attempt, answer_by } if cx.now >= answer_by => self.back_off(k, attempt, cx),
            Client::Pausing { k, again_at } if cx.now >= again_at => self.ask(k.saturating_add(1), cx),
            Client::Outside | Client::Asking { .. } | Client::Pausing { .. } | Client::Inside { .. } => {}
        }
        hear_self(cx, |me, message, cx| self.hear(me, message, cx));
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match self.client {
            Client::Asking { answer_by, .. } => Some(answer_by),
            Client::Pausing { again_at, .. } => Some(again_at),
            Client::Outside | Client::Inside { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutex::testing::Room;

    fn room(count: u16, replicas: u16) -> Room<Voting> {
        Room::new(&(0..count).collect::<Vec<_>>(), |_| Voting::new(replicas))
    }

    #[test]
    fn a_try_costs_three_messages_a_replica_but_for_its_own() {
        let mut room = room(6, 5);
        room.enter_and_leave(5);
        assert_eq!(room.sent.len(), 3 * 5);
        room.enter_and_leave(0);
        assert_eq!(room.sent.len(), 3 * 5 + 3 * 4);
    }

    #[test]
    fn with_split_votes_nobody_enters_until_a_later_try() {
        let mut room = room(7, 4);
        for id in [4, 5] {
            room.request(id);
        }
        for (id, replicas) in [(4, [0, 1, 2, 3]), (5, [2, 3, 0, 1])] {
            for replica in &replicas[..2] {
                room.deliver(id, *replica);
            }
        }
        room.deliver_all();
        assert!(room.entered().is_empty(), "two votes each, and three are a majority");
        room.settle_until_somebody_enters();
        let first = room.inside()[0];
        room.release(first);
        room.settle_until_somebody_enters();
        room.release(9 - first);
        room.settle();
        let tries: u64 = room.live().map(|(_, node)| node.tries()).sum();
        assert!(tries >= 4, "{tries}");
        let requests =
            room.sent.iter().filter(|(_, _, message)| matches!(message, Message::Request { .. })).count() as u64;
        assert_eq!(requests, 4 * tries);
        assert!(room.sent.len() as u64 <= 3 * 4 * tries);
        assert!(room.live().all(|(_, node)| node.vote.is_none()), "every vote is back");
    }

    #[test]
    fn a_vote_that_comes_after_its_try_is_over_is_given_back() {
        let mut room = room(4, 3);
        room.request(3);
        for replica in 0..3 {
            room.deliver(3, replica);
        }
        room.settle_one_deadline(); // The answers are late.
        room.settle();
        assert_eq!(room.inside(), [3]);
        room.release(3);
        room.settle();
        assert!(room.live().all(|(_, node)| node.vote.is_none()));
    }

    #[test]
    fn a_minority_of_dead_replicas_is_outvoted_and_a_majority_is_not() {
        let mut room = room(5, 5);
        room.crash(0);
        room.crash(1);
        room.request(3);
        room.settle();
        assert_eq!(room.inside(), [3]);
        room.release(3);
        room.deliver_all();
        room.crash(2);
        room.request(3);
        for _ in 0..50 {
            room.settle_one_deadline();
        }
        assert_eq!(room.entered(), [3]);
        assert!(room.node(3).tries() > 10, "it goes on trying");
    }
}
