//! What every election promises, whoever starts, whoever dies, in whatever order messages arrive.

use super::*;
use crate::testing::World;
use std::collections::BTreeMap;

const ALL: [ElectionChoice; 5] = [
    ElectionChoice::Bully,
    ElectionChoice::Ring,
    ElectionChoice::ChangRoberts,
    ElectionChoice::HirschbergSinclair,
    ElectionChoice::Detector,
];

pub(super) struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32
    }

    pub fn below(&mut self, limit: usize) -> usize {
        self.next() as usize % limit
    }

    /// The ids 1 to `count` in some order.
    pub fn ring(&mut self, count: usize) -> Vec<u16> {
        let mut ids: Vec<u16> = (1..=count as u16).collect();
        for at in (1..count).rev() {
            ids.swap(at, self.below(at + 1));
        }
        ids
    }
}

fn is_live<A>(world: &World<A>, id: NodeId) -> bool
where
    A: Algorithm<Message = Message, Command = Command, Event = Event>,
{
    world.live().any(|(live, _)| live == id)
}

/// Delivers everything. The dead do not acknowledge, and the sender is told.
pub(super) fn deliver<A>(world: &mut World<A>, random: &mut Random)
where
    A: Algorithm<Message = Message, Command = Command, Event = Event>,
{
    for _ in 0..10_000 {
        let Some((from, to)) = world.deliver_one_of(random.next()) else { return };
        if !is_live(world, to) {
            world.command(from.0, Command::Unreachable { id: to });
        }
    }
    panic!("a message goes round for ever");
}

/// Delivers everything and lets every deadline pass.
pub(super) fn settle<A>(world: &mut World<A>, random: &mut Random)
where
    A: Algorithm<Message = Message, Command = Command, Event = Event>,
{
    for _ in 0..100 {
        deliver(world, random);
        if !world.pass_one_deadline() {
            return;
        }
    }
    panic!("never settles");
}

/// What the node adds: leaders' heartbeats, and deaths of leaders noticed.
fn settle_with_heartbeats(world: &mut World<Election>, random: &mut Random) {
    for _ in 0..10 {
        settle(world, random);
        let named: Vec<_> = world.live().map(|(id, election)| (id, election.leader(id))).collect();
        for (id, leader) in &named {
            match *leader {
                Some((leader, term)) if leader == *id => {
                    for (other, _) in named.iter().filter(|(other, _)| other != id) {
                        world.command(other.0, Command::Observe { leader, term });
                    }
                }
                Some((leader, _)) if !is_live(world, leader) => {
                    world.command(id.0, Command::Suspected { id: leader });
                    world.command(id.0, Command::Start { dead: Some(leader) });
                }
                Some(_) | None => {}
            }
        }
        settle(world, random);
    }
}

fn world(choice: ElectionChoice, ids: &[u16]) -> World<Election> {
    World::new(ids, |_| Election::new(choice, Term::ZERO))
}

/// Every live node names the highest of them, in one term.
fn assert_agreed(world: &World<Election>, context: &str) {
    let highest = world.live().map(|(id, _)| id).max().unwrap();
    let term =
        world.live().find_map(|(id, election)| election.leader(id).filter(|_| id == highest)).map(|(_, term)| term);
    for (id, election) in world.live() {
        assert_eq!(election.leader(id), term.map(|term| (highest, term)), "{context}: at {id}");
    }
    assert!(term.is_some(), "{context}");
    assert_terms(world, context);
}

/// A term has one leader, which is its claimant, and which takes it up once.
fn assert_terms(world: &World<Election>, context: &str) {
    let mut taken_up: BTreeMap<Term, usize> = BTreeMap::new();
    for (id, event) in &world.events {
        match *event {
            Event::Elected { leader, term } => {
                assert_eq!(term.claimant(), leader, "{context}");
                if *id == leader {
                    *taken_up.entry(term).or_default() += 1;
                }
            }
            Event::Started { .. } | Event::Joined { .. } => {}
        }
    }
    assert!(taken_up.values().all(|times| *times == 1), "{context}: a term was used twice");
}

