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

/// Executes two instructions as one and as two, from the same state. The first takes less than so many cycles, and
/// both together at least as many.
fn compare_fused(pair: &mut Pair, [first, second, third]: [u16; 3], cycles: u64) {
    const PLACE: u32 = 0x1000_0000;
    pair.shuffle();
    pair.bus.set_flash_visible(true);
    pair.ours.r[15] = PLACE;
    let mut parts = pair.ours.clone();
    let (one, two) = (decode(PLACE, first, 0), decode(PLACE + 2, second, third));
    let fused = fuse(PLACE, one, two);
    assert_ne!(fused, one, "{one:?} and {two:?} become one");
    let from = pair.bus.now;
    // The second of two accesses has its turn only if there is time for it.
    pair.ours.run(&mut pair.bus, &Code { ops: vec![fused, two] }, from + cycles);
    if pair.bus.stop.is_some() || pair.bus.attention || pair.ours.fault.is_some() {
        return; // An access to nowhere, or one that faults.
    }
    let both = pair.bus.now - from;
    pair.bus.now = from;
    let single = Code { ops: vec![one, two] };
    parts.run(&mut pair.bus, &single, from + 1);
    let limit = pair.bus.now + 1;
    parts.run(&mut pair.bus, &single, limit);
    assert_eq!(parts.r, pair.ours.r, "{fused:?}");
    assert_eq!((parts.flags(), pair.bus.now - from), (pair.ours.flags(), both), "{fused:?}");
}

#[test]
fn fused_instructions_do_what_their_parts_do() {
    let mut pair = Pair::new();
    for _ in 0..200 {
        for condition in 0..14u16 {
            // Targets outside the two instructions, so that nothing else is executed.
            for (compare, branch) in [(0x2801, 0xd004), (0x4288, 0xd010), (0x2900, 0xd020)] {
                compare_fused(&mut pair, [compare, branch | condition << 8, 0], 2);
            }
        }
        for (first, second) in
            [(0x6808, 0x6010), (0x6808, 0x6851), (0x6010, 0x6808), (0x6010, 0x6051), (0x9801, 0x9102)]
        {
            compare_fused(&mut pair, [first, second, 0], 3);
        }
        let (lsl, lsr, eor, add, ldr, str) = (0x0151, 0x09da, 0x4051, 0x18c9, 0x6808, 0x6010);
        for (first, second) in [(lsl, add), (lsr, lsl), (eor, lsr), (eor, lsl), (eor, str)] {
            compare_fused(&mut pair, [first, second, 0], 2);
        }
        for (first, second) in
            [(0x3109, 0x1c5a), (0x3109, 0x3c03), (0x4688, 0x464a), (0x4688, 0x3109), (0x2107, lsl), (add, str)]
        {
            compare_fused(&mut pair, [first, second, 0], 2);
        }
        compare_fused(&mut pair, [0x4688, 0xf000, 0xf810], 2);
        for (first, second) in [(ldr, eor), (str, 0x464a), (str, 0x2107)] {
            compare_fused(&mut pair, [first, second, 0], 3);
        }
    }
}
