//! How near to the wire the boards take their stamps. Two boards keep time by each other; whoever asks says
//! when it asked, and whoever answers says when the question arrived and when it sent the answer. What
//! the network knows is when the frames were really there.

mod common;

use compasso_rp2040::{board::Board, bus::CYCLES_PER_US, device::Device, image::Image};
use compasso_scenario::Scenario;
use compasso_stage::{frame, setup::BoardKind};
use compasso_wire::{
    Body, Key, NodeConfig, NodeId,
    flash::{PAGES_AT, SECTOR_LEN, page},
};
use std::{collections::BTreeMap, fs};

const KEY: Key = Key([5; 16]);
const SCENARIO: &str = r#"
    name = "stamps"
    nodes = 2
    seed = 1
    duration = "8s"
    [clock]
    sync = "disciplined"
    [election]
    algorithm = "bully"
"#;
const SECONDS: u64 = 8;
/// Boards are run in turn for so long; a frame takes as long to the other one.
const TURN: u64 = 50 * CYCLES_PER_US;

/// What lies between a stamp and the wire, in microseconds, of every exchange.
#[derive(Default)]
struct Measured {
    /// From the end of a question on the wire to its receive stamp.
    receiving: Vec<i64>,
    /// From the transmit stamp of an answer to its end on the wire.
    sending: Vec<i64>,
    /// From when an answer leaves, as it says itself, to its end on the wire.
    told: Vec<i64>,
}

fn boards(kind: BoardKind) -> [Board; 2] {
    let path = common::image_of(kind);
    let image = Image::read(kind, &path, &fs::read(&path).unwrap()).unwrap();
    let scenario = Scenario::parse(SCENARIO, "test.toml").unwrap();
    [0, 1].map(|id| {
        let config: NodeConfig = scenario.node_config(id, 1, Default::default(), KEY);
        let mut sector = [0; SECTOR_LEN];
        page::encode(&config, 1, &mut sector);
        let mut flash = image.flash();
        PAGES_AT.into_iter().for_each(|at| flash.load(at, &sector));
        Board::new(&image, flash, 1 + u64::from(id))
    })
}

/// The message in a frame to the other board.
fn read(from: usize, packet: &[u8], f: impl FnOnce(&Body<'_>)) {
    let scenario = Scenario::parse(SCENARIO, "test.toml").unwrap();
    let cluster = scenario.node_config(0, 1, Default::default(), KEY).cluster;
    let to = NodeId(1 - from as u16);
    if frame::destination(packet, 2) != frame::Destination::Member(usize::from(to.0)) {
        return;
    }
    let length = usize::from(u16::from_be_bytes([packet[38], packet[39]]));
    let datagram = &packet[42..34 + length];
    let opened = compasso_wire::open(&KEY, cluster, to, |id| id.0 == from as u16, datagram).expect("of our cluster");
    f(&opened.body);
}

/// When the last frame was with the board, all of it.
fn arrived(board: &Board, given: u64) -> u64 {
    match board.bus().device() {
        Device::Usb(usb) => usb.host().traffic().delivered().filter(|at| *at >= given).unwrap_or(u64::MAX),
        Device::W5500(_) | Device::Cyw43(_) => given,
    }
}

fn measure(kind: BoardKind) -> Measured {
    let mut boards = boards(kind);
    let mut measured = Measured::default();
    // Questions by the board that gets them and the stamp that they carry: when they arrived.
    let mut questions: BTreeMap<(usize, u64), u64> = BTreeMap::new();
    let mut given: [Vec<(u64, Option<u64>)>; 2] = Default::default();
    for turn in 1..SECONDS * 1_000_000 * CYCLES_PER_US / TURN {
        for from in 0..2 {
            boards[from].run(turn * TURN);
            assert_eq!(boards[from].end(), None);
            let left: Vec<_> = boards[from].bus_mut().departed.drain(..).collect();
            for (at, packet) in left {
                let mut asked = None;
                read(from, &packet, |body| match body {
                    Body::TimeRequest { sent } => asked = Some(sent.0),
                    Body::TimeReply { echo, handling_us, sent, leaves_us, .. } => {
                        let after_us = (at / CYCLES_PER_US) as i64 - sent.0 as i64;
                        measured.sending.push(after_us);
                        if *leaves_us > 0 {
                            measured.told.push(after_us - i64::from(*leaves_us));
                        }
                        let received = sent.0 as i64 - i64::from(*handling_us);
                        if let Some(arrived) = questions.get(&(from, echo.0)) {
                            measured.receiving.push(received - (arrived / CYCLES_PER_US) as i64);
                        }
                    }
                    _ => {}
                });
                let to = 1 - from;
                let now = (turn + 1) * TURN;
                boards[to].run(now);
                boards[to].receive(&packet);
                given[to].push((now, asked));
            }
        }
        for (to, given) in given.iter_mut().enumerate() {
            // Only a frame that travels alone is known to be the one that arrived.
            if given.len() > 1 {
                given.clear();
            }
            if let [(now, asked)] = given[..] {
                let at = arrived(&boards[to], now);
                if at != u64::MAX {
                    questions.extend(asked.map(|sent| ((to, sent), at)));
                    given.clear();
                }
            }
        }
    }
    measured
}

fn report(kind: BoardKind, what: &str, values: &mut [i64]) -> (i64, i64) {
    values.sort_unstable();
    let at = |part: usize| values[(values.len() - 1) * part / 100];
    eprintln!(
        "{}, {what}: {} µs (least {}, p90 {}, most {}; {} exchanges)",
        kind.image(),
        at(50),
        at(0),
        at(90),
        at(100),
        values.len()
    );
    assert!(values.len() > 10, "{} exchanges", values.len());
    (at(0), at(90))
}

#[test]
fn no_stamp_is_early_and_what_boards_tell_is_near_the_wire() {
    for kind in [BoardKind::W5500EvbPico, BoardKind::PicoUsb] {
        let mut measured = measure(kind);
        let (least, most) = report(kind, "from the end of the frame to the receive stamp", &mut measured.receiving);
        assert!(least >= 0, "{}: a stamp before its frame", kind.image());
        assert!(most < 30, "{}: {most} µs behind the frame", kind.image());
        let (least, _) = report(kind, "from the transmit stamp to the end of the frame", &mut measured.sending);
        assert!(least > 0, "{}: a frame before its stamp", kind.image());
        match kind {
            BoardKind::PicoUsb => assert!(measured.told.is_empty(), "its controller tells nothing of departures"),
            _ => {
                let what = "from when an answer says that it leaves to the end of the frame";
                let (least, most) = report(kind, what, &mut measured.told);
                assert!(least > 0, "{}: an answer that leaves before it says so", kind.image());
                assert!(most < 40, "{}: {most} µs before the end of the frame", kind.image());
            }
        }
    }
}
