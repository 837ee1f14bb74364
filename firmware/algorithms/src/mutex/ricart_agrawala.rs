//! Mutual exclusion by everybody's permission (Ricart and Agrawala 1981).
//! Safety (ME1): of two that want to enter, the one with the smaller `(T, id)` defers its OK.
//! Liveness (ME2): whoever is inside leaves and answers those it deferred.
//! Order (ME3): requests are granted by `(T, id)`, hence in happened-before order.
//! Costs a REQUEST to and an OK from everybody else: `2(N−1)` an entry.
//! Assumes that nobody dies: `N` points of failure. With `answers_deferred` a deferral is answered
//! too, so that silence means death.
//! With `by_priority` the higher id wins instead of the older request. That breaks ME1: a high node
//! that has said OK may still overtake, since its new request needs no later time to win.
//!
//! The serial of an entry is its `(T, id)`. It grows from entry to entry: let `a` enter, and `b`
//! after it. `a` had the OK of `b`. Either `b` sent it before it made its own request: then it had
//! heard of `Ta`, and `Tb` is later. Or after: then it was WANTED, and said OK because `(Ta, a)`
//! is smaller. A request that is asked again in a new view keeps its old stamp: it must be made
//! before the node handles any message of that view, or the older stamp wins like a priority.

use super::{Command, Cx, Event, Queue, Request, others};
use crate::context::Algorithm;
use compasso_wire::{NodeId, NodeSet, message::MutexMessage as Message};

/// The textbook's three states.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Released,
    Wanted { mine: Request, oks: NodeSet },
    Held,
}

/// One node's part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RicartAgrawala {
    state: State,
    /// To be answered on exit.
    deferred: Queue,
    by_priority: bool,
    answers_deferred: bool,
}

impl RicartAgrawala {
    /// A node that does not want to enter; `by_priority` orders by id alone, and is wrong;
    /// `answers_deferred` is the improvement: always answer, OK or DEFERRED.
    #[must_use]
    pub fn new(by_priority: bool, answers_deferred: bool) -> RicartAgrawala {
        RicartAgrawala { state: State::Released, deferred: Queue::default(), by_priority, answers_deferred }
    }

    /// Whether entries follow `(T, id)`.
    #[must_use]
    pub fn promises_order(&self) -> bool {
        !self.by_priority
    }

    /// "state := WANTED; multicast request to all; T := request's timestamp."
    fn request(&mut self, stamp: u64, cx: &mut Cx<'_>) {
        self.state = State::Wanted { mine: Request { stamp, id: cx.me() }, oks: NodeSet::EMPTY };
        for other in others(cx) {
            cx.send(other, Message::Request { stamp });
        }
        self.enter_if_allowed(cx);
    }

    /// "wait until (number of replies received = N − 1); state := HELD."
    fn enter_if_allowed(&mut self, cx: &mut Cx<'_>) {
        if let State::Wanted { mine, oks } = self.state
            && oks.len() == others(cx).count()
        {
            self.state = State::Held;
            cx.emit(Event::Granted { serial: mine.serial(cx.members) });
        }
    }

    /// "if (state = HELD or (state = WANTED and (T, p_j) < (T_i, p_i))) queue the request without
    /// replying; else reply immediately."
    fn requested(&mut self, theirs: Request, cx: &mut Cx<'_>) {
        let defer = match self.state {
            State::Released => false,
            State::Wanted { mine, .. } => self.goes_first(mine, theirs),
            State::Held => true,
        };
        if !defer {
            cx.send(theirs.id, Message::Ok { stamp: theirs.stamp });
            return;
        }
        cx.output.overflowed |= !self.deferred.append(theirs);
        if self.answers_deferred {
            cx.send(theirs.id, Message::Deferred { stamp: theirs.stamp });
        }
    }

    fn goes_first(&self, mine: Request, theirs: Request) -> bool {
        if self.by_priority { mine.id > theirs.id } else { mine < theirs }
    }

    /// "state := RELEASED; reply to any queued requests."
    fn release(&mut self, cx: &mut Cx<'_>) {
        self.state = State::Released;
        while let Some(theirs) = self.deferred.pop() {
            cx.send(theirs.id, Message::Ok { stamp: theirs.stamp });
        }
    }
}

impl Algorithm for RicartAgrawala {
    type Message = Message;
    type Command = Command;
    type Event = Event;

    fn handle_command(&mut self, command: Command, cx: &mut Cx<'_>) {
        match (command, self.state) {
            (Command::Request { stamp }, State::Released) => self.request(stamp, cx),
            (Command::Release, State::Held | State::Wanted { .. }) => self.release(cx),
            (Command::Request { .. }, State::Wanted { .. } | State::Held)
            | (Command::Release, State::Released)
            | (Command::Begin | Command::Discard, _) => {}
        }
    }

