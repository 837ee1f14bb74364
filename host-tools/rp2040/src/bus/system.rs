//! Clocks, oscillators, PLLs, resets, power and the rest of what a program sets up once.
//!
//! The processor runs at 125 MHz from the first instruction; a program that asks for another
//! frequency asks for what is not modelled.

use super::registers::Registers;

const CRYSTAL_MHZ: u32 = 12;
const SYSTEM_MHZ: u32 = 125;
const RESETS_ALL: u32 = 0x01ff_ffff;

/// Everything that is set up once.
#[derive(Clone, Debug)]
pub struct System {
    resets: u32,
    resets_watchdog: u32,
    clocks: Registers,
    xosc: Registers,
    rosc: Registers,
    pll_sys: Registers,
    pll_usb: Registers,
    power: Registers,
    voltage: Registers,
    syscfg: Registers,
    pads_qspi: Registers,
    io_qspi: Registers,
    busctrl: Registers,
    xip: Registers,
    ssi: Registers,
    /// The ring oscillator's random bits, by seed.
    random: u64,
}

impl Default for System {
    fn default() -> System {
        let pll = || Registers::new(&[0x0..=0xc]).with(&[(0, 1), (4, 0x2d), (0xc, 0x77000)]);
        System {
            resets: RESETS_ALL,
            resets_watchdog: 0,
            clocks: Registers::new(&[0x00..=0x7c, 0xa0..=0xc4]),
            xosc: Registers::new(&[0x00..=0x00, 0x08..=0x0c]),
            rosc: Registers::new(&[0x00..=0x14]),
            pll_sys: pll(),
            pll_usb: pll(),
            power: Registers::new(&[0x0..=0x8]),
            voltage: Registers::new(&[0x0..=0x8]).with(&[(0, 0xb1)]),
            syscfg: Registers::new(&[0x00..=0x18]),
            pads_qspi: Registers::new(&[0x00..=0x18]),
            io_qspi: Registers::new(&[0x00..=0x2c]),
            busctrl: Registers::new(&[0x00..=0x24]),
            xip: Registers::new(&[0x00..=0x18]).with(&[(0, 3), (8, 6)]),
            ssi: Registers::new(&[0x00..=0x1c, 0x2c..=0x30, 0x60..=0x60, 0xf0..=0xf8]),
            random: 1,
        }
    }
}

/// The blocks of [`System`], by their address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Block {
    /// What chip this is.
    Sysinfo,
    /// System configuration.
    Syscfg,
    /// Clocks.
    Clocks,
    /// Resets.
    Resets,
    /// The power-on state machine.
    Power,
    /// The flash's pins.
    IoQspi,
    /// Their pads.
    PadsQspi,
    /// The crystal.
    Xosc,
    /// The system's PLL.
    PllSys,
    /// The USB's PLL.
    PllUsb,
    /// Bus priorities and counters.
    Busctrl,
    /// The ring oscillator.
    Rosc,
    /// The voltage regulator.
    Voltage,
    /// The cache in front of the flash.
    Xip,
    /// The flash's controller.
    Ssi,
}

impl Block {
    /// The block at a base address.
    #[must_use]
    pub fn at(base: u32) -> Option<Block> {
        Some(match base {
            0x1400_0000 => Block::Xip,
            0x1800_0000 => Block::Ssi,
            0x4000_0000 => Block::Sysinfo,
            0x4000_4000 => Block::Syscfg,
            0x4000_8000 => Block::Clocks,
            0x4000_c000 => Block::Resets,
            0x4001_0000 => Block::Power,
            0x4001_8000 => Block::IoQspi,
            0x4002_0000 => Block::PadsQspi,
            0x4002_4000 => Block::Xosc,
            0x4002_8000 => Block::PllSys,
            0x4002_c000 => Block::PllUsb,
            0x4003_0000 => Block::Busctrl,
            0x4006_0000 => Block::Rosc,
            0x4006_4000 => Block::Voltage,
            _ => return None,
        })
    }
}

impl System {
    /// Random bits come from this seed.
    #[must_use]
    pub fn seeded(seed: u64) -> System {
        System { random: seed | 1, ..System::default() }
    }

