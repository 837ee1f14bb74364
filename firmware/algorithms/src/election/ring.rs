//! Election on a ring with a list.
//! Safety (E1): every live node names the same leader, the one with the highest id.
//! Liveness (E2): every election ends; for one starter after `2N` messages.
//! Assumes that the node says `Unreachable` of a successor that does not acknowledge within `T`,
//! so that a message is back within `N·T` or its originator starts over; and COORDINATOR within
//! `N·T` more, or the participants do.

use super::{
    circle::{Circle, Cx, Part},
    on_circle::OnCircle,
};
use compasso_wire::{Duration, NodeId, RingList as List, Term, message::ElectionMessage as Message};

/// One node's part in the election.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ring {
    circle: Circle,
}

impl Ring {
    /// A node that takes no part yet and knows that `seen` was claimed before.
    #[must_use]
    pub fn new(seen: Term) -> Ring {
        Ring { circle: Circle::new(seen) }
    }

    fn handle_election(&mut self, term: Term, mut list: List, cx: &mut Cx<'_>) {
        let me = cx.members.my_position();
        if self.circle.take_part(term, round(cx).times(2), cx) == Part::Superseded {
            return;
        }
        if usize::from(list.first) == me {
            return self.announce(list, cx);
        }
        // Once round without its originator noticing: that one is gone, and the message with it.
        if list.members.contains(me) {
            return;
        }
        list.members.insert(me);
        self.pass(true, Message::ListElection { term, list }, cx);
    }

    /// "The message gets back to the process that started it all": COORDINATOR goes round.
    fn announce(&mut self, list: List, cx: &mut Cx<'_>) {
        let leader = cx.members.of(list.members).max().unwrap_or(cx.me());
        let Some(term) = self.circle.term_for(leader) else { return };
        self.circle.conclude(leader, term, cx);
        self.pass(true, Message::ListCoordinator { term, leader, list }, cx);
    }

    fn handle_coordinator(&mut self, term: Term, leader: NodeId, list: List, cx: &mut Cx<'_>) {
        let me = cx.me();
        if usize::from(list.first) == cx.members.my_position() || !self.circle.accepts(term) {
            return; // Round once more, or superseded.
        }
        // Another made this term for the leader: it must be one that the leader can take up.
        let is_known = self.circle.leader(me) == Some((leader, term));
        if leader < me || (leader == me && !is_known && !self.circle.may_lead_in(term)) {
            let next = self.circle.outbid(term);
            return self.go_on(next, cx);
        }
        self.circle.conclude(leader, term, cx);
        self.pass(true, Message::ListCoordinator { term, leader, list }, cx);
    }
}

/// A list of this node alone.
fn my_list(cx: &Cx<'_>) -> List {
    let mut list = List { first: cx.members.my_position() as u16, ..List::default() };
    list.members.insert(cx.members.my_position());
    list
}

/// `N·T`: the longest that a message takes to come back, if it does.
fn round(cx: &Cx<'_>) -> Duration {
    cx.delays.answer().times(cx.members.count() as u64)
}

impl OnCircle for Ring {
    fn circle(&self) -> &Circle {
        &self.circle
    }

    fn circle_mut(&mut self) -> &mut Circle {
        &mut self.circle
    }

    /// "P builds an ELECTION message containing its own number and sends it to its successor."
    fn start(&mut self, dead: Option<NodeId>, cx: &mut Cx<'_>) {
        let term = self.circle.call(dead, round(cx), cx);
        self.pass(true, Message::ListElection { term, list: my_list(cx) }, cx);
    }

    /// COORDINATOR goes round with a list of this node alone.
    fn lead(&mut self, cx: &mut Cx<'_>) {
        self.announce(my_list(cx), cx);
    }

