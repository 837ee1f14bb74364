//! The pins: SIO's outputs, IO_BANK0's interrupts, and what is wired to them.

/// So many pins are there.
const PINS: usize = 30;
const PIN_MASK: u32 = (1 << PINS) - 1;
/// Bits of a pin's interrupt nibble.
const LEVEL_LOW: u32 = 1;
const LEVEL_HIGH: u32 = 2;
const EDGE_LOW: u32 = 4;
const EDGE_HIGH: u32 = 8;
/// The function that gives a pin to PIO0.
const FUNCTION_PIO0: u32 = 6;
/// A pad's pull-up.
const PULL_UP: u32 = 1 << 3;

/// The pins of bank 0.
#[derive(Clone, Debug)]
pub struct Gpio {
    out: u32,
    enable: u32,
    /// The same by PIO0, and which pins are its own.
    pio_out: u32,
    pio_enable: u32,
    is_pio: u32,
    /// What is driven from outside, and where.
    external: u32,
    driven: u32,
    control: [u32; PINS],
    pads: [u32; PINS],
    voltage: u32,
    edges: [u32; 4],
    interrupt_enable: [u32; 4],
    interrupt_force: [u32; 4],
    levels: u32,
    /// Pins with a pull-up.
    pulled: u32,
}

impl Default for Gpio {
    fn default() -> Gpio {
        Gpio {
            out: 0,
            enable: 0,
            pio_out: 0,
            pio_enable: 0,
            is_pio: 0,
            external: 0,
            driven: 0,
            control: [0x1f; PINS],
            pads: [0x56; PINS],
            voltage: 0,
            edges: [0; 4],
            interrupt_enable: [0; 4],
            interrupt_force: [0; 4],
            levels: 0,
            pulled: 0,
        }
    }
}

impl Gpio {
    /// Something outside drives a pin.
    pub fn drive(&mut self, pin: u32, high: bool) {
        if self.driven & 1 << pin != 0 && (self.external & 1 << pin != 0) == high {
            return;
        }
        self.driven |= 1 << pin;
        self.external = (self.external & !(1 << pin)) | u32::from(high) << pin;
        self.settle();
    }

    /// PIO0 drives its pins.
    pub fn drive_by_pio(&mut self, out: u32, enable: u32) {
        if (out, enable) != (self.pio_out, self.pio_enable) {
            (self.pio_out, self.pio_enable) = (out, enable);
            self.settle();
        }
    }

    /// The level of every pin.
    #[must_use]
    pub fn levels(&self) -> u32 {
        self.levels
    }

    /// Whether the processor drives this pin high.
    #[must_use]
    pub fn is_high(&self, pin: u32) -> bool {
        self.levels & (1 << pin) != 0
    }

    /// The interrupt line to core 0.
    #[must_use]
    pub fn line(&self) -> bool {
        (0..4).any(|word| self.pending(word) != 0)
    }

    /// Reads a register of SIO that is about pins.
    #[must_use]
    pub fn read_sio(&self, offset: u32) -> Option<u32> {
        Some(match offset {
            0x04 => self.levels,
            0x08 => 0,
            0x10 => self.out,
            0x20 => self.enable,
            0x30 | 0x40 => 0,
            _ => return None,
        })
    }

    /// Writes a register of SIO that is about pins.
    pub fn write_sio(&mut self, offset: u32, value: u32) -> bool {
        let value = value & PIN_MASK;
        match offset {
            0x10 => self.out = value,
            0x14 => self.out |= value,
            0x18 => self.out &= !value,
            0x1c => self.out ^= value,
            0x20 => self.enable = value,
            0x24 => self.enable |= value,
            0x28 => self.enable &= !value,
            0x2c => self.enable ^= value,
            _ => return false,
        }
        self.settle();
        true
    }

    /// Reads a register of IO_BANK0.
    #[must_use]
    pub fn read_bank(&self, offset: u32) -> Option<u32> {
        let word = (offset as usize & 0xf) / 4;
        Some(match offset {
            0x00..=0xec if offset.is_multiple_of(8) => u32::from(self.is_high(offset / 8)) << 17,
            0x00..=0xec => self.control[offset as usize / 8],
            0xf0..=0xfc => self.raw(word),
            0x100..=0x10c => self.interrupt_enable[word],
            0x110..=0x11c => self.interrupt_force[word],
            0x120..=0x12c => self.pending(word),
            0x130..=0x15c => 0, // The other core's.
            _ => return None,
        })
    }

