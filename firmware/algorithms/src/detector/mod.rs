//! Failure detectors: who is alive, as far as anybody can tell.

pub mod eventually_perfect;
pub mod perfect;

pub use eventually_perfect::EventuallyPerfect;
pub use perfect::Perfect;

use crate::{context::Delays, members::Members};
use compasso_wire::{
    Duration, Instant, NodeId, NodeSet,
    config::{DetectorChoice, Timing},
};

/// What the detector changes its mind about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// This node has been silent for too long.
    Suspected(NodeId),
    /// The suspicion was wrong, or the node lives again.
    Trusted(NodeId),
}

/// The place where failure detectors compete: one of them, chosen at run time.
#[derive(Clone, Debug)]
pub enum Detector {
    /// No sign of life within `T` of when it was due means death.
    Perfect(Perfect),
    /// Heartbeats with time-outs that learn.
    EventuallyPerfect(EventuallyPerfect),
    /// Only commands notice deaths. It learns of delays, but watches nobody and so suspects nobody.
    Scripted(EventuallyPerfect),
}

impl Detector {
    /// Nobody is watched, nobody is suspected.
    #[must_use]
    pub fn new(choice: DetectorChoice, count: usize, timing: &Timing, now: Instant) -> Detector {
        match choice {
            DetectorChoice::Perfect => {
                let delays = Delays { trans: timing.trans, process: timing.process };
                Detector::Perfect(Perfect::new(count, timing.heartbeat, delays, now))
            }
            DetectorChoice::EventuallyPerfect => {
                Detector::EventuallyPerfect(EventuallyPerfect::new(count, timing.suspect_after, now))
            }
            DetectorChoice::Scripted => Detector::Scripted(EventuallyPerfect::new(count, timing.suspect_after, now)),
        }
    }

    /// Watches exactly these from now on; silence counts from now for those that are new.
    pub fn watch(&mut self, set: NodeSet, now: Instant) {
        match self {
            Detector::Perfect(detector) => detector.watch(set, now),
            Detector::EventuallyPerfect(detector) => detector.watch(set, now),
            Detector::Scripted(_) => {}
        }
    }

    /// The node at `position` gave a sign of life.
    pub fn heard(&mut self, position: usize, members: &Members, now: Instant) -> Option<Change> {
        match self {
            Detector::Perfect(detector) => {
                detector.heard(position, now);
                None
            }
            Detector::EventuallyPerfect(detector) | Detector::Scripted(detector) => {
                detector.heard(position, members, now)
            }
        }
    }

    /// The node at `position` began a new life.
    pub fn reborn(&mut self, position: usize, members: &Members, now: Instant) -> Option<Change> {
        match self {
            Detector::Perfect(detector) => detector.reborn(position, members, now),
            Detector::EventuallyPerfect(detector) | Detector::Scripted(detector) => {
                detector.reborn(position, members, now)
            }
        }
    }

    /// This node itself was asleep: nobody else is to blame for the silence.
    pub fn slept(&mut self, now: Instant) {
        match self {
            Detector::Perfect(detector) => detector.slept(now),
            Detector::EventuallyPerfect(detector) | Detector::Scripted(detector) => detector.slept(now),
        }
    }

    /// Somebody's answer took this long.
    pub fn round_trip(&mut self, took: Duration) {
        match self {
            Detector::Perfect(_) => {} // There is nothing to learn: the bound is known.
            Detector::EventuallyPerfect(detector) | Detector::Scripted(detector) => detector.round_trip(took),
        }
    }

    /// What is known of delays, at least `first`.
    #[must_use]
    pub fn delays(&self, first: Delays) -> Delays {
        match self {
            Detector::Perfect(_) => first,
            Detector::EventuallyPerfect(detector) | Detector::Scripted(detector) => detector.delays(first),
        }
    }

    /// Whether the node at `position` is suspected.
    #[must_use]
    pub fn suspects(&self, position: usize) -> bool {
        match self {
            Detector::Perfect(detector) => detector.suspects(position),
            Detector::EventuallyPerfect(detector) | Detector::Scripted(detector) => detector.suspects(position),
        }
    }

    /// The next one whose silence has become too long, if any.
    pub fn handle_timeout(&mut self, members: &Members, now: Instant) -> Option<Change> {
        match self {
            Detector::Perfect(detector) => detector.handle_timeout(members, now),
            Detector::EventuallyPerfect(detector) | Detector::Scripted(detector) => {
                detector.handle_timeout(members, now)
            }
        }
    }

    /// When the next silence becomes too long.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self {
            Detector::Perfect(detector) => detector.poll_timeout(),
            Detector::EventuallyPerfect(detector) | Detector::Scripted(detector) => detector.poll_timeout(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_only_follows_a_script_suspects_nobody_and_the_others_suspect_silence() {
        let members = Members::new(&[0, 1].map(NodeId), NodeId(0)).unwrap();
        let timing = Timing::default();
        let long_after = Instant(timing.suspect_after.0 * 10);
        let suspected = |choice| {
            let mut detector = Detector::new(choice, 2, &timing, Instant(0));
            let mut other = members.all();
            other.remove(0);
            detector.watch(other, Instant(0));
            let change = detector.handle_timeout(&members, long_after);
            assert_eq!(detector.suspects(1), change.is_some());
            change
        };
        assert_eq!(suspected(DetectorChoice::Scripted), None);
        assert_eq!(suspected(DetectorChoice::Perfect), Some(Change::Suspected(NodeId(1))));
        assert_eq!(suspected(DetectorChoice::EventuallyPerfect), Some(Change::Suspected(NodeId(1))));
    }
}
