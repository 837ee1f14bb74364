//! Power cuts while a board writes down that it lives, and while it is provisioned: at many instructions, after
//! every byte.

mod common;

use compasso_rp2040::{
    board::{Board, Cause},
    bus::Stop,
    flash::Flash,
    image::Image,
    probe::remembered,
};
use compasso_stage::{frame, setup::BoardKind};
use compasso_wire::{
    Key, NodeConfig, NodeId, address,
    flash::{PAGES_AT, SECTOR_LEN, page},
};
use std::fs;

const KEY: Key = Key([5; 16]);
const CLUSTER: u32 = 77;
const SECOND: u64 = 125_000_000;
/// Boards speak within this time.
const PATIENCE: u64 = 3 * SECOND;
/// A board is looked at so often.
const LOOK: u64 = SECOND / 100;
/// So many instructions are tried.
const POINTS: u64 = 150;

fn read_image() -> Image {
    let path = common::image();
    Image::read(BoardKind::W5500EvbPico, &path, &fs::read(&path).unwrap()).unwrap()
}

fn provisioned(image: &Image) -> Flash {
    let config = NodeConfig { incarnation: 1, ..NodeConfig::new(CLUSTER, KEY, NodeId(1), [NodeId(1), NodeId(2)]) };
    let mut sector = [0; SECTOR_LEN];
    page::encode(&config, 1, &mut sector);
    let mut flash = image.flash();
    for at in PAGES_AT {
        flash.load(at, &sector);
    }
    flash
}

/// Runs until the board has said something, or its power is gone; returns the incarnation it said it with.
fn speak(board: &mut Board, until: u64) -> Option<u32> {
    while board.now() < until && board.end().is_none() {
        board.run((board.now() + LOOK).min(until));
        if let Some((_, frame)) = board.bus_mut().departed.pop() {
            return Some(incarnation(&frame));
        }
    }
    None
}

/// The incarnation in the datagram that a frame carries to node 2.
fn incarnation(frame: &[u8]) -> u32 {
    open(frame, &KEY, CLUSTER).expect("of our cluster")
}

/// The incarnation in a frame's datagram, if that is of this cluster.
fn open(frame: &[u8], key: &Key, cluster: u32) -> Option<u32> {
    assert_eq!(frame::destination(frame, 2), frame::Destination::Member(1));
    let header = 14 + 20 + 8;
    let length = usize::from(u16::from_be_bytes([frame[38], frame[39]])) - 8;
    assert_eq!(u16::from_be_bytes([frame[36], frame[37]]), address::PORT);
    let datagram = &frame[header..header + length];
    let opened = compasso_wire::open(key, cluster, NodeId(2), |id| id == NodeId(1), datagram);
    opened.ok().map(|opened| opened.header.incarnation)
}

/// When a board's first life is written down, and how many bytes of flash it takes to get there.
fn first_life(image: &Image) -> (u64, u64) {
    let mut board = Board::new(image, provisioned(image), 1);
    while remembered(&board.bus().flash).is_none() {
        assert!(board.now() < PATIENCE && board.end().is_none(), "{:?}", board.end());
        board.run(board.now() + SECOND / 10_000);
    }
    let (written, bytes) = (board.now(), board.bus().flash.worked());
    assert_eq!(speak(&mut board, PATIENCE), Some(1), "not before it was written down");
    (written, bytes)
}

/// The next life after a cut: it speaks, and as nobody who has spoken before.
fn next_life(image: &Image, flash: Flash, spoken: Option<u32>, what: &str) {
    let old = remembered(&flash).map_or(0, |memory| memory.incarnation);
    let mut board = Board::new(image, flash, 2);
    let said = speak(&mut board, PATIENCE);
    assert_eq!(said, Some(old + 1), "{what}: {:?}", board.end());
    assert!(said > spoken, "{what}: {said:?} was used before");
}

#[test]
fn at_any_instruction_the_board_comes_back_and_uses_no_life_twice() {
    let image = read_image();
    let (written, _) = first_life(&image);
    // From the first instruction to well behind the record.
    let last = written + written / 4;
    for point in 0..POINTS {
        let cycle = last * point / POINTS;
        let mut board = Board::new(&image, provisioned(&image), 1);
        let spoken = speak(&mut board, cycle);
        let flash = board.power_cut();
        let known = remembered(&flash).map(|memory| memory.incarnation);
        assert!(matches!(known, None | Some(1)), "{known:?}");
        next_life(&image, flash, spoken, &format!("cut at cycle {cycle}"));
    }
}

