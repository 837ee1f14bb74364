//! Interrupts and exceptions: which one is next, entering, returning, and the registers about them.
//!
//! Priorities preempt as they do on the chip; of equal ones the lowest number goes first.

use super::Cpu;
use crate::bus::Bus;

const COUNTER_MASK: u32 = 0x00ff_ffff;
const VECTOR_KEY: u32 = 0x05fa_0000;
const RESET_REQUEST: u32 = 1 << 2;
const PEND_SV: u32 = 14;
const HARD_FAULT: u32 = 3;
/// Interrupts of the chip are numbered from here.
const FIRST_INTERRUPT: u32 = 16;
/// The priority of a program that handles nothing.
const IDLE: u8 = u8::MAX;
const PRIORITY_MASK: u8 = 0xc0;
const ENTRY_CYCLES: u64 = 15;
const RETURN_CYCLES: u64 = 13;
/// A stacked status says so if the stack was moved to a multiple of eight.
const PADDED: u32 = 1 << 9;
const THUMB: u32 = 1 << 24;

/// The processor's own registers: NVIC, system control, and a SysTick that counts without interrupting.
#[derive(Clone, Debug, Default)]
pub struct Private {
    /// Where the vectors are.
    pub vectors: u32,
    pending: u32,
    enabled: u32,
    priority: [u8; 32],
    pend_sv: bool,
    pend_sv_priority: u8,
    system_priorities: [u32; 2],
    /// What is being handled, outermost first.
    active: Vec<u32>,
    control: u32,
    tick_control: u32,
    tick_reload: u32,
    tick_begun: u64,
    wants_reset: bool,
}

impl Private {
    /// These lines are high: their interrupts are pending, except those that are being handled.
    pub fn raise(&mut self, lines: u32) {
        let handled = self.active.iter().filter(|number| **number >= FIRST_INTERRUPT);
        self.pending |= lines & !handled.fold(0, |all, number| all | 1 << (number - FIRST_INTERRUPT));
    }

