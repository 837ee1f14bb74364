//! Ethernet over USB: the chip's controller, a cable, and the host that bridges.

pub mod control;
pub mod descriptors;
pub mod enumeration;
pub mod host;
pub mod ntb;

use crate::bus::usb::{Controller, INTERRUPT, MEMORY_BASE, REGISTERS_BASE};
use host::Host;

/// Both ends of the cable.
#[derive(Clone, Debug)]
pub struct Usb {
    controller: Controller,
    host: Host,
}

impl Usb {
    /// A board on a host; what is left to chance comes from the seed.
    #[must_use]
    pub fn new(seed: u64) -> Usb {
        Usb { controller: Controller::default(), host: Host::new(seed) }
    }

    /// The host.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The host, for whoever has hands on the cable. The bus must settle after that.
    pub fn host_mut(&mut self) -> &mut Host {
        &mut self.host
    }

    /// Everything happens that happens until now.
    pub fn advance(&mut self, now: u64) {
        self.host.advance(now, &mut self.controller);
    }

    /// The lines of the interrupts that it raises.
    #[must_use]
    pub fn lines(&self) -> u32 {
        u32::from(self.controller.line()) << INTERRUPT
    }

    /// Reads a register, or a word of its memory.
    #[must_use]
    pub fn read(&self, address: u32) -> Option<u32> {
        match (address & !0xfff, address & !0x3fff) {
            (MEMORY_BASE, _) => Some(self.controller.read_memory(address & 0xfff)),
            (_, REGISTERS_BASE) => self.controller.read(address & 0xfff),
            _ => None,
        }
    }

    /// Writes a register, or those bytes of its memory that the mask has.
    pub fn write(&mut self, address: u32, value: u32, mask: u32) -> bool {
        match address & !0xfff {
            MEMORY_BASE => self.controller.write_memory(address & 0xfff, value, mask),
            REGISTERS_BASE => return self.controller.write(address & 0xfff, value),
            _ => return false,
        }
        true
    }

    /// Whether single bits of this register can be set and cleared by its aliases.
    #[must_use]
    pub fn has_aliases(address: u32) -> bool {
        address & !0x3fff == REGISTERS_BASE && !Controller::is_cleared_by_ones(address & 0xfff)
    }

    /// What was asked of it that is not modelled, or that a host does not put up with.
    #[must_use]
    pub fn unmodelled(&self) -> Option<&str> {
        self.controller.unmodelled().or_else(|| self.host.gave_up())
    }
}
