//! Messages by kind: first transmissions and repeats, the textbook's apart from hardening's.

use crate::{index::Trace, trace::Event};
use std::collections::BTreeMap;

const ELECTION: [&str; 6] = ["election", "answer", "coordinator", "elected", "probe", "reply"];
const ELECTION_HARDENING: [&str; 5] = ["heartbeat", "heartbeat_ack", "alive", "challenge", "proof"];
const MUTEX: [&str; 11] =
    ["token", "request", "grant", "denied", "acknowledge", "ok", "deferred", "release", "inquire", "yield", "fail"];
const MUTEX_HARDENING: [&str; 5] = ["ack", "census", "census_reply", "access", "access_reply"];
const COMMIT: [&str; 3] = ["prepare", "vote", "decision"];
const COMMIT_HARDENING: [&str; 6] =
    ["decision_store", "decision_stored", "decision_done", "commit_known", "commit_ask", "commit_told"];
const CACHE: [&str; 6] =
    ["cache_read", "cache_copy", "cache_write", "cache_written", "cache_invalidate", "cache_invalidated"];
const CACHE_HARDENING: [&str; 3] = ["cache_known", "cache_store", "cache_stored"];
const CLOCK: [&str; 2] = ["time_request", "time_reply"];
const LOCKS: [&str; 9] = [
    "lock_request",
    "lock_grant",
    "lock_wait",
    "lock_die",
    "lock_wound",
    "lock_release",
    "lock_claim",
    "lock_probe",
    "lock_victim",
];

/// Counts of sends.
#[derive(Default)]
pub(super) struct Messages {
    first: BTreeMap<String, u64>,
    again: BTreeMap<String, u64>,
}

impl Messages {
    pub(super) fn of(trace: &Trace<'_>) -> Messages {
        let mut messages = Messages::default();
        for event in trace.events {
            if let Event::Send { kind, again, .. } = &event.event {
                let counts = if *again { &mut messages.again } else { &mut messages.first };
                match counts.get_mut(kind.as_ref()) {
                    Some(count) => *count += 1,
                    None => drop(counts.insert(kind.to_string(), 1)),
                }
            }
        }
        messages
    }

    pub(super) fn election(&self) -> BTreeMap<String, u64> {
        self.sent(&ELECTION)
    }

    pub(super) fn election_again(&self) -> u64 {
        self.repeats(&ELECTION)
    }

    pub(super) fn election_hardening(&self) -> BTreeMap<String, u64> {
        self.sent(&ELECTION_HARDENING)
    }

    pub(super) fn mutex(&self) -> BTreeMap<String, u64> {
        self.sent(&MUTEX)
    }

    pub(super) fn mutex_again(&self) -> u64 {
        self.repeats(&MUTEX)
    }

    pub(super) fn mutex_hardening(&self) -> BTreeMap<String, u64> {
        self.sent(&MUTEX_HARDENING)
    }

    pub(super) fn locks(&self) -> BTreeMap<String, u64> {
        self.sent(&LOCKS)
    }

    pub(super) fn locks_again(&self) -> u64 {
        self.repeats(&LOCKS)
    }

    pub(super) fn commit(&self) -> BTreeMap<String, u64> {
        self.sent(&COMMIT)
    }

    pub(super) fn commit_again(&self) -> u64 {
        self.repeats(&COMMIT)
    }

    pub(super) fn commit_hardening(&self) -> BTreeMap<String, u64> {
        self.sent(&COMMIT_HARDENING)
    }

    pub(super) fn cache(&self) -> BTreeMap<String, u64> {
        self.sent(&CACHE)
    }

    pub(super) fn cache_again(&self) -> u64 {
        self.repeats(&CACHE)
    }

    pub(super) fn cache_hardening(&self) -> BTreeMap<String, u64> {
        self.sent(&CACHE_HARDENING)
    }

    pub(super) fn clock(&self) -> BTreeMap<String, u64> {
        let mut messages = self.all(&CLOCK);
        messages.extend(self.sent(&["correction"]));
        messages
    }

    fn all(&self, kinds: &[&str]) -> BTreeMap<String, u64> {
        kinds.iter().map(|kind| ((*kind).to_owned(), self.first.get(*kind).copied().unwrap_or(0))).collect()
    }

    fn sent(&self, kinds: &[&str]) -> BTreeMap<String, u64> {
        self.all(kinds).into_iter().filter(|(_, count)| *count > 0).collect()
    }

    fn repeats(&self, kinds: &[&str]) -> u64 {
        kinds.iter().filter_map(|kind| self.again.get(*kind)).sum()
    }
}
