//! What was counted, by name.

use heapless::Vec;

/// Room for every message in both directions, and for what else is counted.
const NAMES_MAX: usize = 64;

/// Everything counted under one name.
pub struct Entry {
    /// What was done: the first half of the name.
    pub what: &'static str,
    /// To which kind of message: the second half.
    pub kind: &'static str,
    /// How often.
    pub times: u32,
    /// The cheapest.
    pub least: u64,
    /// The dearest.
    pub most: u64,
}

/// All of it, in the order of first appearance.
pub struct Tally {
    entries: Vec<Entry, NAMES_MAX>,
}

impl Tally {
    /// Nothing yet.
    pub const fn new() -> Tally {
        Tally { entries: Vec::new() }
    }

    /// Takes a count in.
    pub fn note(&mut self, what: &'static str, kind: &'static str, count: u64) {
        let known = self.entries.iter_mut().find(|entry| entry.what == what && entry.kind == kind);
        match known {
            Some(entry) => {
                entry.times += 1;
                entry.least = entry.least.min(count);
                entry.most = entry.most.max(count);
            }
            None => {
                let pushed = self.entries.push(Entry { what, kind, times: 1, least: count, most: count });
                assert!(pushed.is_ok(), "there is room for every name");
            }
        }
    }

    /// Everything.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }
}
