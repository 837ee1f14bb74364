//! Taking turns: the algorithm's events, the guardian's questions, the keeper's verdicts.

use crate::{
    defences::Defence,
    node::Node,
    transmit::Outgoing,
    turns::{Client, Turn},
};
use compasso_algorithms::{
    Algorithm, Context, Output,
    mutex::{Guardian, TokenRing, guardian, token_ring},
};
use compasso_wire::{
    Body, Duration, Event, Fence, Instant, Kind, NodeId, Payload, ResourceId, Term,
    message::{MutexMessage, TokenSighting},
    telemetry::Queue,
};

fn resource_id(resource: usize) -> ResourceId {
    ResourceId(resource as u8)
}

impl Node {
    /// In the bare textbook form the highest id simply has the token at first.
    pub(crate) fn first_token(&mut self, now: Instant) {
        if !self.hardened() && self.config.me == self.members.highest() && self.config.incarnation == 1 {
            for resource in 0..self.turns.len() {
                self.with_ring(now, resource, |ring, cx| {
                    ring.handle_command(token_ring::Command::Adopt { epoch: 1 }, cx);
                });
            }
        }
    }

    /// The application asks for a resource.
    pub(crate) fn request_turn(&mut self, now: Instant, resource: ResourceId, hold: Duration, lamport: Option<u64>) {
        let index = usize::from(resource.0);
        let Some(turn) = self.turns.get_mut(index) else { return };
        if turn.client != Client::Outside {
            if turn.waiting.push_back(hold).is_err() {
                self.overflowed(Queue::Requests);
            }
            return;
        }
        turn.client = Client::Wanting { hold };
        if let Some(stamp) = lamport {
            self.journal.advance_to(stamp);
        }
        self.record(now, Event::Request { resource });
        self.with_ring(now, index, |ring, cx| ring.handle_command(token_ring::Command::Request, cx));
    }

