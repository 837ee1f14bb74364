//! The scripts, and what they print: one line a name, `name times least most`, and `end` at the end.

mod cluster;
mod console;
mod counter;
mod pieces;
mod servo;
mod stack;
mod tally;

use crate::semihosting;
use cluster::{CLUSTER, Cluster, KEY, NODES, Piece, Room, header, id};
use compasso_algorithms::time::Disciplined;
use compasso_node::Node;
use compasso_wire::{
    Body, Duration, Fence, Header, Instant, NodeId, NodeSet, Payload, ResourceId, Term, Vector, VectorEntry,
    config::MutexChoice,
    limits::{DATAGRAM_MAX, MEMBERS_MAX, TELEMETRY_MAX, TURNS_MAX},
    message::{Command, Heartbeat, MutexMessage, Telemetry},
    open, seal,
};
use console::Console;
use core::{fmt::Write, panic::PanicInfo};
use cortex_m_rt::{ExceptionFrame, entry, exception};
use counter::Counter;
use static_cell::ConstStaticCell;
use tally::Tally;

/// Exit statuses, as the boards' own image uses them.
const PANIC: u32 = 101;
const FAULT: u32 = 102;
const NOT_COUNTED: u32 = 104;

const SECOND_US: u64 = 1_000_000;
const RESOURCE: ResourceId = ResourceId(0);
const LOCK: Command = Command::Lock { resource: RESOURCE, hold: Duration::from_millis(30), lamport: None };

static ROOM: ConstStaticCell<Room> = ConstStaticCell::new(Room::new());
static BUFFER: ConstStaticCell<[u8; DATAGRAM_MAX]> = ConstStaticCell::new([0; DATAGRAM_MAX]);

#[entry]
fn start() -> ! {
    cortex_m::interrupt::disable(); // Nothing but the script runs.
    let Some(counter) = Counter::new() else {
        let _ = Console.write_str("time does not pass by instructions: run this with -icount shift=7,sleep=off\n");
        semihosting::exit(NOT_COUNTED)
    };
    let (room, buffer) = (ROOM.take(), BUFFER.take());
    let mut stacks = Stacks { boot: 0, work: 0 };
    protocol(room, &counter, buffer, &mut stacks);
    for piece in pieces::all() {
        perform(room, &counter, &piece, &mut stacks);
    }
    let cost = servo::count(&counter);
    print("clock.exchange_usual", 1, cost.usual, cost.usual);
    print("clock.exchange_dearest", 1, cost.dearest, cost.dearest);
    print("clock.interval", 1, cost.read, cost.read);
    let size = size_of::<Disciplined>() as u64;
    print("clock.size", 1, size, size);
    print("node.size", 1, size_of::<Node>() as u64, size_of::<Node>() as u64);
    print("node.boot_stack", 1, stacks.boot as u64, stacks.boot as u64);
    print("node.work_stack", 1, stacks.work as u64, stacks.work as u64);
    let _ = Console.write_str("end\n");
    semihosting::exit(0)
}

/// The deepest of all performances.
struct Stacks {
    boot: usize,
    work: usize,
}

impl Stacks {
    fn note(&mut self, cluster: &Cluster<'_>) {
        self.boot = self.boot.max(cluster.boot_stack);
        self.work = self.work.max(cluster.work_stack());
    }
}

/// Everything that a node handles and makes but for the algorithms that compete for a place.
#[inline(never)]
fn protocol(room: &mut Room, counter: &Counter, buffer: &mut [u8; DATAGRAM_MAX], stacks: &mut Stacks) {
    let mut cluster = Cluster::boot(room, counter, &pieces::PROTOCOL);
    live(&mut cluster);
    stacks.note(&cluster);
    attack(&mut cluster, buffer);
    report(&mut cluster, buffer);
    codec(&mut cluster, buffer);
    print_all(&cluster.tally);
}

/// One algorithm at work: elections by one, by two and by all at once, or turns that everybody wants.
#[inline(never)]
fn perform(room: &mut Room, counter: &Counter, piece: &Piece, stacks: &mut Stacks) {
    let mut cluster = Cluster::boot(room, counter, piece);
    for round in 0..NODES {
        cluster.run_until(2 * SECOND_US + round as u64 * SECOND_US / 2);
        for node in 0..=round {
            match (&piece.mutex, piece.workload) {
                (MutexChoice::None, _) => cluster.command(node, Command::Elect),
                (_, None) if node == round => cluster.command(node, LOCK),
                (_, Some(_) | None) => {}
            }
        }
    }
    cluster.run_until(4 * SECOND_US);
    stacks.note(&cluster);
    print_all(&cluster.tally);
}

fn print_all(tally: &Tally) {
    for entry in tally.entries() {
        let _ = write!(Console, "{}.", entry.what); // The console takes everything.
        print(entry.kind, entry.times, entry.least, entry.most);
    }
}

