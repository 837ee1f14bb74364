//! The CYW43439 of a Pico W: its bus (gSPI on one data line, bit by bit), its backplane, and behind that
//! whatever its own program does ([`program`]), in the range of one access point.
//!
//! A bit is taken when the clock rises and given when it falls. What the driver downloads is kept
//! and not executed: any bytes will do, but they must be there before the core is started.

pub mod events;
pub mod program;

use crate::bus::CYCLES_PER_US;
use program::{Mac, Program};

/// Where the chip is wired to.
const PIN_POWER: u32 = 23;
/// Data in both directions; while the chip is not selected, its interrupt.
pub const PIN_DATA: u32 = 24;
const PIN_SELECT: u32 = 25;
const PIN_CLOCK: u32 = 29;

/// From power to the first answer, and from the start of the core to its fast clock.
const POWER_UP: u64 = 50_000 * CYCLES_PER_US;
const CLOCK_UP: u64 = 29_000 * CYCLES_PER_US;
const RAM_LEN: usize = 512 * 1024;
const CHIP_ID: u16 = 43439;

// Registers of the bus: what it is, its interrupts, its status, its tests, and how long reads are padded.
const CONTROL: usize = 0x00;
const STATUS_ENABLE: usize = 0x02;
const INTERRUPT: usize = 0x04;
const INTERRUPT_ENABLE: usize = 0x06;
const STATUS: usize = 0x08;
const TEST_READ: usize = 0x14;
const DELAY_BACKPLANE: usize = 0x1d;
const BUS_LEN: usize = 0x20;
const TEST_PATTERN: u32 = 0xfeed_bead;
/// Words of 32 bits; a big-endian bus, a clock with another phase or polarity.
const WIDE: u8 = 1;
const OTHER_BUS: u8 = 2 | 4 | 8;
const INTERRUPT_HIGH: u8 = 0x20;
/// Bits of status and interrupts: the program takes packets, and has one.
const READY: u32 = 0x20;
const PACKET: u32 = 0x100;
const PACKET_WAITS: u16 = 0x20;

// Registers of the backplane's function, from here on.
const FUNCTION: u32 = 0x1_0000;
const WINDOW: usize = 0x0a;
const CLOCK: usize = 0x0e;
const ALP_WANTED: u8 = 0x08;
const ALP: u8 = 0x40;
const HT: u8 = 0x80;

/// The address that was burnt into the radio of the board at this position.
#[must_use]
pub fn mac(position: u16) -> Mac {
    let [high, low] = position.to_be_bytes();
    [0x28, 0xcd, 0xc1, 0, high, low]
}

/// The chip.
#[derive(Clone, Debug)]
pub struct Cyw43 {
    powered_at: Option<u64>,
    levels: u32,
    phase: Phase,
    /// The word on the wire, and how many of its bits are through.
    word: u32,
    bits: u32,
    /// The level of the data line while the chip drives it.
    data: bool,
    bus: [u8; BUS_LEN],
    function: [u8; 0x20],
    /// The two cores' control and reset registers.
    processor: Core,
    memory: Core,
    ram: Box<[u8]>,
    program: Program,
    unmodelled: Option<String>,
}

/// What is on the wire.
#[derive(Clone, Debug)]
enum Phase {
    /// Not selected, or over.
    Idle,
    /// The command.
    Command,
    /// What is written.
    Writing { command: Command, bytes: Vec<u8> },
    /// What is read; then the status.
    Answering { words: Vec<u32>, given: usize },
}

#[derive(Clone, Copy, Debug)]
struct Command {
    function: u32,
    address: u32,
    length: usize,
}

/// A core's wrapper.
#[derive(Clone, Copy, Debug, Default)]
struct Core {
    control: u8,
    reset: u8,
}

