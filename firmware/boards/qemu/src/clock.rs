//! The board's time: TIMER0 counts, TIMER1 rings, a [`Crystal`] bends both.
//!
//! TIMER0 runs freely at 25 MHz and is extended to 64 bits by being read at least every
//! [`ALARM_AHEAD_MAX_US`] µs, for which TIMER1 rings even when nobody has an appointment. (A board
//! that is paused for longer than the counter's 171 s loses that much of its time.)
//!
//! [`ALARM_AHEAD_MAX_US`]: compasso_runtime::crystal::ALARM_AHEAD_MAX_US

use crate::{
    machine::{self, Interrupt},
    registers::Registers,
};
use compasso_runtime::{Clocks, crystal::Crystal};
use compasso_wire::Instant;
use core::{cell::RefCell, task::Waker};
use critical_section::Mutex;
use embassy_time_driver::{Driver, time_driver_impl};
use embassy_time_queue_utils::Queue;

const TICKS_PER_US: u32 = 25;
const NS_PER_TICK: u64 = 1000 / TICKS_PER_US as u64;

// SAFETY: the machine's first two CMSDK timers.
const TIMER0: Registers = unsafe { Registers::new(0x4000_0000) };
// SAFETY: as above.
const TIMER1: Registers = unsafe { Registers::new(0x4000_1000) };
const CONTROL: usize = 0x0;
const VALUE: usize = 0x4;
const RELOAD: usize = 0x8;
const CLEAR: usize = 0xc;
const ENABLE: u32 = 1;
const ENABLE_INTERRUPT: u32 = 1 << 3;

struct State {
    is_running: bool,
    ticks: u64,
    crystal: Crystal,
    queue: Queue,
    /// What TIMER1 is set to.
    alarm_at: u64,
}

struct Clock(Mutex<RefCell<State>>);

time_driver_impl!(static CLOCK: Clock = Clock(Mutex::new(RefCell::new(State {
    is_running: false,
    ticks: 0,
    crystal: Crystal::new(TICKS_PER_US),
    queue: Queue::new(),
    alarm_at: u64::MAX,
}))));

/// Starts time, from zero, with a crystal bent so far.
pub fn start(rate_ppb: i32) {
    with_state(|state| {
        TIMER0.write(RELOAD, u32::MAX);
        TIMER0.write(VALUE, u32::MAX);
        TIMER0.write(CONTROL, ENABLE);
        TIMER1.write(RELOAD, 0); // One shot.
        state.is_running = true;
        state.crystal.set_rate_ppb(0, rate_ppb);
        state.ring();
    });
    machine::unmask(Interrupt::Alarm);
}

/// Bends the crystal from now on.
pub fn set_rate_ppb(ppb: i32) {
    with_state(|state| {
        let ticks = state.ticks();
        state.crystal.set_rate_ppb(ticks, ppb);
        state.alarm_at = u64::MAX; // It was set in ticks of the old rate.
        state.ring();
    });
}

/// How far the crystal is bent.
pub fn rate_ppb() -> i32 {
    with_state(|state| state.crystal.rate_ppb())
}

/// Both clocks at one moment.
pub fn clocks() -> Clocks {
    with_state(|state| {
        let ticks = state.ticks();
        Clocks { hw: Instant(state.crystal.micros(ticks)), raw_ns: ticks * NS_PER_TICK }
    })
}

/// The unbent counter.
pub fn raw_ns() -> u64 {
    with_state(|state| state.ticks() * NS_PER_TICK)
}

/// TIMER1 rings.
pub fn on_alarm() {
    TIMER1.write(CLEAR, 1);
    with_state(|state| {
        state.alarm_at = u64::MAX;
        state.ring();
    });
}

impl Driver for Clock {
    fn now(&self) -> u64 {
        with_state(State::now)
    }

    fn schedule_wake(&self, at: u64, waker: &Waker) {
        with_state(|state| {
            if state.queue.schedule_wake(at, waker) {
                state.ring();
            }
        });
    }
}

impl State {
    fn ticks(&mut self) -> u64 {
        if self.is_running {
            // The counter counts down, and its ones' complement up.
            let elapsed = (!TIMER0.read(VALUE)).wrapping_sub(self.ticks as u32);
            self.ticks += u64::from(elapsed);
        }
        self.ticks
    }

    fn now(&mut self) -> u64 {
        let ticks = self.ticks();
        self.crystal.micros(ticks)
    }

    /// Wakes whoever is due and sets the alarm for the next.
    fn ring(&mut self) {
        let ticks = self.ticks();
        let next = self.queue.next_expiration(self.crystal.micros(ticks));
        // Without an appointment the alarm is still set: time must be read.
        if next < self.alarm_at || self.alarm_at == u64::MAX {
            TIMER1.write(CONTROL, 0);
            TIMER1.write(VALUE, self.crystal.ticks_until(ticks, next));
            TIMER1.write(CONTROL, ENABLE | ENABLE_INTERRUPT);
            self.alarm_at = next;
        }
    }
}

fn with_state<R>(f: impl FnOnce(&mut State) -> R) -> R {
    critical_section::with(|cs| f(&mut CLOCK.0.borrow_ref_mut(cs)))
}
