//! Readers, writers and a server with clocks that are off, and channels that keep order.

use super::{Client, Options, Server, client, server};
use crate::{Context, Delays, Members, Output};
use compasso_wire::{
    ClusterTime, Duration, Instant, Interval, NodeId,
    cache::{CacheMessage as Message, Cached},
};
use std::collections::VecDeque;

const LEASE: Duration = Duration(1000);
const HALF: u64 = 30;

struct World {
    clients: Vec<Client>,
    servers: Vec<Server>,
    leader: usize,
    now: u64,
    in_flight: VecDeque<(usize, usize, Message)>,
    /// (node, version, cached), in order.
    reads: Vec<(usize, u64, bool)>,
    /// (version, a lease had to run out), in order of acknowledgement.
    written: Vec<(u64, bool)>,
}

impl World {
    fn new(invalidate: bool, kept: &[u64]) -> World {
        let options = Options { lease: LEASE, invalidate, replicates: true };
        let client = |version: &u64| Client::new(options, Cached { version: *version, value: *version });
        World {
            clients: kept.iter().map(client).collect(),
            servers: kept.iter().map(|_| Server::new(options)).collect(),
            leader: kept.len() - 1,
            now: 10_000,
            in_flight: VecDeque::new(),
            reads: Vec::new(),
            written: Vec::new(),
        }
    }

    /// Every clock is at an edge of its interval; the server's is exact.
    fn clock(&self, at: usize) -> Option<Interval> {
        let off = if at.is_multiple_of(2) { HALF as i64 } else { -(HALF as i64) };
        let (off, half) = if at == self.leader { (0, 0) } else { (off, HALF) };
        Some(Interval::around(ClusterTime(self.now as i64 + off), half))
    }

