//! The boot ROM as far as programs call it: the table of functions, and a stub for each.
//!
//! A stub is real code: it stores its number to an address that no chip has, and the board does the
//! function's work there. So the program calls it as it would call the ROM.

/// Size of the ROM.
pub const ROM_LEN: usize = 0x4000;
/// A store to here, plus four times a function's number, calls the function.
pub const TRAP_BASE: u32 = 0xf000_0000;
const STUBS_AT: usize = 0x200;
const STUB_LEN: usize = 12;
const TABLE_AT: u16 = 0x100;

/// What a program can ask of the ROM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Function {
    /// Finds a function: (table, code) → address.
    Lookup,
    /// Connects the flash to its controller.
    ConnectFlash,
    /// Leaves execute-in-place.
    ExitXip,
    /// Erases: (offset, length, block size, block command).
    Erase,
    /// Programs: (offset, data, length).
    Program,
    /// Empties the cache.
    FlushCache,
    /// Executes in place again.
    EnterXip,
    /// (to, value, length).
    Memset,
    /// The same, in words.
    Memset4,
    /// (to, from, length).
    Memcpy,
    /// The same, in words.
    Memcpy44,
}

/// Each function, with the code by which it is looked up.
const FUNCTIONS: [(Function, [u8; 2]); 11] = [
    (Function::Lookup, *b"\0\0"),
    (Function::ConnectFlash, *b"IF"),
    (Function::ExitXip, *b"EX"),
    (Function::Erase, *b"RE"),
    (Function::Program, *b"RP"),
    (Function::FlushCache, *b"FC"),
    (Function::EnterXip, *b"CX"),
    (Function::Memset, *b"MS"),
    (Function::Memset4, *b"S4"),
    (Function::Memcpy, *b"MC"),
    (Function::Memcpy44, *b"C4"),
];

/// The ROM's contents.
#[must_use]
pub fn image() -> Box<[u8]> {
    let mut rom = vec![0; ROM_LEN];
    rom[0x10..0x14].copy_from_slice(&[b'M', b'u', 1, 2]); // Magic, table format, version.
    rom[0x14..0x16].copy_from_slice(&TABLE_AT.to_le_bytes());
    rom[0x18..0x1a].copy_from_slice(&(stub(0) as u16 | 1).to_le_bytes());
    let mut at = usize::from(TABLE_AT);
    for (number, (_, code)) in FUNCTIONS.iter().enumerate() {
        let target = stub(number);
        let halves: [u16; 4] = [
            0xb510, // push {r4, lr}
            0x4c01, // ldr r4, [pc, #4]
            0x6024, // str r4, [r4]
            0xbd10, // pop {r4, pc}
        ];
        for (index, half) in halves.iter().enumerate() {
            rom[target + 2 * index..][..2].copy_from_slice(&half.to_le_bytes());
        }
        rom[target + 8..][..4].copy_from_slice(&(TRAP_BASE + 4 * number as u32).to_le_bytes());
        if number > 0 {
            rom[at..at + 2].copy_from_slice(code);
            rom[at + 2..at + 4].copy_from_slice(&(target as u16 | 1).to_le_bytes());
            at += 4;
        }
    }
    rom.into()
}

/// The function that a store to this address calls.
#[must_use]
pub fn trapped(address: u32) -> Option<Function> {
    let number = address.checked_sub(TRAP_BASE)? / 4;
    FUNCTIONS.get(number as usize).map(|(function, _)| *function)
}

/// The address of the function with this code, or 0.
#[must_use]
pub fn lookup(code: u32) -> u32 {
    let found = FUNCTIONS.iter().skip(1).position(|(_, known)| u32::from(u16::from_le_bytes(*known)) == code);
    found.map_or(0, |index| stub(index + 1) as u32 | 1)
}

const fn stub(number: usize) -> usize {
    STUBS_AT + STUB_LEN * number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_and_the_lookup_agree() {
        let rom = image();
        let half = |at: usize| u32::from(u16::from_le_bytes([rom[at], rom[at + 1]]));
        let mut at = half(0x14) as usize;
        let mut found = 0;
        while half(at) != 0 {
            assert_eq!(lookup(half(at)), half(at + 2));
            at += 4;
            found += 1;
        }
        assert_eq!(found, FUNCTIONS.len() - 1);
        assert_eq!(lookup(u32::from(u16::from_le_bytes(*b"XY"))), 0);
    }

    #[test]
    fn a_stub_stores_to_its_own_trap() {
        let rom = image();
        let at = lookup(u32::from(u16::from_le_bytes(*b"RP"))) as usize & !1;
        let word = u32::from_le_bytes(rom[at + 8..at + 12].try_into().unwrap());
        assert_eq!(trapped(word), Some(Function::Program));
        assert_eq!(trapped(0x4000_0000), None);
    }
}