    /// Writes a register of IO_BANK0.
    pub fn write_bank(&mut self, offset: u32, value: u32) -> bool {
        let word = (offset as usize & 0xf) / 4;
        match offset {
            0x00..=0xec if offset % 8 == 4 => {
                let pin = offset / 8;
                self.control[pin as usize] = value;
                self.is_pio = (self.is_pio & !(1 << pin)) | u32::from(value & 31 == FUNCTION_PIO0) << pin;
                self.settle();
            }
            0xf0..=0xfc => self.edges[word] &= !value,
            0x100..=0x10c => self.interrupt_enable[word] = value,
            0x110..=0x11c => self.interrupt_force[word] = value,
            0x130..=0x15c if value == 0 => {}
            _ => return false,
        }
        true
    }

    /// Reads a register of PADS_BANK0.
    #[must_use]
    pub fn read_pads(&self, offset: u32) -> Option<u32> {
        match offset {
            0x00 => Some(self.voltage),
            0x04..=0x78 => Some(self.pads[(offset as usize - 4) / 4]),
            0x7c | 0x80 => Some(0), // The debug port's.
            _ => None,
        }
    }

    /// Writes a register of PADS_BANK0.
    pub fn write_pads(&mut self, offset: u32, value: u32) -> bool {
        match offset {
            0x00 => self.voltage = value,
            0x04..=0x78 => {
                let pin = (offset as usize - 4) / 4;
                self.pads[pin] = value;
                self.pulled = (self.pulled & !(1 << pin)) | u32::from(value & PULL_UP != 0) << pin;
            }
            0x7c | 0x80 => {}
            _ => return false,
        }
        self.settle();
        true
    }

    fn settle(&mut self) {
        let outside = (self.external & self.driven) | (self.pulled & !self.driven);
        let choose = |own: u32, pio: u32| (own & !self.is_pio) | (pio & self.is_pio);
        let (out, enable) = (choose(self.out, self.pio_out), choose(self.enable, self.pio_enable));
        let levels = ((out & enable) | (outside & !enable)) & PIN_MASK;
        let changed = levels ^ self.levels;
        self.levels = levels;
        if changed == 0 {
            return;
        }
        for pin in (0..PINS).filter(|pin| changed & (1 << pin) != 0) {
            let edge = if levels & (1 << pin) != 0 { EDGE_HIGH } else { EDGE_LOW };
            self.edges[pin / 8] |= edge << (pin % 8 * 4);
        }
    }

    fn raw(&self, word: usize) -> u32 {
        let mut raw = self.edges[word];
        for pin in word * 8..(word * 8 + 8).min(PINS) {
            let level = if self.levels & (1 << pin) != 0 { LEVEL_HIGH } else { LEVEL_LOW };
            raw |= level << (pin % 8 * 4);
        }
        raw
    }

    fn pending(&self, word: usize) -> u32 {
        if self.interrupt_enable[word] == 0 {
            return self.interrupt_force[word];
        }
        (self.raw(word) & self.interrupt_enable[word]) | self.interrupt_force[word]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIN: u32 = 21;
    const NIBBLE: u32 = PIN % 8 * 4;

    #[test]
    fn a_level_interrupt_lasts_as_long_as_the_level() {
        let mut gpio = Gpio::default();
        gpio.drive(PIN, true);
        assert!(gpio.write_bank(0x108, LEVEL_LOW << NIBBLE));
        assert!(!gpio.line());
        gpio.drive(PIN, false);
        assert!(gpio.line() && gpio.write_bank(0xf8, u32::MAX) && gpio.line(), "acknowledging does not help");
        gpio.drive(PIN, true);
        assert!(!gpio.line());
    }

    #[test]
    fn an_edge_is_remembered_until_acknowledged() {
        let mut gpio = Gpio::default();
        gpio.drive(PIN, true);
        assert!(gpio.write_bank(0xf8, u32::MAX) && gpio.write_bank(0x108, EDGE_LOW << NIBBLE));
        gpio.drive(PIN, false);
        gpio.drive(PIN, true);
        assert_eq!(gpio.read_bank(0x128), Some(EDGE_LOW << NIBBLE));
        assert!(gpio.line() && gpio.write_bank(0xf8, EDGE_LOW << NIBBLE) && !gpio.line());
    }

    #[test]
    fn an_output_is_what_was_written_and_an_input_what_is_driven() {
        let mut gpio = Gpio::default();
        gpio.drive(3, true);
        assert!(gpio.write_sio(0x24, 1 << 5) && gpio.write_sio(0x14, 1 << 5 | 1 << 6));
        assert_eq!(gpio.read_sio(0x04), Some(1 << 3 | 1 << 5), "6 is not enabled");
        assert!(gpio.write_pads(4 + 4 * 6, PULL_UP));
        assert!(gpio.is_high(6), "pulled up");
    }
}
