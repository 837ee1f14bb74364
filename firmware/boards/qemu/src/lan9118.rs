//! The LAN9118 Ethernet controller, as far as QEMU models it and embassy-net needs it.
//!
//! Frames go through two FIFOs, word by word. The interrupt is a level: the handler masks it, and
//! whoever finds the FIFO empty unmasks it again. The first frame after that arrived when it came,
//! and those behind it when they are read.

use crate::{
    clock,
    machine::{self, Interrupt},
    registers::Registers,
};
use compasso_runtime::stamps::{Stamps, tag_in};
use compasso_wire::Instant;
use core::{cell::Cell, task::Context};
use critical_section::Mutex;
use embassy_net_driver::{Capabilities, Driver, HardwareAddress, LinkState, RxToken, TxToken};
use embassy_sync::waitqueue::AtomicWaker;

// SAFETY: the machine's Ethernet controller.
const DEVICE: Registers = unsafe { Registers::new(0x4020_0000) };
const RX_DATA: usize = 0x00;
const TX_DATA: usize = 0x20;
const RX_STATUS: usize = 0x40;
const TX_STATUS: usize = 0x48;
const IRQ_CFG: usize = 0x54;
const INT_STS: usize = 0x58;
const INT_EN: usize = 0x5c;
const BYTE_TEST: usize = 0x64;
const FIFO_INT: usize = 0x68;
const TX_CFG: usize = 0x70;
const RX_FIFO_INF: usize = 0x7c;
const TX_FIFO_INF: usize = 0x80;
const MAC_COMMAND: usize = 0xa4;
const MAC_DATA: usize = 0xa8;

const MAC_CONTROL: u32 = 1;
const MAC_ADDRESS_HIGH: u32 = 2;
const MAC_ADDRESS_LOW: u32 = 3;

const BYTE_TEST_ANSWER: u32 = 0x8765_4321;
/// A frame is in the receive FIFO.
const INT_RECEIVED: u32 = 1 << 3;
/// Interrupts on, active high, push-pull.
const IRQ_ON: u32 = 1 << 8 | 1 << 4 | 1;
const TX_ON: u32 = 1 << 1;
const MAC_RECEIVE: u32 = 1 << 2;
const MAC_TRANSMIT: u32 = 1 << 3;
const MAC_BUSY: u32 = 1 << 31;
const FIRST_SEGMENT: u32 = 1 << 13;
const LAST_SEGMENT: u32 = 1 << 12;

/// Longest frame without its check sequence.
const FRAME_MAX: usize = 1514;
/// Longest frame that the controller lets in, check sequence included.
const RECEIVED_MAX: usize = 2048;
/// So much room in the transmit FIFO takes the longest frame and its two command words.
const TX_ROOM: u32 = FRAME_MAX as u32 + 16;

static RECEIVED: AtomicWaker = AtomicWaker::new();
/// When the interrupt came, until a frame takes it.
static INTERRUPTED_AT: Mutex<Cell<Option<Instant>>> = Mutex::new(Cell::new(None));

/// The controller, with room for one frame in each direction.
pub struct Lan9118 {
    received: [u8; RECEIVED_MAX],
    sending: [u8; FRAME_MAX],
    stamps: &'static Stamps,
}

impl Lan9118 {
    /// The controller as it is before [`Lan9118::start`].
    ///
    /// There must be one only.
    pub const fn new(stamps: &'static Stamps) -> Lan9118 {
        Lan9118 { received: [0; RECEIVED_MAX], sending: [0; FRAME_MAX], stamps }
    }

    /// Brings the controller up under this address.
    pub fn start(&mut self, mac: [u8; 6]) {
        assert_eq!(DEVICE.read(BYTE_TEST), BYTE_TEST_ANSWER, "there is a LAN9118");
        let [a, b, c, d, e, f] = mac;
        write_mac(MAC_ADDRESS_LOW, u32::from_le_bytes([a, b, c, d]));
        write_mac(MAC_ADDRESS_HIGH, u32::from_le_bytes([e, f, 0, 0]));
        write_mac(MAC_CONTROL, MAC_RECEIVE | MAC_TRANSMIT);
        DEVICE.write(TX_CFG, TX_ON);
        DEVICE.write(FIFO_INT, 0); // The first frame counts.
        DEVICE.write(IRQ_CFG, IRQ_ON);
        machine::unmask(Interrupt::Network);
    }
}

/// The controller has something.
pub fn on_interrupt() {
    let now = clock::clocks().hw;
    critical_section::with(|cs| INTERRUPTED_AT.borrow(cs).set(Some(now)));
    DEVICE.write(INT_EN, 0);
    RECEIVED.wake();
}

