//! Chang and Roberts' election on a ring.
//! Safety (E1): every live node names the same leader, the one with the highest id.
//! Liveness (E2): every election ends; for one starter after at most `3N − 1` messages. If all
//! start, `O(N log N)` on average and `O(N²)` in the worst order.
//! Assumes that the node says `Unreachable` of a successor that does not acknowledge within `T`,
//! so that there is a result within `3·N·T`, or whoever has waited that long starts over.

use super::{
    circle::{Circle, Cx, Part},
    on_circle::OnCircle,
};
use compasso_wire::{Duration, NodeId, Term, message::ElectionMessage as Message};
use core::cmp::Ordering;

/// One node's part in the election.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChangRoberts {
    circle: Circle,
}

impl ChangRoberts {
    /// A node that takes no part yet and knows that `seen` was claimed before.
    #[must_use]
    pub fn new(seen: Term) -> ChangRoberts {
        ChangRoberts { circle: Circle::new(seen) }
    }

    fn handle_candidate(&mut self, term: Term, id: NodeId, cx: &mut Cx<'_>) {
        let me = cx.me();
        match (self.circle.take_part(term, patience(cx), cx), id.cmp(&me)) {
            (Part::Superseded, _) => {}
            // "If the arrived identifier is greater, it forwards the message."
            (Part::Joined | Part::Participant, Ordering::Greater) => {
                self.pass(true, Message::Candidate { term, id }, cx)
            }
            // "If it is smaller and the receiver is not a participant, it substitutes its own."
            (Part::Joined, Ordering::Less) => self.pass(true, Message::Candidate { term, id: me }, cx),
            // "But it does not forward the message if it is already a participant."
            (Part::Participant, Ordering::Less) => {}
            // "If it is that of the receiver itself, then it becomes the coordinator."
            (Part::Joined | Part::Participant, Ordering::Equal) => self.lead(cx),
        }
    }
}

/// Three rounds: to the highest, its own, and the result's.
fn patience(cx: &Cx<'_>) -> Duration {
    cx.delays.answer().times(3 * cx.members.count() as u64)
}

impl OnCircle for ChangRoberts {
    fn circle(&self) -> &Circle {
        &self.circle
    }

    fn circle_mut(&mut self) -> &mut Circle {
        &mut self.circle
    }

    /// "Marks itself as a participant and places its identifier in an election message."
    fn start(&mut self, dead: Option<NodeId>, cx: &mut Cx<'_>) {
        let term = self.circle.call(dead, patience(cx), cx);
        let id = cx.me();
        self.pass(true, Message::Candidate { term, id }, cx);
    }

    fn hear(&mut self, message: Message, cx: &mut Cx<'_>) {
        match message {
            Message::Candidate { term, id } => self.handle_candidate(term, id, cx),
            Message::Elected { term, id } => {
                let next = self.circle.handle_elected(id, term, cx);
                self.go_on(next, cx);
            }
            // Another algorithm's.
            Message::Election { .. }
            | Message::Answer { .. }
            | Message::Coordinator { .. }
            | Message::ListElection { .. }
            | Message::ListCoordinator { .. }
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
            Command, Event,
            tests::{Random, settle},
        },
        testing::World,
    };

    fn world(ids: &[u16]) -> World<ChangRoberts> {
        World::new(ids, |_| ChangRoberts::new(Term::ZERO))
    }

    fn leaders(world: &World<ChangRoberts>) -> Vec<Option<NodeId>> {
        world.live().map(|(id, node)| node.leader(id).map(|(leader, _)| leader)).collect()
    }

    #[test]
    fn the_ring_of_17_24_1_28_started_by_17_elects_28_with_11_messages() {
        let mut world = world(&[17, 24, 1, 28]);
        world.command(17, Command::Start { dead: None });
        world.settle();
        assert_eq!(leaders(&world), [Some(NodeId(28)); 4]);
        assert_eq!(world.sent.len(), 11);
        let candidates: Vec<u16> = world
            .sent
            .iter()
            .filter_map(|(_, _, message)| if let Message::Candidate { id, .. } = message { Some(id.0) } else { None })
            .collect();
        assert_eq!(candidates, [17, 24, 24, 28, 28, 28, 28]);
    }

