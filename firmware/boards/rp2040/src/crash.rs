//! How a program ends that cannot go on: it says why and leaves a record, the board starts anew,
//! and the next life says it again.
//!
//! The record lies in RAM that no start of the program touches. It outlives every reset but a
//! power cut.

use crate::memory::GUARD_END;
use core::{
    cell::UnsafeCell,
    fmt::{self, Write},
    mem::MaybeUninit,
    panic::PanicInfo,
    ptr,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};
use cortex_m_rt::{ExceptionFrame, exception};
use defmt_rtt as _; // The log: a probe reads its ring out of RAM.
use embassy_rp::pac;

/// Marks a record; what RAM holds after a power cut is anything else.
const MAGIC: [u32; 2] = [0x434d_5058, 0xb4a2_9fa7];
const TEXT_MAX: usize = 160;

#[derive(Clone, Copy)]
enum End {
    Panic { line: u32 },
    Fault { pc: u32, lr: u32 },
    StackOverflow { pointer: u32 },
}

#[derive(Clone, Copy)]
struct Record {
    end: End,
    /// A panic's file and message.
    text: Text,
}

#[repr(C)]
struct Place {
    magic: [u32; 2],
    record: MaybeUninit<Record>,
}

struct Kept(UnsafeCell<MaybeUninit<Place>>);

// SAFETY: touched by the first instructions of a life and by its last ones only.
unsafe impl Sync for Kept {}

#[unsafe(link_section = ".uninit.compasso_crash")]
static KEPT: Kept = Kept(UnsafeCell::new(MaybeUninit::uninit()));

/// Says how the last life ended, if it ended badly. To be called first of all.
pub fn report() {
    if let Some(record) = take() {
        match record.end {
            End::Panic { line } => {
                defmt::error!("the last life panicked, line {=u32} of {=str}", line, record.text.as_str());
            }
            End::Fault { pc, lr } => {
                defmt::error!("the last life ended in a fault at {=u32:#x}, called from {=u32:#x}", pc, lr);
            }
            End::StackOverflow { pointer } => {
                defmt::error!("the last life overflowed its stack: stack pointer at {=u32:#x}", pointer);
            }
        }
    } else if pac::WATCHDOG.reason().read().timer() {
        defmt::error!("the last life ended by the watchdog: it hung, or could not even report a fault");
    }
}

/// Starts the board anew, everything but its oscillators.
pub fn restart() -> ! {
    const ALL_BUT_OSCILLATORS: u32 = 0x0001_fffc;
    pac::PSM.wdsel().write_value(pac::psm::regs::Wdsel(ALL_BUT_OSCILLATORS));
    pac::WATCHDOG.ctrl().write(|w| w.set_trigger(true));
    loop {
        cortex_m::asm::nop();
    }
}

fn take() -> Option<Record> {
    let place = KEPT.0.get().cast::<Place>();
    // SAFETY: any bits are a magic. The record was written before the magic, by this very program
    // or by one whose place differs: the magic is this image's own, see `magic`.
    unsafe {
        let is_there = ptr::read_volatile(&raw const (*place).magic) == magic();
        ptr::write_volatile(&raw mut (*place).magic, [0; 2]);
        is_there.then(|| ptr::read(&raw const (*place).record).assume_init())
    }
}

fn keep(end: End, text: Text) {
    let place = KEPT.0.get().cast::<Place>();
    // SAFETY: interrupts are off or outranked, and nothing else follows.
    unsafe {
        ptr::write(&raw mut (*place).record, MaybeUninit::new(Record { end, text }));
        cortex_m::asm::dmb();
        ptr::write_volatile(&raw mut (*place).magic, magic());
    }
}

/// A new program may lay records out otherwise: its code lies elsewhere, so its magic differs.
fn magic() -> [u32; 2] {
    let [first, second] = MAGIC;
    [first, second ^ (report as *const () as u32) ^ size_of::<Record>() as u32]
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    cortex_m::interrupt::disable();
    // The log itself may have panicked.
    static PANICKING: AtomicBool = AtomicBool::new(false);
    if !PANICKING.load(Relaxed) {
        PANICKING.store(true, Relaxed);
        let (file, line) = info.location().map_or(("?", 0), |at| (at.file(), at.line()));
        let mut text = Text { bytes: [0; TEXT_MAX], length: 0 };
        let _ = write!(text, "{file}: {}", info.message()); // What has no room is cut off.
        keep(End::Panic { line }, text);
        defmt::error!("panicked at {=str}:{=u32}: {}", file, line, defmt::Display2Format(&info.message()));
    }
    restart()
}

// SAFETY: it neither returns nor relies on anything that the fault may have broken, except the log.
#[exception]
unsafe fn HardFault(frame: &ExceptionFrame) -> ! {
    let stack_at = ptr::from_ref(frame) as usize;
    let none = Text { bytes: [0; TEXT_MAX], length: 0 };
    if stack_at < GUARD_END {
        // The frame itself was not written: there was no stack to write it on.
        keep(End::StackOverflow { pointer: stack_at as u32 }, none);
        defmt::error!("stack overflow: stack pointer at {=usize:#x}", stack_at);
    } else {
        keep(End::Fault { pc: frame.pc(), lr: frame.lr() }, none);
        defmt::error!("fault at {=u32:#x}, called from {=u32:#x}", frame.pc(), frame.lr());
    }
    restart()
}

#[derive(Clone, Copy)]
struct Text {
    bytes: [u8; TEXT_MAX],
    length: usize,
}

impl Text {
    fn as_str(&self) -> &str {
        let bytes = self.bytes.get(..self.length).unwrap_or(&[]);
        match core::str::from_utf8(bytes) {
            Ok(text) => text,
            // Cut off within a character.
            Err(error) => core::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or("?"),
        }
    }
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            *self.bytes.get_mut(self.length).ok_or(fmt::Error)? = byte;
            self.length += 1;
        }
        Ok(())
    }
}
