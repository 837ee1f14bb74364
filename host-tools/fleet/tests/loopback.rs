//! Real nodes with the boards' own outbox, each on a socket of its own on this machine, and the host that
//! collects from them, commands them and is started anew.

use compasso_checker::{Event, NetworkStats, RunInfo, Summary, TraceEvent, judge};
use compasso_fleet::{Fleet, collect::Station, create_key, pages, perform};
use compasso_node::{Effect, Input, Node};
use compasso_runtime::{outbox::Outbox, ring::Ring};
use compasso_scenario::Scenario;
use compasso_wire::{
    Instant, NodeConfig, NodeId,
    limits::{DATAGRAM_MAX, TELEMETRY_MAX},
    message::Telemetry,
};
use std::{
    fs,
    net::{SocketAddr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{self, Duration},
};

const SCENARIO: &str = r#"name = "loopback"
ids = [4, 2, 9]
duration = "3s"
[clock]
sync = "cristian"
[election]
algorithm = "bully"
[mutex]
algorithm = "token-ring"
workload = { every = "30ms", hold = "1ms" }
[[step]]
at = "1s"
event = { node = 2, label = "hello" }
[[step]]
at = "2s"
snapshot = 9
[expect]
leader = 9
violations = 0
entries_each_min = 3
"#;

/// What it waits for comes within a second or so; a machine that is very busy takes longer.
const PATIENCE: Duration = Duration::from_secs(60);

struct Place {
    _folder: tempfile::TempDir,
    fleet: Fleet,
    scenario: Scenario,
    sockets: Vec<UdpSocket>,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        create_key(&folder.path().join("cluster.key")).unwrap();
        let scenario = Scenario::parse(SCENARIO, "loopback.toml").unwrap();
        let sockets: Vec<UdpSocket> = scenario.ids.iter().map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
        let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut text = format!("cluster = 7\nkey = \"cluster.key\"\n[host]\nbind = \"{free}\"\n");
        for (id, socket) in scenario.ids.iter().zip(&sockets) {
            let at = socket.local_addr().unwrap();
            text += &format!("[[board]]\nnode = {id}\nimage = \"w5500-evb-pico\"\naddress = \"{at}\"\n");
        }
        fs::write(folder.path().join("fleet.toml"), text).unwrap();
        let fleet = Fleet::load(&folder.path().join("fleet.toml")).unwrap();
        Place { _folder: folder, fleet, scenario, sockets }
    }

    /// Switches the board at `position` on, in this life, with the page it was given.
    fn switch_on(&self, position: usize, incarnation: u32) -> Board {
        let board = &self.fleet.boards[position];
        let sector = pages::sector(&self.fleet, board, &self.scenario, 1);
        let mut config = compasso_wire::flash::page::read([&sector[..], &[]]).unwrap();
        config.incarnation = incarnation;
        let socket = self.sockets[position].try_clone().unwrap();
        let places = self.fleet.boards.iter().map(|board| (NodeId(board.node), board.address));
        let places: Vec<_> = places.chain([(NodeId::HOST, self.fleet.bind)]).collect();
        let off = Arc::new(AtomicBool::new(false));
        let is_off = Arc::clone(&off);
        let thread = thread::Builder::new().stack_size(8 << 20);
        Board { off, thread: Some(thread.spawn(move || live(&config, &socket, &places, &is_off)).unwrap()) }
    }

    fn station(&self) -> Station<'_> {
        Station::open(&self.fleet, &self.scenario).unwrap()
    }

    fn judge(&self, trace: &[TraceEvent]) -> Summary {
        judge(trace, &RunInfo::new(self.scenario.clone(), "boards", NetworkStats::default()))
    }
}

struct Board {
    off: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Board {
    fn drop(&mut self) {
        self.off.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// The driver of a board, on this machine's sockets and clock.
fn live(config: &NodeConfig, socket: &UdpSocket, places: &[(NodeId, SocketAddr)], off: &AtomicBool) {
    let started = time::Instant::now();
    let now = || Instant(started.elapsed().as_micros() as u64);
    let ring = Box::new(Ring::<32768>::new());
    ring.open();
    let mut outbox = Outbox::new(&ring);
    let mut node = Box::new(Node::new(config, now()));
    node.start(now());
    let send = |to: NodeId, datagram: &[u8]| {
        let (_, at) = places.iter().find(|(id, _)| *id == to).unwrap();
        let _ = socket.send_to(datagram, at);
    };
    let (mut incoming, mut outgoing) = ([0; 2048], [0; DATAGRAM_MAX]);
    let mut records = [0; TELEMETRY_MAX];
    while !off.load(Ordering::Relaxed) {
        while let Some(effect) = node.poll_effect() {
            if let Effect::TelemetryAcknowledged { next } = effect {
                outbox.acknowledged(now(), next);
            }
        }
        loop {
            let transmit = node.poll_transmit(now(), &mut outgoing).map(|sent| (sent.to, sent.datagram.len()));
            while let Some(observation) = node.poll_observation() {
                outbox.record(now(), &observation);
            }
            let Some((to, length)) = transmit else { break };
            send(to, &outgoing[..length]);
        }
        if let Some(batch) = outbox.poll_batch(now(), &mut records) {
            let (first, count, records) = (batch.first, batch.count, batch.records);
            let (hw, missed) = (now(), outbox.missed());
            let telemetry = Telemetry { first, count, missed, hw, raw_ns: hw.0 * 1000, rate_ppb: 0, records };
            send(NodeId::HOST, node.seal_telemetry(telemetry, &mut outgoing).datagram);
        }
        socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        match socket.recv_from(&mut incoming) {
            Ok((length, _)) => node.handle(now(), Input::Datagram(&incoming[..length])),
            Err(_) => node.handle(now(), Input::Timeout),
        }
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
    for _host in 0..2 {
        let mut station = place.station();
        pump_until(&mut station, "heard all boards", |station| station.talking().len() == 3);
        station.command(2, label);
        pump_until(&mut station, "obeyed", |station| station.host().is_obeyed(NodeId(2)));
        let enough = station.events() + 300;
        pump_until(&mut station, "collected enough", |station| station.events() > enough);
        traces.push(station.finish(&place.scenario, false));
    }
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
