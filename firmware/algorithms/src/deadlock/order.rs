//! Deadlock prevention by one global order: resources are taken one at a time, in the order of their ids.
//! Whoever waits for a resource holds only such that stand before it, so no circle of waits can close.

use compasso_wire::{ResourceId, locks::ResourceSet};

/// The one resource to ask for next, if something is still missing.
#[must_use]
pub fn next(goal: ResourceSet, held: ResourceSet) -> Option<ResourceId> {
    goal.without(held).first()
}

/// What must be given back, because something that stands before it is still missing.
#[must_use]
pub fn too_early(goal: ResourceSet, held: ResourceSet) -> ResourceSet {
    match next(goal, held) {
        Some(missing) => held.iter().filter(|resource| *resource > missing).collect(),
        None => ResourceSet::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(resources: &[u8]) -> ResourceSet {
        resources.iter().copied().map(ResourceId).collect()
    }

    #[test]
    fn the_lowest_missing_one_is_next_and_what_stands_behind_it_is_given_back() {
        assert_eq!(next(set(&[1, 3, 5]), set(&[1])), Some(ResourceId(3)));
        assert_eq!(too_early(set(&[1, 3, 5]), set(&[1])), set(&[]));
        assert_eq!(too_early(set(&[1, 3, 5]), set(&[1, 5])), set(&[5]));
        assert_eq!(too_early(set(&[1, 3, 5]), set(&[3, 5])), set(&[3, 5]));
        assert_eq!((next(set(&[1]), set(&[1])), too_early(set(&[1]), set(&[1]))), (None, set(&[])));
    }
}