/// A world with up to two dead in which somebody starts.
fn started(choice: ElectionChoice, random: &mut Random) -> World<Election> {
    let count = 2 + random.below(9);
    let ids = random.ring(count);
    let mut world = world(choice, &ids);
    let dead: Vec<u16> = (0..random.below(3).min(count - 1)).map(|_| ids[random.below(count)]).collect();
    dead.iter().for_each(|id| world.crash(*id));
    let live: Vec<u16> = world.live().map(|(id, _)| id.0).collect();
    let noticed = dead.first().copied().map(NodeId);
    let first = live[random.below(live.len())];
    for id in live {
        let everybody_watches = choice == ElectionChoice::Detector;
        if everybody_watches {
            dead.iter().for_each(|dead| world.command(id, Command::Suspected { id: NodeId(*dead) }));
        }
        if everybody_watches || id == first || random.below(3) == 0 {
            world.command(id, Command::Start { dead: noticed });
        }
    }
    world
}

#[test]
fn whoever_starts_and_whoever_is_dead_all_name_the_highest_live_id() {
    for choice in ALL {
        for seed in 0..400 {
            let mut random = Random(seed);
            let mut world = started(choice, &mut random);
            settle(&mut world, &mut random);
            if choice == ElectionChoice::Detector {
                settle_with_heartbeats(&mut world, &mut random);
            }
            assert_agreed(&world, &format!("{choice:?}, seed {seed}"));
        }
    }
}

#[test]
fn a_crash_in_the_middle_of_an_election_delays_it_and_no_more() {
    for choice in ALL {
        for seed in 0..400 {
            let mut random = Random(seed);
            let mut world = started(choice, &mut random);
            for _ in 0..random.below(30) {
                world.deliver_one_of(random.next());
            }
            let live: Vec<u16> = world.live().map(|(id, _)| id.0).collect();
            if live.len() > 1 {
                let victim = live[random.below(live.len())];
                world.crash(victim);
                let one = live.iter().find(|id| **id != victim).copied().unwrap();
                let others = live.iter().filter(|id| **id != victim);
                if choice == ElectionChoice::Detector {
                    others.for_each(|id| world.command(*id, Command::Suspected { id: NodeId(victim) }));
                }
                settle(&mut world, &mut random);
                // Somebody misses the one that died, or nobody has started any more.
                world.command(one, Command::Start { dead: Some(NodeId(victim)) });
            }
            settle_with_heartbeats(&mut world, &mut random);
            assert_agreed(&world, &format!("{choice:?}, seed {seed}"));
        }
    }
}

#[test]
fn a_wrong_suspicion_is_corrected_by_the_leaders_heartbeat() {
    for choice in ALL {
        for seed in 0..200 {
            let mut random = Random(seed);
            let mut world = started(choice, &mut random);
            let live: Vec<u16> = world.live().map(|(id, _)| id.0).collect();
            for _ in 0..random.below(20) {
                world.deliver_one_of(random.next());
                if random.below(3) == 0 {
                    let (by, id) = (live[random.below(live.len())], NodeId(live[random.below(live.len())]));
                    world.command(by, Command::Unreachable { id });
                }
            }
            settle_with_heartbeats(&mut world, &mut random);
            assert_agreed(&world, &format!("{choice:?}, seed {seed}"));
        }
    }
}

#[test]
fn lost_messages_delay_an_election_and_no_more() {
    for choice in ALL {
        for seed in 0..200 {
            let mut random = Random(seed);
            let mut world = started(choice, &mut random);
            for _ in 0..random.below(30) {
                world.deliver_one_of(random.next());
            }
            world.lose(|_| true);
            settle_with_heartbeats(&mut world, &mut random);
            assert_agreed(&world, &format!("{choice:?}, seed {seed}"));
        }
    }
}

