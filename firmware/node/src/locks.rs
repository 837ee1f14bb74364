//! Locks on several named resources, and what is done about deadlocks.
//!
//! Each resource has a *home* in the view, whose table says who holds it and who waits; the strategy decides
//! (`compasso_algorithms::deadlock`). What a real network needs on top:
//!
//! - **A held resource is a lease with a fence**, (epoch, serial of the home's grant). A holder whose membership
//!   lease ends holds nothing any more: it gives everything back and tries again.
//! - **A view change does not wait for holders**: those in a deadlock would hold it up for ever. When a view begins,
//!   every member tells each home what it still holds, and asks again for what it wants, with the age of its first
//!   attempt. A home grants nothing before all have told. Who is not in the view has no lease any more.
//! - **Tickets**: an answer to a request that was taken back, or made again since, means nothing.

mod search;
mod transaction;
mod work;

use crate::{defences::Defence, node::Node};
use compasso_algorithms::deadlock::{Answer, LockTable, Prober, Say, order};
use compasso_wire::{
    Duration, Event, Fence, Instant, NodeConfig, NodeId, NodeSet, Payload, ResourceId,
    config::{DeadlockStrategy, LockWorkload},
    limits::RESOURCES_MAX,
    locks::{Age, LockMessage, ResourceSet},
    telemetry::{Abandoned, Queue},
};
use heapless::{Deque, Vec};
use transaction::Transaction;
use work::{Next, Work};

/// Answers of this node's own home that may wait for its client: one a resource, and what they cause.
const TO_SELF_MAX: usize = 2 * RESOURCES_MAX;
/// Who has given everything back pauses about so long before it tries again, ...
const RETRY_AFTER: Duration = Duration::from_millis(20);
/// ... twice as long each time, up to this power of two.
const RETRY_DOUBLINGS: u8 = 4;

/// One node's part in the locks.
pub(crate) struct LockService {
    strategy: DeadlockStrategy,
    /// The resources that are locked.
    all: ResourceSet,
    transaction: Transaction,
    /// What the next transaction will need at most.
    claims: ResourceSet,
    work: Work,
    /// As home.
    table: LockTable,
    /// As home: who has told what it holds.
    registered: NodeSet,
    to_self: Deque<Answer, TO_SELF_MAX>,
    prober: Prober,
    probe_at: Option<Instant>,
}

impl LockService {
    pub(crate) fn new(config: &NodeConfig, now: Instant) -> LockService {
        let (strategy, count) =
            config.locks.map_or((DeadlockStrategy::Ignore, 0), |locks| (locks.strategy, locks.count));
        let plan: Option<LockWorkload> = config.locks.and_then(|locks| locks.workload);
        let members = config.members.len();
        LockService {
            strategy,
            all: (config.resources..config.resources.saturating_add(count)).map(ResourceId).collect(),
            transaction: Transaction::new(),
            claims: ResourceSet::default(),
            work: Work::new(plan, config.seed.wrapping_mul(2_654_435_761) >> 8, now),
            table: LockTable::new(strategy, members, !config.hardening),
            registered: NodeSet::EMPTY,
            to_self: Deque::new(),
            prober: Prober::new(members, config.hardening),
            probe_at: None,
        }
    }

    pub(crate) fn stop_workload(&mut self) {
        self.work.stop();
    }

    /// What this node holds.
    pub(crate) fn held(&self) -> ResourceSet {
        self.transaction.held
    }

    /// What this node wants and does not have.
    pub(crate) fn wanted(&self) -> ResourceSet {
        self.transaction.goal.without(self.transaction.held)
    }

    pub(crate) fn poll_timeout(&self) -> Option<(Instant, &'static str)> {
        let transaction = &self.transaction;
        let lease = transaction.lease_until.filter(|_| !transaction.held.is_empty());
        [
            lease.map(|at| (at, "lease of locks ends")),
            transaction.retry_at.map(|at| (at, "try again")),
            self.probe_at.map(|at| (at, "probe")),
            self.work.poll_timeout().map(|at| (at, "locking workload")),
        ]
        .into_iter()
        .flatten()
        .min_by_key(|(at, _)| *at)
    }
}