    fn handle_message(&mut self, from: NodeId, message: Message, cx: &mut Cx<'_>) {
        match (message, &mut self.state) {
            (Message::Request { stamp }, _) => self.requested(Request { stamp, id: from }, cx),
            (Message::Ok { stamp }, State::Wanted { mine, oks }) if mine.stamp == stamp => {
                if let Some(position) = cx.members.position(from) {
                    oks.insert(position);
                }
                self.enter_if_allowed(cx);
            }
            // DEFERRED says that its sender lives: whoever watches for deaths reads it, not we.
            (Message::Ok { .. } | Message::Deferred { .. }, _)
            | (
                Message::Token { .. }
                | Message::NumberedRequest { .. }
                | Message::ListToken { .. }
                | Message::Grant { .. }
                | Message::Denied { .. }
                | Message::Acknowledge { .. }
                | Message::Release { .. }
                | Message::Inquire { .. }
                | Message::Yield { .. }
                | Message::Fail { .. },
                _,
            ) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutex::testing::Room;

    fn room(ids: &[u16]) -> Room<RicartAgrawala> {
        Room::new(ids, |_| RicartAgrawala::new(false, false))
    }

    /// Both ask before anything is delivered.
    fn contend(mut room: Room<RicartAgrawala>, requests: [(u16, u64); 2]) -> Room<RicartAgrawala> {
        for (id, stamp) in requests {
            room.request_at(id, stamp);
        }
        for _ in requests {
            room.deliver_all();
            let inside = room.inside();
            assert_eq!(inside.len(), 1);
            room.release(inside[0]);
        }
        room.deliver_all();
        room
    }

    #[test]
    fn eight_goes_before_twelve_and_both_cost_four_messages() {
        let room = contend(room(&[0, 1, 2]), [(0, 8), (2, 12)]);
        assert_eq!(room.entered(), [0, 2]);
        assert_eq!(room.sent.len(), 8);
        let oks_of_2 =
            room.sent.iter().filter(|(from, _, message)| from.0 == 2 && matches!(message, Message::Ok { .. }));
        assert_eq!(oks_of_2.map(|(_, to, _)| to.0).collect::<Vec<_>>(), [0], "the loser says OK to the winner only");
    }

    #[test]
    fn thirty_four_goes_before_forty_one() {
        let room = contend(room(&[1, 2, 3]), [(1, 41), (2, 34)]);
        assert_eq!(room.entered(), [2, 1]);
        assert_eq!(room.sent.len(), 8);
    }

    #[test]
    fn the_lower_id_goes_first_at_equal_times() {
        assert_eq!(contend(room(&[3, 2, 1]), [(3, 5), (2, 5)]).entered(), [2, 3]);
    }

    #[test]
    fn the_improvement_answers_a_deferral_at_once() {
        let room = Room::new(&[0, 1, 2], |_| RicartAgrawala::new(false, true));
        let room = contend(room, [(0, 8), (2, 12)]);
        assert_eq!(room.entered(), [0, 2]);
        assert_eq!(room.sent.len(), 9);
        assert!(room.sent.contains(&(NodeId(0), NodeId(2), Message::Deferred { stamp: 12 })));
    }

    #[test]
    fn an_entry_costs_two_messages_for_everybody_else() {
        for count in 1..9 {
            let mut room = room(&(0..count).collect::<Vec<_>>());
            room.enter_and_leave(0);
            assert_eq!(room.sent.len(), 2 * (usize::from(count) - 1));
        }
    }

    #[test]
    fn priorities_instead_of_times_let_two_inside() {
        for by_priority in [false, true] {
            let mut room = Room::new(&[1, 2, 3], |_| RicartAgrawala::new(by_priority, false));
            room.tolerant = true;
            room.request(1);
            room.deliver(1, 2);
            room.deliver(2, 1); // 2 does not want it, and says OK to 1.
            room.request(2);
            room.deliver(2, 1); // By time 1 defers; by priority it says OK, although it has that of 2.
            room.deliver(2, 3);
            room.deliver_all();
            assert_eq!(room.inside(), if by_priority { vec![1, 2] } else { vec![1] });
        }
    }

    #[test]
    fn an_ok_to_a_withdrawn_request_does_not_count_for_the_next() {
        let mut room = room(&[1, 2, 3]);
        room.request(1);
        room.deliver(1, 2);
        room.release(1);
        room.request(1);
        room.deliver(2, 1); // To the first request.
        room.deliver(1, 3);
        room.deliver(1, 3);
        room.deliver(3, 1);
        room.deliver(3, 1);
        assert!(room.inside().is_empty());
        room.deliver_all();
        assert_eq!(room.inside(), [1]);
    }

    #[test]
    fn a_request_asked_again_in_a_new_view_must_come_before_all_else_there() {
        for in_time in [true, false] {
            let mut room = room(&[1, 2, 3]);
            room.tolerant = true;
            if in_time {
                room.ask_again(2, 10);
            }
            room.request_at(1, 50);
            room.deliver(1, 2);
            if !in_time {
                room.deliver(2, 1); // The OK of 2, which then asks with a time that is long past.
                room.ask_again(2, 10);
                room.deliver(2, 1);
                room.deliver(2, 3);
            }
            room.deliver_all();
            assert_eq!(room.inside(), if in_time { vec![2] } else { vec![1, 2] });
        }
    }

    #[test]
    fn the_death_of_an_idle_node_stops_all() {
        let mut room = room(&[0, 1, 2]);
        room.crash(1);
        room.request(0);
        room.settle();
        assert!(room.entered().is_empty());
    }
}
