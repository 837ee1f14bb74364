//! SIO without its pins: the divider, the spinlocks, and a mailbox to a core that stays asleep.

/// The rest of SIO.
#[derive(Clone, Debug, Default)]
pub struct Sio {
    spinlocks: u32,
    dividend: u32,
    divisor: u32,
    quotient: u32,
    remainder: u32,
    /// Ready always; dirty since a write until the quotient is read.
    is_dirty: bool,
}

impl Sio {
    /// Reads a register.
    pub fn read(&mut self, offset: u32) -> Option<u32> {
        Some(match offset {
            0x00 => 0,      // This is core 0.
            0x50 => 1 << 1, // There is room in the mailbox, and nothing to read.
            0x5c => self.spinlocks,
            0x60 | 0x68 => self.dividend,
            0x64 | 0x6c => self.divisor,
            0x70 => {
                self.is_dirty = false;
                self.quotient
            }
            0x74 => self.remainder,
            0x78 => 1 | u32::from(self.is_dirty) << 1,
            0x100..=0x17c => {
                let lock = 1 << ((offset - 0x100) / 4);
                let taken = self.spinlocks & lock != 0;
                self.spinlocks |= lock;
                if taken { 0 } else { lock }
            }
            _ => return None,
        })
    }

    /// Writes a register.
    pub fn write(&mut self, offset: u32, value: u32) -> bool {
        match offset {
            0x50 => {}
            0x60 | 0x68 => self.dividend = value,
            0x64 | 0x6c => self.divisor = value,
            0x70 => self.quotient = value,
            0x74 => self.remainder = value,
            0x100..=0x17c => self.spinlocks &= !(1 << ((offset - 0x100) / 4)),
            _ => return false,
        }
        match offset {
            0x60 | 0x64 => self.divide_unsigned(),
            0x68 | 0x6c => self.divide_signed(),
            _ => {}
        }
        self.is_dirty |= (0x60..=0x74).contains(&offset);
        true
    }

    fn divide_unsigned(&mut self) {
        self.quotient = self.dividend.checked_div(self.divisor).unwrap_or(u32::MAX);
        self.remainder = self.dividend.checked_rem(self.divisor).unwrap_or(self.dividend);
    }

    fn divide_signed(&mut self) {
        let (dividend, divisor) = (self.dividend as i32, self.divisor as i32);
        if divisor == 0 {
            self.quotient = if dividend < 0 { 1 } else { u32::MAX };
            self.remainder = self.dividend;
        } else {
            self.quotient = dividend.wrapping_div(divisor) as u32;
            self.remainder = dividend.wrapping_rem(divisor) as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spinlock_is_taken_once() {
        let mut sio = Sio::default();
        assert_eq!((sio.read(0x17c), sio.read(0x17c)), (Some(1 << 31), Some(0)));
        assert!(sio.write(0x17c, 0));
        assert_eq!(sio.read(0x17c), Some(1 << 31));
    }

    #[test]
    fn it_divides_as_the_datasheet_says_also_by_zero() {
        let mut sio = Sio::default();
        for (dividend, divisor, quotient, remainder) in [(7i32, -2i32, -3i32, 1i32), (-7, 0, 1, -7), (7, 0, -1, 7)] {
            assert!(sio.write(0x68, dividend as u32) && sio.write(0x6c, divisor as u32));
            assert_eq!((sio.read(0x74), sio.read(0x70)), (Some(remainder as u32), Some(quotient as u32)));
        }
        assert!(sio.write(0x60, 0xffff_fffe) && sio.write(0x64, 3));
        assert_eq!(sio.read(0x70), Some(0x5555_5554));
    }
}
