//! Mutual exclusion by the votes of a set (Maekawa 1985), deadlock free with Sanders' corrections.
//! Safety (ME1): any two voting sets intersect, and each voter votes for one at a time.
//! Liveness (ME2): a vote that a younger request has is taken back for an older one, unless the
//! younger has all its votes; so the oldest request of all gets in, and then the next.
//! Order (ME3) is not promised: a voter may vote for the later request, and that one enter, before
//! the earlier arrives.
//! Costs 3 messages for each voter but itself without contention, 5 as a rule, at most 7.
//! Assumes channels that lose nothing, and that nobody in the requester's set dies.
//!
//! The serial grows as in `maekawa_plain.rs`: a vote that counts for an entry is free again only
//! with that entry's RELEASE, since nobody yields inside.

use super::{Command, Cx, Event, Queue, Request, VotingSets, hear_self};
use crate::context::Algorithm;
use compasso_wire::{NodeId, NodeSet, message::MutexMessage as Message};

/// A request on its way: sets of voters, by position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Wanted {
    stamp: u64,
    /// Who votes for us.
    votes: NodeSet,
    /// Who said FAIL or got its vote back, and has not voted since.
    failed: NodeSet,
    /// Whose INQUIRE is not answered yet.
    inquired: NodeSet,
    /// The highest serial that the voters know.
    known: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Requester {
    Released,
    Wanted(Wanted),
    Held { stamp: u64, serial: u64 },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Vote {
    Free,
    /// Given to `holder`, which has been asked to give it back or not.
    Given {
        holder: Request,
        inquired: bool,
    },
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Voter {
    vote: Vote,
    /// By `(T, id)`. Whoever waits here knows from a FAIL that it may have to yield elsewhere,
    /// but for a head that is older than the holder: for that one the vote is being taken back.
    queue: Queue,
    known: u64,
}

/// One node's part: it asks, and it votes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Maekawa {
    sets: VotingSets,
    requester: Requester,
    voter: Voter,
}

impl Maekawa {
    /// A node that does not want to enter.
    #[must_use]
    pub fn new(sets: VotingSets) -> Maekawa {
        let voter = Voter { vote: Vote::Free, queue: Queue::default(), known: 0 };
        Maekawa { sets, requester: Requester::Released, voter }
    }

    fn tell_voters(&self, message: &Message, cx: &mut Cx<'_>) {
        let members = cx.members;
        for voter in members.of(self.sets.mine(members, cx.view)) {
            cx.send(voter, *message);
        }
    }

    fn obey(&mut self, command: Command, cx: &mut Cx<'_>) {
        match (command, self.requester) {
            (Command::Request { stamp }, Requester::Released) => {
                let none = NodeSet::EMPTY;
                self.requester =
                    Requester::Wanted(Wanted { stamp, votes: none, failed: none, inquired: none, known: 0 });
                self.tell_voters(&Message::Request { stamp }, cx);
            }
            (Command::Release, Requester::Held { stamp, serial }) => self.release(stamp, serial, cx),
            (Command::Release, Requester::Wanted(Wanted { stamp, .. })) => self.release(stamp, 0, cx),
            (Command::Request { .. }, Requester::Wanted(_) | Requester::Held { .. })
            | (Command::Release, Requester::Released)
            | (Command::Begin | Command::Discard, _) => {}
        }
    }

    fn release(&mut self, stamp: u64, serial: u64, cx: &mut Cx<'_>) {
        self.requester = Requester::Released;
        self.tell_voters(&Message::Release { stamp, serial }, cx);
    }

    fn hear(&mut self, from: NodeId, message: Message, cx: &mut Cx<'_>) {
        match message {
            Message::Request { stamp } => self.voter.requested(Request { stamp, id: from }, cx),
            Message::Release { stamp, serial } => self.voter.released(Request { stamp, id: from }, serial, cx),
            Message::Yield { stamp } => self.voter.yielded(Request { stamp, id: from }, cx),
            Message::Grant { stamp, .. } | Message::Inquire { stamp } | Message::Fail { stamp } => {
                self.answered(from, stamp, &message, cx);
            }
            Message::Token { .. }
            | Message::NumberedRequest { .. }
            | Message::ListToken { .. }
            | Message::Denied { .. }
            | Message::Acknowledge { .. }
            | Message::Ok { .. }
            | Message::Deferred { .. } => {}
        }
    }

    /// What a voter says of our request. Once we are inside, or it is over, INQUIRE and FAIL are
    /// void: our RELEASE answers them.
    fn answered(&mut self, from: NodeId, of: u64, message: &Message, cx: &mut Cx<'_>) {
        let Requester::Wanted(wanted) = &mut self.requester else { return };
        let Some(voter) = cx.members.position(from).filter(|_| wanted.stamp == of) else { return };
        if let Message::Grant { serial, .. } = message {
            wanted.votes.insert(voter);
            wanted.failed.remove(voter);
            wanted.known = wanted.known.max(*serial);
        } else if let Message::Inquire { .. } = message {
            wanted.inquired.insert(voter); // Kept also if it overtakes its GRANT.
        } else {
            wanted.failed.insert(voter);
        }
        if wanted.votes == self.sets.mine(cx.members, cx.view) {
            let serial = wanted.known.saturating_add(1);
            self.requester = Requester::Held { stamp: of, serial };
            cx.emit(Event::Granted { serial });
        } else {
            wanted.yield_votes(cx);
        }
    }
}

impl Wanted {
    /// "A node that gets INQUIRE yields the vote if it knows that it will not get all of them: if
    /// it has a FAIL, or has yielded, without a GRANT since. Otherwise the answer waits until it
    /// knows, or enters."
    fn yield_votes(&mut self, cx: &mut Cx<'_>) {
        if self.failed.is_empty() {
            return;
        }
        let Wanted { votes, inquired, .. } = *self;
        for voter in inquired.iter().filter(|voter| votes.contains(*voter)) {
            self.votes.remove(voter);
            self.inquired.remove(voter);
            self.failed.insert(voter);
            if let Some(id) = cx.members.id(voter) {
                cx.send(id, Message::Yield { stamp: self.stamp });
            }
        }
    }
}

impl Voter {
    /// "If the vote is free it goes to the request. If not, the request is queued, and if the
    /// holder or one in the queue is older, it gets FAIL. Otherwise the holder gets INQUIRE."
    fn requested(&mut self, request: Request, cx: &mut Cx<'_>) {
        let Vote::Given { holder, inquired } = self.vote else {
            self.give(request, cx);
            return;
        };
        let displaced = self.queue.head();
        cx.output.overflowed |= !self.queue.insert(request);
        if holder < request || self.queue.head() != Some(request) {
            cx.send(request.id, Message::Fail { stamp: request.stamp });
            return;
        }
        // Sanders: the head that is no longer the oldest must learn that it has to wait.
        if let Some(displaced) = displaced.filter(|displaced| *displaced < holder) {
            cx.send(displaced.id, Message::Fail { stamp: displaced.stamp });
        }
        if !inquired {
            self.vote = Vote::Given { holder, inquired: true };
            cx.send(holder.id, Message::Inquire { stamp: holder.stamp });
        }
    }

    /// "On YIELD the holder goes back to the queue, and the vote to the oldest there."
    fn yielded(&mut self, request: Request, cx: &mut Cx<'_>) {
        match self.vote {
            Vote::Given { holder, .. } if holder == request => {
                cx.output.overflowed |= !self.queue.insert(request);
                self.give_to_oldest(cx);
            }
            Vote::Free | Vote::Given { .. } => {}
        }
    }

    fn released(&mut self, request: Request, serial: u64, cx: &mut Cx<'_>) {
        self.known = self.known.max(serial);
        match self.vote {
            Vote::Given { holder, .. } if holder == request => self.give_to_oldest(cx),
            Vote::Free | Vote::Given { .. } => self.queue.remove(request), // Withdrawn while it waited.
        }
    }

    fn give_to_oldest(&mut self, cx: &mut Cx<'_>) {
        self.vote = Vote::Free;
        if let Some(oldest) = self.queue.pop() {
            self.give(oldest, cx);
        }
    }

    fn give(&mut self, request: Request, cx: &mut Cx<'_>) {
        self.vote = Vote::Given { holder: request, inquired: false };
        cx.send(request.id, Message::Grant { stamp: request.stamp, serial: self.known });
    }
}

impl Algorithm for Maekawa {
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutex::testing::{Room, three_voting_sets};

    fn grid_of_nine() -> Room<Maekawa> {
        Room::new(&(0..9).collect::<Vec<_>>(), |_| Maekawa::new(VotingSets::default()))
    }

    #[test]
    fn on_a_grid_of_nine_an_entry_costs_twelve_messages() {
        for id in 0..9 {
            let mut room = grid_of_nine();
            room.enter_and_leave(id);
            assert_eq!(room.sent.len(), 3 * (5 - 1));
        }
    }

    #[test]
    fn three_nodes_with_one_vote_each_all_enter() {
        let mut room = Room::new(&[0, 1, 2], |id| Maekawa::new(three_voting_sets(id)));
        for id in 0..3 {
            room.request(id);
        }
        for _ in 0..3 {
            room.settle_until_somebody_enters();
            let inside = room.inside();
            room.release(inside[0]);
        }
        assert_eq!(room.entered(), [1, 0, 2], "2 yields to 1 before 1 has heard that 0 is older: no ME3");
    }

    fn yields(room: &Room<Maekawa>) -> Vec<u16> {
        room.sent.iter().filter(|(_, _, sent)| matches!(sent, Message::Yield { .. })).map(|(_, to, _)| to.0).collect()
    }

    #[test]
    fn an_inquiry_that_overtakes_its_grant_is_kept() {
        let mut room = grid_of_nine();
        room.request_at(4, 10);
        room.message(4, 1, Message::Fail { stamp: 10 });
        room.message(4, 3, Message::Inquire { stamp: 10 });
        assert!(yields(&room).is_empty(), "there is no vote to give back yet");
        room.message(4, 3, Message::Grant { stamp: 10, serial: 0 });
        assert_eq!(yields(&room), [3]);
    }

    #[test]
    fn an_inquiry_waits_while_all_votes_may_still_come() {
        let mut room = grid_of_nine();
        room.request_at(4, 10);
        room.message(4, 1, Message::Fail { stamp: 10 });
        room.message(4, 1, Message::Grant { stamp: 10, serial: 0 }); // Failed at first, and then not.
        room.message(4, 3, Message::Grant { stamp: 10, serial: 0 });
        room.message(4, 3, Message::Inquire { stamp: 10 });
        assert!(yields(&room).is_empty());
        room.message(4, 5, Message::Fail { stamp: 10 });
        assert_eq!(yields(&room), [3]);
    }

    #[test]
    fn a_vote_given_back_is_as_good_as_a_fail() {
        let mut room = grid_of_nine();
        room.request_at(4, 10);
        for voter in [1, 3] {
            room.message(4, voter, Message::Grant { stamp: 10, serial: 0 });
        }
        room.message(4, 5, Message::Fail { stamp: 10 });
        room.message(4, 1, Message::Inquire { stamp: 10 });
        room.message(4, 5, Message::Grant { stamp: 10, serial: 0 });
        room.message(4, 3, Message::Inquire { stamp: 10 });
        assert_eq!(yields(&room), [1, 3], "the vote of 1 is gone");
    }

    #[test]
    fn the_head_that_an_older_request_displaces_gets_a_fail() {
        let mut room = grid_of_nine();
        for (from, stamp) in [(1, 30), (3, 20), (5, 10)] {
            room.message(4, from, Message::Request { stamp });
        }
        let said: Vec<_> = room.sent.iter().map(|(_, to, message)| (to.0, *message)).collect();
        assert_eq!(
            said,
            [
                (1, Message::Grant { stamp: 30, serial: 0 }),
                (1, Message::Inquire { stamp: 30 }),
                (3, Message::Fail { stamp: 20 }),
            ]
        );
        room.message(4, 1, Message::Yield { stamp: 30 });
        assert_eq!(room.sent.last().map(|(_, to, _)| to.0), Some(5));
    }

    #[test]
    fn under_contention_an_entry_costs_at_most_seven_messages_a_voter() {
        let (mut inquiries, mut yields, mut fails) = (0, 0, 0);
        for seed in 0..50 {
            let mut room = grid_of_nine();
            room.storm(seed, 3);
            let entries = 9 * 3;
            let voters = 4;
            assert!(room.sent.len() <= 7 * voters * entries, "seed {seed}: {}", room.sent.len());
            inquiries += room.sent.iter().filter(|(_, _, message)| matches!(message, Message::Inquire { .. })).count();
            yields += room.sent.iter().filter(|(_, _, message)| matches!(message, Message::Yield { .. })).count();
            fails += room.sent.iter().filter(|(_, _, message)| matches!(message, Message::Fail { .. })).count();
        }
        assert!(fails > 0 && yields > 0 && inquiries >= yields);
    }
}
