//! The certain interval against crystals and networks that do what they like, and the narrow one within what it bears.

use super::{tests::Random, *};
use compasso_wire::Interval;

/// Both crystals of a pair leap to anywhere within the drift, at chance times that are often near each other.
struct Wild {
    random: Random,
    drift_ppm: f64,
    /// True time, and what client and reference show then, µs.
    at: [f64; 3],
    rates: [f64; 2],
    until: f64,
}

impl Wild {
    fn new(seed: u64, drift_ppm: f64) -> Wild {
        Wild { random: Random(seed), drift_ppm, at: [0.0, 3e6, 9e8], rates: [1.0; 2], until: 0.0 }
    }

    /// Goes on to a true time.
    fn advance(&mut self, to: f64) -> (Instant, ClusterTime) {
        while self.at[0] < to {
            if self.at[0] >= self.until {
                // Half of the time one of the ends: nothing is worse.
                self.rates = [(); 2].map(|()| {
                    let share = (self.random.unit() * 4.0 - 2.0).clamp(-1.0, 1.0);
                    1.0 + share * self.drift_ppm * 1e-6
                });
                let usual = [3e5, 4e6, 9e7][self.random.next() as usize % 3];
                self.until = self.at[0] + self.random.exponential(usual);
            }
            let step = (to.min(self.until) - self.at[0]).max(1e-3);
            self.at = [self.at[0] + step, self.at[1] + step * self.rates[0], self.at[2] + step * self.rates[1]];
        }
        (Instant(self.at[1] as u64), ClusterTime(self.at[2] as i64))
    }
}

/// Exchanges with shortest delays `shortest` and any jitter, for `seconds`; every reading of the interval `of` is
/// looked at. How many did not hold the reference's time, of how many.
fn perform(
    mut clock: Disciplined,
    mut wild: Wild,
    shortest: [f64; 2],
    seconds: usize,
    of: fn(&Disciplined, Instant) -> Option<Interval>,
) -> (usize, usize) {
    let (mut broken, mut read) = (0, 0);
    let mut t = 0.0;
    let mut look = |clock: &Disciplined, wild: &mut Wild, at: f64| {
        let (now, reference) = wild.advance(at);
        if let Some(interval) = of(clock, now) {
            read += 1;
            broken += usize::from(reference < interval.earliest || interval.latest < reference);
        }
    };
    while t < seconds as f64 * 1e6 {
        let mut way = |i: usize| {
            let usual = [5.0, 100.0, 1500.0][wild.random.next() as usize % 3];
            shortest[i] + wild.random.exponential(usual)
        };
        let (there, back) = (way(0), way(1));
        let (asked, _) = wild.advance(t);
        let (_, received) = wild.advance(t + there);
        let (_, answered) = wild.advance(t + there + 40.0);
        let (arrived, _) = wild.advance(t + there + 40.0 + back);
        t += there + 40.0 + back;
        let is_lost = wild.random.unit() < 0.1;
        if !is_lost {
            clock.exchange(&Exchange { asked, received, answered, arrived, error_us: 0, certain_us: 0, leaves_us: 0 });
        }
        let pause = clock.next_in().0 as f64 * if wild.random.unit() < 0.01 { 30.0 } else { 1.0 };
        for _ in 0..3 {
            t += pause / 3.0;
            look(&clock, &mut wild, t);
        }
    }
    (broken, read)
}

#[test]
fn whatever_crystals_do_within_the_drift_the_certain_interval_holds() {
    for seed in 1..=40 {
        let shortest = [[0.0, 0.0], [0.0, 1000.0], [800.0, 0.0], [150.0, 150.0]][seed as usize % 4];
        let (broken, read) =
            perform(Disciplined::default(), Wild::new(seed, 100.0), shortest, 1500, Disciplined::certain);
        assert!(broken == 0 && read > 1000, "seed {seed}, {shortest:?} µs: {broken} of {read}");
    }
}

