//! Deadlock detection by probes (Chandy, Misra and Haas 1983, AND model).
//! A blocked node sends `probe(blocked, sender, receiver)` to each node it waits for. A blocked receiver keeps
//! the first field, replaces the other two and forwards to everybody **it** waits for, once a probe. The probe
//! that comes back to `blocked` has gone round a circle.
//! Liveness: in a standing circle every node's probe returns, so it is found within one round of probes.
//! Safety of the textbook's form: only if nothing changes while a probe is under way.
//!
//! Hardened, a probe also carries its way, each node with the number of its wait, which changes whenever that node
//! gets, gives back or asks for anything. A receiver passes it on only if it really holds what the sender waits
//! for. When the probe has returned, a second one follows the same way, and everybody on it confirms that its wait
//! is the same. At the moment at which the first returned, each node on the way therefore waited for the resource
//! that it named, and its successor held it: the circle existed then, whatever crossed on the network.

use compasso_wire::{
    NodeId, ResourceId,
    limits::MEMBERS_MAX,
    locks::{Age, Hop, Path},
};
use heapless::Vec;

/// One probe on its way to the holder of `resource`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Probe {
    /// For this the sender waits.
    pub resource: ResourceId,
    /// The how-manieth of the blocked node.
    pub round: u16,
    /// It follows its way a second time.
    pub confirming: bool,
    /// The way so far, or the whole circle when confirming: the blocked node first, the sender last.
    pub path: Path,
    /// The youngest transaction on the way.
    pub youngest: Age,
}

/// How this node stands when a probe arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standing {
    /// Who it is.
    pub node: NodeId,
    /// Its transaction.
    pub age: Age,
    /// The number of its wait.
    pub wait: u16,
    /// It waits for somebody.
    pub blocked: bool,
    /// It holds the resource that the probe names.
    pub holds: bool,
}

/// What a probe leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heard {
    /// The branch ends here.
    Nothing,
    /// To everybody for whom this node waits, each with the resource that it waits for.
    Forward(Probe),
    /// To this one, who is next on the way.
    Confirm(NodeId, Probe),
    /// A deadlock of those on the way; the transaction is the victim.
    Deadlock(Probe),
}

/// One node's part in the detection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Prober {
    /// Hardened: the way is checked, and gone a second time.
    confirms: bool,
    round: u16,
    /// The last round of each member that was passed on here, by position; 0 for none.
    passed_on: Vec<u16, MEMBERS_MAX>,
}

impl Prober {
    /// For a cluster of so many; `confirms` if nothing but a confirmed circle counts.
    #[must_use]
    pub fn new(members: usize, confirms: bool) -> Prober {
        Prober { confirms, round: 0, passed_on: (0..members.min(MEMBERS_MAX)).map(|_| 0).collect() }
    }

    /// A new probe of this blocked node, to be sent to each node that it waits for.
    pub fn start(&mut self, standing: &Standing) -> Probe {
        self.round = self.round.checked_add(1).unwrap_or(1);
        let path = [Hop { node: standing.node, wait: standing.wait }].into_iter().collect();
        let (resource, round, youngest) = (ResourceId(0), self.round, standing.age);
        Probe { resource, round, confirming: false, path, youngest }
    }

    /// Takes a probe; `origin` is the position of the node that began it.
    pub fn handle(&mut self, origin: usize, mut probe: Probe, standing: &Standing) -> Heard {
        if probe.confirming {
            return self.confirm(probe, standing);
        }
        if !standing.blocked || (self.confirms && !standing.holds) {
            return Heard::Nothing; // It is running, or the sender waits for it no more.
        }
        let Some(blocked) = probe.path.hops().first().copied() else { return Heard::Nothing };
        if blocked.node == standing.node {
            return self.returned(probe, blocked, standing);
        }
        match self.passed_on.get_mut(origin) {
            Some(last) if *last != probe.round => *last = probe.round,
            Some(_) | None => return Heard::Nothing,
        }
        if !probe.path.push(Hop { node: standing.node, wait: standing.wait }) {
            return Heard::Nothing; // Longer than any circle.
        }
        probe.youngest = probe.youngest.max(standing.age);
        Heard::Forward(probe)
    }

    /// "The probe returns to `blocked`: a circle, a deadlock."
    fn returned(&self, mut probe: Probe, blocked: Hop, standing: &Standing) -> Heard {
        if !self.confirms {
            return Heard::Deadlock(probe);
        }
        if blocked.wait != standing.wait {
            return Heard::Nothing;
        }
        probe.confirming = true;
        match probe.path.hops().get(1) {
            Some(next) => Heard::Confirm(next.node, probe),
            None => Heard::Nothing,
        }
    }