    #[test]
    fn one_starter_costs_at_most_3n_minus_1_and_that_behind_the_highest_costs_as_much() {
        for count in 2..12 {
            let ids = Random(count as u64).ring(count);
            let highest = ids.iter().position(|id| usize::from(*id) == count).unwrap();
            for (position, starter) in ids.iter().enumerate() {
                let mut world = world(&ids);
                world.command(*starter, Command::Start { dead: None });
                world.settle();
                assert!(world.sent.len() < 3 * count);
                if position == (highest + 1) % count {
                    assert_eq!(world.sent.len(), 3 * count - 1);
                }
            }
        }
    }

    #[test]
    fn if_all_start_the_worst_order_is_quadratic_and_the_average_is_not() {
        let cost = |ids: &[u16]| {
            let mut world = world(ids);
            ids.iter().for_each(|id| world.command(*id, Command::Start { dead: None }));
            world.settle();
            assert!(leaders(&world).iter().all(|leader| *leader == ids.iter().max().copied().map(NodeId)));
            world.sent.len()
        };
        let count = 32;
        let falling: Vec<u16> = (0..count as u16).rev().collect();
        assert_eq!(cost(&falling), count * (count + 1) / 2 + count);
        let rising: Vec<u16> = (0..count as u16).collect();
        assert_eq!(cost(&rising), 2 * count - 1 + count);
        let mut random = Random(5);
        let average = (0..100).map(|_| cost(&random.ring(count))).sum::<usize>() as f64 / 100.0;
        // N·(1 + 1/2 + … + 1/N) candidates' hops, and the result's round.
        let expected = (1..=count).map(|k| count as f64 / k as f64).sum::<f64>() + count as f64;
        assert!((average - expected).abs() < 0.1 * expected, "{average} instead of {expected}");
    }

    #[test]
    fn a_winner_that_dies_before_it_announces_is_replaced_after_a_time_out() {
        let mut world = world(&[17, 24, 1, 28]);
        world.command(17, Command::Start { dead: None });
        world.deliver_while(|message| !matches!(message, Message::Elected { .. }));
        world.crash(28);
        world.lose(|_| true);
        assert!([17, 24, 1].iter().all(|id| world.node(*id).leader(NodeId(*id)).is_none()));
        settle(&mut world, &mut Random(6));
        assert_eq!(leaders(&world), [Some(NodeId(24)); 3]);
    }

    #[test]
    fn a_candidate_that_died_is_taken_out_of_the_ring() {
        let mut world = world(&[17, 24, 1, 28]);
        world.command(28, Command::Start { dead: None });
        world.crash(28);
        settle(&mut world, &mut Random(7));
        assert_eq!(leaders(&world), [Some(NodeId(24)); 3]);
        assert!(
            world.events.contains(&(NodeId(1), Event::Started { term: Term::new(2, NodeId(1)) })),
            "who stepped over 28"
        );
    }

    #[test]
    fn a_higher_number_resets_participation_and_a_lower_one_is_taken_out() {
        let mut world = world(&[1, 2, 3]);
        let candidate = |counter, id| Message::Candidate { term: Term::new(counter, NodeId(id)), id: NodeId(id) };
        world.message(2, 1, candidate(1, 1));
        world.message(2, 1, candidate(1, 1));
        assert_eq!(world.sent.len(), 1, "a participant drops a smaller one");
        world.message(2, 1, candidate(2, 1));
        assert_eq!(world.sent.len(), 2, "not yet a participant of the second");
        world.message(2, 1, candidate(1, 3));
        assert_eq!(world.sent.len(), 2, "the first is superseded");
    }

    #[test]
    fn a_new_life_takes_no_part_in_an_election_of_the_last_one() {
        let mut world = World::new(&[1, 2, 3], |_| ChangRoberts::new(Term::new(4, NodeId(3))));
        world.message(3, 2, Message::Candidate { term: Term::new(4, NodeId(1)), id: NodeId(3) });
        assert!(world.events.is_empty() && world.sent.is_empty(), "it may have led in term 4 already");
        world.message(3, 2, Message::Candidate { term: Term::new(5, NodeId(1)), id: NodeId(1) });
        world.settle();
        assert_eq!(leaders(&world), [Some(NodeId(3)); 3]);
    }

    #[test]
    fn the_winners_term_is_higher_than_every_one_it_has_seen() {
        let mut world = world(&[1, 2, 3]);
        let claimed_by_3 = Term::new(1, NodeId(3));
        world.command(2, Command::Start { dead: None });
        world.message(2, 1, Message::Candidate { term: claimed_by_3, id: NodeId(2) });
        assert!(world.node(2).leader(NodeId(2)).unwrap().1 > claimed_by_3);
    }
}
