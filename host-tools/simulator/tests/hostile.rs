//! Whatever arrives: malformed, foreign, forged, replayed, oversized. Refused by name, never a panic.

use compasso_node::{Effect, Input, Node};
use compasso_wire::{
    Body, Event, Header, Instant, Key, NodeConfig, NodeId, Refusal, Term, Vector,
    config::{ClockChoice, ElectionChoice, MutexChoice, Workload},
    limits::DATAGRAM_MAX,
    message::{Command, Telemetry},
    seal,
    time::Duration,
};

const KEY: Key = Key([3; 16]);

fn config(me: u16, incarnation: u32) -> NodeConfig {
    NodeConfig {
        incarnation,
        clock: ClockChoice::Cristian,
        election: ElectionChoice::Bully,
        mutex: MutexChoice::TokenRing,
        workload: Some(Workload { every: Duration::from_millis(50), hold: Duration::from_millis(1) }),
        seed: u32::from(me),
        ..NodeConfig::new(5, KEY, NodeId(me), [0, 1, 2].map(NodeId))
    }
}

fn born(me: u16, incarnation: u32) -> Node {
    let mut node = Node::new(&config(me, incarnation), Instant(0));
    node.start(Instant(0));
    node
}

/// Hands a datagram to the node and drains it: the reasons for which it refused something.
fn refusals(node: &mut Node, now: Instant, datagram: &[u8]) -> Vec<Refusal> {
    let mut buffer = [0; DATAGRAM_MAX];
    let mut reasons = Vec::new();
    node.handle(now, Input::Datagram(datagram));
    while node.poll_effect().is_some() {}
    loop {
        while let Some(observation) = node.poll_observation() {
            if let Event::Drop { reason, .. } = observation.event {
                reasons.push(reason);
            }
        }
        if node.poll_transmit(now, &mut buffer).is_none() {
            return reasons;
        }
    }
}

fn sealed(key: &Key, cluster: u32, sender: u16, body: &Body<'_>) -> Vec<u8> {
    let header = Header {
        cluster,
        sender: NodeId(sender),
        incarnation: 1,
        sequence: 1,
        snapshot: 0,
        lamport: 1,
        vector: Vector::default(),
    };
    let mut buffer = [0; DATAGRAM_MAX];
    seal(key, &header, NodeId(0), body, &mut buffer).to_vec()
}

/// Three nodes, connected until `until`: every datagram that was sent, with its receiver.
fn rehearse(nodes: &mut [Node], until: Instant) -> Vec<(usize, Vec<u8>)> {
    let mut sent: Vec<(usize, Vec<u8>)> = Vec::new();
    let mut delivered = 0;
    for millis in 0..until.0 / 1000 {
        let now = Instant(millis * 1000);
        for node in nodes.iter_mut() {
            node.handle(now, Input::Timeout);
        }
        loop {
            for node in nodes.iter_mut() {
                let mut buffer = [0; DATAGRAM_MAX];
                while node.poll_effect().is_some() {}
                while let Some(transmit) = node.poll_transmit(now, &mut buffer) {
                    sent.push((usize::from(transmit.to.0), transmit.datagram.to_vec()));
                    while node.poll_observation().is_some() {}
                }
            }
            if delivered == sent.len() {
                break;
            }
            while delivered < sent.len() {
                let (to, datagram) = sent[delivered].clone();
                delivered += 1;
                if let Some(node) = nodes.get_mut(to) {
                    node.handle(now, Input::Datagram(&datagram));
                    while node.poll_observation().is_some() {}
                }
            }
        }
    }
    sent
}

fn boot(incarnation: u32) -> Vec<Node> {
    (0..3).map(|id| born(id, incarnation)).collect()
}

#[test]
fn every_kind_of_bad_datagram_is_refused_by_its_name() {
    let mut node = born(0, 1);
    let question = Body::TimeRequest { sent: Instant(0) };
    let mut refuse = |datagram: &[u8]| refusals(&mut node, Instant(1000), datagram);
    assert_eq!(refuse(&[]), [Refusal::Malformed]);
    assert_eq!(refuse(&[1, 2, 3]), [Refusal::Malformed]);
    assert_eq!(refuse(&[0; DATAGRAM_MAX + 1]), [Refusal::Oversized]);
    let mut other_version = sealed(&KEY, 5, 1, &question);
    other_version[0] = 9;
    assert_eq!(refuse(&other_version), [Refusal::Version { theirs: 9 }]);
    assert_eq!(refuse(&sealed(&KEY, 6, 1, &question)), [Refusal::Foreign]);
    assert_eq!(refuse(&sealed(&KEY, 5, 7, &question)), [Refusal::NotAMember(NodeId(7))]);
    assert_eq!(refuse(&sealed(&KEY, 5, 0, &question)), [Refusal::NotAMember(NodeId(0))], "its own id");
    assert_eq!(refuse(&sealed(&Key([4; 16]), 5, 1, &question)), [Refusal::Forged]);
    assert_eq!(refuse(&sealed(&KEY, 5, 1, &question)), [Refusal::Unproven]);
}

