//! Who is alive and who can talk to whom, as the stage's faults say.

use crate::trace::Fault;
use std::collections::BTreeSet;

/// The state of nodes and network at one moment.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Cluster {
    ids: Vec<u16>,
    crashed: BTreeSet<u16>,
    paused: BTreeSet<u16>,
    sides: Vec<Vec<u16>>,
}

impl Cluster {
    /// Everybody alive, the network whole.
    #[must_use]
    pub fn whole(ids: &[u16]) -> Cluster {
        Cluster { ids: ids.to_vec(), sides: vec![ids.to_vec()], ..Cluster::default() }
    }

    /// The state after these faults.
    #[must_use]
    pub fn after<'a>(ids: &[u16], faults: impl IntoIterator<Item = &'a Fault>) -> Cluster {
        let mut cluster = Cluster::whole(ids);
        for fault in faults {
            cluster.apply(fault);
        }
        cluster
    }

    /// The stage does something.
    pub fn apply(&mut self, fault: &Fault) {
        match fault {
            Fault::Crash(id) => {
                self.crashed.insert(*id);
                self.paused.remove(id);
            }
            Fault::Restart(id) => drop(self.crashed.remove(id)),
            Fault::Pause(id) => drop(self.paused.insert(*id)),
            Fault::Resume(id) => drop(self.paused.remove(id)),
            Fault::Partition(sides) => {
                let rest =
                    self.ids.iter().copied().filter(|id| !sides.iter().flatten().any(|other| other == id)).collect();
                self.sides.clone_from(sides);
                self.sides.push(rest);
            }
            Fault::Heal => self.sides = vec![self.ids.clone()],
            Fault::DropToken
            | Fault::SetSkew { .. }
            | Fault::Leap(_)
            | Fault::TimeServer { .. }
            | Fault::Lie { .. }
            | Fault::Other(_) => {}
        }
    }

    /// Neither crashed nor paused.
    #[must_use]
    pub fn is_live(&self, id: u16) -> bool {
        !self.crashed.contains(&id) && !self.paused.contains(&id)
    }

    /// Killed and not yet booted again.
    #[must_use]
    pub fn is_crashed(&self, id: u16) -> bool {
        self.crashed.contains(&id)
    }

    /// The live nodes that hear each other and are a majority of all configured, if there are such.
    #[must_use]
    pub fn majority(&self) -> Option<Vec<u16>> {
        self.components().into_iter().find(|side| 2 * side.len() > self.ids.len())
    }

    /// The live nodes of each side.
    #[must_use]
    pub fn components(&self) -> Vec<Vec<u16>> {
        let live = |side: &Vec<u16>| side.iter().copied().filter(|id| self.is_live(*id)).collect::<Vec<_>>();
        self.sides.iter().map(live).filter(|side| !side.is_empty()).collect()
    }

    /// Whether this node lives and is on the majority's side.
    #[must_use]
    pub fn has_majority(&self, id: u16) -> bool {
        self.majority().is_some_and(|side| side.contains(&id))
    }
}

/// Whether a fault disturbs the cluster, so that it needs time to settle.
#[must_use]
pub(crate) fn disturbs(fault: &Fault) -> bool {
    !matches!(fault, Fault::SetSkew { .. } | Fault::Leap(_) | Fault::TimeServer { .. } | Fault::Lie { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_majority_counts_live_nodes_of_one_side_against_all_configured() {
        let ids = [0, 1, 2, 3, 4];
        let partition = Fault::Partition(vec![vec![0, 1], vec![2, 3]]);
        assert_eq!(Cluster::after(&ids, [&partition]).majority(), None, "4 is a side of its own");
        let partition = Fault::Partition(vec![vec![0, 1]]);
        let mut cluster = Cluster::after(&ids, [&partition]);
        assert_eq!(cluster.majority(), Some(vec![2, 3, 4]));
        cluster.apply(&Fault::Pause(3));
        assert_eq!(cluster.majority(), None);
        cluster.apply(&Fault::Heal);
        assert!(cluster.has_majority(0) && !cluster.has_majority(3));
    }
}
