//! The limit: a clock that knows the noise law, and of all that happens only the stamps.
//!
//! It is told what no clock can know: each way's minimal delay and the density of its jitter at each exchange
//! (congestion and detours included), the crystal's rate at the beginning, the variance of its random walk, and
//! the sine of the temperature, and when the rate leaps and where to. What is left, the offset and the walk of the rate, it estimates by Bayes' rule
//! from all stamps so far, with `PARTICLES` particles and the densities convolved with the rounding of the
//! stamps; it shows the mean of what is possible. It may jump: it is a filter, not a servo. It never looks ahead.
//! Where few particles carry the weight they are drawn anew and moved a little, so that mean and covariance stay
//! (Liu and West, 2001); five times as many change its p99 by about 1 %. The mean is the best there is in the
//! mean square; over few seeds another clock's p99 may be as small.

use crate::{
    families::{Crystal, Exchange, Jitter, Trace, Way},
    peer::{Contender, Fine, Peer},
};
use fastrand::Rng;

const PARTICLES: usize = 4_000;
/// How far a redrawn particle moves, in deviations.
const KERNEL: f64 = 0.1;
/// The table of a density begins 1 µs early, where rounding can put a stamp, and has this step.
const STEP_US: f64 = 1.0 / 16.0;
const TABLE: usize = 16_384;

/// The contender.
pub fn oracle() -> Contender {
    Contender {
        name: "oracle",
        parameters: format!("knows delays, jitter, initial rate, walk, sine and leaps; {PARTICLES} particles"),
        make: |trace: &Trace| Box::new(Oracle::new(trace)),
        rival: false,
    }
}

/// The density of a way's jitter, logarithmic, as the stamps have it.
#[derive(Clone)]
struct Density {
    jitter: Jitter,
    table: Vec<f64>,
}

impl Density {
    fn new(jitter: Jitter) -> Density {
        // Both ends round down: the error of the difference has a triangular density from -1 to 1.
        let rounded = |x: f64| {
            let cells = 64;
            (0..cells).fold(0.0, |sum, cell| {
                let error = (f64::from(cell) + 0.5) * 2.0 / f64::from(cells) - 1.0;
                sum + (1.0 - error.abs()) * jitter.density(x - error) * 2.0 / f64::from(cells)
            })
        };
        let table = (0..=TABLE).map(|at| rounded(at as f64 * STEP_US - 1.0).max(1e-300).ln()).collect();
        Density { jitter, table }
    }

    fn ln(&self, x: f64) -> f64 {
        let at = (x + 1.0) / STEP_US;
        if at < 0.0 {
            return f64::NEG_INFINITY;
        }
        let cell = at as usize;
        if cell >= TABLE {
            return self.jitter.density(x).max(1e-300).ln();
        }
        self.table[cell] + (at - cell as f64) * (self.table[cell + 1] - self.table[cell])
    }
}

/// One possibility: how far the counter is ahead at the last exchange, and how far the rate has walked.
#[derive(Clone, Copy)]
struct Particle {
    ahead_us: f64,
    walked: f64,
}

/// The last exchange, and what is believed since.
#[derive(Clone, Copy)]
struct Belief {
    second: usize,
    asked: u64,
    /// Beyond `base_us`.
    mean: Particle,
}

#[derive(Clone)]
struct Oracle {
    walk: f64,
    crystal: Crystal,
    rng: Rng,
    particles: Vec<Particle>,
    weights: Vec<f64>,
    densities: Vec<Density>,
    /// Offsets count from here, so that they are small numbers.
    base_us: i64,
    belief: Option<Belief>,
}

impl Oracle {
    fn new(trace: &Trace) -> Oracle {
        Oracle {
            walk: trace.family.walk_ppb * 1e-9,
            crystal: trace.crystal.clone(),
            rng: Rng::with_seed(trace.seed),
            particles: Vec::new(),
            weights: vec![0.0; PARTICLES],
            densities: Vec::new(),
            base_us: 0,
            belief: None,
        }
    }

    fn density(&mut self, way: Way) -> usize {
        let known = self.densities.iter().position(|density| density.jitter == way.jitter);
        known.unwrap_or_else(|| {
            self.densities.push(Density::new(way.jitter));
            self.densities.len() - 1
        })
    }

    /// What the first exchange leaves possible, evenly.
    fn begin(&mut self, exchange: &Exchange) {
        self.base_us = exchange.h1 as i64 - exchange.t2;
        let [there, back] = exchange.ways;
        let low = there.minimal_us - 1.0;
        let high = (exchange.h4 as i64 - exchange.t3 - self.base_us) as f64 - back.minimal_us + 1.0;
        let spread = high - low;
        self.particles = (0..PARTICLES)
            .map(|at| Particle { ahead_us: low + spread * (at as f64 + 0.5) / PARTICLES as f64, walked: 0.0 })
            .collect();
        self.weights.fill(0.0);
    }

