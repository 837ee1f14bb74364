//! The processor: a Cortex-M0+ with its exceptions, at the cycles of its reference manual.
//!
//! Instructions come decoded; between them the processor looks up only if the bus asks for it. Faults
//! are reported to the board, which lets the program's own handler run.

mod exceptions;
mod execute;
mod many;
pub mod op;
mod shape;
mod sprint;

pub use exceptions::Private;

use crate::bus::{Bus, XIP_BASE};
use op::{CONDITIONS, Op, Reg, decode, is_wide};
use shape::{Place, places};

/// A program, decoded, from the beginning of flash.
#[derive(Debug, Default)]
pub struct Code {
    ops: Vec<Op>,
    places: Vec<Place>,
}

impl Code {
    /// Decodes what stands at `base`; the words that a program loads beside itself are taken in.
    #[must_use]
    pub fn new(base: u32, bytes: &[u8]) -> Code {
        let half = |at: usize| bytes.get(at..at + 2).map_or(0, |half| u16::from_le_bytes([half[0], half[1]]));
        let known = |address: u32| {
            let at = address.wrapping_sub(base) as usize;
            bytes.get(at..at + 4).and_then(|word| word.first_chunk()).map(|word| u32::from_le_bytes(*word))
        };
        let one = |at: usize| match decode(base.wrapping_add(at as u32), half(at), half(at + 2)) {
            Op::LdrAt { t, address } => {
                known(address).map_or(Op::LdrAt { t, address }, |value| Op::LdrKnown { t, value })
            }
            other => other,
        };
        let ops: Vec<Op> = (0..bytes.len() / 2).map(|index| one(2 * index)).collect();
        // Whoever executes fast counts places from the beginning of flash.
        let places = if base == XIP_BASE { places(&ops) } else { Vec::new() };
        Code { ops, places }
    }

    /// How many bytes of flash it takes.
    #[must_use]
    pub fn len(&self) -> usize {
        2 * self.ops.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }
}

/// Why the processor sleeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sleep {
    /// Until an event.
    Event,
    /// Until an interrupt.
    Interrupt,
}

/// A fault of the processor itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It does not know the instruction, or it is one that asks for help.
    Undefined,
    /// An access to an address that is not a multiple of its size.
    Unaligned,
    /// A jump to what is not Thumb code, or a return to nowhere.
    State,
}

/// The processor.
#[derive(Clone, Debug)]
pub struct Cpu {
    /// R0 to R12, the stack pointer in use, the link register, the next instruction. So many that a
    /// byte is always an index: behind these sixteen, one is always zero, and one is never read.
    pub r: [u32; 256],
    /// The last result: the zero flag is set if its lower half is zero, the negative flag by the upper bit of either
    /// half. So one number holds both, and also what no result is: negative and zero.
    nz: u64,
    c: bool,
    /// Bit 31 is the overflow flag.
    v: u32,
    mask: bool,
    /// The exception that is being handled, or 0.
    exception: u32,
    /// In thread mode the process stack is used.
    uses_process_stack: bool,
    unprivileged: bool,
    /// The stack pointer that is not in use.
    other_stack: u32,
    /// It sleeps.
    pub sleep: Option<Sleep>,
    /// It faulted.
    pub fault: Option<Fault>,
}

impl Cpu {
    /// A processor after a reset, with the vectors that it has read.
    #[must_use]
    pub fn new(stack: u32, entry: u32) -> Cpu {
        let mut r = [0; 256];
        (r[13], r[14], r[15]) = (stack & !3, u32::MAX, entry & !1);
        Cpu {
            r,
            nz: 1,
            c: false,
            v: 0,
            mask: false,
            exception: 0,
            uses_process_stack: false,
            unprivileged: false,
            other_stack: 0,
            sleep: None,
            fault: None,
        }
    }

    /// Whether interrupts are masked.
    #[must_use]
    pub fn is_masked(&self) -> bool {
        self.mask
    }

    /// The flags as they stand in the program status register.
    #[must_use]
    #[inline(always)]
    pub fn flags(&self) -> u32 {
        let negative = (self.nz >> 32 | self.nz) as u32 >> 31;
        negative << 31 | u32::from(self.nz as u32 == 0) << 30 | u32::from(self.c) << 29 | self.v >> 31 << 28
    }

    /// Sets the flags.
    pub fn set_flags(&mut self, status: u32) {
        self.nz = u64::from(status >> 31) << 63 | u64::from(status & 1 << 30 == 0);
        self.c = status & 1 << 29 != 0;
        self.v = status << 3;
    }

    /// Whether the flags meet a condition, by its number in the architecture.
    #[inline(always)]
    fn meets(&self, condition: u8) -> bool {
        CONDITIONS[usize::from(condition & 15)] >> (self.flags() >> 28) & 1 != 0
    }

    #[inline(always)]
    fn reg(&self, number: Reg) -> u32 {
        self.r[usize::from(number)]
    }

    #[inline(always)]
    fn set(&mut self, number: Reg, value: u32) {
        self.r[usize::from(number)] = value;
    }

    /// Decodes an instruction that is not in flash.
    #[cold]
    fn fetch(&mut self, bus: &mut Bus, pc: u32) -> Op {
        let first = bus.load16(pc);
        let second = if is_wide(first) { bus.load16(pc.wrapping_add(2)) } else { 0 };
        decode(pc, first, second)
    }

    fn read_special(&self, from: u8) -> Option<u32> {
        let is_process = self.uses_process_stack && self.exception == 0;
        Some(match from {
            0 => self.flags(),
            3 => self.flags() | self.exception,
            5 => self.exception,
            8 => {
                if is_process {
                    self.other_stack
                } else {
                    self.r[13]
                }
            }
            9 => {
                if is_process {
                    self.r[13]
                } else {
                    self.other_stack
                }
            }
            16 => self.mask.into(),
            20 => u32::from(self.unprivileged) | u32::from(self.uses_process_stack) << 1,
            _ => return None,
        })
    }

    fn write_special(&mut self, to: u8, value: u32) -> bool {
        let is_process = self.uses_process_stack && self.exception == 0;
        match to {
            0 | 3 => self.set_flags(value),
            5 => {}
            8 if is_process => self.other_stack = value & !3,
            8 => self.r[13] = value & !3,
            9 if is_process => self.r[13] = value & !3,
            9 => self.other_stack = value & !3,
            16 => self.mask = value & 1 != 0,
            20 => {
                let process = value & 2 != 0;
                self.unprivileged = value & 1 != 0;
                if self.exception == 0 && process != self.uses_process_stack {
                    std::mem::swap(&mut self.r[13], &mut self.other_stack);
                    self.uses_process_stack = process;
                }
            }
            _ => return false,
        }
        true
    }
}

/// Adds with carry: sum, carry, overflow.
#[inline(always)]
fn add(a: u32, b: u32, carry: bool) -> (u32, bool, bool) {
    let (sum, first) = a.overflowing_add(b);
    let (sum, second) = sum.overflowing_add(carry.into());
    (sum, first | second, (a ^ sum) & (b ^ sum) & 1 << 31 != 0)
}

#[cfg(test)]
#[path = "cpu_tests.rs"]
mod tests;
