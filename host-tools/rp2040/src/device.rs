//! What a board has for a network: one of these, chosen by its image.
//!
//! The bus knows only this. A device outside the chip hangs on pins and on a bus of the chip; one
//! inside has registers and an interrupt line. What a device does not have, it leaves alone.

use crate::{
    cyw43::{self, Cyw43},
    w5500::{self, W5500},
};
use compasso_stage::setup::BoardKind;

/// A network device.
#[derive(Clone, Debug)]
pub enum Device {
    /// Ethernet by a W5500 on SPI0.
    W5500(W5500),
    /// Wi-Fi by a CYW43 on a bus that PIO0 drives.
    Cyw43(Box<Cyw43>),
}

impl Device {
    /// What this board has, as it is after power-up; none if that is not modelled. What is left to chance
    /// comes from the seed.
    #[must_use]
    pub fn of(board: BoardKind, _seed: u64) -> Option<Device> {
        match board {
            BoardKind::W5500EvbPico => Some(Device::W5500(W5500::default())),
            BoardKind::PicoW => Some(Device::Cyw43(Box::new(Cyw43::new(cyw43::mac(0))))),
            BoardKind::PicoUsb | BoardKind::Qemu | BoardKind::QemuCount => None,
        }
    }

    /// The boards that can be emulated.
    pub fn boards() -> impl Iterator<Item = BoardKind> {
        BoardKind::REAL.into_iter().filter(|board| Device::of(*board, 0).is_some())
    }

    /// The same device after the chip was reset.
    #[must_use]
    pub fn after_reset(&self, _seed: u64) -> Device {
        match self {
            Device::W5500(_) => Device::W5500(W5500::default()),
            Device::Cyw43(chip) => Device::Cyw43(Box::new(chip.without_power())),
        }
    }

    /// When it has something to do next.
    #[must_use]
    pub fn next_at(&self) -> u64 {
        match self {
            Device::W5500(chip) => chip.next_at(),
            Device::Cyw43(chip) => chip.next_at(),
        }
    }

    /// A frame that has left by now, and when.
    pub fn departed(&mut self, now: u64) -> Option<(u64, Vec<u8>)> {
        match self {
            Device::W5500(chip) => chip.departed(now),
            Device::Cyw43(chip) => chip.departed(now),
        }
    }

    /// A frame arrives from the network.
    pub fn receive(&mut self, frame: &[u8]) {
        match self {
            Device::W5500(chip) => chip.receive(frame),
            Device::Cyw43(chip) => chip.receive(frame),
        }
    }

    /// The pin that it drives, and its level.
    #[must_use]
    pub fn driven_pin(&self) -> Option<(u32, bool)> {
        match self {
            Device::W5500(chip) => Some((w5500::PIN_INTERRUPT, chip.interrupt_pin())),
            Device::Cyw43(chip) => Some((cyw43::PIN_DATA, chip.data_pin())),
        }
    }

    /// The processor, or its PIO, moved these pins at this time; now they have these levels.
    pub fn pins_moved(&mut self, at: u64, changed: u32, levels: u32) {
        match self {
            Device::W5500(chip) => chip.pins_moved(changed, levels),
            Device::Cyw43(chip) => chip.pins_moved(at, changed, levels),
        }
    }

    /// A byte on SPI0, and what comes back for it.
    pub fn exchange(&mut self, now: u64, byte: u8) -> u8 {
        match self {
            Device::W5500(chip) => chip.exchange(now, byte),
            Device::Cyw43(_) => 0xff, // Nothing is there.
        }
    }

    /// What was asked of it that is not modelled.
    #[must_use]
    pub fn unmodelled(&self) -> Option<&str> {
        match self {
            Device::W5500(chip) => chip.unmodelled(),
            Device::Cyw43(chip) => chip.unmodelled(),
        }
    }

    /// Frames that found no room.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        match self {
            Device::W5500(chip) => chip.dropped(),
            Device::Cyw43(chip) => chip.dropped(),
        }
    }
}
