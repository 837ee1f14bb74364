//! How a program ends that cannot go on: it says why, and the board starts anew.

use core::{
    panic::PanicInfo,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};
use cortex_m_rt::{ExceptionFrame, exception};
use defmt_rtt as _; // The log: a probe reads its ring out of RAM.
use embassy_rp::pac;

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    cortex_m::interrupt::disable();
    // The log itself may have panicked.
    static PANICKING: AtomicBool = AtomicBool::new(false);
    if !PANICKING.load(Relaxed) {
        PANICKING.store(true, Relaxed);
        let (file, line) = info.location().map_or(("?", 0), |at| (at.file(), at.line()));
        defmt::error!("panicked at {=str}:{=u32}: {}", file, line, defmt::Display2Format(&info.message()));
    }
    restart()
}

// SAFETY: it neither returns nor relies on anything that the fault may have broken, except the log.
#[exception]
unsafe fn HardFault(frame: &ExceptionFrame) -> ! {
    defmt::error!("fault at {=u32:#x}, called from {=u32:#x}", frame.pc(), frame.lr());
    restart()
}

/// Starts the board anew, everything but its oscillators.
fn restart() -> ! {
    const ALL_BUT_OSCILLATORS: u32 = 0x0001_fffc;
    pac::PSM.wdsel().write_value(pac::psm::regs::Wdsel(ALL_BUT_OSCILLATORS));
    pac::WATCHDOG.ctrl().write(|w| w.set_trigger(true));
    loop {
        cortex_m::asm::nop();
    }
}
