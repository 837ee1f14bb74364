//! A Pico on a USB cable: the exact image, its controller, and a host that does what Linux does.

mod common;

use compasso_rp2040::{board::Board, bus::CYCLES_PER_US, device::Device, image::Image, probe::Probe, usb::host::Host};
use compasso_stage::{
    rtt::{self, Log},
    setup::BoardKind,
};
use compasso_wire::{
    Key, NodeConfig, NodeId,
    flash::{PAGES_AT, SECTOR_LEN, page},
};
use std::fs;

const MS: u64 = 1000 * CYCLES_PER_US;

struct Bench {
    board: Board,
    logs: rtt::Image,
    folder: tempfile::TempDir,
}

impl Bench {
    fn new(seed: u64) -> Bench {
        let path = common::image_of(BoardKind::PicoUsb);
        let elf = fs::read(&path).unwrap();
        let image = Image::read(BoardKind::PicoUsb, &path, &elf).unwrap();
        let logs = rtt::Image::parse(&elf).unwrap();
        let config =
            NodeConfig { incarnation: 1, ..NodeConfig::new(7, Key([5; 16]), NodeId(1), [NodeId(1), NodeId(2)]) };
        let mut sector = [0; SECTOR_LEN];
        page::encode(&config, 1, &mut sector);
        let mut flash = image.flash();
        PAGES_AT.into_iter().for_each(|at| flash.load(at, &sector));
        Bench { board: Board::new(&image, flash, seed), logs, folder: tempfile::tempdir().unwrap() }
    }

    fn run(&mut self, ms: u64) -> String {
        let path = self.folder.path().join("log");
        let mut log = Log::create(&self.logs, &path).unwrap();
        log.begin(1).unwrap();
        for _ in 0..ms {
            self.board.run(self.board.now() + MS);
            log.poll(&mut Probe(&mut self.board)).unwrap();
        }
        log.end(&mut Probe(&mut self.board)).unwrap();
        fs::read_to_string(path).unwrap()
    }

    fn host(&self) -> &Host {
        match self.board.bus().device() {
            Device::Usb(usb) => usb.host(),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn the_host_finds_a_network_adapter() {
    let mut bench = Bench::new(1);
    let log = bench.run(1000);
    eprintln!("{log}\n{:?}\n{:#?}", bench.board.end(), bench.host());
}
