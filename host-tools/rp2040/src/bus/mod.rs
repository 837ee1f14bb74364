//! One board's bus: memory, peripherals, and the network device.
//!
//! Whatever is not modelled stops the board when it is touched: a run on a model that guesses would
//! prove nothing. Peripherals do nothing by the cycle; each says when it has something to do next.

pub mod adc;
pub mod dma;
pub mod gpio;
pub mod mpu;
pub mod pio;
pub mod registers;
pub mod sio;
pub mod spi;
pub mod system;
pub mod timer;
pub mod usb;
pub mod watchdog;

mod access;
mod transfer;
mod wires;

pub use access::{Open, is_aligned};

use crate::{
    cpu::Private,
    device::Device,
    flash::{FLASH_LEN, Flash},
    rom::{self, Function},
};
use adc::Adc;
use dma::Dma;
use gpio::Gpio;
use mpu::Mpu;
use pio::Pio;
use sio::Sio;
use spi::Spi;
use system::System;
use timer::Timer;
use watchdog::Watchdog;
use wires::Wires;

/// The processor's cycles in a second, by its own crystal.
pub const HERTZ: u64 = 125_000_000;
/// The same in a microsecond.
pub const CYCLES_PER_US: u64 = HERTZ / 1_000_000;
/// Where the flash is seen.
pub const XIP_BASE: u32 = 0x1000_0000;
/// Where the RAM is.
pub const RAM_BASE: u32 = 0x2000_0000;
/// Where SIO is.
pub const SIO_BASE: u32 = 0xd000_0000;
/// Size of the RAM.
pub const RAM_LEN: usize = 264 * 1024;
/// What RAM holds after power-up: nothing that a program could rely on.
const RAM_FILL: u32 = 0xa5a5_a5a5;

/// Why the processor must stop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stop {
    /// A register that is not modelled was touched, or asked for what is not modelled.
    Unmodelled {
        /// Where.
        address: u32,
        /// What was written, if it was a write.
        written: Option<u32>,
    },
    /// There is nothing at this address on the chip either.
    Nowhere {
        /// Where.
        address: u32,
    },
    /// Memory that the program itself has forbidden: most likely the stack has overflowed.
    Forbidden {
        /// Where.
        address: u32,
    },
    /// Something was asked of the network device that is not modelled.
    Device(String),
    /// A function of the ROM was called.
    Rom(Function),
    /// The watchdog bit, by itself or because the program wanted it.
    Watchdog {
        /// The program wanted it.
        forced: bool,
    },
    /// The program asked for a reset.
    ResetRequest,
    /// The power failed while the flash was being changed.
    PowerCut,
}

/// One board's bus.
#[derive(Clone)]
pub struct Bus {
    /// The time, in the processor's cycles since power-up.
    pub now: u64,
    /// When something happens next.
    pub next_at: u64,
    /// The processor must look up: a stop, an exception, a sleep, or an earlier `next_at`.
    pub attention: bool,
    /// Why it must stop, if it must.
    pub stop: Option<Stop>,
    /// The instruction that last left memory for a register.
    pub pc: u32,
    /// An event is remembered for the next time it wants to wait.
    pub has_event: bool,
    /// Frames that have left, each with its time.
    pub departed: Vec<(u64, Vec<u8>)>,
    /// The flash.
    pub flash: Flash,
    /// NVIC and system control.
    pub private: Private,
    /// How much of the flash can be seen: nothing while it is being changed.
    visible: usize,
    /// The part of RAM that nobody may touch, in words: where it begins, and how long it is.
    guard_at: usize,
    guard_len: usize,
    rom: Box<[u8]>,
    ram: Box<[u32; RAM_LEN / 4]>,
    timer: Timer,
    watchdog: Watchdog,
    gpio: Gpio,
    sio: Sio,
    spi: Spi,
    dma: Dma,
    pio: Pio,
    mpu: Mpu,
    adc: Adc,
    system: System,
    device: Device,
}

impl Bus {
    /// A board that was just switched on, with this flash and network device; random bits come from the seed.
    #[must_use]
    pub fn new(flash: Flash, device: Device, seed: u64) -> Bus {
        let ram: Box<[u32]> = vec![RAM_FILL; RAM_LEN / 4].into();
        let mut bus = Bus {
            now: 0,
            next_at: u64::MAX,
            attention: false,
            stop: None,
            pc: 0,
            has_event: false,
            departed: Vec::new(),
            flash,
            private: Private::default(),
            visible: FLASH_LEN,
            guard_at: 0,
            guard_len: 0,
            rom: rom::image(),
            ram: ram.try_into().unwrap_or_else(|_| unreachable!("it has that length")),
            timer: Timer::default(),
            watchdog: Watchdog::default(),
            gpio: Gpio::default(),
            sio: Sio::default(),
            spi: Spi::default(),
            dma: Dma::default(),
            pio: Pio::default(),
            mpu: Mpu::default(),
            adc: Adc::default(),
            system: System::seeded(seed),
            device,
        };
        bus.settle();
        bus
    }