impl Cyw43 {
    /// A chip with this address burnt in.
    #[must_use]
    pub fn new(mac: Mac) -> Cyw43 {
        let mut bus = [0; BUS_LEN];
        bus[TEST_READ..TEST_READ + 4].copy_from_slice(&TEST_PATTERN.to_le_bytes());
        Cyw43 {
            powered_at: None,
            levels: 0,
            phase: Phase::Idle,
            word: 0,
            bits: 0,
            data: false,
            bus,
            function: [0; 0x20],
            processor: Core::default(),
            memory: Core::default(),
            ram: vec![0; RAM_LEN].into(),
            program: Program::new(mac),
            unmodelled: None,
        }
    }

    /// The same chip without power: it keeps its address and where it is.
    #[must_use]
    pub fn without_power(&self) -> Cyw43 {
        Cyw43 {
            program: self.program.anew(),
            unmodelled: self.unmodelled.clone(),
            levels: self.levels,
            ..Cyw43::new(self.program.mac())
        }
    }

    /// What its own program does.
    #[must_use]
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The same, for whoever moves its access point.
    pub fn program_mut(&mut self) -> &mut Program {
        &mut self.program
    }

    /// What was downloaded, from the beginning of its RAM to its end.
    #[must_use]
    pub fn ram(&self) -> &[u8] {
        &self.ram
    }

    /// The processor or its PIO moved these pins, at this time.
    pub fn pins_moved(&mut self, at: u64, changed: u32, levels: u32) {
        self.levels = levels;
        let is = |pin: u32| levels & 1 << pin != 0;
        let has_moved = |pin: u32| changed & 1 << pin != 0;
        if has_moved(PIN_POWER) {
            *self = self.without_power();
            self.powered_at = is(PIN_POWER).then_some(at);
        }
        if self.powered_at.is_none_or(|since| at < since + POWER_UP) {
            return;
        }
        if has_moved(PIN_SELECT) {
            self.phase = if is(PIN_SELECT) { Phase::Idle } else { Phase::Command };
            (self.word, self.bits, self.data) = (0, 0, false);
        }
        if has_moved(PIN_CLOCK) && !is(PIN_SELECT) {
            if is(PIN_CLOCK) { self.take_bit(at, is(PIN_DATA)) } else { self.give_bit() }
        }
    }

    /// The level that it drives its data line to, while nobody else does.
    #[must_use]
    pub fn data_pin(&self) -> bool {
        if self.levels & 1 << PIN_SELECT == 0 {
            return self.data;
        }
        let enabled = u16::from_le_bytes([self.bus[INTERRUPT_ENABLE], self.bus[INTERRUPT_ENABLE + 1]]);
        self.powered_at.is_some() && self.bus[CONTROL] & INTERRUPT_HIGH != 0 && self.interrupts() & enabled != 0
    }

    /// A frame arrives by air.
    pub fn receive(&mut self, frame: &[u8]) {
        self.program.receive(frame);
    }

    /// When it has something to do.
    #[must_use]
    pub fn next_at(&self) -> u64 {
        self.program.next_at()
    }

    /// A frame that has left by now, and when.
    pub fn departed(&mut self, now: u64) -> Option<(u64, Vec<u8>)> {
        self.program.departed(now)
    }

    /// Time goes on.
    pub fn advance(&mut self, now: u64) {
        self.program.advance(now);
    }

