//! clock-bound's feed-forward filter: it steers nothing, and says at each tick what time it is and how far off at
//! most. Its bound grows by the largest error of the period times the age, as its clients compute it.

use crate::{
    families::{Exchange, Trace},
    peer::{Contender, Fine, Peer},
};
use clock_bound::daemon::{
    clock_sync_algorithm::{FfSyncParams, SourceParams, ff},
    event::{Ntp, NtpData, Stratum},
    time::{Duration, Instant, TscCount},
};

/// It halves intervals of its counter and of time in whole units: in nanoseconds it loses nothing by that.
const NS: i64 = 1_000;

#[derive(Clone)]
struct FeedForward(ff::Ntp);

/// The contenders.
pub fn both() -> [Contender; 2] {
    [
        Contender {
            name: "clock-bound",
            parameters: "its defaults for any NTP server, polled every second".to_owned(),
            make: |_: &Trace| Box::new(FeedForward::new(&SourceParams::NTP_DEFAULTS)),
            rival: true,
        },
        Contender {
            name: "clock-bound-local",
            parameters: "its defaults for a link-local server (Amazon Time Sync), polled every second".to_owned(),
            make: |_: &Trace| Box::new(FeedForward::new(&SourceParams::AMAZON_TIME_SYNC_DEFAULTS)),
            rival: true,
        },
    ]
}

impl FeedForward {
    fn new(source: &SourceParams) -> FeedForward {
        FeedForward(ff::Ntp::new(Duration::from_secs(1), &FfSyncParams::default(), source))
    }
}

impl Peer for FeedForward {
    fn exchange(&mut self, exchange: &Exchange) {
        let count = |tick: u64| TscCount::new(tick as i64 * NS);
        let data = NtpData {
            server_recv_time: Instant::from_nanos(exchange.t2 * NS),
            server_send_time: Instant::from_nanos(exchange.t3 * NS),
            root_delay: Duration::from_nanos(0),
            root_dispersion: Duration::from_nanos(0),
            stratum: Stratum::ONE,
        };
        let event = Ntp::builder().counter_pre(count(exchange.h1)).counter_post(count(exchange.h4)).ntp_data(data);
        if let Some(event) = event.build() {
            self.0.feed(event);
        }
    }

    fn fork(&self) -> Option<Box<dyn Peer>> {
        Some(Box::new(self.clone()))
    }

    fn read(&mut self, tick: u64) -> Option<Fine> {
        let parameters = self.0.clock_parameters()?;
        let time = parameters.time_at(TscCount::new(tick as i64 * NS));
        Some(Fine::from_us(time.as_nanos() as f64 / NS as f64))
    }

    fn interval(&mut self, tick: u64) -> Option<(Fine, Fine)> {
        let middle = self.read(tick)?;
        let parameters = self.0.clock_parameters()?;
        let age = (TscCount::new(tick as i64 * NS) - parameters.tsc_count).get() as f64;
        let grown = age * parameters.period_max_error.get() * 1e6;
        let half = Fine::from_us(parameters.clock_error_bound.as_nanos() as f64 / NS as f64 + grown);
        Some((Fine(middle.0 - half.0), Fine(middle.0 + half.0)))
    }
}
