//! UF2: the file that one drops on a board's USB drive.
//!
//! The format is Microsoft's: blocks of 512 bytes, each with its address and 256 bytes for it, so
//! that the boot ROM can take them in any order and skip what is not for it.

use object::{
    Endianness,
    elf::PT_LOAD,
    read::elf::{ElfFile32, ProgramHeader},
};
use std::{collections::BTreeMap, ops::Range};

/// Length of a block.
pub const BLOCK_LEN: usize = 512;
/// How much of memory one block holds.
pub const PAYLOAD_LEN: usize = 256;
/// The RP2040's family, by which its boot ROM knows what is for it.
pub const RP2040_FAMILY: u32 = 0xe48b_ff56;

const MAGIC_START: [u32; 2] = [0x0a32_4655, 0x9e5d_5157];
const MAGIC_END: u32 = 0x0ab1_6f30;
const FLAG_FAMILY: u32 = 0x0000_2000;
const HEADER_LEN: usize = 32;

/// Memory to be written, in pages of [`PAYLOAD_LEN`] bytes by address.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Contents(BTreeMap<u32, [u8; PAYLOAD_LEN]>);

impl Contents {
    /// What an image puts into flash.
    ///
    /// # Errors
    /// If it is no ELF file, or has something for elsewhere than `flash`.
    pub fn of_elf(elf: &[u8], flash: Range<u32>) -> Result<Contents, String> {
        let file = ElfFile32::<Endianness>::parse(elf).map_err(|error| format!("the image is no ELF file: {error}"))?;
        let endian = file.endian();
        let mut contents = Contents::default();
        for segment in file.elf_program_headers() {
            if segment.p_type(endian) != PT_LOAD || segment.p_filesz(endian) == 0 {
                continue;
            }
            let bytes = segment.data(endian, elf).map_err(|()| "a segment lies outside of the file".to_owned())?;
            let at = segment.p_paddr(endian);
            let end = u64::from(at) + bytes.len() as u64;
            if at < flash.start || end > u64::from(flash.end) {
                return Err(format!(
                    "{at:#x} to {end:#x} is outside of the flash for programs, {:#x} to {:#x}",
                    flash.start, flash.end
                ));
            }
            contents.put(at, bytes);
        }
        if contents.0.is_empty() {
            return Err("the image has nothing for the flash".into());
        }
        Ok(contents)
    }

    /// Writes bytes at an address; what is left of a page is blank.
    pub fn put(&mut self, at: u32, bytes: &[u8]) {
        for (address, byte) in (at..).zip(bytes) {
            let offset = address as usize % PAYLOAD_LEN;
            self.0.entry(address - offset as u32).or_insert([0xff; PAYLOAD_LEN])[offset] = *byte;
        }
    }

    /// The file's bytes.
    #[must_use]
    pub fn to_uf2(&self) -> Vec<u8> {
        let count = self.0.len() as u32;
        let block = |(index, (at, payload)): (usize, (&u32, &[u8; PAYLOAD_LEN]))| {
            let [first, second] = MAGIC_START;
            let header = [first, second, FLAG_FAMILY, *at, PAYLOAD_LEN as u32, index as u32, count, RP2040_FAMILY];
            let mut block = Vec::with_capacity(BLOCK_LEN);
            block.extend(header.iter().flat_map(|word| word.to_le_bytes()));
            block.extend(payload);
            block.resize(BLOCK_LEN - 4, 0);
            block.extend(MAGIC_END.to_le_bytes());
            block
        };
        self.0.iter().enumerate().flat_map(block).collect()
    }

