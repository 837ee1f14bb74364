//! Hirschberg and Sinclair's election: a tournament on a ring.
//! Safety (E1): every live node names the same leader, the one with the highest id.
//! Liveness (E2): every election ends, after `O(N log N)` messages: in round `r` a candidate asks
//! `2^r` neighbours on either side, and only who is the largest of them goes on.
//! The book lets all nodes start. Here one may: who is asked by a smaller one becomes a candidate.
//! Assumes that the node says `Unreachable` of a neighbour that does not acknowledge within `T`,
//! so that there is a result within `8·N·T`, or whoever has waited that long starts over.

use super::{
    circle::{Circle, Cx, Part},
    on_circle::OnCircle,
};
use compasso_wire::{Duration, NodeId, Term, message::ElectionMessage as Message};
use core::cmp::Ordering;

/// From which sides an answer is still missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Awaited {
    Both,
    /// That of the probe which went clockwise, or the other.
    One {
        clockwise: bool,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Candidacy {
    /// We only pass on what others ask.
    Relay,
    /// Our probes of this round are under way.
    Candidate { term: Term, round: u8, awaited: Awaited },
}

/// One node's part in the election.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HirschbergSinclair {
    circle: Circle,
    /// Means something only while we take part.
    candidacy: Candidacy,
}

impl HirschbergSinclair {
    /// A node that takes no part yet and knows that `seen` was claimed before.
    #[must_use]
    pub fn new(seen: Term) -> HirschbergSinclair {
        HirschbergSinclair { circle: Circle::new(seen), candidacy: Candidacy::Relay }
    }

    /// Asks `2^round` neighbours on either side.
    fn probe(&mut self, term: Term, round: u8, cx: &mut Cx<'_>) {
        self.candidacy = Candidacy::Candidate { term, round, awaited: Awaited::Both };
        let id = cx.me();
        for clockwise in [true, false] {
            self.pass(clockwise, Message::Probe { term, id, round, hops: 1, clockwise }, cx);
        }
    }

    /// Takes part if this is a new election, as a candidate if the one that asks is smaller.
    fn take_part(&mut self, term: Term, id: NodeId, cx: &mut Cx<'_>) -> Part {
        let part = self.circle.take_part(term, patience(cx), cx);
        if part == Part::Joined {
            self.candidacy = Candidacy::Relay;
            if id < cx.me() {
                self.probe(term, 0, cx);
            }
        }
        part
    }

    fn handle_reply(&mut self, term: Term, round: u8, clockwise: bool, cx: &mut Cx<'_>) {
        let (current, awaited) = match self.candidacy {
            Candidacy::Candidate { term: ours, round: current, awaited }
                if current == round && ours.counter() == term.counter() =>
            {
                (ours, awaited)
            }
            Candidacy::Candidate { .. } | Candidacy::Relay => return, // Of a round that is over.
        };
        match awaited {
            Awaited::Both => {
                let awaited = Awaited::One { clockwise: !clockwise };
                self.candidacy = Candidacy::Candidate { term: current, round, awaited };
            }
            // The largest among `2^round` neighbours on both sides: the horizon doubles.
            Awaited::One { clockwise: missing } if missing == clockwise => {
                self.probe(current, round.saturating_add(1), cx);
            }
            Awaited::One { .. } => {} // Twice from the same side.
        }
    }
}

/// All rounds of the highest (`2 + 4 + … + 2N`, and `N` for the last), those of who woke it, the result.
fn patience(cx: &Cx<'_>) -> Duration {
    cx.delays.answer().times(8 * cx.members.count() as u64)
}

/// Whether a probe of this round has gone as far as it should.
fn is_at_horizon(round: u8, hops: u16) -> bool {
    1u32.checked_shl(u32::from(round)).is_some_and(|horizon| u32::from(hops) >= horizon)
}

impl OnCircle for HirschbergSinclair {
    fn circle(&self) -> &Circle {
        &self.circle
    }

    fn circle_mut(&mut self) -> &mut Circle {
        &mut self.circle
    }

    fn start(&mut self, dead: Option<NodeId>, cx: &mut Cx<'_>) {
        let term = self.circle.call(dead, patience(cx), cx);
        self.probe(term, 0, cx);
    }

