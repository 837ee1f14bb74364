//! The host collects from real nodes, commands them and is started anew.

mod common;

use common::{Board, Place};
use compasso_checker::{Event, NetworkStats, RunInfo, Summary, TraceEvent, judge};
use compasso_fleet::{collect::Station, perform};
use compasso_wire::NodeId;
use std::{fs, sync::atomic::AtomicBool, time::Duration};

/// What it waits for comes within a second or so; a machine that is very busy takes longer.
const PATIENCE: Duration = Duration::from_secs(60);

trait Judged {
    fn station(&self) -> Station<'_>;
    fn judge(&self, trace: &[TraceEvent]) -> Summary;
}

impl Judged for Place {
    fn station(&self) -> Station<'_> {
        Station::open(&self.fleet, &self.scenario).unwrap()
    }

    fn judge(&self, trace: &[TraceEvent]) -> Summary {
        judge(trace, &RunInfo::new(self.scenario.clone(), "boards", NetworkStats::default()))
    }
}

fn pump_until(station: &mut Station<'_>, what: &str, mut done: impl FnMut(&mut Station<'_>) -> bool) {
    while !done(station) {
        assert!(station.now() < PATIENCE, "never {what}");
        station.pump(Duration::from_millis(20)).unwrap();
    }
}

fn labels(trace: &[TraceEvent]) -> usize {
    trace.iter().filter(|event| matches!(event.event, Event::Label { .. })).count()
}

#[test]
fn a_scenario_is_performed_on_boards_and_judged() {
    let place = Place::new();
    let _boards: Vec<Board> = (0..3).map(|position| place.switch_on(position, 5)).collect();
    let performed =
        perform::perform(&place.fleet, &place.scenario, place.station(), &AtomicBool::new(false), &mut |_| {}).unwrap();
    let summary = place.judge(&performed.trace);
    assert_eq!((performed.overdue, performed.rebooted), (None, Vec::new()));
    assert!(summary.violations.is_empty(), "{:#?}", summary.violations);
    assert!(summary.expectations.iter().all(|expectation| expectation.ok), "{:#?}", summary.expectations);
    assert_eq!(labels(&performed.trace), 1);
    assert!(performed.trace.iter().any(|event| matches!(event.event, Event::Snapshot { .. })));
    assert!(performed.trace.iter().all(|event| event.node_id().is_none() || event.true_us.is_none()));
}

#[test]
fn a_host_that_is_started_anew_goes_on_where_the_earlier_one_ended() {
    let place = Place::new();
    let mut boards: Vec<Board> = (0..3).map(|position| place.switch_on(position, 5)).collect();
    let label = compasso_wire::message::Command::Label { label: 0 };
    let mut traces = Vec::new();
    let mut lives = Vec::new();
    for _host in 0..2 {
        let mut station = place.station();
        let stored = fs::read_to_string(place.path("cluster.key.counter")).unwrap();
        lives.push(stored.trim().parse::<u32>().unwrap());
        pump_until(&mut station, "heard all boards", |station| station.talking().len() == 3);
        station.command(2, label);
        pump_until(&mut station, "obeyed", |station| station.host().is_obeyed(NodeId(2)));
        let enough = station.events() + 300;
        pump_until(&mut station, "collected enough", |station| station.events() > enough);
        traces.push(station.finish(&place.scenario, false));
    }
    assert!(lives[1] > lives[0], "each host has a life of its own");
    for trace in &traces {
        assert_eq!(labels(trace), 1, "each host's command is carried out once");
        let summary = place.judge(trace);
        assert!(summary.violations.is_empty(), "{:#?}", summary.violations);
    }
    let seqs = |trace: &[TraceEvent]| -> Vec<u64> {
        trace.iter().filter(|event| event.node_id() == Some(4)).map(|event| event.seq).collect()
    };
    let (earlier, later) = (seqs(&traces[0]), seqs(&traces[1]));
    assert_eq!(earlier[0], 1, "the first host hears a life from its beginning");
    assert!(later[0] > earlier[earlier.len() - 1], "the second only what the first has not taken");

    // A board is unplugged, and plugged in again, while a third host listens.
    let mut station = place.station();
    pump_until(&mut station, "heard all boards", |station| station.talking().len() == 3);
    boards.remove(1);
    boards.insert(1, place.switch_on(1, 6));
    pump_until(&mut station, "heard the new life", |station| station.has_booted(2, 6));
    let enough = station.events() + 300;
    pump_until(&mut station, "collected enough", |station| station.events() > enough);
    assert!(station.lives().contains(&(2, 5)) && station.lives().contains(&(2, 6)));
    let trace = station.finish(&place.scenario, false);
    let summary = place.judge(&trace);
    assert!(summary.violations.is_empty(), "{:#?}", summary.violations);
}
