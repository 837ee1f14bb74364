//! The converter, as far as the chip's own thermometer needs it. It is always 27 °C.

/// Control and status, and the result.
const CS: u32 = 0x0;
const RESULT: u32 = 0x4;

const ENABLED: u32 = 1 << 0;
const SENSOR_ON: u32 = 1 << 1;
const START_ONCE: u32 = 1 << 2;
const READY: u32 = 1 << 8;
const FAILED: u32 = 0b11 << 9;
const CHANNEL: u32 = 0b111 << 12;
/// The one channel that is modelled.
const THERMOMETER: u32 = 4 << 12;

/// A conversion takes 96 cycles of 48 MHz: 250 of the processor's.
const CONVERSION: u64 = 250;
/// The sensor's 706 mV at 27 °C, of 3.3 V.
const COUNTED: u32 = 876;

/// The converter.
#[derive(Clone, Debug, Default)]
pub struct Adc {
    control: u32,
    ready_at: u64,
}

impl Adc {
    /// What a register holds; none if it is not modelled.
    #[must_use]
    pub fn read(&self, now: u64, offset: u32) -> Option<u32> {
        let is_ready = self.control & ENABLED != 0 && now >= self.ready_at;
        match offset {
            CS => Some(self.control | if is_ready { READY } else { 0 }),
            RESULT => Some(if self.control & SENSOR_ON == 0 { 0 } else { COUNTED }),
            _ => None,
        }
    }

    /// Takes a value; false if it asks for what is not modelled.
    #[must_use]
    pub fn write(&mut self, now: u64, offset: u32, value: u32) -> bool {
        let known = ENABLED | SENSOR_ON | START_ONCE | READY | FAILED | CHANNEL;
        let starts = value & START_ONCE != 0;
        if offset != CS || value & !known != 0 || (starts && value & CHANNEL != THERMOMETER) {
            return false;
        }
        if starts {
            self.ready_at = now + CONVERSION;
        }
        self.control = value & (ENABLED | SENSOR_ON | CHANNEL);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thermometer_is_read_after_its_time_and_no_other_channel_is() {
        let mut adc = Adc::default();
        assert!(adc.write(0, CS, ENABLED | SENSOR_ON));
        assert!(adc.write(1000, CS, ENABLED | SENSOR_ON | START_ONCE | FAILED | THERMOMETER));
        assert_eq!(adc.read(1100, CS).map(|cs| cs & READY), Some(0), "it is at work");
        assert_eq!(adc.read(1250, CS).map(|cs| cs & (READY | FAILED)), Some(READY));
        assert_eq!(adc.read(1250, RESULT), Some(COUNTED));
        assert!(!adc.write(2000, CS, ENABLED | START_ONCE), "a pin");
        assert!(!adc.write(2000, 0x8, 0), "the queue of results");
    }
}
