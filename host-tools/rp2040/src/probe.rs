//! What can be seen of a board from outside: its memory as a probe sees it, and what its flash remembers.

use crate::{
    board::Board,
    bus::{RAM_BASE, XIP_BASE},
    flash::Flash,
};
use compasso_stage::memory::{Memory, nonsense};
use compasso_wire::flash::{
    LOG_AT, PROGRAM_LEN,
    log::{self, Log},
};
use std::io;

/// A probe on a board.
pub struct Probe<'b>(pub &'b mut Board);

impl Memory for Probe<'_> {
    fn read(&self, address: u32, buffer: &mut [u8]) -> io::Result<()> {
        let bus = self.0.bus();
        let known = match address.checked_sub(RAM_BASE) {
            Some(at) => bus.read_ram(at as usize, buffer),
            None => {
                let at = address.wrapping_sub(XIP_BASE) as usize;
                let bytes = bus.flash.bytes().get(at..at + buffer.len());
                bytes.map(|bytes| buffer.copy_from_slice(bytes)).is_some()
            }
        };
        if known { Ok(()) } else { Err(nonsense(&format!("the address {address:#010x}, where no memory is"))) }
    }

    fn write(&mut self, address: u32, bytes: &[u8]) -> io::Result<()> {
        let known = self.0.bus_mut().write_ram(address.wrapping_sub(RAM_BASE) as usize, bytes);
        if known { Ok(()) } else { Err(nonsense(&format!("the address {address:#010x}, where no RAM is"))) }
    }
}

/// What the board with this flash remembers of its last life.
#[must_use]
pub fn remembered(flash: &Flash) -> Option<log::Memory> {
    Log::open(Reader(flash)).memory().copied()
}

struct Reader<'f>(&'f Flash);

impl log::Flash for Reader<'_> {
    fn read(&self, page: usize, into: &mut [u8; PROGRAM_LEN]) {
        let at = LOG_AT as usize + page * PROGRAM_LEN;
        into.copy_from_slice(&self.0.bytes()[at..at + PROGRAM_LEN]);
    }

    fn erase(&mut self, _page: usize) {
        unreachable!("a reader changes nothing");
    }

    fn program(&mut self, _page: usize, _bytes: &[u8; PROGRAM_LEN]) {
        unreachable!("a reader changes nothing");
    }
}
