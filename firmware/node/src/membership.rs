//! Membership: who leads, over which view, and until when a grant may be relied on.
//!
//! The leader's heartbeats carry its term and its view; acknowledging one accepts both. Four
//! rules make its authority safe, whatever the network does:
//!
//! 1. **Majority.** A view holds more than half of the configured nodes. The leader has authority
//!    for one lease from when it *sent* the heartbeats that a majority has acknowledged.
//! 2. **Leases.** A member relies on a grant for one lease from when it *sent* the renewal that
//!    the grant answers. The leader grants only under authority, and remembers until when a lease
//!    it granted may last, widened by the drift of both crystals.
//! 3. **Quiet change.** Who accepts a view enters nothing more in the one before. A view comes into
//!    force when every member has accepted it and nobody among them is inside: every algorithm then
//!    begins anew, in an epoch of its own, and whatever belongs to an earlier epoch is void.
//! 4. **Waiting out.** A view that leaves somebody out comes into force only when no lease of
//!    those left out can be valid any more: not one that this leader granted, and not one of an
//!    earlier leader, whose authority ended at the latest one lease after a majority had promised
//!    itself to this term, and whose grants one lease later.

use crate::defences::{Defence, Defences};
use compasso_algorithms::Members;
use compasso_wire::{
    Duration, Fence, Instant, NodeId, NodeSet, Term,
    config::Timing,
    limits::{MEMBERS_MAX, TURNS_MAX},
    locks::ResourceSet,
    message::{Heartbeat, HeartbeatAck, TimeKnown},
};
use heapless::Vec;

/// A set of nodes that a leader has put in force.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct View {
    /// The leader's term.
    pub term: Term,
    /// Number within the term.
    pub number: u32,
    /// Higher than that of every view before it, whoever made it.
    pub epoch: u32,
    /// Who is in it.
    pub members: NodeSet,
}

#[derive(Clone, Copy, Debug, Default)]
struct Follower {
    /// Sending time of the latest heartbeat that it acknowledged, with a vote.
    acknowledged: Option<Instant>,
    /// Its latest request for a lease, to be repeated in the grant.
    renewal: Option<Instant>,
    /// Until when a lease that we granted may last.
    granted_until: Instant,
    /// The latest view it accepted.
    view: u32,
    /// Somebody was inside when it last answered.
    busy: bool,
    /// The resources whose token it had when it last answered.
    custody: ResourceSet,
    time: TimeKnown,
}

struct Leadership {
    term: Term,
    number: u32,
    epoch: u32,
    proposed: NodeSet,
    /// Propose a new view, even of the same members.
    renew: bool,
    installed: bool,
    followers: Vec<Follower, MEMBERS_MAX>,
    heartbeat_at: Instant,
    /// No lease of an earlier leader is valid after this; unknown until a majority has promised.
    takeover_until: Option<Instant>,
}

#[expect(clippy::large_enum_variant, reason = "there is one role a node, and no heap to put it on")]
enum Role {
    Alone,
    Following { leader: NodeId },
    Leading(Leadership),
}

/// One node's part in the membership.
pub struct Membership {
    promised: Term,
    /// The highest epoch accepted here, or known from others.
    epoch: u32,
    /// The highest epoch that this life has accepted.
    accepted: u32,
    role: Role,
    view: Option<View>,
    lease_until: Option<Instant>,
    /// The highest fence of each resource that is known to have been used.
    fences: Vec<Fence, TURNS_MAX>,
    lease: Duration,
    drift_ppm: u32,
    heartbeat: Duration,
    defences: Defences,
}

/// What a node holds that a change of view must wait for, or would like to know of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Holdings {
    /// Somebody is inside here.
    pub busy: bool,
    /// The resources whose token is here.
    pub custody: ResourceSet,
}

/// What a heartbeat led to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heard {
    /// It is of a term that this node has left behind.
    Stale,
    /// Its sender leads; `installed` if a new view came into force.
    Leads {
        /// A new view came into force.
        installed: bool,
    },
}

impl Membership {
    /// A node that promised itself to `promised` and accepted `epoch` in an earlier life.
    #[must_use]
    pub fn new(promised: Term, epoch: u32, resources: usize, timing: &Timing) -> Membership {
        Membership {
            promised,
            epoch,
            accepted: 0,
            role: Role::Alone,
            view: None,
            lease_until: None,
            fences: (0..resources.min(TURNS_MAX)).map(|_| Fence::default()).collect(),
            lease: timing.lease,
            drift_ppm: timing.drift_ppm,
            heartbeat: timing.heartbeat,
            defences: Defences::ALL,
        }
    }

