//! Instructions of ARMv6-M, decoded once: a program in flash does not change while it runs.

/// A register's number.
pub type Reg = u8;

/// One instruction. Addresses are absolute: an instruction is decoded for its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names are the architecture's; the fields are its operands")]
#[rustfmt::skip]
pub enum Op {
    LslImm { d: Reg, m: Reg, by: u8 }, LsrImm { d: Reg, m: Reg, by: u8 }, AsrImm { d: Reg, m: Reg, by: u8 },
    AddReg { d: Reg, n: Reg, m: Reg }, SubReg { d: Reg, n: Reg, m: Reg },
    AddImm { d: Reg, n: Reg, value: u8 }, SubImm { d: Reg, n: Reg, value: u8 },
    MovImm { d: Reg, value: u8 }, CmpImm { n: Reg, value: u8 },
    And { d: Reg, m: Reg }, Eor { d: Reg, m: Reg }, LslReg { d: Reg, m: Reg }, LsrReg { d: Reg, m: Reg },
    AsrReg { d: Reg, m: Reg }, Adc { d: Reg, m: Reg }, Sbc { d: Reg, m: Reg }, Ror { d: Reg, m: Reg },
    Tst { d: Reg, m: Reg }, Rsb { d: Reg, m: Reg }, Cmp { n: Reg, m: Reg }, Cmn { d: Reg, m: Reg },
    Orr { d: Reg, m: Reg }, Mul { d: Reg, m: Reg }, Bic { d: Reg, m: Reg }, Mvn { d: Reg, m: Reg },
    AddHigh { d: Reg, m: Reg }, Mov { d: Reg, m: Reg }, MovPc { m: Reg }, Bx { m: Reg }, Blx { m: Reg },
    /// Loads a word that is known: it stands in flash, beside the program.
    LdrKnown { t: Reg, value: u32 },
    LdrAt { t: Reg, address: u32 },
    /// The sum of the program counter and a constant.
    Adr { d: Reg, value: u32 },
    StrReg { t: Reg, n: Reg, m: Reg }, StrhReg { t: Reg, n: Reg, m: Reg }, StrbReg { t: Reg, n: Reg, m: Reg },
    LdrsbReg { t: Reg, n: Reg, m: Reg }, LdrReg { t: Reg, n: Reg, m: Reg }, LdrhReg { t: Reg, n: Reg, m: Reg },
    LdrbReg { t: Reg, n: Reg, m: Reg }, LdrshReg { t: Reg, n: Reg, m: Reg },
    Str { t: Reg, n: Reg, at: u16 }, Ldr { t: Reg, n: Reg, at: u16 },
    Strb { t: Reg, n: Reg, at: u16 }, Ldrb { t: Reg, n: Reg, at: u16 },
    Strh { t: Reg, n: Reg, at: u16 }, Ldrh { t: Reg, n: Reg, at: u16 },
    AddSp { d: Reg, value: u16 }, MoveSp { by: i16 },
    Sxth { d: Reg, m: Reg }, Sxtb { d: Reg, m: Reg }, Uxth { d: Reg, m: Reg }, Uxtb { d: Reg, m: Reg },
    Rev { d: Reg, m: Reg }, Rev16 { d: Reg, m: Reg }, Revsh { d: Reg, m: Reg },
    Push { list: u16 }, Pop { list: u16 }, Stm { n: Reg, list: u8 }, Ldm { n: Reg, list: u8 },
    Beq { to: u32 }, Bne { to: u32 }, Bcs { to: u32 }, Bcc { to: u32 }, Bmi { to: u32 }, Bpl { to: u32 },
    Bvs { to: u32 }, Bvc { to: u32 }, Bhi { to: u32 }, Bls { to: u32 }, Bge { to: u32 }, Blt { to: u32 },
    Bgt { to: u32 }, Ble { to: u32 }, B { to: u32 }, Bl { to: u32 },
    Nop, Barrier, Wfe, Wfi, Sev, Cps { mask: bool },
    Mrs { d: Reg, from: u8 }, Msr { n: Reg, to: u8 },
    /// Undefined, a breakpoint or a supervisor call: none of them belongs into an image.
    Undefined,
}