    fn hear(&mut self, message: Message, cx: &mut Cx<'_>) {
        match message {
            Message::Probe { term, id, round, hops, clockwise } => {
                match (self.take_part(term, id, cx), id.cmp(&cx.me())) {
                    // Of an election that is over, or of somebody smaller: swallowed.
                    (Part::Superseded, _) | (Part::Joined | Part::Participant, Ordering::Less) => {}
                    (Part::Joined | Part::Participant, Ordering::Greater) if is_at_horizon(round, hops) => {
                        self.pass(!clockwise, Message::Reply { term, id, round, clockwise }, cx);
                    }
                    (Part::Joined | Part::Participant, Ordering::Greater) => {
                        let hops = hops.saturating_add(1);
                        self.pass(clockwise, Message::Probe { term, id, round, hops, clockwise }, cx);
                    }
                    // Our own, all the way round: nobody is larger.
                    (Part::Joined | Part::Participant, Ordering::Equal) => self.lead(cx),
                }
            }
            Message::Reply { term, id, round, clockwise } => match (self.take_part(term, id, cx), id.cmp(&cx.me())) {
                (Part::Superseded, _) | (Part::Joined, Ordering::Less) => {}
                (Part::Joined | Part::Participant, Ordering::Equal) => {
                    self.handle_reply(term, round, clockwise, cx);
                }
                (Part::Participant, Ordering::Less) | (Part::Joined | Part::Participant, Ordering::Greater) => {
                    self.pass(!clockwise, Message::Reply { term, id, round, clockwise }, cx);
                }
            },
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
            | Message::Candidate { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        election::{
            Command,
            tests::{Random, settle},
        },
        testing::World,
    };

    fn world(ids: &[u16]) -> World<HirschbergSinclair> {
        World::new(ids, |_| HirschbergSinclair::new(Term::ZERO))
    }

    fn leaders(world: &World<HirschbergSinclair>) -> Vec<Option<NodeId>> {
        world.live().map(|(id, node)| node.leader(id).map(|(leader, _)| leader)).collect()
    }

    #[test]
    fn on_any_ring_the_highest_wins_with_o_of_n_log_n_messages() {
        let mut random = Random(1);
        for count in [1usize, 2, 3, 4, 5, 8, 13, 16, 31, 32, 33, 64] {
            let log = count.next_power_of_two().ilog2() as usize;
            let falling: Vec<u16> = (1..=count as u16).rev().collect();
            for ids in [falling, random.ring(count), random.ring(count), random.ring(count)] {
                for starters in [1, count] {
                    let mut world = world(&ids);
                    ids.iter().take(starters).for_each(|id| world.command(*id, Command::Start { dead: None }));
                    world.settle();
                    assert_eq!(leaders(&world), vec![Some(NodeId(count as u16)); count]);
                    assert!(world.sent.len() <= 8 * count * (1 + log) + count, "{} for {count}", world.sent.len());
                }
            }
        }
    }

    #[test]
    fn the_horizon_doubles_and_only_local_winners_go_on() {
        let mut world = world(&[8, 1, 5, 2, 7, 3, 6, 4]);
        (1..=8).for_each(|id| world.command(id, Command::Start { dead: None }));
        world.settle();
        let in_round = |wanted: u8| {
            let mut ids: Vec<u16> = world
                .sent
                .iter()
                .filter_map(|(_, _, message)| {
                    let Message::Probe { id, round, .. } = message else { return None };
                    (*round == wanted).then_some(id.0)
                })
                .collect();
            ids.sort();
            ids.dedup();
            ids
        };
        assert_eq!(in_round(0), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(in_round(1), [5, 6, 7, 8], "larger than both neighbours");
        assert_eq!(in_round(2), [7, 8], "than two on either side");
        assert_eq!(in_round(3), [8], "than four");
        let farthest = world.sent.iter().filter_map(|(_, _, message)| {
            let Message::Probe { hops, .. } = message else { return None };
            Some(*hops)
        });
        assert_eq!(farthest.max(), Some(8), "all the way round");
    }

    #[test]
    fn a_winner_that_dies_before_it_announces_is_replaced_after_a_time_out() {
        let mut world = world(&[17, 24, 1, 28]);
        world.command(1, Command::Start { dead: None });
        world.deliver_while(|message| !matches!(message, Message::Elected { .. }));
        world.crash(28);
        world.lose(|_| true);
        settle(&mut world, &mut Random(2));
        assert_eq!(leaders(&world), [Some(NodeId(24)); 3]);
    }

    #[test]
    fn a_reply_to_somebody_who_died_is_taken_out_of_the_ring() {
        let mut world = world(&[1, 2, 3, 4]);
        world.command(4, Command::Start { dead: None });
        world.deliver_while(|message| matches!(message, Message::Probe { .. }));
        world.crash(4);
        settle(&mut world, &mut Random(3));
        assert_eq!(leaders(&world), [Some(NodeId(3)); 3]);
    }
}
