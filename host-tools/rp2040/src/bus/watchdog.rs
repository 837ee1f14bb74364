//! WATCHDOG: resets a program that does not feed it; also the source of the timer's microseconds.

use super::CYCLES_PER_US;

const ENABLE: u32 = 1 << 30;
const TRIGGER: u32 = 1 << 31;
/// It stands still while a probe has stopped the core.
const PAUSE_IN_DEBUG: u32 = 1 << 25;
const COUNT_MASK: u32 = 0x00ff_ffff;
/// The chip counts two down for each microsecond (erratum RP2040-E1).
const COUNTS_PER_US: u64 = 2;
/// The crystal's 12 MHz make microseconds by this divisor.
const TICK_DIVISOR: u32 = 12;

/// The watchdog.
#[derive(Clone, Debug, Default)]
pub struct Watchdog {
    control: u32,
    load: u32,
    fed_at: u64,
    /// Why the last reset was: 1 timer, 2 forced. Survives resets, not power cuts.
    reason: u32,
    scratch: [u32; 8],
    tick: u32,
    triggered: bool,
    /// A probe has stopped the core since then.
    halted_at: Option<u64>,
}

impl Watchdog {
    /// After a reset that it caused: scratch registers stay.
    #[must_use]
    pub fn after_reset(&self, forced: bool) -> Watchdog {
        Watchdog { reason: if forced { 2 } else { 1 }, scratch: self.scratch, ..Watchdog::default() }
    }

    /// Reads a register.
    #[must_use]
    pub fn read(&self, now: u64, offset: u32) -> Option<u32> {
        Some(match offset {
            0x00 => (self.control & !COUNT_MASK) | self.count(now),
            0x08 => self.reason,
            0x0c..=0x28 => self.scratch[(offset as usize - 0x0c) / 4],
            0x2c => self.tick | (self.tick & (1 << 9)) << 1,
            _ => return None,
        })
    }

    /// Writes a register.
    pub fn write(&mut self, now: u64, offset: u32, value: u32) -> bool {
        match offset {
            0x00 => {
                if value & ENABLE != 0 && self.control & ENABLE == 0 {
                    self.fed_at = now;
                }
                self.triggered |= value & TRIGGER != 0;
                self.control = value & !(TRIGGER | COUNT_MASK);
            }
            0x04 => {
                self.load = value & COUNT_MASK;
                self.fed_at = now;
            }
            0x0c..=0x28 => self.scratch[(offset as usize - 0x0c) / 4] = value,
            // Any other divisor would make the timer's microseconds something else.
            0x2c if value & 0x1ff == TICK_DIVISOR || value & (1 << 9) == 0 => self.tick = value & 0x3ff,
            _ => return false,
        }
        true
    }

    /// A probe stops the core, or lets it go on.
    pub fn set_halted(&mut self, now: u64, halted: bool) {
        match self.halted_at.take() {
            Some(since) if !halted && self.control & PAUSE_IN_DEBUG != 0 => self.fed_at += now - since,
            since if halted => self.halted_at = since.or(Some(now)),
            _ => {}
        }
    }

    /// When it bites.
    #[must_use]
    pub fn next_at(&self) -> u64 {
        if self.triggered {
            return 0;
        }
        let stands_still = self.halted_at.is_some() && self.control & PAUSE_IN_DEBUG != 0;
        if self.control & ENABLE == 0 || stands_still {
            return u64::MAX;
        }
        self.fed_at + u64::from(self.load) * CYCLES_PER_US / COUNTS_PER_US
    }

    /// Whether the program asked for the reset.
    #[must_use]
    pub fn is_forced(&self) -> bool {
        self.triggered
    }

    fn count(&self, now: u64) -> u32 {
        let gone = now.saturating_sub(self.fed_at) * COUNTS_PER_US / CYCLES_PER_US;
        if self.control & ENABLE == 0 { self.load } else { u64::from(self.load).saturating_sub(gone) as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_bites_unless_fed() {
        let mut dog = Watchdog::default();
        assert!(dog.write(0, 0x04, 2_000) && dog.write(0, 0x00, ENABLE));
        assert_eq!(dog.next_at(), 1_000 * CYCLES_PER_US, "two counts a microsecond");
        assert!(dog.write(500, 0x04, 2_000));
        assert_eq!(dog.next_at(), 500 + 1_000 * CYCLES_PER_US);
    }

    #[test]
    fn it_waits_for_a_core_that_a_probe_has_stopped_if_told_so() {
        for (told, bites_at) in [(PAUSE_IN_DEBUG, 1_000_700), (0, 1_000_000)] {
            let mut dog = Watchdog::default();
            assert!(dog.write(0, 0x04, 16_000) && dog.write(0, 0x00, ENABLE | told));
            dog.set_halted(100, true);
            assert_eq!(dog.next_at() == u64::MAX, told != 0);
            dog.set_halted(800, false);
            assert_eq!(dog.next_at(), bites_at);
        }
    }

    #[test]
    fn scratch_registers_survive_its_reset() {
        let mut dog = Watchdog::default();
        assert!(dog.write(0, 0x10, 77) && dog.write(0, 0x00, TRIGGER));
        assert!(dog.is_forced() && dog.next_at() == 0);
        let after = dog.after_reset(true);
        assert_eq!((after.read(0, 0x10), after.read(0, 0x08), after.is_forced()), (Some(77), Some(2), false));
    }

    #[test]
    fn another_tick_than_a_microsecond_is_refused() {
        let mut dog = Watchdog::default();
        assert!(dog.write(0, 0x2c, 1 << 9 | 12) && !dog.write(0, 0x2c, 1 << 9 | 6));
        assert_eq!(dog.read(0, 0x2c), Some(3 << 9 | 12), "running");
    }
}
