//! The machine on a bench, the program of the radio's bus on it, and a second opinion on every instruction.

use super::*;

const OUT_BASE: u32 = 24;
const CLOCK: u32 = 29;
/// As `cyw43-pio` has it for a slow chip: out, jump; turn round; in, jump; wait, interrupt.
const BUS_PROGRAM: [u32; 8] = [0x6001, 0x1040, 0xe080, 0xa042, 0x5001, 0x0084, 0x20a0, 0xc000];
const AUTOMATIC: u32 = 1 << 16 | 1 << 17;

/// Pins that somebody drives from outside, and how they moved.
#[derive(Default)]
struct Bench {
    outside: u32,
    moves: Vec<(u64, u32, u32)>,
}

impl Pins for Bench {
    fn levels(&self) -> u32 {
        let (_, out, enable) = self.moves.last().copied().unwrap_or_default();
        (out & enable) | (self.outside & !enable)
    }

    fn drive(&mut self, at: u64, out: u32, enable: u32) {
        if self.moves.last().is_none_or(|(_, was, were)| (out, enable) != (*was, *were)) {
            self.moves.push((at, out, enable));
        }
    }
}

fn run(pio: &mut Pio, until: u64, pins: &mut Bench) {
    while pio.step(until, pins).is_some() {}
}

fn set(pio: &mut Pio, pins: &mut Bench, offset: u32, value: u32) {
    assert!(pio.write(0, offset, value, pins), "{offset:#x} ← {value:#x}");
    run(pio, 10, pins); // What was handed over may take a moment.
}

/// The radio's bus, with so many bits to write and to read, as its driver sets it up.
fn started(pins: &mut Bench, write_bits: u32, read_bits: u32) -> Pio {
    const PINS: u32 = 1 << 29 | 1 << 26 | 1 << 20 | OUT_BASE << 15 | CLOCK << 10 | OUT_BASE;
    let mut pio = Pio::default();
    for (at, code) in BUS_PROGRAM.iter().enumerate() {
        set(&mut pio, pins, 0x48 + 4 * at as u32, *code);
    }
    for (offset, value) in [
        (0xc8, 2 << 16),
        (0xcc, 7 << 12),
        (0xd0, AUTOMATIC),
        (0xdc, PINS | CLOCK << 5),
        (0xd8, 0xe081), // The clock is an output,
        (0xdc, PINS | OUT_BASE << 5),
        (0xd8, 0xe081), // and so is the data pin, for now.
        (0x10, write_bits - 1),
        (0xd8, 0x6020),
        (0x10, read_bits - 1),
        (0xd8, 0x6040),
        (0xd8, 0x0000),
        (0x00, 1),
    ] {
        set(&mut pio, pins, offset, value);
    }
    pio
}

#[test]
fn the_radios_program_writes_reads_waits_for_the_pin_and_raises_its_flag() {
    let mut pins = Bench::default();
    let mut pio = started(&mut pins, 32, 32);
    run(&mut pio, 1000, &mut pins);
    assert_eq!(pio.next_at(None, None), u64::MAX, "nothing to send: it stalls");
    pio.push(1000, 0xdead_beef);
    pins.outside = 1 << OUT_BASE;
    run(&mut pio, 1000 + 32 * 4 + 100, &mut pins);
    // What the other end sees whenever the clock rises while the data pin is driven.
    let rises = pins.moves.windows(2).filter(|pair| pair[0].1 & 1 << CLOCK == 0 && pair[1].1 & 1 << CLOCK != 0);
    let written: Vec<_> = rises.clone().filter(|pair| pair[1].2 & 1 << OUT_BASE != 0).map(|pair| pair[1]).collect();
    let word = written.iter().fold(0, |word, (_, out, _)| word << 1 | out >> OUT_BASE & 1);
    assert_eq!((written.len(), word), (32, 0xdead_beef));
    let apart: Vec<u64> = written.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    assert_eq!(apart, [4; 31], "two instructions a bit, two cycles each");
    assert_eq!(pio.pop(1228), None, "not all of it was read yet");
    run(&mut pio, 3000, &mut pins);
    assert_eq!(pio.pop(3000), Some(0xffff_ffff));
    assert_eq!(pio.read(3000, 0x30), Some(1), "the pin was high");
    assert_eq!(pio.read(3000, 0x134), Some(0));
    assert!(pio.write(3000, 0x12c, 1 << 8, &mut pins) && pio.lines()[0]);
    assert!(pio.write(3000, 0x30, 1, &mut pins) && !pio.lines()[0]);
}

