//! Instructions, counted by the emulator's own clock.
//!
//! Assumes `-icount shift=7`: every instruction then takes 128 ns of the machine's time, which is
//! 3.2 ticks of its timer, so that a difference of two readings rounds to the exact count.
//! [`Counter::new`] refuses a machine whose time passes in any other way.

use crate::registers::Registers;
use core::{
    arch::asm,
    sync::atomic::{Ordering::SeqCst, compiler_fence},
};

const NS_PER_INSTRUCTION: u64 = 1 << 7;
const NS_PER_TICK: u64 = 40;

// SAFETY: the machine's first CMSDK timer, as in `clock.rs`.
const TIMER0: Registers = unsafe { Registers::new(0x4000_0000) };
const CONTROL: usize = 0x0;
const VALUE: usize = 0x4;
const RELOAD: usize = 0x8;
const ENABLE: u32 = 1;

/// Counts the instructions of what it is given.
pub struct Counter {
    /// What counting nothing counts.
    overhead: u64,
}

impl Counter {
    /// Starts the timer; none if the machine's time is not counted instructions.
    pub fn new() -> Option<Counter> {
        TIMER0.write(RELOAD, u32::MAX);
        TIMER0.write(VALUE, u32::MAX);
        TIMER0.write(CONTROL, ENABLE);
        let mut counter = Counter { overhead: 0 };
        (counter.overhead, ()) = counter.count(|| ());
        let trusted = (0..16).all(|_| {
            let (few, ()) = counter.count(thousand_instructions);
            let (many, ()) = counter.count(|| {
                thousand_instructions();
                thousand_instructions();
            });
            few == 1000 && many == 2000
        });
        trusted.then_some(counter)
    }

    /// What `act` returns, after the instructions it took. Up to 171 s of the machine's time.
    #[inline(always)]
    pub fn count<R>(&self, act: impl FnOnce() -> R) -> (u64, R) {
        compiler_fence(SeqCst);
        let before = TIMER0.read(VALUE);
        compiler_fence(SeqCst);
        let result = act();
        compiler_fence(SeqCst);
        let after = TIMER0.read(VALUE);
        compiler_fence(SeqCst);
        let ticks = u64::from(before.wrapping_sub(after)); // It counts down.
        let instructions = (ticks * NS_PER_TICK + NS_PER_INSTRUCTION / 2) / NS_PER_INSTRUCTION;
        (instructions.saturating_sub(self.overhead), result)
    }
}

#[inline(always)]
fn thousand_instructions() {
    // SAFETY: they count a register down, 249 × 4 + 4 = 1000 of them, and touch nothing else.
    unsafe {
        asm!(
            "nop", "nop", "nop",
            "movs {left}, #249",
            "2:", "nop", "nop", "subs {left}, #1", "bne 2b",
            left = out(reg) _,
            options(nomem, nostack),
        );
    }
}
