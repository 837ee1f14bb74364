//! Loads and stores: memory at once, everything else by its address.

use super::{Bus, RAM_BASE, RAM_LEN, Stop, XIP_BASE, sio::Sio, system::Block, usb, wires::Wires};
use crate::{rom, usb::Usb};

/// What the upper address bits of a peripheral's register ask for.
const XOR: u32 = 1;
const SET: u32 = 2;
const CLEAR: u32 = 3;

/// What a program may touch without anybody noticing.
pub struct Open<'a> {
    /// The address of that part of RAM.
    pub base: u32,
    /// The longest part of RAM without a forbidden word.
    pub ram: &'a mut [u32],
    /// The flash, if it can be seen.
    pub flash: &'a [u8],
    /// The divider and the spinlocks.
    pub sio: &'a mut Sio,
    /// An exception waits until it is not masked.
    pub is_pending: bool,
}

macro_rules! access {
    ($fast:ident, $load:ident, $put:ident, $store:ident, $type:ty, $len:expr, $copies:expr) => {
        /// Loads from memory; none if it is not aligned, or there is no memory that may be read.
        #[inline(always)]
        pub fn $fast(&self, address: u32) -> Option<$type> {
            let offset = address.wrapping_sub(RAM_BASE);
            let index = word_index($len, offset);
            if let Some(word) = self.ram.get(index) {
                let is_guarded = index.wrapping_sub(self.guard_at) < self.guard_len;
                return (!is_guarded).then_some((*word >> (offset % 4 * 8)) as $type);
            }
            let at = address.wrapping_sub(XIP_BASE) as usize;
            let bytes = self.flash.bytes().get(at..at + $len)?.first_chunk::<$len>()?;
            (at < self.visible && is_aligned($len, address)).then(|| <$type>::from_le_bytes(*bytes))
        }

        /// Loads from anywhere.
        #[inline]
        pub fn $load(&mut self, address: u32) -> $type {
            match self.$fast(address) {
                Some(value) => value,
                None => (self.load_elsewhere(address & !3) >> (address % 4 * 8)) as $type,
            }
        }

        /// Stores to RAM; false if it is not aligned, or not RAM that may be written.
        #[inline(always)]
        pub fn $put(&mut self, address: u32, value: $type) -> bool {
            let offset = address.wrapping_sub(RAM_BASE);
            let index = word_index($len, offset);
            match self.ram.get_mut(index) {
                Some(word) if index.wrapping_sub(self.guard_at) >= self.guard_len => {
                    let shift = offset % 4 * 8;
                    let mask = u32::from(<$type>::MAX) << shift;
                    *word = (*word & !mask) | u32::from(value) << shift;
                    true
                }
                _ => false,
            }
        }

        /// Stores to anywhere.
        #[inline]
        pub fn $store(&mut self, address: u32, value: $type) {
            if !self.$put(address, value) {
                // A peripheral sees a narrow value on all of its lines.
                let lanes = u32::from(<$type>::MAX) << (address % 4 * 8);
                self.store_elsewhere(address & !3, u32::from(value).wrapping_mul($copies), lanes);
            }
        }
    };
}

/// Whether a value of so many bytes may stand at an address.
#[inline(always)]
pub fn is_aligned(len: u32, address: u32) -> bool {
    address & (len - 1) == 0
}

/// The word at an offset; far outside if a value of so many bytes would not be aligned there.
#[inline(always)]
fn word_index(len: usize, offset: u32) -> usize {
    match len {
        4 => offset.rotate_right(2) as usize,
        2 => (offset.rotate_right(1) >> 1 | offset << 31) as usize,
        _ => (offset >> 2) as usize,
    }
}

impl Bus {
    access!(fast8, load8, put8, store8, u8, 1, 0x0101_0101);
    access!(fast16, load16, put16, store16, u16, 2, 0x0001_0001);
    access!(fast32, load32, put32, store32, u32, 4, 1);

