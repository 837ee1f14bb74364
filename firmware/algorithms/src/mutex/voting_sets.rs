//! Maekawa's voting sets: whose votes a node needs.
//! Any two sets intersect, so that no two nodes have all their votes at once.
//!
//! The default lays the view's members on a grid with `⌈√N⌉` columns, in ring order; a node's set
//! is its row and its column. The last row may be short, and still any two sets intersect: of the
//! two crossings of one's row with the other's column, the one that lies in the upper row exists,
//! since only the last row is short.

use crate::members::Members;
use compasso_wire::NodeSet;

/// Which condition of Maekawa's a choice of sets breaks, and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flaw {
    /// "i ∈ V_i": this node is not in its own set.
    WithoutItself(usize),
    /// This node's set names a position that nobody has.
    Stranger(usize),
    /// "V_i ∩ V_j ≠ ∅": these two have no voter in common, and may both enter.
    Disjoint(usize, usize),
    /// "|V_i| = K": this node's set is larger or smaller than the first one's.
    Size(usize),
    /// "Every node is in M of the sets": this one is in more or fewer than the first one.
    Load(usize),
}

/// Checks Maekawa's four conditions: the sets are by position, one for each node.
pub fn check(sets: &[NodeSet]) -> Result<(), Flaw> {
    let load = |of: usize| sets.iter().filter(|set| set.contains(of)).count();
    for (at, set) in sets.iter().enumerate() {
        if !set.contains(at) {
            return Err(Flaw::WithoutItself(at));
        }
        if set.iter().any(|voter| voter >= sets.len()) {
            return Err(Flaw::Stranger(at));
        }
        if let Some(other) = sets.iter().take(at).position(|other| !other.iter().any(|voter| set.contains(voter))) {
            return Err(Flaw::Disjoint(other, at));
        }
    }
    for (at, set) in sets.iter().enumerate() {
        if sets.first().is_some_and(|first| first.len() != set.len()) {
            return Err(Flaw::Size(at));
        }
        if load(at) != load(0) {
            return Err(Flaw::Load(at));
        }
    }
    Ok(())
}

/// How voting sets are chosen.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VotingSets {
    /// This node's, where sets are given.
    given: Option<NodeSet>,
}

impl VotingSets {
    /// Each node's set, by position; by default row and column of a grid.
    #[must_use]
    pub fn new(given: Option<&[NodeSet]>, members: &Members) -> VotingSets {
        let given = given.filter(|sets| sets.len() == members.count());
        VotingSets { given: given.and_then(|sets| sets.get(members.my_position())).copied() }
    }

    /// This node's set in `view`.
    ///
    /// Given sets hold while everybody takes part: without some members they may not intersect,
    /// so a smaller view falls back on the grid, at every one of its members alike.
    #[must_use]
    pub fn mine(&self, members: &Members, view: NodeSet) -> NodeSet {
        self.given.filter(|_| view == members.all()).unwrap_or_else(|| grid(members.my_position(), view))
    }
}

/// Row and column of the node at `position`, among those of `view`.
fn grid(position: usize, view: NodeSet) -> NodeSet {
    let columns = ceil_sqrt(view.len()).max(1);
    let place = |index: usize| (index / columns, index % columns);
    let (row, column) = place(view.iter().take_while(|other| *other < position).count());
    let mut set = NodeSet::EMPTY;
    for (index, other) in view.iter().enumerate() {
        let (its_row, its_column) = place(index);
        if its_row == row || its_column == column {
            set.insert(other);
        }
    }
    set
}

fn ceil_sqrt(number: usize) -> usize {
    let root = number.isqrt();
    if root * root == number { root } else { root + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use compasso_wire::{NodeId, limits::MEMBERS_MAX};

    fn set(positions: &[usize]) -> NodeSet {
        let mut set = NodeSet::EMPTY;
        positions.iter().for_each(|position| set.insert(*position));
        set
    }

    #[test]
    fn the_square_grid_meets_all_conditions_with_sets_of_two_roots_less_one() {
        for root in 1..=8 {
            let view = NodeSet::first(root * root);
            let sets: Vec<_> = view.iter().map(|at| grid(at, view)).collect();
            assert_eq!(check(&sets), Ok(()));
            assert!(sets.iter().all(|set| set.len() == 2 * root - 1));
        }
        assert_eq!(grid(4, NodeSet::first(9)), set(&[1, 3, 4, 5, 7]));
    }

    #[test]
    fn a_short_last_row_keeps_every_two_sets_intersecting() {
        for count in 1..=MEMBERS_MAX {
            let view = NodeSet::first(count);
            let sets: Vec<_> = view.iter().map(|at| grid(at, view)).collect();
            match check(&sets) {
                Ok(()) | Err(Flaw::Size(_) | Flaw::Load(_)) => {}
                Err(flaw @ (Flaw::WithoutItself(_) | Flaw::Stranger(_) | Flaw::Disjoint(..))) => {
                    panic!("{count}: {flaw:?}")
                }
            }
        }
        assert_eq!(grid(4, NodeSet::first(5)), set(&[1, 3, 4]), "five nodes: 0 1 2 over 3 4");
    }

    #[test]
    fn each_condition_is_checked() {
        let textbook = [set(&[0, 1]), set(&[1, 2]), set(&[2, 0])];
        assert_eq!(check(&textbook), Ok(()));
        assert_eq!(check(&[set(&[0, 1]), set(&[0])]), Err(Flaw::WithoutItself(1)));
        assert_eq!(check(&[set(&[0, 7]), set(&[0, 1])]), Err(Flaw::Stranger(0)));
        assert_eq!(check(&[set(&[0, 1]), set(&[0, 1]), set(&[2])]), Err(Flaw::Disjoint(0, 2)));
        assert_eq!(check(&[set(&[0, 1]), set(&[0, 1]), set(&[0, 1, 2])]), Err(Flaw::Size(2)));
        assert_eq!(check(&[set(&[0, 1]), set(&[0, 1]), set(&[0, 2])]), Err(Flaw::Load(1)));
    }

    #[test]
    fn given_sets_hold_for_all_members_and_a_smaller_view_uses_the_grid() {
        let members = Members::new(&[7, 5, 6].map(NodeId), NodeId(5)).unwrap();
        let given = VotingSets::new(Some(&[set(&[0, 1]), set(&[1, 2]), set(&[2, 0])]), &members);
        assert_eq!(given.mine(&members, members.all()), set(&[1, 2]));
        assert_eq!(given.mine(&members, set(&[1, 2])), set(&[1, 2]));
        assert_eq!(given.mine(&members, set(&[0, 1])), set(&[0, 1]));
    }
}