/// Decodes the instruction at an address; the second halfword is only looked at if it needs one.
#[must_use]
pub fn decode(pc: u32, first: u16, second: u16) -> Op {
    let field = |at: u32, bits: u32| (first >> at) & ((1 << bits) - 1);
    let low = |at: u32| field(at, 3) as Reg;
    let (d, m) = (low(0), low(3));
    let value = first as u8;
    match first >> 11 {
        0b00000 => Op::LslImm { d, m, by: field(6, 5) as u8 },
        0b00001 => Op::LsrImm { d, m, by: shift(field(6, 5)) },
        0b00010 => Op::AsrImm { d, m, by: shift(field(6, 5)) },
        0b00011 => match field(9, 2) {
            0 => Op::AddReg { d, n: low(3), m: low(6) },
            1 => Op::SubReg { d, n: low(3), m: low(6) },
            2 => Op::AddImm { d, n: low(3), value: low(6) },
            _ => Op::SubImm { d, n: low(3), value: low(6) },
        },
        0b00100 => Op::MovImm { d: low(8), value },
        0b00101 => Op::CmpImm { n: low(8), value },
        0b00110 => Op::AddImm { d: low(8), n: low(8), value },
        0b00111 => Op::SubImm { d: low(8), n: low(8), value },
        0b01000 if field(10, 1) == 0 => data(field(6, 4), d, m),
        0b01000 => high(first),
        0b01001 => Op::LdrAt { t: low(8), address: (pc.wrapping_add(4) & !3).wrapping_add(u32::from(value) * 4) },
        0b01010 | 0b01011 => by_register(field(9, 3), d, low(3), low(6)),
        0b01100 => Op::Str { t: d, n: m, at: field(6, 5) * 4 },
        0b01101 => Op::Ldr { t: d, n: m, at: field(6, 5) * 4 },
        0b01110 => Op::Strb { t: d, n: m, at: field(6, 5) },
        0b01111 => Op::Ldrb { t: d, n: m, at: field(6, 5) },
        0b10000 => Op::Strh { t: d, n: m, at: field(6, 5) * 2 },
        0b10001 => Op::Ldrh { t: d, n: m, at: field(6, 5) * 2 },
        0b10010 => Op::Str { t: low(8), n: 13, at: u16::from(value) * 4 },
        0b10011 => Op::Ldr { t: low(8), n: 13, at: u16::from(value) * 4 },
        0b10100 => Op::Adr { d: low(8), value: (pc.wrapping_add(4) & !3).wrapping_add(u32::from(value) * 4) },
        0b10101 => Op::AddSp { d: low(8), value: u16::from(value) * 4 },
        0b10110 | 0b10111 => miscellaneous(first),
        0b11000 => Op::Stm { n: low(8), list: value },
        0b11001 => Op::Ldm { n: low(8), list: value },
        0b11010 | 0b11011 => conditional(field(8, 4), branch(pc, u32::from(value) << 1, 9)),
        0b11100 => Op::B { to: branch(pc, u32::from(field(0, 11)) << 1, 12) },
        0b11110 => wide(pc, first, second),
        _ => Op::Undefined,
    }
}

impl Op {
    /// The condition and the target of a conditional branch.
    #[must_use]
    pub fn condition(self) -> Option<(u8, u32)> {
        Some(match self {
            Op::Beq { to } => (0x0, to),
            Op::Bne { to } => (0x1, to),
            Op::Bcs { to } => (0x2, to),
            Op::Bcc { to } => (0x3, to),
            Op::Bmi { to } => (0x4, to),
            Op::Bpl { to } => (0x5, to),
            Op::Bvs { to } => (0x6, to),
            Op::Bvc { to } => (0x7, to),
            Op::Bhi { to } => (0x8, to),
            Op::Bls { to } => (0x9, to),
            Op::Bge { to } => (0xa, to),
            Op::Blt { to } => (0xb, to),
            Op::Bgt { to } => (0xc, to),
            Op::Ble { to } => (0xd, to),
            _ => return None,
        })
    }
}

/// For each condition: which combinations of the flags N, Z, C, V (bit 3 to 0 of the index) meet it.
pub const CONDITIONS: [u16; 16] = {
    let mut table = [0; 16];
    let mut flags = 0;
    while flags < 16 {
        let (n, z, c, v) = (flags & 8 != 0, flags & 4 != 0, flags & 2 != 0, flags & 1 != 0);
        let met = [z, !z, c, !c, n, !n, v, !v, c && !z, !c || z, n == v, n != v, !z && n == v, z || n != v];
        let mut condition = 0;
        while condition < met.len() {
            table[condition] |= (met[condition] as u16) << flags;
            condition += 1;
        }
        flags += 1;
    }
    table
};

/// Whether the instruction that begins so has a second halfword.
#[must_use]
pub fn is_wide(first: u16) -> bool {
    first >> 11 == 0b11110
}

/// A shift to the right by nothing means by 32.
fn shift(by: u16) -> u8 {
    if by == 0 { 32 } else { by as u8 }
}

fn branch(pc: u32, offset: u32, bits: u32) -> u32 {
    let extended = ((offset << (32 - bits)) as i32 >> (32 - bits)) as u32;
    pc.wrapping_add(4).wrapping_add(extended)
}