#[test]
fn a_machine_that_waits_for_its_pin_goes_on_at_its_own_clock_edge() {
    let mut pins = Bench::default();
    let mut pio = started(&mut pins, 32, 32);
    pio.push(100, 0);
    run(&mut pio, 5000, &mut pins);
    assert_eq!((pio.pop(5000), pio.read(5000, 0x30)), (Some(0), Some(0)));
    run(&mut pio, 5001, &mut pins);
    pins.outside = 1 << OUT_BASE;
    run(&mut pio, 6000, &mut pins);
    assert_eq!(pio.read(6000, 0x30), Some(0), "nobody told it to look");
    pio.look_again(6001);
    assert!(pio.write(6001, 0x12c, 1 << 8, &mut pins));
    assert_eq!(pio.next_at(None, None), 6002);
    run(&mut pio, 6003, &mut pins);
    assert_eq!(pio.read(6003, 0x30), Some(0), "it has seen the pin");
    run(&mut pio, 6004, &mut pins);
    assert_eq!(pio.read(6004, 0x30), Some(1));
}

#[test]
fn dma_is_looked_at_no_later_than_it_may_be_done() {
    let mut pins = Bench::default();
    let mut pio = started(&mut pins, 32 * 9, 32);
    for _ in 0..4 {
        pio.push(1000, 0x5555_5555);
    }
    // Five words more than there is room for, and the first of all is taken at once.
    let mut left = 5;
    let mut now = 1000;
    let mut looks = 0;
    while left > 0 {
        now = pio.next_at(Some(left), None);
        run(&mut pio, now, &mut pins);
        looks += 1;
        while left > 0 && pio.wants() {
            pio.push(now, 0x5555_5555);
            left -= 1;
        }
    }
    assert!((1000 + 4 * 128 - 4..=1000 + 4 * 128 + 4).contains(&now), "{now}");
    assert!(looks < 40, "{looks} looks for five words");
}

#[test]
fn what_is_not_modelled_is_refused() {
    let mut pins = Bench::default();
    for (offset, value) in [(0xc8, 2 << 16 | 0x80 << 8), (0xd0, 1 << 30), (0xcc, 1 << 29), (0x00, 2), (0xe0, 1)] {
        assert!(!Pio::default().write(0, offset, value, &mut pins), "{offset:#x} ← {value:#x}");
    }
    for code in [0x60e8, 0xa025, 0xc020, 0xa081] {
        let mut pio = Pio::default();
        pio.push(0, 1);
        pio.write(0, 0xd0, AUTOMATIC, &mut pins);
        pio.write(0, 0xd8, code, &mut pins);
        run(&mut pio, 10, &mut pins);
        assert!(pio.is_unmodelled(), "{code:#06x}");
    }
}

/// Random programs on both: what the pins and the queues see must be the same, in the same order. How long a
/// machine takes to fill an empty register is not compared.
#[test]
fn another_emulator_sees_the_same_pins_and_words() {
    let mut dice = fastrand::Rng::with_seed(1);
    let (mut moved, mut words) = (0, 0);
    for round in 0..3000 {
        let program: Vec<u16> = (0..8).map(|_| instruction(&mut dice)).collect();
        let (right_in, right_out) = (u32::from(dice.bool()) << 18, u32::from(dice.bool()) << 19);
        let registers = [
            (0xcc, 7 << 12 | 3 << 24),
            (0xd0, AUTOMATIC | right_in | right_out | dice.u32(0..32) << 20 | dice.u32(0..32) << 25),
            (0xdc, 1 << 29 | 3 << 26 | 5 << 20 | dice.u32(0..4) << 15 | 20 << 10 | 8 << 5),
        ];
        let (outside, given) = (dice.u32(..) & 0xffff, [dice.u32(..), dice.u32(..), dice.u32(..)]);
        let mine = seen_by_us(&program, &registers, outside, &given);
        let theirs = seen_by_them(&program, &registers, outside, &given);
        let what = format!("round {round}: {program:04x?} {registers:x?} {outside:x}");
        moved += (0..3).map(|kind| agreed(&mine[kind], &theirs[kind], &what)).sum::<usize>();
        words += agreed(&mine[3], &theirs[3], &what);
    }
    assert!(moved > 3000 && words > 1500, "{moved} moves, {words} words");
}

fn agreed(ours: &[u32], theirs: &[u32], what: &str) -> usize {
    let common = ours.len().min(theirs.len());
    assert_eq!(ours[..common], theirs[..common], "{what}");
    common
}