    pub(crate) fn turn_timeouts(&mut self, now: Instant) {
        if let Some(hold) = self.requests.poll(now) {
            self.request_turn(now, ResourceId(0), hold, None);
        }
        for resource in 0..self.turns.len() {
            self.with_ring(now, resource, |ring, cx| ring.handle_timeout(cx));
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

    fn client_timeout(&mut self, now: Instant, resource: usize) {
        let Some(turn) = self.turns.get(resource) else { return };
        match turn.client {
            Client::Inside { fence, lease_until: Some(until), .. } if now >= until => {
                if let Some(turn) = self.turns.get_mut(resource) {
                    turn.client = Client::Overdue { fence, ask_at: now };
                }
                self.ask_keeper(now, resource);
            }
            Client::Inside { ask_at: Some(ask_at), .. } | Client::Overdue { ask_at, .. } if now >= ask_at => {
                self.ask_keeper(now, resource);
            }
            Client::Inside { fence, leave_at, ask_at: None, .. } if now >= leave_at => self.leave(now, resource, fence),
            Client::Outside
            | Client::Wanting { .. }
            | Client::Admitted { .. }
            | Client::Inside { .. }
            | Client::Overdue { .. } => {}
        }
    }

    fn leave(&mut self, now: Instant, resource: usize, fence: Fence) {
        self.record(now, Event::CsExit { resource: resource_id(resource), fence });
        self.outside(now, resource, token_ring::Command::Release);
    }

    fn outside(&mut self, now: Instant, resource: usize, command: token_ring::Command) {
        if let Some(turn) = self.turns.get_mut(resource) {
            turn.client = Client::Outside;
        }
        self.with_ring(now, resource, |ring, cx| ring.handle_command(command, cx));
        let next = self.turns.get_mut(resource).and_then(|turn| turn.waiting.pop_front());
        match next {
            Some(hold) => self.request_turn(now, resource_id(resource), hold, None),
            None if resource == 0 => self.requests.rest(now),
            None => {}
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
            self.push(keeper, Outgoing::Body(Body::Access { resource: resource_id, fence }));
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
        if usize::from(resource.0) < self.turns.len()
            && self.keeper() == self.config.me
            && self.lease_left(now).is_some()
        {
            let accepted = self.keep(usize::from(resource.0), fence);
            self.push(from, Outgoing::Body(Body::AccessReply { resource, fence, accepted }));
        }
    }

    pub(crate) fn handle_verdict(&mut self, now: Instant, resource: ResourceId, verdict: Fence, accepted: bool) {
        let index = usize::from(resource.0);
        let Some(turn) = self.turns.get_mut(index) else { return };
        match &mut turn.client {
            Client::Inside { fence, .. } | Client::Overdue { fence, .. } if *fence == verdict && !accepted => {
                self.record(now, Event::Fenced { resource, fence: verdict });
                self.outside(now, index, token_ring::Command::Discard);
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

    /// Enters where it is our turn and the lease allows it; keeps the guardians appointed.
    pub(crate) fn settle_turns(&mut self, now: Instant) {
        if self.hardened() {
            self.appoint_guardians(now);
        }
        for resource in 0..self.turns.len() {
            let Some(Turn { client: Client::Admitted { hold, fence }, .. }) = self.turns.get(resource) else {
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
        let view = self.membership.view().filter(|_| authority).map(|view| (view.term, view.number));
        if view != self.guarded {
            self.guarded = view;
            for resource in 0..self.turns.len() {
                self.with_guardian(now, resource, |guardian, cx| guardian.appoint(view.is_some(), cx));
            }
        }
    }

    pub(crate) fn handle_mutex(&mut self, now: Instant, from: NodeId, resource: ResourceId, message: MutexMessage) {
        let MutexMessage::Token { epoch, serial } = message;
        let index = usize::from(resource.0);
        let token = Fence::new(epoch, serial);
        let admits = !self.hardened() || self.turns.get(index).is_some_and(|turn| turn.guardian.admits(token));
        if admits {
            self.with_ring(now, index, |ring, cx| ring.handle_message(from, message, cx));
        }
    }

    /// Whether the token is in this node's hands, or on its way and not known to have arrived.
    fn custody(&self, resource: usize) -> bool {
        let here = self.turns.get(resource).is_some_and(|turn| turn.ring.token().is_some());
        let id = resource_id(resource);
        here || self.delivery.is_pending(|payload| {
            payload.kind() == Kind::Token && matches!(payload, Payload::Mutex(of, _) if *of == id)
        })
    }

    pub(crate) fn handle_census(&mut self, now: Instant, from: NodeId, term: Term, round: u32, resource: ResourceId) {
        let index = usize::from(resource.0);
        let Some(turn) = self.turns.get(index).filter(|_| term >= self.membership.promised()) else { return };
        let sighting = turn.guardian.sighting(self.custody(index));
        if from == self.config.me {
            let position = self.members.my_position();
            self.handle_sighting(now, position, term, round, resource, sighting);
        } else {
            self.push(from, Outgoing::Body(Body::CensusReply { term, round, resource, sighting }));
        }
    }

    pub(crate) fn handle_sighting(
        &mut self,
        now: Instant,
        position: usize,
        term: Term,
        round: u32,
        resource: ResourceId,
        sighting: TokenSighting,
    ) {
        if self.guarded.is_some_and(|(guarded, _)| guarded == term) {
            self.with_guardian(now, usize::from(resource.0), |guardian, cx| {
                guardian.handle_sighting(position, round, sighting, cx);
            });
        }
    }

    pub(crate) fn handle_seal(&mut self, now: Instant, from: NodeId, term: Term, resource: ResourceId, epoch: u32) {
        let index = usize::from(resource.0);
        if term < self.membership.promised() {
            return;
        }
        let Some(turn) = self.turns.get_mut(index) else { return };
        let promised = turn.guardian.seal(epoch, term);
        if promised {
            self.membership.note_fence(index, Fence::new(epoch, 0));
            self.retire_tokens(now, index, epoch);
        }
        self.remember();
        if from == self.config.me {
            let position = self.members.my_position();
            self.handle_promise(now, position, term, resource, epoch, promised);
        } else {
            self.push(from, Outgoing::Body(Body::SealReply { term, resource, epoch, promised }));
        }
    }

    /// Tokens below `epoch` are void: wherever one is here, it ends here.
    pub(crate) fn retire_tokens(&mut self, now: Instant, resource: usize, epoch: u32) {
        let id = resource_id(resource);
        self.delivery.abandon_where(|payload| {
            matches!(payload, Payload::Mutex(of, MutexMessage::Token { epoch: old, .. }) if *of == id && *old < epoch)
        });
        let Some(turn) = self.turns.get_mut(resource) else { return };
        turn.guardian.retire(epoch);
        if turn.ring.token().is_none_or(|token| token.epoch() >= epoch) {
            return;
        }
        match turn.client {
            Client::Outside | Client::Wanting { .. } => {
                self.with_ring(now, resource, |ring, cx| ring.handle_command(token_ring::Command::Discard, cx));
            }
            // It was our turn by a token that is void: we still want to enter.
            Client::Admitted { hold, .. } => {
                turn.client = Client::Wanting { hold };
                self.with_ring(now, resource, |ring, cx| {
                    ring.handle_command(token_ring::Command::Discard, cx);
                    ring.handle_command(token_ring::Command::Request, cx);
                });
            }
            // The keeper decides what is to become of the entry.
            Client::Inside { .. } | Client::Overdue { .. } => {}
        }
    }

    pub(crate) fn handle_promise(
        &mut self,
        now: Instant,
        position: usize,
        term: Term,
        resource: ResourceId,
        epoch: u32,
        promised: bool,
    ) {
        if self.guarded.is_some_and(|(guarded, _)| guarded == term) {
            self.with_guardian(now, usize::from(resource.0), |guardian, cx| {
                guardian.handle_promise(position, epoch, promised, cx);
            });
        }
    }

    fn with_ring(
        &mut self,
        now: Instant,
        resource: usize,
        act: impl FnOnce(&mut TokenRing, &mut Context<'_, MutexMessage, token_ring::Event>),
    ) {
        let (view, delays) = (self.view(), self.delays());
        let id = resource_id(resource);
        let Some(turn) = self.turns.get_mut(resource) else { return };
        let mut output = Output::default();
        act(&mut turn.ring, &mut Context { now, members: &self.members, view, delays, output: &mut output });
        for &event in &output.events {
            match event {
                token_ring::Event::Arrived { token } => self.token_arrived(now, resource, token),
                token_ring::Event::Granted { fence } => {
                    if let Some(turn) = self.turns.get_mut(resource)
                        && let Client::Wanting { hold } = turn.client
                    {
                        turn.client = Client::Admitted { hold, fence };
                    }
                }
            }
        }
        for &(to, message) in &output.messages {
            let MutexMessage::Token { epoch, serial } = message;
            if let Some(turn) = self.turns.get_mut(resource) {
                turn.guardian.saw(Fence::new(epoch, serial));
            }
            self.post(now, to, Payload::Mutex(id, message), None);
        }
    }

    fn token_arrived(&mut self, now: Instant, resource: usize, token: Fence) {
        let id = resource_id(resource);
        let Some(turn) = self.turns.get_mut(resource) else { return };
        turn.guardian.saw(token);
        let drop_token = turn.drop_token && turn.client == Client::Outside;
        turn.drop_token &= !drop_token;
        self.record(now, Event::Token { resource: id, epoch: token.epoch(), serial: token.serial() });
        if drop_token {
            self.record(now, Event::TokenDropped { resource: id, epoch: token.epoch() });
            self.with_ring(now, resource, |ring, cx| ring.handle_command(token_ring::Command::Discard, cx));
        }
    }

    fn with_guardian(
        &mut self,
        now: Instant,
        resource: usize,
        act: impl FnOnce(&mut Guardian, &mut Context<'_, guardian::Question, guardian::Event>),
    ) {
        let (view, delays) = (self.view(), self.delays());
        let id = resource_id(resource);
        let term = self.membership.promised();
        let Some(turn) = self.turns.get_mut(resource) else { return };
        let mut output = Output::default();
        act(&mut turn.guardian, &mut Context { now, members: &self.members, view, delays, output: &mut output });
        for &event in &output.events {
            let guardian::Event::Make { epoch, replaces } = event;
            // The last promise may have come after our authority had ended.
            if self.membership.authority_until(&self.members, now).is_none() {
                continue;
            }
            if replaces {
                self.record(now, Event::TokenRegenerated { resource: id, epoch });
            }
            self.with_ring(now, resource, |ring, cx| ring.handle_command(token_ring::Command::Adopt { epoch }, cx));
        }
        let mut to_self = None;
        for &(to, question) in &output.messages {
            if to == self.config.me {
                to_self = Some(question);
                continue;
            }
            let body = match question {
                guardian::Question::Census { round } => Body::Census { term, round, resource: id },
                guardian::Question::Seal { epoch } => Body::Seal { term, resource: id, epoch },
            };
            self.push(to, Outgoing::Body(body));
        }
        match to_self {
            Some(guardian::Question::Census { round }) => self.handle_census(now, self.config.me, term, round, id),
            Some(guardian::Question::Seal { epoch }) => self.handle_seal(now, self.config.me, term, id, epoch),
            None => {}
        }
    }
}