    /// What a program may touch without anybody noticing.
    pub fn open(&mut self) -> Open<'_> {
        let (before, behind) = (self.guard_at, self.guard_at + self.guard_len);
        let open = match self.guard_len {
            0 => 0..self.ram.len(),
            _ if before > self.ram.len() - behind => 0..before,
            _ => behind..self.ram.len(),
        };
        Open {
            base: RAM_BASE + 4 * open.start as u32,
            ram: &mut self.ram[open],
            flash: &self.flash.bytes()[..self.visible],
            sio: &mut self.sio,
            is_pending: self.private.is_pending(),
        }
    }

    /// So many words of RAM from an address on; none if it is not aligned, or not all RAM that may be touched.
    #[inline]
    pub fn ram_words(&mut self, address: u32, count: u32) -> Option<&mut [u32]> {
        let first = word_index(4, address.wrapping_sub(RAM_BASE));
        let end = first + count as usize;
        let is_guarded = first < self.guard_at + self.guard_len && end > self.guard_at;
        if is_guarded && self.guard_len > 0 { None } else { self.ram.get_mut(first..end) }
    }

    /// Reads RAM at an offset, as a probe does; false if it ends before.
    #[must_use]
    pub fn read_ram(&self, at: usize, into: &mut [u8]) -> bool {
        if at.saturating_add(into.len()) > RAM_LEN {
            return false;
        }
        for (place, at) in into.iter_mut().zip(at..) {
            *place = self.ram[at / 4].to_le_bytes()[at % 4];
        }
        true
    }

    /// Writes RAM at an offset, as a probe does; false if it ends before.
    #[must_use]
    pub fn write_ram(&mut self, at: usize, bytes: &[u8]) -> bool {
        if at.saturating_add(bytes.len()) > RAM_LEN {
            return false;
        }
        for (byte, at) in bytes.iter().zip(at..) {
            let mut word = self.ram[at / 4].to_le_bytes();
            word[at % 4] = *byte;
            self.ram[at / 4] = u32::from_le_bytes(word);
        }
        true
    }

    #[inline(never)]
    fn load_elsewhere(&mut self, address: u32) -> u32 {
        match self.read_register(address) {
            Some(value) => value,
            None => {
                self.refuse(address, None);
                0
            }
        }
    }

    fn read_register(&mut self, address: u32) -> Option<u32> {
        let at = address as usize;
        match address >> 28 {
            0x0 => self.rom.get(at..at + 4).and_then(|b| b.first_chunk()).map(|b| u32::from_le_bytes(*b)),
            // The flash once more, past its cache.
            0x1 if address < 0x1400_0000 && self.visible > 0 => {
                let at = at & 0x00ff_fffc;
                self.flash.bytes().get(at..at + 4).and_then(|b| b.first_chunk()).map(|b| u32::from_le_bytes(*b))
            }
            0x1 | 0x4 => self.read_peripheral(address & !0x3fff, address & 0xfff),
            0x5 if address & !0x3fff == 0x5000_0000 => {
                self.catch_up();
                self.dma.read(address & 0xfff)
            }
            0x5 if address & !0x3fff == 0x5020_0000 => {
                self.catch_up();
                let value = self.pio.read(self.now, address & 0xfff);
                self.settle();
                value
            }
            0x5 => self.device.read(address),
            0xd => {
                let offset = address & 0x0fff_ffff;
                self.sio.read(offset).or_else(|| self.gpio.read_sio(offset))
            }
            0xe => {
                let offset = address & 0x0fff_ffff;
                self.mpu.read(offset).or_else(|| self.private.read(self.now, offset))
            }
            _ => None,
        }
    }

    fn read_peripheral(&mut self, base: u32, offset: u32) -> Option<u32> {
        match base {
            0x4001_4000 => self.gpio.read_bank(offset),
            0x4001_c000 => self.gpio.read_pads(offset),
            0x4003_c000 => {
                self.catch_up();
                let value = self.spi.read(offset);
                self.settle();
                value
            }
            0x4004_c000 => self.adc.read(self.now, offset),
            0x4005_4000 => self.timer.read(self.now, offset),
            0x4005_8000 => self.watchdog.read(self.now, offset),
            _ => self.system.read(Block::at(base)?, offset),
        }
    }

    #[inline(never)]
    fn store_elsewhere(&mut self, address: u32, value: u32, lanes: u32) {
        // The divider and spinlocks concern nobody else, and programs divide all the time.
        if address >> 28 == 0xd && self.sio.write(address & 0x0fff_ffff, value) {
            return;
        }
        if !self.write_register(address, value, lanes) {
            self.refuse(address, Some(value));
        }
        self.settle();
    }

    fn write_register(&mut self, address: u32, value: u32, lanes: u32) -> bool {
        match address >> 28 {
            // A device's memory is written by the byte, and has no aliases.
            0x5 if address & !0xfff == usb::MEMORY_BASE => self.device.write(address, value, lanes),
            0x1 | 0x4 | 0x5 => {
                let (base, offset, alias) = (address & !0x3fff, address & 0xfff, address >> 12 & 3);
                // The flash's controller alone has no aliases.
                let old = |bus: &mut Bus| bus.read_register(base | offset);
                let is_plain = base == 0x1800_0000 || alias == 0;
                if base == usb::REGISTERS_BASE && !is_plain && !Usb::has_aliases(address) {
                    return false;
                }
                let value = match if is_plain { 0 } else { alias } {
                    XOR => old(self).map(|old| old ^ value),
                    SET => old(self).map(|old| old | value),
                    CLEAR => old(self).map(|old| old & !value),
                    _ => Some(value),
                };
                value.is_some_and(|value| self.write_peripheral(base, offset, value))
            }
            0xd => {
                let offset = address & 0x0fff_ffff;
                self.catch_up();
                let before = self.gpio.levels();
                let known = self.gpio.write_sio(offset, value);
                self.pins_moved(before);
                known
            }
            0xe if (0xed90..=0xedb8).contains(&(address & 0xffff)) => {
                let known = self.mpu.write(address & 0x0fff_ffff, value);
                let forbidden = self.mpu.forbidden().unwrap_or(0..0);
                (self.guard_at, self.guard_len) = (forbidden.start / 4, forbidden.len() / 4);
                known
            }
            0xe => {
                let known = self.private.write(self.now, address & 0x0fff_ffff, value);
                if self.private.wants_reset() {
                    self.stop(Stop::ResetRequest);
                }
                known
            }
            0xf => match rom::trapped(address) {
                Some(function) => {
                    self.stop(Stop::Rom(function));
                    true
                }
                None => false,
            },
            _ => false,
        }
    }

    fn write_peripheral(&mut self, base: u32, offset: u32, value: u32) -> bool {
        match base {
            0x4001_4000 => self.gpio.write_bank(offset, value),
            0x4001_c000 => self.gpio.write_pads(offset, value),
            0x4003_c000 => {
                self.catch_up();
                let known = self.spi.write(self.now, offset, value);
                self.catch_up();
                known
            }
            0x4004_c000 => self.adc.write(self.now, offset, value),
            0x4005_4000 => self.timer.write(self.now, offset, value),
            0x4005_8000 => self.watchdog.write(self.now, offset, value),
            0x5000_0000 => {
                self.catch_up();
                let known = self.dma.write(offset, value);
                self.dma_started();
                known
            }
            0x5020_0000 => {
                self.catch_up();
                let mut wires = Wires { gpio: &mut self.gpio, device: &mut self.device };
                let known = self.pio.write(self.now, offset, value, &mut wires);
                self.catch_up();
                known
            }
            usb::REGISTERS_BASE => self.device.write(base | offset, value, u32::MAX),
            _ => {
                // Whoever enables the flash's controller makes the flash visible again.
                if base == 0x1800_0000 && offset == 8 && value == 1 {
                    self.set_flash_visible(true);
                }
                Block::at(base).is_some_and(|block| self.system.write(block, offset, value))
            }
        }
    }

    fn refuse(&mut self, address: u32, written: Option<u32>) {
        if (address.wrapping_sub(RAM_BASE) as usize) < RAM_LEN {
            return self.stop(Stop::Forbidden { address });
        }
        // Above the memories lie registers; there the chip has more than the model.
        let has_registers = matches!(address >> 28, 0x4 | 0x5 | 0xd | 0xe) || address >> 24 == 0x14;
        let hidden = self.visible == 0 && address >> 28 == 1;
        self.stop(match has_registers || hidden || address >> 24 == 0x18 {
            true => Stop::Unmodelled { address, written },
            false => Stop::Nowhere { address },
        });
    }
}