    /// Reads a file back.
    ///
    /// # Errors
    /// The first block that the boot ROM would not take.
    pub fn of_uf2(bytes: &[u8]) -> Result<Contents, String> {
        let mut contents = Contents::default();
        if bytes.is_empty() || !bytes.len().is_multiple_of(BLOCK_LEN) {
            return Err(format!("{} bytes are no whole blocks of {BLOCK_LEN}", bytes.len()));
        }
        let count = bytes.len() / BLOCK_LEN;
        for (index, block) in bytes.chunks_exact(BLOCK_LEN).enumerate() {
            let word = |at: usize| u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]]);
            let is_framed = [word(0), word(4)] == MAGIC_START && word(BLOCK_LEN - 4) == MAGIC_END;
            let is_ours = word(8) & FLAG_FAMILY != 0 && word(28) == RP2040_FAMILY;
            let is_counted = (word(20), word(24)) == (index as u32, count as u32);
            let at = word(12);
            let is_page = word(16) == PAYLOAD_LEN as u32 && (at as usize).is_multiple_of(PAYLOAD_LEN);
            if !(is_framed && is_ours && is_counted && is_page) {
                return Err(format!("block {index} is not one for an RP2040"));
            }
            contents.put(at, &block[HEADER_LEN..HEADER_LEN + PAYLOAD_LEN]);
        }
        Ok(contents)
    }

    /// The pages, by address.
    pub fn pages(&self) -> impl Iterator<Item = (u32, &[u8; PAYLOAD_LEN])> {
        self.0.iter().map(|(at, page)| (*at, page))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLASH: Range<u32> = 0x1000_0000..0x1000_1000;

    /// An ELF file with these segments: (virtual address, physical address, bytes).
    fn elf(segments: &[(u32, u32, &[u8])]) -> Vec<u8> {
        const ELF_LEN: u32 = 52;
        const PROGRAM_LEN: u32 = 32;
        let mut file = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
        let half = |value: u16| value.to_le_bytes();
        file.extend([half(2), half(40)].concat()); // Executable, ARM.
        file.extend([1, 0, ELF_LEN, 0, 0].iter().flat_map(|word: &u32| word.to_le_bytes()));
        let halves = [ELF_LEN as u16, PROGRAM_LEN as u16, segments.len() as u16, 40, 0, 0];
        file.extend(halves.iter().flat_map(|value| value.to_le_bytes()));
        let mut offset = ELF_LEN + PROGRAM_LEN * segments.len() as u32;
        for (virtual_at, physical_at, bytes) in segments {
            let length = bytes.len() as u32;
            let words = [1, offset, *virtual_at, *physical_at, length, length, 5, 1];
            file.extend(words.iter().flat_map(|word: &u32| word.to_le_bytes()));
            offset += length;
        }
        segments.iter().for_each(|(_, _, bytes)| file.extend(*bytes));
        file
    }

    #[test]
    fn a_block_is_as_the_format_says() {
        let mut contents = Contents::default();
        contents.put(0x1000_0100, &[0xaa; 256]);
        contents.put(0x1000_0200, &[0xbb; 3]);
        let file = contents.to_uf2();
        assert_eq!(file.len(), 1024);
        let second = &file[512..];
        assert_eq!(second[..8], *b"UF2\nWQ]\x9e");
        assert_eq!(second[8..12], [0x00, 0x20, 0, 0]);
        assert_eq!(second[12..16], [0x00, 0x02, 0x00, 0x10]);
        assert_eq!(second[16..28], [0, 1, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!(second[28..32], [0x56, 0xff, 0x8b, 0xe4]);
        assert_eq!(second[32..36], [0xbb, 0xbb, 0xbb, 0xff]);
        assert_eq!(second[288..508], [0; 220]);
        assert_eq!(second[508..], [0x30, 0x6f, 0xb1, 0x0a]);
    }

    #[test]
    fn an_image_is_found_again_by_where_its_bytes_lie_in_flash() {
        let image = elf(&[
            (0x1000_0000, 0x1000_0000, &[1; 256]),
            (0x1000_0100, 0x1000_0100, &[2; 10]),
            (0x2000_0000, 0x1000_010a, &[3; 300]), // Variables, whose first values lie behind the code.
            (0x2000_1000, 0x2000_1000, &[]),
        ]);
        let contents = Contents::of_elf(&image, FLASH).unwrap();
        let pages: Vec<_> = contents.pages().collect();
        assert_eq!(pages.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0x1000_0000, 0x1000_0100, 0x1000_0200]);
        assert_eq!(pages[1].1[..12], [2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3]);
        assert_eq!(pages[2].1[53..55], [3, 0xff]);
        assert_eq!(Contents::of_uf2(&contents.to_uf2()), Ok(contents));
    }

    #[test]
    fn what_does_not_belong_into_flash_is_refused() {
        for (at, length) in [(0x2000_0000, 4), (0x1000_0ffe, 3), (0x0fff_ffff, 2)] {
            let error = Contents::of_elf(&elf(&[(at, at, &vec![0; length])]), FLASH).unwrap_err();
            assert!(error.contains("outside"), "{at:#x}: {error}");
        }
        assert!(Contents::of_elf(b"no", FLASH).unwrap_err().contains("no ELF"));
        assert!(Contents::of_elf(&elf(&[]), FLASH).unwrap_err().contains("nothing"));
    }

    #[test]
    fn a_damaged_file_is_refused() {
        let mut contents = Contents::default();
        contents.put(0x1000_0000, &[1; 600]);
        let file = contents.to_uf2();
        for at in [0, 4, 9, 12, 16, 20, 24, 28, 508] {
            let mut damaged = file.clone();
            damaged[512 + at] ^= 0x20;
            assert!(Contents::of_uf2(&damaged).unwrap_err().contains("block 1"), "byte {at}");
        }
        assert!(Contents::of_uf2(&file[..700]).is_err());
        assert!(Contents::of_uf2(&[]).is_err());
    }
}
