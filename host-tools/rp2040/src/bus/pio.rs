//! PIO0 with its first state machine, clock edge by clock edge.
//!
//! A machine that stalls is left alone until what it waits for may have come; one that runs is
//! caught up with when somebody looks, or when a DMA channel or an interrupt may depend on it.

pub mod machine;

use machine::{Machine, Outcome, Pins};

const INSTRUCTIONS: usize = 32;
/// Interrupt bits: a word was received, there is room for one, and the machines' four flags.
const RECEIVED: u32 = 1;
const ROOM: u32 = 1 << 4;
const FLAGS_AT: u32 = 8;

/// The block.
#[derive(Clone, Debug)]
pub struct Pio {
    machine: Machine,
    memory: [u16; INSTRUCTIONS],
    is_enabled: bool,
    divider: u32,
    flags: u8,
    bypass: u32,
    interrupt_enable: [u32; 2],
    interrupt_force: [u32; 2],
    /// An instruction that was handed to the machine from outside, and could not yet be executed.
    handed: Option<u16>,
    is_stalled: bool,
    /// When the machine executes its next instruction.
    next_at: u64,
    /// The most bits that one instruction of the program shifts out, and in.
    widest_out: u32,
    widest_in: u32,
    is_unmodelled: bool,
    is_used: bool,
}

impl Default for Pio {
    fn default() -> Pio {
        Pio {
            machine: Machine::default(),
            memory: [0; INSTRUCTIONS],
            is_enabled: false,
            divider: 1 << 16,
            flags: 0,
            bypass: 0,
            interrupt_enable: [0; 2],
            interrupt_force: [0; 2],
            handed: None,
            is_stalled: false,
            next_at: 0,
            widest_out: 1,
            widest_in: 1,
            is_unmodelled: false,
            is_used: false,
        }
    }
}

impl Pio {
    /// Reads a register. The machine must have been caught up with.
    pub fn read(&mut self, now: u64, offset: u32) -> Option<u32> {
        let machine = &self.machine;
        Some(match offset {
            0x00 => u32::from(self.is_enabled),
            0x04 => {
                // The other three machines have nothing and lack nothing.
                let bits = [(0, machine.is_full()), (8, machine.received.is_empty()), (16, !machine.has_room())];
                let other = 0x0e00_0e00 | u32::from(machine.sending.is_empty()) << 24;
                bits.iter().fold(other, |word, (bit, set)| word | u32::from(*set) << bit)
            }
            0x08 => 0,
            0x0c => (machine.sending.len() | machine.received.len() << 4) as u32,
            0x20 => self.pop(now).unwrap_or(0),
            0x30 => self.flags.into(),
            0x38 => self.bypass,
            0xc8 => self.divider,
            0xcc => machine.exec_control | u32::from(self.handed.is_some()) << 31,
            0xd0 => machine.shift_control,
            0xd4 => machine.pc.into(),
            0xd8 => self.memory[usize::from(machine.pc)].into(),
            0xdc => machine.pin_control,
            0x128 => self.raw(),
            0x12c | 0x138 => self.interrupt_enable[line(offset)],
            0x130 | 0x13c => self.interrupt_force[line(offset)],
            0x134 | 0x140 => self.status(line(offset)),
            _ => return None,
        })
    }

    /// Writes a register; false if there is no such register or it asks for what is not modelled. The
    /// machine must have been caught up with.
    pub fn write(&mut self, now: u64, offset: u32, value: u32, pins: &mut impl Pins) -> bool {
        self.is_used = true;
        match offset {
            0x00 if value & 0xe == 0 => self.control(now, value),
            0x10 => self.push(now, value),
            0x30 => {
                self.flags &= !(value as u8);
                self.look_again(now);
            }
            0x34 => {
                self.flags |= value as u8;
                self.look_again(now);
            }
            0x38 => self.bypass = value,
            0x48..=0xc4 => {
                self.memory[(offset as usize - 0x48) / 4] = value as u16;
                self.widest_out = widest(&self.memory, 0x6000);
                self.widest_in = widest(&self.memory, 0x4000);
            }
            // No fractions: their jitter is not modelled.
            0xc8 if value & 0xff00 == 0 => self.divider = value,
            0xcc => self.machine.exec_control = value & !(1 << 31),
            0xd0 => self.machine.shift_control = value,
            0xd8 => {
                self.handed = Some(value as u16);
                (self.is_stalled, self.next_at) = (false, now);
                self.tick(pins);
            }
            0xdc => self.machine.pin_control = value,
            0x12c | 0x138 => self.interrupt_enable[line(offset)] = value & 0xfff,
            0x130 | 0x13c => self.interrupt_force[line(offset)] = value & 0xfff,
            _ => return false,
        }
        self.machine.is_modelled() && !self.is_unmodelled
    }

    /// Whether the program has any use for it: most have not, and need not wait for it.
    #[must_use]
    pub fn is_used(&self) -> bool {
        self.is_used
    }

