//! Boards whose program cannot go on: each leaves a record, starts anew, and its next life says what happened
//! and where. The image is the real one; it is led astray from outside, as with a probe.

mod common;

use compasso_rp2040::{
    board::{Board, Cause, Reset},
    bus::{CYCLES_PER_US, RAM_BASE, Stop},
    flash::Flash,
    image::Image,
    probe::Probe,
};
use compasso_stage::{
    rtt::{self, Log},
    setup::BoardKind,
};
use compasso_wire::{
    Key, NodeConfig, NodeId,
    flash::{PAGES_AT, SECTOR_LEN, page},
};
use object::{Object, ObjectSymbol};
use std::fs;

const SECOND: u64 = 1_000_000 * CYCLES_PER_US;
/// The log is taken so often: its ring must not overflow.
const LOOK: u64 = SECOND / 50;
/// Far behind what a board has to tell in its first seconds.
const UNUSED_IN_RING: u32 = 24 * 1024;
const GUARD_END: u32 = 0x2000_1000;

/// One board with its log.
struct Bench {
    image: Image,
    elf: Vec<u8>,
    logs: rtt::Image,
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Bench {
        let path = common::image();
        let elf = fs::read(&path).unwrap();
        let logs = rtt::Image::parse(&elf).unwrap();
        Bench {
            image: Image::read(BoardKind::W5500EvbPico, &path, &elf).unwrap(),
            elf,
            logs,
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn flash(&self) -> Flash {
        let config =
            NodeConfig { incarnation: 1, ..NodeConfig::new(7, Key([5; 16]), NodeId(1), [NodeId(1), NodeId(2)]) };
        let mut sector = [0; SECTOR_LEN];
        page::encode(&config, 1, &mut sector);
        let mut flash = self.image.flash();
        PAGES_AT.into_iter().for_each(|at| flash.load(at, &sector));
        flash
    }

    fn board(&self) -> Board {
        Board::new(&self.image, self.flash(), 1)
    }

    /// Runs for so long or until the board ends, and returns what it logged meanwhile.
    fn watch(&self, board: &mut Board, cycles: u64) -> String {
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

    /// What the next life logs in its first second.
    fn next_life(&self, board: Board) -> String {
        let mut board = board.after_reset(2);
        self.watch(&mut board, SECOND)
    }

    /// Where the program keeps nothing yet.
    fn unused_ram(&self) -> u32 {
        self.image.ring() + UNUSED_IN_RING
    }

    fn symbol(&self, name: &str) -> u32 {
        let file = object::File::parse(&*self.elf).unwrap();
        let symbol = file.symbols().find(|symbol| symbol.name() == Ok(name));
        symbol.unwrap_or_else(|| panic!("the image has no {name}")).address() as u32
    }
}

#[test]
fn a_panic_is_told_by_the_next_life_with_its_line_and_its_words() {
    let bench = Bench::new();
    let mut flash = bench.flash();
    flash.wear_out();
    let mut board = Board::new(&bench.image, flash, 1);
    let log = bench.watch(&mut board, 20 * SECOND);
    assert!(log.contains("panicked at") && log.contains("the flash is worn out"), "{log}");
    assert_eq!(board.end().unwrap().by, Reset::Wanted, "it started anew by itself");
    let next = bench.next_life(board);
    let told = next.lines().find(|line| line.contains("the last life panicked")).unwrap_or_else(|| panic!("{next}"));
    assert!(told.contains("board.rs: the flash is worn out") && told.contains("line "), "{told}");
}

#[test]
fn a_fault_is_told_by_the_next_life_with_its_place() {
    let bench = Bench::new();
    let mut board = bench.board();
    bench.watch(&mut board, 2 * SECOND);
    // A wild pointer: it copies from where nothing is.
    let copy = bench.symbol("__aeabi_memcpy") & !1;
    let place = bench.unused_ram();
    let registers = board.registers();
    (registers[0], registers[1], registers[2]) = (place, 0x3000_0000, 64);
    registers[15] = copy;
    let log = bench.watch(&mut board, SECOND);
    let end = board.end().unwrap_or_else(|| panic!("{log}")).clone();
    assert_eq!(end.cause, Cause::Stop(Stop::Nowhere { address: 0x3000_0000 }));
    assert_eq!(end.by, Reset::Wanted);
    let place = bench.image.place(end.pc).unwrap();
    assert!(place.contains("compiler_builtins") || place.contains("memcpy"), "{place}");
    let next = bench.next_life(board);
    let told = format!("the last life ended in a fault at {:#x}", end.pc);
    assert!(next.contains(&told), "no {told:?} in {next}");
}

#[test]
fn a_stack_that_overflows_is_told_by_the_next_life() {
    let bench = Bench::new();
    let mut board = bench.board();
    bench.watch(&mut board, 2 * SECOND);
    // A recursion without an end, from the depth that the program happens to be at.
    const PUSH_AND_AGAIN: [u8; 4] = [0xff, 0xb5, 0xfd, 0xe7];
    let place = bench.unused_ram();
    assert!(board.bus_mut().write_ram((place - RAM_BASE) as usize, &PUSH_AND_AGAIN));
    board.registers()[15] = place;
    let log = bench.watch(&mut board, SECOND);
    let end = board.end().unwrap_or_else(|| panic!("{log}")).clone();
    let Cause::Stop(Stop::Forbidden { address }) = end.cause else { panic!("{end:?}") };
    assert!((GUARD_END - 256..GUARD_END).contains(&address), "{address:#x}");
    assert_eq!(end.by, Reset::Wanted);
    let next = bench.next_life(board);
    assert!(next.contains("the last life overflowed its stack: stack pointer at 0x20000"), "{next}");
}

#[test]
fn a_program_that_hangs_is_bitten_and_its_next_life_says_so() {
    const JUMP_TO_ITSELF: [u8; 2] = [0xfe, 0xe7];
    let bench = Bench::new();
    let mut board = bench.board();
    bench.watch(&mut board, 2 * SECOND);
    let place = bench.unused_ram();
    assert!(board.bus_mut().write_ram((place - RAM_BASE) as usize, &JUMP_TO_ITSELF));
    let hung_at = board.now();
    board.registers()[15] = place;
    // Interrupts are still served: only the tasks get no turn.
    bench.watch(&mut board, 10 * SECOND);
    let end = board.end().expect("the watchdog bites").clone();
    assert_eq!((&end.cause, end.by), (&Cause::Stop(Stop::Watchdog { forced: false }), Reset::Bite));
    let waited = board.now() - hung_at;
    assert!((3 * SECOND..=5 * SECOND).contains(&waited), "{waited}");
    let next = bench.next_life(board);
    assert!(next.contains("the last life ended by the watchdog"), "{next}");
}

#[test]
fn a_fault_without_a_stack_to_report_it_on_is_left_to_the_watchdog() {
    let bench = Bench::new();
    let mut board = bench.board();
    bench.watch(&mut board, 2 * SECOND);
    board.registers()[13] = 0x1fff_f000;
    bench.watch(&mut board, 10 * SECOND);
    assert_eq!(board.end().expect("the watchdog bites").by, Reset::Bite);
    let next = bench.next_life(board);
    assert!(next.contains("the last life ended by the watchdog"), "{next}");
}

#[test]
fn after_a_power_cut_there_is_nothing_to_tell() {
    let bench = Bench::new();
    let mut board = bench.board();
    bench.watch(&mut board, SECOND);
    let mut next = Board::new(&bench.image, board.power_cut(), 2);
    let log = bench.watch(&mut next, SECOND);
    assert!(log.contains("life 2") && !log.contains("the last life"), "{log}");
}
