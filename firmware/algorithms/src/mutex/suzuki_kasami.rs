//! Mutual exclusion by a token that is asked for by numbered requests (Suzuki and Kasami 1985).
//! Safety (ME1): at most one node is inside, since there is one token.
//! Liveness (ME2): the token carries a queue, first come first served, that every requester joins.
//! Order (ME3) is not promised: the numbers only tell requests that were served from those that
//! were not.
//! Costs nothing where the token rests, else `N−1` REQUESTs and the token.
//! Assumes that no message is lost and nobody dies who has the token or is in its queue.

use super::{Command, Cx, Event, others};
use crate::context::Algorithm;
use compasso_wire::{Lists, NodeId, limits::MEMBERS_MAX, message::MutexMessage as Message};
use heapless::Vec;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// The token is elsewhere.
    Without,
    /// It is elsewhere and asked for; not wanted any more if the request was withdrawn.
    Asked { wanted: bool },
    /// It rests here, and nobody has asked for it.
    Resting { serial: u64 },
    /// It is here and the application is inside.
    Inside { serial: u64 },
}

/// One node's part. The token's serial grows with each hop and each entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SuzukiKasami {
    state: State,
    /// `RN`: the highest number of a request seen of each node, by position.
    seen: [u32; MEMBERS_MAX],
    /// The token's `LN`: the number of each node's request that was served last, by position. It and
    /// the queue stay as they were when the token left, in case that its message must be repeated.
    served: Vec<u32, MEMBERS_MAX>,
    /// The token's `Q`: who gets it next, by position.
    queue: Vec<u16, MEMBERS_MAX>,
}

impl SuzukiKasami {
    /// A node without the token.
    #[must_use]
    pub fn new() -> SuzukiKasami {
        SuzukiKasami { state: State::Without, seen: [0; MEMBERS_MAX], served: Vec::new(), queue: Vec::new() }
    }

    /// Whether the token is here.
    #[must_use]
    pub fn has_token(&self) -> bool {
        match self.state {
            State::Without | State::Asked { .. } => false,
            State::Resting { .. } | State::Inside { .. } => true,
        }
    }

    /// "If the site does not have the token, it increments `RN_i[i]` and sends REQUEST(i, n) to all."
    fn ask(&mut self, cx: &mut Cx<'_>) {
        self.state = State::Asked { wanted: true };
        let Some(mine) = self.seen.get_mut(cx.members.my_position()) else { return };
        *mine += 1;
        let number = *mine;
        for other in others(cx) {
            cx.send(other, Message::NumberedRequest { number });
        }
    }

    fn arrive(&mut self, serial: u64, token: &Lists, cx: &mut Cx<'_>) {
        cx.emit(Event::TokenArrived { serial });
        if self.has_token() {
            return; // A second token: it ends here.
        }
        self.served.clone_from(&token.served);
        self.queue.clone_from(&token.names);
        match self.state {
            State::Asked { wanted: true } => self.enter(serial, cx),
            State::Without | State::Asked { wanted: false } | State::Resting { .. } | State::Inside { .. } => {
                self.leave(serial, cx);
            }
        }
    }

    fn enter(&mut self, serial: u64, cx: &mut Cx<'_>) {
        let serial = serial.saturating_add(1);
        cx.emit(Event::Granted { serial });
        self.state = State::Inside { serial };
    }

    /// "Sets `LN[i] = RN_i[i]`; appends every `j` that is not in the queue and has
    /// `RN_i[j] = LN[j] + 1`; if the queue is not empty, sends the token to its head."
    fn leave(&mut self, serial: u64, cx: &mut Cx<'_>) {
        let me = cx.members.my_position();
        if let (Some(served), Some(seen)) = (self.served.get_mut(me), self.seen.get(me)) {
            *served = *seen;
        }
        for other in others(cx) {
            let Some(position) = cx.members.position(other) else { continue };
            let name = position as u16;
            if !self.queue.contains(&name) && self.is_due(position) {
                cx.output.overflowed |= self.queue.push(name).is_err();
            }
        }
        match self.queue.first().copied() {
            None => self.state = State::Resting { serial },
            Some(head) => {
                self.queue.retain(|name| *name != head);
                self.pass(serial, usize::from(head), cx);
            }
        }
    }

    /// `RN_i[j] = LN[j] + 1`: a current request, neither stale nor served.
    fn is_due(&self, position: usize) -> bool {
        match (self.seen.get(position), self.served.get(position)) {
            (Some(seen), Some(served)) => served.checked_add(1) == Some(*seen),
            (Some(_) | None, Some(_) | None) => false,
        }
    }

    fn pass(&mut self, serial: u64, position: usize, cx: &mut Cx<'_>) {
        self.state = match cx.members.id(position) {
            Some(next) => {
                cx.send(next, Message::ListToken { serial: serial.saturating_add(1) });
                State::Without
            }
            None => State::Resting { serial }, // Nobody of that name.
        };
    }

    /// "Sets `RN_i[j] = max(RN_i[j], n)`; if it has the idle token and `RN_i[j] = LN[j] + 1`, it
    /// sends the token to `j`."
    fn requested(&mut self, from: NodeId, number: u32, cx: &mut Cx<'_>) {
        let Some(position) = cx.members.position(from) else { return };
        if let Some(seen) = self.seen.get_mut(position) {
            *seen = number.max(*seen);
        }
        match self.state {
            State::Resting { serial } if self.is_due(position) => self.pass(serial, position, cx),
            State::Without | State::Asked { .. } | State::Resting { .. } | State::Inside { .. } => {}
        }
    }
}

