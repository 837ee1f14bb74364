//! TIMER: microseconds since power-up in 64 bits, and four alarms on their lower half.

use super::CYCLES_PER_US;

/// The timer.
#[derive(Clone, Debug, Default)]
pub struct Timer {
    alarm: [u32; 4],
    /// When each armed alarm fires, in cycles.
    fires_at: [Option<u64>; 4],
    raised: u32,
    enabled: u32,
    forced: u32,
    /// The upper half as it was when the lower was read.
    latched: u32,
}

impl Timer {
    /// Reads a register; none if there is no such register.
    pub fn read(&mut self, now: u64, offset: u32) -> Option<u32> {
        let micros = now / CYCLES_PER_US;
        Some(match offset {
            0x08 => self.latched,
            0x0c => {
                self.latched = (micros >> 32) as u32;
                micros as u32
            }
            0x10 | 0x14 | 0x18 | 0x1c => self.alarm[(offset as usize - 0x10) / 4],
            0x20 => (0..4).filter(|i| self.fires_at[*i].is_some()).map(|i| 1 << i).sum(),
            0x24 => (micros >> 32) as u32,
            0x28 => micros as u32,
            0x2c | 0x30 => 0,
            0x34 => self.raised,
            0x38 => self.enabled,
            0x3c => self.forced,
            0x40 => self.lines(),
            _ => return None,
        })
    }

    /// Writes a register; false if there is no such register, or it is not modelled.
    pub fn write(&mut self, now: u64, offset: u32, value: u32) -> bool {
        match offset {
            0x10 | 0x14 | 0x18 | 0x1c => {
                let index = (offset as usize - 0x10) / 4;
                self.alarm[index] = value;
                // It fires when the lower halves are equal, however long that takes.
                let micros = now / CYCLES_PER_US;
                let ahead = value.wrapping_sub(micros as u32);
                self.fires_at[index] = Some((micros + u64::from(ahead)) * CYCLES_PER_US);
            }
            0x20 => {
                for index in (0..4).filter(|i| value & (1 << i) != 0) {
                    self.fires_at[index] = None;
                }
            }
            0x2c => {}
            0x34 => self.raised &= !value,
            0x38 => self.enabled = value & 0xf,
            0x3c => self.forced = value & 0xf,
            _ => return false,
        }
        true
    }

    /// When the next alarm fires.
    #[must_use]
    pub fn next_at(&self) -> u64 {
        self.fires_at.iter().flatten().copied().min().unwrap_or(u64::MAX)
    }

    /// Fires what is due.
    pub fn advance(&mut self, now: u64) {
        for index in 0..4 {
            if self.fires_at[index].is_some_and(|at| at <= now) {
                self.fires_at[index] = None;
                self.raised |= 1 << index;
            }
        }
    }

    /// The four interrupt lines, lowest bit first.
    #[must_use]
    pub fn lines(&self) -> u32 {
        (self.raised & self.enabled) | self.forced
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_fires_once_at_its_microsecond_and_stays_raised_until_acknowledged() {
        let mut timer = Timer::default();
        assert!(timer.write(0, 0x38, 1) && timer.write(130, 0x10, 3));
        assert_eq!((timer.next_at(), timer.read(374, 0x28)), (375, Some(2)));
        timer.advance(374);
        assert_eq!(timer.lines(), 0);
        timer.advance(375);
        assert_eq!((timer.lines(), timer.next_at(), timer.read(375, 0x20)), (1, u64::MAX, Some(0)));
        assert!(timer.write(380, 0x34, 1));
        assert_eq!(timer.lines(), 0);
    }

    #[test]
    fn an_alarm_in_the_past_fires_after_the_lower_half_has_wrapped() {
        let mut timer = Timer::default();
        assert!(timer.write(10 * CYCLES_PER_US, 0x10, 9));
        assert_eq!(timer.next_at(), (10 + u64::from(u32::MAX)) * CYCLES_PER_US);
        assert!(timer.write(10 * CYCLES_PER_US, 0x20, 1));
        assert_eq!(timer.next_at(), u64::MAX, "disarmed");
    }

    #[test]
    fn what_is_not_modelled_is_refused() {
        let mut timer = Timer::default();
        assert_eq!(timer.read(0, 0x44), None);
        assert!(!timer.write(0, 0x00, 5), "the time is not set");
    }
}
