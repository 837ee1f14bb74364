//! Every instruction against the processor core of another emulator, in random states.

use super::*;
use crate::{device::Device, flash::Flash, rom, w5500::W5500};
use rp2040_emu::{bus::Bus as TheirBus, core::CortexM0Plus};

/// Instructions are put here, and data there.
const CODE: u32 = 0x2001_0000;
const DATA: u32 = 0x2002_0000;
const DATA_LEN: u32 = 0x2000;
const STATES: usize = 6;

struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 32) as u32
    }

    /// Pointers, small numbers, and anything.
    fn value(&mut self) -> u32 {
        match self.next() % 8 {
            0..=3 => DATA + 0x800 + ((self.next() % 0x1000) & !3),
            4 | 5 => self.next() % 256,
            6 => u32::MAX - self.next() % 4,
            _ => self.next(),
        }
    }
}

struct Pair {
    ours: Cpu,
    bus: Bus,
    theirs: CortexM0Plus,
    their_bus: TheirBus,
    dice: Dice,
}

impl Pair {
    fn new() -> Pair {
        let mut pair = Pair {
            ours: Cpu::new(0, 0),
            bus: Bus::new(Flash::default(), Device::W5500(W5500::default()), 1),
            theirs: CortexM0Plus::new(),
            their_bus: TheirBus::default(),
            dice: Dice(1),
        };
        for at in (CODE..DATA + DATA_LEN + 0x1000).step_by(4) {
            let word = pair.dice.next();
            pair.bus.store32(at, word);
            pair.their_bus.write32(at, word);
        }
        pair.bus.set_flash_visible(false); // The other one has none.
        pair.their_bus.memory.load_rom(&rom::image());
        pair
    }

    fn shuffle(&mut self) {
        self.ours = Cpu::new(DATA + 0x1000 + self.dice.next() % 64 * 4, CODE);
        for number in (0..13).chain([14]) {
            self.ours.r[number] = self.dice.value();
        }
        let flags = self.dice.next() & 0xf000_0000;
        self.ours.set_flags(flags);
        self.theirs.halt();
        self.theirs.wake(); // Forgets a fault of the last one.
        self.theirs.regs.r.copy_from_slice(&self.ours.r[..16]);
        self.theirs.regs.xpsr = 1 << 24 | flags;
        self.theirs.regs.primask = 0;
        self.theirs.regs.msp = self.ours.r[13];
        self.bus.stop = None;
        self.bus.attention = false;
    }

    /// Executes one instruction on both and compares; an access to nowhere compares nothing.
    fn compare(&mut self, first: u16, second: u16) {
        self.shuffle();
        let before = self.ours.clone();
        for (at, half) in [(CODE, first), (CODE + 2, second)] {
            self.bus.store16(at, half);
            self.their_bus.write16(at, half);
        }
        let limit = self.bus.now + 1;
        self.ours.run(&mut self.bus, &Code::default(), limit);
        if is_wide(first) {
            self.theirs.execute_one_wide_with_bus(first, second, &mut self.their_bus);
        } else {
            self.theirs.execute_one_with_bus(first, &mut self.their_bus);
        }
        let nowhere = self.their_bus.bus_fault();
        self.their_bus.clear_bus_fault();
        if self.bus.stop.is_some() || nowhere {
            return;
        }
        let what = format!("{first:#06x} {second:#06x}: {:?} from {:x?}", decode(CODE, first, second), &before.r[..16]);
        assert_eq!(self.ours.fault.is_some(), self.theirs.has_pending_fault(), "{what}");
        if self.ours.fault.is_some() {
            return;
        }
        for number in (0..13).chain([14, 15]) {
            assert_eq!(self.ours.r[number], self.theirs.regs.r[number], "r{number}, {what}");
        }
        assert_eq!(self.ours.r[13], self.theirs.regs.r[13] & !3, "the stack pointer, {what}");
        assert_eq!(self.ours.flags(), self.theirs.regs.xpsr & 0xf000_0000, "flags, {what}");
        assert_eq!(u32::from(self.ours.mask), self.theirs.regs.primask, "{what}");
    }

    fn compare_memory(&mut self) {
        for at in (DATA - 0x1000..DATA + DATA_LEN + 0x1000).step_by(4) {
            assert_eq!(self.bus.load32(at), self.their_bus.read32(at), "memory at {at:#x}");
        }
    }
}

/// Events and sleep are the board's, and a comparison with the program counter is nobody's.
fn is_comparable(op: Op) -> bool {
    !matches!(op, Op::Wfe | Op::Wfi | Op::Sev | Op::Cmp { n: 15, .. } | Op::Cmp { m: 15, .. } | Op::Blx { m: 15 })
}

#[test]
fn every_short_instruction_does_what_another_emulator_does() {
    let mut pair = Pair::new();
    // Masking interrupts has one encoding each way; what others of its kind do is unpredictable.
    let is_predictable = |first: &u16| first >> 8 != 0xb6 || matches!(first, 0xb662 | 0xb672);
    let short = (0..=u16::MAX).filter(|first| !is_wide(*first) && is_comparable(decode(CODE, *first, 0)));
    let short = short.filter(is_predictable);
    for first in short {
        for _ in 0..STATES {
            pair.compare(first, 0);
        }
    }
    pair.compare_memory();
}

#[test]
fn long_instructions_do_so_too() {
    let mut pair = Pair::new();
    for _ in 0..20_000 {
        let (first, second) = (0xf000 | pair.dice.next() as u16 & 0x7ff, 0xd000 | pair.dice.next() as u16 & 0x2fff);
        pair.compare(first, second);
    }
    for special in [0, 5, 8, 16, 20] {
        for register in 0..13 {
            pair.compare(0xf3ef, 0x8000 | register << 8 | special);
            pair.compare(0xf380 | register, 0x8800 | special & !20);
        }
    }
    for barrier in [0x8f4f, 0x8f5f, 0x8f6f] {
        pair.compare(0xf3bf, barrier);
    }
}

