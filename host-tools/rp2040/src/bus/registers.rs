//! Registers that only remember what was written: configuration that the model need not act on.
//! What is not listed is not modelled, and touching it ends the run.

use std::ops::RangeInclusive;

/// So many bytes of a peripheral's registers can be remembered.
const SPAN: usize = 0x140;

/// A block of registers that remember.
#[derive(Clone, Debug)]
pub struct Registers {
    known: &'static [RangeInclusive<u32>],
    words: [u32; SPAN / 4],
}

impl Registers {
    /// Registers at these offsets (first and last), all zero.
    #[must_use]
    pub fn new(known: &'static [RangeInclusive<u32>]) -> Registers {
        Registers { known, words: [0; SPAN / 4] }
    }

    /// The same with values that they have after a reset.
    #[must_use]
    pub fn with(mut self, values: &[(u32, u32)]) -> Registers {
        for (offset, value) in values {
            self.words[*offset as usize / 4] = *value;
        }
        self
    }

    /// What a register holds; none if there is no such register.
    #[must_use]
    pub fn get(&self, offset: u32) -> Option<u32> {
        self.known.iter().any(|range| range.contains(&offset)).then(|| self.words[offset as usize / 4])
    }

    /// Keeps a value; false if there is no such register.
    #[must_use]
    pub fn set(&mut self, offset: u32, value: u32) -> bool {
        let is_known = self.known.iter().any(|range| range.contains(&offset));
        if is_known {
            self.words[offset as usize / 4] = value;
        }
        is_known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_listed_is_there() {
        let mut registers = Registers::new(&[0..=4, 0x10..=0x10]).with(&[(4, 7)]);
        assert_eq!((registers.get(0), registers.get(4), registers.get(8)), (Some(0), Some(7), None));
        assert!(registers.set(0x10, 3) && !registers.set(0xc, 3));
        assert_eq!(registers.get(0x10), Some(3));
    }
}
