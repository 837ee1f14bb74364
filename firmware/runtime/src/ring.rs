//! The telemetry ring: a board's last observations, kept until the collector has them.
//!
//! Its layout is [`compasso_wire::page::ring`], because the host reads it too, from outside: when
//! a board was killed, what is left in the ring completes its trace. The board is the only
//! writer. Data are written first and published by `head` (release), so that a reader that loads
//! `head` first never sees half a record.
//! Full means refused and counted: what is in the ring is never overwritten, nothing waits.

use compasso_wire::page::ring as layout;
use core::{
    mem::offset_of,
    sync::atomic::{
        AtomicU8, AtomicU32,
        Ordering::{Acquire, Relaxed, Release},
    },
};

/// Each record begins with its length in so many bytes.
const LENGTH_LEN: usize = 2;

/// A ring for `N` bytes of records, a power of two.
#[repr(C)]
pub struct Ring<const N: usize> {
    magic: AtomicU32,
    capacity: AtomicU32,
    head: AtomicU32,
    tail: AtomicU32,
    head_record: AtomicU32,
    tail_record: AtomicU32,
    missed: AtomicU32,
    reserved: AtomicU32,
    data: [AtomicU8; N],
}

/// A place in the ring: how many bytes and how many records lie before it, since boot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cursor {
    bytes: u32,
    /// The index of the record that begins here.
    pub record: u32,
}

impl Cursor {
    /// How many bytes of the ring lie between `earlier` and here.
    #[must_use]
    pub fn bytes_since(self, earlier: Cursor) -> usize {
        self.bytes.wrapping_sub(earlier.bytes) as usize
    }
}

impl<const N: usize> Ring<N> {
    /// All zeros, so that the image does not carry it; see [`Ring::open`].
    #[must_use]
    pub const fn new() -> Ring<N> {
        const { assert!(N.is_power_of_two() && N <= 1 << 30, "positions are masked, counts are 32 bit") };
        Ring {
            magic: AtomicU32::new(0),
            capacity: AtomicU32::new(0),
            head: AtomicU32::new(0),
            tail: AtomicU32::new(0),
            head_record: AtomicU32::new(0),
            tail_record: AtomicU32::new(0),
            missed: AtomicU32::new(0),
            reserved: AtomicU32::new(0),
            data: [const { AtomicU8::new(0) }; N],
        }
    }

    /// Makes the ring recognizable from outside.
    pub fn open(&self) {
        self.capacity.store(N as u32, Relaxed);
        self.magic.store(layout::MAGIC, Release);
    }

    /// Where the next record will be written.
    #[must_use]
    pub fn head(&self) -> Cursor {
        Cursor { bytes: self.head.load(Acquire), record: self.head_record.load(Relaxed) }
    }

    /// The oldest record that is not acknowledged.
    #[must_use]
    pub fn tail(&self) -> Cursor {
        Cursor { bytes: self.tail.load(Relaxed), record: self.tail_record.load(Relaxed) }
    }

    /// How many records were refused.
    #[must_use]
    pub fn missed(&self) -> u32 {
        self.missed.load(Relaxed)
    }

    /// Appends a record, or counts it as missed if there is no room. Whether there was room.
    pub fn push(&self, record: &[u8]) -> bool {
        let head = self.head();
        let free = N - head.bytes_since(self.tail());
        let Ok(length) = u16::try_from(record.len()) else { return self.miss() };
        if LENGTH_LEN + record.len() > free {
            return self.miss();
        }
        let mut at = head.bytes;
        for byte in length.to_le_bytes().iter().chain(record) {
            self.byte(at).store(*byte, Relaxed);
            at = at.wrapping_add(1);
        }
        // A reader that sees the new count of records before the new head finds one record fewer
        // than announced; the other way round it would misnumber them.
        self.head_record.store(head.record.wrapping_add(1), Release);
        self.head.store(at, Release);
        true
    }

    /// Counts an observation that did not get into the ring.
    pub fn miss(&self) -> bool {
        self.missed.store(self.missed().wrapping_add(1), Relaxed);
        false
    }

    /// Copies the record at `at` to the front of `into`: its length and the place after it.
    /// Nothing if there is no record or no room for it.
    #[must_use]
    pub fn read(&self, at: Cursor, into: &mut [u8]) -> Option<(usize, Cursor)> {
        let next = self.after(at)?;
        let length = next.bytes_since(at) - LENGTH_LEN;
        let mut from = at.bytes.wrapping_add(LENGTH_LEN as u32);
        for to in into.get_mut(..length)? {
            *to = self.byte(from).load(Relaxed);
            from = from.wrapping_add(1);
        }
        Some((length, next))
    }

