//! One state machine of a PIO: nine kinds of instructions, two shift registers and two queues.
//!
//! It looks at its pins before it moves them: what an instruction samples is what was there when its
//! own clock edge was still on its way.

use std::collections::VecDeque;

/// Depth of a queue that is not joined with the other one.
const DEPTH: usize = 4;
const PIN_COUNT: u32 = 32;

/// The pins as the machine sees them.
pub trait Pins {
    /// The level of every pin.
    fn levels(&self) -> u32;
    /// The machine drives these pins to these levels, at this time.
    fn drive(&mut self, at: u64, out: u32, enable: u32);
}

/// How an instruction went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It is done.
    Done,
    /// It must wait for its queue, its pin or its flag.
    Stalled,
    /// It is not modelled.
    Unmodelled,
}

/// A state machine. Its flags are the whole block's, and handed to it.
#[derive(Clone, Debug)]
pub struct Machine {
    /// EXECCTRL, SHIFTCTRL and PINCTRL.
    pub exec_control: u32,
    /// See [`Machine::exec_control`].
    pub shift_control: u32,
    /// See [`Machine::exec_control`].
    pub pin_control: u32,
    /// Where it is.
    pub pc: u8,
    /// To be sent.
    pub sending: VecDeque<u32>,
    /// Received.
    pub received: VecDeque<u32>,
    x: u32,
    y: u32,
    shifted_in: u32,
    in_count: u32,
    shifting_out: u32,
    out_count: u32,
    out: u32,
    enable: u32,
    has_jumped: bool,
}

impl Default for Machine {
    fn default() -> Machine {
        Machine {
            exec_control: 31 << 12,
            shift_control: 3 << 18,
            pin_control: 5 << 26,
            pc: 0,
            sending: VecDeque::new(),
            received: VecDeque::new(),
            x: 0,
            y: 0,
            shifted_in: 0,
            in_count: 0,
            shifting_out: 0,
            out_count: 32, // Empty.
            out: 0,
            enable: 0,
            has_jumped: false,
        }
    }
}

impl Machine {
    /// Whether this machine may be configured so.
    #[must_use]
    pub fn is_modelled(&self) -> bool {
        // Sticky or inline output, side-set on directions; queues that are joined.
        self.exec_control & (1 << 17 | 1 << 18 | 1 << 29) == 0 && self.shift_control & (3 << 30) == 0
    }

