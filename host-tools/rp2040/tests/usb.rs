//! A Pico on a USB cable: the exact image, its controller, and a host that asks what Linux asks.

mod common;

use compasso_rp2040::{
    board::Board,
    bus::CYCLES_PER_US,
    device::Device,
    image::Image,
    usb::{
        host::Host,
        ntb::{self, Parameters},
    },
};
use compasso_stage::setup::BoardKind;
use compasso_wire::{
    Key, NodeConfig, NodeId, address,
    flash::{PAGES_AT, SECTOR_LEN, page},
};
use std::fs;

const MS: u64 = 1000 * CYCLES_PER_US;
/// A host and a board find each other within this time.
const MEETING: u64 = 1000;
/// A host that refuses to hear of several frames in a block would send them all the same.
const SEVERAL: Parameters =
    Parameters { in_max: 2048, out_max: 2048, out_divisor: 4, out_remainder: 0, out_alignment: 4, out_frames: 0 };

/// One board and its host.
struct Bench(Board);

impl Bench {
    fn new(image: &Image, seed: u64) -> Bench {
        let config =
            NodeConfig { incarnation: 1, ..NodeConfig::new(7, Key([5; 16]), NodeId(1), [NodeId(1), NodeId(2)]) };
        let mut sector = [0; SECTOR_LEN];
        page::encode(&config, 1, &mut sector);
        let mut flash = image.flash();
        PAGES_AT.into_iter().for_each(|at| flash.load(at, &sector));
        Bench(Board::new(image, flash, seed))
    }

    /// A board whose host has a network.
    fn connected(image: &Image) -> Bench {
        let mut bench = Bench::new(image, 1);
        assert!(bench.run_until(MEETING, |bench| bench.host().traffic().has_carrier()), "{:?}", bench.host());
        bench
    }

    /// Runs until something is so, for at most so many milliseconds; whether it is.
    fn run_until(&mut self, ms: u64, mut is_so: impl FnMut(&mut Bench) -> bool) -> bool {
        for _ in 0..ms {
            self.0.run(self.0.now() + MS);
            assert_eq!(self.0.end(), None);
            if is_so(self) {
                return true;
            }
        }
        false
    }

    fn run(&mut self, ms: u64) {
        self.run_until(ms, |_| false);
    }

    fn host(&self) -> &Host {
        match self.0.bus().device() {
            Device::Usb(usb) => usb.host(),
            other => panic!("{other:?}"),
        }
    }

    fn with_host(&mut self, f: impl FnOnce(&mut Host)) {
        self.0.bus_mut().with_device(|device| match device {
            Device::Usb(usb) => f(usb.host_mut()),
            other => panic!("{other:?}"),
        });
    }

    /// Whether the board answers when it is asked for its address.
    fn answers(&mut self) -> bool {
        let question = question();
        self.0.bus_mut().departed.clear();
        self.0.receive(&question);
        self.run_until(100, |bench| bench.0.bus_mut().departed.iter().any(|(_, frame)| frame[12..14] == [8, 6]))
    }

    /// Whether the board says something of its own within a second.
    fn speaks(&mut self) -> bool {
        self.0.bus_mut().departed.clear();
        self.run_until(1000, |bench| bench.0.bus_mut().departed.iter().any(|(_, frame)| frame[12..14] == [8, 0]))
    }
}

fn image() -> Image {
    let path = common::image_of(BoardKind::PicoUsb);
    Image::read(BoardKind::PicoUsb, &path, &fs::read(&path).unwrap()).unwrap()
}

/// Who has the board's address?
fn question() -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 0, 9, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 9, 10, 77, 0, 9, 0, 0, 0, 0, 0, 0]);
    frame.extend(address::member_ipv4(0));
    frame
}

#[test]
fn the_host_finds_a_network_adapter_and_loads_its_driver() {
    let image = image();
    let bench = Bench::connected(&image);
    let (host, met) = (bench.host(), bench.host().met());
    assert_eq!(met.device[4..8], [0xef, 2, 1, 64], "several interfaces are one function");
    assert_eq!(met.device[8..12], [0x09, 0x12, 0x01, 0x00]);
    assert_eq!(met.strings, ["Compasso node", "Compasso", "020000010001"], "the last is the host's own address");
    assert_eq!((met.function.frame_max, met.function.packet_len), (1514, 64));
    let parameters = met.parameters.unwrap();
    assert_eq!((parameters.in_max, parameters.out_max, parameters.out_frames), (2048, 2048, 1));
    assert_eq!(met.refused, [0x43], "it has no filters, and says so");
    assert_eq!(host.traffic().broken_blocks(), 0);
}

