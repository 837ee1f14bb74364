//! Real nodes with the boards' own outbox, each on a socket of its own on this machine.

use compasso_fleet::{Fleet, create_key, pages};
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
    path::PathBuf,
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

/// A fleet on this machine.
pub struct Place {
    folder: tempfile::TempDir,
    /// Its boards.
    pub fleet: Fleet,
    /// What they perform.
    pub scenario: Scenario,
    sockets: Vec<UdpSocket>,
}

impl Place {
    /// Everybody has a free port.
    pub fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        create_key(&folder.path().join("cluster.key")).unwrap();
        let scenario = Scenario::parse(SCENARIO, "loopback.toml").unwrap();
        let sockets: Vec<UdpSocket> = scenario.ids.iter().map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
        let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut text =
            format!("cluster = 7\nkey = \"cluster.key\"\nscenario = \"loopback.toml\"\n[host]\nbind = \"{free}\"\n");
        for (id, socket) in scenario.ids.iter().zip(&sockets) {
            let at = socket.local_addr().unwrap();
            text += &format!("[[board]]\nnode = {id}\nimage = \"w5500-evb-pico\"\naddress = \"{at}\"\n");
        }
        fs::write(folder.path().join("fleet.toml"), text).unwrap();
        fs::write(folder.path().join("loopback.toml"), SCENARIO).unwrap();
        let fleet = Fleet::load(&folder.path().join("fleet.toml")).unwrap();
        Place { folder, fleet, scenario, sockets }
    }

    /// A file of its folder: fleet.toml, loopback.toml, cluster.key.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Switches the board at `position` on, in this life, with the page it was given.
    #[must_use]
    pub fn switch_on(&self, position: usize, incarnation: u32) -> Board {
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
}

/// A board that is on until it is dropped.
pub struct Board {
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
