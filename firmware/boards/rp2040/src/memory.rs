//! Where the stack may go, and who gets its memory afterwards.
//!
//! Making a node takes more stack than anything later, by far: the node is put together on it. So
//! the queues and the telemetry ring, which nobody needs before, lie at the stack's far end
//! and are claimed when the node is there. A guard then separates them from what is left.

use compasso_runtime::{Buffers, ring::Ring};
use core::ptr;

/// How many bytes of observations wait for the collector.
pub const RING_LEN: usize = 32 * 1024;

/// What is claimed. All zeros is what its constructors make, too.
#[repr(C)]
pub struct Late {
    /// At [`STACK_END`]: there the host finds it.
    pub ring: Ring<RING_LEN>,
    /// What the runtime works in.
    pub buffers: Buffers,
}

/// The lowest address of the stack, as in `memory.x`: the beginning of RAM.
const STACK_END: usize = 0x2000_0000;
/// The guard is as large as the largest stack frame of a node at work, and more.
const GUARD_LEN: usize = 2 * GRAIN;
/// A region is guarded in eighths.
const REGION_LEN: usize = 8 * GRAIN;
const GRAIN: usize = 8 * 1024;
const GUARD_AT: usize = (STACK_END + size_of::<Late>()).next_multiple_of(GRAIN);
const REGION_AT: usize = GUARD_AT / REGION_LEN * REGION_LEN;
/// Where the guard ends and the stack of a running node begins.
pub const GUARD_END: usize = GUARD_AT + GUARD_LEN;

/// So much stack a node at work must find.
const WORK_STACK_MIN: usize = 32 * 1024;

unsafe extern "C" {
    /// From `memory.x`.
    static _stack_end: u32;
    /// From `memory.x`.
    static _stack_start: u32;
}

/// Makes what lies below RAM inaccessible: nothing that the program uses, but whether a stray
/// access there would fault is the bus's secret.
pub fn guard_boot() {
    const BELOW_RAM: u32 = 0x1c00_0000;
    const SIZE_64_MIB: u32 = 25;
    assert!(&raw const _stack_end as usize == STACK_END, "memory.x is the one that this was written for");
    set_region(0, BELOW_RAM, SIZE_64_MIB, 0);
}

/// Takes the far end of the stack for what a running node needs, and guards the rest.
///
/// # Safety
/// To be called once.
pub unsafe fn claim() -> &'static mut Late {
    assert!(&raw const _stack_start as usize >= GUARD_END + WORK_STACK_MIN);
    assert!(cortex_m::register::msp::read() as usize > GUARD_END + WORK_STACK_MIN / 2);
    const SIZE_64_KIB: u32 = 15;
    let eighth = ((GUARD_AT - REGION_AT) / GRAIN) as u32;
    set_region(1, REGION_AT as u32, SIZE_64_KIB, !(0b11 << eighth) & 0xff);
    let late = STACK_END as *mut Late;
    // SAFETY: memory of the stack, aligned, below everything that is in use and, with the guard,
    // below everything that will be; the caller promises that nobody else has it. Zeros are a
    // valid value of it.
    unsafe {
        ptr::write_bytes(late, 0, 1);
        &mut *late
    }
}

/// Forbids a region of `2 << size` bytes, without its eighths in `spared`.
fn set_region(number: u32, at: u32, size: u32, spared: u32) {
    const ENABLE: u32 = 1;
    const ELSEWHERE_AS_USUAL: u32 = 1 << 2;
    const NEVER_EXECUTE_NO_ACCESS: u32 = 1 << 28;
    // SAFETY: only this module uses the memory protection unit.
    let core = unsafe { cortex_m::Peripherals::steal() };
    // SAFETY: what becomes inaccessible is nobody's. Faults keep their own access: the handler
    // still needs a stack, and takes it from the guard.
    unsafe {
        core.MPU.rnr.write(number);
        core.MPU.rbar.write(at);
        core.MPU.rasr.write(NEVER_EXECUTE_NO_ACCESS | spared << 8 | size << 1 | ENABLE);
        core.MPU.ctrl.write(ELSEWHERE_AS_USUAL | ENABLE);
    }
    cortex_m::asm::dsb();
    cortex_m::asm::isb();
}

const _: () = assert!(GUARD_END <= REGION_AT + REGION_LEN, "one region holds the whole guard");
const _: () = assert!(STACK_END.is_multiple_of(align_of::<Late>()));
