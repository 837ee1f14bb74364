//! The application that comes with the node: transactions that take several resources one after another.

use compasso_wire::{Duration, Instant, ResourceId, config::LockWorkload, limits::RESOURCES_MAX, locks::ResourceSet};
use heapless::Vec;

/// Where the workload stands.
#[derive(Clone, Debug)]
enum Stage {
    /// Between two transactions.
    Resting { until: Instant },
    /// In one: what it takes, how many it has asked for, and when it goes on if it has those.
    Taking { list: Vec<ResourceId, RESOURCES_MAX>, asked: usize, on_at: Option<Instant> },
    /// No more.
    Over,
}

/// What to do next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// Begin a transaction.
    Begin,
    /// Take one more.
    Take(ResourceId),
    /// Give everything back.
    Finish(ResourceSet),
}

/// Transactions that the node makes by itself.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    plan: Option<LockWorkload>,
    stage: Stage,
    stopped: bool,
}

impl Work {
    /// The workload of a node that boots now; `dice` decides its phase.
    pub(crate) fn new(plan: Option<LockWorkload>, dice: u32, now: Instant) -> Work {
        let mut work = Work { plan, stage: Stage::Over, stopped: false };
        work.rest(dice, now);
        work
    }

    /// How many resources one transaction takes.
    pub(crate) fn several(&self) -> usize {
        self.plan.map_or(0, |plan| usize::from(plan.several))
    }

    /// A transaction that takes these, in this order, has begun.
    pub(crate) fn begin(&mut self, list: Vec<ResourceId, RESOURCES_MAX>) {
        self.stage = Stage::Taking { list, asked: 0, on_at: None };
    }

    /// What to do now. `has_all`: all that was asked for is held.
    pub(crate) fn poll(&mut self, has_all: bool, now: Instant) -> Option<Next> {
        let hold = self.plan.map_or(Duration::ZERO, |plan| plan.hold);
        match &mut self.stage {
            Stage::Resting { until } if now >= *until => Some(Next::Begin),
            Stage::Taking { list, asked: asked @ 0, .. } => {
                *asked = 1;
                list.first().copied().map(Next::Take)
            }
            Stage::Taking { list, asked, on_at } if has_all => match *on_at {
                None => {
                    *on_at = Some(now + hold);
                    None
                }
                Some(at) if now < at => None,
                Some(_) => match list.get(*asked).copied() {
                    Some(resource) => {
                        (*asked, *on_at) = (*asked + 1, None);
                        Some(Next::Take(resource))
                    }
                    None => Some(Next::Finish(list.iter().copied().collect())),
                },
            },
            Stage::Resting { .. } | Stage::Taking { .. } | Stage::Over => None,
        }
    }

    /// The transaction is over: pause between half and one and a half times the mean.
    pub(crate) fn rest(&mut self, dice: u32, now: Instant) {
        self.stage = match self.plan {
            Some(plan) if !self.stopped => {
                let share = u64::from(dice % 1024);
                Stage::Resting { until: now + Duration(plan.every.0 / 2 + plan.every.0 * share / 1024) }
            }
            Some(_) | None => Stage::Over,
        };
    }

    /// Everything was given back: the transaction, if there is one, begins again with its first resource.
    pub(crate) fn begin_again(&mut self) -> bool {
        match &mut self.stage {
            Stage::Taking { asked, on_at, .. } => {
                (*asked, *on_at) = (0, None);
                true
            }
            Stage::Resting { .. } | Stage::Over => false,
        }
    }

    /// Makes no further transactions; one that has begun is finished.
    pub(crate) fn stop(&mut self) {
        if matches!(self.stage, Stage::Resting { .. }) {
            self.stage = Stage::Over;
        }
        self.stopped = true;
    }

    /// When to go on.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        match self.stage {
            Stage::Resting { until } => Some(until),
            Stage::Taking { on_at, .. } => on_at,
            Stage::Over => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_takes_its_resources_one_after_another_and_begins_again_when_it_had_to_give_back() {
        let (every, hold) = (Duration(1000), Duration(10));
        let mut work = Work::new(Some(LockWorkload { every, hold, several: 2 }), 512, Instant(0));
        assert_eq!((work.poll(false, Instant(999)), work.poll_timeout()), (None, Some(Instant(1000))));
        assert_eq!(work.poll(false, Instant(1000)), Some(Next::Begin));
        work.begin([ResourceId(4), ResourceId(2)].into_iter().collect());
        let run = |work: &mut Work, from: u64| {
            assert_eq!(work.poll(false, Instant(from)), Some(Next::Take(ResourceId(4))));
            assert_eq!(work.poll(false, Instant(from + 1)), None, "it waits");
            assert_eq!(work.poll(true, Instant(from + 2)), None);
            assert_eq!(work.poll(true, Instant(from + 12)), Some(Next::Take(ResourceId(2))));
        };
        run(&mut work, 1000);
        assert!(work.begin_again());
        run(&mut work, 2000);
        assert_eq!(work.poll(true, Instant(2013)), None);
        let both = [ResourceId(2), ResourceId(4)].into_iter().collect();
        work.stop();
        assert_eq!(work.poll(true, Instant(2023)), Some(Next::Finish(both)), "what has begun is finished");
        work.rest(0, Instant(2023));
        assert_eq!(work.poll(false, Instant(1 << 50)), None);
    }
}