    /// Works without some defence, to show that it is needed.
    #[cfg(any(test, feature = "sabotage"))]
    pub(crate) fn set_defences(&mut self, defences: Defences) {
        self.defences = defences;
    }

    fn needed(&self, members: &Members) -> usize {
        if self.defences.has(Defence::Majority) { members.majority() } else { 1 }
    }

    /// The highest term that this node has promised itself to.
    #[must_use]
    pub fn promised(&self) -> Term {
        self.promised
    }

    /// The view in force here.
    #[must_use]
    pub fn view(&self) -> Option<View> {
        self.view
    }

    /// The highest epoch accepted: what must be remembered over a restart.
    #[must_use]
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// A newer view than the one in force has been accepted: nothing more is entered in this one.
    #[must_use]
    pub fn changing(&self) -> bool {
        self.view.is_none_or(|view| view.epoch < self.epoch)
    }

    /// As leader: make a new view, even of the same members.
    pub fn renew_view(&mut self) {
        if let Role::Leading(leading) = &mut self.role {
            leading.renew = true;
        }
    }

    /// As leader: the resources whose token some member had when it accepted the view.
    #[must_use]
    pub fn custody(&self) -> ResourceSet {
        match &self.role {
            Role::Leading(leading) => {
                let members = leading.followers.iter().enumerate().filter(|(at, _)| leading.proposed.contains(*at));
                members.flat_map(|(_, follower)| follower.custody.iter()).collect()
            }
            Role::Alone | Role::Following { .. } => ResourceSet::default(),
        }
    }

    /// The leader this node follows.
    #[must_use]
    pub fn following(&self) -> Option<NodeId> {
        match self.role {
            Role::Following { leader } => Some(leader),
            Role::Alone | Role::Leading(_) => None,
        }
    }

    /// Whether this node leads.
    #[must_use]
    pub fn leads(&self) -> bool {
        matches!(self.role, Role::Leading(_))
    }

    /// For how many resources there are fences.
    #[must_use]
    pub fn resources(&self) -> usize {
        self.fences.len()
    }

    /// The highest fence known of a resource.
    #[must_use]
    pub fn fence(&self, resource: usize) -> Fence {
        self.fences.get(resource).copied().unwrap_or_default()
    }

    /// A fence was used.
    pub fn note_fence(&mut self, resource: usize, fence: Fence) {
        if let Some(known) = self.fences.get_mut(resource) {
            *known = (*known).max(fence);
        }
    }

    /// This node was elected.
    pub fn lead(&mut self, term: Term, members: &Members, now: Instant) {
        self.promised = self.promised.max(term);
        self.role = Role::Leading(Leadership {
            term,
            number: 0,
            epoch: 0,
            proposed: NodeSet::EMPTY,
            renew: false,
            installed: false,
            followers: (0..members.count()).map(|_| Follower::default()).collect(),
            heartbeat_at: now,
            takeover_until: None,
        });
    }

    /// Somebody else was elected.
    pub fn follow(&mut self, leader: NodeId, term: Term) {
        if term >= self.promised {
            self.promised = term;
            self.role = Role::Following { leader };
        }
    }

    /// Nobody is elected. Leases last as long as they last.
    pub fn disband(&mut self) {
        self.role = Role::Alone;
    }

    /// Takes a heartbeat; `votes` if this node may accept a view.
    pub fn handle_heartbeat(&mut self, from: NodeId, heartbeat: &Heartbeat, votes: bool, members: &Members) -> Heard {
        if heartbeat.term < self.promised || heartbeat.term.claimant() != from {
            return Heard::Stale;
        }
        self.follow(from, heartbeat.term);
        let member = heartbeat.members.contains(members.my_position());
        let Heartbeat { term, view: number, epoch, members, .. } = *heartbeat;
        if member && votes && !heartbeat.installed {
            self.epoch = self.epoch.max(epoch);
            self.accepted = self.accepted.max(epoch);
        }
        // A view that an earlier life accepted is not this life's: it has forgotten what it said there.
        let is_ours = self.accepted == epoch;
        if let (true, Some(renewed)) = (member && self.accepted > 0, heartbeat.lease) {
            let until = renewed + self.lease;
            self.lease_until = Some(self.lease_until.map_or(until, |known| known.max(until)));
        }
        let installed = heartbeat.installed && is_ours && self.view.is_none_or(|known| known.epoch < epoch);
        if installed {
            let view = View { term, number, epoch, members };
            self.view = Some(view);
            for (resource, fence) in heartbeat.fences.iter().enumerate() {
                self.note_fence(resource, *fence);
            }
        }
        Heard::Leads { installed }
    }

