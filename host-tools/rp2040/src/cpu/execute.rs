//! Executing instructions. Cycles are those of the Cortex-M0+ Technical Reference Manual, with the
//! single-cycle multiplier.

use super::{
    Code, Cpu, Fault, Sleep, add,
    op::{CONDITIONS, Op},
};
use crate::bus::{Bus, XIP_BASE, is_aligned};

/// Returns from exceptions are jumps to addresses like this.
const EXCEPTION_RETURN: u32 = 0xffff_ff00;

impl Cpu {
    /// Executes until the bus's time reaches `limit`, or somebody must look up.
    pub fn run(&mut self, bus: &mut Bus, code: &Code, limit: u64) {
        self.run_in(bus, if bus.is_flash_visible() { &code.ops } else { &[] }, limit);
    }

    /// One function, long as it is: so that an instruction costs one jump and its state stays in registers.
    #[inline(never)]
    fn run_in(&mut self, bus: &mut Bus, ops: &[Op], limit: u64) {
        let mut now = bus.now;
        let mut pc = self.r[15];
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
                            break;
                        }
                        let $value = slowly!(bus.$slow(address));
                        $then;
                        if bus.attention {
                            pc = pc.wrapping_add(2);
                            break;
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
                        break;
                    }
                    slowly!(bus.$slow(address, value));
                    if bus.attention {
                        pc = pc.wrapping_add(2);
                        break;
                    }
                }
            }};
        }
        // The second of two accesses is left to its own instruction where memory alone does not do.
        macro_rules! second {
            (load $t:expr, $n:expr, $at:expr) => {{
                pc = pc.wrapping_add(2);
                match bus.fast32(self.reg($n).wrapping_add(4 * u32::from($at))) {
                    Some(value) if now < limit => {
                        self.set($t, value);
                        now += 2;
                    }
                    _ => continue,
                }
            }};
            (store $t:expr, $n:expr, $at:expr) => {{
                pc = pc.wrapping_add(2);
                if now >= limit || !bus.put32(self.reg($n).wrapping_add(4 * u32::from($at)), self.reg($t)) {
                    continue;
                }
                now += 2;
            }};
        }
        // The second of two instructions, unless the time for it has not come.
        macro_rules! second_if_in_time {
            () => {{
                pc = pc.wrapping_add(2);
                if now >= limit {
                    continue;
                }
            }};
        }
        macro_rules! sets {
            ($d:expr, $result:expr) => {{
                let result = $result;
                self.set($d, result);
                (self.n, self.z) = (result, result);
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
        macro_rules! both {
            ($first:expr, $second:expr) => {{
                $first;
                second_if_in_time!();
                $second;
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
                (self.n, self.z, self.c, self.v) = (result, result, carry, overflow);
                now += 1;
            }};
        }
        macro_rules! compares {
            ($sum:expr) => {{
                let (result, carry, overflow) = $sum;
                (self.n, self.z, self.c, self.v) = (result, result, carry, overflow);
                now += 1;
            }};
        }
        macro_rules! compares_and_branches {
            ($sum:expr, $condition:expr, $by:expr) => {{
                let (result, carry, overflow) = $sum;
                (self.n, self.z, self.c, self.v) = (result, result, carry, overflow);
                let flags =
                    (result >> 31) << 3 | u32::from(result == 0) << 2 | u32::from(carry) << 1 | u32::from(overflow);
                if CONDITIONS[usize::from($condition & 15)] >> flags & 1 != 0 {
                    pc = pc.wrapping_add(2 * i32::from($by) as u32);
                    now += 3;
                } else {
                    pc = pc.wrapping_add(4);
                    now += 2;
                }
                continue;
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
        while now < limit {
            let op = match ops.get((pc.wrapping_sub(XIP_BASE) >> 1) as usize) {
                Some(op) => *op,
                None => {
                    let op = slowly!(self.fetch(bus, pc));
                    if bus.stop.is_some() {
                        break;
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
                Op::CmpImm { n, value } => compares!(add(self.reg(n), !u32::from(value), true)),
                Op::And { d, m } => sets!(d, self.reg(d) & self.reg(m)),
                Op::Eor { d, m } => sets!(d, self.reg(d) ^ self.reg(m)),
                Op::Orr { d, m } => sets!(d, self.reg(d) | self.reg(m)),
                Op::Bic { d, m } => sets!(d, self.reg(d) & !self.reg(m)),
                Op::Mvn { d, m } => sets!(d, !self.reg(m)),
                Op::Mul { d, m } => sets!(d, self.reg(d).wrapping_mul(self.reg(m))),
                Op::Tst { d, m } => {
                    let result = self.reg(d) & self.reg(m);
                    (self.n, self.z) = (result, result);
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
                Op::Cmp { n, m } => compares!(add(self.reg(n), !self.reg(m), true)),
                Op::CmpBranch { n, m, condition, by } => {
                    compares_and_branches!(add(self.reg(n), !self.reg(m), true), condition, by)
                }
                Op::CmpImmBranch { n, value, condition, by } => {
                    compares_and_branches!(add(self.reg(n), !u32::from(value), true), condition, by)
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
                        break;
                    }
                    if to & 1 == 0 {
                        self.fault = Some(Fault::State);
                        break;
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
                Op::LdrLdr { t, n, at, t2, n2, at2 } => {
                    let address = self.reg(n).wrapping_add(4 * u32::from(at));
                    load!(fast32, load32, 4, address, |value| self.set(t, value));
                    second!(load t2, n2, at2);
                }
                Op::LdrStr { t, n, at, t2, n2, at2 } => {
                    let address = self.reg(n).wrapping_add(4 * u32::from(at));
                    load!(fast32, load32, 4, address, |value| self.set(t, value));
                    second!(store t2, n2, at2);
                }
                Op::StrLdr { t, n, at, t2, n2, at2 } => {
                    store!(put32, store32, 4, self.reg(n).wrapping_add(4 * u32::from(at)), self.reg(t));
                    second!(load t2, n2, at2);
                }
                Op::StrStr { t, n, at, t2, n2, at2 } => {
                    store!(put32, store32, 4, self.reg(n).wrapping_add(4 * u32::from(at)), self.reg(t));
                    second!(store t2, n2, at2);
                }
                Op::LslAdd { d, m, by, d2, n2, m2 } => {
                    both!(shifts_left!(d, m, by), sums!(d2, add(self.reg(n2), self.reg(m2), false)))
                }
                Op::LsrLsl { d, m, by, d2, m2, by2 } => both!(shifts_right!(d, m, by), shifts_left!(d2, m2, by2)),
                Op::EorLsr { d, m, d2, m2, by2 } => {
                    both!(sets!(d, self.reg(d) ^ self.reg(m)), shifts_right!(d2, m2, by2))
                }
                Op::EorLsl { d, m, d2, m2, by2 } => {
                    both!(sets!(d, self.reg(d) ^ self.reg(m)), shifts_left!(d2, m2, by2))
                }
                Op::EorStr { d, m, t2, n2, at2 } => {
                    sets!(d, self.reg(d) ^ self.reg(m));
                    second!(store t2, n2, at2);
                }
                Op::AddStr { d, n, m, t2, n2, at2 } => {
                    sums!(d, add(self.reg(n), self.reg(m), false));
                    second!(store t2, n2, at2);
                }
                Op::LdrEor { t, n, at, d2, m2 } => {
                    let address = self.reg(n).wrapping_add(4 * u32::from(at));
                    both!(
                        load!(fast32, load32, 4, address, |value| self.set(t, value)),
                        sets!(d2, self.reg(d2) ^ self.reg(m2))
                    );
                }
                Op::StrMov { t, n, at, d2, m2 } => {
                    let address = self.reg(n).wrapping_add(4 * u32::from(at));
                    both!(store!(put32, store32, 4, address, self.reg(t)), copies!(d2, self.reg(m2)));
                }
                Op::StrMovImm { t, n, at, d2, value2 } => {
                    let address = self.reg(n).wrapping_add(4 * u32::from(at));
                    both!(store!(put32, store32, 4, address, self.reg(t)), sets!(d2, u32::from(value2)));
                }
                Op::AddAdd { d, n, value, d2, n2, value2 } => both!(
                    sums!(d, add(self.reg(n), value.into(), false)),
                    sums!(d2, add(self.reg(n2), value2.into(), false))
                ),
                Op::AddSub { d, n, value, d2, n2, value2 } => both!(
                    sums!(d, add(self.reg(n), value.into(), false)),
                    sums!(d2, add(self.reg(n2), !u32::from(value2), true))
                ),
                Op::MovImmLsl { d, value, d2, m2, by2 } => both!(sets!(d, u32::from(value)), shifts_left!(d2, m2, by2)),
                Op::MovAdd { d, m, d2, n2, value2 } => {
                    both!(copies!(d, self.reg(m)), sums!(d2, add(self.reg(n2), value2.into(), false)))
                }
                Op::MovMov { d, m, d2, m2 } => both!(copies!(d, self.reg(m)), copies!(d2, self.reg(m2))),
                Op::MovBl { d, m, to } => {
                    self.set(d, self.reg(m));
                    now += 1;
                    second_if_in_time!();
                    self.r[14] = pc.wrapping_add(4) | 1;
                    pc = to;
                    now += 3;
                    continue;
                }
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
                        break;
                    }
                }
                Op::Pop { list } => {
                    let count = list.count_ones();
                    let base = self.r[13];
                    slowly!(self.load_many(bus, base, list));
                    self.r[13] = base.wrapping_add(4 * count);
                    now += 1 + u64::from(count);
                    if bus.stop.is_some() {
                        break;
                    }
                    if list & 1 << 15 != 0 {
                        now += 2;
                        let to = self.r[15];
                        if to >= EXCEPTION_RETURN && self.exception != 0 {
                            bus.now = now;
                            self.return_from_exception(bus, to);
                            (now, pc) = (bus.now, self.r[15]);
                            break;
                        }
                        if to & 1 == 0 {
                            self.fault = Some(Fault::State);
                            break;
                        }
                        pc = to & !1;
                        continue;
                    }
                }
                Op::Stm { n, list } => {
                    let (base, count) = (self.reg(n), list.count_ones());
                    if base & 3 != 0 {
                        self.fault = Some(Fault::Unaligned);
                        break;
                    }
                    slowly!(self.store_many(bus, base, list.into()));
                    self.set(n, base.wrapping_add(4 * count));
                    now += 1 + u64::from(count);
                    if bus.stop.is_some() || bus.attention {
                        pc = pc.wrapping_add(2);
                        break;
                    }
                }
                Op::Ldm { n, list } => {
                    let (base, count) = (self.reg(n), list.count_ones());
                    if base & 3 != 0 {
                        self.fault = Some(Fault::Unaligned);
                        break;
                    }
                    self.set(n, base.wrapping_add(4 * count));
                    slowly!(self.load_many(bus, base, list.into()));
                    now += 1 + u64::from(count);
                    if bus.stop.is_some() || bus.attention {
                        pc = pc.wrapping_add(2);
                        break;
                    }
                }
                Op::Beq { to } => branches!(to, self.z == 0),
                Op::Bne { to } => branches!(to, self.z != 0),
                Op::Bcs { to } => branches!(to, self.c),
                Op::Bcc { to } => branches!(to, !self.c),
                Op::Bmi { to } => branches!(to, self.n >> 31 != 0),
                Op::Bpl { to } => branches!(to, self.n >> 31 == 0),
                Op::Bvs { to } => branches!(to, self.v),
                Op::Bvc { to } => branches!(to, !self.v),
                Op::Bhi { to } => branches!(to, self.c && self.z != 0),
                Op::Bls { to } => branches!(to, !(self.c && self.z != 0)),
                Op::Bge { to } => branches!(to, (self.n >> 31 != 0) == self.v),
                Op::Blt { to } => branches!(to, (self.n >> 31 != 0) != self.v),
                Op::Bgt { to } => branches!(to, self.z != 0 && (self.n >> 31 != 0) == self.v),
                Op::Ble { to } => branches!(to, !(self.z != 0 && (self.n >> 31 != 0) == self.v)),
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
                        break;
                    }
                }
                Op::Wfi => {
                    now += 2;
                    self.sleep = Some(Sleep::Interrupt);
                    pc = pc.wrapping_add(2);
                    break;
                }
                Op::Cps { mask } => {
                    self.mask = mask;
                    now += 1;
                    if !mask && bus.private.is_pending() {
                        pc = pc.wrapping_add(2);
                        break;
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
                        break;
                    }
                },
                Op::Msr { n, to } => {
                    if !self.write_special(to, self.reg(n)) {
                        self.fault = Some(Fault::Undefined);
                        break;
                    }
                    now += 3;
                    pc = pc.wrapping_add(4);
                    if bus.private.is_pending() {
                        break;
                    }
                    continue;
                }
                Op::Undefined => {
                    self.fault = Some(Fault::Undefined);
                    break;
                }
            }
            pc = pc.wrapping_add(2);
        }
        self.r[15] = pc;
        bus.now = now;
    }
}
