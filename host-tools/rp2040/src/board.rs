//! One board: the processor core on its bus, from switch-on to power cut.

use crate::{
    bus::{Bus, RAM_BASE, RAM_LEN, Stop, XIP_BASE},
    cpu::{Code, Cpu, Fault, Sleep},
    flash::{FLASH_LEN, Flash},
    image::Image,
    rom::{self, Function},
};
use std::rc::Rc;

/// Where programs begin: behind the 256 bytes that set the flash up.
pub const VECTORS_AT: u32 = XIP_BASE + 0x100;
/// Cycles that the ROM's small functions take at least.
const ROM_CALL_CYCLES: u64 = 20;

/// Why a board ended by itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct End {
    /// What happened.
    pub cause: Cause,
    /// At which instruction.
    pub pc: u32,
    /// From where that was called, as far as the register tells.
    pub lr: u32,
    /// What stopped it in the end.
    pub by: Reset,
}

/// What stopped a board that ended by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reset {
    /// Its own program asked for a new start.
    Wanted,
    /// Its watchdog was not fed.
    Bite,
    /// Nothing that it could go on from.
    None,
}

/// What ended a board.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Cause {
    /// The bus could not go on.
    Stop(Stop),
    /// The processor faulted.
    Fault(Fault),
}

/// A board that is switched on.
pub struct Board {
    cpu: Cpu,
    code: Rc<Code>,
    bus: Bus,
    /// The ROM works until then.
    busy_until: u64,
    is_paused: bool,
    /// The fault that its program is handling; it will end the board.
    fault: Option<End>,
    /// The handler itself has faulted: nothing more is executed.
    is_locked: bool,
    end: Option<End>,
}

impl Board {
    /// Switches a board on: it is the one that the image is for. The flash holds the program; random bits
    /// come from the seed.
    #[must_use]
    pub fn new(image: &Image, flash: Flash, seed: u64) -> Board {
        Board::started(Bus::new(flash, image.device(seed), seed), image.code())
    }

    fn started(mut bus: Bus, code: Rc<Code>) -> Board {
        bus.private.vectors = VECTORS_AT;
        let cpu = Cpu::new(bus.load32(VECTORS_AT), bus.load32(VECTORS_AT + 4));
        Board { cpu, code, bus, busy_until: 0, is_paused: false, fault: None, is_locked: false, end: None }
    }

    /// The next life of a board that has reset itself: RAM is as it was, and time begins anew.
    #[must_use]
    pub fn after_reset(self, seed: u64) -> Board {
        let bitten = matches!(self.end, Some(End { by: Reset::Bite, .. }));
        Board::started(self.bus.after_reset(seed, !bitten), self.code)
    }

    /// How deep its stack, which begins where its program says, has ever been, in bytes.
    #[must_use]
    pub fn stack_used(&mut self) -> u32 {
        let begins_at = self.bus.load32(VECTORS_AT);
        self.bus.stack_used(begins_at)
    }

    /// Its processor's registers, for whoever has a probe: such a one can make a program go astray.
    pub fn registers(&mut self) -> &mut [u32; 256] {
        self.cpu.sleep = None;
        &mut self.cpu.r
    }