    /// The answer to a heartbeat of this term, view and time, also to a stale one: it says which term is the present one.
    #[must_use]
    #[expect(clippy::too_many_arguments, reason = "each is one field of the message")]
    pub fn acknowledge(
        &self,
        term: Term,
        view: u32,
        echo: Instant,
        votes: bool,
        time: TimeKnown,
        holdings: Holdings,
        now: Instant,
    ) -> HeartbeatAck {
        HeartbeatAck {
            term: self.promised,
            view,
            epoch: self.epoch,
            busy: holdings.busy,
            custody: holdings.custody,
            echo,
            renewal: now,
            votes: votes && term == self.promised,
            time,
            fences: self.fences.clone(),
        }
    }

    /// Takes an acknowledgement. False if it shows that this leader's term is over.
    #[must_use]
    pub fn handle_ack(&mut self, position: usize, ack: &HeartbeatAck) -> bool {
        let Role::Leading(leading) = &mut self.role else { return true };
        if ack.term > leading.term {
            return false;
        }
        if let (true, Some(follower)) = (ack.term == leading.term, leading.followers.get_mut(position)) {
            follower.time = ack.time;
            if ack.votes {
                follower.acknowledged = follower.acknowledged.max(Some(ack.echo));
                follower.renewal = follower.renewal.max(Some(ack.renewal));
                if ack.view >= follower.view {
                    follower.view = ack.view;
                    follower.busy = ack.busy;
                    follower.custody = ack.custody;
                }
                self.epoch = self.epoch.max(ack.epoch);
            }
            for (resource, fence) in ack.fences.iter().enumerate() {
                self.note_fence(resource, *fence);
            }
        }
        true
    }

    /// The peer began a new life: what the old one acknowledged is void.
    pub fn peer_reborn(&mut self, position: usize) {
        if let Role::Leading(leading) = &mut self.role
            && let Some(follower) = leading.followers.get_mut(position)
        {
            *follower = Follower { granted_until: follower.granted_until, ..Follower::default() };
            // A view that its earlier life accepted is not the new one's. Where too few are left to make one without
            // it, the living are soon the same again as before, and only this tells that they are not.
            leading.renew |= leading.proposed.contains(position);
        }
    }

    /// As leader: some follower that knows this much of cluster time.
    #[must_use]
    pub fn follower_with(&self, known: TimeKnown) -> Option<usize> {
        match &self.role {
            Role::Leading(leading) => leading.followers.iter().position(|follower| follower.time >= known),
            Role::Alone | Role::Following { .. } => None,
        }
    }

    /// As leader: what this follower knows of cluster time.
    #[must_use]
    pub fn time_known(&self, position: usize) -> TimeKnown {
        match &self.role {
            Role::Leading(leading) => {
                leading.followers.get(position).map_or(TimeKnown::Nothing, |follower| follower.time)
            }
            Role::Alone | Role::Following { .. } => TimeKnown::Nothing,
        }
    }

    /// As leader: proposes the view of those who live, and puts it in force when it may be.
    /// True if a view came into force.
    pub fn reconsider(
        &mut self,
        members: &Members,
        is_trusted: impl Fn(usize) -> bool,
        holdings: Holdings,
        now: Instant,
    ) -> bool {
        let me = members.my_position();
        let needed = self.needed(members);
        let waits = self.defences.has(Defence::WaitingOut);
        let Role::Leading(leading) = &mut self.role else { return false };
        let mut living = NodeSet::EMPTY;
        for (position, follower) in leading.followers.iter().enumerate() {
            if position == me || (follower.acknowledged.is_some() && is_trusted(position)) {
                living.insert(position);
            }
        }
        if living.len() < needed {
            return false;
        }
        let lease = self.lease.widened(self.drift_ppm);
        let takeover_until = *leading.takeover_until.get_or_insert(now + lease.times(2));
        // Somebody may have accepted a higher epoch than ours from an earlier leader.
        if living != leading.proposed || leading.renew || leading.epoch < self.epoch {
            leading.proposed = living;
            leading.renew = false;
            leading.number += 1;
            self.epoch += 1;
            leading.epoch = self.epoch;
            self.accepted = self.epoch;
            leading.installed = false;
            leading.heartbeat_at = now;
        }
        let waited_out = |position: usize, follower: &Follower| {
            !waits || leading.proposed.contains(position) || (now >= follower.granted_until && now >= takeover_until)
        };
        let accepted = |position: usize, follower: &Follower| {
            position == me
                || !leading.proposed.contains(position)
                || (follower.view >= leading.number && !follower.busy)
        };
        let ready = leading
            .followers
            .iter()
            .enumerate()
            .all(|(position, follower)| waited_out(position, follower) && accepted(position, follower));
        if leading.installed || !ready || holdings.busy {
            return false;
        }
        leading.installed = true;
        leading.heartbeat_at = now;
        self.view =
            Some(View { term: leading.term, number: leading.number, epoch: leading.epoch, members: leading.proposed });
        true
    }

