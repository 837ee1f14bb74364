//! The W5500 as far as a MACRAW socket goes: registers over SPI, two buffers of 16 KiB, the INT line.
//!
//! Frames leave when their last bit has left the wire at 100 Mbit/s, and those that arrive are kept
//! while there is room. Sockets 1 to 7, and any other mode than MACRAW, are not modelled.

use std::collections::VecDeque;

/// Where it is wired to.
const PIN_SELECT: u32 = 17;
const PIN_RESET: u32 = 20;
/// The pin that it drives.
pub const PIN_INTERRUPT: u32 = 21;
const BUFFER_LEN: usize = 16 * 1024;
/// At 100 Mbit/s a byte takes 80 ns: ten cycles.
const CYCLES_PER_BYTE: u64 = 10;
/// Preamble, check sequence and gap around each frame.
const OVERHEAD: u64 = 24;
/// Shorter frames are filled up, before their check sequence.
const FRAME_MIN: u64 = 60;
const VERSION: u8 = 4;
/// Link up, 100 Mbit/s, full duplex.
const PHY_UP: u8 = 0b1011_1111;
const RECEIVED: u8 = 0x04;
const SENT: u8 = 0x10;
const MACRAW: u8 = 0x04;
const FILTER: u8 = 0x80;
const STATUS_MACRAW: u8 = 0x42;

/// The chip.
#[derive(Clone, Debug)]
pub struct W5500 {
    common: [u8; 0x40],
    socket: [u8; 0x30],
    sending: Box<[u8]>,
    received: Box<[u8]>,
    tx_read: u16,
    tx_taken: u16,
    tx_write: u16,
    rx_read: u16,
    rx_shown: u16,
    rx_write: u16,
    phase: Phase,
    /// Frames on the wire and behind it: when each is over.
    wire: VecDeque<(u64, Vec<u8>)>,
    dropped: u64,
    unmodelled: Option<String>,
}

/// How far an access over SPI is.
#[derive(Clone, Copy, Debug)]
enum Phase {
    Idle,
    High,
    Low { high: u8 },
    Control { address: u16 },
    Data { address: u16, block: u8, is_write: bool },
}

impl Default for W5500 {
    fn default() -> W5500 {
        let mut common = [0; 0x40];
        common[0x39] = VERSION;
        let mut socket = [0; 0x30];
        (socket[0x1e], socket[0x1f], socket[0x2c]) = (2, 2, 0xff);
        W5500 {
            common,
            socket,
            sending: vec![0; BUFFER_LEN].into(),
            received: vec![0; BUFFER_LEN].into(),
            tx_read: 0,
            tx_taken: 0,
            tx_write: 0,
            rx_read: 0,
            rx_shown: 0,
            rx_write: 0,
            phase: Phase::Idle,
            wire: VecDeque::new(),
            dropped: 0,
            unmodelled: None,
        }
    }
}

impl W5500 {
    /// The reset pin went low, or the reset bit was set. What is on the wire is cut short.
    pub fn reset(&mut self) {
        let phase = self.phase;
        *self = W5500 { dropped: self.dropped, phase, ..W5500::default() };
    }

    /// Pins were moved: it may be selected or reset.
    pub fn pins_moved(&mut self, changed: u32, levels: u32) {
        if changed & (1 << PIN_SELECT) != 0 {
            self.select(levels & (1 << PIN_SELECT) == 0);
        }
        if changed & (1 << PIN_RESET) != 0 && levels & (1 << PIN_RESET) == 0 {
            self.reset();
        }
    }

    /// The chip is selected, or no more.
    pub fn select(&mut self, selected: bool) {
        self.phase = if selected { Phase::High } else { Phase::Idle };
    }

    /// A byte in, a byte out.
    pub fn exchange(&mut self, now: u64, byte: u8) -> u8 {
        match self.phase {
            Phase::Idle => 0xff,
            Phase::High => {
                self.phase = Phase::Low { high: byte };
                0
            }
            Phase::Low { high } => {
                self.phase = Phase::Control { address: u16::from_be_bytes([high, byte]) };
                0
            }
            Phase::Control { address } => {
                self.phase = Phase::Data { address, block: byte >> 3, is_write: byte & 4 != 0 };
                if byte & 3 != 0 {
                    self.unmodelled.get_or_insert_with(|| "fixed-length accesses".into());
                }
                0
            }
            Phase::Data { address, block, is_write } => {
                self.phase = Phase::Data { address: address.wrapping_add(1), block, is_write };
                if is_write {
                    self.write(now, block, address, byte);
                    return 0;
                }
                self.read(block, address)
            }
        }
    }

    /// The INT pin: low while something is to be told.
    #[must_use]
    pub fn interrupt_pin(&self) -> bool {
        !(self.common[0x18] & 1 != 0 && self.socket[0x02] & self.socket[0x2c] != 0)
    }

