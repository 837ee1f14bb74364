//! What a board has for a network: one of these, chosen by its image.
//!
//! The bus knows only this. A device outside the chip hangs on pins and on a bus of the chip; one
//! inside has registers and an interrupt line. What a device does not have, it leaves alone.

use crate::{
    usb::Usb,
    w5500::{self, W5500},
};
use compasso_stage::setup::BoardKind;

/// A network device.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one a board, and it is looked at all the time")]
pub enum Device {
    /// Ethernet by a W5500 on SPI0.
    W5500(W5500),
    /// Ethernet over the chip's USB port.
    Usb(Box<Usb>),
}

impl Device {
    /// What this board has, as it is after power-up; none if that is not modelled. What is left to chance
    /// comes from the seed.
    #[must_use]
    pub fn of(board: BoardKind, seed: u64) -> Option<Device> {
        match board {
            BoardKind::W5500EvbPico => Some(Device::W5500(W5500::default())),
            BoardKind::PicoUsb => Some(Device::Usb(Box::new(Usb::new(seed)))),
            BoardKind::PicoW | BoardKind::Qemu | BoardKind::QemuCount => None,
        }
    }

    /// The boards that can be emulated.
    pub fn boards() -> impl Iterator<Item = BoardKind> {
        BoardKind::REAL.into_iter().filter(|board| Device::of(*board, 0).is_some())
    }

    /// The same device after the chip was reset.
    #[must_use]
    pub fn after_reset(&self, seed: u64) -> Device {
        match self {
            Device::W5500(_) => Device::W5500(W5500::default()),
            Device::Usb(_) => Device::Usb(Box::new(Usb::new(seed))),
        }
    }

    /// When it has something to do next.
    #[must_use]
    pub fn next_at(&self) -> u64 {
        match self {
            Device::W5500(chip) => chip.next_at(),
            Device::Usb(usb) => usb.host().next_at(),
        }
    }

    /// What happens in it until now, happens.
    pub fn advance(&mut self, now: u64) {
        match self {
            Device::W5500(_) => {}
            Device::Usb(usb) => usb.advance(now),
        }
    }

    /// A frame that has left by now, and when.
    pub fn departed(&mut self, now: u64) -> Option<(u64, Vec<u8>)> {
        match self {
            Device::W5500(chip) => chip.departed(now),
            Device::Usb(usb) => usb.host_mut().traffic_mut().departed(now),
        }
    }

    /// A frame arrives from the network.
    pub fn receive(&mut self, frame: &[u8]) {
        match self {
            Device::W5500(chip) => chip.receive(frame),
            Device::Usb(usb) => usb.host_mut().traffic_mut().send(frame),
        }
    }

    /// The interrupt lines that it raises.
    #[must_use]
    pub fn lines(&self) -> u32 {
        match self {
            Device::W5500(_) => 0,
            Device::Usb(usb) => usb.lines(),
        }
    }

    /// Reads a register on the chip's bus, if it has one there.
    #[must_use]
    pub fn read(&self, address: u32) -> Option<u32> {
        match self {
            Device::W5500(_) => None,
            Device::Usb(usb) => usb.read(address),
        }
    }

    /// Writes those bits of a register on the chip's bus that the mask has; false if it has none there.
    pub fn write(&mut self, address: u32, value: u32, mask: u32) -> bool {
        match self {
            Device::W5500(_) => false,
            Device::Usb(usb) => usb.write(address, value, mask),
        }
    }

    /// The pin that it drives, and its level.
    #[must_use]
    pub fn driven_pin(&self) -> Option<(u32, bool)> {
        match self {
            Device::W5500(chip) => Some((w5500::PIN_INTERRUPT, chip.interrupt_pin())),
            Device::Usb(_) => None,
        }
    }

    /// The processor moved these pins; now they have these levels.
    pub fn pins_moved(&mut self, changed: u32, levels: u32) {
        match self {
            Device::W5500(chip) => chip.pins_moved(changed, levels),
            Device::Usb(_) => {}
        }
    }

    /// A byte on SPI0, and what comes back for it.
    pub fn exchange(&mut self, now: u64, byte: u8) -> u8 {
        match self {
            Device::W5500(chip) => chip.exchange(now, byte),
            Device::Usb(_) => 0xff,
        }
    }

    /// What was asked of it that is not modelled.
    #[must_use]
    pub fn unmodelled(&self) -> Option<&str> {
        match self {
            Device::W5500(chip) => chip.unmodelled(),
            Device::Usb(usb) => usb.unmodelled(),
        }
    }

    /// Frames that found no room.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        match self {
            Device::W5500(chip) => chip.dropped(),
            Device::Usb(usb) => usb.host().traffic().dropped(),
        }
    }
}
