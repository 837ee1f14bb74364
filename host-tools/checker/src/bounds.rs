//! How long a cluster may take, derived from its time-outs, its network's delay and its loss.
//!
//! Liveness is a promise about time only while chance is a small disturbance: see [`Setting::restless`]
//! and [`Setting::leaseless`] for when it is not.

use crate::setting::Setting;

/// A message is late by no more than what all but one in a million are.
const LATE_CHANCE: f64 = 1e-6;
/// Between two tries of a message there is at least this, ...
const REPEAT_MIN_US: i64 = 40_000;
/// ... and at most this.
const REPEAT_MAX_US: i64 = 400_000;
/// A message is not tried more often than this in any bound: beyond it, nothing is bounded.
const TRIES_MAX: u32 = 1000;
/// A time-out may fire by chance alone in one of so many periods, else the cluster never rests.
const CHANCE_MAX: f64 = 1e-3;
/// Messages that one turn may take one after another, with all that hardening adds.
const MESSAGES_A_TURN: i64 = 10;

impl Setting {
    /// Time after a fault within which a hardened cluster must be in order again: suspicions are
    /// raised (and may have to be raised twice, since the time-out grows), an election is held, twice
    /// round a ring, a returned node has waited out the longest lease and is admitted.
    /// Emulated boards share one busy machine and get twice as long.
    #[must_use]
    pub fn settle_us(&self) -> i64 {
        let round_trip = self.ids.len() as i64 * self.delay_max_us;
        self.on_stage(4 * (self.suspect_after_us + self.lease_us) + 2 * (round_trip + self.late_us()))
    }

    /// Time within which a request is granted while nothing disturbs, not counting the time that others are
    /// inside: two rounds of turns, and a lease that may have to be waited out.
    #[must_use]
    pub fn calm_wait_us(&self) -> i64 {
        self.on_stage(self.lease_us + self.late_us() + 2 * self.round_us())
    }

    /// The same, whatever suspicions and elections come between.
    #[must_use]
    pub fn longest_wait_us(&self) -> i64 {
        self.settle_us() + self.on_stage(2 * self.round_us())
    }

    /// Time in which everybody has had a turn, the visits themselves not counted.
    fn round_us(&self) -> i64 {
        let rest = match self.mutex.as_deref() {
            Some("token-ring") | None => self.token_rest_us,
            Some(_) => 0,
        };
        let repeats = if self.hardening { self.loss / (1.0 - self.loss).max(LATE_CHANCE) } else { 0.0 };
        let message = self.delay_max_us + (self.repeat_us() as f64 * repeats) as i64;
        self.ids.len() as i64 * (rest + MESSAGES_A_TURN * message)
    }

    /// Why the cluster may be disturbed for ever by chance alone, so that nothing is promised in time.
    #[must_use]
    pub fn restless(&self) -> Option<String> {
        let beats = |span_us: i64| (span_us / self.heartbeat_us.max(1)).clamp(1, 1000) as i32;
        let unheard = self.loss.powi(beats(self.suspect_after_us));
        let answered = (1.0 - self.loss) * (1.0 - self.loss);
        let unrenewed = if self.hardening { (1.0 - answered).powi(beats(self.lease_us)) } else { 0.0 };
        (unheard.max(unrenewed) > CHANCE_MAX).then(|| {
            let percent = self.loss * 100.0;
            format!("with {percent:.0} % of all datagrams lost, time-outs fire by chance: nothing is promised in time")
        })
    }

    /// Why nobody can have a lease for long enough to use it.
    #[must_use]
    pub fn leaseless(&self) -> Option<&'static str> {
        let spent = 2 * (self.delay_max_us + self.heartbeat_us);
        (self.hardening && spent >= self.lease_us)
            .then_some("a lease is used up by the network's delays: nobody can be granted one in time")
    }

    /// What a reader of a broken promise should know of the network, as the end of a sentence.
    #[must_use]
    pub fn excuse(&self) -> String {
        if self.trans_us > 0 && self.delay_max_us > self.trans_us {
            let ms = |us: i64| us as f64 / 1000.0;
            format!(" (delays reach {} ms, timing.trans is {} ms)", ms(self.delay_max_us), ms(self.trans_us))
        } else {
            String::new()
        }
    }

    fn on_stage(&self, us: i64) -> i64 {
        if self.is_simulated() { us } else { 2 * us }
    }

    fn repeat_us(&self) -> i64 {
        (4 * self.delay_max_us).clamp(REPEAT_MIN_US, REPEAT_MAX_US)
    }

    /// How much later than its first try a message arrives at worst. The textbook sends once.
    fn late_us(&self) -> i64 {
        let tries = (1..TRIES_MAX).find(|tries| self.loss.powi(*tries as i32) <= LATE_CHANCE).unwrap_or(TRIES_MAX);
        if self.hardening { i64::from(tries - 1) * self.repeat_us() } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(loss: f64, delay_max_us: i64) -> Setting {
        let ids = vec![0, 1, 2, 3, 4];
        Setting { stage: "sim".to_owned(), ids, loss, delay_max_us, ..Setting::unknown() }
    }

    #[test]
    fn loss_and_delay_lengthen_every_bound() {
        let calm = setting(0.0, 2_000);
        for harder in [setting(0.05, 2_000), setting(0.0, 100_000)] {
            assert!(harder.settle_us() > calm.settle_us());
            assert!(harder.calm_wait_us() > calm.calm_wait_us());
            assert!(harder.longest_wait_us() > calm.longest_wait_us());
        }
        let boards = Setting { stage: "qemu".to_owned(), ..calm.clone() };
        assert_eq!(boards.settle_us(), 2 * calm.settle_us());
    }

    #[test]
    fn chance_and_delay_take_the_promise_away_and_longer_leases_give_it_back() {
        assert_eq!(setting(0.2, 2_000).restless(), None);
        assert!(setting(0.5, 2_000).restless().is_some_and(|why| why.contains("50 %")));
        let patient = Setting { lease_us: 10_000_000, suspect_after_us: 3_000_000, ..setting(0.5, 2_000) };
        assert_eq!(patient.restless(), None);
        assert!(Setting { lease_us: 10_000_000_000, ..setting(1.0, 2_000) }.restless().is_some());
        assert_eq!(setting(0.0, 300_000).leaseless(), None);
        assert!(setting(0.0, 400_000).leaseless().is_some());
        assert_eq!(Setting { hardening: false, ..setting(0.0, 400_000) }.leaseless(), None);
    }

    #[test]
    fn no_number_overflows() {
        let line = r#"{"ids":[0,1],"lease_us":9223372036854775807,"suspect_after_us":9223372036854775807,
            "delay_max_us":9223372036854775807,"token_rest_us":9223372036854775807,"loss":1.0,"heartbeat_us":0}"#;
        let map = serde_json::from_str(line).expect("an object");
        let wild = Setting { ids: vec![0; 65_536], ..Setting::from_line(&map) };
        assert!(wild.longest_wait_us() > 0 && wild.calm_wait_us() > 0 && wild.settle_us() > 0);
    }
}