#[test]
fn the_highest_takes_over_when_it_comes_back_in_a_term_it_never_had() {
    for choice in ALL {
        let mut random = Random(1);
        let mut world = world(choice, &[3, 1, 4, 2]);
        (1..=4).for_each(|id| world.command(id, Command::Start { dead: None }));
        settle_with_heartbeats(&mut world, &mut random);
        assert_agreed(&world, "at first");
        let before = world.node(4).leader(NodeId(4)).unwrap().1;
        let stored = world.node(4).seen();
        world.crash(4);
        settle_with_heartbeats(&mut world, &mut random);
        assert_agreed(&world, "without the highest");
        world.revive(4, Election::new(choice, stored));
        (1..4).for_each(|id| world.command(id, Command::Trusted { id: NodeId(4) }));
        let term = world.node(3).leader(NodeId(3)).unwrap().1;
        world.command(4, Command::Observe { leader: NodeId(3), term });
        settle_with_heartbeats(&mut world, &mut random);
        assert_agreed(&world, &format!("{choice:?}: with the highest again"));
        assert!(world.node(4).leader(NodeId(4)).unwrap().1 > term.max(before));
    }
}

#[test]
fn a_leader_that_hears_of_a_higher_term_outbids_it() {
    for choice in ALL {
        let mut random = Random(2);
        let mut world = world(choice, &[1, 2, 3]);
        let (leader, term) = (NodeId(3), Term::new(1, NodeId(3)));
        (1..=3).for_each(|id| world.command(id, Command::Assume { leader, term }));
        let higher = Term::new(9, NodeId(2));
        world.command(3, Command::Note { term: higher });
        assert_eq!(world.node(3).leader(NodeId(3)), None, "{choice:?}");
        world.command(3, Command::Start { dead: None });
        settle_with_heartbeats(&mut world, &mut random);
        assert_agreed(&world, &format!("{choice:?}"));
        assert!(world.node(3).leader(NodeId(3)).unwrap().1 > higher);
    }
}

#[test]
fn without_an_election_the_highest_leads_whatever_anybody_suspects() {
    let mut world = world(ElectionChoice::None, &[1, 2, 3]);
    let (leader, term) = (NodeId(3), Term::new(1, NodeId(3)));
    (1..=3).for_each(|id| world.command(id, Command::Assume { leader, term }));
    world.command(2, Command::Suspected { id: leader });
    world.command(2, Command::Unreachable { id: leader });
    assert_agreed(&world, "nothing changed");
    world.command(2, Command::Start { dead: Some(leader) });
    assert_eq!(world.node(2).leader(NodeId(2)), None, "whoever asks waits for the highest");
    world.command(3, Command::Note { term: Term::new(4, NodeId(1)) });
    world.command(3, Command::Start { dead: None });
    settle_with_heartbeats(&mut world, &mut Random(3));
    assert_agreed(&world, "in a higher term");
}

#[test]
fn a_node_watches_its_leader_or_where_the_detector_elects_everybody() {
    let (leader, term) = (NodeId(3), Term::new(1, NodeId(3)));
    let members = Members::new(&[1, 2, 3].map(NodeId), NodeId(1)).unwrap();
    for choice in ALL {
        let mut world = world(choice, &[1, 2, 3]);
        world.command(1, Command::Assume { leader, term });
        let watched: Vec<_> = world.node(1).watches(&members).iter().collect();
        assert_eq!(watched, if choice == ElectionChoice::Detector { vec![1, 2] } else { vec![2] });
    }
}

#[test]
fn who_is_alone_leads_and_who_is_not_a_member_is_ignored() {
    for choice in ALL {
        let mut world = world(choice, &[7]);
        world.command(7, Command::Unreachable { id: NodeId(99) });
        world.command(7, Command::Start { dead: Some(NodeId(99)) });
        settle(&mut world, &mut Random(4));
        assert_agreed(&world, &format!("{choice:?}"));
    }
    for stray in [
        Message::Candidate { term: Term::new(5, NodeId(99)), id: NodeId(99) },
        Message::ListElection { term: Term::new(5, NodeId(99)), list: compasso_wire::RingList::default() },
        Message::Probe { term: Term::new(5, NodeId(99)), id: NodeId(99), round: 255, hops: u16::MAX, clockwise: true },
        Message::Elected { term: Term::new(5, NodeId(99)), id: NodeId(99) },
    ] {
        for choice in ALL {
            let mut world = world(choice, &[1, 2]);
            world.message(1, 2, stray);
            assert!(world.sent.is_empty(), "{choice:?}");
            assert_eq!(world.node(1).leader(NodeId(1)), None);
        }
    }
}
