//! What a program looks like to whoever executes it fast: instructions as letters of a small alphabet, and at every
//! place the longest word of letters that is executed as one.
//!
//! An instruction costs most where the host cannot foresee which kind comes next. So kinds that differ only in their
//! operands are one letter, and letters that often follow each other are one word: a word costs one jump.

use super::op::{Op, Reg};
use crate::bus::XIP_BASE;
use std::collections::HashMap;

/// A register that is always zero.
pub const ZERO: Reg = 16;
/// A register that nobody reads.
pub const SINK: Reg = 17;
/// Letters in a word, at most.
pub const LONGEST: usize = 4;
/// So many cycles before the limit no word is begun: its last letter begins in time, and if that is a comparison, so
/// does the branch behind it. Accesses to memory take two.
pub const LONGEST_CYCLES: u64 = 2 * (LONGEST as u64 - 1) + 1;

/// Calls a macro with every word and its letters. The words are those that the images use most, by count.
macro_rules! with_words {
    ($do:ident) => {
        $do! {
            A [A] B [B] C [C] E [E] G [G] J [J] L [L] M [M] N [N] P [P] S [S] T [T] AA [A A] AB [A B] AC [A C]
            AE [A E] AJ [A J] AL [A L] AM [A M] AS [A S] BA [B A] BB [B B] BC [B C] BL [B L] BM [B M] BS [B S]
            CA [C A] CB [C B] CC [C C] CL [C L] CM [C M] CS [C S] LA [L A] LB [L B] LC [L C] LL [L L] LM [L M]
            LS [L S] MA [M A] MB [M B] MC [M C] ML [M L] MM [M M] MS [M S] MT [M T] PB [P B] SA [S A] SB [S B]
            SC [S C] SL [S L] SM [S M] SS [S S] AAE [A A E] ALE [A L E] GAE [G A E] LAE [L A E] LAJ [L A J]
            LCJ [L C J] MAE [M A E] MMT [M M T] PLT [P L T] SAE [S A E] AAAA [A A A A] AAAE [A A A E] AAAJ [A A A J]
            AALA [A A L A] AASG [A A S G] ABCA [A B C A] ABCC [A B C C] ABCS [A B C S] ABMM [A B M M] ABSC [A B S C]
            ABSL [A B S L] ACAC [A C A C] AGCA [A G C A] ALAE [A L A E] ALCJ [A L C J] AMNG [A M N G] ASMA [A S M A]
            BBLS [B B L S] BCAB [B C A B] BCCC [B C C C] BCLL [B C L L] BCLM [B C L M] BCNC [B C N C] BLBC [B L B C]
            BLSC [B L S C] BMSC [B M S C] BNAA [B N A A] BSAE [B S A E] BSBS [B S B S] BSLL [B S L L] BSLS [B S L S]
            CAAA [C A A A] CABC [C A B C] CABL [C A B L] CABS [C A B S] CACC [C A C C] CCAB [C C A B] CCAC [C C A C]
            CCCA [C C C A] CLCA [C L C A] CMAL [C M A L] CMCA [C M C A] GGCA [G G C A] GPAE [G P A E] GPAS [G P A S]
            GPGP [G P G P] LABC [L A B C] LBCA [L B C A] LBNS [L B N S] LBSL [L B S L] LBSS [L B S S] LCMM [L C M M]
            LLAE [L L A E] LLBA [L L B A] LLCJ [L L C J] LLLA [L L L A] LLLL [L L L L] LLNB [L L N B] LLNL [L L N L]
            LLSL [L L S L] LLSS [L L S S] LSCC [L S C C] LSLL [L S L L] LSLS [L S L S] MAAJ [M A A J] MALS [M A L S]
            MASM [M A S M] MBMM [M B M M] MLAE [M L A E] MLBS [M L B S] MLLS [M L L S] MLMN [M L M N] MLPM [M L P M]
            MMAJ [M M A J] MMLA [M M L A] MMMM [M M M M] MMMT [M M M T] MMSS [M M S S] MSCM [M S C M] NBBC [N B B C]
            NBCL [N B C L] NBCS [N B C S] NLBS [N L B S] NLLB [N L L B] PAAM [P A A M] SBCC [S B C C] SBSL [S B S L]
            SLAS [S L A S] SLBS [S L B S] SLLM [S L L M] SLLS [S L L S] SLSL [S L S L] SMAS [S M A S] SSLL [S S L L]
            SSSB [S S S B] SSSS [S S S S]
        }
    };
}
pub(super) use with_words;

