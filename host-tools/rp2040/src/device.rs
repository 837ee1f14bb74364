//! What a board has for a network: one of these, chosen by its image.
//!
//! The bus knows only this. A device outside the chip hangs on pins and on a bus of the chip; one
//! inside has registers and an interrupt line. What a device does not have, it leaves alone.

use crate::{
    cyw43::{
        self, Cyw43,
        program::{AccessPoint, Mac},
    },
    usb::Usb,
    w5500::{self, W5500},
};
use compasso_stage::setup::BoardKind;
use compasso_wire::flash::page::Wifi;

/// A network device.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one a board, and it is looked at all the time")]
pub enum Device {
    /// Ethernet by a W5500 on SPI0.
    W5500(W5500),
    /// Ethernet over the chip's USB port.
    Usb(Box<Usb>),
    /// Wi-Fi by a CYW43 on a bus that PIO0 drives.
    Cyw43(Box<Cyw43>),
}

impl Device {
    /// What this board has, as it is after power-up; none if that is not modelled. What is left to chance
    /// comes from the seed.
    #[must_use]
    pub fn of(board: BoardKind, seed: u64) -> Option<Device> {
        match board {
            BoardKind::W5500EvbPico => Some(Device::W5500(W5500::default())),
            BoardKind::PicoUsb => Some(Device::Usb(Box::new(Usb::new(seed)))),
            BoardKind::PicoW => Some(Device::Cyw43(Box::new(Cyw43::new(cyw43::mac(0))))),
            BoardKind::Qemu | BoardKind::QemuCount => None,
        }
    }

    /// The boards that can be emulated.
    pub fn boards() -> impl Iterator<Item = BoardKind> {
        BoardKind::REAL.into_iter().filter(|board| Device::of(*board, 0).is_some())
    }

    /// A device whose maker gave it its address gets that of the board at this position, and says it; none if
    /// its program gives it one.
    pub fn burn_in(&mut self, position: usize) -> Option<Mac> {
        match self {
            Device::W5500(_) | Device::Usb(_) => None,
            Device::Cyw43(chip) => {
                let mac = cyw43::mac(position as u16);
                **chip = Cyw43::new(mac);
                Some(mac)
            }
        }
    }

    /// The network that it will find, if it needs one to be told.
    #[must_use]
    pub fn wifi(&self) -> Option<Wifi> {
        match self {
            Device::W5500(_) | Device::Usb(_) => None,
            Device::Cyw43(_) => Some(AccessPoint::default().wifi()),
        }
    }

    /// The same device after the chip was reset.
    #[must_use]
    pub fn after_reset(&self, seed: u64) -> Device {
        match self {
            Device::W5500(_) => Device::W5500(W5500::default()),
            Device::Usb(_) => Device::Usb(Box::new(Usb::new(seed))),
            Device::Cyw43(chip) => Device::Cyw43(Box::new(chip.without_power())),
        }
    }

    /// When it has something to do next.
    #[must_use]
    pub fn next_at(&self) -> u64 {
        match self {
            Device::W5500(chip) => chip.next_at(),
            Device::Usb(usb) => usb.host().next_at(),
            Device::Cyw43(chip) => chip.next_at(),
        }
    }

    /// What happens in it until now, happens.
    pub fn advance(&mut self, now: u64) {
        match self {
            Device::W5500(_) => {}
            Device::Usb(usb) => usb.advance(now),
            Device::Cyw43(chip) => chip.advance(now),
        }
    }

    /// A frame that has left by now, and when.
    pub fn departed(&mut self, now: u64) -> Option<(u64, Vec<u8>)> {
        match self {
            Device::W5500(chip) => chip.departed(now),
            Device::Usb(usb) => usb.host_mut().traffic_mut().departed(now),
            Device::Cyw43(chip) => chip.departed(now),
        }
    }

    /// A frame arrives from the network.
    pub fn receive(&mut self, frame: &[u8]) {
        match self {
            Device::W5500(chip) => chip.receive(frame),
            Device::Usb(usb) => usb.host_mut().traffic_mut().send(frame),
            Device::Cyw43(chip) => chip.receive(frame),
        }
    }

    /// The interrupt lines that it raises.
    #[must_use]
    pub fn lines(&self) -> u32 {
        match self {
            Device::W5500(_) | Device::Cyw43(_) => 0,
            Device::Usb(usb) => usb.lines(),
        }
    }

    /// Reads a register on the chip's bus, if it has one there.
    #[must_use]
    pub fn read(&self, address: u32) -> Option<u32> {
        match self {
            Device::W5500(_) | Device::Cyw43(_) => None,
            Device::Usb(usb) => usb.read(address),
        }
    }

    /// Writes those bits of a register on the chip's bus that the mask has; false if it has none there.
    pub fn write(&mut self, address: u32, value: u32, mask: u32) -> bool {
        match self {
            Device::W5500(_) | Device::Cyw43(_) => false,
            Device::Usb(usb) => usb.write(address, value, mask),
        }
    }

    /// The pin that it drives, and its level.
    #[must_use]
    pub fn driven_pin(&self) -> Option<(u32, bool)> {
        match self {
            Device::W5500(chip) => Some((w5500::PIN_INTERRUPT, chip.interrupt_pin())),
            Device::Usb(_) => None,
            Device::Cyw43(chip) => Some((cyw43::PIN_DATA, chip.data_pin())),
        }
    }

    /// The processor, or its PIO, moved these pins at this time; now they have these levels.
    pub fn pins_moved(&mut self, at: u64, changed: u32, levels: u32) {
        match self {
            Device::W5500(chip) => chip.pins_moved(changed, levels),
            Device::Usb(_) => {}
            Device::Cyw43(chip) => chip.pins_moved(at, changed, levels),
        }
    }

    /// A byte on SPI0, and what comes back for it.
    pub fn exchange(&mut self, now: u64, byte: u8) -> u8 {
        match self {
            Device::W5500(chip) => chip.exchange(now, byte),
            Device::Usb(_) | Device::Cyw43(_) => 0xff,
        }
    }

    /// What was asked of it that is not modelled.
    #[must_use]
    pub fn unmodelled(&self) -> Option<&str> {
        match self {
            Device::W5500(chip) => chip.unmodelled(),
            Device::Usb(usb) => usb.unmodelled(),
            Device::Cyw43(chip) => chip.unmodelled(),
        }
    }

    /// Frames that found no room.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        match self {
            Device::W5500(chip) => chip.dropped(),
            Device::Usb(usb) => usb.host().traffic().dropped(),
            Device::Cyw43(chip) => chip.dropped(),
        }
    }
}