/// Any instruction that both know. No delays: they are only time. Nothing that looks at the register that fills
/// itself, or fills it once more: when it does so is not compared. And nothing in which the other one is not what
/// the manual says: pushes on a threshold, counting down from zero, bits that are missing for pins, and writes
/// to the input register.
fn instruction(dice: &mut fastrand::Rng) -> u16 {
    let side = u16::from(dice.bool()) << 12;
    let any = |dice: &mut fastrand::Rng, from: &[u16]| from[dice.usize(0..from.len())];
    side | match dice.u16(0..8) {
        0 => any(dice, &[0, 1, 3, 5, 6]) << 5 | dice.u16(0..8),
        1 => 0x2020 | dice.u16(0..2) << 7 | dice.u16(0..4),
        2 => 0x4000 | any(dice, &[0, 1, 2, 3, 6]) << 5 | dice.u16(0..32),
        3 => 0x6000 | any(dice, &[0, 1, 2, 3, 4]) << 5 | dice.u16(5..32),
        4 => 0x8000 | any(dice, &[0x00, 0x20]),
        5 => 0xa000 | any(dice, &[0, 1, 2]) << 5 | dice.u16(0..3) << 3 | any(dice, &[0, 1, 2, 3, 6]),
        6 => 0xc000 | dice.u16(0..2) << 6 | dice.u16(0..8),
        _ => 0xe000 | any(dice, &[0, 1, 2, 4]) << 5 | dice.u16(0..32),
    }
}

/// How pins were set by side, how otherwise, and which way; and the words.
type Seen = [Vec<u32>; 4];
/// Pins that programs move; both sides begin with all of them low.
const BY_SIDE: u32 = 1 << 20;
const OTHERWISE: u32 = 0x1f | 7 << 8;
const ALL_LOW: [u32; 2] = [0xa003, 0xe000];
const CYCLES: u64 = 400;

fn seen_by_us(program: &[u16], registers: &[(u32, u32)], outside: u32, given: &[u32]) -> Seen {
    let mut pins = Bench { outside, moves: Vec::new() };
    let mut pio = Pio::default();
    for (at, code) in program.iter().enumerate() {
        assert!(pio.write(0, 0x48 + 4 * at as u32, (*code).into(), &mut pins));
    }
    registers.iter().for_each(|(offset, value)| assert!(pio.write(0, *offset, *value, &mut pins)));
    ALL_LOW.iter().for_each(|code| assert!(pio.write(0, 0xd8, *code, &mut pins)));
    given.iter().for_each(|word| pio.push(0, *word));
    assert!(pio.write(0, 0x00, 1, &mut pins));
    let mut words = Vec::new();
    for now in 0..CYCLES {
        run(&mut pio, now, &mut pins);
        words.extend(pio.pop(now));
    }
    seen(&pins.moves.iter().map(|(_, out, enable)| (*out, *enable)).collect::<Vec<_>>(), words)
}

fn seen_by_them(program: &[u16], registers: &[(u32, u32)], outside: u32, given: &[u32]) -> Seen {
    let mut pio = picoem_common::PioBlock::new();
    for (at, code) in program.iter().enumerate() {
        pio.write32(0x48 + 4 * at as u32, (*code).into(), 0);
    }
    registers.iter().for_each(|(offset, value)| pio.write32(*offset, *value, 0));
    ALL_LOW.iter().for_each(|code| pio.write32(0xd8, *code, 0));
    given.iter().for_each(|word| pio.write32(0x10, *word, 0));
    pio.write32(0x00, 1, 0);
    let (mut moves, mut words) = (vec![(0, 0)], Vec::new());
    for _ in 0..CYCLES {
        pio.step((pio.pad_out & pio.pad_oe) | (outside & !pio.pad_oe));
        moves.push((pio.pad_out, pio.pad_oe));
        if !pio.sm[0].rx_fifo_empty() {
            words.push(pio.read32(0x20));
        }
    }
    seen(&moves, words)
}

fn seen(moves: &[(u32, u32)], words: Vec<u32>) -> Seen {
    let changes = |of: &dyn Fn(&(u32, u32)) -> u32| {
        let mut values: Vec<u32> = moves.iter().map(of).collect();
        values.dedup();
        values
    };
    [changes(&|(out, _)| out & BY_SIDE), changes(&|(out, _)| out & OTHERWISE), changes(&|(_, enable)| *enable), words]
}