impl Node {
    /// The application wants these too, all of them.
    pub(crate) fn acquire(&mut self, now: Instant, resources: ResourceSet) {
        let locks = &mut self.locks;
        locks.transaction.goal = locks.transaction.goal.and(resources.within(locks.all));
        if locks.strategy == DeadlockStrategy::PreventOrder {
            let Transaction { goal, held, granted, asked, .. } = locks.transaction;
            let too_early = order::too_early(goal, held.and(granted).and(asked));
            if !too_early.is_empty() {
                self.record(now, Event::Abandon { reason: Abandoned::OutOfOrder });
                self.give_back(now, too_early);
            }
        }
        self.pursue(now);
        self.hear_own_home(now);
    }

    /// The application needs these no more.
    pub(crate) fn release(&mut self, now: Instant, resources: ResourceSet) {
        let transaction = &mut self.locks.transaction;
        transaction.goal = transaction.goal.without(resources);
        self.give_back(now, resources);
        if self.locks.transaction.goal.is_empty() {
            self.locks.transaction.end();
        }
        self.pursue(now);
        self.hear_own_home(now);
    }

    /// The application declares what its next transaction will need at most.
    pub(crate) fn claim(&mut self, _now: Instant, resources: ResourceSet) {
        self.locks.claims = resources.within(self.locks.all);
    }

    /// The view begins: homes begin anew, and are told what is held and wanted.
    pub(crate) fn begin_locks(&mut self, now: Instant) {
        if self.locks.all.is_empty() {
            return;
        }
        if self.hardened() {
            let members = self.members.count();
            let locks = &mut self.locks;
            locks.table = LockTable::new(locks.strategy, members, !self.defences.has(Defence::Registration));
            locks.registered = NodeSet::EMPTY;
            locks.to_self.clear();
            locks.prober = Prober::new(members, self.defences.has(Defence::Confirmation));
            locks.probe_at = None;
            let ticket = locks.transaction.begin();
            let held = locks.transaction.held;
            let age = locks.transaction.age.unwrap_or(Age { stamp: 0, node: self.config.me });
            let homes: NodeSet = self.homes();
            for position in homes.iter() {
                let Some(home) = self.members.id(position) else { continue };
                if self.locks.strategy == DeadlockStrategy::Avoid && self.locks.transaction.age.is_some() {
                    let resources = self.locks.transaction.claimed;
                    self.say_to_home(now, home, LockMessage::Claim { resources });
                }
                let held = held.iter().filter(|resource| self.home(*resource) == home).collect();
                self.say_to_home(now, home, LockMessage::Register { held, age, ticket });
            }
            for resource in self.locks.transaction.asked.iter() {
                self.request_lock(now, resource, age);
            }
        }
        self.pursue(now);
        self.hear_own_home(now);
    }

    /// Enters what was granted and goes on with whatever waited for that, until nothing more is granted here.
    pub(crate) fn settle_locks(&mut self, now: Instant) {
        if self.locks.all.is_empty() {
            return;
        }
        for _ in 0..=RESOURCES_MAX {
            self.enter_granted(now);
            self.pursue(now);
            self.work(now);
            self.hear_own_home(now);
            if self.locks.transaction.granted.is_empty() {
                return;
            }
        }
    }

    /// Enters what was granted, if nothing speaks against it.
    fn enter_granted(&mut self, now: Instant) {
        let changing = self.hardened() && self.membership.changing();
        if changing || self.locks.transaction.granted.is_empty() {
            return;
        }
        let Some(lease_until) = self.lease_left(now) else { return };
        if let Some(until) = lease_until {
            self.lock_lease_renewed(now, until);
        }
        let transaction = &mut self.locks.transaction;
        let granted = core::mem::take(&mut transaction.granted);
        transaction.held = transaction.held.and(granted);
        transaction.lease_until = lease_until;
        let lease_us = lease_until.map(|until| until.since(now).0);
        for resource in granted.iter() {
            let fence = self.locks.transaction.fence(resource);
            self.record(now, Event::CsEnter { resource, fence, lease_us });
        }
    }

