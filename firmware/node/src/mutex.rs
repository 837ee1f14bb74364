//! Taking turns: the algorithm's events, the guardian's questions, the keeper's verdicts.

use crate::{
    defences::Defence,
    node::Node,
    transmit::Outgoing,
    turns::{Client, Turn, Wish},
};
use core::num::NonZeroU64;

use compasso_algorithms::{
    Algorithm, Context, Output,
    mutex::{Command, Event as Said, Guardian, Mutex, guardian},
};
use compasso_wire::{
    Event, Fence, Instant, Kind, Lists, NO_LISTS, NodeId, Payload, ResourceId, locks::ResourceSet,
    message::MutexMessage, telemetry::Queue,
};

/// The epoch of the one view that the bare textbook form has.
pub(crate) const TEXTBOOK_EPOCH: u32 = 1;

pub(crate) fn resource_id(resource: usize) -> ResourceId {
    ResourceId(resource as u8)
}

impl Node {
    /// The epoch of the view in force; 0 before the first.
    pub(crate) fn epoch(&self) -> u32 {
        if !self.hardened() {
            return TEXTBOOK_EPOCH;
        }
        self.membership.view().map_or(0, |view| view.epoch)
    }

    /// The application asks for a resource.
    pub(crate) fn request_turn(&mut self, now: Instant, resource: ResourceId, wish: Wish) {
        let index = usize::from(resource.0);
        let Some(turn) = self.turns.get_mut(index) else { return };
        // In the textbook form nobody asks before it knows the others: who is asked once would miss it.
        let early = !self.begun && !self.config.hardening;
        if early || turn.client != Client::Outside {
            if turn.waiting.push_back(wish).is_err() {
                self.overflowed(Queue::Requests);
            }
            return;
        }
        if let Some(lamport) = wish.lamport.map(NonZeroU64::get)
            && !self.journal.advance_to(lamport)
        {
            // Another number than the script's would be another execution.
            return self.record(now, Event::RequestRefused { resource, lamport });
        }
        self.record(now, Event::Request { resource });
        let stamp = self.journal.stamps().0;
        if let Some(turn) = self.turns.get_mut(index) {
            turn.client = Client::Wanting { hold: wish.hold, stamp };
        }
        if self.begun {
            self.with_mutex(now, index, |mutex, cx| mutex.handle_command(Command::Request { stamp }, cx));
        }
    }

    /// The view begins: every algorithm anew, and whoever wants to enter asks again.
    pub(crate) fn begin_turns(&mut self, now: Instant) {
        self.begun = true;
        let (epoch, was_held) = (self.epoch(), self.tokens_in_hands());
        self.delivery.abandon_where(|payload| payload.epoch().is_some_and(|old| old < epoch));
        let coordinator = self.coordinator() == self.config.me;
        // The textbook form has one view, and a coordinator that comes back makes a token without asking.
        let (hardened, returned) = (self.hardened(), self.config.incarnation > 1);
        for resource in 0..self.turns.len() {
            let is_first = self.membership.fence(resource).epoch() == 0;
            self.membership.note_fence(resource, Fence::new(epoch, 0));
            let Some(turn) = self.turns.get_mut(resource) else { continue };
            if hardened {
                turn.mutex = Mutex::new(&self.config.mutex, &self.members, self.config.timing.token_rest);
            }
            let request = match turn.client {
                Client::Wanting { hold, stamp } | Client::Admitted { hold, stamp, .. } => {
                    turn.client = Client::Wanting { hold, stamp };
                    Some(stamp)
                }
                Client::Outside | Client::Inside { .. } | Client::Overdue { .. } => None,
            };
            let lost = !was_held.contains(resource_id(resource));
            let anew = if hardened { !is_first } else { returned };
            if coordinator && turn.mutex.uses_token() && anew && lost {
                self.record(now, Event::TokenRegenerated { resource: resource_id(resource), epoch });
            }
            self.with_mutex(now, resource, |mutex, cx| mutex.handle_command(Command::Begin, cx));
            if let Some(stamp) = request {
                self.with_mutex(now, resource, |mutex, cx| mutex.handle_command(Command::Request { stamp }, cx));
            }
            self.request_next(now, resource);
        }
    }

    /// Whoever is outside makes the next of the requests that wait.
    fn request_next(&mut self, now: Instant, resource: usize) {
        let next = |turn: &mut Turn| if turn.client == Client::Outside { turn.waiting.pop_front() } else { None };
        while let Some(wish) = self.turns.get_mut(resource).and_then(next) {
            self.request_turn(now, resource_id(resource), wish);
        }
    }