    /// Whether an exception waits that the program wants.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.pending & self.enabled != 0 || self.pend_sv
    }

    /// Whether the program asked for a reset.
    #[must_use]
    pub fn wants_reset(&self) -> bool {
        self.wants_reset
    }

    /// The exception that would be taken now, if its priority is high enough.
    fn next(&self) -> Option<u32> {
        let mut waiting = self.pending & self.enabled;
        let mut best = self.pend_sv.then_some((self.pend_sv_priority, PEND_SV));
        while waiting != 0 {
            let line = waiting.trailing_zeros();
            let candidate = (self.priority[line as usize], FIRST_INTERRUPT + line);
            best = Some(best.map_or(candidate, |best| best.min(candidate)));
            waiting &= waiting - 1;
        }
        let present = self.active.iter().map(|number| self.priority_of(*number)).min().unwrap_or(IDLE);
        best.filter(|(priority, _)| *priority < present).map(|(_, number)| number)
    }

    fn priority_of(&self, number: u32) -> u8 {
        match number {
            PEND_SV => self.pend_sv_priority,
            // Nothing preempts it: no priority is below zero.
            HARD_FAULT => 0,
            other => self.priority[(other.saturating_sub(FIRST_INTERRUPT) & 31) as usize],
        }
    }

    fn take(&mut self, number: u32) {
        match number {
            PEND_SV => self.pend_sv = false,
            other => self.pending &= !(1 << (other - FIRST_INTERRUPT)),
        }
        self.active.push(number);
    }

    /// Reads a register.
    #[must_use]
    pub fn read(&self, now: u64, offset: u32) -> Option<u32> {
        Some(match offset {
            0xe010 => self.tick_control,
            0xe014 => self.tick_reload,
            0xe018 if self.tick_control & 1 == 0 => 0,
            0xe018 => self.tick_reload - ((now - self.tick_begun) % (u64::from(self.tick_reload) + 1)) as u32,
            0xe01c => 0,
            0xe100 | 0xe180 => self.enabled,
            0xe200 | 0xe280 => self.pending,
            0xe400..=0xe41c => {
                let first = (offset - 0xe400) as usize;
                u32::from_le_bytes([0, 1, 2, 3].map(|i| self.priority[first + i]))
            }
            0xed00 => 0x410c_c601, // Cortex-M0+ r0p1.
            0xed04 => self.active.last().copied().unwrap_or(0) | u32::from(self.pend_sv) << 28,
            0xed08 => self.vectors,
            0xed0c => 0xfa05_0000,
            0xed10 => self.control,
            0xed14 => 0x208,
            0xed1c | 0xed20 => self.system_priorities[usize::from(offset == 0xed20)],
            // No debugger is attached.
            0xed24 | 0xedf0 => 0,
            _ => return None,
        })
    }

    /// Writes a register.
    pub fn write(&mut self, now: u64, offset: u32, value: u32) -> bool {
        match offset {
            // Counting is all it does here: bit 1 would interrupt.
            0xe010 if value & 2 == 0 => {
                self.tick_control = value & 5;
                self.tick_begun = now;
            }
            0xe014 => self.tick_reload = value & COUNTER_MASK,
            0xe018 => self.tick_begun = now,
            0xe100 => self.enabled |= value,
            0xe180 => self.enabled &= !value,
            0xe200 => self.pending |= value,
            0xe280 => self.pending &= !value,
            0xe400..=0xe41c => {
                let first = (offset - 0xe400) as usize;
                for (place, byte) in self.priority[first..].iter_mut().zip(value.to_le_bytes()) {
                    *place = byte & PRIORITY_MASK;
                }
            }
            // SysTick's pending bits are not modelled.
            0xed04 if value & (1 << 26) == 0 => {
                self.pend_sv = (self.pend_sv && value & 1 << 27 == 0) || value & 1 << 28 != 0;
            }
            0xed08 => self.vectors = value & !0xff,
            0xed0c if value & 0xffff_0000 == VECTOR_KEY => self.wants_reset |= value & RESET_REQUEST != 0,
            // Pending interrupts that wake without being enabled are not modelled.
            0xed10 if value & 0x10 == 0 => self.control = value & 0x06,
            0xed1c => self.system_priorities[0] = value & 0xc000_0000,
            0xed20 => {
                self.system_priorities[1] = value & 0xc0c0_0000;
                self.pend_sv_priority = (value >> 16) as u8 & PRIORITY_MASK;
            }
            _ => return false,
        }
        true
    }
}

impl Cpu {
    /// Enters the handler of whatever is pending and may be handled now. Returns whether one was entered.
    pub fn take_exception(&mut self, bus: &mut Bus) -> bool {
        if self.mask {
            return false;
        }
        let Some(number) = bus.private.next() else { return false };
        bus.private.take(number);
        self.enter(bus, number);
        true
    }

    /// Enters the handler of a fault at this instruction, whatever is masked. Returns false if the fault is the
    /// handler's own: then the processor locks up.
    ///
    /// A frame that would lie where the program itself forbade it is not written. The handler may touch everything:
    /// protection is off while it runs.
    pub fn take_fault(&mut self, bus: &mut Bus, pc: u32) -> bool {
        if self.exception == HARD_FAULT {
            return false;
        }
        self.sleep = None;
        self.fault = None;
        self.r[15] = pc;
        bus.private.active.push(HARD_FAULT);
        self.enter(bus, HARD_FAULT);
        bus.lift_guard();
        true
    }

