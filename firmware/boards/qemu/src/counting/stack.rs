//! How deep the stack gets: it is painted, and what has lost its paint was used.

use core::ptr;

/// Nobody's value.
const PAINT: u32 = 0x5ac4_1e57;
/// What the painter itself may need below the stack pointer that it reads.
const OWN_USE: usize = 512;

unsafe extern "C" {
    /// The stack's lowest address, from `memory.x`.
    static _stack_end: u32;
}

fn end() -> usize {
    &raw const _stack_end as usize
}

/// Where the stack stands in the caller, or a little below.
#[inline(always)]
pub fn pointer() -> usize {
    cortex_m::register::msp::read() as usize
}

/// Paints what is free now.
#[inline(never)]
pub fn paint() {
    for address in (end()..pointer() - OWN_USE).step_by(4) {
        // SAFETY: aligned words of the stack's memory below everything that is in use; no
        // interrupt puts anything there meanwhile.
        unsafe { ptr::write_volatile(address as *mut u32, PAINT) };
    }
}

/// How many bytes below `from` were used since the last painting.
#[inline(never)]
pub fn used_below(from: usize) -> usize {
    // SAFETY: words of the stack's memory, which may be read whoever owns them.
    let is_painted = |address: &usize| unsafe { ptr::read_volatile(*address as *const u32) } == PAINT;
    let lowest = (end()..from).step_by(4).find(|address| !is_painted(address)).unwrap_or(from);
    from - lowest
}
