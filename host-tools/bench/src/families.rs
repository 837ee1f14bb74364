//! The families of traces: what a crystal and a network do, by a written law and a seed.
//! Promise: the same family and seed give the same trace; every stamp is a counter's, rounded down to 1 µs.
//!
//! **Crystal.** Runs fast by 40 ppm, plus a random walk of its rate (a normal step every second), plus a sine
//! where it gets warm and cold, plus a level that leaps where it is knocked about. Within a second the rate is
//! constant. It goes on for [`HOLDOVER_S`] after the last exchange.
//! **Network.** One exchange a second. Each way takes its minimal delay plus jitter, drawn anew; the server
//! answers after 10 to 50 µs. An exchange that lost either datagram gives no stamps.
//! How long and how strongly `burst` is congested was chosen, among a dozen settings, by what the peers make of it:
//! so that the best of them is about as far off as was known of such traces. No setting was chosen by what ours makes
//! of it; `busy` is another of that kind, with no queue that stands.
//! The reference is true: its clock is what all others are measured against.

use fastrand::Rng;
use std::f64::consts::TAU;

/// So long there are exchanges, in seconds.
pub const LENGTH_S: usize = 7_200;
/// So long the crystal goes on without them.
pub const HOLDOVER_S: usize = 1_800;
/// What the reference shows at the beginning, in µs.
pub const REFERENCE_START_US: i64 = 1_000_000_000;
/// Every crystal is off by so much at the beginning.
pub const RATE: f64 = 40e-6;

/// How far beyond the minimal delay a datagram takes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Jitter {
    /// Exponential; with some chance a spike on top, exponential too.
    Exponential {
        /// Its mean.
        mean_us: f64,
        /// The chance of a spike: 1 while the way is congested.
        spike_chance: f64,
        /// The spike's mean.
        spike_us: f64,
    },
    /// Pareto's heavy tail, moved to begin at 0 (Lomax), cut off at [`TAIL_MAX_US`].
    Pareto {
        /// Its scale.
        scale_us: f64,
        /// Its exponent; the variance is infinite up to 2.
        shape: f64,
    },
}

/// No delay is longer: the exchanges of a trace do not overlap.
pub const TAIL_MAX_US: f64 = 300_000.0;

impl Jitter {
    const fn exponential(mean_us: f64) -> Jitter {
        Jitter::Exponential { mean_us, spike_chance: 0.0, spike_us: 0.0 }
    }

    fn draw(self, rng: &mut Rng) -> f64 {
        let drawn = match self {
            Jitter::Exponential { mean_us, spike_chance, spike_us } => {
                let spike = if rng.f64() < spike_chance { exponential(rng, spike_us) } else { 0.0 };
                exponential(rng, mean_us) + spike
            }
            Jitter::Pareto { scale_us, shape } => scale_us * ((1.0 - rng.f64()).powf(-1.0 / shape) - 1.0),
        };
        drawn.min(TAIL_MAX_US)
    }

    /// How likely a jitter of `x` µs is; the density of the law, of which only the oracle knows.
    #[must_use]
    pub fn density(self, x: f64) -> f64 {
        if x < 0.0 {
            return 0.0;
        }
        match self {
            Jitter::Exponential { mean_us, spike_chance, spike_us } => {
                let plain = (-x / mean_us).exp() / mean_us;
                let spiked = if spike_chance > 0.0 {
                    ((-x / spike_us).exp() - (-x / mean_us).exp()) / (spike_us - mean_us)
                } else {
                    0.0
                };
                (1.0 - spike_chance) * plain + spike_chance * spiked
            }
            Jitter::Pareto { scale_us, shape } => shape / scale_us * (1.0 + x / scale_us).powf(-shape - 1.0),
        }
    }
}

/// What one direction does at one time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Way {
    /// No datagram is faster.
    pub minimal_us: f64,
    /// What comes on top.
    pub jitter: Jitter,
}

/// What happens to the ways in the course of a trace.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Weather {
    /// Nothing.
    Steady,
    /// In every `of_s` seconds, one way is congested for `for_s` seconds; which one and from when, chance decides.
    /// A queue stands there then, and on top of it there is more jitter, exponential.
    Congested {
        /// How much longer the way is at least.
        standing_us: f64,
        /// The mean of what comes on top.
        mean_us: f64,
        /// How long it lasts.
        for_s: usize,
        /// How often it comes.
        of_s: usize,
    },
    /// Both ways get longer by so much from [`DETOUR_S`]`.0` to `.1`: another route.
    Detour {
        /// By how much.
        longer_us: f64,
    },
}

