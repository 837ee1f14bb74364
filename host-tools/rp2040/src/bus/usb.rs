//! The USB controller as a device: its registers, the 4 KiB of memory that it shares with the
//! processor, and what it answers to a host's packets.
//!
//! An endpoint has one buffer. Whoever may touch it is said by the AVAILABLE bit of its control word,
//! which the program sets and the controller clears with the packet. Host mode, double buffers and
//! isochronous endpoints are not modelled.

/// Where the shared memory is.
pub const MEMORY_BASE: u32 = 0x5010_0000;
/// Where the registers are.
pub const REGISTERS_BASE: u32 = 0x5011_0000;
/// The interrupt line.
pub const INTERRUPT: u32 = 5;

const MEMORY_LEN: usize = 4096;
/// Of endpoint 0, in both directions.
const BUFFER_0: usize = 0x100;

const ENABLE: u32 = 1;
const TO_PHY: u32 = 1;
const SOFTCON: u32 = 1 << 3;
const PULL_UP: u32 = 1 << 16;
const EP0_INTERRUPT: u32 = 1 << 29;
/// Detected, and not by the pin.
const VBUS: u32 = 0b1100;

// SIE_STATUS: written as one, a bit is cleared.
const SUSPENDED: u32 = 1 << 4;
const RESUME: u32 = 1 << 11;
const CONNECTED: u32 = 1 << 16;
const SETUP_RECEIVED: u32 = 1 << 17;
const BUS_RESET: u32 = 1 << 19;
const CLEARED_BY_ONE: u32 = SUSPENDED | RESUME | SETUP_RECEIVED | BUS_RESET | 0xff04_0000;

// INTR, INTE, INTF and INTS.
const ON_BUFFER: u32 = 1 << 4;
const ON_BUS_RESET: u32 = 1 << 12;
const ON_SUSPEND: u32 = 1 << 14;
const ON_RESUME: u32 = 1 << 15;
const ON_SETUP: u32 = 1 << 16;
const ON_ANYTHING: u32 = ON_BUFFER | ON_BUS_RESET | ON_SUSPEND | ON_RESUME | ON_SETUP;

// An endpoint's control word.
const ENDPOINT_ENABLED: u32 = 1 << 31;
const DOUBLE_BUFFERED: u32 = 1 << 30;
const INTERRUPT_PER_BUFFER: u32 = 1 << 29;
// A buffer's control word.
const FULL: u32 = 1 << 15;
const ODD: u32 = 1 << 13;
const STALL: u32 = 1 << 11;
const AVAILABLE: u32 = 1 << 10;
const LENGTH: u32 = 0x3ff;

/// One direction of one endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pipe {
    /// Its number.
    pub endpoint: u8,
    /// To the host.
    pub is_in: bool,
}

impl Pipe {
    /// To the host.
    #[must_use]
    pub const fn to_host(endpoint: u8) -> Pipe {
        Pipe { endpoint, is_in: true }
    }

    /// From the host.
    #[must_use]
    pub const fn from_host(endpoint: u8) -> Pipe {
        Pipe { endpoint, is_in: false }
    }

    /// In the registers of all endpoints.
    fn bit(self) -> u32 {
        1 << (2 * self.endpoint + u8::from(!self.is_in))
    }
}

/// What the controller answers when the host asks for a packet, or brings one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Nothing: it is somebody else's address, or there is no such endpoint.
    Silence,
    /// Not yet.
    Nak,
    /// Never, until something is done about it.
    Stall,
    /// It has a packet, or room for one.
    Ready,
}

/// The controller.
#[derive(Clone, Debug)]
pub struct Controller {
    memory: Box<[u32; MEMORY_LEN / 4]>,
    address: u32,
    main: u32,
    control: u32,
    status: u32,
    interrupt_endpoints: u32,
    done: u32,
    stall_armed: u32,
    muxing: u32,
    power: u32,
    enabled: u32,
    forced: u32,
    unmodelled: Option<String>,
}

