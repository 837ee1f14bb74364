//! The processor: interrupts, sleep, stack guard, and how the machine ends.

use crate::{clock, lan9118, page::PAGE_ADDRESS, registers::Registers, semihosting};
use core::{
    panic::PanicInfo,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};
use cortex_m::{interrupt::InterruptNumber, peripheral::NVIC};
use cortex_m_rt::{ExceptionFrame, exception};
use defmt_rtt as _; // The log: the stage reads its ring out of the shared RAM.

/// Why the emulator ended: its exit code.
#[derive(Clone, Copy)]
#[repr(u32)]
pub enum Exit {
    /// A panic; the log's last line says where.
    Panic = 101,
    /// A processor fault, a stack overflow among them.
    Fault = 102,
    /// The shared page holds no configuration that this image understands.
    Configuration = 103,
}

/// The interrupts in use.
#[derive(Clone, Copy)]
pub enum Interrupt {
    /// The clock's alarm.
    Alarm = 9,
    /// The network device.
    Network = 13,
}

// SAFETY: the numbers are those of the machine, and all below its 32.
unsafe impl InterruptNumber for Interrupt {
    fn number(self) -> u16 {
        self as u16
    }
}

/// A task may have been woken since the executor last looked.
static WOKEN: AtomicBool = AtomicBool::new(false);

/// Lets an interrupt in, whose handler is in [`DefaultHandler`].
pub fn unmask(interrupt: Interrupt) {
    // SAFETY: the handlers rely on no critical section that masks single interrupts.
    unsafe { NVIC::unmask(interrupt) };
}

/// Sleeps until an interrupt, unless a task was woken already. The executor must be polled next.
pub fn sleep() {
    // Between the check and the sleep no interrupt may slip in, and a pending one ends WFI even
    // while interrupts are off. (WFE would not sleep at all in QEMU.)
    critical_section::with(|_| {
        if !WOKEN.load(Relaxed) {
            cortex_m::asm::wfi();
        }
    });
    // The interrupt has been served by now; whomever it woke, the coming poll finds.
    WOKEN.store(false, Relaxed);
}

/// Called by the executor when a task is woken.
#[unsafe(export_name = "__pender")]
fn pend(_context: *mut ()) {
    WOKEN.store(true, Relaxed);
}

/// Where the guard ends and the stack begins: see `memory.x`.
const GUARD_END: usize = 0x2110_0000;

/// Makes the memory below the stack inaccessible: an address gap alone does not fault in QEMU.
pub fn guard_stack() {
    const CONTROL: usize = 0x04;
    const REGION_NUMBER: usize = 0x08;
    const REGION_BASE: usize = 0x0c;
    const REGION_ATTRIBUTES: usize = 0x10;
    const NEVER_EXECUTE_NO_ACCESS: u32 = 1 << 28;
    // The first MiB of PSRAM without its first eighth, where the page lies.
    const SPARE_FIRST_EIGHTH: u32 = 1 << 8;
    const SIZE_1_MIB: u32 = 19 << 1;
    const ENABLE: u32 = 1;
    const ELSEWHERE_AS_USUAL: u32 = 1 << 2;
    // SAFETY: the MPU of a Cortex-M3, which this machine has whatever the image was compiled for.
    let mpu = unsafe { Registers::new(0xe000_ed90) };
    mpu.write(REGION_NUMBER, 0);
    mpu.write(REGION_BASE, PAGE_ADDRESS as u32);
    mpu.write(REGION_ATTRIBUTES, NEVER_EXECUTE_NO_ACCESS | SPARE_FIRST_EIGHTH | SIZE_1_MIB | ENABLE);
    // Faults keep their own access: the handler still needs a stack, and takes it from the guard.
    mpu.write(CONTROL, ELSEWHERE_AS_USUAL | ENABLE);
    cortex_m::asm::dsb();
    cortex_m::asm::isb();
}

const _: () = assert!(PAGE_ADDRESS.is_multiple_of(1 << 20) && GUARD_END == PAGE_ADDRESS + (1 << 20));

/// Ends the emulator.
pub fn exit(why: Exit) -> ! {
    semihosting::exit(why as u32)
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    cortex_m::interrupt::disable();
    // The log itself may have panicked: then the exit code must do.
    static PANICKING: AtomicBool = AtomicBool::new(false);
    if !PANICKING.load(Relaxed) {
        PANICKING.store(true, Relaxed);
        let (file, line) = info.location().map_or(("?", 0), |at| (at.file(), at.line()));
        defmt::error!("panicked at {=str}:{=u32}: {}", file, line, defmt::Display2Format(&info.message()));
    }
    exit(Exit::Panic)
}

// SAFETY: it neither returns nor relies on anything that the fault may have broken, except the log.
#[exception]
unsafe fn HardFault(frame: &ExceptionFrame) -> ! {
    let stack_at = core::ptr::from_ref(frame) as usize;
    if stack_at < GUARD_END {
        // The frame itself was not written: there was no stack to write it on.
        defmt::error!("stack overflow: stack pointer at {=usize:#x}", stack_at);
    } else {
        defmt::error!("fault at {=u32:#x}, called from {=u32:#x}", frame.pc(), frame.lr());
    }
    exit(Exit::Fault)
}

// SAFETY: the handlers synchronize with the rest through critical sections only.
#[exception]
unsafe fn DefaultHandler(number: i16) {
    const ALARM: i16 = Interrupt::Alarm as i16;
    const NETWORK: i16 = Interrupt::Network as i16;
    match number {
        ALARM => clock::on_alarm(),
        NETWORK => lan9118::on_interrupt(),
        unexpected => panic!("nobody asked for interrupt {unexpected}"),
    }
}
