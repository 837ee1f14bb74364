//! One board on the bench, with its log.

use compasso_rp2040::{board::Board, bus::CYCLES_PER_US, flash::Flash, image::Image, probe::Probe};
use compasso_stage::{
    rtt::{self, Log},
    setup::BoardKind,
};
use compasso_wire::{
    Key, NodeConfig, NodeId,
    flash::{
        PAGES_AT, SECTOR_LEN,
        page::{self, Wifi},
    },
};
use std::{fs, path::Path};

/// A second, in a board's cycles.
pub const SECOND: u64 = 1_000_000 * CYCLES_PER_US;
/// The log is taken so often: its ring must not overflow.
const LOOK: u64 = SECOND / 50;

/// An image, and what it takes to watch a board that runs it.
pub struct Bench {
    pub image: Image,
    logs: rtt::Image,
    folder: tempfile::TempDir,
}

impl Bench {
    /// For boards with this image.
    pub fn new(board: BoardKind, path: &Path) -> Bench {
        let elf = fs::read(path).unwrap();
        let logs = rtt::Image::parse(&elf).unwrap();
        Bench { image: Image::read(board, path, &elf).unwrap(), logs, folder: tempfile::tempdir().unwrap() }
    }

    /// A board that was provisioned as node 1 of two, for this Wi-Fi network if one is given, and switched on.
    pub fn board(&self, wifi: Option<&Wifi>) -> Board {
        let config =
            NodeConfig { incarnation: 1, ..NodeConfig::new(7, Key([5; 16]), NodeId(1), [NodeId(1), NodeId(2)]) };
        let mut sector = [0; SECTOR_LEN];
        match wifi {
            Some(wifi) => page::encode_with_wifi(&config, wifi, 1, &mut sector),
            None => page::encode(&config, 1, &mut sector),
        }
        Board::new(&self.image, self.with_page(&sector), 1)
    }

    /// A board that was flashed and switched on, and nothing else.
    pub fn nobody(&self) -> Board {
        Board::new(&self.image, self.image.flash(), 1)
    }

    fn with_page(&self, sector: &[u8; SECTOR_LEN]) -> Flash {
        let mut flash = self.image.flash();
        PAGES_AT.into_iter().for_each(|at| flash.load(at, sector));
        flash
    }

    /// Runs for so long or until the board ends, and returns what it logged meanwhile.
    pub fn watch(&self, board: &mut Board, cycles: u64) -> String {
        let path = self.folder.path().join("log");
        let mut log = Log::create(&self.logs, &path).unwrap();
        log.begin(1).unwrap();
        let until = board.now() + cycles;
        while board.now() < until && board.end().is_none() {
            board.run((board.now() + LOOK).min(until));
            // The program writes the ring's head before it is there.
            log.poll(&mut Probe(board)).unwrap();
        }
        log.end(&mut Probe(board)).unwrap();
        fs::read_to_string(path).unwrap()
    }
}
