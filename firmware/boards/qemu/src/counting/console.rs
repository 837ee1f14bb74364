//! What the program says: the emulator's console.

use core::{
    arch::asm,
    fmt::{self, Write},
};

/// Bytes that one call carries, its terminating zero included.
const CHUNK: usize = 64;

/// The console of the emulator. It takes everything.
pub struct Console;

impl Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        const SYS_WRITE0: u32 = 0x04;
        for chunk in text.as_bytes().chunks(CHUNK - 1) {
            let mut terminated = [0; CHUNK];
            terminated.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
            // SAFETY: a semihosting call; the emulator reads up to the zero and returns in r0.
            unsafe {
                asm!("bkpt #0xab", inout("r0") SYS_WRITE0 => _, in("r1") terminated.as_ptr());
            }
        }
        Ok(())
    }
}
