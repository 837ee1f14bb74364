//! A cached value whose copies are valid until a time.
//!
//! The server is the leader of the view, and its clock is what everybody in the view means by cluster
//! time. It gives a lease only under authority, so no lease is younger than the view that replaced its
//! giver's. A new server waits that lease out, unless everybody who is configured is in its view: then
//! nobody has an older copy, for whoever begins a view throws its copy away.

use crate::{defences::Defence, node::Node, pace::Pace};
use compasso_algorithms::{
    Context, Output,
    cache::{Client, Options, Server, client, server},
};
use compasso_wire::{
    ClusterTime, Duration, Event, Instant, Interval, NodeConfig, NodeId, Payload,
    cache::{CacheMessage, Cached},
    telemetry::Queue,
};
use heapless::Deque;

/// Messages that a node may have for itself at one time: one of each sort, and room to spare.
const TO_SELF_MAX: usize = 8;
/// Steps that one input may lead to: a write with all it takes, and the answers to who waited.
const ROUNDS_MAX: usize = 32;
/// A software clock never runs slower than at half its rate: a lease may take so many times as long.
const SLOWEST: u64 = 2;
/// A clock that is being corrected may take a little longer than foretold: looked at again after this.
const LOOK_AGAIN: Duration = Duration(100);

/// One node's part in the cache.
pub(crate) struct CacheService {
    lease: Option<Duration>,
    client: Client,
    server: Server,
    reads: Pace,
    writes: Pace,
    /// Counts this node's writes, so that each has a value of its own.
    written: u32,
    to_self: Deque<CacheMessage, TO_SELF_MAX>,
    /// When the server can go on by itself, as far as is known.
    look_at: Option<Instant>,
    begun: bool,
}

impl CacheService {
    pub(crate) fn new(config: &NodeConfig, now: Instant) -> CacheService {
        let cache = config.cache;
        let options = Options {
            lease: cache.map_or(Duration::ZERO, |cache| cache.lease),
            invalidate: cache.is_some_and(|cache| cache.invalidate),
            replicates: config.hardening,
        };
        // The textbook's nodes remember nothing over a restart.
        let kept = if config.hardening { config.stored.cache } else { Cached::default() };
        CacheService {
            lease: cache.map(|cache| cache.lease),
            client: Client::new(options, kept),
            server: Server::new(options),
            reads: Pace::new(cache.and_then(|cache| cache.read_every), config.seed.rotate_left(11), now),
            writes: Pace::new(cache.and_then(|cache| cache.write_every), config.seed.rotate_left(19), now),
            written: 0,
            to_self: Deque::new(),
            look_at: None,
            begun: false,
        }
    }

    pub(crate) fn stop_workload(&mut self) {
        self.reads.stop();
        self.writes.stop();
    }

    pub(crate) fn poll_timeout(&self) -> Option<(Instant, &'static str)> {
        let lease = self.look_at.map(|at| (at, "lease"));
        let answer = self.client.poll_timeout().map(|at| (at, "cache"));
        let read = self.reads.poll_timeout().map(|at| (at, "read"));
        let write = self.writes.poll_timeout().map(|at| (at, "write"));
        [lease, answer, read, write].into_iter().flatten().min_by_key(|(at, _)| *at)
    }
}

impl Node {
    pub(crate) fn read_cached(&mut self, now: Instant) {
        let clock = self.reader_clock(now);
        self.with_client(now, |client, cx| client.read(clock, cx));
    }

    pub(crate) fn write_cached(&mut self, now: Instant) {
        if !self.cache.client.is_writing() {
            self.cache.written += 1;
        }
        let value = (u64::from(self.config.me.0) << 32) | u64::from(self.cache.written);
        self.with_client(now, |client, cx| client.write(value, cx));
    }

    pub(crate) fn begin_cache(&mut self, now: Instant) {
        let Some(lease) = self.cache.lease else { return };
        self.cache.begun = true;
        self.cache.to_self.clear();
        let is_whole = self.view() == self.members.all() || !self.defences.has(Defence::LeaseTakeover);
        let waits = lease.times(SLOWEST).widened(self.config.timing.drift_ppm);
        let open_at = if is_whole { now } else { now + waits };
        // The textbook form has one view for good, and a server that comes back counts anew.
        let era = if self.hardened() { self.epoch() } else { self.config.incarnation };
        self.with_server(now, |server, cx| {
            server.begin(era, open_at, cx);
            false
        });
        self.with_client(now, |client, cx| client.begin(cx));
    }

