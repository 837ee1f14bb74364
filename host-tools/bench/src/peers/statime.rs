//! statime's filters, driving a clock as its port does: the answer is the Sync, the request the Delay_Req.
//!
//! Sync goes first, then Delay_Req, and both carry the time of arrival: a measurement from before the last steering
//! would be dropped silently. The offset that the basic filter needs is the Sync's minus the delay known so far.

use super::steered::Steered;
use crate::{
    families::{Exchange, Trace},
    peer::{Contender, Fine, Peer},
};
use statime::{
    Clock,
    config::TimePropertiesDS,
    filters::{BasicFilter, Filter, FilterUpdate, KalmanConfiguration, KalmanFilter},
    port::Measurement,
    time::{Duration, Time},
};
use std::convert::Infallible;

const GAINS: [f64; 2] = [0.25, 0.02];

struct Port<F: Filter> {
    filter: F,
    clock: Steered,
    mean_delay: Option<Duration>,
    update_at: Option<u64>,
}

/// The contenders.
pub fn all() -> [Contender; 4] {
    let kalman = |ms: f64| format!("step threshold {ms} ms, otherwise its default configuration");
    [
        Contender {
            name: "statime-kalman",
            parameters: kalman(1.0),
            make: |_: &Trace| Box::new(Port::<KalmanFilter>::new(KalmanConfiguration::default())),
            rival: true,
        },
        Contender {
            name: "statime-kalman-50ms",
            parameters: kalman(50.0),
            make: |_: &Trace| {
                let step_threshold = Duration::from_millis(50);
                Box::new(Port::<KalmanFilter>::new(KalmanConfiguration { step_threshold, ..Default::default() }))
            },
            rival: true,
        },
        Contender {
            name: "statime-basic",
            parameters: format!("gain {}", GAINS[0]),
            make: |_: &Trace| Box::new(Port::<BasicFilter>::new(GAINS[0])),
            rival: true,
        },
        Contender {
            name: "statime-basic-low",
            parameters: format!("gain {}", GAINS[1]),
            make: |_: &Trace| Box::new(Port::<BasicFilter>::new(GAINS[1])),
            rival: true,
        },
    ]
}

impl<F: Filter> Port<F> {
    fn new(config: F::Config) -> Port<F> {
        Port { filter: F::new(config), clock: Steered::default(), mean_delay: None, update_at: None }
    }

    /// Lets the timers run that are due by `tick`.
    fn advance(&mut self, tick: u64) {
        if let Some(at) = self.update_at.filter(|at| *at <= tick) {
            self.clock.now = at;
            self.update_at = None;
            let update = self.filter.update(&mut self.clock);
            self.take(update);
        }
        self.clock.now = tick;
    }

    fn take(&mut self, update: FilterUpdate) {
        if let Some(after) = update.next_update {
            self.update_at = Some(self.clock.now + after.as_micros() as u64);
        }
        self.mean_delay = update.mean_delay.or(self.mean_delay);
    }

    fn measure(&mut self, measurement: Measurement) {
        let event_time = self.clock.now();
        let update = self.filter.measurement(Measurement { event_time, ..measurement }, &mut self.clock);
        self.take(update);
    }

    /// How far the clock is ahead of a stamp of the reference.
    fn ahead(&self, tick: u64, reference_us: i64) -> Duration {
        let shown = self.clock.read(tick).map_or(0, |shown| shown.0);
        Duration::from_seconds((shown - (reference_us << 16)) as f64 / 65_536e6)
    }
}

impl<F: Filter> Peer for Port<F> {
    fn exchange(&mut self, exchange: &Exchange) {
        if !self.clock.is_set() {
            self.clock.set(exchange);
        }
        self.advance(exchange.h4);
        let asked_ahead = self.ahead(exchange.h1, exchange.t2);
        let sync = self.ahead(exchange.h4, exchange.t3);
        let offset = self.mean_delay.map(|delay| sync - delay);
        let before = self.clock.shown();
        self.measure(Measurement { raw_sync_offset: Some(sync), offset, ..Measurement::default() });
        // A step in between moved the whole scale; the stamp of the request moves with it.
        let stepped = Duration::from_seconds((self.clock.shown().0 - before.0) as f64 / 65_536e6);
        let request = asked_ahead + stepped;
        let delay = Some((sync - asked_ahead) / 2);
        self.measure(Measurement { raw_delay_offset: Some(request), delay, ..Measurement::default() });
    }

    fn read(&mut self, tick: u64) -> Option<Fine> {
        self.advance(tick);
        self.clock.read(tick)
    }
}

impl Clock for Steered {
    type Error = Infallible;

    fn now(&self) -> Time {
        Time::from_fixed_nanos(self.shown().0 as f64 / 65.536)
    }

    fn step_clock(&mut self, offset: Duration) -> Result<Time, Infallible> {
        self.step(offset.seconds() * 1e6);
        Ok(Clock::now(self))
    }

    fn set_frequency(&mut self, ppm: f64) -> Result<Time, Infallible> {
        self.set_rate(ppm * 1e-6);
        Ok(Clock::now(self))
    }

    fn set_properties(&mut self, _: &TimePropertiesDS) -> Result<(), Infallible> {
        Ok(())
    }
}
