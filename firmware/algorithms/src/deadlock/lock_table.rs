//! The home of resources: who holds each, and who waits for it.
//! Safety (ME1): one holder a resource at a time. Serials grow from grant to grant: one counter for all.
//! Who waits longest is served first, by the time of its transaction's first attempt; only under wait-die the
//! youngest is, for then all others are older than the new holder and may go on waiting. Nobody starves by that:
//! only an older one than the holder may join the queue, so holders get ever older until the queue is empty.
//! Assumes that everybody lives and that channels keep order, as in one view; a node has one transaction at a time.

use super::{
    avoid::{Customer, is_safe},
    timestamps::{Verdict, wait_die, wound_wait},
};
use compasso_wire::{
    NodeId, ResourceId,
    config::DeadlockStrategy,
    limits::{MEMBERS_MAX, RESOURCES_MAX},
    locks::{Age, ResourceSet},
};
use heapless::Vec;

/// What the home says to a client. Tickets are the client's own numbers of its requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It is yours.
    Grant {
        /// Which.
        resource: ResourceId,
        /// Of which request.
        ticket: u16,
        /// Grows from grant to grant.
        serial: u64,
    },
    /// Somebody else holds it: wait.
    Wait {
        /// For which.
        resource: ResourceId,
        /// Of which request.
        ticket: u16,
        /// Who holds it.
        holder: NodeId,
    },
    /// An older one holds it: give up.
    Die {
        /// Which.
        resource: ResourceId,
        /// Of which request.
        ticket: u16,
    },
    /// An older one wants it: give up.
    Wound {
        /// Which.
        resource: ResourceId,
        /// Of the request by which it is held.
        ticket: u16,
    },
}

/// Where the home's answers go.
pub type Say<'a> = &'a mut dyn FnMut(NodeId, Answer);

/// One node's transaction, as far as this home knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Row {
    age: Age,
    held: ResourceSet,
    wanted: ResourceSet,
    claimed: ResourceSet,
    /// Of the latest request for each resource.
    tickets: [u16; RESOURCES_MAX],
}

impl Row {
    const NOBODY: Row = Row {
        age: Age { stamp: 0, node: NodeId::HOST },
        held: ResourceSet(0),
        wanted: ResourceSet(0),
        claimed: ResourceSet(0),
        tickets: [0; RESOURCES_MAX],
    };

    fn ticket(&self, resource: ResourceId) -> u16 {
        self.tickets.get(usize::from(resource.0)).copied().unwrap_or(0)
    }

    fn set_ticket(&mut self, resource: ResourceId, ticket: u16) {
        if let Some(known) = self.tickets.get_mut(usize::from(resource.0)) {
            *known = ticket;
        }
    }
}

/// The table of one home: a row a member, by position.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LockTable {
    strategy: DeadlockStrategy,
    rows: Vec<Row, MEMBERS_MAX>,
    serial: u64,
    /// Before that it only listens: somebody may hold what it does not know of.
    open: bool,
}

impl LockTable {
    /// A table of `members` that nobody is in, and that grants at once if it is `open`.
    #[must_use]
    pub fn new(strategy: DeadlockStrategy, members: usize, open: bool) -> LockTable {
        let rows = (0..members.min(MEMBERS_MAX)).map(|_| Row::NOBODY).collect();
        LockTable { strategy, rows, serial: 0, open }
    }

    /// A member holds these since an earlier view.
    pub fn register(&mut self, position: usize, held: ResourceSet, age: Age, ticket: u16) {
        if let Some(row) = self.rows.get_mut(position) {
            (row.age, row.held) = (age, held);
            held.iter().for_each(|resource| row.set_ticket(resource, ticket));
        }
    }

    /// A member declares what its transaction will need at most.
    pub fn claim(&mut self, position: usize, resources: ResourceSet) {
        if let Some(row) = self.rows.get_mut(position) {
            row.claimed = resources;
        }
    }

    /// Everybody has registered: requests are served from here on.
    pub fn open(&mut self, say: Say<'_>) {
        self.open = true;
        for resource in (0..RESOURCES_MAX as u8).map(ResourceId) {
            match self.holder(resource) {
                Some(holder) => self.judge_all(resource, holder, say),
                None => self.serve(resource, say),
            }
        }
    }

    /// A member wants a resource.
    pub fn request(&mut self, position: usize, resource: ResourceId, age: Age, ticket: u16, say: Say<'_>) {
        let Some(row) = self.rows.get_mut(position) else { return };
        if row.held.contains(resource) {
            return; // A request that was repeated.
        }
        row.age = age;
        row.wanted.insert(resource);
        row.set_ticket(resource, ticket);
        if !self.open {
            return;
        }
        match self.holder(resource) {
            Some(holder) => self.judge(resource, position, holder, say),
            None => self.serve(resource, say),
        }
    }

