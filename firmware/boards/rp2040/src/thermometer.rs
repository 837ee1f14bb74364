//! The chip's own thermometer, which sits beside the crystal that drifts with the warmth.

use embassy_rp::{
    Peri,
    adc::{Adc, Blocking, Channel, Config},
    peripherals::{ADC, ADC_TEMP_SENSOR},
};

/// The converter's reference, in µV; boards take it from their supply.
const REFERENCE_UV: i32 = 3_300_000;
/// The sensor's voltage at 27 °C, and what a degree takes from it (data sheet, 4.9.5).
const AT_27_UV: i32 = 706_000;
const A_DEGREE_UV: i32 = 1_721;

/// The sensor, and the converter that reads it.
pub struct Thermometer {
    converter: Adc<'static, Blocking>,
    sensor: Channel<'static>,
}

impl Thermometer {
    /// Switches it on.
    #[must_use]
    pub fn new(converter: Peri<'static, ADC>, sensor: Peri<'static, ADC_TEMP_SENSOR>) -> Thermometer {
        Thermometer {
            converter: Adc::new_blocking(converter, Config::default()),
            sensor: Channel::new_temp_sensor(sensor),
        }
    }

    /// How warm it is, in thousandths of a degree Celsius. Takes 2 µs; a conversion that failed says nothing.
    pub fn milli_celsius(&mut self) -> Option<i32> {
        let counted = i32::from(self.converter.blocking_read(&mut self.sensor).ok()?);
        let measured_uv = (counted * (REFERENCE_UV / 32)) / (4096 / 32);
        Some(27_000 - (measured_uv - AT_27_UV) * 1000 / A_DEGREE_UV)
    }
}