    /// Reads a register.
    pub fn read(&mut self, block: Block, offset: u32) -> Option<u32> {
        match block {
            Block::Sysinfo => match offset {
                0x00 => Some(0x2000_2927), // RP2040 B2.
                0x04 => Some(2),
                0x14 => Some(0),
                _ => None,
            },
            Block::Resets => match offset {
                0x00 => Some(self.resets),
                0x04 => Some(self.resets_watchdog),
                0x08 => Some(!self.resets & RESETS_ALL),
                _ => None,
            },
            Block::Clocks => match offset {
                0x38 => Some(1 << (self.clocks.get(0x30)? & 3)),
                0x44 => Some(1 << (self.clocks.get(0x3c)? & 1)),
                0x08 | 0x14 | 0x20 | 0x2c | 0x50 | 0x5c | 0x68 | 0x74 => Some(1),
                _ => self.clocks.get(offset),
            },
            Block::Xosc if offset == 0x04 => Some(1 << 31 | 1 << 12), // Stable and enabled.
            Block::Xosc => self.xosc.get(offset),
            Block::Rosc => match offset {
                0x18 => Some(1 << 31 | 1 << 12),
                0x1c => {
                    // xorshift64: enough to look random, and the same for the same seed.
                    self.random ^= self.random << 13;
                    self.random ^= self.random >> 7;
                    self.random ^= self.random << 17;
                    Some(self.random as u32 & 1)
                }
                _ => self.rosc.get(offset),
            },
            Block::PllSys => pll(&self.pll_sys, offset),
            Block::PllUsb => pll(&self.pll_usb, offset),
            Block::Power if offset == 0x0c => Some(0x0001_ffff), // Everything is on.
            Block::Power => self.power.get(offset),
            Block::Voltage => self.voltage.get(offset).map(|v| if offset == 0 { v | 1 << 12 } else { v }),
            Block::Ssi => match offset {
                0x28 => Some(0b0110), // Nothing is on its way.
                0x60 => Some(2),      // The flash's status: quad enabled, so nobody need enable it.
                _ => self.ssi.get(offset),
            },
            Block::Xip => self.xip.get(offset).map(|v| if offset == 4 { 0 } else { v }),
            Block::Syscfg => self.syscfg.get(offset),
            Block::PadsQspi => self.pads_qspi.get(offset),
            Block::IoQspi => self.io_qspi.get(offset),
            Block::Busctrl => self.busctrl.get(offset),
        }
    }

    /// Writes a register.
    pub fn write(&mut self, block: Block, offset: u32, value: u32) -> bool {
        match block {
            Block::Sysinfo => false,
            Block::Resets => {
                match offset {
                    0x00 => self.resets = value & RESETS_ALL,
                    0x04 => self.resets_watchdog = value,
                    _ => return false,
                }
                true
            }
            Block::Clocks => self.clocks.set(offset, value),
            Block::Xosc => self.xosc.set(offset, value),
            Block::Rosc => self.rosc.set(offset, value),
            Block::PllSys => self.pll_sys.set(offset, value) && (offset != 0xc || self.is_nominal()),
            Block::PllUsb => self.pll_usb.set(offset, value),
            Block::Power => self.power.set(offset, value),
            Block::Voltage => self.voltage.set(offset, value),
            Block::Ssi => self.ssi.set(offset, value),
            Block::Xip => self.xip.set(offset, value),
            Block::Syscfg => self.syscfg.set(offset, value),
            Block::PadsQspi => self.pads_qspi.set(offset, value),
            Block::IoQspi => self.io_qspi.set(offset, value),
            Block::Busctrl => self.busctrl.set(offset, value),
        }
    }

    /// Whether the system's PLL makes the frequency that the model runs at.
    fn is_nominal(&self) -> bool {
        let register = |offset| self.pll_sys.get(offset).unwrap_or(0);
        let (reference, feedback, post) = (register(0x00) & 0x3f, register(0x08) & 0xfff, register(0x0c));
        let divisor = reference.max(1) * (post >> 16 & 7).max(1) * (post >> 12 & 7).max(1);
        feedback * CRYSTAL_MHZ == SYSTEM_MHZ * divisor
    }
}

fn pll(registers: &Registers, offset: u32) -> Option<u32> {
    // It has locked as soon as anybody asks.
    registers.get(offset).map(|value| if offset == 0 { value | 1 << 31 } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_out_of_reset_is_done_at_once() {
        let mut system = System::default();
        assert_eq!(system.read(Block::Resets, 8), Some(0));
        assert!(system.write(Block::Resets, 0, RESETS_ALL & !(1 << 16)));
        assert_eq!(system.read(Block::Resets, 8), Some(1 << 16));
    }

    #[test]
    fn only_the_modelled_frequency_is_accepted() {
        let mut system = System::default();
        assert!(system.write(Block::PllSys, 8, 125) && system.write(Block::PllSys, 0xc, 6 << 16 | 2 << 12));
        assert!(system.write(Block::PllSys, 8, 133) && !system.write(Block::PllSys, 0xc, 6 << 16 | 2 << 12));
    }

    #[test]
    fn random_bits_repeat_with_their_seed() {
        let bits = |seed| {
            let mut system = System::seeded(seed);
            (0..64).map(|_| system.read(Block::Rosc, 0x1c).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(bits(5), bits(5));
        assert_ne!(bits(5), bits(6));
        assert!(bits(5).contains(&0) && bits(5).contains(&1));
    }
}
