//! What a run costs the machine: how long it took, and how much of a core it used meanwhile. Only the
//! second says how fast the emulation is on a machine that has other things to do.

use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// A moment from which on effort is measured, of the thread that it was made on.
#[derive(Clone, Copy, Debug)]
pub struct Begun {
    wall: Instant,
    core: Duration,
}

/// What it took.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effort {
    /// By the clock on the wall.
    pub wall: Duration,
    /// Of a core's time, by this thread.
    pub core: Duration,
}

impl Begun {
    /// Now.
    #[must_use]
    pub fn now() -> Begun {
        Begun { wall: Instant::now(), core: core_time() }
    }

    /// The effort since then.
    #[must_use]
    pub fn effort(&self) -> Effort {
        Effort { wall: self.wall.elapsed(), core: core_time().saturating_sub(self.core) }
    }
}

fn core_time() -> Duration {
    let at = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(at.tv_sec.unsigned_abs(), at.tv_nsec.unsigned_abs() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_works_uses_a_core_and_whoever_sleeps_does_not() {
        let begun = Begun::now();
        while begun.effort().core < Duration::from_millis(5) {
            std::hint::black_box(0);
        }
        let worked = begun.effort();
        assert!(worked.wall >= worked.core / 2);
        let begun = Begun::now();
        std::thread::sleep(Duration::from_millis(50));
        let slept = begun.effort();
        assert!(slept.core < slept.wall, "{slept:?}");
    }
}
