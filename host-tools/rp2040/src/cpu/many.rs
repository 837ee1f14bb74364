//! Instructions that move several registers to memory, or from there.

use super::Cpu;
use crate::bus::Bus;

impl Cpu {
    pub(super) fn store_many(&mut self, bus: &mut Bus, mut address: u32, list: u16) {
        let mut left = list;
        if let Some(words) = bus.ram_words(address, list.count_ones()) {
            for word in words {
                *word = self.r[left.trailing_zeros() as usize & 15];
                left &= left.wrapping_sub(1);
            }
            return;
        }
        while left != 0 {
            let number = left.trailing_zeros() as usize & 15;
            bus.store32(address, self.r[number]);
            address = address.wrapping_add(4);
            left &= left - 1;
        }
    }

    pub(super) fn load_many(&mut self, bus: &mut Bus, mut address: u32, list: u16) {
        let mut left = list;
        if let Some(words) = bus.ram_words(address, list.count_ones()) {
            for word in words {
                self.r[left.trailing_zeros() as usize & 15] = *word;
                left &= left.wrapping_sub(1);
            }
            return;
        }
        while left != 0 {
            let number = left.trailing_zeros() as usize & 15;
            self.r[number] = bus.load32(address);
            address = address.wrapping_add(4);
            left &= left - 1;
        }
    }
}