    /// Until when this leader's authority lasts, by the heartbeats that a majority acknowledged.
    #[must_use]
    pub fn authority_until(&self, members: &Members, now: Instant) -> Option<Instant> {
        let Role::Leading(leading) = &self.role else { return None };
        if self.view.is_none_or(|view| view.term != leading.term) {
            return None; // No view of this term is in force yet.
        }
        let mut sent: Vec<Instant, MEMBERS_MAX> = leading
            .followers
            .iter()
            .enumerate()
            .filter_map(
                |(position, follower)| {
                    if position == members.my_position() { Some(now) } else { follower.acknowledged }
                },
            )
            .collect();
        sent.sort_unstable_by(|a, b| b.cmp(a));
        sent.get(self.needed(members) - 1).map(|sent| *sent + self.lease).filter(|until| now < *until)
    }

    /// Until when this node may rely on being a member, if it still may.
    #[must_use]
    pub fn lease_until(&self, members: &Members, now: Instant) -> Option<Instant> {
        let until = match self.role {
            Role::Leading(_) => self.authority_until(members, now).max(self.lease_until),
            Role::Alone | Role::Following { .. } => self.lease_until,
        };
        until.filter(|until| now < *until)
    }

    /// Whether heartbeats are due.
    #[must_use]
    pub fn heartbeat_due(&self, now: Instant) -> bool {
        matches!(&self.role, Role::Leading(leading) if now >= leading.heartbeat_at)
    }

    /// Heartbeats have been made: the next ones follow after a period.
    pub fn heartbeats_made(&mut self, now: Instant) {
        if let Role::Leading(leading) = &mut self.role {
            leading.heartbeat_at = now + self.heartbeat;
        }
    }

    /// The heartbeat for one follower, with its lease if it may have one.
    pub fn heartbeat_for(
        &mut self,
        position: usize,
        life: u32,
        members: &Members,
        has_time: bool,
        now: Instant,
    ) -> Option<Heartbeat> {
        let authority = self.authority_until(members, now).is_some();
        let in_force = self.view.is_some_and(|view| view.members.contains(position));
        let granted_until = now + self.lease.widened(self.drift_ppm);
        let Role::Leading(leading) = &mut self.role else { return None };
        // Who is about to leave gets no more; who stays is not punished for the change.
        let in_force = in_force && leading.proposed.contains(position);
        let follower = leading.followers.get_mut(position)?;
        let lease = follower.renewal.filter(|_| authority && in_force);
        if lease.is_some() {
            follower.granted_until = granted_until;
        }
        Some(Heartbeat {
            term: leading.term,
            view: leading.number,
            epoch: leading.epoch,
            members: leading.proposed,
            installed: leading.installed,
            sent: now,
            lease,
            life,
            has_time,
            fences: self.fences.clone(),
        })
    }

    /// When to look again, and why.
    #[must_use]
    pub fn poll_timeout(&self, now: Instant) -> Option<(Instant, &'static str)> {
        let Role::Leading(leading) = &self.role else { return None };
        let heartbeat = (leading.heartbeat_at, "heartbeat");
        if leading.installed {
            return Some(heartbeat);
        }
        // The next moment at which one more lease has been waited out.
        let wait = leading
            .followers
            .iter()
            .map(|follower| follower.granted_until)
            .chain(leading.takeover_until)
            .filter(|until| *until > now)
            .min();
        match wait {
            Some(until) if until < heartbeat.0 => Some((until, "lease waited out")),
            Some(_) | None => Some(heartbeat),
        }
    }
}