    /// Lets the particles run, second by second, as the crystal does.
    fn progress(&mut self, from: usize, to: usize) {
        for second in from..to {
            let known = self.crystal.told(second);
            for pair in self.particles.chunks_mut(2) {
                let (radius, angle) = polar(&mut self.rng);
                for (particle, draw) in pair.iter_mut().zip([radius * angle.cos(), radius * angle.sin()]) {
                    particle.ahead_us += 1e6 * (known + particle.walked);
                    particle.walked += self.walk * draw;
                }
            }
        }
    }

    fn weigh(&mut self, exchange: &Exchange) {
        let [there, back] = exchange.ways;
        let (to, fro) = (self.density(there), self.density(back));
        let known = self.crystal.told(exchange.second);
        let asked = (exchange.t2 - exchange.h1 as i64 + self.base_us) as f64 - there.minimal_us;
        let came = (exchange.h4 as i64 - exchange.t3 - self.base_us) as f64 - back.minimal_us;
        let trip = (exchange.h4 - exchange.h1) as f64;
        let (to, fro) = (&self.densities[to], &self.densities[fro]);
        let mut most = f64::NEG_INFINITY;
        for (particle, weight) in self.particles.iter().zip(&mut self.weights) {
            let rate = known + particle.walked;
            let there = to.ln(asked + particle.ahead_us);
            *weight += there + fro.ln(came - particle.ahead_us - trip * rate);
            most = most.max(*weight);
        }
        if most == f64::NEG_INFINITY {
            // No particle is possible: the cloud was too thin. What this exchange leaves possible, as at the start.
            let walked = self.belief.map_or(0.0, |belief| belief.mean.walked);
            self.begin(exchange);
            self.particles.iter_mut().for_each(|particle| particle.walked = walked);
        } else {
            self.weights.iter_mut().for_each(|weight| *weight -= most);
        }
    }

    /// The mean of what is possible; draws the particles anew where few of them count.
    fn settle(&mut self) -> Particle {
        let shares: Vec<f64> = self.weights.iter().map(|weight| weight.exp()).collect();
        let total: f64 = shares.iter().sum();
        let squares: f64 = shares.iter().map(|share| share * share).sum();
        let of = |value: &dyn Fn(&Particle) -> f64| {
            self.particles.iter().zip(&shares).map(|(particle, share)| value(particle) * share).sum::<f64>() / total
        };
        let mean = Particle { ahead_us: of(&|p| p.ahead_us), walked: of(&|p| p.walked) };
        if total * total / squares > PARTICLES as f64 / 2.0 {
            return mean;
        }
        let aa = of(&|p| (p.ahead_us - mean.ahead_us).powi(2));
        let aw = of(&|p| (p.ahead_us - mean.ahead_us) * (p.walked - mean.walked));
        let ww = of(&|p| (p.walked - mean.walked).powi(2));
        let deviation = aa.sqrt();
        let along = if deviation > 0.0 { aw / deviation } else { 0.0 };
        let across = (ww - along * along).max(0.0).sqrt();
        let keep = (1.0 - KERNEL * KERNEL).sqrt();
        let mut drawn = Vec::with_capacity(PARTICLES);
        let (mut at, mut passed) = (0, shares[0]);
        let first = self.rng.f64();
        for nth in 0..PARTICLES {
            let wanted = (nth as f64 + first) / PARTICLES as f64 * total;
            while passed < wanted && at + 1 < PARTICLES {
                at += 1;
                passed += shares[at];
            }
            let (radius, angle) = polar(&mut self.rng);
            let (one, other) = (KERNEL * radius * angle.cos(), KERNEL * radius * angle.sin());
            let old = self.particles[at];
            drawn.push(Particle {
                ahead_us: mean.ahead_us + keep * (old.ahead_us - mean.ahead_us) + one * deviation,
                walked: mean.walked + keep * (old.walked - mean.walked) + one * along + other * across,
            });
        }
        self.particles = drawn;
        self.weights.fill(0.0);
        mean
    }
}

/// Two independent normal draws, as radius and angle.
fn polar(rng: &mut Rng) -> (f64, f64) {
    ((-2.0 * (1.0 - rng.f64()).ln()).sqrt(), std::f64::consts::TAU * rng.f64())
}

impl Peer for Oracle {
    fn exchange(&mut self, exchange: &Exchange) {
        match self.belief {
            None => self.begin(exchange),
            Some(belief) => self.progress(belief.second, exchange.second),
        }
        self.weigh(exchange);
        let mean = self.settle();
        self.belief = Some(Belief { second: exchange.second, asked: exchange.h1, mean });
    }

    fn fork(&self) -> Option<Box<dyn Peer>> {
        Some(Box::new(self.clone()))
    }

    fn read(&mut self, tick: u64) -> Option<Fine> {
        let belief = self.belief?;
        let (mut ahead, mut left) = (belief.mean.ahead_us, tick as f64 - belief.asked as f64);
        let mut second = belief.second;
        while left > 0.0 {
            let rate = self.crystal.told(second) + belief.mean.walked;
            let counted = left.min(1e6 * (1.0 + rate));
            ahead += counted / (1.0 + rate) * rate;
            left -= counted;
            second += 1;
        }
        Some(Fine::from_us((tick as i64 - self.base_us) as f64 - ahead))
    }
}