/// When the detour is taken.
pub const DETOUR_S: (usize, usize) = (2_700, 5_100);

/// A family of traces.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Family {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is like.
    pub about: &'static str,
    /// To the reference, and back.
    pub ways: [Way; 2],
    /// What happens to them.
    pub weather: Weather,
    /// The chance that an exchange gives no stamps.
    pub loss: f64,
    /// The random walk of the rate: its step a second, in parts per billion.
    pub walk_ppb: f64,
    /// The sine of the rate: amplitude in ppm, and period in seconds.
    pub sine: Option<(f64, f64)>,
    /// The rate leaps to another level at most so many ppm away from where it began, every so many seconds on
    /// average.
    pub leaps: Option<(f64, f64)>,
}

const fn ways(minimal_us: f64, there_us: f64, back_us: f64) -> [Way; 2] {
    [
        Way { minimal_us, jitter: Jitter::exponential(there_us) },
        Way { minimal_us, jitter: Jitter::exponential(back_us) },
    ]
}

const fn spiky(minimal_us: f64, mean_us: f64) -> Way {
    Way { minimal_us, jitter: Jitter::Exponential { mean_us, spike_chance: 0.05, spike_us: 5_000.0 } }
}

const PLAIN: Family = Family {
    name: "lan",
    about: "a quiet switch",
    ways: ways(150.0, 50.0, 50.0),
    weather: Weather::Steady,
    loss: 0.0,
    walk_ppb: 1.0,
    sine: None,
    leaps: None,
};

const ASYM: Family =
    Family { name: "asym", about: "one way jitters five times the other", ways: ways(200.0, 100.0, 500.0), ..PLAIN };

/// All families: the five with limits, then those without.
pub const FAMILIES: [Family; 15] = [
    PLAIN,
    ASYM,
    Family {
        name: "wifi",
        about: "spikes and loss",
        ways: [spiky(800.0, 500.0), spiky(800.0, 800.0)],
        loss: 0.02,
        ..PLAIN
    },
    Family {
        name: "temp",
        about: "asym, and the crystal gets warm and cold",
        walk_ppb: 3.0,
        sine: Some((2.0, 1_800.0)),
        ..ASYM
    },
    Family {
        name: "burst",
        about: "a queue stands in one way or the other 30 % of the time, for 5 minutes",
        ways: ways(200.0, 100.0, 100.0),
        weather: Weather::Congested { standing_us: 1_000.0, mean_us: 300.0, for_s: 300, of_s: 1_000 },
        ..PLAIN
    },
    Family {
        name: "heavy",
        about: "Pareto tails of infinite variance, and loss",
        ways: [Way { minimal_us: 200.0, jitter: Jitter::Pareto { scale_us: 150.0, shape: 1.5 } }; 2],
        loss: 0.01,
        ..PLAIN
    },
    Family { name: "slow", about: "a long way: 10 ms", ways: ways(10_000.0, 1_000.0, 2_000.0), ..PLAIN },
    Family {
        name: "step",
        about: "the route gets longer by 300 µs each way, and shorter again",
        ways: ways(200.0, 100.0, 300.0),
        weather: Weather::Detour { longer_us: 300.0 },
        ..PLAIN
    },
    Family {
        name: "hot",
        about: "lan, and the temperature swings fast",
        walk_ppb: 3.0,
        sine: Some((4.0, 600.0)),
        ..PLAIN
    },
    Family { name: "quiet", about: "a cable and a good crystal", ways: ways(50.0, 5.0, 5.0), walk_ppb: 0.3, ..PLAIN },
    Family {
        name: "busy",
        about: "one way or the other jitters by 2 ms 30 % of the time, for a minute",
        ways: ways(200.0, 100.0, 100.0),
        weather: Weather::Congested { standing_us: 0.0, mean_us: 2_000.0, for_s: 60, of_s: 200 },
        ..PLAIN
    },
    Family {
        name: "lossy",
        about: "two exchanges of five are lost",
        ways: ways(200.0, 200.0, 200.0),
        loss: 0.4,
        ..PLAIN
    },
    Family { name: "leap", about: "asym, and the rate leaps by some ppm", leaps: Some((5.0, 600.0)), ..ASYM },
    Family { name: "shock", about: "lan, and the rate leaps by tens of ppm", leaps: Some((55.0, 600.0)), ..PLAIN },
    Family {
        name: "lopsided",
        about: "one way takes at least 50 µs, the other 800",
        ways: [
            Way { minimal_us: 50.0, jitter: Jitter::exponential(100.0) },
            Way { minimal_us: 800.0, jitter: Jitter::exponential(100.0) },
        ],
        ..PLAIN
    },
];