impl Default for SuzukiKasami {
    fn default() -> SuzukiKasami {
        SuzukiKasami::new()
    }
}

impl Algorithm for SuzukiKasami {
    type Message = Message;
    type Command = Command;
    type Event = Event;

    fn handle_command(&mut self, command: Command, cx: &mut Cx<'_>) {
        match (command, self.state) {
            (Command::Begin, State::Without | State::Asked { .. }) if cx.leader == cx.me() => {
                let served = cx.members.ids().map(|_| 0).collect();
                self.arrive(0, &Lists { served, names: Vec::new() }, cx);
            }
            (Command::Request { .. }, State::Without) => self.ask(cx),
            // The request that was withdrawn is still on its way: it serves again.
            (Command::Request { .. }, State::Asked { .. }) => self.state = State::Asked { wanted: true },
            (Command::Request { .. }, State::Resting { serial }) => self.enter(serial, cx),
            (Command::Release, State::Inside { serial }) => self.leave(serial, cx),
            (Command::Release, State::Asked { .. }) => self.state = State::Asked { wanted: false },
            (Command::Discard, State::Resting { .. } | State::Inside { .. }) => self.state = State::Without,
            (Command::Begin, _)
            | (Command::Request { .. }, State::Inside { .. })
            | (Command::Release, State::Without | State::Resting { .. })
            | (Command::Discard, State::Without | State::Asked { .. }) => {}
        }
    }

    fn handle_message(&mut self, from: NodeId, message: Message, cx: &mut Cx<'_>) {
        match message {
            Message::NumberedRequest { number } => self.requested(from, number, cx),
            Message::ListToken { serial } => self.arrive(serial, cx.lists, cx),
            Message::Token { .. }
            | Message::Request { .. }
            | Message::Grant { .. }
            | Message::Denied { .. }
            | Message::Acknowledge { .. }
            | Message::Ok { .. }
            | Message::Deferred { .. }
            | Message::Release { .. }
            | Message::Inquire { .. }
            | Message::Yield { .. }
            | Message::Fail { .. } => {}
        }
    }

    /// The token is on its way at most once: only when it has arrived can it come back and leave again.
    fn lists(&self, _message: &Message) -> Lists {
        Lists { served: self.served.clone(), names: self.queue.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutex::testing::Room;

    fn room(count: u16) -> Room<SuzukiKasami> {
        Room::new(&(0..count).collect::<std::vec::Vec<_>>(), |_| SuzukiKasami::new())
    }

    #[test]
    fn an_entry_costs_nothing_where_the_token_rests_and_else_as_many_messages_as_nodes() {
        let mut room = room(5);
        room.enter_and_leave(4);
        room.enter_and_leave(4);
        assert_eq!(room.sent.len(), 0);
        room.enter_and_leave(1);
        assert_eq!(room.sent.len(), 5);
        room.enter_and_leave(1);
        assert_eq!(room.sent.len(), 5);
        assert!(room.node(1).has_token() && !room.node(4).has_token());
        room.enter_and_leave(4);
        assert_eq!(room.sent.len(), 10);
    }

    #[test]
    fn the_queue_in_the_token_is_first_come_first_served() {
        let mut room = room(4);
        room.request(3);
        room.request(2);
        room.deliver_all();
        room.release(3); // The token goes to 2; only then do the others ask.
        room.deliver_all();
        room.request(1);
        room.deliver_all();
        room.request(0);
        room.release(2); // 0 asked, but 2 has not heard of it: only 1 is in the queue.
        for id in [1, 0] {
            room.deliver_all();
            assert_eq!(room.inside(), [id]);
            room.release(id);
        }
    }

    #[test]
    fn a_request_that_was_served_is_not_served_again_when_it_arrives_late() {
        let mut room = room(3);
        room.request(0);
        room.deliver(0, 2);
        room.deliver(2, 0);
        room.release(0);
        room.request(1);
        room.deliver(1, 0);
        room.deliver(0, 1); // The stale REQUEST of 0 arrives before the token.
        room.deliver(0, 1);
        assert_eq!(room.inside(), [1]);
        room.release(1);
        room.deliver_all();
        assert!(room.node(1).has_token(), "nobody wants it");
    }

    #[test]
    fn a_withdrawn_request_lets_the_token_pass_and_a_new_one_is_served() {
        let mut room = room(3);
        room.request(2);
        room.request(0);
        room.request(1);
        room.deliver_all();
        room.release(0);
        room.release(2);
        room.deliver_all();
        assert_eq!(room.entered(), [2, 1]);
        room.release(1);
        room.request(0);
        room.release(0);
        room.request(0);
        room.settle();
        assert_eq!(room.entered(), [2, 1, 0]);
    }

    #[test]
    fn a_lost_token_stops_all() {
        let mut room = room(3);
        room.command(2, Command::Discard);
        room.request(1);
        room.settle();
        assert!(room.entered().is_empty());
        assert!(room.live().all(|(_, node)| !node.has_token()));
    }
}
