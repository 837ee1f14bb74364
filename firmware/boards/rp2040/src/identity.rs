//! Who this board is: the configuration page, read from flash as any other memory.

use compasso_wire::{
    NodeConfig,
    flash::{
        PAGES_AT, SECTOR_LEN, XIP_BASE,
        page::{self, Unusable, Wifi},
    },
};
use core::slice;

/// Reads who this board is.
pub fn read() -> Result<NodeConfig, Unusable> {
    page::read(PAGES_AT.map(sector))
}

/// Reads which network its radio joins.
pub fn read_wifi() -> Result<Wifi, Unusable> {
    page::read_wifi(PAGES_AT.map(sector))
}

fn sector(at: u32) -> &'static [u8] {
    // SAFETY: flash that `memory.x` keeps away from the program; it is written only by whoever
    // provisions the board, while no program runs.
    unsafe { slice::from_raw_parts((XIP_BASE + at) as *const u8, SECTOR_LEN) }
}