fn data(operation: u16, d: Reg, m: Reg) -> Op {
    match operation {
        0x0 => Op::And { d, m },
        0x1 => Op::Eor { d, m },
        0x2 => Op::LslReg { d, m },
        0x3 => Op::LsrReg { d, m },
        0x4 => Op::AsrReg { d, m },
        0x5 => Op::Adc { d, m },
        0x6 => Op::Sbc { d, m },
        0x7 => Op::Ror { d, m },
        0x8 => Op::Tst { d, m },
        0x9 => Op::Rsb { d, m },
        0xa => Op::Cmp { n: d, m },
        0xb => Op::Cmn { d, m },
        0xc => Op::Orr { d, m },
        0xd => Op::Mul { d, m },
        0xe => Op::Bic { d, m },
        _ => Op::Mvn { d, m },
    }
}

fn high(first: u16) -> Op {
    let m = (first >> 3 & 0xf) as Reg;
    let d = ((first >> 4 & 8) | (first & 7)) as Reg;
    match first >> 8 & 3 {
        0 => Op::AddHigh { d, m },
        1 => Op::Cmp { n: d, m },
        2 if d == 15 => Op::MovPc { m },
        2 => Op::Mov { d, m },
        _ if first & 0x80 != 0 => Op::Blx { m },
        _ => Op::Bx { m },
    }
}

fn by_register(operation: u16, t: Reg, n: Reg, m: Reg) -> Op {
    match operation {
        0 => Op::StrReg { t, n, m },
        1 => Op::StrhReg { t, n, m },
        2 => Op::StrbReg { t, n, m },
        3 => Op::LdrsbReg { t, n, m },
        4 => Op::LdrReg { t, n, m },
        5 => Op::LdrhReg { t, n, m },
        6 => Op::LdrbReg { t, n, m },
        _ => Op::LdrshReg { t, n, m },
    }
}

fn miscellaneous(first: u16) -> Op {
    let (d, m) = ((first & 7) as Reg, (first >> 3 & 7) as Reg);
    let list = first & 0xff;
    match (first >> 8 & 0xf, first >> 6 & 3) {
        (0b0000, 0 | 1) => Op::MoveSp { by: (first & 0x7f) as i16 * 4 },
        (0b0000, _) => Op::MoveSp { by: -((first & 0x7f) as i16 * 4) },
        (0b0010, 0) => Op::Sxth { d, m },
        (0b0010, 1) => Op::Sxtb { d, m },
        (0b0010, 2) => Op::Uxth { d, m },
        (0b0010, _) => Op::Uxtb { d, m },
        (0b0100, _) => Op::Push { list },
        (0b0101, _) => Op::Push { list: list | 1 << 14 },
        (0b0110, _) if first & 2 != 0 => Op::Cps { mask: first & 0x10 != 0 },
        (0b1010, 0) => Op::Rev { d, m },
        (0b1010, 1) => Op::Rev16 { d, m },
        (0b1010, 3) => Op::Revsh { d, m },
        (0b1100, _) => Op::Pop { list },
        (0b1101, _) => Op::Pop { list: list | 1 << 15 },
        (0b1111, _) if first & 0xf == 0 => match first >> 4 & 0xf {
            2 => Op::Wfe,
            3 => Op::Wfi,
            4 => Op::Sev,
            _ => Op::Nop,
        },
        _ => Op::Undefined,
    }
}

fn conditional(condition: u16, to: u32) -> Op {
    match condition {
        0x0 => Op::Beq { to },
        0x1 => Op::Bne { to },
        0x2 => Op::Bcs { to },
        0x3 => Op::Bcc { to },
        0x4 => Op::Bmi { to },
        0x5 => Op::Bpl { to },
        0x6 => Op::Bvs { to },
        0x7 => Op::Bvc { to },
        0x8 => Op::Bhi { to },
        0x9 => Op::Bls { to },
        0xa => Op::Bge { to },
        0xb => Op::Blt { to },
        0xc => Op::Bgt { to },
        0xd => Op::Ble { to },
        _ => Op::Undefined,
    }
}

fn wide(pc: u32, first: u16, second: u16) -> Op {
    if second & 0xd000 == 0xd000 {
        let (sign, j1, j2) = (u32::from(first >> 10 & 1), u32::from(second >> 13 & 1), u32::from(second >> 11 & 1));
        let (i1, i2) = (1 ^ j1 ^ sign, 1 ^ j2 ^ sign);
        let offset = sign << 24 | i1 << 23 | i2 << 22 | u32::from(first & 0x3ff) << 12 | u32::from(second & 0x7ff) << 1;
        return Op::Bl { to: branch(pc, offset, 25) };
    }
    match (first, second) {
        (0xf3bf, 0x8f40..=0x8f6f) => Op::Barrier,
        (0xf3ef, _) if second & 0xf000 == 0x8000 => Op::Mrs { d: (second >> 8 & 0xf) as Reg, from: second as u8 },
        (0xf380..=0xf38f, _) if second & 0xff00 == 0x8800 => Op::Msr { n: (first & 0xf) as Reg, to: second as u8 },
        _ => Op::Undefined,
    }
}
