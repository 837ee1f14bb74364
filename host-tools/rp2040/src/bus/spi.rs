//! SPI0 (a PL022): eight-bit frames as the master, two queues of eight, and the DMA that feeds them.
//!
//! Nothing happens between the moments at which somebody looks: [`Spi::next_shift_at`] says when a
//! byte has left, and the bus catches up byte by byte.

use std::collections::VecDeque;

/// Depth of both queues.
pub const DEPTH: usize = 8;
const ENABLE: u32 = 1 << 1;

/// The SPI controller.
#[derive(Clone, Debug, Default)]
pub struct Spi {
    control: [u32; 2],
    divisor: u32,
    dma: u32,
    sending: VecDeque<u8>,
    received: VecDeque<u8>,
    /// The byte on the wire, and when it is over.
    shifting: Option<(u8, u64)>,
    /// When the wire was free.
    free_at: u64,
    overrun: bool,
}

impl Spi {
    /// Reads a register. The queues must have been brought up to date.
    pub fn read(&mut self, offset: u32) -> Option<u32> {
        Some(match offset {
            0x00 | 0x04 => self.control[offset as usize / 4],
            0x08 => self.received.pop_front().unwrap_or(0).into(),
            0x0c => {
                let bits = [
                    self.sending.is_empty(),
                    self.sending.len() < DEPTH,
                    !self.received.is_empty(),
                    self.received.len() == DEPTH,
                    self.is_busy(),
                ];
                bits.iter().enumerate().map(|(bit, set)| u32::from(*set) << bit).sum()
            }
            0x10 => self.divisor,
            0x14 | 0x1c => 0,
            0x18 => u32::from(self.overrun),
            0x24 => self.dma,
            _ => return None,
        })
    }

    /// Writes a register. The queues must have been brought up to date.
    pub fn write(&mut self, now: u64, offset: u32, value: u32) -> bool {
        match offset {
            // Eight bits, Motorola's frames; anything else is not modelled.
            0x00 if value & 0x3f == 7 => self.control[0] = value,
            // No loop-back, and always the master.
            0x04 if value & !ENABLE == 0 => self.control[1] = value,
            0x08 => self.push(now, value as u8),
            0x10 => self.divisor = value & 0xff,
            0x14 if value == 0 => {}
            0x20 => self.overrun &= value & 1 == 0,
            0x24 => self.dma = value & 3,
            _ => return false,
        }
        true
    }

    /// Whether a byte is on the wire or waits for it.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.shifting.is_some() || !self.sending.is_empty()
    }

    /// Whether DMA may bring another byte.
    #[must_use]
    pub fn wants(&self) -> bool {
        self.dma & 2 != 0 && self.sending.len() < DEPTH
    }

    /// A byte for DMA to take, if there is one.
    pub fn offer(&mut self) -> Option<u8> {
        if self.dma & 1 != 0 { self.received.pop_front() } else { None }
    }

    /// Queues a byte; one too many is lost, as on the chip.
    pub fn push(&mut self, now: u64, byte: u8) {
        if self.sending.len() < DEPTH {
            self.sending.push_back(byte);
        }
        self.start(now);
    }

    /// When the byte on the wire is over.
    #[must_use]
    pub fn next_shift_at(&self) -> Option<u64> {
        self.shifting.map(|(_, at)| at)
    }

    /// The byte that was on the wire, over now.
    pub fn shifted(&mut self) -> Option<(u8, u64)> {
        let (byte, at) = self.shifting.take()?;
        self.free_at = at;
        Some((byte, at))
    }

    /// Takes what came back for it, and begins the next one.
    pub fn answered(&mut self, byte: u8) {
        if self.received.len() < DEPTH {
            self.received.push_back(byte);
        } else {
            self.overrun = true;
        }
    }

    /// Puts the next byte on the wire, if there is one and the wire is free.
    pub fn start(&mut self, now: u64) {
        if self.shifting.is_none()
            && self.control[1] & ENABLE != 0
            && let Some(byte) = self.sending.pop_front()
        {
            self.shifting = Some((byte, self.free_at.max(now) + self.cycles_per_byte()));
        }
    }

    /// How long a byte takes.
    #[must_use]
    pub fn cycles_per_byte(&self) -> u64 {
        8 * u64::from(self.divisor.max(2)) * (1 + u64::from(self.control[0] >> 8 & 0xff))
    }

    /// How many bytes wait for the wire.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.sending.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_takes_as_long_as_the_divisors_say() {
        let mut spi = Spi::default();
        assert!(spi.write(0, 0x00, 1 << 8 | 7) && spi.write(0, 0x10, 2) && spi.write(0, 0x04, ENABLE));
        assert!(spi.write(100, 0x08, 0xaa) && spi.write(100, 0x08, 0xbb));
        assert_eq!(spi.next_shift_at(), Some(132), "8 bits at 125 MHz / (2 * 2)");
        assert_eq!(spi.shifted(), Some((0xaa, 132)));
        spi.answered(0x55);
        spi.start(132);
        assert_eq!((spi.next_shift_at(), spi.read(0x0c)), (Some(164), Some(0b10111)));
        assert_eq!(spi.read(0x08), Some(0x55));
    }

    #[test]
    fn other_frames_and_modes_are_refused() {
        let mut spi = Spi::default();
        assert!(!spi.write(0, 0x00, 15), "sixteen bits");
        assert!(!spi.write(0, 0x04, 1 << 2), "slave");
        assert!(!spi.write(0, 0x14, 1), "interrupts");
    }
}