    /// Gives the room of every record before `record` back. A record that was never written, or
    /// whose room was given back before, changes nothing.
    pub fn release_before(&self, record: u32) {
        let mut tail = self.tail();
        if record.wrapping_sub(tail.record) > self.head().record.wrapping_sub(tail.record) {
            return;
        }
        while tail.record != record {
            let Some(next) = self.after(tail) else { return };
            tail = next;
        }
        self.tail_record.store(tail.record, Relaxed);
        self.tail.store(tail.bytes, Release);
    }

    fn after(&self, at: Cursor) -> Option<Cursor> {
        if at.bytes == self.head().bytes {
            return None;
        }
        let length =
            u16::from_le_bytes([self.byte(at.bytes).load(Relaxed), self.byte(at.bytes.wrapping_add(1)).load(Relaxed)]);
        let bytes = at.bytes.wrapping_add(LENGTH_LEN as u32 + u32::from(length));
        Some(Cursor { bytes, record: at.record.wrapping_add(1) })
    }

    fn byte(&self, at: u32) -> &AtomicU8 {
        match self.data.get(at as usize & (N - 1)) {
            Some(byte) => byte,
            None => unreachable!("the position is masked"),
        }
    }
}

impl<const N: usize> Default for Ring<N> {
    fn default() -> Ring<N> {
        Ring::new()
    }
}

const _: () = assert!(offset_of!(Ring<1>, magic) == layout::MAGIC_AT);
const _: () = assert!(offset_of!(Ring<1>, capacity) == layout::CAPACITY_AT);
const _: () = assert!(offset_of!(Ring<1>, head) == layout::HEAD_AT);
const _: () = assert!(offset_of!(Ring<1>, tail) == layout::TAIL_AT);
const _: () = assert!(offset_of!(Ring<1>, head_record) == layout::HEAD_RECORD_AT);
const _: () = assert!(offset_of!(Ring<1>, tail_record) == layout::TAIL_RECORD_AT);
const _: () = assert!(offset_of!(Ring<1>, missed) == layout::MISSED_AT);
const _: () = assert!(offset_of!(Ring<1>, data) == layout::DATA_AT);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_survive_many_laps_whole_and_in_order() {
        let ring = Ring::<64>::new();
        let mut place = ring.tail();
        let mut into = [0; 64];
        for lap in 0..10_000_u32 {
            let record: Vec<u8> = (0..lap % 30).map(|byte| (byte + lap) as u8).collect();
            assert!(ring.push(&record));
            let (length, next) = ring.read(place, &mut into).unwrap();
            assert_eq!(into[..length], record);
            assert_eq!(place.record, lap);
            place = next;
            ring.release_before(place.record);
        }
        assert_eq!(ring.missed(), 0);
        assert_eq!(ring.read(place, &mut into), None);
    }

    #[test]
    fn counts_wrap_around_at_32_bits() {
        let ring = Ring::<32>::new();
        ring.head.store(u32::MAX - 3, Relaxed);
        ring.tail.store(u32::MAX - 3, Relaxed);
        let place = ring.tail();
        assert!(ring.push(b"over the edge"));
        let mut into = [0; 32];
        let (length, next) = ring.read(place, &mut into).unwrap();
        assert_eq!(&into[..length], b"over the edge");
        ring.release_before(1);
        assert_eq!(ring.tail(), next);
    }

    #[test]
    fn a_full_ring_refuses_counts_and_keeps_what_it_has() {
        let ring = Ring::<32>::new();
        assert!(ring.push(&[1; 14]));
        assert!(ring.push(&[2; 14]));
        assert!(!ring.push(&[]));
        assert!(!ring.push(&[3; 14]));
        assert_eq!(ring.missed(), 2);
        let mut into = [0; 32];
        let (length, next) = ring.read(ring.tail(), &mut into).unwrap();
        assert_eq!(into[..length], [1; 14]);
        assert_eq!(ring.read(next, &mut into).unwrap().0, 14);
        assert_eq!(into[0], 2);
        ring.release_before(1);
        assert!(ring.push(&[4; 14]));
        assert_eq!(ring.head().record, 3);
    }

    #[test]
    fn an_acknowledgement_of_what_never_was_changes_nothing() {
        let ring = Ring::<64>::new();
        assert!(ring.push(b"a") && ring.push(b"b"));
        ring.release_before(3);
        ring.release_before(u32::MAX);
        assert_eq!(ring.tail().record, 0);
        ring.release_before(2);
        ring.release_before(1);
        assert_eq!(ring.tail().record, 2);
        assert_eq!(ring.tail(), ring.head());
    }

    #[test]
    fn no_room_to_read_into_is_no_record() {
        let ring = Ring::<64>::new();
        assert!(ring.push(b"four"));
        assert_eq!(ring.read(ring.tail(), &mut [0; 3]), None);
    }
}