#[test]
fn a_host_that_sends_rubbish_neither_stops_nor_deafens_the_board() {
    let image = image();
    let mut bench = Bench::connected(&image);
    let good = ntb::build(&[question()], 0, &SEVERAL).0;
    let changed = |at: usize, bytes: [u8; 2]| {
        let mut block = good.clone();
        block[at..at + 2].copy_from_slice(&bytes);
        block
    };
    let long = ntb::build(&[vec![7; 2000]], 0, &SEVERAL).0;
    let mut rubbish = vec![
        ("a bad signature", changed(0, [0, 0])),
        ("a bad signature of the table", changed(12, [0, 0])),
        ("more bytes than there are", changed(8, [0xff, 0xff])),
        ("a table beyond the block", changed(10, [0xff, 0xff])),
        ("half a table", changed(10, [0x40, 0])),
        ("a frame beyond the block", changed(20, [0xff, 0x07])),
        ("a frame far beyond the block", changed(20, [0xff, 0xff])),
        ("a frame longer than the block", changed(22, [0xff, 0xff])),
        ("an empty frame", changed(22, [0, 0])),
        ("a frame of one byte", changed(22, [1, 0])),
        ("a frame that no Ethernet has", long),
        ("a block of one byte", vec![0x4e]),
        ("a block as long as blocks get", vec![0x4e; 2048]),
        ("a block longer than that", vec![0x4e; 2048 + 640]),
    ];
    let mut dice = fastrand::Rng::with_seed(3);
    for _ in 0..40 {
        let len = dice.usize(1..1500);
        // A head that is believed, before bytes that should not be.
        let mut block: Vec<u8> = good[..16].iter().copied().chain((0..len).map(|_| dice.u8(..))).collect();
        block.resize(block.len().next_multiple_of(64) + 1, 0);
        rubbish.push(("bytes by chance", block));
    }
    for (what, block) in rubbish {
        let before = bench.host().traffic().delivered();
        bench.with_host(|host| host.traffic_mut().send_block(block.clone()));
        assert!(
            bench.run_until(100, |bench| bench.host().traffic().delivered() > before),
            "{what}: not taken: {block:02x?}"
        );
        // What has no short end, the next block ends.
        bench.answers();
        assert!(bench.answers(), "deaf after {what}: {block:02x?}");
    }
}

#[test]
fn of_several_frames_in_a_block_the_first_arrives() {
    let image = image();
    let mut bench = Bench::connected(&image);
    let block = ntb::build(&[question(), vec![0; 60], question()], 0, &SEVERAL).0;
    bench.0.bus_mut().departed.clear();
    bench.with_host(|host| host.traffic_mut().send_block(block));
    bench.run(100);
    let answers = bench.0.bus_mut().departed.iter().filter(|(_, frame)| frame[12..14] == [8, 6]).count();
    assert_eq!(answers, 1, "it told the host that it takes one at a time");
    assert!(bench.answers());
}

#[test]
fn whenever_the_cable_is_pulled_the_board_comes_back_with_it() {
    let image = image();
    // From before the host has noticed it to well behind the first frames.
    for point in 0..24 {
        let mut bench = Bench::new(&image, point);
        bench.run(20 + point * 20);
        bench.with_host(|host| host.plug(false));
        bench.run(300);
        assert!(!bench.host().traffic().has_carrier() && !bench.speaks(), "there is nobody to hear it");
        bench.with_host(|host| host.plug(true));
        assert!(bench.run_until(MEETING, |bench| bench.host().traffic().has_carrier()), "{point}: {:?}", bench.host());
        assert!(bench.speaks() && bench.answers(), "{point}");
        assert_eq!(bench.host().traffic().broken_blocks(), 0, "{point}");
    }
}

#[test]
fn a_host_that_loads_its_driver_again_hears_that_there_is_a_network() {
    let image = image();
    let mut bench = Bench::connected(&image);
    for turn in 0..3 {
        bench.run(37 * turn);
        bench.with_host(Host::rebind);
        assert!(!bench.host().traffic().has_carrier());
        assert!(
            bench.run_until(MEETING, |bench| bench.host().traffic().has_carrier()),
            "turn {turn}: {:?}",
            bench.host()
        );
        assert!(bench.speaks() && bench.answers(), "turn {turn}");
        assert_eq!(bench.host().traffic().broken_blocks(), 0, "turn {turn}");
    }
}
