//! Where the stack ends: at the bottom of RAM, behind a guard.

/// The lowest address of the stack, as in `memory.x`: the beginning of RAM.
const STACK_END: usize = 0x2000_0000;
/// What a stack that overflows touches first. It is RAM, so that the fault finds a stack there.
const GUARD_LEN: usize = 4096;
/// Where the guard ends and the stack begins.
pub const GUARD_END: usize = STACK_END + GUARD_LEN;

unsafe extern "C" {
    /// From `memory.x`.
    static _stack_end: u32;
}

/// Makes the end of the stack inaccessible, and what lies below RAM: a large frame steps over the
/// guard, and whether the bus would complain is its own secret. The program uses neither.
pub fn guard() {
    const BELOW_RAM: u32 = 0x1c00_0000;
    assert!(&raw const _stack_end as usize == STACK_END, "memory.x is the one that this was written for");
    forbid(0, BELOW_RAM, (STACK_END as u32) - BELOW_RAM);
    forbid(1, STACK_END as u32, GUARD_LEN as u32);
}

/// Forbids a region, whose length is a power of two and its address a multiple of that.
fn forbid(number: u32, at: u32, length: u32) {
    const ENABLE: u32 = 1;
    const ELSEWHERE_AS_USUAL: u32 = 1 << 2;
    const NEVER_EXECUTE_NO_ACCESS: u32 = 1 << 28;
    assert!(length.is_power_of_two() && at.is_multiple_of(length));
    let size = length.trailing_zeros() - 1;
    // SAFETY: only this module uses the memory protection unit, and what it forbids is nobody's.
    // Faults keep their own access: their handler takes its stack from the guard.
    unsafe {
        let core = cortex_m::Peripherals::steal();
        core.MPU.rnr.write(number);
        core.MPU.rbar.write(at);
        core.MPU.rasr.write(NEVER_EXECUTE_NO_ACCESS | size << 1 | ENABLE);
        core.MPU.ctrl.write(ELSEWHERE_AS_USUAL | ENABLE);
    }
    cortex_m::asm::dsb();
    cortex_m::asm::isb();
}