    /// The time, in its own cycles.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.bus.now
    }

    /// Its bus.
    #[must_use]
    pub fn bus(&self) -> &Bus {
        &self.bus
    }

    /// Its bus, for whoever is wired to it.
    pub fn bus_mut(&mut self) -> &mut Bus {
        &mut self.bus
    }

    /// Why it ended, if it has.
    #[must_use]
    pub fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    /// Stops the processor as a probe would, while crystal and peripherals go on; or lets it go on.
    pub fn set_paused(&mut self, paused: bool) {
        self.bus.set_halted(paused);
        self.is_paused = paused;
    }

    /// Whether the processor was stopped.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// The power is cut; what stays is the flash.
    #[must_use]
    pub fn power_cut(mut self) -> Flash {
        self.bus.flash.advance(self.bus.now);
        self.bus.flash.power_cut();
        self.bus.flash
    }

    /// When it has something to do; until then it sleeps.
    #[must_use]
    pub fn next_at(&self) -> u64 {
        if self.end.is_some() {
            u64::MAX
        } else if self.is_idle() {
            let busy = if self.busy_until > self.bus.now { self.busy_until } else { u64::MAX };
            self.bus.next_at.min(if self.is_paused { u64::MAX } else { busy })
        } else {
            self.bus.now
        }
    }

    /// A frame arrives.
    pub fn receive(&mut self, frame: &[u8]) {
        self.bus.receive(frame);
    }

    /// Runs until this cycle, or a few beyond it: instructions are not divided.
    pub fn run(&mut self, until: u64) {
        while self.bus.now < until && self.end.is_none() {
            if self.bus.next_at <= self.bus.now {
                self.bus.happen();
                self.attend();
                continue;
            }
            if self.is_idle() {
                let busy = if self.busy_until > self.bus.now { self.busy_until } else { u64::MAX };
                self.bus.now = until.min(self.bus.next_at).min(busy);
                // The ROM returns only after its work on the flash is done.
                if self.bus.now == busy && !self.bus.flash.advance(busy) {
                    self.ends(Cause::Stop(Stop::PowerCut), self.bus.pc);
                }
                continue;
            }
            self.execute(until);
        }
    }

    fn execute(&mut self, until: u64) {
        self.cpu.sleep = None;
        self.cpu.take_exception(&mut self.bus);
        self.bus.attention = false;
        let limit = until.min(self.bus.next_at);
        self.cpu.run(&mut self.bus, &self.code, limit);
        self.attend();
    }

    /// Whether there is nothing to execute.
    fn is_idle(&self) -> bool {
        if self.is_paused || self.is_locked || self.busy_until > self.bus.now {
            return true;
        }
        match self.cpu.sleep {
            None => false,
            Some(Sleep::Event) => !(self.bus.has_event || (self.bus.private.is_pending() && !self.cpu.is_masked())),
            Some(Sleep::Interrupt) => !self.bus.private.is_pending(),
        }
    }

    /// Looks after what the processor left to be done: stops and faults.
    fn attend(&mut self) {
        if let Some(stop) = self.bus.stop.take() {
            match stop {
                Stop::Rom(function) => self.call(function),
                Stop::Nowhere { .. } | Stop::Forbidden { .. } => self.faults(Cause::Stop(stop), self.bus.pc),
                other => self.ends(Cause::Stop(other), self.bus.pc),
            }
        }
        if let Some(fault) = self.cpu.fault {
            self.faults(Cause::Fault(fault), self.cpu.r[15]);
        }
        if self.bus.attention {
            // A handler that has returned may find its level still there.
            self.bus.settle();
        }
    }

    /// The program's own handler gets its chance to leave a record. What the board ends by is the fault.
    fn faults(&mut self, cause: Cause, pc: u32) {
        let fault = End { cause, pc, lr: self.cpu.r[14], by: Reset::None };
        let first = self.fault.get_or_insert(fault);
        if !self.cpu.take_fault(&mut self.bus, pc) {
            self.is_locked = true;
            if !self.bus.is_watched() {
                self.end = Some(first.clone());
            }
        }
    }

    fn ends(&mut self, cause: Cause, pc: u32) {
        let by = match &cause {
            Cause::Stop(Stop::Watchdog { forced: false }) => Reset::Bite,
            Cause::Stop(Stop::Watchdog { forced: true } | Stop::ResetRequest) => Reset::Wanted,
            _ => Reset::None,
        };
        let end = End { cause, pc, lr: self.cpu.r[14], by };
        self.end = Some(match self.fault.take() {
            Some(fault) if by != Reset::None => End { by, ..fault },
            _ => end,
        });
    }

    /// Does what a function of the ROM does.
    fn call(&mut self, function: Function) {
        let [a, b, c, ..] = self.cpu.r;
        let now = self.bus.now;
        let mut until = now + ROM_CALL_CYCLES;
        match function {
            Function::Lookup => self.cpu.r[0] = rom::lookup(b),
            Function::ConnectFlash | Function::ExitXip => self.bus.set_flash_visible(false),
            Function::FlushCache => {}
            Function::EnterXip => self.bus.set_flash_visible(true),
            // The program was decoded once: it may not change itself.
            Function::Erase | Function::Program if (a as usize) < self.code.len() => return self.refuse(a),
            Function::Erase => match self.bus.flash.erase(now, a, b) {
                Some(done) => until = done,
                None => return self.refuse(a),
            },
            Function::Program => {
                let mut data = vec![0; (c as usize).min(RAM_LEN)];
                let known = self.bus.read_ram(b.wrapping_sub(RAM_BASE) as usize, &mut data);
                match self.bus.flash.program(now, a, data).filter(|_| known) {
                    Some(done) => until = done,
                    None => return self.refuse(a),
                }
            }
            Function::Memset | Function::Memset4 => {
                for index in 0..c {
                    self.bus.store8(a.wrapping_add(index), b as u8);
                }
                until += u64::from(c);
            }
            Function::Memcpy | Function::Memcpy44 => {
                for index in 0..c {
                    let byte = self.bus.load8(b.wrapping_add(index));
                    self.bus.store8(a.wrapping_add(index), byte);
                }
                until += u64::from(c);
            }
        }
        self.busy_until = until;
    }

    fn refuse(&mut self, offset: u32) {
        let address = XIP_BASE.wrapping_add(offset.min(FLASH_LEN as u32));
        self.ends(Cause::Stop(Stop::Nowhere { address }), self.cpu.r[14] & !1);
    }
}