    /// Whether an instruction was executed that is not modelled.
    #[must_use]
    pub fn is_unmodelled(&self) -> bool {
        self.is_unmodelled
    }

    /// The first of the two interrupt lines, and the second.
    #[must_use]
    pub fn lines(&self) -> [bool; 2] {
        [0, 1].map(|line| self.status(line) != 0)
    }

    /// Executes the next instruction if it is due by now, and says when that was.
    pub fn step(&mut self, now: u64, pins: &mut impl Pins) -> Option<u64> {
        let at = self.next_at;
        (self.is_running() && at <= now).then(|| {
            self.tick(pins);
            at
        })
    }

    /// The earliest time at which so many words more may have been taken or received, if DMA waits for
    /// them, or a flag may have been raised, if somebody waits for that.
    #[must_use]
    pub fn next_at(&self, to_send: Option<u32>, to_receive: Option<u32>) -> u64 {
        if !self.is_running() {
            return u64::MAX;
        }
        let sent = to_send.map(|words| match words.saturating_sub((4 - self.machine.sending.len()) as u32) {
            0 => 1,
            more => (self.machine.bits_to_pull() + 32 * (more - 1)).div_ceil(self.widest_out.max(1)),
        });
        let received = to_receive
            .map(|words| (self.machine.bits_to_push() + 32 * words.saturating_sub(1)).div_ceil(self.widest_in.max(1)));
        let awaited = self.interrupt_enable.iter().any(|bits| *bits != 0).then_some(1);
        let steps = [sent, received, awaited].into_iter().flatten().min();
        steps.map_or(u64::MAX, |steps| self.next_at + u64::from(steps.saturating_sub(1)) * self.period())
    }

    /// Whether DMA may bring another word.
    #[must_use]
    pub fn wants(&self) -> bool {
        self.machine.has_room()
    }

    /// Queues a word; one too many is lost, as on the chip.
    pub fn push(&mut self, at: u64, word: u32) {
        if self.machine.has_room() {
            self.machine.sending.push_back(word);
        }
        self.look_again(at);
    }

    /// Takes a received word, if there is one.
    pub fn pop(&mut self, at: u64) -> Option<u32> {
        let word = self.machine.received.pop_front();
        self.look_again(at);
        word
    }

    /// What the machine waits for may have come: it looks at its next clock edge.
    pub fn look_again(&mut self, now: u64) {
        if self.is_stalled {
            self.is_stalled = false;
            let behind = now.saturating_sub(self.next_at).div_ceil(self.period());
            self.next_at += behind * self.period();
        }
    }

    fn control(&mut self, now: u64, value: u32) {
        let was_enabled = self.is_enabled;
        self.is_enabled = value & 1 != 0;
        if value & 1 << 4 != 0 {
            self.machine.restart();
            self.handed = None;
        }
        if self.is_enabled && (!was_enabled || value & 1 << 8 != 0) {
            (self.is_stalled, self.next_at) = (false, now + self.period());
        }
    }

    fn is_running(&self) -> bool {
        (self.is_enabled || self.handed.is_some()) && !self.is_stalled && !self.is_unmodelled
    }

    fn tick(&mut self, pins: &mut impl Pins) {
        let code = self.handed.unwrap_or(self.memory[usize::from(self.machine.pc)]);
        let had_words = self.machine.sending.len();
        let (outcome, cycles) = self.machine.step(self.next_at, code, &mut self.flags, pins);
        self.next_at += self.period();
        match outcome {
            Outcome::Done => {
                if self.handed.take().is_none() {
                    self.machine.advance();
                }
                self.next_at += (cycles - 1) * self.period();
            }
            // Whoever took a word from the queue goes on with it.
            Outcome::Stalled => self.is_stalled = self.machine.sending.len() == had_words,
            Outcome::Unmodelled => self.is_unmodelled = true,
        }
    }

    /// The chip's cycles from one instruction to the next.
    fn period(&self) -> u64 {
        match self.divider >> 16 {
            0 => 0x1_0000,
            whole => whole.into(),
        }
    }

    fn raw(&self) -> u32 {
        let received = if self.machine.received.is_empty() { 0 } else { RECEIVED };
        let room = if self.machine.has_room() { ROOM } else { 0 };
        received | room | 0xe0 | u32::from(self.flags & 0xf) << FLAGS_AT
    }

    fn status(&self, line: usize) -> u32 {
        (self.raw() & self.interrupt_enable[line]) | self.interrupt_force[line]
    }
}

fn line(offset: u32) -> usize {
    (offset as usize - 0x12c) / 12
}

/// The most bits that any instruction of this kind shifts.
fn widest(memory: &[u16], kind: u16) -> u32 {
    let bits = |code: &u16| if code & 31 == 0 { 32 } else { u32::from(code & 31) };
    memory.iter().filter(|code| *code & 0xe000 == kind).map(bits).max().unwrap_or(1)
}

#[cfg(test)]
#[path = "pio/pio_tests.rs"]
mod tests;