    /// The resources whose token this node or, as far as it knows, a follower has.
    fn tokens_in_hands(&self) -> ResourceSet {
        self.membership.custody().iter().chain(self.holdings().custody.iter()).collect()
    }

    pub(crate) fn turn_timeouts(&mut self, now: Instant) {
        if let Some(hold) = self.requests.poll(now) {
            let chosen = self.random() as usize % self.turns.len().max(1);
            self.requests.chosen = chosen;
            self.request_turn(now, resource_id(chosen), Wish { hold, lamport: None });
        }
        for resource in 0..self.turns.len() {
            if self.takes_turns(now) {
                self.with_mutex(now, resource, |mutex, cx| mutex.handle_timeout(cx));
            }
            self.with_guardian(now, resource, |guardian, cx| guardian.handle_timeout(cx));
            self.client_timeout(now, resource);
        }
    }

    /// Whether this node may be inside: always in the textbook form, else while its lease lasts.
    fn lease_left(&self, now: Instant) -> Option<Option<Instant>> {
        if !self.hardened() || !self.defences.has(Defence::Lease) {
            return Some(None);
        }
        self.membership.lease_until(&self.members, now).map(Some)
    }

    /// Whether the algorithms go on by themselves: not while the view changes, and not where this node
    /// may be cut off, or its tries would pile up before those who do not answer.
    pub(crate) fn takes_turns(&self, now: Instant) -> bool {
        !self.hardened() || (!self.membership.changing() && self.lease_left(now).is_some())
    }

    fn client_timeout(&mut self, now: Instant, resource: usize) {
        // While the view changes the keeper may be gone: leaving does not wait for it.
        let changing = self.hardened() && self.membership.changing();
        let Some(turn) = self.turns.get(resource) else { return };
        match turn.client {
            Client::Inside { fence, lease_until: Some(until), .. } if now >= until => {
                if let Some(turn) = self.turns.get_mut(resource) {
                    turn.client = Client::Overdue { fence, ask_at: now };
                }
                self.ask_keeper(now, resource);
            }
            Client::Inside { fence, leave_at, ask_at, .. } if now >= leave_at && (ask_at.is_none() || changing) => {
                self.leave(now, resource, fence);
            }
            Client::Inside { ask_at: Some(ask_at), .. } | Client::Overdue { ask_at, .. } if now >= ask_at => {
                self.ask_keeper(now, resource);
            }
            Client::Outside
            | Client::Wanting { .. }
            | Client::Admitted { .. }
            | Client::Inside { .. }
            | Client::Overdue { .. } => {}
        }
    }

    fn leave(&mut self, now: Instant, resource: usize, fence: Fence) {
        self.record(now, Event::CsExit { resource: resource_id(resource), fence });
        self.outside(now, resource, fence);
    }

    fn outside(&mut self, now: Instant, resource: usize, fence: Fence) {
        if let Some(turn) = self.turns.get_mut(resource) {
            turn.client = Client::Outside;
        }
        // The algorithm of a later view knows nothing of this entry.
        if fence.epoch() == self.epoch() {
            self.with_mutex(now, resource, |mutex, cx| mutex.handle_command(Command::Release, cx));
        }
        self.request_next(now, resource);
        let content = self.turns.get(resource).is_some_and(|turn| turn.client == Client::Outside);
        if content && resource == self.requests.chosen {
            self.requests.rest(now);
        }
    }

    /// Shows the fence to the keeper.
    fn ask_keeper(&mut self, now: Instant, resource: usize) {
        let again_at = now + self.config.timing.trans;
        let keeper = self.keeper();
        let Some(turn) = self.turns.get_mut(resource) else { return };
        let fence = match &mut turn.client {
            Client::Inside { fence, ask_at, .. } => {
                *ask_at = Some(again_at);
                *fence
            }
            Client::Overdue { fence, ask_at } => {
                *ask_at = again_at;
                *fence
            }
            Client::Outside | Client::Wanting { .. } | Client::Admitted { .. } => return,
        };
        let resource_id = resource_id(resource);
        if keeper == self.config.me {
            let accepted = self.keep(resource, fence);
            self.handle_verdict(now, resource_id, fence, accepted);
        } else {
            self.push(keeper, Outgoing::Access { resource: resource_id, fence });
        }
    }

    /// The keeper of every resource: the lowest id of the view.
    fn keeper(&self) -> NodeId {
        self.members.of(self.view()).min().unwrap_or(self.config.me)
    }