impl Default for Controller {
    fn default() -> Controller {
        Controller {
            memory: Box::new([0; MEMORY_LEN / 4]),
            address: 0,
            main: 0,
            control: 0,
            status: 0,
            interrupt_endpoints: 0,
            done: 0,
            stall_armed: 0,
            muxing: 0,
            power: 0,
            enabled: 0,
            forced: 0,
            unmodelled: None,
        }
    }
}

/// What the processor sees.
impl Controller {
    /// Reads a word of the shared memory.
    #[must_use]
    pub fn read_memory(&self, offset: u32) -> u32 {
        self.memory[offset as usize / 4]
    }

    /// Writes those bits of a word of the shared memory that the mask has.
    pub fn write_memory(&mut self, offset: u32, value: u32, mask: u32) {
        let word = &mut self.memory[offset as usize / 4];
        *word = (*word & !mask) | (value & mask);
    }

    /// Reads a register.
    #[must_use]
    pub fn read(&self, offset: u32) -> Option<u32> {
        Some(match offset {
            0x00 => self.address,
            0x04..=0x3c => 0, // A host's endpoints.
            0x40 => self.main,
            0x4c => self.control,
            0x50 => self.status | u32::from(self.is_attached()),
            0x54 => self.interrupt_endpoints,
            0x58 => self.done,
            0x68 => self.stall_armed,
            0x74 => self.muxing,
            0x78 => self.power,
            0x8c => self.raised(),
            0x90 => self.enabled,
            0x94 => self.forced,
            0x98 => self.pending(),
            _ => return None,
        })
    }

    /// Writes a register.
    pub fn write(&mut self, offset: u32, value: u32) -> bool {
        let only = |bits: u32| value & !bits == 0;
        match offset {
            0x00 if only(0x7f) => self.address = value,
            0x40 if only(ENABLE) => self.main = value,
            0x4c if only(PULL_UP | EP0_INTERRUPT) => self.control = value,
            0x50 => self.status &= !(value & CLEARED_BY_ONE),
            0x54 => self.interrupt_endpoints = value,
            0x58 => self.done &= !value,
            0x68 if only(0b11) => self.stall_armed = value,
            0x74 if only(TO_PHY | SOFTCON) => self.muxing = value,
            0x78 if only(VBUS) => self.power = value,
            0x90 if only(ON_ANYTHING) => self.enabled = value,
            0x94 if only(ON_ANYTHING) => self.forced = value,
            0x00..=0x98 => return value == 0,
            _ => return false,
        }
        true
    }

    /// Whether a register is cleared by ones: setting and clearing its bits otherwise is not modelled.
    #[must_use]
    pub fn is_cleared_by_ones(offset: u32) -> bool {
        matches!(offset, 0x50 | 0x58)
    }

    /// Whether it wants to interrupt.
    #[must_use]
    pub fn line(&self) -> bool {
        self.pending() != 0
    }

    /// What was asked of it that is not modelled.
    #[must_use]
    pub fn unmodelled(&self) -> Option<&str> {
        self.unmodelled.as_deref()
    }

    fn raised(&self) -> u32 {
        let when = |bit: u32, raised: u32| if self.status & bit != 0 { raised } else { 0 };
        when(BUS_RESET, ON_BUS_RESET)
            | when(SUSPENDED, ON_SUSPEND)
            | when(RESUME, ON_RESUME)
            | when(SETUP_RECEIVED, ON_SETUP)
            | if self.done != 0 { ON_BUFFER } else { 0 }
    }

    fn pending(&self) -> u32 {
        (self.raised() & self.enabled) | self.forced
    }

    fn control_word(&mut self, pipe: Pipe) -> &mut u32 {
        &mut self.memory[buffer_control(pipe)]
    }

    fn endpoint_word(&self, pipe: Pipe) -> u32 {
        self.memory[2 * usize::from(pipe.endpoint) + usize::from(!pipe.is_in)]
    }
}

fn buffer_control(pipe: Pipe) -> usize {
    0x80 / 4 + 2 * usize::from(pipe.endpoint) + usize::from(!pipe.is_in)
}