    fn enter(&mut self, bus: &mut Bus, number: u32) {
        bus.has_event = true;
        let was_thread = self.exception == 0;
        let uses_process = was_thread && self.uses_process_stack;
        let padded = self.r[13] & 4 != 0;
        let frame = (self.r[13] & !7).wrapping_sub(32);
        let status = self.flags() | THUMB | self.exception | if padded { PADDED } else { 0 };
        let words = [self.r[0], self.r[1], self.r[2], self.r[3], self.r[12], self.r[14], self.r[15], status];
        for (word, at) in words.into_iter().zip((frame..).step_by(4)) {
            if number == HARD_FAULT {
                bus.put32(at, word);
            } else {
                bus.store32(at, word);
            }
        }
        self.r[13] = frame;
        if uses_process {
            std::mem::swap(&mut self.r[13], &mut self.other_stack);
        }
        self.r[14] = match (was_thread, uses_process) {
            (false, _) => 0xffff_fff1,
            (true, false) => 0xffff_fff9,
            (true, true) => 0xffff_fffd,
        };
        self.exception = number;
        self.r[15] = bus.load32(bus.private.vectors.wrapping_add(4 * number)) & !1;
        bus.now += ENTRY_CYCLES;
    }

    pub(super) fn return_from_exception(&mut self, bus: &mut Bus, to: u32) {
        bus.private.active.pop();
        bus.has_event = true;
        // What is still high becomes pending again.
        bus.attention = true;
        let to_process = match to & 0xf {
            0x1 | 0x9 => false,
            0xd => true,
            _ => {
                self.fault = Some(super::Fault::State);
                return;
            }
        };
        self.uses_process_stack = to_process || (to & 0xf == 1 && self.uses_process_stack);
        if to_process {
            std::mem::swap(&mut self.r[13], &mut self.other_stack);
        }
        let frame = self.r[13];
        let [r0, r1, r2, r3, r12, r14, r15, status] =
            [0, 4, 8, 12, 16, 20, 24, 28].map(|at| bus.load32(frame.wrapping_add(at)));
        (self.r[0], self.r[1], self.r[2], self.r[3], self.r[12]) = (r0, r1, r2, r3, r12);
        (self.r[14], self.r[15]) = (r14, r15 & !1);
        self.r[13] = frame.wrapping_add(if status & PADDED != 0 { 36 } else { 32 });
        self.set_flags(status);
        self.exception = status & 0x3f;
        bus.now += RETURN_CYCLES;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_priority_goes_first_and_may_preempt() {
        let mut private = Private::default();
        assert!(private.write(0, 0xe100, 1 << 13 | 1 << 3 | 1 << 2) && private.write(0, 0xe40c, 0xc0 << 8));
        assert!(private.write(0, 0xe400, 0x80 << 24 | 0x80 << 16));
        private.raise(1 << 13);
        assert_eq!(private.next(), Some(16 + 13));
        private.take(16 + 13);
        private.raise(1 << 13 | 1 << 3 | 1 << 2);
        assert_eq!(private.next(), Some(16 + 2), "preempts; of equal ones the lower number");
        private.take(16 + 2);
        assert_eq!(private.next(), None, "3 is not above 2, and 13 is being handled");
        private.active.pop();
        assert_eq!(private.next(), Some(16 + 3));
    }

    #[test]
    fn only_what_is_enabled_counts() {
        let mut private = Private::default();
        private.raise(1 << 5);
        assert!(!private.is_pending() && private.next().is_none());
        assert!(private.write(0, 0xe100, 1 << 5) && private.is_pending());
        assert!(private.write(0, 0xe280, 1 << 5) && !private.is_pending());
    }

    #[test]
    fn a_reset_needs_the_key() {
        let mut private = Private::default();
        assert!(!private.write(0, 0xed0c, 4) && !private.wants_reset());
        assert!(private.write(0, 0xed0c, VECTOR_KEY | 4) && private.wants_reset());
    }

    #[test]
    fn the_tick_counts_down_and_around_and_may_not_interrupt() {
        let mut private = Private::default();
        assert!(private.write(0, 0xe014, 9) && private.write(100, 0xe010, 5) && !private.write(0, 0xe010, 7));
        assert_eq!([100, 103, 109, 110].map(|now| private.read(now, 0xe018).unwrap()), [9, 6, 0, 9]);
    }
}
