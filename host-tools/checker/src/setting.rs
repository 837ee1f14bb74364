//! What a trace says about the run it comes from.

use crate::trace::Event;
use compasso_scenario::{Action, Scenario, clock_name, detector_name, election_name, mutex_name, strategy_name};
use compasso_wire::config::{MutexChoice, TimeSource};
use serde_json::{Map, Value, json};

/// No span of a scenario line counts as longer: eleven days, with which every sum of spans is a number.
const SPAN_MAX_US: i64 = 1_000_000_000_000;
/// So far apart true time may be between two boards where nobody measured it: readers are preempted for so long.
const UNMEASURED_US: i64 = 25_000;

/// The circumstances of a run, as far as its trace tells them.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Setting {
    /// The trace has a `scenario` line.
    pub known: bool,
    /// The stage; empty if unknown.
    pub stage: String,
    /// The configured nodes, in ring order; those seen where nothing is configured.
    pub ids: Vec<u16>,
    /// Leases, fences and majorities are promised.
    pub hardening: bool,
    /// `None` if unknown.
    pub clock: Option<String>,
    /// `None` if unknown.
    pub election: Option<String>,
    /// `None` if unknown.
    pub detector: Option<String>,
    /// `None` if unknown.
    pub mutex: Option<String>,
    /// What is done about deadlocks; `None` if nothing is locked, or it is unknown.
    pub strategy: Option<String>,
    /// The resources that can be locked.
    pub locks: Vec<String>,
    /// Requests are ordered by priority, not by time: such a rule promises no order.
    pub by_priority: bool,
    /// How long a grant lasts.
    pub lease_us: i64,
    /// No crystal is farther from nominal.
    pub drift_ppm: i64,
    /// A clock and its reference come apart no faster.
    pub bound_ppm: i64,
    /// True time at the start of the run, as the host serves it; `None` if clocks follow the coordinator.
    pub host_origin_us: Option<i64>,
    /// First guess of the silence that means death.
    pub suspect_after_us: i64,
    /// An idle token rests so long on each hop.
    pub token_rest_us: i64,
    /// Longest delay of a datagram.
    pub delay_max_us: i64,
    /// Share of datagrams that are lost.
    pub loss: f64,
    /// Period of heartbeats.
    pub heartbeat_us: i64,
    /// The one-way delay that elections reckon with; 0 if unknown.
    pub trans_us: i64,
    /// The longest visit that is asked for, if the trace tells.
    pub hold_max_us: Option<i64>,
    /// When the last election was called by order, if one was.
    pub last_elect_us: Option<i64>,
    /// How far true time may be off between two boards, where the stage measured that.
    pub measured_us: Option<i64>,
}

/// The stage's first line in the trace.
#[must_use]
pub fn scenario_event(scenario: &Scenario, stage: &str) -> Event {
    scenario_event_begun(scenario, stage, 0)
}

/// The same, of a stage whose run began at `begun_us` of the trace's true time.
#[must_use]
pub fn scenario_event_begun(scenario: &Scenario, stage: &str, begun_us: i64) -> Event {
    let serves = scenario.clock.source == TimeSource::Host;
    let timing = &scenario.timing;
    let value = json!({
        "name": scenario.name,
        "stage": stage,
        "seed": scenario.seed,
        "ids": scenario.ids,
        "hardening": scenario.hardening,
        "clock": clock_name(scenario.clock.sync),
        "election": election_name(scenario.election.algorithm),
        "detector": detector_name(scenario.election.detector),
        "mutex": mutex_name(&scenario.mutex.algorithm),
        "deadlock": scenario.locks.map_or("none", |locks| strategy_name(locks.strategy)),
        "locks": scenario.names.resources.get(usize::from(scenario.mutex.resources)..).unwrap_or(&[]),
        "by_priority": matches!(scenario.mutex.algorithm, MutexChoice::RicartAgrawala { by_priority: true, .. }),
        "duration_us": scenario.duration.0,
        "lease_us": timing.lease.0,
        "drift_ppm": timing.drift_ppm,
        "host_origin_us": serves.then(|| scenario.tai_begin_us() - begun_us),
        "bound_ppm": scenario.clock.sync.bound_ppm(timing.drift_ppm),
        "suspect_after_us": timing.suspect_after.0,
        "heartbeat_us": timing.heartbeat.0,
        "token_rest_us": timing.token_rest.0,
        "delay_max_us": scenario.network.delay_max.0,
        "loss": scenario.network.loss,
        "trans_us": timing.trans.0,
        "hold_max_us": hold_max_us(scenario),
        "last_elect_us": last_elect_us(scenario),
    });
    match value {
        Value::Object(map) => Event::Scenario(map),
        _ => Event::Scenario(Map::new()),
    }
}