/// The families that have limits.
pub const LIMITED: usize = 5;

/// The family of this name.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static Family> {
    FAMILIES.iter().find(|family| family.name == name)
}

/// The stamps of one exchange, and what only the oracle may look at.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Exchange {
    /// This board's counter when the request left.
    pub h1: u64,
    /// The reference's clock when it came there.
    pub t2: i64,
    /// The reference's clock when the answer left.
    pub t3: i64,
    /// This board's counter when the answer came.
    pub h4: u64,
    /// Begun in this second of the trace.
    pub second: usize,
    /// What each way was like.
    pub ways: [Way; 2],
}

impl Exchange {
    /// The round trip without the server's handling, as the stamps have it.
    #[must_use]
    pub fn rtt_us(&self) -> i64 {
        (self.h4 - self.h1) as i64 - (self.t3 - self.t2)
    }

    /// What the reference shows at `h4` if both ways took the same time; in halves of a µs.
    #[must_use]
    pub fn middle_half_us(&self) -> i64 {
        2 * self.t3 + self.rtt_us()
    }
}

/// The board's counter as a function of true time, and back.
#[derive(Clone, PartialEq, Debug)]
pub struct Crystal {
    start_us: u64,
    /// At the beginning of each second: the counter beyond its start, and the rate beyond 1.
    seconds: Vec<(f64, f64)>,
    /// The part of each second's rate that has not walked: of which the oracle is told.
    told: Vec<f64>,
}

impl Crystal {
    fn grow(family: &Family, rng: &mut Rng) -> Crystal {
        let start_us = 100_000_000 + rng.u64(0..1_000_000_000);
        let (mut walk, mut level, mut phase) = (0.0, 0.0, 0.0);
        let mut seconds = Vec::with_capacity(LENGTH_S + HOLDOVER_S + 2);
        let mut told = Vec::with_capacity(seconds.capacity());
        for second in 0..LENGTH_S + HOLDOVER_S + 2 {
            if let Some((most_ppm, every_s)) = family.leaps
                && rng.f64() * every_s < 1.0
            {
                level = most_ppm * 1e-6 * (2.0 * rng.f64() - 1.0);
            }
            told.push(RATE + sine(family, second) + level);
            let rate = RATE + walk + sine(family, second) + level;
            seconds.push((phase, rate));
            phase += 1e6 * (1.0 + rate);
            walk += family.walk_ppb * 1e-9 * normal(rng);
        }
        Crystal { start_us, seconds, told }
    }

    /// The counter, unrounded, at a true time in µs after the beginning.
    #[must_use]
    pub fn counter_at(&self, true_us: f64) -> f64 {
        let (phase, rate) = self.seconds[((true_us / 1e6) as usize).min(self.seconds.len() - 1)];
        let into = true_us - (true_us / 1e6).floor() * 1e6;
        self.start_us as f64 + phase + into * (1.0 + rate)
    }

    /// What the reference shows at the moment at which the counter becomes `tick`; in µs, unrounded.
    #[must_use]
    pub fn reference_at(&self, tick: u64) -> f64 {
        let counted = tick as f64 - self.start_us as f64;
        let second = self.seconds.partition_point(|(phase, _)| *phase <= counted).max(1) - 1;
        let (phase, rate) = self.seconds[second];
        REFERENCE_START_US as f64 + second as f64 * 1e6 + (counted - phase) / (1.0 + rate)
    }

    /// The rate in a second of the trace.
    #[must_use]
    pub fn rate(&self, second: usize) -> f64 {
        self.seconds[second].1
    }

