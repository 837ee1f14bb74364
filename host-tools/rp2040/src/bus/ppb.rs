//! The processor's own registers: NVIC, system control, and a SysTick that counts without interrupting.

use rp2040_emu::{bus::ppb::Ppb, core::Nvic};

const COUNTER_MASK: u32 = 0x00ff_ffff;
const VECTOR_KEY: u32 = 0x05fa_0000;
const RESET_REQUEST: u32 = 1 << 2;

/// The private peripheral bus.
#[derive(Clone)]
pub struct Private {
    /// Vector table, priorities and active exceptions, as the processor core keeps them.
    pub system: Ppb,
    /// Interrupts, as the processor core keeps them.
    pub interrupts: Nvic,
    control: u32,
    tick_control: u32,
    tick_reload: u32,
    tick_begun: u64,
    wants_reset: bool,
}

impl Default for Private {
    fn default() -> Private {
        Private {
            system: Ppb::new(),
            interrupts: Nvic::new(),
            control: 0,
            tick_control: 0,
            tick_reload: 0,
            tick_begun: 0,
            wants_reset: false,
        }
    }
}

impl Private {
    /// Interrupts whose handlers run.
    #[must_use]
    pub fn active(&self) -> u32 {
        (self.system.active >> 16) as u32
    }

    /// Whether the program asked for a reset.
    #[must_use]
    pub fn wants_reset(&self) -> bool {
        self.wants_reset
    }

    /// Reads a register.
    #[must_use]
    pub fn read(&self, now: u64, offset: u32) -> Option<u32> {
        let nvic = &self.interrupts;
        Some(match offset {
            0xe010 => self.tick_control,
            0xe014 => self.tick_reload,
            0xe018 if self.tick_control & 1 == 0 => 0,
            0xe018 => self.tick_reload - ((now - self.tick_begun) % (u64::from(self.tick_reload) + 1)) as u32,
            0xe01c => 0,
            0xe100 | 0xe180 => nvic.enabled,
            0xe200 | 0xe280 => nvic.pending,
            0xe400..=0xe41c => {
                let first = (offset - 0xe400) as usize;
                u32::from_le_bytes([0, 1, 2, 3].map(|i| nvic.priority[first + i]))
            }
            0xed10 => self.control,
            0xed14 => 0x208,
            // No debugger is attached.
            0xed24 | 0xedf0 => 0,
            0xed00 | 0xed04 | 0xed08 | 0xed0c | 0xed1c | 0xed20 => self.system.read32(offset),
            _ => return None,
        })
    }

    /// Writes a register.
    pub fn write(&mut self, now: u64, offset: u32, value: u32) -> bool {
        let nvic = &mut self.interrupts;
        match offset {
            // Counting is all it does here: bit 1 would interrupt.
            0xe010 if value & 2 == 0 => {
                self.tick_control = value & 5;
                self.tick_begun = now;
            }
            0xe014 => self.tick_reload = value & COUNTER_MASK,
            0xe018 => self.tick_begun = now,
            0xe100 => nvic.enabled |= value,
            0xe180 => nvic.enabled &= !value,
            0xe200 => nvic.pending |= value,
            0xe280 => nvic.pending &= !value,
            0xe400..=0xe41c => {
                let first = (offset - 0xe400) as u8;
                for (index, byte) in value.to_le_bytes().iter().enumerate() {
                    nvic.set_priority(first + index as u8, *byte);
                }
            }
            0xed0c if value & 0xffff_0000 == VECTOR_KEY => self.wants_reset |= value & RESET_REQUEST != 0,
            0xed10 if value & 0x10 == 0 => self.control = value & 0x06,
            0xed04 | 0xed08 | 0xed1c | 0xed20 => self.system.write32(offset, value),
            _ => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_are_enabled_pended_and_ranked() {
        let mut private = Private::default();
        assert!(private.write(0, 0xe100, 1 << 13) && private.write(0, 0xe200, 1 << 13 | 1 << 3));
        assert!(private.write(0, 0xe40c, 0xc0 << 8));
        assert_eq!(private.interrupts.highest_priority_pending(), Some((13, 0xc0)));
        assert!(private.write(0, 0xe280, 1 << 13));
        assert_eq!((private.interrupts.highest_priority_pending(), private.read(0, 0xe200)), (None, Some(1 << 3)));
    }

    #[test]
    fn a_reset_needs_the_key() {
        let mut private = Private::default();
        assert!(!private.write(0, 0xed0c, 4) && !private.wants_reset());
        assert!(private.write(0, 0xed0c, VECTOR_KEY | 4) && private.wants_reset());
    }

    #[test]
    fn the_tick_counts_down_and_around_and_may_not_interrupt() {
        let mut private = Private::default();
        assert!(private.write(0, 0xe014, 9) && private.write(100, 0xe010, 5) && !private.write(0, 0xe010, 7));
        assert_eq!([100, 103, 109, 110].map(|now| private.read(now, 0xe018).unwrap()), [9, 6, 0, 9]);
    }
}
