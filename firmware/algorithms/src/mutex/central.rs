//! Mutual exclusion by a central server: the coordinator.
//! Safety (ME1): the server grants one request at a time.
//! Liveness (ME2): the others wait in one queue, first come first served.
//! Order (ME3) is not promised: a later request may reach the server first.
//! Costs REQUEST, GRANT and RELEASE an entry; the server's own entries cost nothing.
//! Assumes that the server lives, and whoever waits or is inside: to a client, a dead server looks
//! like a busy one. Only the death of an idle client disturbs nobody.

use super::{Command, Cx, Event, Queue, Request, hear_self};
use crate::context::Algorithm;
use compasso_wire::{NodeId, message::MutexMessage as Message};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Client {
    Outside,
    Waiting { stamp: u64 },
    Inside { stamp: u64, serial: u64 },
}

/// What the coordinator keeps; idle at everybody else.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Server {
    holder: Option<Request>,
    queue: Queue,
    /// Of the last entry: one counter for all, so it grows from entry to entry.
    serial: u64,
}

/// One node's part: a client, and the server if it is the coordinator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Central {
    client: Client,
    server: Server,
}

impl Central {
    /// A node that does not want to enter.
    #[must_use]
    pub fn new() -> Central {
        Central { client: Client::Outside, server: Server { holder: None, queue: Queue::default(), serial: 0 } }
    }

    fn obey(&mut self, command: Command, cx: &mut Cx<'_>) {
        match (command, self.client) {
            (Command::Request { stamp }, Client::Outside) => {
                self.client = Client::Waiting { stamp };
                cx.send(cx.leader, Message::Request { stamp });
            }
            (Command::Release, Client::Inside { stamp, serial }) => self.release(stamp, serial, cx),
            (Command::Release, Client::Waiting { stamp }) => self.release(stamp, 0, cx),
            (Command::Request { .. }, Client::Waiting { .. } | Client::Inside { .. })
            | (Command::Release, Client::Outside)
            | (Command::Begin | Command::Discard, _) => {}
        }
    }

    fn release(&mut self, stamp: u64, serial: u64, cx: &mut Cx<'_>) {
        self.client = Client::Outside;
        cx.send(cx.leader, Message::Release { stamp, serial });
    }

    fn hear(&mut self, from: NodeId, message: Message, cx: &mut Cx<'_>) {
        match message {
            Message::Request { stamp } if cx.leader == cx.me() => {
                self.server.requested(Request { stamp, id: from }, cx)
            }
            Message::Release { stamp, .. } if cx.leader == cx.me() => {
                self.server.released(Request { stamp, id: from }, cx)
            }
            Message::Grant { stamp, serial } if self.client == (Client::Waiting { stamp }) => {
                self.client = Client::Inside { stamp, serial };
                cx.emit(Event::Granted { serial });
            }
            Message::Request { .. }
            | Message::Release { .. }
            | Message::Grant { .. }
            | Message::Token { .. }
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
}

impl Server {
    /// "If nobody is inside, the server grants at once; otherwise it queues the request."
    fn requested(&mut self, request: Request, cx: &mut Cx<'_>) {
        match self.holder {
            None => self.grant(request, cx),
            Some(_) => cx.output.overflowed |= !self.queue.append(request),
        }
    }

    /// "On RELEASE it takes the oldest request from the queue and grants it."
    fn released(&mut self, request: Request, cx: &mut Cx<'_>) {
        if self.holder != Some(request) {
            self.queue.remove(request); // Withdrawn while it waited.
            return;
        }
        self.holder = None;
        if let Some(next) = self.queue.pop() {
            self.grant(next, cx);
        }
    }

    fn grant(&mut self, request: Request, cx: &mut Cx<'_>) {
        self.holder = Some(request);
        self.serial += 1;
        cx.send(request.id, Message::Grant { stamp: request.stamp, serial: self.serial });
    }
}

impl Default for Central {
    fn default() -> Central {
        Central::new()
    }
}

impl Algorithm for Central {
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
    use crate::mutex::testing::Room;

    fn room() -> Room<Central> {
        Room::new(&[0, 1, 2, 3], |_| Central::new())
    }

    #[test]
    fn an_entry_costs_three_messages_and_the_coordinators_own_none() {
        let mut room = room();
        room.enter_and_leave(1);
        assert_eq!(room.sent.len(), 3);
        room.enter_and_leave(3);
        assert_eq!(room.sent.len(), 3);
        assert_eq!(room.entered(), [1, 3]);
    }

    #[test]
    fn requests_are_served_in_the_order_of_their_arrival_not_of_their_time() {
        let mut room = room();
        for id in [3, 0, 1] {
            room.request(id);
        }
        room.deliver(1, 3);
        room.deliver(0, 3);
        for id in [3, 1, 0] {
            room.deliver_all();
            assert_eq!(room.inside(), [id]);
            room.release(id);
        }
    }

    #[test]
    fn a_withdrawn_request_is_not_granted_nor_in_the_way() {
        let mut room = room();
        for id in [3, 0, 1] {
            room.request(id);
            room.deliver_all();
        }
        room.release(0);
        room.deliver_all();
        room.release(3);
        room.deliver_all();
        assert_eq!(room.entered(), [3, 1]);
        room.release(1);
        room.request(0);
        room.deliver(1, 3);
        room.deliver(0, 3);
        room.release(0); // While the GRANT is on its way.
        room.deliver_all();
        room.enter_and_leave(2);
        assert_eq!(room.entered(), [3, 1, 2]);
    }

    #[test]
    fn the_death_of_an_idle_client_disturbs_nobody_and_that_of_the_coordinator_stops_all() {
        let mut room = room();
        room.crash(2);
        room.enter_and_leave(1);
        room.crash(3);
        room.request(0);
        room.settle();
        assert_eq!(room.entered(), [1]);
    }
}
