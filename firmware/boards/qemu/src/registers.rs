//! Memory-mapped registers, by address.

use core::ptr;

/// The registers of one device.
#[derive(Clone, Copy)]
pub struct Registers {
    base: usize,
}

impl Registers {
    /// The device whose registers begin at `base`.
    ///
    /// # Safety
    /// From `base` on lie the registers of a device of this machine, as far as the caller's
    /// offsets reach, and no Rust object lies there.
    pub const unsafe fn new(base: usize) -> Registers {
        Registers { base }
    }

    /// Reads the word at `offset`.
    pub fn read(self, offset: usize) -> u32 {
        // SAFETY: `new`'s caller vouches for the address; device words are aligned and always valid.
        unsafe { ptr::read_volatile((self.base + offset) as *const u32) }
    }

    /// Writes the word at `offset`.
    pub fn write(self, offset: usize, value: u32) {
        // SAFETY: `new`'s caller vouches for the address; devices are not memory of any Rust object.
        unsafe { ptr::write_volatile((self.base + offset) as *mut u32, value) }
    }
}
