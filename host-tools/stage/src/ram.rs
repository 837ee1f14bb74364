//! An emulated board's memory, which is a file: what the stage reads there, as a probe would.

use crate::memory::{self, Memory, nonsense};
use compasso_wire::{Observation, config::Stored, page};
use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::FileExt,
    path::Path,
};

/// Guest address of the memory's first byte; the shared page begins there.
pub const RAM_BASE: u32 = 0x2100_0000;
/// Size of the memory.
pub const RAM_LEN: u64 = 16 << 20;

/// A board's memory.
#[derive(Debug)]
pub struct Ram {
    file: File,
}

/// What a dead board's telemetry ring still holds.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Journal {
    /// Index of the first record.
    pub first: u32,
    /// The records that were not acknowledged.
    pub observations: Vec<Observation>,
    /// Observations that found the ring full.
    pub missed: u32,
}

impl Ram {
    /// Makes a fresh memory, all zeros, that takes up no space until it is written.
    ///
    /// # Errors
    /// If the file cannot be made.
    pub fn create(path: &Path) -> io::Result<Ram> {
        let _ = std::fs::remove_file(path);
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        file.set_len(RAM_LEN)?;
        Ok(Ram { file })
    }

    /// A second handle to the same memory.
    ///
    /// # Errors
    /// If the process has no handles left.
    pub fn try_clone(&self) -> io::Result<Ram> {
        Ok(Ram { file: self.file.try_clone()? })
    }

    /// The anchor's count and the unbent counter in nanoseconds; none while it is being written.
    ///
    /// # Errors
    /// If the memory cannot be read.
    pub fn anchor(&self) -> io::Result<Option<(u32, u64)>> {
        if self.word(at(page::REPORT_AT))? != page::REPORT_MAGIC {
            return Ok(None);
        }
        let before = self.word(at(page::ANCHOR_COUNT_AT))?;
        let mut raw = [0; 8];
        self.read(at(page::ANCHOR_NS_AT), &mut raw)?;
        let after = self.word(at(page::ANCHOR_COUNT_AT))?;
        let valid = before == after && before.is_multiple_of(2) && before > 0;
        Ok(valid.then_some((before, u64::from_le_bytes(raw))))
    }

    /// What the board stored last for its next life, if it stored anything.
    ///
    /// # Errors
    /// If the memory cannot be read or what is there is not a `Stored`.
    pub fn stored(&self) -> io::Result<Option<Stored>> {
        if self.word(at(page::REPORT_AT))? != page::REPORT_MAGIC {
            return Ok(None);
        }
        let count = self.word(at(page::STORED_COUNT_AT))?;
        if count == 0 {
            return Ok(None);
        }
        let slot = at(page::STORED_SLOTS_AT) + count % 2 * page::STORED_SLOT_LEN as u32;
        let length = self.word(slot)? as usize;
        if length > page::STORED_SLOT_LEN - 4 {
            return Err(nonsense("a stored record that is too long"));
        }
        let mut bytes = [0; page::STORED_SLOT_LEN];
        self.read(slot + 4, &mut bytes[..length])?;
        postcard::from_bytes(&bytes[..length]).map(Some).map_err(|_| nonsense("a stored record that cannot be read"))
    }

    /// The records of the telemetry ring that the collector has not acknowledged.
    ///
    /// # Errors
    /// If the memory cannot be read or what is there is not a ring.
    pub fn journal(&self) -> io::Result<Journal> {
        if self.word(at(page::REPORT_AT))? != page::REPORT_MAGIC {
            return Ok(Journal::default()); // It died before it had anything to tell.
        }
        match self.word(at(page::RING_ADDRESS_AT))? {
            base @ RAM_BASE.. => memory::journal(self, base),
            _ => Ok(Journal::default()),
        }
    }

    /// How many records the board has ever written, for a board that is alive.
    ///
    /// # Errors
    /// If the memory cannot be read.
    pub fn records_written(&self) -> io::Result<u32> {
        let base = self.word(at(page::RING_ADDRESS_AT))?;
        if self.word(at(page::REPORT_AT))? != page::REPORT_MAGIC || base < RAM_BASE {
            return Ok(0);
        }
        self.word(base.wrapping_add(page::ring::HEAD_RECORD_AT as u32))
    }
}

impl Memory for Ram {
    fn read(&self, address: u32, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset(address, buffer.len())?)
    }

    fn write(&mut self, address: u32, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset(address, bytes.len())?)
    }
}

fn at(page_offset: usize) -> u32 {
    RAM_BASE + page_offset as u32
}