/// What is seen from the cable.
impl Controller {
    /// Whether it pulls the line up that says that a device is there.
    #[must_use]
    pub fn is_attached(&self) -> bool {
        self.main & ENABLE != 0 && self.control & PULL_UP != 0 && self.muxing & TO_PHY != 0
    }

    /// The host resets the bus.
    pub fn bus_reset(&mut self) {
        self.status |= BUS_RESET | CONNECTED;
        self.status &= !SUSPENDED;
    }

    /// Nothing has happened on the bus for a while.
    pub fn suspend(&mut self) {
        self.status |= SUSPENDED;
        self.status &= !CONNECTED;
    }

    /// The beginning of a control transfer, which no device may refuse; false if it is somebody else's.
    pub fn setup(&mut self, address: u8, request: [u8; 8]) -> bool {
        if self.address != u32::from(address) {
            return false;
        }
        self.store(0, &request);
        self.stall_armed = 0;
        self.status |= SETUP_RECEIVED;
        true
    }

    /// What it would answer to a packet on this pipe.
    #[must_use]
    pub fn answer(&self, address: u8, pipe: Pipe) -> Answer {
        let is_there = pipe.endpoint == 0 || self.endpoint_word(pipe) & ENDPOINT_ENABLED != 0;
        if self.address != u32::from(address) || !is_there {
            return Answer::Silence;
        }
        let word = self.memory[buffer_control(pipe)];
        let armed = pipe.endpoint != 0 || self.stall_armed & if pipe.is_in { 1 } else { 2 } != 0;
        match word {
            _ if word & STALL != 0 && armed => Answer::Stall,
            _ if word & AVAILABLE == 0 || pipe.is_in != (word & FULL != 0) => Answer::Nak,
            _ => Answer::Ready,
        }
    }

    /// The packet that is ready, and whether it is an odd one.
    #[must_use]
    pub fn packet(&self, pipe: Pipe) -> (Vec<u8>, bool) {
        let word = self.memory[buffer_control(pipe)];
        let from = self.buffer(pipe);
        let byte = |at: usize| self.memory[at / 4 % self.memory.len()].to_le_bytes()[at % 4];
        ((from..from + (word & LENGTH) as usize).map(byte).collect(), word & ODD != 0)
    }

    /// The host has taken the packet.
    pub fn taken(&mut self, pipe: Pipe) {
        *self.control_word(pipe) &= !(AVAILABLE | FULL);
        self.finish(pipe);
    }

    /// The host brings a packet. One that was brought before is acknowledged and forgotten.
    pub fn brought(&mut self, pipe: Pipe, bytes: &[u8], is_odd: bool) {
        let word = *self.control_word(pipe);
        if (word & ODD != 0) != is_odd {
            return;
        }
        if bytes.len() > (word & LENGTH) as usize {
            self.unmodelled.get_or_insert(format!("a packet of {} bytes on {pipe:?}: too long", bytes.len()));
            return;
        }
        let at = self.buffer(pipe);
        self.store(at, bytes);
        *self.control_word(pipe) = (word & !(AVAILABLE | LENGTH)) | FULL | bytes.len() as u32;
        self.finish(pipe);
    }

    fn finish(&mut self, pipe: Pipe) {
        let word = self.endpoint_word(pipe);
        if pipe.endpoint != 0 && word & DOUBLE_BUFFERED != 0 {
            self.unmodelled.get_or_insert(format!("two buffers on {pipe:?}"));
        }
        let interrupts = match pipe.endpoint {
            0 => self.control & EP0_INTERRUPT,
            _ => word & INTERRUPT_PER_BUFFER,
        };
        if interrupts != 0 {
            self.done |= pipe.bit();
        }
    }

    fn buffer(&self, pipe: Pipe) -> usize {
        if pipe.endpoint == 0 { BUFFER_0 } else { (self.endpoint_word(pipe) & 0xffc0) as usize % MEMORY_LEN }
    }

