//! The task that drives a node: socket ⇄ node ⇄ timer, in the order that the node's documentation
//! asks. The network stack is a task of its own, spawned by the board: a socket wakes the stack
//! whenever it is asked for a datagram, so that both in one task would never sleep.

use crate::{
    Board, log, now,
    outbox::Outbox,
    ring::Ring,
    signals::{Signals, signals},
    stamps::Stamps,
};
use compasso_node::{Effect, Input, Node};
use compasso_wire::{
    Instant, NodeConfig, NodeId, address,
    limits::{DATAGRAM_MAX, TELEMETRY_MAX, UDP_PAYLOAD_MAX},
    message::Telemetry,
};
use core::net::Ipv4Addr;
use embassy_futures::{
    select::{Either, select},
    yield_now,
};
use embassy_net::{
    Config, Ipv4Cidr, Stack, StaticConfigV4,
    udp::{PacketMetadata, UdpSocket},
};
use embassy_time::{Duration, Timer, with_timeout};

/// So many of the largest datagrams wait in each direction.
pub const DATAGRAMS_QUEUED: usize = 16;

/// So many datagrams wait in each direction, however small.
pub const PACKETS_QUEUED: usize = 64;

/// How many sockets the network stack must have room for.
pub const SOCKETS_MAX: usize = 1;

/// A datagram that finds the queue full for so long is dropped, as the network might have done.
const SEND_PATIENCE: Duration = Duration::from_millis(20);

/// The temperature is taken so often: crystals follow it within minutes.
const TEMPERATURE_EVERY: compasso_wire::Duration = compasso_wire::Duration::from_millis(10_000);

const QUEUE_LEN: usize = DATAGRAMS_QUEUED * DATAGRAM_MAX;

/// The memory that [`run`] works in. All zeros, so that the image does not carry it.
pub struct Buffers {
    received: [u8; QUEUE_LEN],
    sending: [u8; QUEUE_LEN],
    /// Larger than any datagram of ours: an oversized one is refused by name.
    incoming: [u8; UDP_PAYLOAD_MAX],
    outgoing: [u8; DATAGRAM_MAX],
    records: [u8; TELEMETRY_MAX],
}

impl Buffers {
    /// Empty buffers.
    #[must_use]
    pub const fn new() -> Buffers {
        Buffers {
            received: [0; QUEUE_LEN],
            sending: [0; QUEUE_LEN],
            incoming: [0; UDP_PAYLOAD_MAX],
            outgoing: [0; DATAGRAM_MAX],
            records: [0; TELEMETRY_MAX],
        }
    }
}

impl Default for Buffers {
    fn default() -> Buffers {
        Buffers::new()
    }
}

/// The network configuration of the board with this address.
#[must_use]
pub fn network_config(ipv4: [u8; 4]) -> Config {
    Config::ipv4_static(StaticConfigV4 {
        address: Ipv4Cidr::new(Ipv4Addr::from(ipv4), address::PREFIX_LEN),
        gateway: None,
        dns_servers: Default::default(),
    })
}

/// Drives the node for ever.
pub async fn run<B: Board, const N: usize>(
    node: &mut Node,
    config: &NodeConfig,
    stack: Stack<'_>,
    stamps: &Stamps,
    board: &mut B,
    ring: &Ring<N>,
    buffers: &mut Buffers,
) -> ! {
    ring.open();
    node.blur_stamps(B::STAMPS_BLURRED_US);
    let mut received = [PacketMetadata::EMPTY; PACKETS_QUEUED];
    let mut sending = [PacketMetadata::EMPTY; PACKETS_QUEUED];
    let mut socket = UdpSocket::new(stack, &mut received, &mut buffers.received, &mut sending, &mut buffers.sending);
    assert!(socket.bind(address::PORT).is_ok(), "the only socket finds its port free");
    let mut drive = Drive {
        node,
        members: &config.members,
        socket: &socket,
        stamps,
        board,
        told: now(),
        shown: Signals::default(),
        show_at: None,
        sense_at: Some(now()),
        outbox: Outbox::new(ring),
        outgoing: &mut buffers.outgoing,
        records: &mut buffers.records,
    };
    drive.run(&mut buffers.incoming).await
}

struct Drive<'a, B, const N: usize> {
    node: &'a mut Node,
    members: &'a [NodeId],
    socket: &'a UdpSocket<'a>,
    stamps: &'a Stamps,
    board: &'a mut B,
    /// The latest time that the node was told.
    told: Instant,
    shown: Signals,
    /// When what is shown changes by itself.
    show_at: Option<Instant>,
    /// When the temperature is taken; never without a sensor.
    sense_at: Option<Instant>,
    outbox: Outbox<'a, N>,
    outgoing: &'a mut [u8; DATAGRAM_MAX],
    records: &'a mut [u8; TELEMETRY_MAX],
}