fn offset(address: u32, length: usize) -> io::Result<u64> {
    match address.checked_sub(RAM_BASE).map(u64::from) {
        Some(offset) if offset + length as u64 <= RAM_LEN => Ok(offset),
        _ => Err(nonsense(&format!("the address {address:#010x} outside the board's memory"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use compasso_wire::{Event, Instant, Term, Vector, page::ring};

    fn ram() -> (tempfile::TempDir, Ram) {
        let folder = tempfile::tempdir().unwrap();
        let ram = Ram::create(&folder.path().join("ram")).unwrap();
        (folder, ram)
    }

    fn put(ram: &mut Ram, page_offset: usize, value: u32) {
        ram.write(at(page_offset), &value.to_le_bytes()).unwrap();
    }

    #[test]
    fn a_board_that_never_ran_has_nothing_to_tell() {
        let (_folder, ram) = ram();
        assert_eq!(ram.anchor().unwrap(), None);
        assert_eq!(ram.stored().unwrap(), None);
        assert_eq!(ram.journal().unwrap(), Journal::default());
        assert!(ram.word(RAM_BASE - 4).is_err());
        assert!(ram.word(RAM_BASE + RAM_LEN as u32 - 3).is_err());
    }

    #[test]
    fn an_anchor_is_taken_only_when_it_is_whole() {
        let (_folder, mut ram) = ram();
        put(&mut ram, page::REPORT_AT, page::REPORT_MAGIC);
        put(&mut ram, page::ANCHOR_NS_AT, 7);
        put(&mut ram, page::ANCHOR_NS_AT + 4, 1);
        for (count, taken) in [(0, None), (1, None), (2, Some((2, 1 << 32 | 7)))] {
            put(&mut ram, page::ANCHOR_COUNT_AT, count);
            assert_eq!(ram.anchor().unwrap(), taken);
        }
    }

    #[test]
    fn the_newest_stored_record_counts() {
        let (_folder, mut ram) = ram();
        put(&mut ram, page::REPORT_AT, page::REPORT_MAGIC);
        let stored = Stored { term: Term(77), ..Stored::default() };
        let mut bytes = [0; 100];
        let bytes = postcard::to_slice(&stored, &mut bytes).unwrap();
        put(&mut ram, page::STORED_SLOTS_AT + page::STORED_SLOT_LEN, bytes.len() as u32);
        ram.write(at(page::STORED_SLOTS_AT + page::STORED_SLOT_LEN + 4), bytes).unwrap();
        put(&mut ram, page::STORED_COUNT_AT, 3);
        assert_eq!(ram.stored().unwrap(), Some(stored));
        put(&mut ram, page::STORED_SLOTS_AT + page::STORED_SLOT_LEN, 9999);
        assert!(ram.stored().is_err());
    }

    #[test]
    fn the_journal_is_read_across_the_end_of_the_ring() {
        let (_folder, mut ram) = ram();
        let (base, capacity, tail) = (RAM_BASE + 0x4000, 64u32, 50u32);
        let observation = |seq| Observation {
            seq,
            lamport: 0,
            vector: Vector::default(),
            hw: Instant(1),
            cluster: None,
            event: Event::Boot { incarnation: seq },
        };
        let mut head = tail;
        for seq in 8..=10 {
            let mut bytes = [0; 32];
            let bytes = postcard::to_slice(&observation(seq), &mut bytes).unwrap();
            for byte in (bytes.len() as u16).to_le_bytes().iter().chain(bytes.iter()) {
                ram.write(base + ring::DATA_AT as u32 + head % capacity, &[*byte]).unwrap();
                head += 1;
            }
        }
        put(&mut ram, page::REPORT_AT, page::REPORT_MAGIC);
        put(&mut ram, page::RING_ADDRESS_AT, base);
        for (field, value) in [
            (ring::MAGIC_AT, ring::MAGIC),
            (ring::CAPACITY_AT, capacity),
            (ring::HEAD_AT, head),
            (ring::TAIL_AT, tail),
            (ring::HEAD_RECORD_AT, 10),
            (ring::TAIL_RECORD_AT, 7),
            (ring::MISSED_AT, 2),
        ] {
            ram.write(base + field as u32, &value.to_le_bytes()).unwrap();
        }
        let journal = ram.journal().unwrap();
        assert_eq!((journal.first, journal.missed, ram.records_written().unwrap()), (7, 2, 10));
        assert_eq!(journal.observations, [observation(8), observation(9), observation(10)]);
        ram.write(base + ring::HEAD_AT as u32, &(tail + 65).to_le_bytes()).unwrap();
        assert!(ram.journal().is_err(), "more bytes than the ring can hold");
    }
}