    /// Whether a word more can be queued for sending.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.sending.len() < DEPTH
    }

    /// Whether no word more can be received.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.received.len() >= DEPTH
    }

    /// How many bits must be shifted out before the next word is taken from the queue.
    #[must_use]
    pub fn bits_to_pull(&self) -> u32 {
        self.pull_threshold().saturating_sub(self.out_count)
    }

    /// How many bits must be shifted in before the next word is received.
    #[must_use]
    pub fn bits_to_push(&self) -> u32 {
        self.push_threshold().saturating_sub(self.in_count)
    }

    /// Forgets where it was in its words; registers and queues stay.
    pub fn restart(&mut self) {
        (self.in_count, self.shifted_in, self.out_count) = (0, 0, 32);
    }

    /// Executes one instruction; says how that went, and how many cycles it takes.
    pub fn step(&mut self, at: u64, code: u16, flags: &mut u8, pins: &mut impl Pins) -> (Outcome, u64) {
        let levels = pins.levels();
        let delay = self.side_set(code);
        self.has_jumped = false;
        let outcome = self.execute(code, levels, flags);
        pins.drive(at, self.out, self.enable);
        (outcome, 1 + u64::from(delay))
    }

    /// Moves on to the next instruction, unless the last one jumped.
    pub fn advance(&mut self) {
        let (top, bottom) = (self.exec_control >> 12 & 31, self.exec_control >> 7 & 31);
        if !self.has_jumped {
            self.pc = if u32::from(self.pc) == top { bottom as u8 } else { (self.pc + 1) % 32 };
        }
    }

    /// The upper bits of the delay field drive pins; what is left is the delay.
    fn side_set(&mut self, code: u16) -> u32 {
        let field = u32::from(code >> 8 & 31);
        let count = (self.pin_control >> 29).min(5);
        let delay = field & ((1 << (5 - count)) - 1);
        let has_enable = self.exec_control & 1 << 30 != 0;
        let is_set = count > 0 && (!has_enable || field & 1 << 4 != 0);
        if is_set {
            let value = field >> (5 - count);
            let width = count - u32::from(has_enable);
            put(&mut self.out, self.pin_control >> 10 & 31, width, value);
        }
        delay
    }

    fn execute(&mut self, code: u16, levels: u32, flags: &mut u8) -> Outcome {
        let (kind, low) = (u32::from(code >> 5 & 7), u32::from(code & 31));
        let bits = if low == 0 { 32 } else { low };
        let mut refill = true;
        let outcome = match code >> 13 {
            0 => self.jump(kind, low, levels),
            1 => self.wait(code, levels, flags),
            2 => self.shift_in(kind, bits, levels),
            3 => {
                refill = false;
                self.shift_out(kind, bits)
            }
            4 if code & 0x80 == 0 => self.push(code),
            4 => {
                refill = false;
                self.pull(code)
            }
            5 => self.copy(kind, low, levels),
            6 => interrupt(code, flags),
            _ => self.set(kind, low),
        };
        // The output register fills itself while it is not being used.
        if refill && self.shift_control & 1 << 17 != 0 && self.out_count >= self.pull_threshold() {
            self.take();
        }
        outcome
    }

    fn jump(&mut self, condition: u32, to: u32, levels: u32) -> Outcome {
        let (x, y) = (self.x, self.y);
        let is_taken = match condition {
            0 => true,
            1 => x == 0,
            2 => x != 0,
            3 => y == 0,
            4 => y != 0,
            5 => x != y,
            6 => levels >> (self.exec_control >> 24 & 31) & 1 == 1,
            _ => self.out_count < self.pull_threshold(),
        };
        self.x = x.wrapping_sub(u32::from(condition == 2));
        self.y = y.wrapping_sub(u32::from(condition == 4));
        if is_taken {
            self.pc = to as u8;
            self.has_jumped = true;
        }
        Outcome::Done
    }

    fn wait(&self, code: u16, levels: u32, flags: &mut u8) -> Outcome {
        let (wanted, index) = (code & 0x80 != 0, u32::from(code & 31));
        let is_high = match code >> 5 & 3 {
            0 => levels >> index & 1 == 1,
            1 => levels >> ((self.in_base() + index) % PIN_COUNT) & 1 == 1,
            2 if index < 8 => {
                let is_raised = *flags >> index & 1 == 1;
                *flags &= !(u8::from(wanted) << index);
                is_raised
            }
            _ => return Outcome::Unmodelled,
        };
        if is_high == wanted { Outcome::Done } else { Outcome::Stalled }
    }

    fn shift_in(&mut self, source: u32, bits: u32, levels: u32) -> Outcome {
        let does_push = self.shift_control & 1 << 16 != 0;
        if does_push && self.in_count + bits >= self.push_threshold() && self.is_full() {
            return Outcome::Stalled;
        }
        let value = match source {
            0 => levels.rotate_right(self.in_base()),
            1 => self.x,
            2 => self.y,
            3 => 0,
            6 => self.shifted_in,
            7 => self.shifting_out,
            _ => return Outcome::Unmodelled,
        } & mask(bits);
        let to_the_right = self.shift_control & 1 << 18 != 0;
        self.shifted_in = match (to_the_right, bits) {
            (_, 32) => value,
            (true, _) => self.shifted_in >> bits | value << (32 - bits),
            (false, _) => self.shifted_in << bits | value,
        };
        self.in_count = (self.in_count + bits).min(32);
        if does_push && self.in_count >= self.push_threshold() {
            self.give();
        }
        Outcome::Done
    }

    fn shift_out(&mut self, destination: u32, bits: u32) -> Outcome {
        let does_pull = self.shift_control & 1 << 17 != 0;
        if does_pull && self.out_count >= self.pull_threshold() {
            self.take();
            return Outcome::Stalled; // Even if there was a word: using it takes another cycle.
        }
        let to_the_right = self.shift_control & 1 << 19 != 0;
        let word = self.shifting_out;
        let (value, rest) = match (to_the_right, bits) {
            (_, 32) => (word, 0),
            (true, _) => (word & mask(bits), word >> bits),
            (false, _) => (word >> (32 - bits), word << bits),
        };
        (self.shifting_out, self.out_count) = (rest, (self.out_count + bits).min(32));
        let (base, width) = (self.pin_control & 31, self.pin_control >> 20 & 63);
        match destination {
            0 => put(&mut self.out, base, width, value),
            1 => self.x = value,
            2 => self.y = value,
            3 => {}
            4 => put(&mut self.enable, base, width, value),
            5 => {
                self.pc = value as u8 & 31;
                self.has_jumped = true;
            }
            6 => (self.shifted_in, self.in_count) = (value, bits),
            _ => return Outcome::Unmodelled, // To be executed.
        }
        if does_pull && self.out_count >= self.pull_threshold() {
            self.take();
        }
        Outcome::Done
    }

    fn push(&mut self, code: u16) -> Outcome {
        let (only_full, does_block) = (code & 0x40 != 0, code & 0x20 != 0);
        if only_full && self.in_count < self.push_threshold() {
            return Outcome::Done;
        }
        match (self.is_full(), does_block) {
            (false, _) => self.give(),
            (true, true) => return Outcome::Stalled,
            (true, false) => (self.shifted_in, self.in_count) = (0, 0),
        }
        Outcome::Done
    }

    fn pull(&mut self, code: u16) -> Outcome {
        let (only_empty, does_block) = (code & 0x40 != 0, code & 0x20 != 0);
        // A register that fills itself and is full stays as it is.
        let is_filled = self.shift_control & 1 << 17 != 0 && self.out_count == 0;
        if is_filled || only_empty && self.out_count < self.pull_threshold() {
            return Outcome::Done;
        }
        match (self.sending.is_empty(), does_block) {
            (false, _) => self.take(),
            (true, true) => return Outcome::Stalled,
            (true, false) => (self.shifting_out, self.out_count) = (self.x, 0),
        }
        Outcome::Done
    }

    fn copy(&mut self, destination: u32, low: u32, levels: u32) -> Outcome {
        let value = match low & 7 {
            0 => levels.rotate_right(self.in_base()),
            1 => self.x,
            2 => self.y,
            3 => 0,
            6 => self.shifted_in,
            7 => self.shifting_out,
            _ => return Outcome::Unmodelled, // The status.
        };
        let value = match low >> 3 {
            0 => value,
            1 => !value,
            2 => value.reverse_bits(),
            _ => return Outcome::Unmodelled,
        };
        match destination {
            0 => put(&mut self.out, self.pin_control & 31, self.pin_control >> 20 & 63, value),
            1 => self.x = value,
            2 => self.y = value,
            5 => {
                self.pc = value as u8 & 31;
                self.has_jumped = true;
            }
            6 => (self.shifted_in, self.in_count) = (value, 0),
            7 => (self.shifting_out, self.out_count) = (value, 0),
            _ => return Outcome::Unmodelled,
        }
        Outcome::Done
    }

    fn set(&mut self, destination: u32, value: u32) -> Outcome {
        let (base, width) = (self.pin_control >> 5 & 31, self.pin_control >> 26 & 7);
        match destination {
            0 => put(&mut self.out, base, width, value),
            1 => self.x = value,
            2 => self.y = value,
            4 => put(&mut self.enable, base, width, value),
            _ => return Outcome::Unmodelled,
        }
        Outcome::Done
    }

    fn take(&mut self) {
        if let Some(word) = self.sending.pop_front() {
            (self.shifting_out, self.out_count) = (word, 0);
        }
    }

    fn give(&mut self) {
        self.received.push_back(self.shifted_in);
        (self.shifted_in, self.in_count) = (0, 0);
    }

    fn in_base(&self) -> u32 {
        self.pin_control >> 15 & 31
    }

    fn push_threshold(&self) -> u32 {
        threshold(self.shift_control >> 20)
    }

    fn pull_threshold(&self) -> u32 {
        threshold(self.shift_control >> 25)
    }
}

fn interrupt(code: u16, flags: &mut u8) -> Outcome {
    let (clears, waits, index) = (code & 0x40 != 0, code & 0x20 != 0, code & 31);
    match (clears, waits) {
        _ if index >= 8 => return Outcome::Unmodelled, // Counted from the machine's own number.
        (true, _) => *flags &= !(1 << index),
        (false, false) => *flags |= 1 << index,
        (false, true) => return Outcome::Unmodelled,
    }
    Outcome::Done
}

/// Five bits, of which none means all thirty-two.
fn threshold(field: u32) -> u32 {
    if field & 31 == 0 { 32 } else { field & 31 }
}

fn mask(bits: u32) -> u32 {
    u32::MAX >> (32 - bits)
}

/// Puts the lowest bits of a value to so many pins from a base on, round the end.
fn put(pins: &mut u32, base: u32, width: u32, value: u32) {
    if (1..=32).contains(&width) {
        let mask = mask(width);
        *pins = (*pins & !mask.rotate_left(base)) | (value & mask).rotate_left(base);
    }
}
