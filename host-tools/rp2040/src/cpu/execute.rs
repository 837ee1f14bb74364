//! Executing instructions. Cycles are those of the Cortex-M0+ Technical Reference Manual, with the
//! single-cycle multiplier.

use super::{Code, Cpu, Fault, Sleep, add, op::Op};
use crate::bus::{Bus, XIP_BASE, is_aligned};

/// Returns from exceptions are jumps to addresses like this.
pub(super) const EXCEPTION_RETURN: u32 = 0xffff_ff00;

impl Cpu {
    /// Executes until the bus's time reaches `limit`, or somebody must look up.
    pub fn run(&mut self, bus: &mut Bus, code: &Code, limit: u64) {
        let (ops, places): (&[_], &[_]) = if bus.is_flash_visible() { (&code.ops, &code.places) } else { (&[], &[]) };
        while bus.now < limit {
            self.sprint(bus, places, limit);
            // What cannot be done that way is walked over: one instruction, or all of them where flash is not seen.
            let next = if places.is_empty() { limit } else { limit.min(bus.now + 1) };
            if !self.walk(bus, ops, next) {
                break;
            }
        }
    }

    /// Executes instructions one by one, whatever they are. Returns false if somebody must look up.
    #[inline(never)]
    fn walk(&mut self, bus: &mut Bus, ops: &[Op], limit: u64) -> bool {
        let mut now = bus.now;
        let mut pc = self.r[15];
        // A comparison in flash and the branch behind it are not divided.
        let mut compared = false;
        // Whoever leaves the fast path tells the bus the time, and looks up if that asks for it.
        macro_rules! slowly {
            ($access:expr) => {{
                bus.now = now;
                bus.pc = pc;
                $access
            }};
        }
        macro_rules! load {
            ($fast:ident, $slow:ident, $size:expr, $address:expr, |$value:ident| $then:expr) => {{
                let address: u32 = $address;
                now += 2;
                match bus.$fast(address) {
                    Some($value) => $then,
                    None => {
                        if !is_aligned($size, address) {
                            self.fault = Some(Fault::Unaligned);
                            break false;
                        }
                        let $value = slowly!(bus.$slow(address));
                        $then;
                        if bus.attention {
                            pc = pc.wrapping_add(2);
                            break false;
                        }
                    }
                }
            }};
        }
        macro_rules! store {
            ($fast:ident, $slow:ident, $size:expr, $address:expr, $value:expr) => {{
                let (address, value) = ($address, $value);
                now += 2;
                if !bus.$fast(address, value) {
                    if !is_aligned($size, address) {
                        self.fault = Some(Fault::Unaligned);
                        break false;
                    }
                    slowly!(bus.$slow(address, value));
                    if bus.attention {
                        pc = pc.wrapping_add(2);
                        break false;
                    }
                }
            }};
        }
        macro_rules! sets {
            ($d:expr, $result:expr) => {{
                let result = $result;
                self.set($d, result);
                self.nz = result.into();
                now += 1;
            }};
        }
        macro_rules! shifts_left {
            ($d:expr, $m:expr, $by:expr) => {{
                let value = self.reg($m);
                self.c = value >> (32 - u32::from($by)) & 1 != 0;
                sets!($d, value << ($by & 31));
            }};
        }
        macro_rules! shifts_right {
            ($d:expr, $m:expr, $by:expr) => {{
                let value = u64::from(self.reg($m));
                self.c = value >> ($by - 1) & 1 != 0;
                sets!($d, (value >> $by) as u32);
            }};
        }
        macro_rules! copies {
            ($d:expr, $value:expr) => {{
                self.set($d, $value);
                now += 1;
            }};
        }
        macro_rules! sums {
            ($d:expr, $sum:expr) => {{
                let (result, carry, overflow) = $sum;
                self.set($d, result);
                (self.nz, self.c, self.v) = (result.into(), carry, u32::from(overflow) << 31);
                now += 1;
            }};
        }
        macro_rules! compares {
            ($sum:expr) => {{
                let (result, carry, overflow) = $sum;
                (self.nz, self.c, self.v) = (result.into(), carry, u32::from(overflow) << 31);
                now += 1;
            }};
        }
        macro_rules! branches {
            ($to:expr, $taken:expr) => {{
                if $taken {
                    pc = $to;
                    now += 2;
                    continue;
                }
                now += 1;
            }};
        }
        let goes_on = loop {
            if now >= limit && !(compared && is_condition(ops, pc)) {
                break true;
            }
            compared = false;
            let op = match ops.get((pc.wrapping_sub(XIP_BASE) >> 1) as usize) {
                Some(op) => *op,
                None => {
                    let op = slowly!(self.fetch(bus, pc));
                    if bus.stop.is_some() {
                        break false;
                    }
                    op
                }
            };
            match op {
                Op::LslImm { d, m, by: 0 } => sets!(d, self.reg(m)),
                Op::LslImm { d, m, by } => shifts_left!(d, m, by),
                Op::LsrImm { d, m, by } => shifts_right!(d, m, by),
                Op::AsrImm { d, m, by } => {
                    let value = i64::from(self.reg(m) as i32);
                    self.c = value >> (by - 1) & 1 != 0;
                    sets!(d, (value >> by) as u32);
                }
                Op::AddReg { d, n, m } => sums!(d, add(self.reg(n), self.reg(m), false)),
                Op::SubReg { d, n, m } => sums!(d, add(self.reg(n), !self.reg(m), true)),
                Op::AddImm { d, n, value } => sums!(d, add(self.reg(n), value.into(), false)),
                Op::SubImm { d, n, value } => sums!(d, add(self.reg(n), !u32::from(value), true)),
                Op::MovImm { d, value } => sets!(d, u32::from(value)),
                Op::CmpImm { n, value } => {
                    compares!(add(self.reg(n), !u32::from(value), true));
                    compared = true;
                }
                Op::And { d, m } => sets!(d, self.reg(d) & self.reg(m)),
                Op::Eor { d, m } => sets!(d, self.reg(d) ^ self.reg(m)),
                Op::Orr { d, m } => sets!(d, self.reg(d) | self.reg(m)),
                Op::Bic { d, m } => sets!(d, self.reg(d) & !self.reg(m)),
                Op::Mvn { d, m } => sets!(d, !self.reg(m)),
                Op::Mul { d, m } => sets!(d, self.reg(d).wrapping_mul(self.reg(m))),
                Op::Tst { d, m } => {
                    let result = self.reg(d) & self.reg(m);
                    self.nz = result.into();
                    now += 1;
                }
                Op::LslReg { d, m } => {
                    let by = self.reg(m) & 0xff;
                    let value = u64::from(self.reg(d)) << by.min(33);
                    if by != 0 {
                        self.c = value >> 32 & 1 != 0;
                    }
                    sets!(d, value as u32);
                }
                Op::LsrReg { d, m } => {
                    let by = (self.reg(m) & 0xff).min(33);
                    let value = u64::from(self.reg(d));
                    if by != 0 {
                        self.c = value >> (by - 1) & 1 != 0;
                    }
                    sets!(d, (value >> by) as u32);
                }
                Op::AsrReg { d, m } => {
                    let by = (self.reg(m) & 0xff).min(32);
                    let value = i64::from(self.reg(d) as i32);
                    if by != 0 {
                        self.c = value >> (by - 1) & 1 != 0;
                    }
                    sets!(d, (value >> by) as u32);
                }
                Op::Ror { d, m } => {
                    let by = self.reg(m) & 0xff;
                    let value = self.reg(d).rotate_right(by & 31);
                    if by != 0 {
                        self.c = value >> 31 != 0;
                    }
                    sets!(d, value);
                }
                Op::Adc { d, m } => sums!(d, add(self.reg(d), self.reg(m), self.c)),
                Op::Sbc { d, m } => sums!(d, add(self.reg(d), !self.reg(m), self.c)),
                Op::Rsb { d, m } => sums!(d, add(!self.reg(m), 0, true)),
                Op::Cmp { n, m } => {
                    compares!(add(self.reg(n), !self.reg(m), true));
                    compared = true;
                }
                Op::Cmn { d, m } => compares!(add(self.reg(d), self.reg(m), false)),
                Op::AddHigh { d, m } => {
                    self.r[15] = pc.wrapping_add(4);
                    let sum = self.reg(d).wrapping_add(self.reg(m));
                    if d == 15 {
                        pc = sum & !1;
                        now += 2;
                        continue;
                    }
                    self.set(d, if d == 13 { sum & !3 } else { sum });
                    now += 1;
                }
                Op::Mov { d, m } => {
                    self.r[15] = pc.wrapping_add(4);
                    let value = self.reg(m);
                    self.set(d, if d == 13 { value & !3 } else { value });
                    now += 1;
                }
                Op::MovPc { m } => {
                    self.r[15] = pc.wrapping_add(4);
                    pc = self.reg(m) & !1;
                    now += 2;
                    continue;
                }
                Op::Bx { m } | Op::Blx { m } => {
                    let to = self.reg(m);
                    now += 2;
                    if matches!(op, Op::Blx { .. }) {
                        self.r[14] = pc.wrapping_add(2) | 1;
                    } else if to >= EXCEPTION_RETURN && self.exception != 0 {
                        (bus.now, bus.pc) = (now, pc);
                        self.return_from_exception(bus, to);
                        (now, pc) = (bus.now, self.r[15]);
                        break false;
                    }
                    if to & 1 == 0 {
                        self.fault = Some(Fault::State);
                        break false;
                    }
                    pc = to & !1;
                    continue;
                }
                Op::LdrKnown { t, value } => {
                    self.set(t, value);
                    now += 2;
                }
                Op::LdrAt { t, address } => load!(fast32, load32, 4, address, |value| self.set(t, value)),
                Op::Adr { d, value } => copies!(d, value),
                Op::StrReg { t, n, m } => {
                    store!(put32, store32, 4, self.reg(n).wrapping_add(self.reg(m)), self.reg(t))
                }
                Op::StrhReg { t, n, m } => {
                    store!(put16, store16, 2, self.reg(n).wrapping_add(self.reg(m)), self.reg(t) as u16)
                }
                Op::StrbReg { t, n, m } => {
                    store!(put8, store8, 1, self.reg(n).wrapping_add(self.reg(m)), self.reg(t) as u8)
                }
                Op::LdrReg { t, n, m } => {
                    load!(fast32, load32, 4, self.reg(n).wrapping_add(self.reg(m)), |value| self.set(t, value))
                }
                Op::LdrhReg { t, n, m } => {
                    load!(fast16, load16, 2, self.reg(n).wrapping_add(self.reg(m)), |value| self.set(t, value.into()))
                }
                Op::LdrbReg { t, n, m } => {
                    load!(fast8, load8, 1, self.reg(n).wrapping_add(self.reg(m)), |value| self.set(t, value.into()))
                }
                Op::LdrsbReg { t, n, m } => load!(fast8, load8, 1, self.reg(n).wrapping_add(self.reg(m)), |value| self
                    .set(t, value as i8 as u32)),
                Op::LdrshReg { t, n, m } => {
                    load!(fast16, load16, 2, self.reg(n).wrapping_add(self.reg(m)), |value| self
                        .set(t, value as i16 as u32))
                }
                Op::Str { t, n, at } => store!(put32, store32, 4, self.reg(n).wrapping_add(at.into()), self.reg(t)),
                Op::Strh { t, n, at } => {
                    store!(put16, store16, 2, self.reg(n).wrapping_add(at.into()), self.reg(t) as u16)
                }
                Op::Strb { t, n, at } => {
                    store!(put8, store8, 1, self.reg(n).wrapping_add(at.into()), self.reg(t) as u8)
                }
                Op::Ldr { t, n, at } => {
                    load!(fast32, load32, 4, self.reg(n).wrapping_add(at.into()), |value| self.set(t, value))
                }
                Op::Ldrh { t, n, at } => {
                    load!(fast16, load16, 2, self.reg(n).wrapping_add(at.into()), |value| self.set(t, value.into()))
                }
                Op::Ldrb { t, n, at } => {
                    load!(fast8, load8, 1, self.reg(n).wrapping_add(at.into()), |value| self.set(t, value.into()))
                }
                Op::AddSp { d, value } => copies!(d, self.r[13].wrapping_add(value.into())),
                Op::MoveSp { by } => {
                    self.r[13] = self.r[13].wrapping_add(i32::from(by) as u32);
                    now += 1;
                }
                Op::Sxth { d, m } => copies!(d, self.reg(m) as i16 as u32),
                Op::Sxtb { d, m } => copies!(d, self.reg(m) as i8 as u32),
                Op::Uxth { d, m } => copies!(d, self.reg(m) & 0xffff),
                Op::Uxtb { d, m } => copies!(d, self.reg(m) & 0xff),
                Op::Rev { d, m } => copies!(d, self.reg(m).swap_bytes()),
                Op::Rev16 { d, m } => copies!(d, self.reg(m).swap_bytes().rotate_left(16)),
                Op::Revsh { d, m } => copies!(d, (self.reg(m) as u16).swap_bytes() as i16 as u32),
                Op::Push { list } => {
                    let count = list.count_ones();
                    let base = self.r[13].wrapping_sub(4 * count);
                    self.r[13] = base;
                    slowly!(self.store_many(bus, base, list));
                    now += 1 + u64::from(count);
                    if bus.stop.is_some() {
                        break false;
                    }
                }
                Op::Pop { list } => {
                    let count = list.count_ones();
                    let base = self.r[13];
                    slowly!(self.load_many(bus, base, list));
                    self.r[13] = base.wrapping_add(4 * count);
                    now += 1 + u64::from(count);
                    if bus.stop.is_some() {
                        break false;
                    }
                    if list & 1 << 15 != 0 {
                        now += 2;
                        let to = self.r[15];
                        if to >= EXCEPTION_RETURN && self.exception != 0 {
                            bus.now = now;
                            self.return_from_exception(bus, to);
                            (now, pc) = (bus.now, self.r[15]);
                            break false;
                        }
                        if to & 1 == 0 {
                            self.fault = Some(Fault::State);
                            break false;
                        }
                        pc = to & !1;
                        continue;
                    }
                }
                Op::Stm { n, list } => {
                    let (base, count) = (self.reg(n), list.count_ones());
                    if base & 3 != 0 {
                        self.fault = Some(Fault::Unaligned);
                        break false;
                    }
                    slowly!(self.store_many(bus, base, list.into()));
                    self.set(n, base.wrapping_add(4 * count));
                    now += 1 + u64::from(count);
                    if bus.stop.is_some() || bus.attention {
                        pc = pc.wrapping_add(2);
                        break false;
                    }
                }
                Op::Ldm { n, list } => {
                    let (base, count) = (self.reg(n), list.count_ones());
                    if base & 3 != 0 {
                        self.fault = Some(Fault::Unaligned);
                        break false;
                    }
                    self.set(n, base.wrapping_add(4 * count));
                    slowly!(self.load_many(bus, base, list.into()));
                    now += 1 + u64::from(count);
                    if bus.stop.is_some() || bus.attention {
                        pc = pc.wrapping_add(2);
                        break false;
                    }
                }
                Op::Beq { to } => branches!(to, self.meets(0x0)),
                Op::Bne { to } => branches!(to, self.meets(0x1)),
                Op::Bcs { to } => branches!(to, self.meets(0x2)),
                Op::Bcc { to } => branches!(to, self.meets(0x3)),
                Op::Bmi { to } => branches!(to, self.meets(0x4)),
                Op::Bpl { to } => branches!(to, self.meets(0x5)),
                Op::Bvs { to } => branches!(to, self.meets(0x6)),
                Op::Bvc { to } => branches!(to, self.meets(0x7)),
                Op::Bhi { to } => branches!(to, self.meets(0x8)),
                Op::Bls { to } => branches!(to, self.meets(0x9)),
                Op::Bge { to } => branches!(to, self.meets(0xa)),
                Op::Blt { to } => branches!(to, self.meets(0xb)),
                Op::Bgt { to } => branches!(to, self.meets(0xc)),
                Op::Ble { to } => branches!(to, self.meets(0xd)),
                Op::B { to } => {
                    pc = to;
                    now += 2;
                    continue;
                }
                Op::Bl { to } => {
                    self.r[14] = pc.wrapping_add(4) | 1;
                    pc = to;
                    now += 3;
                    continue;
                }
                Op::Nop => now += 1,
                Op::Barrier => {
                    now += 3;
                    pc = pc.wrapping_add(4);
                    continue;
                }
                Op::Sev => {
                    bus.has_event = true;
                    now += 1;
                }
                Op::Wfe => {
                    now += 2;
                    if !std::mem::take(&mut bus.has_event) {
                        self.sleep = Some(Sleep::Event);
                        pc = pc.wrapping_add(2);
                        break false;
                    }
                }
                Op::Wfi => {
                    now += 2;
                    self.sleep = Some(Sleep::Interrupt);
                    pc = pc.wrapping_add(2);
                    break false;
                }
                Op::Cps { mask } => {
                    self.mask = mask;
                    now += 1;
                    if !mask && bus.private.is_pending() {
                        pc = pc.wrapping_add(2);
                        break false;
                    }
                }
                Op::Mrs { d, from } => match self.read_special(from) {
                    Some(value) => {
                        self.set(d, value);
                        now += 3;
                        pc = pc.wrapping_add(4);
                        continue;
                    }
                    None => {
                        self.fault = Some(Fault::Undefined);
                        break false;
                    }
                },
                Op::Msr { n, to } => {
                    if !self.write_special(to, self.reg(n)) {
                        self.fault = Some(Fault::Undefined);
                        break false;
                    }
                    now += 3;
                    pc = pc.wrapping_add(4);
                    if bus.private.is_pending() {
                        break false;
                    }
                    continue;
                }
                Op::Undefined => {
                    self.fault = Some(Fault::Undefined);
                    break false;
                }
            }
            pc = pc.wrapping_add(2);
        };
        self.r[15] = pc;
        bus.now = now;
        goes_on
    }
}

/// Whether a conditional branch stands there, in flash.
fn is_condition(ops: &[Op], pc: u32) -> bool {
    ops.get((pc.wrapping_sub(XIP_BASE) >> 1) as usize).is_some_and(|op| op.condition().is_some())
}