    fn confirm(&self, probe: Probe, standing: &Standing) -> Heard {
        let mine = probe.path.hops().iter().position(|hop| hop.node == standing.node && hop.wait == standing.wait);
        match mine {
            None => Heard::Nothing, // Its wait is another one: what the way says was not so at one moment.
            Some(0) => Heard::Deadlock(probe),
            Some(at) => match probe.path.hops().get(at + 1).or(probe.path.hops().first()) {
                Some(next) => Heard::Confirm(next.node, probe),
                None => Heard::Nothing,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet, VecDeque};

    /// Nodes that wait for each other: a resource for each edge, held by whom it leads to.
    struct World {
        waits: BTreeMap<u16, std::vec::Vec<u16>>,
        wait_numbers: BTreeMap<u16, u16>,
        probers: BTreeMap<u16, Prober>,
        sent: std::vec::Vec<(u16, u16, u16)>,
        found: std::vec::Vec<(u16, BTreeSet<u16>, u16)>,
    }

    impl World {
        fn new(confirms: bool, edges: &[(u16, u16)]) -> World {
            let mut waits: BTreeMap<u16, std::vec::Vec<u16>> = BTreeMap::new();
            edges.iter().for_each(|(from, to)| waits.entry(*from).or_default().push(*to));
            World {
                waits,
                wait_numbers: BTreeMap::new(),
                probers: (0..9).map(|id| (id, Prober::new(9, confirms))).collect(),
                sent: std::vec::Vec::new(),
                found: std::vec::Vec::new(),
            }
        }

        fn standing(&self, id: u16, sender: Option<u16>) -> Standing {
            let waits_for = |id: u16| self.waits.get(&id).cloned().unwrap_or_default();
            Standing {
                node: NodeId(id),
                age: Age { stamp: 100 + u64::from(id), node: NodeId(id) },
                wait: self.wait_numbers.get(&id).copied().unwrap_or(7),
                blocked: !waits_for(id).is_empty(),
                holds: sender.is_some_and(|sender| waits_for(sender).contains(&id)),
            }
        }

        /// The probe of `blocked`, passed on until nothing is under way; `meanwhile` may change the world
        /// before each delivery.
        fn search(&mut self, blocked: u16, meanwhile: impl Fn(&mut World, u16, &Probe)) {
            let standing = self.standing(blocked, None);
            let probe = self.probers.get_mut(&blocked).unwrap().start(&standing);
            let mut under_way: VecDeque<(u16, u16, Probe)> = VecDeque::new();
            let to_all = |world: &World, from: u16, probe: Probe, under_way: &mut VecDeque<_>| {
                for to in world.waits.get(&from).into_iter().flatten() {
                    under_way.push_back((from, *to, probe));
                }
            };
            to_all(self, blocked, probe, &mut under_way);
            while let Some((from, to, probe)) = under_way.pop_front() {
                meanwhile(self, to, &probe);
                if !probe.confirming {
                    self.sent.push((probe.path.hops()[0].node.0, from, to));
                }
                let standing = self.standing(to, Some(from));
                match self.probers.get_mut(&to).unwrap().handle(usize::from(blocked), probe, &standing) {
                    Heard::Nothing => {}
                    Heard::Forward(probe) => to_all(self, to, probe, &mut under_way),
                    Heard::Confirm(next, probe) => under_way.push_back((to, next.0, probe)),
                    Heard::Deadlock(probe) => {
                        let cycle = probe.path.hops().iter().map(|hop| hop.node.0).collect();
                        self.found.push((to, cycle, probe.youngest.node.0));
                    }
                }
            }
        }
    }

    /// The catalogue's example: 7 runs.
    const EXAMPLE: [(u16, u16); 9] = [(0, 1), (1, 2), (2, 3), (2, 4), (3, 5), (4, 6), (5, 7), (6, 8), (8, 0)];

    #[test]
    fn the_probe_of_0_comes_back_from_8_and_that_is_a_deadlock() {
        for confirms in [false, true] {
            let mut world = World::new(confirms, &EXAMPLE);
            world.search(0, |_, _, _| {});
            assert!(world.sent.contains(&(0, 8, 0)), "{:?}", world.sent);
            assert!(world.sent.contains(&(0, 5, 7)), "the branch that ends at 7, which runs");
            assert_eq!(world.sent.len(), EXAMPLE.len(), "one probe an edge: {:?}", world.sent);
            assert_eq!(world.found, [(0, BTreeSet::from([0, 1, 2, 4, 6, 8]), 8)]);
        }
    }

    #[test]
    fn without_the_last_edge_no_probe_comes_back() {
        for confirms in [false, true] {
            let mut world = World::new(confirms, &EXAMPLE[..8]);
            world.search(0, |_, _, _| {});
            assert_eq!(world.sent.len(), 8);
            assert_eq!(world.found, []);
        }
    }

    #[test]
    fn everybody_in_a_circle_finds_it_and_who_only_waits_for_one_finds_nothing() {
        let mut world = World::new(true, &[(0, 1), (1, 2), (2, 1), (2, 3)]);
        for blocked in [0, 1, 2] {
            world.search(blocked, |_, _, _| {});
        }
        let found: std::vec::Vec<u16> = world.found.iter().map(|(by, _, _)| *by).collect();
        assert_eq!(found, [1, 2], "0 is not in the circle");
    }

    #[test]
    fn a_release_that_crosses_the_probe_is_a_phantom_only_in_the_textbooks_form() {
        // 0 waits for 1. While its probe is under way, 1 gives back what 0 wants, and then waits for 0.
        let crossing = |world: &mut World, to: u16, probe: &Probe| {
            if to == 1 && probe.path.hops().len() == 1 {
                world.waits = BTreeMap::from([(1, vec![0])]);
            }
            if to == 0 {
                world.waits.insert(0, vec![5]); // Still blocked, as far as it knows.
            }
        };
        for (confirms, phantoms) in [(false, 1), (true, 0)] {
            let mut world = World::new(confirms, &[(0, 1)]);
            world.search(0, crossing);
            assert_eq!(world.found.len(), phantoms, "{:?}", world.found);
        }
    }

    #[test]
    fn a_wait_that_changed_before_it_is_confirmed_is_no_deadlock() {
        let changed = |world: &mut World, to: u16, probe: &Probe| {
            if probe.confirming && to == 2 {
                world.wait_numbers.insert(2, 8);
            }
        };
        let mut world = World::new(true, &[(0, 1), (1, 2), (2, 0)]);
        world.search(0, changed);
        assert_eq!(world.found, []);
        world.search(0, |_, _, _| {});
        assert_eq!(world.found.len(), 1, "the next round finds it as it is by then");
    }
}