/// From boot over an election to a cluster that takes turns, loses its token and elects again: every
/// message of the protocol occurs.
fn live(cluster: &mut Cluster<'_>) {
    let mut next = [0; NODES];
    let mut command = |cluster: &mut Cluster<'_>, node: usize, command: Command| {
        if let Some(next) = next.get_mut(node) {
            cluster.send_from_host(id(node), &Body::Command { index: *next, command });
            *next += 1;
        }
    };
    cluster.run_until(2 * SECOND_US);
    for node in 0..NODES {
        // Who knocks is asked to prove itself.
        cluster.send_from_host(id(node), &Body::TelemetryAck { next: 0 });
    }
    cluster.run_until(2 * SECOND_US + SECOND_US / 10);
    for node in 0..NODES {
        cluster.send_from_host(id(node), &Body::TelemetryAck { next: 0 });
        command(cluster, node, LOCK);
    }
    cluster.run_until(3 * SECOND_US);
    command(cluster, 0, Command::DropToken);
    cluster.run_until(7 * SECOND_US);
    command(cluster, 0, Command::Elect);
    cluster.run_until(8 * SECOND_US);
}

/// What strangers and forgers cost.
fn attack(cluster: &mut Cluster<'_>, buffer: &mut [u8; DATAGRAM_MAX]) {
    let forged_len = seal(&KEY, &header(id(1), 1_000_000), id(0), &token(), buffer).len();
    if let Some(last) = buffer.get_mut(forged_len - 1) {
        *last ^= 1;
    }
    cluster.inject(id(0), "forged", buffer.get(..forged_len).unwrap_or(&[]));
    let stranger = seal(&KEY, &header(NodeId(99), 1), id(0), &token(), buffer);
    cluster.inject(id(0), "stranger", stranger);
}

/// What a full batch for the collector costs.
fn report(cluster: &mut Cluster<'_>, buffer: &mut [u8; DATAGRAM_MAX]) {
    let records = &[0x55; TELEMETRY_MAX];
    let batch = Telemetry { first: 1000, count: 20, missed: 0, hw: Instant(1), raw_ns: 1000, rate_ppb: 0, records };
    cluster.count("make", "telemetry", |node| node.seal_telemetry(batch, buffer).datagram.len());
}

/// What the codec and the authentication cost alone: for a small message and for the largest.
fn codec(cluster: &mut Cluster<'_>, buffer: &mut [u8; DATAGRAM_MAX]) {
    let entry = VectorEntry { incarnation: 3, count: 100_000 };
    let vector = |count: usize| Vector((0..count).map(|_| entry).collect());
    let small = Header { lamport: 10_000, vector: vector(NODES), ..header(id(1), 10_000) };
    let most = VectorEntry { incarnation: u32::MAX, count: u32::MAX };
    let large = Header {
        incarnation: u32::MAX,
        sequence: u32::MAX,
        lamport: u64::MAX,
        vector: Vector((0..MEMBERS_MAX).map(|_| most).collect()),
        ..header(id(1), 0)
    };
    for (seal_name, open_name, header, body) in
        [("seal_token", "open_token", small, token()), ("seal_largest", "open_largest", large, largest())]
    {
        let written = cluster.count("codec", seal_name, |_| seal(&KEY, &header, id(0), &body, buffer).len());
        let datagram = written.and_then(|length| buffer.get(..length)).unwrap_or(&[]);
        let opened = cluster.count("codec", open_name, |_| open(&KEY, CLUSTER, id(0), |_| true, datagram).is_ok());
        assert!(opened == Some(true), "what was sealed opens");
    }
}

fn token() -> Body<'static> {
    let payload = Payload::Mutex { resource: RESOURCE, epoch: 1, message: MutexMessage::Token { serial: 1000 } };
    Body::Ordered { life: 1, index: 1000, floor: 1000, payload }
}

fn largest() -> Body<'static> {
    Body::Heartbeat(Heartbeat {
        term: Term(u64::MAX),
        view: u32::MAX,
        epoch: u32::MAX,
        members: NodeSet::first(MEMBERS_MAX),
        installed: true,
        sent: Instant(u64::MAX),
        lease: Some(Instant(u64::MAX)),
        life: u32::MAX,
        has_time: true,
        fences: (0..TURNS_MAX).map(|_| Fence(u64::MAX)).collect(),
    })
}

fn print(name: &str, times: u32, least: u64, most: u64) {
    let _ = writeln!(Console, "{name} {times} {least} {most}"); // The console takes everything.
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    let _ = writeln!(Console, "{info}"); // The exit status tells, too.
    semihosting::exit(PANIC)
}

// SAFETY: it does not return.
#[exception]
unsafe fn HardFault(frame: &ExceptionFrame) -> ! {
    let _ = writeln!(Console, "fault at {:#x}, called from {:#x}", frame.pc(), frame.lr());
    semihosting::exit(FAULT)
}