    /// The keeper's rule: only the highest fence may touch the resource.
    fn keep(&mut self, resource: usize, fence: Fence) -> bool {
        let accepted = fence >= self.membership.fence(resource) || !self.defences.has(Defence::Keeper);
        self.membership.note_fence(resource, fence);
        accepted
    }

    pub(crate) fn handle_access(&mut self, now: Instant, from: NodeId, resource: ResourceId, fence: Fence) {
        // A keeper that was cut off may have been replaced: it does not answer, and is asked no more.
        let keeps = self.keeper() == self.config.me && self.lease_left(now).is_some();
        if keeps && usize::from(resource.0) < self.turns.len() {
            let accepted = self.keep(usize::from(resource.0), fence);
            self.push(from, Outgoing::AccessReply { resource, fence, accepted });
        }
    }

    pub(crate) fn handle_verdict(&mut self, now: Instant, resource: ResourceId, verdict: Fence, accepted: bool) {
        let index = usize::from(resource.0);
        let Some(turn) = self.turns.get_mut(index) else { return };
        match &mut turn.client {
            Client::Inside { fence, .. } | Client::Overdue { fence, .. } if *fence == verdict && !accepted => {
                self.record(now, Event::Fenced { resource, fence: verdict });
                self.outside(now, index, verdict);
            }
            Client::Inside { fence, ask_at, .. } if *fence == verdict => *ask_at = None,
            Client::Overdue { fence, .. } if *fence == verdict => self.leave(now, index, verdict),
            Client::Outside
            | Client::Wanting { .. }
            | Client::Admitted { .. }
            | Client::Inside { .. }
            | Client::Overdue { .. } => {}
        }
    }

    /// The lease may have grown: whoever is inside says so.
    pub(crate) fn lease_renewed(&mut self, now: Instant) {
        let Some(Some(until)) = self.lease_left(now) else { return };
        for resource in 0..self.turns.len() {
            if let Some(Turn { client: Client::Inside { fence, lease_until, .. }, .. }) = self.turns.get_mut(resource)
                && lease_until.is_some_and(|known| known < until)
            {
                *lease_until = Some(until);
                let (resource, fence) = (resource_id(resource), *fence);
                self.record(now, Event::CsRenew { resource, fence, lease_us: until.since(now).0 });
            }
        }
    }

    /// Enters where it is our turn and nothing speaks against it; keeps the guardians appointed.
    pub(crate) fn settle_turns(&mut self, now: Instant) {
        if self.hardened() {
            self.appoint_guardians(now);
            if self.membership.changing() {
                return;
            }
        }
        for resource in 0..self.turns.len() {
            let Some(Turn { client: Client::Admitted { hold, fence, .. }, .. }) = self.turns.get(resource) else {
                continue;
            };
            let (hold, fence) = (*hold, *fence);
            let Some(lease_until) = self.lease_left(now) else { continue };
            let ask_at = self.hardened().then_some(now);
            if let Some(turn) = self.turns.get_mut(resource) {
                turn.client = Client::Inside { fence, leave_at: now + hold, ask_at, lease_until };
            }
            let lease_us = lease_until.map(|until| until.since(now).0);
            self.record(now, Event::CsEnter { resource: resource_id(resource), fence, lease_us });
            if self.hardened() {
                self.membership.note_fence(resource, fence);
                self.ask_keeper(now, resource);
            }
        }
    }

    fn appoint_guardians(&mut self, now: Instant) {
        let authority = self.membership.authority_until(&self.members, now).is_some();
        let view = self.membership.view().filter(|_| authority).map(|view| view.epoch);
        if view != self.guarded {
            self.guarded = view;
            for resource in 0..self.turns.len() {
                let token = self.turns.get(resource).is_some_and(|turn| turn.mutex.uses_token());
                self.with_guardian(now, resource, |guardian, cx| guardian.appoint(view.is_some() && token, cx));
            }
        }
    }

    pub(crate) fn handle_mutex(
        &mut self,
        now: Instant,
        from: NodeId,
        resource: ResourceId,
        epoch: u32,
        message: MutexMessage,
        lists: &Lists,
    ) {
        // What belongs to an earlier view means nothing in this one.
        if epoch == self.epoch() && (self.begun || !self.hardened()) {
            self.with_mutex_and_lists(now, usize::from(resource.0), lists, |mutex, cx| {
                mutex.handle_message(from, message, cx);
            });
        }
    }