impl Driver for Lan9118 {
    type RxToken<'a> = Frame<'a>;
    type TxToken<'a> = Room<'a>;

    fn receive(&mut self, cx: &mut Context<'_>) -> Option<(Frame<'_>, Room<'_>)> {
        if !has_received() {
            RECEIVED.register(cx.waker());
            critical_section::with(|cs| INTERRUPTED_AT.borrow(cs).set(None));
            DEVICE.write(INT_STS, INT_RECEIVED);
            DEVICE.write(INT_EN, INT_RECEIVED);
            // A frame that came in between has set no interrupt.
            if !has_received() {
                return None;
            }
        }
        // A frame is only let in when it could be answered.
        if !has_room(cx) {
            return None;
        }
        let room = Room { frame: &mut self.sending, stamps: self.stamps };
        Some((Frame { room: &mut self.received, stamps: self.stamps }, room))
    }

    fn transmit(&mut self, cx: &mut Context<'_>) -> Option<Room<'_>> {
        has_room(cx).then_some(Room { frame: &mut self.sending, stamps: self.stamps })
    }

    fn link_state(&mut self, _cx: &mut Context<'_>) -> LinkState {
        LinkState::Up
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::default();
        capabilities.max_transmission_unit = FRAME_MAX;
        capabilities
    }

    fn hardware_address(&self) -> HardwareAddress {
        HardwareAddress::Ip // Never asked: `DerivedMac` answers for it.
    }
}

/// A frame in the receive FIFO.
pub struct Frame<'a> {
    room: &'a mut [u8; RECEIVED_MAX],
    stamps: &'static Stamps,
}

impl RxToken for Frame<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, f: F) -> R {
        const CHECK_SEQUENCE_LEN: usize = 4;
        let interrupted_at = critical_section::with(|cs| INTERRUPTED_AT.borrow(cs).take());
        self.stamps.frame_arrived(interrupted_at.unwrap_or_else(|| clock::clocks().hw));
        let length = (DEVICE.read(RX_STATUS) >> 16 & 0x3fff) as usize;
        let mut chunks = self.room.chunks_exact_mut(4);
        for _ in 0..length.div_ceil(4) {
            let word = DEVICE.read(RX_DATA); // Read in any case: the FIFO must move on.
            if let Some(chunk) = chunks.next() {
                chunk.copy_from_slice(&word.to_le_bytes());
            }
        }
        f(self.room.get_mut(..length.saturating_sub(CHECK_SEQUENCE_LEN)).unwrap_or(&mut []))
    }
}

/// Room in the transmit FIFO.
pub struct Room<'a> {
    frame: &'a mut [u8; FRAME_MAX],
    stamps: &'static Stamps,
}

impl TxToken for Room<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let Some(frame) = self.frame.get_mut(..len) else {
            unreachable!("the stack keeps to the transmission unit");
        };
        let result = f(frame);
        DEVICE.write(TX_DATA, FIRST_SEGMENT | LAST_SEGMENT | len as u32);
        DEVICE.write(TX_DATA, len as u32);
        let words = frame.len().div_ceil(4);
        for (index, chunk) in frame.chunks(4).enumerate() {
            let mut word = [0; 4];
            word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
            // In QEMU the last word sends the frame.
            if index + 1 == words
                && let Some(tag) = tag_in(frame)
            {
                self.stamps.frame_left(tag, clock::clocks().hw);
            }
            DEVICE.write(TX_DATA, u32::from_le_bytes(word));
        }
        // Nobody asks how it went, but a full status FIFO would stop the controller.
        while DEVICE.read(TX_FIFO_INF) >> 16 & 0xff != 0 {
            DEVICE.read(TX_STATUS);
        }
        result
    }
}

fn has_received() -> bool {
    DEVICE.read(RX_FIFO_INF) >> 16 & 0xff != 0
}

fn has_room(cx: &mut Context<'_>) -> bool {
    let is_enough = DEVICE.read(TX_FIFO_INF) & 0xffff >= TX_ROOM;
    if !is_enough {
        cx.waker().wake_by_ref(); // Asked again at once: the emulated FIFO drains by itself.
    }
    is_enough
}

fn write_mac(register: u32, value: u32) {
    DEVICE.write(MAC_DATA, value);
    DEVICE.write(MAC_COMMAND, MAC_BUSY | register);
    while DEVICE.read(MAC_COMMAND) & MAC_BUSY != 0 {}
}
