//! A board's memory as a probe sees it, and what is found there without the program's help.

use crate::ram::Journal;
use compasso_wire::page::ring;
use std::io;

/// Largest telemetry ring that is believed.
const RING_CAPACITY_MAX: u32 = 1 << 20;

/// A board's memory.
pub trait Memory {
    /// Reads at an address.
    ///
    /// # Errors
    /// If that lies outside the memory.
    fn read(&self, address: u32, buffer: &mut [u8]) -> io::Result<()>;

    /// Writes at an address.
    ///
    /// # Errors
    /// If that lies outside the memory.
    fn write(&mut self, address: u32, bytes: &[u8]) -> io::Result<()>;

    /// Reads a word at an address.
    ///
    /// # Errors
    /// If that lies outside the memory.
    fn word(&self, address: u32) -> io::Result<u32> {
        let mut bytes = [0; 4];
        self.read(address, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }
}

/// The records of the telemetry ring at this address that the collector has not acknowledged; an
/// empty journal if there is no ring.
///
/// # Errors
/// If the memory cannot be read or what is there is not a ring.
pub fn journal(memory: &impl Memory, base: u32) -> io::Result<Journal> {
    let word = |field: usize| memory.word(base.wrapping_add(field as u32));
    if word(ring::MAGIC_AT)? != ring::MAGIC {
        return Ok(Journal::default()); // It died before it had anything to tell.
    }
    let capacity = word(ring::CAPACITY_AT)?;
    let (head, tail) = (word(ring::HEAD_AT)?, word(ring::TAIL_AT)?);
    let (head_record, first) = (word(ring::HEAD_RECORD_AT)?, word(ring::TAIL_RECORD_AT)?);
    let used = head.wrapping_sub(tail);
    if !capacity.is_power_of_two() || capacity > RING_CAPACITY_MAX || used > capacity {
        return Err(nonsense("a telemetry ring with impossible counters"));
    }
    let mut data = vec![0; capacity as usize];
    memory.read(base + ring::DATA_AT as u32, &mut data)?;
    let mut bytes = (0..used).map(|i| data[(tail.wrapping_add(i) & (capacity - 1)) as usize]);
    let mut observations = Vec::new();
    for _ in first..head_record {
        let (Some(low), Some(high)) = (bytes.next(), bytes.next()) else { break };
        let record: Vec<u8> = bytes.by_ref().take(usize::from(u16::from_le_bytes([low, high]))).collect();
        match postcard::from_bytes(&record) {
            Ok(observation) => observations.push(observation),
            Err(_) => return Err(nonsense("a telemetry record that cannot be read")),
        }
    }
    Ok(Journal { first, observations, missed: word(ring::MISSED_AT)? })
}

/// What a memory holds makes no sense.
#[must_use]
pub fn nonsense(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the board's memory holds {what}"))
}