    /// A frame arrives from the network.
    pub fn receive(&mut self, frame: &[u8]) {
        if self.socket[0x03] != STATUS_MACRAW {
            return;
        }
        let for_me = frame.first_chunk::<6>().is_some_and(|to| to[0] & 1 == 1 || to[..] == self.common[9..15]);
        if self.socket[0] & FILTER != 0 && !for_me {
            return;
        }
        let length = frame.len() as u16 + 2;
        if usize::from(self.waiting()) + usize::from(length) > BUFFER_LEN {
            self.dropped += 1;
            return;
        }
        for byte in length.to_be_bytes().iter().chain(frame) {
            self.received[usize::from(self.rx_write) % BUFFER_LEN] = *byte;
            self.rx_write = self.rx_write.wrapping_add(1);
        }
        self.socket[0x02] |= RECEIVED;
    }

    /// When a frame has left.
    #[must_use]
    pub fn next_at(&self) -> u64 {
        self.wire.front().map_or(u64::MAX, |(at, _)| *at)
    }

    /// A frame that has left by now, and when.
    pub fn departed(&mut self, now: u64) -> Option<(u64, Vec<u8>)> {
        if self.next_at() > now {
            return None;
        }
        let (at, frame) = self.wire.pop_front()?;
        self.tx_read = self.tx_read.wrapping_add(frame.len() as u16);
        self.socket[0x02] |= SENT;
        Some((at, frame))
    }

    /// Frames that found the buffer full.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// What was asked of the chip that is not modelled, if anything was.
    #[must_use]
    pub fn unmodelled(&self) -> Option<&str> {
        self.unmodelled.as_deref()
    }

    /// Bytes that the program may read: those that arrived before its last RECV count as read.
    fn waiting(&self) -> u16 {
        self.rx_write.wrapping_sub(self.rx_shown)
    }

    fn read(&mut self, block: u8, address: u16) -> u8 {
        let index = usize::from(address);
        match block {
            0 => match index {
                0x17 => u8::from(self.socket[0x02] & self.socket[0x2c] != 0),
                0x2e => PHY_UP,
                0..0x40 => self.common[index],
                _ => 0,
            },
            1 => {
                let free = (BUFFER_LEN as u16).wrapping_sub(self.tx_write.wrapping_sub(self.tx_read));
                let pair = |value: u16| value.to_be_bytes()[index % 2];
                match index {
                    0x20 | 0x21 => pair(free),
                    0x22 | 0x23 => pair(self.tx_read),
                    0x24 | 0x25 => pair(self.tx_write),
                    0x26 | 0x27 => pair(self.waiting()),
                    0x28 | 0x29 => pair(self.rx_read),
                    0x2a | 0x2b => pair(self.rx_write),
                    0..0x30 => self.socket[index],
                    _ => 0,
                }
            }
            2 => self.sending[index % BUFFER_LEN],
            3 => self.received[index % BUFFER_LEN],
            _ => 0,
        }
    }

    fn write(&mut self, now: u64, block: u8, address: u16, byte: u8) {
        let index = usize::from(address);
        match (block, index) {
            (0, 0x00) if byte & 0x80 != 0 => self.reset(),
            (0, 0x01..=0x38) => self.common[index] = byte,
            (1, 0x00) if byte & 0xf == MACRAW => self.socket[0] = byte,
            (1, 0x01) => self.command(now, byte),
            (1, 0x02) => self.socket[0x02] &= !byte,
            (1, 0x1e | 0x1f) if byte == 16 => self.socket[index] = byte,
            (1, 0x24 | 0x25) => set_half(&mut self.tx_write, index, byte),
            (1, 0x28 | 0x29) => set_half(&mut self.rx_read, index, byte),
            (1, 0x2c) => self.socket[index] = byte,
            (2, _) => self.sending[index % BUFFER_LEN] = byte,
            // Taking memory from the other sockets is what makes room for ours.
            (5 | 9 | 13 | 17 | 21 | 25 | 29, 0x1e | 0x1f) => {}
            (0, 0x00) => {}
            _ => {
                self.unmodelled.get_or_insert_with(|| format!("block {block}, address {address:#06x} ← {byte:#04x}"));
            }
        }
    }

    fn command(&mut self, now: u64, command: u8) {
        match command {
            0x01 => {
                self.socket[0x03] = STATUS_MACRAW;
                (self.tx_read, self.tx_taken, self.tx_write) = (0, 0, 0);
                (self.rx_read, self.rx_shown, self.rx_write) = (0, 0, 0);
            }
            0x10 => self.socket[0x03] = 0,
            0x20 => self.send(now),
            0x40 => {
                self.rx_shown = self.rx_read;
                if self.waiting() > 0 {
                    self.socket[0x02] |= RECEIVED; // More is waiting: told again.
                }
            }
            _ => {
                self.unmodelled.get_or_insert_with(|| format!("socket command {command:#04x}"));
            }
        }
    }