#[test]
fn a_recorded_network_played_again_is_refused_to_the_last_datagram() {
    let mut nodes = boot(1);
    let recorded = rehearse(&mut nodes, Instant(3_000_000));
    assert!(nodes.iter().all(|node| node.leader().is_some_and(|(leader, _)| leader == NodeId(2))));
    assert!(recorded.len() > 500, "{} datagrams", recorded.len());
    // To the same nodes, and to nodes that have booted again and remember nothing.
    let mut reborn = boot(2);
    for (nodes, now) in [(&mut nodes, Instant(3_000_000)), (&mut reborn, Instant(1000))] {
        let before: Vec<_> = nodes.iter().map(Node::leader).collect();
        for (to, datagram) in &recorded {
            if let Some(node) = nodes.get_mut(*to) {
                let reasons = refusals(node, now, datagram);
                assert!(!reasons.is_empty(), "taken again: {datagram:x?}");
            }
        }
        let after: Vec<_> = nodes.iter().map(Node::leader).collect();
        assert_eq!(before, after);
    }
}

#[test]
fn what_is_meant_for_another_is_refused() {
    let recorded = rehearse(&mut boot(1), Instant(2_000_000));
    let mut nodes = boot(1);
    let mut copies = 0;
    let mut deliver = |nodes: &mut Vec<Node>, now: Instant, (to, datagram): &(usize, Vec<u8>)| {
        for (position, node) in nodes.iter_mut().enumerate().filter(|(position, _)| position != to) {
            copies += 1;
            let reasons = refusals(node, now, datagram);
            let named = |reason: &Refusal| matches!(reason, Refusal::Forged | Refusal::NotAMember(_));
            assert!(reasons.iter().any(named), "node {position} took what was meant for {to}: {reasons:?}");
        }
    };
    for datagram in &recorded {
        deliver(&mut nodes, Instant(1000), datagram);
    }
    assert!(copies > 1000);
}

#[test]
fn no_damage_to_a_real_datagram_is_ever_taken() {
    let recorded = rehearse(&mut boot(1), Instant(1_000_000));
    let mut dice = fastrand::Rng::with_seed(1);
    let mut node = born(0, 1);
    for (_, datagram) in recorded.iter().take(400) {
        for _ in 0..50 {
            let mut damaged = datagram.clone();
            match dice.u8(0..4) {
                0 => damaged.truncate(dice.usize(0..damaged.len())),
                1 => damaged.extend((0..dice.usize(1..40)).map(|_| dice.u8(..))),
                2 => damaged.iter_mut().for_each(|byte| *byte = dice.u8(..)),
                _ => {
                    let at = dice.usize(0..damaged.len());
                    damaged[at] ^= 1 << dice.u8(0..8);
                }
            }
            let reasons = refusals(&mut node, Instant(1000), &damaged);
            let named = |reason: &Refusal| !matches!(reason, Refusal::Unproven | Refusal::Replayed);
            assert!(!reasons.is_empty() && reasons.iter().all(named), "{reasons:?}");
        }
    }
}

#[test]
fn the_host_may_command_but_not_vote_and_nodes_may_not_command() {
    let mut nodes = boot(1);
    rehearse(&mut nodes, Instant(1_000_000));
    let command = Body::Command { index: 0, command: Command::Elect };
    let telemetry = Body::Telemetry(Telemetry {
        first: 0,
        count: 0,
        missed: 0,
        hw: Instant(0),
        raw_ns: 0,
        rate_ppb: 0,
        records: &[],
    });
    // From a member that has proven itself, with numbers that were not used yet.
    for (sequence, body) in [(1_000_000, command), (1_000_001, telemetry)] {
        let header = Header {
            cluster: 5,
            sender: NodeId(1),
            incarnation: 1,
            sequence,
            snapshot: 0,
            lamport: 1,
            vector: Vector::default(),
        };
        let mut buffer = [0; DATAGRAM_MAX];
        let datagram = seal(&KEY, &header, NodeId(0), &body, &mut buffer).to_vec();
        assert_eq!(refusals(&mut nodes[0], Instant(1_000_000), &datagram), [Refusal::Unexpected]);
    }
}

#[test]
fn what_was_promised_is_stored_before_anything_that_depends_on_it_leaves() {
    let mut node = born(2, 1);
    let mut buffer = [0; DATAGRAM_MAX];
    while node.poll_transmit(Instant(0), &mut buffer).is_some() {}
    node.handle(Instant(400_000), Input::Timeout);
    assert!(node.poll_transmit(Instant(400_000), &mut buffer).is_none(), "a claim left before it was stored");
    assert_eq!(node.poll_effect(), Some(Effect::Store), "nothing to store");
    let stored = *node.stored();
    assert_eq!(stored.term, Term::new(1, NodeId(2)));
    assert!(node.poll_transmit(Instant(400_000), &mut buffer).is_some());
}
