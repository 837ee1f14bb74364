//! The perfect failure detector.
//! Promise: who is dead is suspected, within one heartbeat period and `T`; who is alive never is.
//! Assumes a synchronous system: delays keep within `T_trans` and `T_process`, and nothing is lost.
//! So a suspicion is final: only a new life takes it back. Where the assumption fails, it goes on
//! suspecting the living, for good.

use super::Change;
use crate::{context::Delays, members::Members};
use compasso_wire::{Duration, Instant, NodeSet, limits::MEMBERS_MAX};
use heapless::Vec;

/// One node's knowledge of all others.
#[derive(Clone, Debug)]
pub struct Perfect {
    /// When each was heard last, by position.
    heard: Vec<Instant, MEMBERS_MAX>,
    /// Whose silence matters at present.
    watched: NodeSet,
    suspected: NodeSet,
    timeout: Duration,
}

impl Perfect {
    /// Nobody is watched, nobody is suspected. Who lives gives a sign of it every `period`.
    #[must_use]
    pub fn new(count: usize, period: Duration, delays: Delays, now: Instant) -> Perfect {
        Perfect {
            heard: (0..count.min(MEMBERS_MAX)).map(|_| now).collect(),
            watched: NodeSet::EMPTY,
            suspected: NodeSet::EMPTY,
            timeout: period + delays.answer(),
        }
    }

    /// Watches exactly these from now on; silence counts from now for those that are new.
    pub fn watch(&mut self, set: NodeSet, now: Instant) {
        for (position, heard) in self.heard.iter_mut().enumerate() {
            if set.contains(position) && !self.watched.contains(position) {
                *heard = now;
            }
        }
        self.watched = set;
    }

    /// The node at `position` gave a sign of life. It changes no mind: the dead do not.
    pub fn heard(&mut self, position: usize, now: Instant) {
        if let Some(heard) = self.heard.get_mut(position) {
            *heard = now;
        }
    }

    /// The node at `position` began a new life.
    pub fn reborn(&mut self, position: usize, members: &Members, now: Instant) -> Option<Change> {
        self.heard(position, now);
        let was_suspected = self.suspected.contains(position);
        self.suspected.remove(position);
        members.id(position).filter(|_| was_suspected).map(Change::Trusted)
    }

    /// This node itself was asleep: nobody else is to blame for the silence.
    pub fn slept(&mut self, now: Instant) {
        self.heard.fill(now);
    }

    /// Whether the node at `position` is dead.
    #[must_use]
    pub fn suspects(&self, position: usize) -> bool {
        self.suspected.contains(position)
    }

    /// The next one whose silence has become too long, if any.
    pub fn handle_timeout(&mut self, members: &Members, now: Instant) -> Option<Change> {
        // At the very bound a sign of life is still in time.
        let position = self.silent().find(|(_, silent_at)| now > *silent_at)?.0;
        self.suspected.insert(position);
        members.id(position).map(Change::Suspected)
    }

    /// When the next silence becomes too long.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.silent().map(|(_, silent_at)| silent_at + Duration(1)).min()
    }

    fn silent(&self) -> impl Iterator<Item = (usize, Instant)> + '_ {
        self.heard
            .iter()
            .enumerate()
            .filter(|(position, _)| self.watched.contains(*position) && !self.suspected.contains(*position))
            .map(|(position, heard)| (position, *heard + self.timeout))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use compasso_wire::NodeId;

    const PERIOD: Duration = Duration(1000);
    const DELAYS: Delays = Delays { trans: Duration(100), process: Duration(10) };

    fn detector() -> (Members, Perfect) {
        let members = Members::new(&[0, 1, 2].map(NodeId), NodeId(0)).unwrap();
        let mut detector = Perfect::new(3, PERIOD, DELAYS, Instant(0));
        let mut others = members.all();
        others.remove(0);
        detector.watch(others, Instant(0));
        (members, detector)
    }

    #[test]
    fn who_keeps_the_bound_is_never_suspected_and_who_is_dead_is_within_it() {
        let (members, mut detector) = detector();
        // The slowest that a synchronous system allows: sent every period, each as late as can be.
        for beat in 1..100 {
            let arrives = Instant(beat * PERIOD.0 + if beat % 2 == 0 { 0 } else { DELAYS.answer().0 });
            assert!(
                detector.handle_timeout(&members, arrives).is_none_or(|change| change == Change::Suspected(NodeId(1)))
            );
            detector.heard(2, arrives);
        }
        assert!(detector.suspects(1), "silent from the beginning");
        assert!(!detector.suspects(2));
    }

    #[test]
    fn a_suspicion_is_final_until_the_next_life() {
        let (members, mut detector) = detector();
        detector.heard(2, Instant(500));
        assert_eq!(detector.poll_timeout(), Some(Instant(1211)), "period + T, and no sign of life even then");
        assert_eq!(detector.handle_timeout(&members, Instant(1210)), None);
        assert_eq!(detector.handle_timeout(&members, Instant(1211)), Some(Change::Suspected(NodeId(1))));
        assert_eq!(detector.handle_timeout(&members, Instant(1211)), None, "said once");
        detector.heard(1, Instant(1300));
        assert!(detector.suspects(1));
        assert_eq!(detector.reborn(1, &members, Instant(1400)), Some(Change::Trusted(NodeId(1))));
        assert_eq!(detector.reborn(1, &members, Instant(1400)), None);
        assert!(!detector.suspects(1));
        assert_eq!(detector.poll_timeout(), Some(Instant(1711)), "node 2, heard at 500");
    }

    #[test]
    fn an_own_sleep_says_nothing_of_others() {
        let (members, mut detector) = detector();
        detector.slept(Instant(9000));
        assert_eq!(detector.handle_timeout(&members, Instant(9001)), None);
    }
}
