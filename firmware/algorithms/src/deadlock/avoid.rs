//! Deadlock avoidance, the banker's algorithm for resources of which there is one each: a resource is granted
//! only if the state stays *safe*, that is, if there is an order in which everybody can still finish, each with
//! what is free and what those before it have given back.
//! Assumes that every transaction has declared in advance what it will need at most.

use compasso_wire::{NodeSet, locks::ResourceSet};

/// What one transaction holds, and what it may still need.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Customer {
    /// Its resources.
    pub held: ResourceSet,
    /// The most it will ever hold at once.
    pub claimed: ResourceSet,
}

/// Whether all can finish, in some order. Whoever holds nothing is in nobody's way and can be the last.
#[must_use]
pub fn is_safe(customers: impl Iterator<Item = Customer> + Clone) -> bool {
    let mut taken = customers.clone().fold(ResourceSet::default(), |taken, customer| taken.and(customer.held));
    let mut finished = NodeSet::EMPTY;
    // Each round finishes somebody or ends.
    loop {
        let can_finish = |(position, customer): &(usize, Customer)| {
            let needed = customer.claimed.without(customer.held);
            !customer.held.is_empty() && !finished.contains(*position) && needed.within(taken).is_empty()
        };
        match customers.clone().enumerate().find(can_finish) {
            Some((position, customer)) => {
                taken = taken.without(customer.held);
                finished.insert(position);
            }
            None => return taken.is_empty(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use compasso_wire::ResourceId;

    fn customer(held: &[u8], claimed: &[u8]) -> Customer {
        let set = |resources: &[u8]| resources.iter().copied().map(ResourceId).collect();
        Customer { held: set(held), claimed: set(claimed) }
    }

    fn safe(customers: &[Customer]) -> bool {
        is_safe(customers.iter().copied())
    }

    #[test]
    fn two_that_may_still_want_each_others_resource_are_unsafe_before_they_ask() {
        assert!(safe(&[customer(&[0], &[0, 1]), customer(&[], &[0, 1])]));
        assert!(!safe(&[customer(&[0], &[0, 1]), customer(&[1], &[0, 1])]));
        assert!(safe(&[customer(&[0], &[0, 1]), customer(&[1], &[1])]), "the second can finish, then the first");
    }

    #[test]
    fn a_chain_is_safe_and_a_circle_is_not() {
        let chain = [customer(&[0], &[0, 1]), customer(&[1], &[1, 2]), customer(&[2], &[2])];
        assert!(safe(&chain));
        let circle = [customer(&[0], &[0, 1]), customer(&[1], &[1, 2]), customer(&[2], &[2, 0])];
        assert!(!safe(&circle));
        assert!(safe(&[]), "nobody holds anything");
    }
}
