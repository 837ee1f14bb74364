//! Vector time as the trace holds it: by node id, entries compared by incarnation, then count.

/// One node's entry: (incarnation, events in it).
pub type Stamp = (u32, u64);

/// A vector timestamp. Nodes that nothing is known of have no entry.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Vector(Vec<(u16, Stamp)>);

impl Vector {
    /// The entry of a node; (0, 0) if nothing is known of it.
    #[must_use]
    pub fn get(&self, node: u16) -> Stamp {
        self.0.binary_search_by_key(&node, |entry| entry.0).map_or((0, 0), |at| self.0[at].1)
    }

    /// Sets the entry of a node.
    pub fn set(&mut self, node: u16, stamp: Stamp) {
        match self.0.binary_search_by_key(&node, |entry| entry.0) {
            Ok(at) => self.0[at].1 = stamp,
            Err(at) => self.0.insert(at, (node, stamp)),
        }
    }

    /// Takes the later of each entry.
    pub fn merge(&mut self, other: &Vector) {
        for (node, stamp) in &other.0 {
            if self.get(*node) < *stamp {
                self.set(*node, *stamp);
            }
        }
    }

    /// Whether every entry of `other` is at most this one's.
    #[must_use]
    pub fn covers(&self, other: &Vector) -> bool {
        other.0.iter().all(|(node, stamp)| self.get(*node) >= *stamp)
    }

    /// The entries by ascending id.
    pub fn iter(&self) -> impl Iterator<Item = (u16, Stamp)> + '_ {
        self.0.iter().copied()
    }
}

impl FromIterator<(u16, Stamp)> for Vector {
    fn from_iter<I: IntoIterator<Item = (u16, Stamp)>>(entries: I) -> Vector {
        let mut entries: Vec<_> = entries.into_iter().collect();
        entries.sort_unstable();
        entries.dedup_by_key(|entry| entry.0);
        Vector(entries)
    }
}