    /// A member holds, or wants, a resource no more.
    pub fn release(&mut self, position: usize, resource: ResourceId, ticket: u16, say: Say<'_>) {
        let Some(row) = self.rows.get_mut(position) else { return };
        if row.ticket(resource) != ticket {
            return; // Of a request before the present one.
        }
        row.held.remove(resource);
        row.wanted.remove(resource);
        if !self.open {
            return;
        }
        if self.strategy == DeadlockStrategy::Avoid {
            // What is given back may make other grants safe.
            (0..RESOURCES_MAX as u8).map(ResourceId).for_each(|resource| self.serve(resource, say));
        } else {
            self.serve(resource, say);
        }
    }

    fn holder(&self, resource: ResourceId) -> Option<usize> {
        self.rows.iter().position(|row| row.held.contains(resource))
    }

    /// Who waits for it, in the order of being served, after the one of age `after`.
    fn waiter(&self, resource: ResourceId, after: Option<Age>) -> Option<(usize, Age)> {
        let waiting = self.rows.iter().enumerate().filter(|(_, row)| row.wanted.contains(resource));
        let waiting = waiting.map(|(position, row)| (position, row.age));
        if self.strategy == DeadlockStrategy::WaitDie {
            waiting.filter(|(_, age)| after.is_none_or(|after| *age < after)).max_by_key(|(_, age)| *age)
        } else {
            waiting.filter(|(_, age)| after.is_none_or(|after| *age > after)).min_by_key(|(_, age)| *age)
        }
    }

    /// Gives a free resource to the first who may have it, and tells the others for whom they wait.
    fn serve(&mut self, resource: ResourceId, say: Say<'_>) {
        if self.holder(resource).is_some() {
            return;
        }
        let mut next = self.waiter(resource, None);
        while let Some((position, age)) = next {
            if self.may_have(position, resource) {
                self.grant(position, resource, say);
                return self.judge_all(resource, position, say);
            }
            next = self.waiter(resource, Some(age));
        }
    }

    /// "A grant is made only if the state stays safe."
    fn may_have(&self, position: usize, resource: ResourceId) -> bool {
        if self.strategy != DeadlockStrategy::Avoid {
            return true;
        }
        is_safe(self.rows.iter().enumerate().map(|(at, row)| {
            let mut customer = Customer { held: row.held, claimed: row.claimed };
            if at == position {
                customer.held.insert(resource);
            }
            customer
        }))
    }

    fn grant(&mut self, position: usize, resource: ResourceId, say: Say<'_>) {
        let Some(row) = self.rows.get_mut(position) else { return };
        row.wanted.remove(resource);
        row.held.insert(resource);
        self.serial += 1;
        say(row.age.node, Answer::Grant { resource, ticket: row.ticket(resource), serial: self.serial });
    }

    /// The holder is new: everybody who waits is told, or may wait no longer.
    fn judge_all(&mut self, resource: ResourceId, holder: usize, say: Say<'_>) {
        let mut next = self.waiter(resource, None);
        while let Some((position, age)) = next {
            self.judge(resource, position, holder, say);
            next = self.waiter(resource, Some(age));
        }
    }

