//! The memory protection unit, as far as it forbids: one contiguous part of RAM that nobody may touch.

use super::{RAM_BASE, RAM_LEN};
use std::ops::Range;

const REGIONS: usize = 8;
const ENABLE: u32 = 1;
/// Privileged programs keep their access where no region says otherwise.
const BACKGROUND: u32 = 1 << 2;

/// The memory protection unit.
#[derive(Clone, Debug, Default)]
pub struct Mpu {
    control: u32,
    number: usize,
    base: [u32; REGIONS],
    attributes: [u32; REGIONS],
}

impl Mpu {
    /// Reads a register.
    #[must_use]
    pub fn read(&self, offset: u32) -> Option<u32> {
        Some(match offset {
            0xed90 => (REGIONS as u32) << 8,
            0xed94 => self.control,
            0xed98 => self.number as u32,
            0xed9c => self.base[self.number],
            0xeda0 => self.attributes[self.number],
            _ => return None,
        })
    }

    /// Writes a register; false if what it asks for is not modelled.
    pub fn write(&mut self, offset: u32, value: u32) -> bool {
        match offset {
            0xed94 if value == 0 || value == ENABLE | BACKGROUND => self.control = value,
            0xed98 if (value as usize) < REGIONS => self.number = value as usize,
            // Bit 4 would choose the region as well.
            0xed9c if value & 0x10 == 0 => self.base[self.number] = value & !0xff,
            // Regions that allow something are not modelled.
            0xeda0 if value & ENABLE == 0 || value >> 24 & 7 == 0 => self.attributes[self.number] = value,
            _ => return false,
        }
        self.forbidden().is_some()
    }

    /// The part of RAM, as offsets, that is forbidden; none if it is in pieces.
    #[must_use]
    pub fn forbidden(&self) -> Option<Range<usize>> {
        let mut whole: Option<Range<u64>> = None;
        if self.control & ENABLE == 0 {
            return Some(0..0);
        }
        for (base, attributes) in self.base.iter().zip(self.attributes).filter(|(_, a)| a & ENABLE != 0) {
            let eighth = (2u64 << (attributes >> 1 & 0x1f)) / 8;
            let ram = u64::from(RAM_BASE)..u64::from(RAM_BASE) + RAM_LEN as u64;
            for index in (0..8).filter(|index| attributes & (1 << (8 + index)) == 0) {
                let from = (u64::from(*base) + index * eighth).max(ram.start);
                let to = (u64::from(*base) + (index + 1) * eighth).min(ram.end);
                if from >= to {
                    continue;
                }
                whole = match whole {
                    None => Some(from..to),
                    Some(known) if known.end == from => Some(known.start..to),
                    Some(_) => return None,
                };
            }
        }
        let at = |address: u64| (address - u64::from(RAM_BASE)) as usize;
        Some(whole.map_or(0..0, |range| at(range.start)..at(range.end)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(mpu: &mut Mpu, number: u32, base: u32, attributes: u32) -> bool {
        mpu.write(0xed98, number) && mpu.write(0xed9c, base) && mpu.write(0xeda0, attributes) && mpu.write(0xed94, 5)
    }

    #[test]
    fn only_the_eighths_that_are_not_spared_are_forbidden() {
        let mut mpu = Mpu::default();
        assert!(region(&mut mpu, 0, 0x1c00_0000, 1 << 28 | 25 << 1 | 1), "64 MiB below RAM");
        assert_eq!(mpu.forbidden(), Some(0..0));
        assert!(region(&mut mpu, 1, 0x2001_0000, 1 << 28 | (!(0b11 << 2) & 0xff) << 8 | 15 << 1 | 1));
        assert_eq!(mpu.forbidden(), Some(0x1_4000..0x1_8000));
        assert!(mpu.write(0xed94, 0));
        assert_eq!(mpu.forbidden(), Some(0..0), "switched off");
    }

    #[test]
    fn what_allows_something_or_is_in_pieces_is_refused() {
        let mut mpu = Mpu::default();
        assert!(!region(&mut mpu, 0, 0x2000_0000, 3 << 24 | 15 << 1 | 1));
        assert!(!region(&mut mpu, 0, 0x2000_0000, 1 << 28 | 0b1111_1010 << 8 | 15 << 1 | 1));
    }
}
