//! Mutual exclusion by a queue that everybody keeps, in the order of Lamport time (Lamport 1978).
//! Safety (ME1): two nodes whose requests head both their queues would each have heard of the
//! other's older request. Liveness (ME2): everybody acknowledges, everybody releases.
//! Order (ME3): requests are granted by `(T, id)`, hence in happened-before order.
//! Costs REQUEST, ACK and RELEASE from or to everybody else: `3(N−1)` an entry.
//! Assumes channels that keep order, and that nobody dies: any crash stops it.
//!
//! The serial of an entry is its `(T, id)`. It grows from entry to entry: when node `a` enters it
//! has heard from `b` later than `Ta`, so, channels keeping order, it knows every request that `b`
//! made before: those are over or younger. And what `b` requests after that it stamps later than
//! `Ta`, having acknowledged it. A request that is asked again in a new view keeps its old stamp:
//! it must be made before the node handles any message of that view.

use super::{Command, Cx, Event, Queue, Request, others};
use crate::context::Algorithm;
use compasso_wire::{NodeId, limits::MEMBERS_MAX, message::MutexMessage as Message};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Outside,
    Waiting { mine: Request },
    Inside { mine: Request, serial: u64 },
}

/// One node's part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lamport {
    state: State,
    /// Everybody's requests, mine included, by `(T, id)`.
    queue: Queue,
    /// The time of the last message heard from each, by position.
    heard: [u64; MEMBERS_MAX],
}

impl Lamport {
    /// A node that does not want to enter.
    #[must_use]
    pub fn new() -> Lamport {
        Lamport { state: State::Outside, queue: Queue::default(), heard: [0; MEMBERS_MAX] }
    }

    /// Rule 1: "sends `T:P requests` to every other process, and puts it on its own queue."
    fn request(&mut self, stamp: u64, cx: &mut Cx<'_>) {
        let mine = Request { stamp, id: cx.me() };
        self.state = State::Waiting { mine };
        cx.output.overflowed |= !self.queue.insert(mine);
        for other in others(cx) {
            cx.send(other, Message::Request { stamp });
        }
    }

    /// Rule 3: "removes its request from its queue and sends `P releases` to every other process."
    fn release(&mut self, mine: Request, serial: u64, cx: &mut Cx<'_>) {
        self.state = State::Outside;
        self.queue.remove(mine);
        for other in others(cx) {
            cx.send(other, Message::Release { stamp: mine.stamp, serial });
        }
    }

    /// Rule 5: "enters when its own request is before any other in its queue, and it has received
    /// a message from every other process timestamped later than `T`."
    fn enter_if_allowed(&mut self, cx: &mut Cx<'_>) {
        if let State::Waiting { mine } = self.state
            && self.queue.head() == Some(mine)
            && others(cx).all(|other| self.heard(other, cx) > mine.stamp)
        {
            let serial = mine.serial(cx.members);
            self.state = State::Inside { mine, serial };
            cx.emit(Event::Granted { serial });
        }
    }

    fn heard(&self, other: NodeId, cx: &Cx<'_>) -> u64 {
        cx.members.position(other).and_then(|at| self.heard.get(at)).copied().unwrap_or(0)
    }

    fn hear(&mut self, from: NodeId, stamp: u64, cx: &Cx<'_>) {
        if let Some(heard) = cx.members.position(from).and_then(|at| self.heard.get_mut(at)) {
            *heard = stamp.max(*heard);
        }
    }
}

impl Default for Lamport {
    fn default() -> Lamport {
        Lamport::new()
    }
}

impl Algorithm for Lamport {
    type Message = Message;
    type Command = Command;
    type Event = Event;

    fn handle_command(&mut self, command: Command, cx: &mut Cx<'_>) {
        match (command, self.state) {
            (Command::Request { stamp }, State::Outside) => self.request(stamp, cx),
            (Command::Release, State::Inside { mine, serial }) => self.release(mine, serial, cx),
            (Command::Release, State::Waiting { mine }) => self.release(mine, 0, cx),
            (Command::Request { .. }, State::Waiting { .. } | State::Inside { .. })
            | (Command::Release, State::Outside)
            | (Command::Begin | Command::Discard, _) => {}
        }
        self.enter_if_allowed(cx); // Alone in the view, there is nobody to hear from.
    }

    fn handle_message(&mut self, from: NodeId, message: Message, cx: &mut Cx<'_>) {
        match message {
            // Rule 2: "places it on its queue and sends a timestamped acknowledgement."
            Message::Request { stamp } => {
                cx.output.overflowed |= !self.queue.insert(Request { stamp, id: from });
                self.hear(from, stamp, cx);
                cx.send(from, Message::Acknowledge { stamp: cx.lamport });
            }
            Message::Acknowledge { stamp } => self.hear(from, stamp, cx),
            // Rule 4: "removes the request from its queue."
            Message::Release { stamp, .. } => self.queue.remove(Request { stamp, id: from }),
            Message::Token { .. }
            | Message::NumberedRequest { .. }
            | Message::ListToken { .. }
            | Message::Grant { .. }
            | Message::Denied { .. }
            | Message::Ok { .. }
            | Message::Deferred { .. }
            | Message::Inquire { .. }
            | Message::Yield { .. }
            | Message::Fail { .. } => {}
        }
        self.enter_if_allowed(cx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutex::testing::Room;

    fn room(count: u16) -> Room<Lamport> {
        Room::new(&(0..count).collect::<Vec<_>>(), |_| Lamport::new())
    }

    #[test]
    fn an_entry_costs_three_messages_for_everybody_else() {
        for count in 1..9 {
            let mut room = room(count);
            room.enter_and_leave(0);
            assert_eq!(room.sent.len(), 3 * (usize::from(count) - 1));
        }
        let mut room = room(4);
        for id in 0..4 {
            room.request(id); // Also when all of them want it.
        }
        for id in 0..4 {
            room.deliver_all();
            assert_eq!(room.inside(), [id]);
            room.release(id);
        }
        room.deliver_all();
        assert_eq!(room.sent.len(), 4 * 3 * 3);
    }

    #[test]
    fn a_later_request_stands_for_the_acknowledgement() {
        let mut room = room(2);
        room.request_at(0, 8);
        room.request_at(1, 12);
        room.deliver(1, 0);
        assert_eq!(room.inside(), [0], "node 1 was heard from at 12, and what it sent before would have come before");
        room.deliver_all();
        assert_eq!(room.inside(), [0]);
        room.release(0);
        room.deliver_all();
        assert_eq!(room.inside(), [1]);
    }

    #[test]
    fn the_death_of_an_idle_node_stops_all() {
        let mut room = room(3);
        room.crash(2);
        room.request(0);
        room.settle();
        assert!(room.entered().is_empty());
    }
}
