//! The configuration page of a real board: it survives a new program, and a power cut.
//!
//! A copy is a sector with one record: in little-endian words [`MAGIC`], generation, length, CRC-32
//! of those three and of the bytes, then that many bytes of postcard: [`NodeConfig`], and on a board with a
//! radio [`Wifi`]; the rest is blank.
//! There are two copies. Whoever provisions writes one and then the other, under a generation
//! above all earlier ones: at every moment one of the two is whole, the old or the new.

use super::{HEADER_LEN, SECTOR_LEN, record};
use crate::{NodeConfig, limits::CONFIG_MAX};
use heapless::String;
use serde::{Deserialize, Serialize};

/// Marks a copy ("CMPF").
pub const MAGIC: u32 = u32::from_le_bytes(*b"CMPF");

/// The network of a board with a radio.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Wifi {
    /// Its name.
    pub ssid: String<32>,
    /// Its passphrase; empty: the network is open.
    pub passphrase: String<63>,
}

/// Why a board is nobody.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unusable {
    /// No copy is whole: the board was never provisioned.
    Missing,
    /// It is not what this program calls a configuration.
    Malformed,
    /// The node is not among its own members.
    NotAMember,
    /// A board with a radio does not know its network.
    NoWifi,
}

/// Writes a copy into a sector's image.
pub fn encode(config: &NodeConfig, generation: u32, sector: &mut [u8; SECTOR_LEN]) {
    let length = record::encode(MAGIC, generation, config, sector);
    assert!(length.is_some(), "a sector has room for the largest configuration");
}

/// Writes a copy for a board with a radio into a sector's image.
pub fn encode_with_wifi(config: &NodeConfig, wifi: &Wifi, generation: u32, sector: &mut [u8; SECTOR_LEN]) {
    let length = record::encode(MAGIC, generation, &(config, wifi), sector);
    assert!(length.is_some(), "a sector has room for the largest configuration");
}

/// The generation and the postcard bytes of a copy, if it is whole.
#[must_use]
pub fn decode(sector: &[u8]) -> Option<(u32, &[u8])> {
    record::decode(MAGIC, sector)
}

/// Who the board with these two copies is.
///
/// # Errors
/// If that cannot be told.
pub fn read(copies: [&[u8]; 2]) -> Result<NodeConfig, Unusable> {
    let (config, _) = split(copies)?;
    match config.members.contains(&config.me) {
        true => Ok(config),
        false => Err(Unusable::NotAMember),
    }
}

/// The network of the board with these two copies.
///
/// # Errors
/// If that cannot be told.
pub fn read_wifi(copies: [&[u8]; 2]) -> Result<Wifi, Unusable> {
    let (_, rest) = split(copies)?;
    match rest {
        [] => Err(Unusable::NoWifi),
        rest => postcard::from_bytes(rest).map_err(|_| Unusable::Malformed),
    }
}

fn split(copies: [&[u8]; 2]) -> Result<(NodeConfig, &[u8]), Unusable> {
    let newest = copies.into_iter().filter_map(decode).max_by_key(|(generation, _)| *generation);
    let (_, bytes) = newest.ok_or(Unusable::Missing)?;
    postcard::take_from_bytes(bytes).map_err(|_| Unusable::Malformed)
}

const _: () = assert!(HEADER_LEN + CONFIG_MAX + 2 + 32 + 63 <= SECTOR_LEN || crate::limits::MEMBERS_MAX > 64);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Key, NodeId};

    const BLANK: [u8; SECTOR_LEN] = [0xff; SECTOR_LEN];

    fn config(me: u16) -> NodeConfig {
        NodeConfig::new(9, Key([7; 16]), NodeId(me), [NodeId(3), NodeId(4)])
    }

    fn copy(me: u16, generation: u32) -> [u8; SECTOR_LEN] {
        let mut sector = BLANK;
        encode(&config(me), generation, &mut sector);
        sector
    }

    #[test]
    fn the_newest_whole_copy_counts() {
        assert_eq!(read([&copy(3, 1), &copy(4, 2)]), Ok(config(4)));
        assert_eq!(read([&copy(3, 2), &copy(4, 1)]), Ok(config(3)));
        assert_eq!(read([&BLANK, &copy(4, 1)]), Ok(config(4)));
        assert_eq!(read([&BLANK, &BLANK]), Err(Unusable::Missing));
        assert_eq!(read([&[], &[0; 15]]), Err(Unusable::Missing));
    }

    #[test]
    fn a_radio_finds_its_network_and_a_board_without_one_does_not_mind() {
        let wifi = Wifi { ssid: "room 7".try_into().unwrap(), passphrase: "not a default".try_into().unwrap() };
        let mut sector = BLANK;
        encode_with_wifi(&config(3), &wifi, 1, &mut sector);
        assert_eq!(read([&sector, &BLANK]), Ok(config(3)));
        assert_eq!(read_wifi([&sector, &BLANK]), Ok(wifi));
        assert_eq!(read_wifi([&copy(3, 1), &BLANK]), Err(Unusable::NoWifi));
        assert_eq!(read_wifi([&BLANK, &BLANK]), Err(Unusable::Missing));
    }

    #[test]
    fn whoever_is_no_member_is_nobody() {
        assert_eq!(read([&copy(5, 1), &BLANK]), Err(Unusable::NotAMember));
    }

    /// Both sectors are erased and programmed, one after the other; power goes after every byte.
    #[test]
    fn a_power_cut_anywhere_leaves_the_old_page_or_the_new() {
        let (old, new) = (copy(3, 1), copy(4, 2));
        let mut copies = [old, old];
        for at in 0..2 {
            copies[at] = BLANK;
            for programmed in 0..=SECTOR_LEN {
                copies[at][..programmed].copy_from_slice(&new[..programmed]);
                let is_new = at == 1 || decode(&copies[0]).is_some();
                let expected = if is_new { config(4) } else { config(3) };
                assert_eq!(read([&copies[0], &copies[1]]), Ok(expected), "copy {at}, {programmed} bytes");
            }
        }
    }

    /// A page that is cut off while it is erased holds some of its ones and zeros.
    #[test]
    fn any_flipped_bit_makes_a_copy_void() {
        let whole = copy(3, 1);
        let length = HEADER_LEN + decode(&whole).unwrap().1.len();
        for bit in 0..8 * length {
            let mut torn = whole;
            torn[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&torn), None, "bit {bit}");
        }
    }
}