/// Whoever executes word by word, and whoever goes one by one through the same program.
struct Race {
    sprinter: (Cpu, Bus, Code),
    walker: (Cpu, Bus, Code),
}

impl Race {
    fn new(dice: &mut Dice) -> Race {
        let bus = || {
            let mut bus = Bus::new(Flash::default(), Device::W5500(W5500::default()), 1);
            // The stack may not be touched below where the data is.
            for (register, value) in [(0x9c, DATA - 0x1000), (0xa0, 1 << 28 | 11 << 1 | 1), (0x94, 5)] {
                bus.store32(0xe000_ed00 + register, value);
            }
            (Cpu::new(0, 0), bus, Code::default())
        };
        let mut race = Race { sprinter: bus(), walker: bus() };
        for at in (DATA..DATA + DATA_LEN).step_by(4) {
            let word = dice.value();
            race.both(|_, bus| bus.store32(at, word));
        }
        race
    }

    fn both(&mut self, mut f: impl FnMut(&mut Cpu, &mut Bus)) {
        for (cpu, bus, _) in [&mut self.sprinter, &mut self.walker] {
            f(cpu, bus);
        }
    }

    /// Both run up to the same moments, and are in the same state each time. Returns how many there were.
    fn run(&mut self, program: &[u16], dice: &mut Dice) -> usize {
        let bytes: Vec<u8> = program.iter().flat_map(|half| half.to_le_bytes()).collect();
        self.sprinter.2 = Code::new(XIP_BASE, &bytes);
        self.walker.2 = Code { ops: self.sprinter.2.ops.clone(), places: Vec::new() };
        let values: Vec<u32> = (0..15).map(|_| dice.value()).collect();
        let (stack, flags) = (DATA + 0x1000 + dice.next() % 64 * 4, dice.next());
        self.both(|cpu, bus| {
            *cpu = Cpu::new(stack, XIP_BASE);
            cpu.r[..13].copy_from_slice(&values[..13]);
            cpu.r[14] = XIP_BASE | 1;
            cpu.set_flags(flags);
            bus.stop = None;
            bus.attention = false;
        });
        for moment in 0..40 {
            let limit = self.walker.1.now + u64::from(1 + dice.next() % 24);
            for (cpu, bus, code) in [&mut self.sprinter, &mut self.walker] {
                cpu.run(bus, code, limit);
            }
            let state = |(cpu, bus, _): &(Cpu, Bus, Code)| {
                let rest = (cpu.flags(), cpu.fault, cpu.sleep, cpu.is_masked(), bus.now, bus.pc, bus.stop.clone());
                (cpu.r[..16].to_vec(), cpu.r[usize::from(shape::ZERO)], rest, bus.attention, bus.has_event)
            };
            assert_eq!(state(&self.sprinter), state(&self.walker), "{:?}", self.walker.2.ops);
            if self.walker.1.attention || self.walker.0.fault.is_some() || self.walker.0.sleep.is_some() {
                return moment;
            }
        }
        40
    }
}

/// An instruction that programs have often, with anything as its operands; jumps stay near.
fn usual(dice: &mut Dice, length: u16) -> u16 {
    let low = |dice: &mut Dice, bits: u32| dice.next() as u16 & ((1 << bits) - 1);
    match dice.next() % 25 {
        0 => low(dice, 13),                        // Shifts, sums and differences.
        1 | 2 => 0x1800 | low(dice, 11),           // Sums and differences.
        3..=5 => 0x2000 | low(dice, 13),           // With a constant.
        6..=8 => 0x4000 | low(dice, 10),           // Of two registers.
        9 => 0x4600 | low(dice, 6),                // Moves.
        10 => 0x4800 | low(dice, 8) << 3,          // Words beside the program.
        11 => 0x5000 | low(dice, 12),              // Memory at the sum of two.
        12..=15 => 0x6000 | low(dice, 13),         // Memory, by words and bytes.
        16 | 17 => 0x9000 | low(dice, 12) & !0xe0, // The stack.
        18 => 0xa800 | low(dice, 11),
        19 => 0xb400 | (low(dice, 1) << 11) | low(dice, 9) & !0x100, // Several, from and to the stack.
        20 => 0xc000 | low(dice, 12),
        21 => 0xb200 | low(dice, 8),
        22 => 0xd000 | (low(dice, 4) % 14) << 8 | (low(dice, 8) % length) & 0xf,
        23 => [0x4400, 0x4600][dice.next() as usize % 2] | low(dice, 8), // Sums and moves of high registers.
        _ => [0x4770, 0xe000, 0xb082, 0xb002, 0xba08, 0xb662, 0xb672][dice.next() as usize % 7],
    }
}

#[test]
fn words_do_what_their_letters_do_whenever_they_are_interrupted() {
    let mut dice = Dice(3);
    let mut race = Race::new(&mut dice);
    let mut moments = 0;
    for _ in 0..20_000 {
        let length = 4 + dice.next() as u16 % 28;
        let program: Vec<u16> = (0..length).map(|_| usual(&mut dice, length)).collect();
        moments += race.run(&program, &mut dice);
    }
    assert!(moments > 30_000, "most programs run for a while: {moments}");
    for at in (DATA..DATA + DATA_LEN).step_by(4) {
        let [ours, theirs] = [&mut race.sprinter, &mut race.walker].map(|(_, bus, _)| bus.load32(at));
        assert_eq!(ours, theirs, "memory at {at:#x}");
    }
}