    fn store(&mut self, from: usize, bytes: &[u8]) {
        for (byte, at) in bytes.iter().zip(from..) {
            let shift = at % 4 * 8;
            self.write_memory((at % MEMORY_LEN) as u32, u32::from(*byte) << shift, 0xff << shift);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IN_2: Pipe = Pipe::to_host(2);
    const OUT_1: Pipe = Pipe::from_host(1);

    fn attached() -> Controller {
        let mut controller = Controller::default();
        assert!(controller.write(0x74, TO_PHY | SOFTCON) && controller.write(0x78, VBUS));
        assert!(controller.write(0x40, ENABLE) && !controller.is_attached());
        assert!(controller.write(0x4c, PULL_UP | EP0_INTERRUPT) && controller.is_attached());
        assert!(controller.write(0x90, ON_ANYTHING) && !controller.line());
        controller
    }

    fn set(controller: &mut Controller, offset: u32, value: u32) {
        controller.write_memory(offset, value, u32::MAX);
    }

    #[test]
    fn a_setup_packet_is_never_refused_and_ends_a_stall() {
        let mut controller = attached();
        set(&mut controller, 0x80, STALL);
        assert_eq!(controller.answer(0, Pipe::to_host(0)), Answer::Nak, "not armed");
        assert!(controller.write(0x68, 0b11));
        assert_eq!(controller.answer(0, Pipe::to_host(0)), Answer::Stall);
        assert!(controller.setup(0, [1, 2, 3, 4, 5, 6, 7, 8]) && !controller.setup(9, [0; 8]));
        assert_eq!((controller.read_memory(0), controller.read_memory(4)), (0x0403_0201, 0x0807_0605));
        assert_eq!(controller.answer(0, Pipe::to_host(0)), Answer::Nak);
        assert!(controller.line() && controller.read(0x98) == Some(ON_SETUP));
        assert!(controller.write(0x50, SETUP_RECEIVED) && !controller.line());
    }

    #[test]
    fn a_packet_is_taken_once_and_reported() {
        let mut controller = attached();
        set(&mut controller, 0x10, ENDPOINT_ENABLED | INTERRUPT_PER_BUFFER | 0x180);
        assert_eq!(controller.answer(0, IN_2), Answer::Nak);
        set(&mut controller, 0x180, 0x0403_0201);
        set(&mut controller, 0x90, FULL | ODD | AVAILABLE | 3);
        assert_eq!(controller.answer(0, IN_2), Answer::Ready);
        assert_eq!(controller.packet(IN_2), (vec![1, 2, 3], true));
        controller.taken(IN_2);
        assert_eq!((controller.answer(0, IN_2), controller.read(0x58)), (Answer::Nak, Some(1 << 4)));
        assert!(controller.line() && controller.write(0x58, 1 << 4) && !controller.line());
    }

    #[test]
    fn a_packet_is_brought_once() {
        let mut controller = attached();
        set(&mut controller, 0x0c, ENDPOINT_ENABLED | INTERRUPT_PER_BUFFER | 0x1c0);
        set(&mut controller, 0x8c, AVAILABLE | 64);
        assert_eq!((controller.answer(0, OUT_1), controller.answer(5, OUT_1)), (Answer::Ready, Answer::Silence));
        controller.brought(OUT_1, &[7, 8], true);
        assert_eq!(controller.answer(0, OUT_1), Answer::Ready, "that was an old one");
        controller.brought(OUT_1, &[7, 8], false);
        assert_eq!((controller.read_memory(0x8c), controller.read_memory(0x1c0)), (FULL | 2, 0x0807));
        assert_eq!((controller.answer(0, OUT_1), controller.read(0x58)), (Answer::Nak, Some(1 << 3)));
    }

    #[test]
    fn what_is_not_modelled_is_refused() {
        let mut controller = attached();
        assert!(!controller.write(0x40, 2), "host mode");
        assert!(!controller.write(0x4c, 1 << 15), "pull-downs");
        assert!(!controller.write(0x90, 1 << 17), "an interrupt by the frame");
        assert!(!controller.write(0x9c, 0) && controller.read(0x48).is_none());
    }

    #[test]
    fn bytes_of_the_memory_are_written_one_by_one() {
        let mut controller = Controller::default();
        controller.write_memory(0x180, 0xaaaa_aaaa, 0x0000_ff00);
        assert_eq!(controller.read_memory(0x180), 0xaa00);
    }
}
