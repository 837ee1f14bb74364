//! The page of flash that makes a board a node.

use crate::{Board, Fleet};
use compasso_scenario::Scenario;
use compasso_stage::{setup::BoardKind, uf2::Contents};
use compasso_wire::{
    NodeConfig,
    config::Stored,
    flash::{PAGES_AT, SECTOR_LEN, XIP_BASE, page},
};

/// A page, ready to be written twice.
pub type Sector = Box<[u8; SECTOR_LEN]>;

/// Where the two copies go, as the processor sees it.
#[must_use]
pub fn addresses() -> [u32; 2] {
    PAGES_AT.map(|at| XIP_BASE + at)
}

/// Everything that makes one image this board while the cluster performs the scenario.
#[must_use]
pub fn config(fleet: &Fleet, board: &Board, scenario: &Scenario) -> NodeConfig {
    let mut config = scenario.node_config(board.node, 1, Stored::default(), fleet.key.clone());
    config.cluster = fleet.cluster_of(scenario);
    // A real crystal is off by what it is off, and shows at boot what it shows.
    config.rate_ppb = 0;
    config.wrong_clock_us = 0;
    config
}

/// The page of a board. The `generation` must be above that of every page it had.
#[must_use]
pub fn sector(fleet: &Fleet, board: &Board, scenario: &Scenario, generation: u32) -> Sector {
    let mut sector = Box::new([0xff; SECTOR_LEN]);
    let config = config(fleet, board, scenario);
    match (&fleet.wifi, board.image) {
        (Some(wifi), BoardKind::PicoW) => page::encode_with_wifi(&config, wifi, generation, &mut sector),
        _ => page::encode(&config, generation, &mut sector),
    }
    sector
}

/// A page as a file that one drops on a board's USB drive: the first copy, then the second.
#[must_use]
pub fn to_uf2(sector: &Sector) -> Vec<u8> {
    let mut contents = Contents::default();
    for at in addresses() {
        contents.put(at, &sector[..]);
    }
    contents.to_uf2()
}

#[cfg(test)]
mod tests {
    use super::*;
    use compasso_stage::uf2::{BLOCK_LEN, PAYLOAD_LEN, RP2040_FAMILY};
    use compasso_wire::{Key, NodeId, flash::page::Wifi};

    fn fleet() -> Fleet {
        let board = |node, image| Board { node, image, probe: None, address: ([127, 0, 0, 1], node).into() };
        Fleet {
            file: "fleet.toml".into(),
            cluster: 7,
            key: Key([9; 16]),
            key_file: "cluster.key".into(),
            bind: ([127, 0, 0, 1], 0).into(),
            scenario: None,
            wifi: Some(Wifi { ssid: "room 7".try_into().unwrap(), passphrase: "not a default".try_into().unwrap() }),
            boards: vec![board(3, BoardKind::W5500EvbPico), board(1, BoardKind::PicoW)],
        }
    }

    fn scenario() -> Scenario {
        let text = "ids = [3, 1]\nduration = \"1s\"\n[clock]\nskew_ppm = [40, 3]\n[election]\nalgorithm = \"bully\"\n";
        Scenario::parse(text, "pair.toml").unwrap()
    }

    #[test]
    fn a_board_reads_its_page_back() {
        let (fleet, scenario) = (fleet(), scenario());
        let sector = sector(&fleet, &fleet.boards[0], &scenario, 5);
        assert_eq!(page::decode(&sector[..]).map(|(generation, _)| generation), Some(5));
        let read = page::read([&sector[..], &sector[..]]).unwrap();
        assert_eq!(read, config(&fleet, &fleet.boards[0], &scenario));
        assert_eq!((read.me, &read.members[..]), (NodeId(3), &[NodeId(3), NodeId(1)][..]));
        assert_eq!((read.cluster, &read.key), (fleet.cluster_of(&scenario), &fleet.key));
        assert_eq!((read.rate_ppb, read.wrong_clock_us), (0, 0), "nobody bends a real crystal");
    }

    #[test]
    fn only_a_radio_learns_its_network() {
        let (fleet, scenario) = (fleet(), scenario());
        let pages = [0, 1].map(|at| sector(&fleet, &fleet.boards[at], &scenario, 1));
        assert_eq!(page::read_wifi([&pages[0][..], &[]]), Err(page::Unusable::NoWifi));
        assert_eq!(page::read_wifi([&pages[1][..], &[]]).ok(), fleet.wifi);
    }

    #[test]
    fn the_file_holds_both_copies_and_nothing_else() {
        let fleet = fleet();
        let sector = sector(&fleet, &fleet.boards[0], &scenario(), 5);
        let file = to_uf2(&sector);
        assert_eq!(file.len(), 2 * SECTOR_LEN / PAYLOAD_LEN * BLOCK_LEN);
        let [first, _] = addresses();
        for (index, block) in file.chunks(BLOCK_LEN).enumerate() {
            let word = |at: usize| u32::from_le_bytes(block[at..at + 4].try_into().unwrap());
            let offset = index * PAYLOAD_LEN;
            assert_eq!((word(0), word(4), word(508)), (0x0a32_4655, 0x9e5d_5157, 0x0ab1_6f30), "block {index}");
            assert_eq!((word(8), word(28)), (0x2000, RP2040_FAMILY), "block {index}");
            assert_eq!((word(12), word(16)), (first + offset as u32, 256), "block {index}");
            assert_eq!((word(20), word(24)), (index as u32, 32), "block {index}");
            assert_eq!(block[32..288], sector[offset % SECTOR_LEN..][..256], "block {index}");
        }
        assert!(Contents::of_uf2(&file).is_ok());
    }
}
