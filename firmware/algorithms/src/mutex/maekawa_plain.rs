//! Mutual exclusion by the votes of a set (Maekawa 1985), without care for deadlock.
//! Safety (ME1): any two voting sets intersect, and each voter votes for one at a time.
//! Liveness is **not** promised: three nodes with the sets {0,1}, {1,2}, {2,0} may each get one
//! vote and wait for ever. `maekawa.rs` takes votes back. Nor is order (ME3).
//! Costs REQUEST, GRANT and RELEASE for every voter but itself: `3(|V|−1)` on the wire.
//! Assumes that nobody in the requester's set dies; who is outside of it may.
//!
//! The serial of an entry is 1 + the highest that its voters know, and RELEASE brings it to them.
//! It grows from entry to entry: the voter that two entries share votes for the second only after
//! the RELEASE of the first.

use super::{Command, Cx, Event, Queue, Request, VotingSets, hear_self};
use crate::context::Algorithm;
use compasso_wire::{NodeId, NodeSet, message::MutexMessage as Message};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Requester {
    Released,
    /// Who has voted, and the highest serial that they know.
    Wanted {
        stamp: u64,
        votes: NodeSet,
        known: u64,
    },
    Held {
        stamp: u64,
        serial: u64,
    },
}

/// The textbook's `voted` and its queue.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Voter {
    voted: Option<Request>,
    queue: Queue,
    known: u64,
}

/// One node's part: it asks, and it votes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MaekawaPlain {
    sets: VotingSets,
    requester: Requester,
    voter: Voter,
}

impl MaekawaPlain {
    /// A node that does not want to enter.
    #[must_use]
    pub fn new(sets: VotingSets) -> MaekawaPlain {
        let voter = Voter { voted: None, queue: Queue::default(), known: 0 };
        MaekawaPlain { sets, requester: Requester::Released, voter }
    }

    fn tell_voters(&self, message: &Message, cx: &mut Cx<'_>) {
        let members = cx.members;
        for voter in members.of(self.sets.mine(members, cx.view)) {
            cx.send(voter, *message);
        }
    }

    fn obey(&mut self, command: Command, cx: &mut Cx<'_>) {
        match (command, self.requester) {
            // "state := WANTED; multicast request to all processes in V_i."
            (Command::Request { stamp }, Requester::Released) => {
                self.requester = Requester::Wanted { stamp, votes: NodeSet::EMPTY, known: 0 };
                self.tell_voters(&Message::Request { stamp }, cx);
            }
            // "state := RELEASED; multicast release to all processes in V_i."
            (Command::Release, Requester::Held { stamp, serial }) => self.release(stamp, serial, cx),
            (Command::Release, Requester::Wanted { stamp, .. }) => self.release(stamp, 0, cx),
            (Command::Request { .. }, Requester::Wanted { .. } | Requester::Held { .. })
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
            Message::Grant { stamp, serial } => self.granted(from, stamp, serial, cx),
            Message::Token { .. }
            | Message::NumberedRequest { .. }
            | Message::ListToken { .. }
            | Message::Denied { .. }
            | Message::Acknowledge { .. }
            | Message::Ok { .. }
            | Message::Deferred { .. }
            | Message::Inquire { .. }
            | Message::Yield { .. }
            | Message::Fail { .. } => {}
        }
    }

    /// "wait until (number of replies received = K); state := HELD."
    fn granted(&mut self, from: NodeId, of: u64, highest: u64, cx: &mut Cx<'_>) {
        let Requester::Wanted { stamp, votes, known } = &mut self.requester else { return };
        let Some(position) = cx.members.position(from).filter(|_| *stamp == of) else { return };
        votes.insert(position);
        *known = highest.max(*known);
        if *votes == self.sets.mine(cx.members, cx.view) {
            let serial = known.saturating_add(1);
            self.requester = Requester::Held { stamp: of, serial };
            cx.emit(Event::Granted { serial });
        }
    }
}

impl Voter {
    /// "if (state = HELD or voted = TRUE) queue request without replying; else send reply;
    /// voted := TRUE."
    fn requested(&mut self, request: Request, cx: &mut Cx<'_>) {
        match self.voted {
            None => self.vote(request, cx),
            Some(_) => cx.output.overflowed |= !self.queue.append(request),
        }
    }

    /// "if (queue is non-empty) remove its head and send it reply; voted := TRUE; else voted := FALSE."
    fn released(&mut self, request: Request, serial: u64, cx: &mut Cx<'_>) {
        self.known = self.known.max(serial);
        if self.voted != Some(request) {
            self.queue.remove(request); // Withdrawn while it waited.
            return;
        }
        self.voted = None;
        if let Some(next) = self.queue.pop() {
            self.vote(next, cx);
        }
    }

    fn vote(&mut self, request: Request, cx: &mut Cx<'_>) {
        self.voted = Some(request);
        cx.send(request.id, Message::Grant { stamp: request.stamp, serial: self.known });
    }
}

impl Algorithm for MaekawaPlain {
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

    #[test]
    fn on_a_grid_of_nine_an_entry_costs_twelve_messages() {
        let mut room = Room::new(&(0..9).collect::<Vec<_>>(), |_| MaekawaPlain::new(VotingSets::default()));
        room.enter_and_leave(4);
        assert_eq!(room.sent.len(), 3 * (5 - 1));
        assert!(room.sent.iter().all(|(from, to, _)| [1, 3, 5, 7].contains(&(from.0 + to.0 - 4))));
    }

    #[test]
    fn three_nodes_with_one_vote_each_wait_for_ever() {
        let mut room = Room::new(&[0, 1, 2], |id| MaekawaPlain::new(three_voting_sets(id)));
        for id in 0..3 {
            room.request(id);
        }
        room.settle();
        assert!(room.entered().is_empty());
        for (id, node) in room.live() {
            assert_eq!(node.voter.voted.map(|request| request.id), Some(id), "each has its own vote");
            assert_eq!(node.voter.queue.head().map(|request| request.id), Some(NodeId((id.0 + 2) % 3)));
        }
    }

    #[test]
    fn one_after_the_other_they_do_enter() {
        let mut room = Room::new(&[0, 1, 2], |id| MaekawaPlain::new(three_voting_sets(id)));
        room.request(0);
        room.deliver_all();
        room.request(1);
        room.deliver_all();
        assert_eq!(room.inside(), [0]);
        room.release(0);
        room.deliver_all();
        assert_eq!(room.inside(), [1]);
    }

    #[test]
    fn the_death_of_a_node_outside_the_set_disturbs_nobody_and_of_one_inside_blocks() {
        let mut room = Room::new(&(0..9).collect::<Vec<_>>(), |_| MaekawaPlain::new(VotingSets::default()));
        for dead in [1, 2, 5, 7, 8] {
            room.crash(dead);
        }
        room.request(4);
        room.settle();
        assert!(room.entered().is_empty(), "1, 5 and 7 are voters of 4");
        room.release(4);
        room.settle();
        let mut room = Room::new(&(0..9).collect::<Vec<_>>(), |_| MaekawaPlain::new(VotingSets::default()));
        for dead in [0, 2, 6, 8] {
            room.crash(dead);
        }
        room.enter_and_leave(4);
        assert_eq!(room.entered(), [4]);
    }
}
