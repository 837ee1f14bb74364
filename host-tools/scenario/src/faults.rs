//! What the network does to a datagram between two nodes, decided by a seed.

use crate::model::Network;
use std::time::Duration;

/// How bad the network is. Probabilities are between 0 and 1.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Faults {
    /// Shortest extra delay.
    pub delay_min: Duration,
    /// Longest extra delay.
    pub delay_max: Duration,
    /// How likely a datagram is lost.
    pub loss: f64,
    /// How likely it arrives twice.
    pub duplicate: f64,
    /// How likely it is held back until later ones have passed it.
    pub reorder: f64,
}

/// A datagram that is held back waits at least this much longer than any other.
pub const HELD_BACK: Duration = Duration::from_millis(1);

/// What becomes of one datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// The partition stops it.
    Blocked,
    /// It is lost.
    Lost,
    /// It arrives.
    Arrives {
        /// After so long.
        after: Duration,
        /// It was held back for later ones to pass.
        held_back: bool,
        /// And once more after so long.
        again_after: Option<Duration>,
    },
}

impl From<&Network> for Faults {
    fn from(network: &Network) -> Faults {
        Faults {
            delay_min: Duration::from_micros(network.delay_min.0),
            delay_max: Duration::from_micros(network.delay_max.0),
            loss: network.loss,
            duplicate: network.duplicate,
            reorder: network.reorder,
        }
    }
}

/// Which side of a partition each of `ids` is on; those that no side lists form one more.
#[must_use]
pub fn sides(ids: &[u16], partition: &[Vec<u16>]) -> Sides {
    let side_of = |id| partition.iter().position(|side| side.contains(id)).unwrap_or(partition.len());
    ids.iter().map(side_of).collect()
}

/// The sides of a partition: which side each position is on. Empty: the network is whole.
pub type Sides = Vec<usize>;

/// The seeded source of all fates.
#[derive(Debug)]
pub struct Dice {
    rng: fastrand::Rng,
}

impl Dice {
    /// The same seed and the same datagrams give the same fates.
    #[must_use]
    pub fn new(seed: u64) -> Dice {
        Dice { rng: fastrand::Rng::with_seed(seed) }
    }

    /// Decides what becomes of a datagram from one position to another.
    pub fn decide(&mut self, faults: &Faults, sides: &Sides, from: usize, to: usize) -> Fate {
        if sides.get(from) != sides.get(to) {
            return Fate::Blocked;
        }
        if self.happens(faults.loss) {
            return Fate::Lost;
        }
        let held_back = self.happens(faults.reorder);
        let mut after = self.delay(faults);
        if held_back {
            after += faults.delay_max + HELD_BACK;
        }
        let again_after = self.happens(faults.duplicate).then(|| self.delay(faults));
        Fate::Arrives { after, held_back, again_after }
    }

    fn happens(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.rng.f64() < probability
    }

    fn delay(&mut self, faults: &Faults) -> Duration {
        let (min, max) = (faults.delay_min.as_nanos() as u64, faults.delay_max.as_nanos() as u64);
        Duration::from_nanos(if min < max { self.rng.u64(min..=max) } else { min })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BAD: Faults = Faults {
        delay_min: Duration::from_micros(200),
        delay_max: Duration::from_millis(2),
        loss: 0.1,
        duplicate: 0.05,
        reorder: 0.2,
    };

    #[test]
    fn faults_come_as_often_as_asked_and_delays_stay_in_their_range() {
        let mut dice = Dice::new(7);
        let (mut lost, mut twice, mut back) = (0, 0, 0);
        for _ in 0..20_000 {
            match dice.decide(&BAD, &Sides::new(), 0, 1) {
                Fate::Blocked => panic!("nothing is partitioned"),
                Fate::Lost => lost += 1,
                Fate::Arrives { after, held_back, again_after } => {
                    twice += u32::from(again_after.is_some());
                    back += u32::from(held_back);
                    if held_back {
                        assert!(after > BAD.delay_max + HELD_BACK);
                    } else {
                        assert!((BAD.delay_min..=BAD.delay_max).contains(&after));
                    }
                }
            }
        }
        assert!((1_800..2_200).contains(&lost), "{lost}");
        assert!((800..1_000).contains(&twice), "{twice}");
        assert!((3_400..3_800).contains(&back), "{back}");
    }

    #[test]
    fn the_same_seed_gives_the_same_fates() {
        let fates = |seed| {
            let mut dice = Dice::new(seed);
            (0..100).map(|_| dice.decide(&BAD, &Sides::new(), 0, 1)).collect::<Vec<_>>()
        };
        assert_eq!(fates(1), fates(1));
        assert_ne!(fates(1), fates(2));
    }

    #[test]
    fn a_partition_stops_datagrams_between_its_sides_only() {
        let mut dice = Dice::new(1);
        let sides = vec![0, 0, 1, 1, 2];
        let faults = Faults::default();
        for (from, to) in [(0, 1), (2, 3)] {
            assert_ne!(dice.decide(&faults, &sides, from, to), Fate::Blocked);
        }
        for (from, to) in [(0, 2), (3, 1), (4, 0)] {
            assert_eq!(dice.decide(&faults, &sides, from, to), Fate::Blocked);
        }
    }
}
