//! What one node's transaction wants, waits for and holds.

use compasso_wire::{
    Fence, Instant, NodeId, ResourceId,
    limits::RESOURCES_MAX,
    locks::{Age, ResourceSet},
};

/// One resource, as its client sees it.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Of the latest request.
    ticket: u16,
    /// Of the latest grant.
    fence: Fence,
    /// Who holds it, as far as the home has told.
    holder: Option<NodeId>,
}

/// The node's transaction: one at a time. A resource of its goal is missing, asked for, granted or held.
pub(crate) struct Transaction {
    /// Since the first request; kept when it has to try again.
    pub(crate) age: Option<Age>,
    /// What it is to hold in the end, all of it.
    pub(crate) goal: ResourceSet,
    /// Requested, and not answered by a grant.
    pub(crate) asked: ResourceSet,
    /// Granted, but it may not be inside yet.
    pub(crate) granted: ResourceSet,
    /// Inside.
    pub(crate) held: ResourceSet,
    /// The most it may ask for, where claims are declared.
    pub(crate) claimed: ResourceSet,
    /// It gave everything back, and pauses until then.
    pub(crate) retry_at: Option<Instant>,
    /// How often it has given everything back.
    pub(crate) attempts: u8,
    /// The lease of what is held, as it was last reported.
    pub(crate) lease_until: Option<Instant>,
    /// Changes whenever the node gets, gives back or asks for anything.
    wait: u16,
    slots: [Slot; RESOURCES_MAX],
}

impl Transaction {
    pub(crate) fn new() -> Transaction {
        let nothing = ResourceSet::default();
        Transaction {
            age: None,
            goal: nothing,
            asked: nothing,
            granted: nothing,
            held: nothing,
            claimed: nothing,
            retry_at: None,
            attempts: 0,
            lease_until: None,
            wait: 0,
            slots: [Slot { ticket: 0, fence: Fence(0), holder: None }; RESOURCES_MAX],
        }
    }

    /// The number of the present wait: while it is the same, so is all that is held and asked for.
    pub(crate) fn wait(&self) -> u16 {
        self.wait
    }

    /// Something is about to be got, given back or asked for.
    pub(crate) fn change(&mut self) -> u16 {
        self.wait = self.wait.wrapping_add(1);
        self.wait
    }

    /// Asks for a resource: the ticket of the request.
    pub(crate) fn ask(&mut self, resource: ResourceId) -> u16 {
        let ticket = self.change();
        self.asked.insert(resource);
        if let Some(slot) = self.slots.get_mut(usize::from(resource.0)) {
            (slot.ticket, slot.holder) = (ticket, None);
        }
        ticket
    }

    pub(crate) fn ticket(&self, resource: ResourceId) -> u16 {
        self.slots.get(usize::from(resource.0)).map_or(0, |slot| slot.ticket)
    }

    pub(crate) fn fence(&self, resource: ResourceId) -> Fence {
        self.slots.get(usize::from(resource.0)).map_or(Fence(0), |slot| slot.fence)
    }

    /// Whether this answers the present request for the resource.
    pub(crate) fn awaits(&self, resource: ResourceId, ticket: u16) -> bool {
        self.asked.contains(resource) && self.ticket(resource) == ticket
    }

    /// Whether the resource was got by that request, and is here.
    pub(crate) fn has(&self, resource: ResourceId, ticket: u16) -> bool {
        self.held.and(self.granted).contains(resource) && self.ticket(resource) == ticket
    }

    /// The request was granted.
    pub(crate) fn got(&mut self, resource: ResourceId, fence: Fence) {
        self.change();
        self.asked.remove(resource);
        self.granted.insert(resource);
        if let Some(slot) = self.slots.get_mut(usize::from(resource.0)) {
            (slot.fence, slot.holder) = (fence, None);
        }
    }

    /// The resource is here and asked for no more.
    pub(crate) fn drop_from_all(&mut self, resource: ResourceId) {
        self.change();
        for set in [&mut self.asked, &mut self.granted, &mut self.held] {
            set.remove(resource);
        }
        self.set_holder(resource, None);
    }

    pub(crate) fn set_holder(&mut self, resource: ResourceId, holder: Option<NodeId>) {
        if let Some(slot) = self.slots.get_mut(usize::from(resource.0)) {
            slot.holder = holder;
        }
    }

    /// For whom this node waits, and for what.
    pub(crate) fn waits(&self) -> impl Iterator<Item = (ResourceId, NodeId)> + '_ {
        let holder = |resource: ResourceId| self.slots.get(usize::from(resource.0))?.holder;
        self.asked.iter().filter_map(move |resource| Some((resource, holder(resource)?)))
    }

    pub(crate) fn is_blocked(&self) -> bool {
        self.waits().next().is_some()
    }

    /// A new view begins: grants of the old one that were not used are void, and what is held gets this ticket.
    pub(crate) fn begin(&mut self) -> u16 {
        let ticket = self.change();
        self.asked = self.asked.and(self.granted);
        self.granted = ResourceSet::default();
        for resource in self.held.iter() {
            if let Some(slot) = self.slots.get_mut(usize::from(resource.0)) {
                slot.ticket = ticket;
            }
        }
        ticket
    }

    /// Everything was given back for good.
    pub(crate) fn end(&mut self) {
        (self.age, self.retry_at, self.attempts, self.lease_until) = (None, None, 0, None);
        self.goal = ResourceSet::default();
    }
}
