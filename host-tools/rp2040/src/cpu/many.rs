//! Instructions that move several registers to memory, or from there.

use super::Cpu;
use crate::bus::Bus;

impl Cpu {
    pub(super) fn store_many(&mut self, bus: &mut Bus, mut address: u32, list: u16) {
        let mut left = list;
        while left != 0 {
            let number = left.trailing_zeros() as usize & 15;
            bus.store32(address, self.r[number]);
            address = address.wrapping_add(4);
            left &= left - 1;
        }
    }

    pub(super) fn load_many(&mut self, bus: &mut Bus, mut address: u32, list: u16) {
        let mut left = list;
        while left != 0 {
            let number = left.trailing_zeros() as usize & 15;
            self.r[number] = bus.load32(address);
            address = address.wrapping_add(4);
            left &= left - 1;
        }
    }
}