fn hold_max_us(scenario: &Scenario) -> Option<u64> {
    let locks = scenario.steps.iter().filter_map(|step| match step.action {
        Action::Lock { hold, .. } => Some(hold),
        _ => None,
    });
    locks.chain(scenario.mutex.workload.map(|workload| workload.hold)).map(|hold| hold.0).max()
}

fn last_elect_us(scenario: &Scenario) -> Option<u64> {
    let calls = scenario.steps.iter().filter(|step| matches!(step.action, Action::Elect(_)));
    calls.map(|step| step.at.0).max()
}

impl Setting {
    /// What a `scenario` line tells.
    #[must_use]
    pub fn from_line(map: &Map<String, Value>) -> Setting {
        let text = |key: &str| map.get(key).and_then(Value::as_str).map(str::to_owned);
        let number =
            |key: &str, default: i64| map.get(key).and_then(Value::as_i64).unwrap_or(default).clamp(0, SPAN_MAX_US);
        let ids = map
            .get("ids")
            .and_then(Value::as_array)
            .map(|ids| ids.iter().filter_map(|id| id.as_u64().and_then(|id| u16::try_from(id).ok())).collect());
        Setting {
            known: true,
            stage: text("stage").unwrap_or_default(),
            ids: ids.unwrap_or_default(),
            hardening: map.get("hardening").and_then(Value::as_bool).unwrap_or(true),
            clock: text("clock"),
            election: text("election"),
            detector: text("detector"),
            mutex: text("mutex"),
            strategy: text("deadlock").filter(|strategy| strategy != "none"),
            locks: map
                .get("locks")
                .and_then(Value::as_array)
                .map(|names| names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect())
                .unwrap_or_default(),
            by_priority: map.get("by_priority").and_then(Value::as_bool).unwrap_or(false),
            lease_us: number("lease_us", 1_000_000),
            drift_ppm: number("drift_ppm", 200).min(1_000_000),
            bound_ppm: number("bound_ppm", 400).clamp(0, 10_000_000),
            host_origin_us: map.get("host_origin_us").and_then(Value::as_i64),
            suspect_after_us: number("suspect_after_us", 600_000),
            token_rest_us: number("token_rest_us", 20_000),
            delay_max_us: number("delay_max_us", 2_000),
            loss: map.get("loss").and_then(Value::as_f64).unwrap_or(0.0).clamp(0.0, 1.0),
            heartbeat_us: number("heartbeat_us", 100_000),
            trans_us: number("trans_us", 0),
            hold_max_us: map.get("hold_max_us").and_then(Value::as_i64).map(|us| us.clamp(0, SPAN_MAX_US)),
            last_elect_us: map.get("last_elect_us").and_then(Value::as_i64).map(|us| us.clamp(0, SPAN_MAX_US)),
            measured_us: map.get("tolerance_us").and_then(Value::as_i64).map(|us| us.clamp(0, SPAN_MAX_US)),
        }
    }

    /// What is assumed of a trace without a `scenario` line.
    #[must_use]
    pub fn unknown() -> Setting {
        Setting { known: false, ..Setting::from_line(&Map::new()) }
    }

    /// Whether the resource is one that can be locked.
    #[must_use]
    pub fn is_lock(&self, resource: &str) -> bool {
        self.locks.iter().any(|name| name == resource)
    }

    /// True time of two boards compares only this well: as the stage measured it, or as it might be on a busy machine.
    #[must_use]
    pub fn tolerance_us(&self) -> i64 {
        if self.is_exact() { 0 } else { self.measured_us.unwrap_or(UNMEASURED_US) }
    }

    /// True time is exact: it is the stage's own.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.is_simulated() || self.stage == "rp2040"
    }

    /// Nodes take no time to compute.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        self.stage == "sim"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn true_time_is_trusted_as_far_as_it_was_measured() {
        let tolerance_us = |line: Value| match line {
            Value::Object(map) => Setting::from_line(&map).tolerance_us(),
            _ => panic!("no line"),
        };
        assert_eq!(tolerance_us(json!({ "stage": "qemu", "tolerance_us": 13 })), 13);
        assert_eq!(tolerance_us(json!({ "stage": "qemu" })), UNMEASURED_US, "a trace that does not tell");
        assert_eq!(tolerance_us(json!({ "stage": "sim", "tolerance_us": 13 })), 0, "exact in any case");
    }
}