    /// The same without what it has walked.
    #[must_use]
    pub fn told(&self, second: usize) -> f64 {
        self.told[second.min(self.told.len() - 1)]
    }
}

/// The sine of a family's rate in a second of the trace.
fn sine(family: &Family, second: usize) -> f64 {
    family.sine.map_or(0.0, |(ppm, period)| ppm * 1e-6 * (TAU * (second as f64 + 0.5) / period).sin())
}

/// A trace.
#[derive(Clone, PartialEq, Debug)]
pub struct Trace {
    /// Of this family.
    pub family: &'static Family,
    /// What everything random was drawn by.
    pub seed: u64,
    /// The board's counter.
    pub crystal: Crystal,
    /// All that arrived, in order.
    pub exchanges: Vec<Exchange>,
    /// Ticks of the board's counter at which clocks are read: in each second some, anywhere in it.
    pub samples: Vec<u64>,
}

/// So often a second the clocks are read.
pub const SAMPLES_A_SECOND: usize = 4;

impl Trace {
    /// The trace of a family and a seed.
    #[must_use]
    pub fn new(family: &'static Family, seed: u64) -> Trace {
        let salt = family.name.bytes().fold(0u64, |salt, byte| salt.wrapping_mul(257).wrapping_add(u64::from(byte)));
        let mut rng = Rng::with_seed(seed ^ salt.rotate_left(17));
        let crystal = Crystal::grow(family, &mut rng);
        let weather = weather(family, &mut rng);
        let mut exchanges = Vec::with_capacity(LENGTH_S);
        for (second, ways) in weather.into_iter().enumerate() {
            let [there, back] = ways.map(|way| way.minimal_us + way.jitter.draw(&mut rng));
            let handling = 10.0 + 40.0 * rng.f64();
            let lost = rng.f64() < family.loss;
            let asked = second as f64 * 1e6;
            let (received, answered) = (asked + there, asked + there + handling);
            let reference = |true_us: f64| REFERENCE_START_US + true_us.floor() as i64;
            let exchange = Exchange {
                h1: crystal.counter_at(asked) as u64,
                t2: reference(received),
                t3: reference(answered),
                h4: crystal.counter_at(answered + back) as u64,
                second,
                ways,
            };
            exchanges.extend((!lost).then_some(exchange));
        }
        let mut samples = Vec::with_capacity(LENGTH_S * SAMPLES_A_SECOND);
        for second in 0..LENGTH_S {
            let mut ticks =
                [(); SAMPLES_A_SECOND].map(|()| crystal.counter_at((second as f64 + rng.f64()) * 1e6).ceil() as u64);
            ticks.sort_unstable();
            samples.extend(ticks);
        }
        Trace { family, seed, crystal, exchanges, samples }
    }

    /// The smallest round trip among the stamps.
    #[must_use]
    pub fn rtt_min_us(&self) -> i64 {
        self.exchanges.iter().map(Exchange::rtt_us).min().unwrap_or(0)
    }
}

/// What each way is like in each second.
fn weather(family: &Family, rng: &mut Rng) -> Vec<[Way; 2]> {
    let mut seconds = vec![family.ways; LENGTH_S];
    match family.weather {
        Weather::Steady => {}
        Weather::Congested { standing_us, mean_us, for_s, of_s } => {
            for span in seconds.chunks_mut(of_s) {
                let (which, from) = (usize::from(rng.bool()), rng.usize(0..=span.len().saturating_sub(for_s)));
                for ways in span.iter_mut().skip(from).take(for_s) {
                    let way = &mut ways[which];
                    way.minimal_us += standing_us;
                    if let Jitter::Exponential { spike_chance, spike_us, .. } = &mut way.jitter {
                        (*spike_chance, *spike_us) = (1.0, mean_us);
                    }
                }
            }
        }
        Weather::Detour { longer_us } => {
            for way in seconds[DETOUR_S.0..DETOUR_S.1].iter_mut().flatten() {
                way.minimal_us += longer_us;
            }
        }
    }
    seconds
}

fn exponential(rng: &mut Rng, mean: f64) -> f64 {
    -mean * (1.0 - rng.f64()).ln()
}

fn normal(rng: &mut Rng) -> f64 {
    (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (TAU * rng.f64()).cos()
}

#[cfg(test)]
#[path = "families_tests.rs"]
mod tests;