impl<B: Board, const N: usize> Drive<'_, B, N> {
    async fn run(&mut self, incoming: &mut [u8]) -> ! {
        self.drain().await; // The boot itself is an event.
        let mut due = self.due();
        loop {
            let woken = select(self.socket.recv_from(incoming), sleep_until(self.next_deadline(due))).await;
            // Before the answer is handled: it is worth more if the question's departure is known.
            self.tell_departures();
            match woken {
                Either::First(Ok((length, _))) => {
                    let datagram = incoming.get(..length).unwrap_or(&[]);
                    // A node's time does not run backwards: what arrived while it was at work
                    // arrived, to the node, when that was done.
                    let arrived = self.stamps.take(datagram).map(|at| at.max(self.told));
                    self.told = arrived.unwrap_or(now());
                    self.node.handle(self.told, Input::Datagram(datagram));
                    self.show();
                    self.drain().await;
                    due = self.due();
                }
                // Nothing that fits a frame is longer than the buffer.
                Either::First(Err(_)) | Either::Second(()) => {}
            }
            if self.sense_at.is_some_and(|at| at <= now()) {
                self.sense().await;
                due = self.due();
            }
            // Asked after datagrams too: a flood of them must not stop the clock.
            if due.is_some_and(|at| at <= now()) {
                self.told = now();
                self.node.handle(self.told, Input::Timeout);
                self.show();
                self.drain().await;
                due = self.due();
            }
            if self.show_at.is_some_and(|at| at <= now()) {
                self.show();
            }
            self.send_batch().await;
        }
    }

    /// When the node has something to do. Asking costs it a look at everything that it waits for.
    fn due(&self) -> Option<Instant> {
        self.node.poll_timeout().map(|(at, _why)| at)
    }

    fn next_deadline(&self, due: Option<Instant>) -> Option<Instant> {
        due.into_iter().chain(self.outbox.poll_timeout()).chain(self.show_at).chain(self.sense_at).min()
    }

    /// Before anything is sent: whoever learns that we left must not see us inside.
    fn show(&mut self) {
        let node = &*self.node;
        let (shown, next) = signals(node.cluster_time(now()), node.names_itself(), node.is_inside());
        self.show_at = next.and_then(|time| node.cluster_when(time));
        if shown != self.shown {
            self.shown = shown;
            self.board.show(shown);
        }
    }

    async fn sense(&mut self) {
        let measured = self.board.milli_celsius();
        self.sense_at = measured.map(|_| now() + TEMPERATURE_EVERY);
        if let Some(milli_celsius) = measured {
            self.told = now();
            self.node.handle(self.told, Input::Temperature { milli_celsius });
            self.drain().await;
        }
    }

    async fn drain(&mut self) {
        while let Some(effect) = self.node.poll_effect() {
            match effect {
                Effect::Store => self.board.store(self.node.stored()),
                Effect::SetRate { ppb } => self.board.set_rate_ppb(ppb),
                Effect::TelemetryAcknowledged { next } => self.outbox.acknowledged(now(), next),
            }
        }
        report(self.node, &mut self.outbox);
        self.told = now();
        while let Some(transmit) = self.node.poll_transmit(self.told, self.outgoing) {
            // Recorded before it leaves: a power cut in between must not hide a send from the trace.
            report(self.node, &mut self.outbox);
            send(self.socket, self.members, transmit.to, transmit.datagram).await;
            self.tell_departures();
            self.told = now();
        }
    }

    /// Says what has left. Some devices take a while, and tell it later.
    fn tell_departures(&mut self) {
        while let Some((tag, at)) = self.stamps.poll_left() {
            self.node.handle_departure(tag, at);
        }
    }

    /// One batch at most: datagrams from the other nodes come first.
    async fn send_batch(&mut self) {
        let Some(batch) = self.outbox.poll_batch(now(), self.records) else { return };
        let clocks = self.board.clocks();
        let telemetry = Telemetry {
            first: batch.first,
            count: batch.count,
            missed: self.outbox.missed(),
            hw: clocks.hw,
            raw_ns: clocks.raw_ns,
            rate_ppb: self.board.rate_ppb(),
            records: batch.records,
        };
        let transmit = self.node.seal_telemetry(telemetry, self.outgoing);
        send(self.socket, self.members, transmit.to, transmit.datagram).await;
    }
}

fn report<const N: usize>(node: &mut Node, outbox: &mut Outbox<'_, N>) {
    while let Some(observation) = node.poll_observation() {
        outbox.record(now(), &observation);
        log::line(&observation);
    }
}

async fn send(socket: &UdpSocket<'_>, members: &[NodeId], to: NodeId, datagram: &[u8]) {
    // The node speaks only to members and the host.
    let Some(ipv4) = address::ipv4(members, to) else { return };
    let destination = (Ipv4Addr::from(ipv4), address::PORT);
    // Whatever goes wrong is a datagram lost, and the node lives with those.
    let _ = with_timeout(SEND_PATIENCE, socket.send_to(datagram, destination)).await;
    // The network takes its turn, so that the datagram leaves before the next one is stamped.
    // Twice, because the executor may poll this task first of the two that are now awake.
    yield_now().await;
    yield_now().await;
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(at) => Timer::at(embassy_time::Instant::from_micros(at.0)).await,
        None => core::future::pending().await,
    }
}

// A queue for fewer packets than of the largest size would waste what it has.
const _: () = assert!(PACKETS_QUEUED >= DATAGRAMS_QUEUED);
const _: () = assert!(UDP_PAYLOAD_MAX > DATAGRAM_MAX || compasso_wire::limits::MEMBERS_MAX > 64);
