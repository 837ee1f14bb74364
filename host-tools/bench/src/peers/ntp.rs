//! ntp-proto's Kalman filter and controller, as ntpd-rs runs them, asked once a second.

use super::steered::Steered;
use crate::{
    families::{Exchange, Trace},
    peer::{Contender, Fine, Peer},
};
use ntp_proto::{
    AlgorithmConfig, KalmanClockController, KalmanControllerMessage, Measurement, NtpClock, NtpDuration, NtpInstant,
    NtpLeapIndicator, NtpTimestamp, SourceConfig, SourceController, StateUpdate, StepThreshold, SynchronizationConfig,
    TimeSyncController, TwoWayKalmanSourceController,
};
use std::{
    convert::Infallible,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// Of stamps of 1 µs, as a power of two of a second.
const PRECISION: i8 = -20;

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Steered>>);

struct Daemon {
    controller: KalmanClockController<Shared, u8>,
    source: TwoWayKalmanSourceController<u8>,
    clock: Shared,
    began: NtpInstant,
    update_at: Option<u64>,
}

/// The contender.
pub fn kalman() -> Contender {
    Contender {
        name: "ntp-proto",
        parameters: "minimum agreeing sources 1, no panic thresholds, precision 2^-20 s, otherwise its defaults"
            .to_owned(),
        make: |_: &Trace| Box::new(Daemon::new()),
        rival: true,
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Steered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stamp(&self) -> NtpTimestamp {
        let ns = (self.lock().shown().0 as i128 * 1_000) >> 16;
        NtpTimestamp::from_seconds_nanos_since_ntp_era((ns / 1_000_000_000) as u32, (ns % 1_000_000_000) as u32)
    }
}

impl Daemon {
    fn new() -> Daemon {
        let clock = Shared::default();
        let any = StepThreshold { forward: None, backward: None };
        let synchronization = SynchronizationConfig {
            minimum_agreeing_sources: 1,
            single_step_panic_threshold: any,
            startup_step_panic_threshold: any,
            warn_on_jump: false,
            ..SynchronizationConfig::default()
        };
        let Ok(mut controller) = KalmanClockController::new(clock.clone(), synchronization, AlgorithmConfig::default());
        let Ok(()) = controller.take_control();
        let source = controller.add_source(0, SourceConfig::default());
        controller.source_update(0, true);
        Daemon { controller, source, clock, began: NtpInstant::now(), update_at: None }
    }

    fn advance(&mut self, tick: u64) {
        if let Some(at) = self.update_at.filter(|at| *at <= tick) {
            self.clock.lock().now = at;
            self.update_at = None;
            let update = self.controller.time_update();
            self.take(update);
        }
        self.clock.lock().now = tick;
    }

    fn take(&mut self, update: StateUpdate<u8, KalmanControllerMessage>) {
        if let Some(message) = update.source_message {
            self.source.handle_message(message);
        }
        if let Some(after) = update.next_update {
            self.update_at = Some(self.clock.lock().now + after.as_micros() as u64);
        }
    }
}

impl Peer for Daemon {
    fn exchange(&mut self, exchange: &Exchange) {
        if !self.clock.lock().is_set() {
            self.clock.lock().set(exchange);
        }
        self.advance(exchange.h4);
        let shown = |tick: u64| self.clock.lock().read(tick).map_or(0, |shown| shown.0);
        let (asked, arrived) = (shown(exchange.h1), shown(exchange.h4));
        let (received, answered) = (exchange.t2 << 16, exchange.t3 << 16);
        let seconds = |fine: i64| NtpDuration::from_seconds(fine as f64 / 65_536e6);
        let measurement = Measurement {
            delay: seconds((arrived - asked) - (answered - received)),
            offset: seconds(((received - asked) + (answered - arrived)) / 2),
            localtime: self.clock.stamp(),
            monotime: self.began + Duration::from_micros(exchange.h4),
            stratum: 1,
            root_delay: NtpDuration::ZERO,
            root_dispersion: NtpDuration::ZERO,
            leap: NtpLeapIndicator::NoWarning,
            precision: PRECISION,
        };
        if let Some(message) = self.source.handle_measurement(measurement) {
            let update = self.controller.source_message(0, message);
            self.take(update);
        }
    }

    fn read(&mut self, tick: u64) -> Option<Fine> {
        self.advance(tick);
        self.clock.lock().read(tick)
    }
}

impl NtpClock for Shared {
    type Error = Infallible;

    fn now(&self) -> Result<NtpTimestamp, Infallible> {
        Ok(self.stamp())
    }

    fn set_frequency(&self, freq: f64) -> Result<NtpTimestamp, Infallible> {
        self.lock().set_rate(freq);
        Ok(self.stamp())
    }

    fn get_frequency(&self) -> Result<f64, Infallible> {
        Ok(self.lock().rate())
    }

    fn step_clock(&self, offset: NtpDuration) -> Result<NtpTimestamp, Infallible> {
        self.lock().step(offset.to_seconds() * 1e6);
        Ok(self.stamp())
    }

    fn disable_ntp_algorithm(&self) -> Result<(), Infallible> {
        Ok(())
    }

    fn error_estimate_update(&self, _: NtpDuration, _: NtpDuration) -> Result<(), Infallible> {
        Ok(())
    }

    fn status_update(&self, _: NtpLeapIndicator) -> Result<(), Infallible> {
        Ok(())
    }
}