    pub(crate) fn lock_timeouts(&mut self, now: Instant) {
        let transaction = &mut self.locks.transaction;
        if transaction.retry_at.is_some_and(|at| now >= at) {
            transaction.retry_at = None;
        }
        let ended = transaction.lease_until.is_some_and(|until| now >= until);
        if ended && !transaction.held.is_empty() {
            self.abandon(now, Abandoned::LeaseEnded);
        }
        if self.locks.probe_at.is_some_and(|at| now >= at) {
            self.probe(now);
        }
        self.hear_own_home(now);
    }

    /// The lease has grown: what is held is held so long.
    pub(crate) fn lock_lease_renewed(&mut self, now: Instant, until: Instant) {
        let transaction = &mut self.locks.transaction;
        if transaction.held.is_empty() || transaction.lease_until.is_none_or(|known| known >= until) {
            return;
        }
        transaction.lease_until = Some(until);
        for resource in self.locks.transaction.held.iter() {
            let fence = self.locks.transaction.fence(resource);
            self.record(now, Event::CsRenew { resource, fence, lease_us: until.since(now).0 });
        }
    }

    pub(crate) fn handle_locks(&mut self, now: Instant, from: NodeId, message: LockMessage) {
        let Some(position) = self.members.position(from) else { return };
        match message {
            LockMessage::Register { .. }
            | LockMessage::Request { .. }
            | LockMessage::Release { .. }
            | LockMessage::Claim { .. } => self.handle_as_home(now, position, message),
            LockMessage::Grant { resource, ticket, serial } => {
                self.hear_home(now, Answer::Grant { resource, ticket, serial });
            }
            LockMessage::Wait { resource, ticket, holder } => {
                self.hear_home(now, Answer::Wait { resource, ticket, holder });
            }
            LockMessage::Die { resource, ticket } => self.hear_home(now, Answer::Die { resource, ticket }),
            LockMessage::Wound { resource, ticket } => self.hear_home(now, Answer::Wound { resource, ticket }),
            LockMessage::Probe { resource, round, confirming, path, youngest } => {
                self.handle_probe(now, resource, round, confirming, path, youngest);
            }
            LockMessage::Victim { wait } => self.handle_victim(now, wait),
        }
        self.hear_own_home(now);
    }

    /// The home of a resource: a member of the view by its number; where grants must be weighed against each
    /// other, the coordinator for all.
    fn home(&self, resource: ResourceId) -> NodeId {
        let view = self.view();
        let number = usize::from(resource.0.saturating_sub(self.config.resources)) % view.len().max(1);
        match self.locks.strategy {
            DeadlockStrategy::Avoid => self.coordinator(),
            DeadlockStrategy::Ignore
            | DeadlockStrategy::Detect
            | DeadlockStrategy::PreventOrder
            | DeadlockStrategy::WaitDie
            | DeadlockStrategy::WoundWait => self.members.of(view).nth(number).unwrap_or(self.config.me),
        }
    }

    fn homes(&self) -> NodeSet {
        let mut homes = NodeSet::EMPTY;
        for resource in self.locks.all.iter() {
            self.members.position(self.home(resource)).into_iter().for_each(|position| homes.insert(position));
        }
        homes
    }

    /// Asks for whatever is missing, if this is the time to ask.
    fn pursue(&mut self, now: Instant) {
        let transaction = &self.locks.transaction;
        let pauses = !self.begun || transaction.retry_at.is_some() || self.lease_left(now).is_none();
        let under_way = transaction.asked.and(transaction.granted);
        let missing = transaction.goal.without(transaction.held).without(under_way);
        if pauses || missing.is_empty() {
            return;
        }
        let missing: ResourceSet = match self.locks.strategy {
            DeadlockStrategy::PreventOrder if !under_way.is_empty() => return,
            DeadlockStrategy::PreventOrder => order::next(transaction.goal, transaction.held).into_iter().collect(),
            DeadlockStrategy::Ignore
            | DeadlockStrategy::Detect
            | DeadlockStrategy::WaitDie
            | DeadlockStrategy::WoundWait
            | DeadlockStrategy::Avoid => missing,
        };
        if self.locks.strategy == DeadlockStrategy::Avoid {
            if transaction.age.is_none() {
                self.locks.transaction.claimed = self.locks.claims;
                let resources = self.locks.claims;
                self.say_to_home(now, self.coordinator(), LockMessage::Claim { resources });
            }
            if !missing.without(self.locks.transaction.claimed).is_empty() {
                return self.abandon(now, Abandoned::Unclaimed);
            }
        }
        for resource in missing.iter() {
            self.record(now, Event::Request { resource });
            let first = Age { stamp: self.journal.stamps().0, node: self.config.me };
            let age = *self.locks.transaction.age.get_or_insert(first);
            self.request_lock(now, resource, age);
        }
    }

