//! Calls to the emulator itself.

use core::arch::asm;

/// Ends the emulator with this exit status.
pub fn exit(status: u32) -> ! {
    const SYS_EXIT_EXTENDED: u32 = 0x20;
    const APPLICATION_EXIT: u32 = 0x20026;
    let block = [APPLICATION_EXIT, status];
    loop {
        // SAFETY: a semihosting call; the emulator reads the block and does not return.
        unsafe {
            asm!("bkpt #0xab", inout("r0") SYS_EXIT_EXTENDED => _, in("r1") block.as_ptr());
        }
    }
}