#[test]
fn a_crystal_that_is_worse_than_declared_does_break_it() {
    let broken = |drift_ppm: f64| -> usize {
        let runs = (1..=10).map(|seed| Wild::new(seed, drift_ppm));
        runs.map(|wild| perform(Disciplined::default(), wild, [0.0, 0.0], 600, Disciplined::certain).0).sum()
    };
    assert_eq!(broken(100.0), 0);
    assert!(broken(130.0) > 0, "else it would be wider than it must be");
}

#[test]
fn a_reference_that_runs_at_a_learnt_rate_asks_for_more() {
    let broken = |clock: fn() -> Disciplined| -> usize {
        let runs = (1..=10).map(|seed| Wild::new(seed, 200.0));
        runs.map(|wild| perform(clock(), wild, [0.0, 300.0], 600, Disciplined::certain).0).sum()
    };
    assert!(broken(Disciplined::default) > 0);
    assert_eq!(broken(|| Disciplined::default().parting_by(400)), 0);
}

/// The narrow one cannot bear all that. But it may not claim to bear what it does not.
#[test]
fn the_narrow_interval_bears_the_leaps_that_it_says_where_ways_are_alike() {
    for seed in 1..=60u64 {
        let mut random = Random(seed);
        let (shortest, jitter) = (100.0 + random.unit() * 900.0, 20.0 + random.unit() * 600.0);
        let rate = 1.0 + (random.unit() - 0.5) * 60e-6;
        let (mut clock, mut t, mut hardware) = (Disciplined::default(), 0.0, 4e6);
        let (mut leapt, mut run) = (0.0, 0.0);
        for second in 0..1100 {
            if second == 900 {
                // Just below what it bears, in either direction, while nobody looks.
                let sign = if seed % 2 == 0 { 1.0 } else { -1.0 };
                leapt = sign * 0.97 * (clock.bears_ppb() as f64 * 1e-9).min(150e-6);
            }
            let mut way = || shortest + random.exponential(jitter);
            let (there, back) = (way(), way());
            let at = |us: f64| hardware + us * (rate + leapt);
            let trip = there + 40.0 + back;
            clock.exchange(&Exchange {
                asked: Instant(at(0.0) as u64),
                received: ClusterTime((t + there) as i64),
                answered: ClusterTime((t + there + 40.0) as i64),
                arrived: Instant(at(trip) as u64),
                error_us: 0,
                certain_us: 0,
                leaves_us: 0,
            });
            for part in 1..8 {
                let us = trip + (1e6 - trip) * f64::from(part) / 8.0;
                let interval = clock.interval(Instant(at(us) as u64)).unwrap();
                let reference = ClusterTime((t + us) as i64);
                let is_held = interval.earliest <= reference && reference <= interval.latest;
                assert!(is_held, "seed {seed}, {second} s, leap {leapt}: {interval:?} without {reference:?}");
            }
            run += leapt * 1e6;
            (t, hardware) = (t + 1e6, at(1e6));
        }
        assert!(run != 0.0, "it did leap");
    }
}

#[test]
fn what_it_bears_is_what_the_page_says() {
    for (shortest, jitter, ppm) in [
        (150.0, [50.0; 2], 70..105),
        (200.0, [100.0, 500.0], 12..24),
        (800.0, [500.0, 800.0], 120..190),
        (50.0, [5.0; 2], 40..48),
    ] {
        let (mut random, mut clock) = (Random(8), Disciplined::default());
        for second in 1..1200u64 {
            let (t, [there, back]) =
                (second * 1_000_000, jitter.map(|mean| (shortest + random.exponential(mean)) as u64));
            clock.exchange(&Exchange {
                asked: Instant(t),
                received: ClusterTime((t + there) as i64),
                answered: ClusterTime((t + there + 40) as i64),
                arrived: Instant(t + there + 40 + back),
                error_us: 0,
                certain_us: 0,
                leaves_us: 0,
            });
        }
        let bears = clock.bears_ppb() / 1000;
        assert!(ppm.contains(&bears), "{shortest} and {jitter:?} µs: {bears} ppm");
    }
}