    /// Frames that found no room.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.program.dropped()
    }

    /// What was asked of it that is not modelled.
    #[must_use]
    pub fn unmodelled(&self) -> Option<&str> {
        self.unmodelled.as_deref().or(self.program.unmodelled())
    }

    fn refuse(&mut self, what: String) {
        self.unmodelled.get_or_insert(what);
    }

    fn take_bit(&mut self, at: u64, bit: bool) {
        if matches!(self.phase, Phase::Idle | Phase::Answering { .. }) {
            return;
        }
        self.word = self.word << 1 | u32::from(bit);
        self.bits += 1;
        if self.bits == 32 {
            let word = self.swapped(self.word);
            (self.word, self.bits) = (0, 0);
            self.take_word(at, word);
        }
    }

    fn take_word(&mut self, at: u64, word: u32) {
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Command => {
                let command =
                    Command { function: word >> 28 & 3, address: word >> 11 & 0x1_ffff, length: word as usize & 0x7ff };
                if word & 1 << 30 == 0 {
                    self.refuse("an address that stays".into());
                }
                self.phase = match word >> 31 {
                    1 => Phase::Writing { command, bytes: Vec::new() },
                    _ => Phase::Answering { words: self.read(at, command), given: 0 },
                };
            }
            Phase::Writing { command, mut bytes } => {
                bytes.extend(word.to_le_bytes());
                if bytes.len() < command.length {
                    self.phase = Phase::Writing { command, bytes };
                    return;
                }
                bytes.truncate(command.length);
                self.write(at, command, &bytes);
                self.phase = Phase::Answering { words: Vec::new(), given: 0 };
            }
            other => self.phase = other,
        }
    }

    fn give_bit(&mut self) {
        let Phase::Answering { words, given } = &mut self.phase else { return };
        if self.bits == 0 {
            let next = words.get(*given).copied();
            let is_status = *given == words.len() && self.bus[STATUS_ENABLE] & 1 != 0;
            *given += 1;
            let word = next.unwrap_or_else(|| if is_status { self.status() } else { 0 });
            (self.word, self.bits) = (self.swapped(word), 32);
        }
        self.bits -= 1;
        self.data = self.word >> self.bits & 1 == 1;
    }

    /// Until it is told otherwise, the chip speaks words of 16 bits.
    fn swapped(&self, word: u32) -> u32 {
        if self.bus[CONTROL] & WIDE != 0 { word } else { word.rotate_left(16) }
    }

    fn status(&self) -> u32 {
        let waiting = self.program.waiting().map_or(0, |length| PACKET | (length as u32) << 9);
        waiting | if self.program.is_up() { READY } else { 0 }
    }

    fn interrupts(&self) -> u16 {
        let waits = if self.program.waiting().is_some() { PACKET_WAITS } else { 0 };
        waits | u16::from_le_bytes([self.bus[INTERRUPT], self.bus[INTERRUPT + 1]])
    }

    fn read(&mut self, at: u64, command: Command) -> Vec<u32> {
        self.program.advance(at);
        let Command { function, address, length } = command;
        let mut padding = 0;
        let bytes: Vec<u8> = match function {
            0 => (0..length).map(|index| self.read_bus(address as usize + index)).collect(),
            1 => {
                padding = usize::from(self.bus[DELAY_BACKPLANE]) / 4;
                (0..length as u32).map(|index| self.read_backplane(at, address, index)).collect()
            }
            2 => {
                let packet = self.program.take().unwrap_or_default();
                if packet.len() != length {
                    self.refuse(format!("a packet of {} bytes read as one of {length}", packet.len()));
                }
                packet
            }
            _ => {
                self.refuse(format!("function {function}"));
                Vec::new()
            }
        };
        let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
        std::iter::repeat_n(0, padding).chain(bytes.chunks(4).map(word)).collect()
    }

    fn write(&mut self, at: u64, command: Command, bytes: &[u8]) {
        self.program.advance(at);
        let Command { function, address, .. } = command;
        match function {
            0 => bytes.iter().zip(address as usize..).for_each(|(byte, register)| self.write_bus(register, *byte)),
            1 => bytes.iter().zip(0..).for_each(|(byte, index)| self.write_backplane(at, address, index, *byte)),
            2 => self.program.packet(at, bytes),
            _ => self.refuse(format!("function {function}")),
        }
    }

    fn read_bus(&mut self, register: usize) -> u8 {
        match register {
            INTERRUPT..INTERRUPT_ENABLE => self.interrupts().to_le_bytes()[register - INTERRUPT],
            STATUS..0x0c => self.status().to_le_bytes()[register - STATUS],
            0..BUS_LEN => self.bus[register],
            _ => {
                self.refuse(format!("the bus's register {register:#x}"));
                0
            }
        }
    }

    fn write_bus(&mut self, register: usize, byte: u8) {
        match register {
            CONTROL if byte & OTHER_BUS == 0 => self.bus[CONTROL] = byte,
            INTERRUPT..INTERRUPT_ENABLE => self.bus[register] &= !byte,
            1..INTERRUPT | INTERRUPT_ENABLE..STATUS | 0x18..BUS_LEN => self.bus[register] = byte,
            _ => self.refuse(format!("the bus's register {register:#x} ← {byte:#04x}")),
        }
    }

    /// The address on the backplane of a byte that is seen through the window.
    fn through_window(&self, address: u32, index: u32) -> u32 {
        let [low, middle, high] = [0, 1, 2].map(|at| u32::from(self.function[WINDOW + at]));
        (high << 24 | middle << 16 | low << 8) + (address & 0x7fff) + index
    }

    fn read_backplane(&mut self, at: u64, address: u32, index: u32) -> u8 {
        if address >= FUNCTION {
            let register = (address - FUNCTION + index) as usize;
            return match register {
                CLOCK => self.function[CLOCK] | self.clocks(at),
                0x08..0x10 => self.function[register],
                _ => {
                    self.refuse(format!("the backplane's register {register:#x}"));
                    0
                }
            };
        }
        let place = self.through_window(address, index);
        match place {
            0..0x8_0000 => self.ram[place as usize],
            0x1800_0000 | 0x1800_0001 => CHIP_ID.to_le_bytes()[place as usize & 1],
            0x1810_3408 => self.processor.control,
            0x1810_3800 => self.processor.reset,
            0x1810_4408 => self.memory.control,
            0x1810_4800 => self.memory.reset,
            _ => {
                self.refuse(format!("{place:#010x} on the backplane"));
                0
            }
        }
    }

    fn write_backplane(&mut self, at: u64, address: u32, index: u32, byte: u8) {
        if address >= FUNCTION {
            let register = (address - FUNCTION + index) as usize;
            match register {
                CLOCK => self.function[CLOCK] = byte & !(ALP | HT),
                0x08..0x10 => self.function[register] = byte,
                _ => self.refuse(format!("the backplane's register {register:#x} ← {byte:#04x}")),
            }
            return;
        }
        let place = self.through_window(address, index);
        match place {
            0..0x8_0000 => self.ram[place as usize] = byte,
            0x1810_3408 => self.processor.control = byte,
            0x1810_3800 => self.reset_processor(at, byte),
            0x1810_4408 => self.memory.control = byte,
            0x1810_4800 => self.memory.reset = byte,
            // How its RAM is mapped, and which interrupts its program raises at the host.
            0x1800_4010..0x1800_4014 | 0x1800_4044..0x1800_4048 | 0x1800_2024..0x1800_2028 => {}
            _ => self.refuse(format!("{place:#010x} on the backplane ← {byte:#04x}")),
        }
    }

    /// Leaving its reset, the core begins with what was downloaded.
    fn reset_processor(&mut self, at: u64, byte: u8) {
        let starts = self.processor.reset == 1 && byte == 0;
        self.processor.reset = byte;
        if !starts {
            return;
        }
        match self.is_downloaded() {
            true => self.program.start(at + CLOCK_UP),
            false => self.refuse("a start without a program, or without its calibration".into()),
        }
    }

    /// A program at the beginning, and at the end how many words of calibration stand before that, twice.
    fn is_downloaded(&self) -> bool {
        let [.., a, b, c, d] = *self.ram else { return false };
        let (words, check) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
        words > 0 && words == !check && self.ram.iter().take(256).any(|byte| *byte != 0)
    }

    fn clocks(&self, at: u64) -> u8 {
        let started = self.program.starts_at();
        let slow = self.function[CLOCK] & ALP_WANTED != 0 || started.is_some();
        let fast = started.is_some_and(|up_at| at >= up_at);
        (u8::from(slow) * ALP) | (u8::from(fast) * HT)
    }
}

#[cfg(test)]
#[path = "cyw43/cyw43_tests.rs"]
mod tests;