    fn send(&mut self, now: u64) {
        let length = self.tx_write.wrapping_sub(self.tx_taken);
        let at = |i: u16| self.sending[usize::from(self.tx_taken.wrapping_add(i)) % BUFFER_LEN];
        let frame: Vec<u8> = (0..length).map(at).collect();
        self.tx_taken = self.tx_write;
        let begins = self.wire.back().map_or(now, |(at, _)| (*at).max(now));
        let over = begins + ((frame.len() as u64).max(FRAME_MIN) + OVERHEAD) * CYCLES_PER_BYTE;
        self.wire.push_back((over, frame));
    }
}

fn set_half(value: &mut u16, index: usize, byte: u8) {
    let mut bytes = value.to_be_bytes();
    bytes[index % 2] = byte;
    *value = u16::from_be_bytes(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(chip: &mut W5500, block: u8, address: u16, data: &[u8]) {
        chip.select(true);
        let [high, low] = address.to_be_bytes();
        for byte in [high, low, block << 3 | 4].iter().chain(data) {
            chip.exchange(0, *byte);
        }
        chip.select(false);
    }

    fn get<const N: usize>(chip: &mut W5500, block: u8, address: u16) -> [u8; N] {
        chip.select(true);
        let [high, low] = address.to_be_bytes();
        for byte in [high, low, block << 3] {
            chip.exchange(0, byte);
        }
        let bytes = [0; N].map(|byte: u8| chip.exchange(0, byte));
        chip.select(false);
        bytes
    }

    fn opened() -> W5500 {
        let mut chip = W5500::default();
        put(&mut chip, 0, 0x18, &[1]);
        put(&mut chip, 0, 0x09, &[2, 0, 0, 0, 0, 1]);
        put(&mut chip, 1, 0x2c, &[RECEIVED]);
        put(&mut chip, 1, 0x1e, &[16]);
        put(&mut chip, 1, 0x00, &[FILTER | MACRAW]);
        put(&mut chip, 1, 0x01, &[1]);
        chip
    }

    #[test]
    fn it_says_what_it_is_and_that_the_link_is_up() {
        let mut chip = opened();
        assert_eq!(get::<1>(&mut chip, 0, 0x39), [VERSION]);
        assert_eq!(get::<1>(&mut chip, 0, 0x2e)[0] & 1, 1);
        assert_eq!(chip.unmodelled(), None);
    }

    #[test]
    fn frames_arrive_in_order_and_the_pin_stays_low_while_some_wait() {
        let mut chip = opened();
        assert!(chip.interrupt_pin());
        for last in [7, 8] {
            chip.receive(&[2, 0, 0, 0, 0, 1, last]);
        }
        chip.receive(&[2, 0, 0, 0, 0, 9, 0]);
        assert!(!chip.interrupt_pin());
        for last in [7, 8] {
            put(&mut chip, 1, 0x02, &[RECEIVED]);
            let [high, low] = get(&mut chip, 1, 0x28);
            let at = u16::from_be_bytes([high, low]);
            assert_eq!(get::<9>(&mut chip, 3, at), [0, 9, 2, 0, 0, 0, 0, 1, last]);
            put(&mut chip, 1, 0x28, &(at + 9).to_be_bytes());
            put(&mut chip, 1, 0x01, &[0x40]);
            assert_eq!(chip.interrupt_pin(), last == 8, "told again while one waits");
        }
        assert_eq!(get(&mut chip, 1, 0x26), [0, 0], "the third was for somebody else");
    }

    #[test]
    fn a_frame_leaves_after_its_time_on_the_wire_and_the_next_one_behind_it() {
        let mut chip = opened();
        put(&mut chip, 2, 0, &[9; 100]);
        put(&mut chip, 1, 0x24, &100u16.to_be_bytes());
        put(&mut chip, 1, 0x01, &[0x20]);
        put(&mut chip, 2, 100, &[8; 10]);
        put(&mut chip, 1, 0x24, &110u16.to_be_bytes());
        put(&mut chip, 1, 0x01, &[0x20]);
        assert_eq!(get(&mut chip, 1, 0x20), (16_384u16 - 110).to_be_bytes());
        assert_eq!((chip.departed(1239), chip.departed(1240)), (None, Some((1240, vec![9; 100]))));
        assert_eq!(chip.departed(5000), Some((1240 + 840, vec![8; 10])));
        assert_eq!(get(&mut chip, 1, 0x20), 16_384u16.to_be_bytes());
    }

    #[test]
    fn a_full_buffer_drops_and_counts() {
        let mut chip = opened();
        for _ in 0..12 {
            chip.receive(&[0xff; 1514]);
        }
        assert_eq!(chip.dropped(), 2);
        assert_eq!(get(&mut chip, 1, 0x26), (10u16 * 1516).to_be_bytes());
    }

    #[test]
    fn another_mode_is_remembered_as_unmodelled() {
        let mut chip = opened();
        put(&mut chip, 1, 0x00, &[1]);
        assert!(chip.unmodelled().unwrap().contains("block 1"));
    }
}