#[test]
fn after_any_byte_of_flash_the_board_comes_back_and_uses_no_life_twice() {
    let image = read_image();
    let (_, bytes) = first_life(&image);
    assert!(bytes >= 256, "{bytes}");
    // Every byte of the last page, which holds the record; some of what comes before.
    let points = (1..=bytes).filter(|byte| byte + 256 > bytes || byte % 509 == 0);
    for byte in points {
        let mut flash = provisioned(&image);
        flash.cut_after(byte);
        let mut board = Board::new(&image, flash, 1);
        let spoken = speak(&mut board, PATIENCE);
        assert_eq!((spoken, &board.end().unwrap().cause), (None, &Cause::Stop(Stop::PowerCut)), "byte {byte}");
        next_life(&image, board.power_cut(), spoken, &format!("cut after byte {byte}"));
    }
}

const NEW_KEY: Key = Key([6; 16]);
const NEW_CLUSTER: u32 = 78;

/// Both copies of the page are written anew, one after the other; the power is cut after so many bytes of that, if
/// it lasts so long. Returns whether it did.
fn provision_anew(flash: &mut Flash, cut_after: Option<u64>) -> bool {
    let members = [NodeId(1), NodeId(2)];
    let config = NodeConfig { incarnation: 1, ..NodeConfig::new(NEW_CLUSTER, NEW_KEY, NodeId(1), members) };
    let mut sector = [0xff; SECTOR_LEN];
    page::encode(&config, 2, &mut sector);
    if let Some(bytes) = cut_after {
        flash.cut_after(bytes);
    }
    for at in PAGES_AT {
        let erased = flash.erase(0, at, SECTOR_LEN as u32).unwrap();
        let whole = flash.advance(erased) && {
            let programmed = flash.program(0, at, sector.to_vec()).unwrap();
            flash.advance(programmed)
        };
        if !whole {
            flash.power_cut();
            return true;
        }
    }
    flash.power_cut();
    false
}

/// The board with this flash speaks in the new cluster, or still in the old one; nothing else may happen.
fn is_new(image: &Image, flash: Flash, what: &str) -> bool {
    let mut board = Board::new(image, flash, 2);
    while board.now() < PATIENCE && board.end().is_none() {
        board.run(board.now() + LOOK);
        if let Some((_, frame)) = board.bus_mut().departed.pop() {
            let (old, new) = (open(&frame, &KEY, CLUSTER), open(&frame, &NEW_KEY, NEW_CLUSTER));
            assert!(old.is_some() != new.is_some(), "{what}");
            return new.is_some();
        }
    }
    panic!("{what}: the board is nobody, {:?}", board.end());
}

#[test]
fn a_cut_while_it_is_provisioned_leaves_the_old_page_or_the_new() {
    let image = read_image();
    let before = provisioned(&image);
    let mut whole = before.clone();
    assert!(!provision_anew(&mut whole, None));
    let bytes = whole.worked() - before.worked();
    assert_eq!(bytes, 4 * SECTOR_LEN as u64);
    let mut seen = [0, 0];
    let mut turned_at = None;
    // Around every border byte by byte, between them now and then.
    let is_near = |byte: &u64| byte % SECTOR_LEN as u64 <= 3 || byte % 256 == 255 || byte.is_multiple_of(97);
    for byte in (1..=bytes).filter(is_near) {
        let mut flash = before.clone();
        assert!(provision_anew(&mut flash, Some(byte)), "byte {byte}");
        let is_new = is_new(&image, flash, &format!("cut after byte {byte}"));
        seen[usize::from(is_new)] += 1;
        if is_new {
            turned_at.get_or_insert(byte);
        } else {
            assert_eq!(turned_at, None, "byte {byte}: it was new before");
        }
    }
    eprintln!("{} cuts left the old page, {} the new one, the first after byte {turned_at:?}", seen[0], seen[1]);
    let first_copy = SECTOR_LEN as u64..=2 * SECTOR_LEN as u64;
    assert!(seen[0] > 30 && seen[1] > 30 && first_copy.contains(&turned_at.unwrap()), "{seen:?}, {turned_at:?}");
}