    fn request_lock(&mut self, now: Instant, resource: ResourceId, age: Age) {
        let ticket = self.locks.transaction.ask(resource);
        self.say_to_home(now, self.home(resource), LockMessage::Request { resource, age, ticket });
    }

    /// Gives back what is held of these, and takes back what was asked for.
    fn give_back(&mut self, now: Instant, resources: ResourceSet) {
        let Transaction { held, asked, granted, .. } = self.locks.transaction;
        for resource in resources.within(held.and(asked).and(granted)).iter() {
            let transaction = &mut self.locks.transaction;
            let (fence, ticket) = (transaction.fence(resource), transaction.ticket(resource));
            transaction.drop_from_all(resource);
            let event =
                if held.contains(resource) { Event::CsExit { resource, fence } } else { Event::Withdraw { resource } };
            self.record(now, event);
            self.say_to_home(now, self.home(resource), LockMessage::Release { resource, ticket });
        }
    }

    /// Gives everything back, to try again after a pause; or to end, if it would never be granted.
    fn abandon(&mut self, now: Instant, reason: Abandoned) {
        self.record(now, Event::Abandon { reason });
        self.give_back(now, self.locks.all);
        let dice = u64::from(self.random() % 1024);
        let transaction = &mut self.locks.transaction;
        if reason == Abandoned::Unclaimed {
            return transaction.end();
        }
        let mean = Duration(RETRY_AFTER.0 << transaction.attempts.min(RETRY_DOUBLINGS));
        transaction.attempts = transaction.attempts.saturating_add(1);
        transaction.retry_at = Some(now + Duration(mean.0 / 2 + mean.0 * dice / 1024));
        if self.locks.work.begin_again() {
            self.locks.transaction.goal = ResourceSet::default();
        }
    }

    /// What the home says of this node's request.
    fn hear_home(&mut self, now: Instant, answer: Answer) {
        let epoch = self.epoch();
        let transaction = &mut self.locks.transaction;
        match answer {
            Answer::Grant { resource, ticket, serial } if transaction.awaits(resource, ticket) => {
                transaction.got(resource, Fence::new(epoch, serial));
            }
            Answer::Wait { resource, ticket, holder } if transaction.awaits(resource, ticket) => {
                transaction.set_holder(resource, Some(holder));
                self.record(now, Event::Wait { on: holder, resource });
                self.probe_soon(now);
            }
            Answer::Die { resource, ticket } if transaction.awaits(resource, ticket) => {
                // The home has forgotten the request: it needs no release.
                transaction.drop_from_all(resource);
                self.abandon(now, Abandoned::Died);
                self.record(now, Event::Withdraw { resource });
            }
            Answer::Wound { resource, ticket } if transaction.has(resource, ticket) => {
                self.abandon(now, Abandoned::Wounded);
            }
            // It answers a request that is no more.
            Answer::Grant { .. } | Answer::Wait { .. } | Answer::Die { .. } | Answer::Wound { .. } => {}
        }
    }

    /// A node that is its own home talks to itself as to anybody, but not over the network.
    fn hear_own_home(&mut self, now: Instant) {
        for _ in 0..TO_SELF_MAX * 2 {
            let Some(answer) = self.locks.to_self.pop_front() else { return };
            self.hear_home(now, answer);
        }
        if !self.locks.to_self.is_empty() {
            self.locks.to_self.clear();
            self.overflowed(Queue::Algorithm);
        }
    }

    fn say_to_home(&mut self, now: Instant, home: NodeId, message: LockMessage) {
        if home == self.config.me {
            self.handle_as_home(now, self.members.my_position(), message);
        } else {
            self.say_about_locks(now, home, message);
        }
    }