    /// The same board after a reset by its watchdog or by its program: RAM and flash stay as they are, and the
    /// watchdog knows why.
    #[must_use]
    pub fn after_reset(self, seed: u64, forced: bool) -> Bus {
        let mut flash = self.flash;
        flash.power_cut(); // Whatever was being done to it is not finished.
        let device = self.device.after_reset(seed);
        Bus { ram: self.ram, watchdog: self.watchdog.after_reset(forced), ..Bus::new(flash, device, seed) }
    }

    /// A fault's handler may touch everything.
    pub fn lift_guard(&mut self) {
        self.guard_len = 0;
    }

    /// Whether a watchdog will bite a processor that stands still.
    #[must_use]
    pub fn is_watched(&self) -> bool {
        self.watchdog.next_at() != u64::MAX
    }

    /// How many bytes of the stack that ends at the bottom of RAM were ever written, where it begins at this
    /// address: RAM holds a pattern at power-up.
    #[must_use]
    pub fn stack_used(&self, begins_at: u32) -> u32 {
        let words = (begins_at.saturating_sub(RAM_BASE) / 4) as usize;
        let untouched = self.ram.iter().take(words).take_while(|word| **word == RAM_FILL).count();
        4 * (words - untouched) as u32
    }

    /// Everything that is due happens.
    pub fn happen(&mut self) {
        self.timer.advance(self.now);
        self.catch_up();
        while let Some(frame) = self.device.departed(self.now) {
            self.departed.push(frame);
        }
        if self.watchdog.next_at() <= self.now {
            self.stop(Stop::Watchdog { forced: self.watchdog.is_forced() });
        }
        self.settle();
    }

    /// A frame arrives from the network.
    pub fn receive(&mut self, frame: &[u8]) {
        self.catch_up();
        self.device.advance(self.now);
        self.device.receive(frame);
        self.settle();
    }

    /// A probe stops the core, or lets it go on.
    pub fn set_halted(&mut self, halted: bool) {
        self.watchdog.set_halted(self.now, halted);
        self.settle();
    }

    /// Shows or hides the flash.
    pub fn set_flash_visible(&mut self, visible: bool) {
        self.visible = if visible { FLASH_LEN } else { 0 };
    }

    /// The processor must stop; the first reason counts.
    pub fn stop(&mut self, stop: Stop) {
        self.stop.get_or_insert(stop);
        self.attention = true;
    }

    /// Frames that found no room in the network device.
    #[must_use]
    pub fn frames_dropped(&self) -> u64 {
        self.device.dropped()
    }

    /// The network device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The network device, for whoever has hands on it. What that changes is seen at once.
    pub fn with_device<R>(&mut self, f: impl FnOnce(&mut Device) -> R) -> R {
        self.device.advance(self.now);
        let result = f(&mut self.device);
        self.settle();
        result
    }

    /// The level of every pin.
    #[must_use]
    pub fn pins(&self) -> u32 {
        self.gpio.levels()
    }

    /// Whether the flash can be seen.
    #[must_use]
    pub fn is_flash_visible(&self) -> bool {
        self.visible > 0
    }

    /// Brings wires, interrupt lines and the time of the next event up to date.
    pub fn settle(&mut self) {
        self.device.advance(self.now);
        let before = self.gpio.levels();
        if let Some((pin, high)) = self.device.driven_pin() {
            self.gpio.drive(pin, high);
        }
        if self.gpio.levels() != before {
            self.pio.look_again(self.now); // It may have waited for that.
        }
        if let Some(what) = self.device.unmodelled() {
            let what = what.to_owned();
            self.stop(Stop::Device(what));
        }
        let [dma0, dma1] = self.dma.lines();
        let [pio0, pio1] = self.pio.lines();
        let single = [(7, pio0), (8, pio1), (11, dma0), (12, dma1), (13, self.gpio.line())];
        let lines = single
            .iter()
            .fold(self.timer.lines() | self.device.lines(), |all, (line, is_up)| all | u32::from(*is_up) << line);
        self.private.raise(lines);
        let next = self.timer.next_at().min(self.watchdog.next_at()).min(self.device.next_at());
        self.next_at = next.min(self.transfer_at()).min(self.pio_at());
        self.attention = true;
    }

    /// The processor moved pins: the device may be selected or reset.
    fn pins_moved(&mut self, before: u32) {
        Wires { gpio: &mut self.gpio, device: &mut self.device }.moved(self.now, before);
    }
}