/// What instructions have in common that are executed by the same steps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[rustfmt::skip]
enum Letter {
    /// `d = a + (b ^ k) + x`, with all flags: sums, differences, comparisons.
    A = 1,
    /// `d = a ^ b ^ k`, with N and Z: moves, too.
    B,
    /// `d = a & (b ^ k)`, or the same of what is inverted if `x`, with N and Z.
    N,
    /// `d = b` shifted, with N, Z and C.
    C,
    /// `d = a + k`.
    M,
    /// Loads and stores of words at `a + k`.
    L, S,
    /// Loads and stores of bytes.
    G, P,
    /// Goes to `k`, if condition `x` is met.
    J,
    /// The same, if Z is not `x`: most conditions are that.
    E,
    /// Goes to `k`, and remembers from where in `d`.
    T,
}

macro_rules! words {
    ($($word:ident [$($letter:ident)+])+) => {
        /// How a place is executed: as a word of letters, as one instruction that is none, or by somebody else.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[allow(clippy::upper_case_acronyms, reason = "words of letters")]
        #[allow(missing_docs, reason = "words, and instructions by their name")]
        #[rustfmt::skip]
        pub enum Shape {
            $($word,)+
            Push, Pop, Stm, Ldm, Bx, Blx, Mask, Mul, Carry, AddHigh, AddPc, Rev, LslReg, LsrReg, AsrImm,
            LdrReg, StrReg, LdrbReg, StrbReg, Ldrh, Strh, LdrhReg, StrhReg, Cps, Barrier, Mrs,
            /// None of these: it is executed one by one.
            Other,
        }

        const WORDS: &[(Shape, &[Letter])] = &[$((Shape::$word, &[$(Letter::$letter),+])),+];
    };
}
with_words!(words);

/// A place in a program: how to go on from here, and the operands of the instruction that stands here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    pub shape: Shape,
    /// The shape of the place behind the word that begins here: known early, so that the host can jump early.
    pub behind: Shape,
    /// The shape of the place that is jumped to, if that is known.
    pub there: Shape,
    pub d: Reg,
    pub a: Reg,
    pub b: Reg,
    /// Carry, condition, cycles or how many registers; how far a double word is rotated; whether a connective's result is
    /// inverted.
    pub x: u8,
    /// Which bit of the rotated one is the carry.
    pub y: u8,
    pub k: u32,
}

const NOWHERE: Place = Place {
    shape: Shape::Other,
    behind: Shape::Other,
    there: Shape::Other,
    d: SINK,
    a: ZERO,
    b: ZERO,
    x: 0,
    y: 0,
    k: 0,
};

/// The place of an address, counted from the beginning of flash.
pub fn place_of(address: u32) -> u32 {
    address.wrapping_sub(XIP_BASE) >> 1
}

/// The address of a place.
pub fn address_of(place: u32) -> u32 {
    XIP_BASE.wrapping_add(place << 1)
}

/// The places of a program that stands at the beginning of flash, and behind it as many as a word may have letters.
pub fn places(ops: &[Op]) -> Vec<Place> {
    let mut words = HashMap::new();
    let longer = |key: usize, letter: Letter| key << 4 | letter as usize;
    for (shape, letters) in WORDS {
        words.insert(letters.iter().fold(0, |key, letter| longer(key, *letter)), *shape);
    }
    let parts: Vec<(Option<Letter>, Place)> = (0..).zip(ops).map(|(at, op)| part(address_of(at), *op)).collect();
    let word = |index: usize| {
        let (mut shape, mut key) = (parts[index].1.shape, 0);
        let mut length = if matches!(shape, Shape::Barrier | Shape::Mrs) { 2 } else { 1 };
        for (letter, count) in parts[index..].iter().map_while(|(letter, _)| *letter).zip(1..=LONGEST) {
            key = longer(key, letter);
            if let Some(longest) = words.get(&key) {
                (shape, length) = (*longest, count);
            }
        }
        (shape, length)
    };
    let found: Vec<(Shape, usize)> = (0..ops.len()).map(word).collect();
    let shape_at = |index: usize| found.get(index).map_or(Shape::Other, |(shape, _)| *shape);
    let whole = found.iter().zip(&parts).enumerate().map(|(index, ((shape, length), (letter, place)))| {
        let there = if matches!(letter, Some(Letter::E | Letter::J | Letter::T)) {
            shape_at(place.k as usize)
        } else {
            Shape::Other
        };
        Place { shape: *shape, behind: shape_at(index + length), there, ..*place }
    });
    whole.chain([NOWHERE; LONGEST]).collect()
}