    /// Whether the token is in this node's hands, or on its way and not known to have arrived.
    pub(crate) fn custody(&self, resource: usize) -> bool {
        let here = self.turns.get(resource).is_some_and(|turn| turn.mutex.has_token());
        let id = resource_id(resource);
        here || self.delivery.is_pending(|payload| {
            payload.kind() == Kind::Token && matches!(payload, Payload::Mutex { resource: of, .. } if *of == id)
        })
    }

    pub(crate) fn handle_census(&mut self, now: Instant, from: NodeId, epoch: u32, round: u32, resource: ResourceId) {
        let index = usize::from(resource.0);
        if epoch != self.epoch() || index >= self.turns.len() {
            return;
        }
        let custody = self.custody(index);
        if from == self.config.me {
            self.handle_census_reply(now, self.members.my_position(), epoch, round, resource, custody);
        } else {
            self.push(from, Outgoing::CensusReply { epoch, round, resource, custody });
        }
    }

    pub(crate) fn handle_census_reply(
        &mut self,
        now: Instant,
        position: usize,
        epoch: u32,
        round: u32,
        resource: ResourceId,
        custody: bool,
    ) {
        if self.guarded == Some(epoch) {
            self.with_guardian(now, usize::from(resource.0), |guardian, cx| {
                guardian.handle_reply(position, round, custody, cx);
            });
        }
    }

    fn with_mutex(
        &mut self,
        now: Instant,
        resource: usize,
        act: impl FnOnce(&mut Mutex, &mut Context<'_, MutexMessage, Said>),
    ) {
        self.with_mutex_and_lists(now, resource, &NO_LISTS, act);
    }

    fn with_mutex_and_lists(
        &mut self,
        now: Instant,
        resource: usize,
        lists: &Lists,
        act: impl FnOnce(&mut Mutex, &mut Context<'_, MutexMessage, Said>),
    ) {
        let mut output = Output::default();
        let (view, leader, delays, epoch) = (self.view(), self.coordinator(), self.delays(), self.epoch());
        let (lamport, random) = (self.journal.stamps().0, self.random());
        let Some(turn) = self.turns.get_mut(resource) else { return };
        let members = &self.members;
        let mut cx = Context { now, members, view, leader, lamport, random, delays, lists, output: &mut output };
        act(&mut turn.mutex, &mut cx);
        for event in &output.events {
            match *event {
                Said::TokenArrived { serial } => self.token_arrived(now, resource, epoch, serial),
                Said::Granted { serial } => {
                    if let Some(turn) = self.turns.get_mut(resource)
                        && let Client::Wanting { hold, stamp } = turn.client
                    {
                        turn.client = Client::Admitted { hold, stamp, fence: Fence::new(epoch, serial) };
                    }
                }
            }
        }
        for (to, message) in &output.messages {
            let resource = resource_id(resource);
            self.post(now, *to, Payload::Mutex { resource, epoch, message: *message }, None);
        }
        if output.overflowed {
            self.overflowed(Queue::Algorithm);
        }
    }

    fn token_arrived(&mut self, now: Instant, resource: usize, epoch: u32, serial: u64) {
        let id = resource_id(resource);
        self.record(now, Event::Token { resource: id, epoch, serial });
        self.with_guardian(now, resource, |guardian, cx| guardian.saw(cx));
        let Some(turn) = self.turns.get_mut(resource) else { return };
        if turn.drop_token && turn.client == Client::Outside {
            turn.drop_token = false;
            self.record(now, Event::TokenDropped { resource: id, epoch });
            self.with_mutex(now, resource, |mutex, cx| mutex.handle_command(Command::Discard, cx));
        }
    }

    fn with_guardian(
        &mut self,
        now: Instant,
        resource: usize,
        act: impl FnOnce(&mut Guardian, &mut Context<'_, guardian::Census, guardian::Lost>),
    ) {
        let mut output = Output::default();
        let (view, leader, delays, epoch) = (self.view(), self.coordinator(), self.delays(), self.epoch());
        let Some(turn) = self.turns.get_mut(resource) else { return };
        let (members, lamport, random, lists) = (&self.members, 0, 0, &NO_LISTS);
        let mut cx = Context { now, members, view, leader, lamport, random, delays, lists, output: &mut output };
        act(&mut turn.guardian, &mut cx);
        if !output.events.is_empty() {
            self.membership.renew_view();
        }
        let id = resource_id(resource);
        let mut to_self = None;
        for (to, guardian::Census { round }) in &output.messages {
            if *to == self.config.me {
                to_self = Some(*round);
            } else {
                self.push(*to, Outgoing::Census { epoch, round: *round, resource: id });
            }
        }
        if let Some(round) = to_self {
            self.handle_census(now, self.config.me, epoch, round, id);
        }
    }
}