    fn judge(&mut self, resource: ResourceId, position: usize, holder: usize, say: Say<'_>) {
        let Some(Row { age: of_holder, .. }) = self.rows.get(holder).copied() else { return };
        let of_holder_ticket = self.rows.get(holder).map_or(0, |row| row.ticket(resource));
        let Some(row) = self.rows.get_mut(position) else { return };
        let (node, ticket) = (row.age.node, row.ticket(resource));
        let verdict = match self.strategy {
            DeadlockStrategy::WaitDie => wait_die(row.age, of_holder),
            DeadlockStrategy::WoundWait => wound_wait(row.age, of_holder),
            DeadlockStrategy::Ignore
            | DeadlockStrategy::Detect
            | DeadlockStrategy::PreventOrder
            | DeadlockStrategy::Avoid => Verdict::Wait,
        };
        match verdict {
            Verdict::Wait => say(node, Answer::Wait { resource, ticket, holder: of_holder.node }),
            Verdict::Die => {
                row.wanted.remove(resource);
                say(node, Answer::Die { resource, ticket });
            }
            Verdict::Wound => {
                say(node, Answer::Wait { resource, ticket, holder: of_holder.node });
                say(of_holder.node, Answer::Wound { resource, ticket: of_holder_ticket });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ResourceId = ResourceId(0);
    const B: ResourceId = ResourceId(1);

    /// A home of three members; each transaction's age is its node's number unless said otherwise.
    struct Home {
        table: LockTable,
        said: std::vec::Vec<(u16, Answer)>,
    }

    impl Home {
        fn new(strategy: DeadlockStrategy) -> Home {
            Home { table: LockTable::new(strategy, 4, true), said: std::vec::Vec::new() }
        }

        fn request(&mut self, node: u16, resource: ResourceId, stamp: u64, ticket: u16) {
            let age = Age { stamp, node: NodeId(node) };
            let said = &mut self.said;
            self.table.request(usize::from(node), resource, age, ticket, &mut |to, answer| said.push((to.0, answer)));
        }

        fn release(&mut self, node: u16, resource: ResourceId, ticket: u16) {
            let said = &mut self.said;
            self.table.release(usize::from(node), resource, ticket, &mut |to, answer| said.push((to.0, answer)));
        }

        fn take(&mut self) -> std::vec::Vec<(u16, Answer)> {
            core::mem::take(&mut self.said)
        }
    }

    fn grant(resource: ResourceId, ticket: u16, serial: u64) -> Answer {
        Answer::Grant { resource, ticket, serial }
    }

    fn wait(resource: ResourceId, ticket: u16, holder: u16) -> Answer {
        Answer::Wait { resource, ticket, holder: NodeId(holder) }
    }

    #[test]
    fn one_holds_and_the_oldest_is_next_and_the_others_are_told_of_it() {
        let mut home = Home::new(DeadlockStrategy::Detect);
        home.request(0, A, 30, 1);
        home.request(1, A, 20, 2);
        home.request(2, A, 10, 3);
        assert_eq!(home.take(), [(0, grant(A, 1, 1)), (1, wait(A, 2, 0)), (2, wait(A, 3, 0))]);
        home.release(0, A, 1);
        assert_eq!(home.take(), [(2, grant(A, 3, 2)), (1, wait(A, 2, 2))]);
    }

    #[test]
    fn who_wants_it_no_more_is_passed_over_and_an_old_release_means_nothing() {
        let mut home = Home::new(DeadlockStrategy::Ignore);
        home.request(0, A, 10, 1);
        home.request(1, A, 20, 2);
        home.request(2, A, 30, 3);
        home.release(1, A, 2);
        home.take();
        home.release(0, A, 7);
        assert_eq!(home.take(), [], "of another request");
        home.release(0, A, 1);
        assert_eq!(home.take(), [(2, grant(A, 3, 2))]);
    }

    #[test]
    fn under_wait_die_the_younger_dies_and_no_waiter_has_to_when_the_holder_changes() {
        let mut home = Home::new(DeadlockStrategy::WaitDie);
        home.request(1, A, 30, 1);
        home.request(2, A, 40, 2);
        assert_eq!(home.take()[1..], [(2, Answer::Die { resource: A, ticket: 2 })]);
        home.request(0, A, 10, 3);
        home.request(3, A, 20, 4);
        home.take();
        home.release(1, A, 1);
        assert_eq!(home.take(), [(3, grant(A, 4, 2)), (0, wait(A, 3, 3))], "the youngest first: the older may wait");
        home.release(2, A, 2);
        home.release(3, A, 4);
        assert_eq!(home.take(), [(0, grant(A, 3, 3))]);
    }

    #[test]
    fn under_wound_wait_the_younger_holder_is_wounded_and_the_younger_requester_waits() {
        let mut home = Home::new(DeadlockStrategy::WoundWait);
        home.request(1, A, 30, 5);
        home.request(2, A, 40, 6);
        home.request(0, A, 10, 7);
        let wound = Answer::Wound { resource: A, ticket: 5 };
        assert_eq!(home.take(), [(1, grant(A, 5, 1)), (2, wait(A, 6, 1)), (0, wait(A, 7, 1)), (1, wound)]);
        home.release(1, A, 5);
        assert_eq!(home.take(), [(0, grant(A, 7, 2)), (2, wait(A, 6, 0))]);
    }

    #[test]
    fn what_would_be_unsafe_is_not_granted_though_it_is_free() {
        let mut home = Home::new(DeadlockStrategy::Avoid);
        let both = [A, B].into_iter().collect();
        home.table.claim(0, both);
        home.table.claim(1, both);
        home.table.claim(2, [B].into_iter().collect());
        home.request(0, A, 10, 1);
        home.request(1, B, 20, 2);
        assert_eq!(home.take(), [(0, grant(A, 1, 1))], "1 may still want A, and 0 may still want B");
        home.request(2, B, 30, 3);
        assert_eq!(home.take(), [(2, grant(B, 3, 2)), (1, wait(B, 2, 2))], "2 needs nothing more and can finish");
        home.release(2, B, 3);
        home.request(0, B, 10, 4);
        home.release(0, A, 1);
        home.release(0, B, 4);
        assert_eq!(home.take(), [(0, grant(B, 4, 3)), (1, wait(B, 2, 0)), (1, grant(B, 2, 4))]);
    }

    #[test]
    fn nothing_is_granted_before_everybody_has_said_what_it_holds() {
        let mut table = LockTable::new(DeadlockStrategy::Detect, 3, false);
        let mut said = std::vec::Vec::new();
        let age = |node: u16| Age { stamp: u64::from(node), node: NodeId(node) };
        table.request(0, A, age(0), 1, &mut |to, answer| said.push((to.0, answer)));
        table.request(0, B, age(0), 2, &mut |to, answer| said.push((to.0, answer)));
        table.register(1, [A].into_iter().collect(), age(1), 9);
        assert_eq!(said, []);
        table.open(&mut |to, answer| said.push((to.0, answer)));
        assert_eq!(said, [(0, wait(A, 1, 1)), (0, grant(B, 2, 1))]);
        said.clear();
        table.release(1, A, 9, &mut |to, answer| said.push((to.0, answer)));
        assert_eq!(said, [(0, grant(A, 1, 2))]);
    }
}