/// The letter of an instruction, if it is one, and its operands.
#[rustfmt::skip]
fn part(pc: u32, op: Op) -> (Option<Letter>, Place) {
    use Letter::{A, B, C, E, G, J, L, M, N, P, S, T};
    let is = |letter: Letter, place: Place| (Some(letter), place);
    let alone = |shape: Shape, place: Place| (None, Place { shape, ..place });
    // What an instruction sees as the program counter.
    let ahead = pc.wrapping_add(4);
    const NOT: u32 = u32::MAX;
    match op {
        Op::AddReg { d, n, m } => is(A, Place { d, a: n, b: m, ..NOWHERE }),
        Op::SubReg { d, n, m } => is(A, Place { d, a: n, b: m, k: NOT, x: 1, ..NOWHERE }),
        Op::AddImm { d, n, value } => is(A, Place { d, a: n, k: value.into(), ..NOWHERE }),
        Op::SubImm { d, n, value } => is(A, Place { d, a: n, k: !u32::from(value), x: 1, ..NOWHERE }),
        Op::CmpImm { n, value } => is(A, Place { a: n, k: !u32::from(value), x: 1, ..NOWHERE }),
        Op::Cmp { n, m } if n != 15 && m != 15 => is(A, Place { a: n, b: m, k: NOT, x: 1, ..NOWHERE }),
        Op::Cmn { d, m } => is(A, Place { a: d, b: m, ..NOWHERE }),
        Op::Rsb { d, m } => is(A, Place { d, b: m, k: NOT, x: 1, ..NOWHERE }),
        Op::Adc { d, m } => alone(Shape::Carry, Place { d, a: d, b: m, ..NOWHERE }),
        Op::Sbc { d, m } => alone(Shape::Carry, Place { d, a: d, b: m, k: NOT, ..NOWHERE }),
        Op::Eor { d, m } => is(B, Place { d, a: d, b: m, ..NOWHERE }),
        Op::And { d, m } => is(N, Place { d, a: d, b: m, ..NOWHERE }),
        Op::Tst { d, m } => is(N, Place { a: d, b: m, ..NOWHERE }),
        Op::Bic { d, m } => is(N, Place { d, a: d, b: m, k: NOT, ..NOWHERE }),
        Op::Orr { d, m } => is(N, Place { d, a: d, b: m, k: NOT, x: 1, ..NOWHERE }),
        Op::Mvn { d, m } => is(B, Place { d, b: m, k: NOT, ..NOWHERE }),
        Op::MovImm { d, value } => is(B, Place { d, k: value.into(), ..NOWHERE }),
        Op::LslImm { d, m, by: 0 } => is(B, Place { d, b: m, ..NOWHERE }),
        Op::LslImm { d, m, by } => is(C, Place { d, b: m, x: by, y: 32, ..NOWHERE }),
        Op::LsrImm { d, m, by } => is(C, Place { d, b: m, x: 64 - by, y: 63, ..NOWHERE }),
        Op::Mov { d, m } if d != 13 && m != 15 => is(M, Place { d, a: m, x: 1, ..NOWHERE }),
        Op::Mov { d, m: 15 } if d != 13 => is(M, Place { d, k: ahead, x: 1, ..NOWHERE }),
        Op::AddHigh { d, m: 15 } if d != 13 && d != 15 => is(M, Place { d, a: d, k: ahead, x: 1, ..NOWHERE }),
        Op::AddHigh { d: 15, m } if m != 15 => alone(Shape::AddPc, Place { a: m, k: ahead, ..NOWHERE }),
        Op::LdrKnown { t, value } => is(M, Place { d: t, k: value, x: 2, ..NOWHERE }),
        Op::Adr { d, value } => is(M, Place { d, k: value, x: 1, ..NOWHERE }),
        Op::AddSp { d, value } => is(M, Place { d, a: 13, k: value.into(), x: 1, ..NOWHERE }),
        Op::MoveSp { by } => is(M, Place { d: 13, a: 13, k: i32::from(by) as u32, x: 1, ..NOWHERE }),
        Op::Ldr { t, n, at } => is(L, Place { d: t, a: n, k: at.into(), ..NOWHERE }),
        Op::Str { t, n, at } => is(S, Place { d: t, a: n, k: at.into(), ..NOWHERE }),
        Op::Ldrb { t, n, at } => is(G, Place { d: t, a: n, k: at.into(), ..NOWHERE }),
        Op::Strb { t, n, at } => is(P, Place { d: t, a: n, k: at.into(), ..NOWHERE }),
        Op::B { to } => is(T, Place { k: place_of(to), x: 2, ..NOWHERE }),
        Op::Bl { to } => is(T, Place { d: 14, k: place_of(to), x: 3, ..NOWHERE }),
        Op::Push { list } => alone(Shape::Push, Place { x: list.count_ones() as u8, k: list.into(), ..NOWHERE }),
        Op::Pop { list } => alone(Shape::Pop, Place { x: list.count_ones() as u8, k: list.into(), ..NOWHERE }),
        Op::Stm { n, list } => alone(Shape::Stm, Place { a: n, x: list.count_ones() as u8, k: list.into(), ..NOWHERE }),
        Op::Ldm { n, list } => alone(Shape::Ldm, Place { a: n, x: list.count_ones() as u8, k: list.into(), ..NOWHERE }),
        Op::Bx { m } => alone(Shape::Bx, Place { a: m, ..NOWHERE }),
        Op::Blx { m } => alone(Shape::Blx, Place { a: m, ..NOWHERE }),
        Op::Uxtb { d, m } => alone(Shape::Mask, Place { d, a: m, k: 0xff, ..NOWHERE }),
        Op::Uxth { d, m } => alone(Shape::Mask, Place { d, a: m, k: 0xffff, ..NOWHERE }),
        Op::Mul { d, m } => alone(Shape::Mul, Place { d, a: d, b: m, ..NOWHERE }),
        Op::AddHigh { d, m } if d != 13 && d != 15 && m != 15 => alone(Shape::AddHigh, Place { d, a: d, b: m, ..NOWHERE }),
        Op::Rev { d, m } => alone(Shape::Rev, Place { d, a: m, ..NOWHERE }),
        Op::LslReg { d, m } => alone(Shape::LslReg, Place { d, a: m, ..NOWHERE }),
        Op::LsrReg { d, m } => alone(Shape::LsrReg, Place { d, a: m, ..NOWHERE }),
        Op::LdrReg { t, n, m } => alone(Shape::LdrReg, Place { d: t, a: n, b: m, ..NOWHERE }),
        Op::StrReg { t, n, m } => alone(Shape::StrReg, Place { d: t, a: n, b: m, ..NOWHERE }),
        Op::LdrbReg { t, n, m } => alone(Shape::LdrbReg, Place { d: t, a: n, b: m, ..NOWHERE }),
        Op::StrbReg { t, n, m } => alone(Shape::StrbReg, Place { d: t, a: n, b: m, ..NOWHERE }),
        Op::Ldrh { t, n, at } => alone(Shape::Ldrh, Place { d: t, a: n, k: at.into(), ..NOWHERE }),
        Op::Strh { t, n, at } => alone(Shape::Strh, Place { d: t, a: n, k: at.into(), ..NOWHERE }),
        Op::LdrhReg { t, n, m } => alone(Shape::LdrhReg, Place { d: t, a: n, b: m, ..NOWHERE }),
        Op::StrhReg { t, n, m } => alone(Shape::StrhReg, Place { d: t, a: n, b: m, ..NOWHERE }),
        Op::AsrImm { d, m, by } => alone(Shape::AsrImm, Place { d, a: m, x: by, ..NOWHERE }),
        Op::Cps { mask } => alone(Shape::Cps, Place { x: mask.into(), ..NOWHERE }),
        Op::Barrier => alone(Shape::Barrier, NOWHERE),
        Op::Mrs { d, from: 16 } if d != 13 && d != 15 => alone(Shape::Mrs, Place { d, ..NOWHERE }),
        other => match other.condition() {
            Some((x @ ..=1, to)) => is(E, Place { k: place_of(to), x, ..NOWHERE }),
            Some((x, to)) => is(J, Place { k: place_of(to), x, ..NOWHERE }),
            None => (None, NOWHERE),
        },
    }
}