    pub(crate) fn settle_cache(&mut self, now: Instant) {
        if !self.cache.begun {
            return;
        }
        for _ in 0..ROUNDS_MAX {
            let clock = self.server_clock(now);
            if let Some(message) = self.cache.to_self.pop_front() {
                self.handle_cache(now, self.config.me, message);
            } else if !self.with_server(now, |server, cx| server.proceed(clock, cx)) {
                break;
            }
        }
        self.cache.look_at = match self.cache.server.poll_wake() {
            Some(server::Wake::At(at)) => Some(at).filter(|at| *at > now),
            Some(server::Wake::Past(until)) => self.past(now, until),
            None => None,
        };
    }

    pub(crate) fn cache_timeouts(&mut self, now: Instant) {
        if self.cache.lease.is_none() {
            return;
        }
        self.with_client(now, |client, cx| client.handle_timeout(cx));
        if self.cache.reads.is_due(now) {
            self.read_cached(now);
        }
        if self.cache.writes.is_due(now) {
            self.write_cached(now);
        }
    }

    pub(crate) fn handle_cache(&mut self, now: Instant, from: NodeId, message: CacheMessage) {
        if self.cache.lease.is_none() {
            return;
        }
        let clock = self.reader_clock(now);
        self.with_client(now, |client, cx| client.handle_message(from, &message, clock, cx));
        self.with_server(now, |server, cx| {
            server.handle_message(from, &message, cx);
            false
        });
    }

    /// When the server's clock will be wholly past this, if it may serve.
    fn past(&self, now: Instant, until: ClusterTime) -> Option<Instant> {
        let behind_us = self.server_clock(now)?.half_us();
        let at = self.clock.when(ClusterTime(until.0.saturating_add(behind_us)))?;
        Some(at.max(now + LOOK_AGAIN))
    }

    /// This node's time, if it is the time of the view's server: the one that a copy's lease is in.
    fn reader_clock(&self, now: Instant) -> Option<Interval> {
        let is_of_view = self.membership.view().is_some_and(|view| view.term == self.membership.promised());
        self.shared_interval(now).filter(|_| is_of_view || !self.hardened())
    }

    /// The server's time, while it may give leases by it: not once another may serve.
    fn server_clock(&self, now: Instant) -> Option<Interval> {
        let authority = self.membership.authority_until(&self.members, now).is_some();
        self.reader_clock(now).filter(|_| !self.hardened() || authority)
    }

    fn with_client(
        &mut self,
        now: Instant,
        act: impl FnOnce(&mut Client, &mut Context<'_, CacheMessage, client::Event>),
    ) {
        if self.cache.lease.is_none() {
            return;
        }
        let mut output = Output::default();
        let (view, leader, delays) = (self.view(), self.coordinator(), self.delays());
        let (lamport, random) = (0, 0);
        let mut cx = Context {
            now,
            members: &self.members,
            view,
            leader,
            lamport,
            random,
            delays,
            lists: &compasso_wire::NO_LISTS,
            output: &mut output,
        };
        act(&mut self.cache.client, &mut cx);
        if self.hardened() && self.stored.cache != self.cache.client.kept() {
            self.stored.cache = self.cache.client.kept();
            self.store_pending = true;
        }
        for event in &output.events {
            match *event {
                client::Event::Read { version, cached } => self.record(now, Event::Read { version, cached }),
                // The server has told so already where it is the same node.
                client::Event::Written { .. } if leader == self.config.me => {}
                client::Event::Written { version } => self.record(now, Event::Written { version, expired: false }),
            }
        }
        self.send_cache(now, &output.messages, output.overflowed);
    }

    fn with_server(
        &mut self,
        now: Instant,
        act: impl FnOnce(&mut Server, &mut Context<'_, CacheMessage, server::Event>) -> bool,
    ) -> bool {
        let mut output = Output::default();
        let (view, leader, delays) = (self.view(), self.coordinator(), self.delays());
        let (lamport, random) = (0, 0);
        let mut cx = Context {
            now,
            members: &self.members,
            view,
            leader,
            lamport,
            random,
            delays,
            lists: &compasso_wire::NO_LISTS,
            output: &mut output,
        };
        let more = act(&mut self.cache.server, &mut cx);
        for event in &output.events {
            match *event {
                server::Event::Writing { version } => self.record(now, Event::Writing { version }),
                server::Event::Written { version, expired, .. } => {
                    self.record(now, Event::Written { version, expired });
                }
            }
        }
        self.send_cache(now, &output.messages, output.overflowed);
        more
    }

    fn send_cache(&mut self, now: Instant, messages: &[(NodeId, CacheMessage)], overflowed: bool) {
        let epoch = self.epoch();
        for (to, message) in messages {
            if *to != self.config.me {
                self.post(now, *to, Payload::Cache { epoch, message: *message }, None);
            } else if self.cache.to_self.push_back(*message).is_err() {
                self.overflowed(Queue::Algorithm);
            }
        }
        if overflowed {
            self.overflowed(Queue::Algorithm);
        }
    }
}