    fn say_about_locks(&mut self, now: Instant, to: NodeId, message: LockMessage) {
        let epoch = self.epoch();
        self.post(now, to, Payload::Locks { epoch, message }, None);
    }

    /// As home: what a client says.
    fn handle_as_home(&mut self, now: Instant, position: usize, message: LockMessage) {
        match message {
            LockMessage::Register { held, age, ticket } => {
                self.locks.table.register(position, held, age, ticket);
                self.locks.registered.insert(position);
                if self.view().iter().all(|member| self.locks.registered.contains(member)) {
                    self.with_table(now, |table, say| table.open(say));
                }
            }
            LockMessage::Request { resource, age, ticket } => {
                if self.locks.all.contains(resource) {
                    self.with_table(now, |table, say| table.request(position, resource, age, ticket, say));
                }
            }
            LockMessage::Release { resource, ticket } => {
                self.with_table(now, |table, say| table.release(position, resource, ticket, say));
            }
            LockMessage::Claim { resources } => self.locks.table.claim(position, resources),
            LockMessage::Grant { .. }
            | LockMessage::Wait { .. }
            | LockMessage::Die { .. }
            | LockMessage::Wound { .. }
            | LockMessage::Probe { .. }
            | LockMessage::Victim { .. } => {}
        }
    }

    /// As home: has the table decide, and sends what it says.
    fn with_table(&mut self, now: Instant, act: impl FnOnce(&mut LockTable, Say<'_>)) {
        let (me, epoch) = (self.config.me, self.epoch());
        let Node { locks: LockService { table, to_self, .. }, delivery, members, .. } = self;
        let mut refused = None;
        act(table, &mut |to, answer| {
            let position = members.position(to);
            if to == me {
                if to_self.push_back(answer).is_err() {
                    refused = Some(Queue::Algorithm);
                }
            } else {
                let payload = Payload::Locks { epoch, message: told(answer) };
                if !position.is_some_and(|position| delivery.send(position, payload, now, None)) {
                    refused = Some(Queue::Delivery);
                }
            }
        });
        if let Some(queue) = refused {
            self.overflowed(queue);
        }
    }

    /// The application that comes with the node goes on.
    fn work(&mut self, now: Instant) {
        let Transaction { goal, held, age, .. } = self.locks.transaction;
        let has_all = !goal.is_empty() && goal.without(held).is_empty();
        match self.locks.work.poll(has_all, now) {
            Some(Next::Begin) if goal.is_empty() && age.is_none() => {
                let list = self.choose();
                self.locks.claims = list.iter().copied().collect();
                self.locks.work.begin(list);
                self.work_again(now);
            }
            // A scripted transaction is under way.
            Some(Next::Begin) => {
                let dice = self.random();
                self.locks.work.rest(dice, now);
            }
            Some(Next::Take(resource)) => self.acquire(now, [resource].into_iter().collect()),
            Some(Next::Finish(resources)) => {
                self.release(now, resources);
                let dice = self.random();
                self.locks.work.rest(dice, now);
            }
            None => {}
        }
    }

    fn work_again(&mut self, now: Instant) {
        if let Some(Next::Take(resource)) = self.locks.work.poll(false, now) {
            self.acquire(now, [resource].into_iter().collect());
        }
    }

    /// Several resources at random, in the order in which they will be taken.
    fn choose(&mut self) -> Vec<ResourceId, RESOURCES_MAX> {
        let mut list: Vec<ResourceId, RESOURCES_MAX> = self.locks.all.iter().collect();
        for at in (1..list.len()).rev() {
            list.swap(at, self.random() as usize % (at + 1));
        }
        list.truncate(self.locks.work.several());
        if self.locks.strategy == DeadlockStrategy::PreventOrder {
            list.sort_unstable();
        }
        list
    }
}

fn told(answer: Answer) -> LockMessage {
    match answer {
        Answer::Grant { resource, ticket, serial } => LockMessage::Grant { resource, ticket, serial },
        Answer::Wait { resource, ticket, holder } => LockMessage::Wait { resource, ticket, holder },
        Answer::Die { resource, ticket } => LockMessage::Die { resource, ticket },
        Answer::Wound { resource, ticket } => LockMessage::Wound { resource, ticket },
    }
}
