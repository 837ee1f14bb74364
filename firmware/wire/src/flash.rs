//! What a real board keeps in the last sectors of its flash, where no program is ever written:
//! who it is ([`page`]), and what it must remember over a restart ([`log`]).
//!
//! Offsets count from the beginning of flash, which the processor sees at [`XIP_BASE`].

pub mod log;
pub mod page;
mod record;

pub use record::HEADER_LEN;

/// Where the processor reads flash.
pub const XIP_BASE: u32 = 0x1000_0000;
/// Every supported board has so much of it.
pub const FLASH_LEN: u32 = 2 * 1024 * 1024;
/// What is erased at once.
pub const SECTOR_LEN: usize = 4096;
/// What is programmed at once.
pub const PROGRAM_LEN: usize = 256;

/// The two copies of the configuration page, a sector each: the last ones.
pub const PAGES_AT: [u32; 2] = [FLASH_LEN - 2 * SECTOR_LEN as u32, FLASH_LEN - SECTOR_LEN as u32];
/// The log of what must be remembered: so many sectors before them.
pub const LOG_SECTORS: usize = 16;
/// Where the log begins, and the program must end.
pub const LOG_AT: u32 = PAGES_AT[0] - (LOG_SECTORS * SECTOR_LEN) as u32;