    fn hear(&mut self, message: Message, cx: &mut Cx<'_>) {
        match message {
            Message::ListElection { term, list } => self.handle_election(term, list, cx),
            Message::ListCoordinator { term, leader, list } => self.handle_coordinator(term, leader, list, cx),
            // Another algorithm's.
            Message::Election { .. }
            | Message::Answer { .. }
            | Message::Coordinator { .. }
            | Message::Candidate { .. }
            | Message::Elected { .. }
            | Message::Probe { .. }
            | Message::Reply { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        election::{
            Command,
            tests::{Random, deliver, settle},
        },
        members::Members,
        testing::World,
    };

    fn world(ids: &[u16]) -> World<Ring> {
        World::new(ids, |_| Ring::new(Term::ZERO))
    }

    fn members(ids: &[u16]) -> Members {
        let ids: Vec<NodeId> = ids.iter().copied().map(NodeId).collect();
        Members::new(&ids, ids[0]).unwrap()
    }

    fn leaders(world: &World<Ring>) -> Vec<Option<NodeId>> {
        world.live().map(|(id, node)| node.leader(id).map(|(leader, _)| leader)).collect()
    }

    #[test]
    fn two_and_five_both_start_with_seven_dead_and_both_runs_end_with_six() {
        let mut world = world(&[0, 1, 2, 3, 4, 5, 6, 7]);
        world.crash(7);
        for starter in [2, 5] {
            world.command(starter, Command::Start { dead: Some(NodeId(7)) });
        }
        world.deliver_while(|_| true);
        assert_eq!(
            world.sent.iter().filter(|(from, to, _)| (from.0, to.0) == (6, 7)).count(),
            2,
            "both runs stop at 7"
        );
        world.command(6, Command::Unreachable { id: NodeId(7) });
        world.deliver_while(|_| true);
        assert_eq!(leaders(&world), [Some(NodeId(6)); 7]);
        let mut ends: Vec<_> = world
            .sent
            .iter()
            .filter_map(|(_, _, message)| {
                let Message::ListCoordinator { leader, list, .. } = message else { return None };
                Some((list.first, *leader, list.members.len()))
            })
            .collect();
        ends.sort();
        ends.dedup();
        assert_eq!(ends, [(2, NodeId(6), 7), (5, NodeId(6), 7)]);
        assert_eq!(world.poll_deadline(), None, "both are over");
    }

    #[test]
    fn one_starter_costs_2n_messages_and_one_more_for_a_dead_node() {
        for count in 2..10 {
            let ids = Random(count as u64).ring(count);
            for starter in &ids {
                let mut all = world(&ids);
                all.command(*starter, Command::Start { dead: None });
                all.settle();
                assert_eq!(all.sent.len(), 2 * count);
                assert_eq!(leaders(&all), vec![Some(NodeId(count as u16)); count]);
            }
            let mut one_dead = world(&ids);
            one_dead.crash(count as u16);
            one_dead.command(1, Command::Start { dead: None });
            deliver(&mut one_dead, &mut Random(0));
            let expected = if count == 2 { 1 } else { 2 * (count - 1) + 1 };
            assert_eq!(one_dead.sent.len(), expected, "N = {count}");
            assert_eq!(leaders(&one_dead), vec![Some(NodeId(count as u16 - 1)); count - 1]);
        }
    }

    #[test]
    fn the_list_names_everybody_who_was_passed() {
        let mut world = world(&[3, 1, 2]);
        world.command(1, Command::Start { dead: None });
        world.settle();
        let last = world.sent.iter().rev().find_map(|(_, _, message)| {
            let Message::ListElection { list, .. } = message else { return None };
            Some(*list)
        });
        assert_eq!(members(&[3, 1, 2]).listed(last.unwrap()), [1, 2, 3]);
    }

    #[test]
    fn an_originator_that_dies_leaves_no_message_behind() {
        let mut world = world(&[1, 2, 3, 4]);
        world.command(2, Command::Start { dead: None });
        world.crash(2);
        settle(&mut world, &mut Random(1));
        assert_eq!(leaders(&world), [Some(NodeId(4)); 3]);
    }

    #[test]
    fn a_winner_that_dies_before_it_is_announced_is_replaced() {
        let mut world = world(&[1, 2, 3, 4]);
        world.command(2, Command::Start { dead: None });
        world.deliver_while(|message| !matches!(message, Message::ListCoordinator { .. }));
        world.crash(4);
        settle(&mut world, &mut Random(2));
        assert_eq!(leaders(&world), [Some(NodeId(3)); 3]);
    }

    #[test]
    fn a_leader_refuses_a_term_that_it_may_have_had_and_claims_a_higher_one() {
        let mut world = World::new(&[1, 2], |_| Ring::new(Term::new(3, NodeId(2))));
        let list = members(&[1, 2]).list(&[1, 2]).unwrap();
        let stale = Message::ListCoordinator { term: Term::new(3, NodeId(2)), leader: NodeId(2), list };
        world.message(2, 1, stale);
        assert_eq!(world.node(2).leader(NodeId(2)), None);
        world.settle();
        assert_eq!(world.node(2).leader(NodeId(2)), Some((NodeId(2), Term::new(4, NodeId(2)))));
        assert_eq!(world.node(1).leader(NodeId(1)), Some((NodeId(2), Term::new(4, NodeId(2)))));
    }

    #[test]
    fn a_result_of_a_superseded_term_is_refused() {
        let mut world = world(&[1, 2, 3]);
        world.command(1, Command::Observe { leader: NodeId(2), term: Term::new(5, NodeId(2)) });
        let list = members(&[1, 2, 3]).list(&[2, 3, 1]).unwrap();
        world.message(1, 3, Message::ListCoordinator { term: Term::new(4, NodeId(3)), leader: NodeId(3), list });
        assert_eq!(world.node(1).leader(NodeId(1)), Some((NodeId(2), Term::new(5, NodeId(2)))));
        assert!(world.sent.is_empty());
    }
}
