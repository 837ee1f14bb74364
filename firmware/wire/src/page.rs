//! The page of memory that an emulated board shares with its stage: configuration in, report out.
//!
//! All numbers are little-endian 32-bit words unless said otherwise; offsets count from the page.

/// Size of the page.
pub const PAGE_LEN: usize = 4096;

/// The stage writes `CONFIG_MAGIC`, the length, and that many bytes of postcard `NodeConfig` here.
pub const CONFIG_AT: usize = 0;
/// Marks a configuration ("CMPC").
pub const CONFIG_MAGIC: u32 = u32::from_le_bytes(*b"CMPC");
/// Where the postcard bytes begin.
pub const CONFIG_BYTES_AT: usize = 8;

/// The board writes `REPORT_MAGIC` here when the rest of the report is valid.
pub const REPORT_AT: usize = 2048;
/// Marks a report ("CMPR").
pub const REPORT_MAGIC: u32 = u32::from_le_bytes(*b"CMPR");
/// Counts anchors; odd while one is being written, from before its counter is read.
pub const ANCHOR_COUNT_AT: usize = REPORT_AT + 4;
/// The unbent counter in nanoseconds, read while the anchor was written: low word, then high word.
pub const ANCHOR_NS_AT: usize = REPORT_AT + 8;
/// Guest address of the telemetry ring.
pub const RING_ADDRESS_AT: usize = REPORT_AT + 16;
/// Counts stored records; slot `count % 2` holds the newest.
pub const STORED_COUNT_AT: usize = REPORT_AT + 20;
/// Two slots for postcard `Stored`, each of `STORED_SLOT_LEN` bytes: a length word, then the bytes.
pub const STORED_SLOTS_AT: usize = REPORT_AT + 64;
/// Length of a slot.
pub const STORED_SLOT_LEN: usize = 128 + 10 * crate::limits::MEMBERS_MAX;

/// The telemetry ring, as it lies in the board's memory, in words.
pub mod ring {
    /// Marks a ring ("CMPT").
    pub const MAGIC: u32 = u32::from_le_bytes(*b"CMPT");
    /// Offset of the magic.
    pub const MAGIC_AT: usize = 0;
    /// Offset of the capacity of the data in bytes, a power of two.
    pub const CAPACITY_AT: usize = 4;
    /// Offset of the count of bytes ever written.
    pub const HEAD_AT: usize = 8;
    /// Offset of the count of bytes that the collector has acknowledged.
    pub const TAIL_AT: usize = 12;
    /// Offset of the count of records ever written.
    pub const HEAD_RECORD_AT: usize = 16;
    /// Offset of the count of records acknowledged.
    pub const TAIL_RECORD_AT: usize = 20;
    /// Offset of the count of observations that found the ring full.
    pub const MISSED_AT: usize = 24;
    /// Offset of the data: each record is a 16-bit length and that many bytes, wrapping around.
    pub const DATA_AT: usize = 32;
}

const _: () = assert!(CONFIG_BYTES_AT + crate::limits::CONFIG_MAX <= REPORT_AT || crate::limits::MEMBERS_MAX > 64);
const _: () = assert!(STORED_SLOTS_AT + 2 * STORED_SLOT_LEN <= PAGE_LEN || crate::limits::MEMBERS_MAX > 64);
