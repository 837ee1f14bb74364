//! Power cuts while a board writes down that it lives: at many instructions, after every byte.

mod common;

use compasso_rp2040::{
    board::{Board, Cause},
    bus::Stop,
    flash::Flash,
    image::Image,
    probe::remembered,
};
use compasso_stage::frame;
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
    Image::read(&path, &fs::read(&path).unwrap()).unwrap()
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
    assert_eq!(frame::destination(frame, 2), frame::Destination::Member(1));
    let header = 14 + 20 + 8;
    let length = usize::from(u16::from_be_bytes([frame[38], frame[39]])) - 8;
    assert_eq!(u16::from_be_bytes([frame[36], frame[37]]), address::PORT);
    let datagram = &frame[header..header + length];
    compasso_wire::open(&KEY, CLUSTER, NodeId(2), |id| id == NodeId(1), datagram).unwrap().header.incarnation
}

/// When a board's first life is written down, and how many bytes of flash it takes to get there.
fn first_life(image: &Image) -> (u64, u64) {
    let mut board = Board::new(provisioned(image), image.code(), 1);
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
    let mut board = Board::new(flash, image.code(), 2);
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
        let mut board = Board::new(provisioned(&image), image.code(), 1);
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
        let mut board = Board::new(flash, image.code(), 1);
        let spoken = speak(&mut board, PATIENCE);
        assert_eq!((spoken, &board.end().unwrap().cause), (None, &Cause::Stop(Stop::PowerCut)), "byte {byte}");
        next_life(&image, board.power_cut(), spoken, &format!("cut after byte {byte}"));
    }
}