    fn with<E, R>(
        &mut self,
        at: usize,
        act: impl FnOnce(&mut Client, &mut Server, &mut Context<'_, Message, E>) -> R,
    ) -> (Vec<E>, R)
    where
        E: Copy,
    {
        let ids: Vec<NodeId> = (0..self.clients.len() as u16).map(NodeId).collect();
        let members = Members::new(&ids, ids[at]).unwrap();
        let mut output = Output::default();
        let mut cx = Context {
            now: Instant(self.now),
            members: &members,
            view: members.all(),
            leader: ids[self.leader],
            lamport: 0,
            random: 0,
            delays: Delays { trans: Duration(10), process: Duration(1) },
            lists: &compasso_wire::NO_LISTS,
            output: &mut output,
        };
        let result = act(&mut self.clients[at], &mut self.servers[at], &mut cx);
        assert!(!output.overflowed);
        self.in_flight.extend(output.messages.into_iter().map(|(to, message)| (at, usize::from(to.0), message)));
        (output.events.to_vec(), result)
    }

    fn client(&mut self, at: usize, act: impl FnOnce(&mut Client, &mut Context<'_, Message, client::Event>)) {
        let (events, ()) = self.with(at, |client, _, cx| act(client, cx));
        for event in events {
            if let client::Event::Read { version, cached } = event {
                self.reads.push((at, version, cached));
            }
        }
    }

    fn serve(&mut self, at: usize) {
        let clock = self.clock(at);
        loop {
            let (events, more) = self.with(at, |_, server, cx| server.proceed(clock, cx));
            for event in events {
                if let server::Event::Written { version, expired, .. } = event {
                    self.written.push((version, expired));
                }
            }
            if !more {
                return;
            }
        }
    }

    /// Delivers whatever `wanted` wants, in order; the rest stays on its way.
    fn deliver(&mut self, wanted: impl Fn(&(usize, usize, Message)) -> bool) {
        while let Some(at) = self.in_flight.iter().position(&wanted) {
            let (from, to, message) = self.in_flight.remove(at).unwrap();
            let (clock, id) = (self.clock(to), NodeId(from as u16));
            self.client(to, |client, cx| client.handle_message(id, &message, clock, cx));
            let _ = self.with::<server::Event, _>(to, |_, server, cx| server.handle_message(id, &message, cx));
            self.serve(to);
        }
    }

    fn begin(&mut self, epoch: u32, open_at: u64) {
        for at in (0..self.clients.len()).rev() {
            let _ = self.with::<server::Event, _>(at, |_, server, cx| server.begin(epoch, Instant(open_at), cx));
            self.client(at, |client, cx| client.begin(cx));
        }
        self.deliver(|_| true);
    }

    fn read(&mut self, at: usize) {
        let clock = self.clock(at);
        self.client(at, |client, cx| client.read(clock, cx));
    }

    fn pass(&mut self, time: u64) {
        self.now += time;
        (0..self.servers.len()).for_each(|at| self.serve(at));
        self.deliver(|_| true);
    }

    fn write(&mut self, at: usize, value: u64) {
        self.client(at, |client, cx| client.write(value, cx));
    }
}

fn version(epoch: u64, serial: u64) -> u64 {
    (epoch << 32) | serial
}

#[test]
fn a_copy_is_read_without_asking_as_long_as_its_lease_lasts() {
    let mut world = World::new(false, &[0, 0, 0]);
    world.begin(1, 0);
    for wait in [0, 400, 400, 400] {
        world.pass(wait);
        world.read(0);
        world.deliver(|_| true);
    }
    assert_eq!(world.reads, [(0, 0, false), (0, 0, true), (0, 0, true), (0, 0, false)]);
}

#[test]
fn a_write_waits_for_every_lease_and_whoever_asks_meanwhile_gets_the_new_version() {
    let mut world = World::new(false, &[0, 0, 0]);
    world.begin(1, 0);
    world.read(0);
    world.deliver(|_| true);
    world.write(1, 7);
    world.deliver(|_| true);
    world.read(1);
    world.read(0);
    world.pass(900);
    assert_eq!((world.written.len(), world.reads.len()), (0, 2), "0 reads its copy, 1 waits");
    world.pass(200);
    assert_eq!(world.written, [(version(1, 1), true)]);
    assert_eq!(world.reads.last(), Some(&(1, version(1, 1), false)));
    world.read(0);
    world.deliver(|_| true);
    assert_eq!(world.reads.last(), Some(&(0, version(1, 1), false)));
}

#[test]
fn with_invalidation_a_write_waits_for_answers_and_only_for_the_silent_until_their_lease_ends() {
    let mut world = World::new(true, &[0, 0, 0]);
    world.begin(1, 0);
    for at in [0, 1] {
        world.read(at);
        world.deliver(|_| true);
    }
    world.write(2, 7);
    world.deliver(|_| true);
    assert_eq!(world.written, [(version(1, 1), false)], "no time has passed");
    for at in [0, 1] {
        world.read(at);
        world.deliver(|_| true);
    }
    world.write(2, 8);
    world.deliver(|(from, to, _)| *from != 1 && *to != 1);
    assert_eq!(world.written.len(), 1, "1 does not answer");
    world.now += 1100;
    world.serve(2);
    world.deliver(|(_, _, message)| !matches!(message, Message::Invalidate { .. } | Message::Invalidated { .. }));
    assert_eq!(world.written.last(), Some(&(version(1, 2), true)));
}

#[test]
fn a_copy_that_an_invalidation_overtakes_is_refused() {
    let mut world = World::new(true, &[0, 0]);
    world.begin(1, 0);
    world.read(0);
    world.deliver(|(_, _, message)| matches!(message, Message::Read { .. }));
    let copy = world.in_flight.pop_back().unwrap();
    world.write(1, 7);
    world.deliver(|_| true);
    assert_eq!(world.written, [(version(1, 1), false)]);
    world.in_flight.push_back(copy);
    world.deliver(|_| true);
    assert_eq!(world.reads, [], "version 0 is fenced off");
}

#[test]
fn a_new_server_takes_the_newest_that_anybody_kept_and_waits_before_it_serves() {
    let mut world = World::new(false, &[version(1, 4), version(2, 9), 0]);
    world.read(0);
    world.begin(3, 10_500);
    assert_eq!(world.reads, [], "an earlier server's lease may last");
    assert_eq!(world.servers[2].poll_wake(), Some(server::Wake::At(Instant(10_500))));
    world.pass(500);
    assert_eq!(world.reads, [(0, version(2, 9), false)]);
    assert!(world.clients.iter().all(|client| client.kept().version == version(2, 9)), "everybody keeps it");
    world.write(0, 5);
    world.pass(2000);
    assert_eq!(world.written, [(version(3, 1), false)], "the lease was over when it began");
}
