//! The board's flash as the log sees it. Erasing and programming are functions of the boot ROM,
//! which stop everything else meanwhile: a page takes about a millisecond, a sector tens of them.

use compasso_wire::flash::{FLASH_LEN, LOG_AT, PROGRAM_LEN, SECTOR_LEN, log};
use core::cell::RefCell;
use embassy_rp::{
    Peri,
    flash::{Blocking, Flash},
    peripherals::FLASH,
};

/// The part of flash that holds the log.
pub struct Storage(RefCell<Flash<'static, FLASH, Blocking, { FLASH_LEN as usize }>>);

impl Storage {
    /// There is one.
    pub fn new(flash: Peri<'static, FLASH>) -> Storage {
        Storage(RefCell::new(Flash::new_blocking(flash)))
    }
}

impl log::Flash for Storage {
    fn read(&self, page: usize, into: &mut [u8; PROGRAM_LEN]) {
        let read = self.0.borrow_mut().blocking_read(at(page), into);
        assert!(read.is_ok(), "the log lies within the flash");
    }

    fn erase(&mut self, page: usize) {
        let erased = self.0.get_mut().blocking_erase(at(page), at(page) + SECTOR_LEN as u32);
        assert!(erased.is_ok(), "the log's sectors are the flash's");
    }

    fn program(&mut self, page: usize, bytes: &[u8; PROGRAM_LEN]) {
        let programmed = self.0.get_mut().blocking_write(at(page), bytes);
        assert!(programmed.is_ok(), "the log's pages are the flash's");
    }
}

fn at(page: usize) -> u32 {
    LOG_AT + (page * PROGRAM_LEN) as u32
}
