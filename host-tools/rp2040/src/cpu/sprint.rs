//! Executing fast what needs nothing but registers and memory, word by word: see [`super::shape`].

use super::{
    Cpu,
    execute::EXCEPTION_RETURN,
    shape::{LONGEST, LONGEST_CYCLES, Place, Shape, address_of, place_of, with_words},
};
use crate::bus::{Bus, Open, SIO_BASE, XIP_BASE, is_aligned, sio::Sio};

impl Cpu {
    /// Executes until something else than registers and memory is needed, or the time is near `limit`: whoever takes
    /// over finds everything as if instructions had been executed one by one.
    ///
    /// One function, long as it is: so that a word costs one jump and its state stays in registers.
    #[inline(never)]
    #[rustfmt::skip]
    pub(super) fn sprint(&mut self, bus: &mut Bus, places: &[Place], limit: u64) {
        let mut now = bus.now;
        let mut at = place_of(self.r[15]);
        let mut shape = shape_at(places, at);
        let seen_from = bus.pc;
        let Open { base, ram, flash, sio, is_pending } = bus.open();
        let mut beyond = Beyond { flash, sio, seen_from };
        // Every letter of a word begins before the limit.
        let limit = limit.saturating_sub(LONGEST_CYCLES);
        // The letter with this index is left to somebody else; those before it are done.
        macro_rules! leave {
            ($index:expr) => {{
                at += $index;
                break;
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
        macro_rules! sums {
            ($of:expr, $carry:expr) => {{
                let (a, y) = (self.reg($of.a), self.reg($of.b) ^ $of.k);
                // The first operand is what is waited for most.
                let sum = u64::from(a) + (u64::from(y) + u64::from($carry));
                let result = sum as u32;
                self.c = sum >> 32 & 1 != 0;
                self.v = (a ^ result) & (y ^ result);
                sets!($of.d, result);
            }};
        }
        macro_rules! loads {
            ($of:expr, $address:expr, $index:expr) => {{
                let address = $address;
                let word = match ram.get(address.wrapping_sub(base).rotate_right(2) as usize) {
                    Some(word) => *word,
                    None => match beyond.load(address, at + $index) {
                        Some(word) => word,
                        None => leave!($index),
                    },
                };
                self.set($of.d, word);
                now += 2;
            }};
        }
        macro_rules! loads_part {
            ($type:ty, $of:expr, $address:expr, $index:expr) => {{
                let address = $address;
                if !is_aligned(size_of::<$type>() as u32, address) {
                    leave!($index);
                }
                let word = match ram.get((address.wrapping_sub(base) >> 2) as usize) {
                    Some(word) => *word,
                    None => match word_in_flash(beyond.flash, address & !3) {
                        Some(word) => word,
                        None => leave!($index),
                    },
                };
                self.set($of.d, (word >> (address % 4 * 8)) as $type as u32);
                now += 2;
            }};
        }
        macro_rules! stores {
            ($of:expr, $address:expr, $index:expr) => {{
                let address = $address;
                match ram.get_mut(address.wrapping_sub(base).rotate_right(2) as usize) {
                    Some(word) => *word = self.reg($of.d),
                    None if beyond.store(address, self.reg($of.d), at + $index) => {}
                    None => leave!($index),
                }
                now += 2;
            }};
        }
        macro_rules! stores_part {
            ($type:ty, $of:expr, $address:expr, $index:expr) => {{
                let address = $address;
                match ram.get_mut((address.wrapping_sub(base) >> 2) as usize) {
                    Some(word) if is_aligned(size_of::<$type>() as u32, address) => {
                        let shift = address % 4 * 8;
                        *word = *word & !(u32::from(<$type>::MAX) << shift) | (self.reg($of.d) as $type as u32) << shift;
                    }
                    _ => leave!($index),
                }
                now += 2;
            }};
        }
        // Several words from an address on.
        macro_rules! several {
            ($from:expr, $count:expr) => {{
                let first = $from.wrapping_sub(base).rotate_right(2) as usize;
                match ram.get_mut(first..first + usize::from($count)) {
                    Some(words) => words,
                    None => leave!(0),
                }
            }};
        }
        macro_rules! jumps {
            ($to:expr) => {{
                if $to & 1 == 0 || $to >= EXCEPTION_RETURN {
                    leave!(0);
                }
                at = place_of($to & !1);
                shape = shape_at(places, at);
            }};
        }
        macro_rules! letter {
            (A $of:expr, $index:expr) => { sums!($of, $of.x) };
            (B $of:expr, $index:expr) => { sets!($of.d, self.reg($of.a) ^ (self.reg($of.b) ^ $of.k)) };
            (N $of:expr, $index:expr) => {{
                let (a, y) = (self.reg($of.a), self.reg($of.b) ^ $of.k);
                let either = 0u32.wrapping_sub($of.x.into());
                sets!($of.d, ((a ^ either) & y) ^ either)
            }};
            (C $of:expr, $index:expr) => {{
                let rotated = u64::from(self.reg($of.b)).rotate_left($of.x.into());
                self.c = rotated >> ($of.y & 63) & 1 != 0;
                sets!($of.d, rotated as u32)
            }};
            (M $of:expr, $index:expr) => {{
                self.set($of.d, self.reg($of.a).wrapping_add($of.k));
                now += u64::from($of.x);
            }};
            (L $of:expr, $index:expr) => { loads!($of, self.reg($of.a).wrapping_add($of.k), $index) };
            (S $of:expr, $index:expr) => { stores!($of, self.reg($of.a).wrapping_add($of.k), $index) };
            (G $of:expr, $index:expr) => { loads_part!(u8, $of, self.reg($of.a).wrapping_add($of.k), $index) };
            (P $of:expr, $index:expr) => { stores_part!(u8, $of, self.reg($of.a).wrapping_add($of.k), $index) };
            (J $of:expr, $index:expr) => {{
                now += 1;
                if self.meets($of.x) {
                    (at, shape) = ($of.k, $of.there);
                    now += 1;
                    continue;
                }
            }};
            (E $of:expr, $index:expr) => {{
                now += 1;
                if (self.nz as u32 != 0) == ($of.x != 0) {
                    (at, shape) = ($of.k, $of.there);
                    now += 1;
                    continue;
                }
            }};
            (T $of:expr, $index:expr) => {{
                self.set($of.d, address_of(at + $index + 2) | 1);
                (at, shape) = ($of.k, $of.there);
                now += u64::from($of.x);
                continue;
            }};
        }
        macro_rules! word {
            ($places:expr, $index:expr,) => {{
                (at, shape) = (at + $index, $places[0].behind);
                continue;
            }};
            ($places:expr, $index:expr, T) => { letter!(T $places[$index], $index) };
            ($places:expr, $index:expr, $letter:ident $($rest:ident)*) => {{
                letter!($letter $places[$index], $index);
                word!($places, $index + 1, $($rest)*)
            }};
        }
        macro_rules! execute {
            ($($word:ident [$($letters:ident)+])+) => {
                while now < limit {
                    let first = at as usize;
                    let Some(here) = places.get(first..first + LONGEST).and_then(|here| here.first_chunk::<LONGEST>())
                    else {
                        break;
                    };
                    let one = &here[0];
                    match shape {
                        $(Shape::$word => word!(here, 0, $($letters)+),)+
                        Shape::Push => {
                            let to = self.r[13].wrapping_sub(4 * u32::from(one.x));
                            let mut left = one.k;
                            for word in several!(to, one.x) {
                                *word = self.r[left.trailing_zeros() as usize & 15];
                                left &= left.wrapping_sub(1);
                            }
                            self.r[13] = to;
                            now += 1 + u64::from(one.x);
                            beyond.seen_from = address_of(at);
                        }
                        Shape::Pop => {
                            let from = self.r[13];
                            let words = several!(from, one.x);
                            let returns_to = if one.k >> 15 != 0 { words.last().copied() } else { None };
                            let place = at;
                            match returns_to {
                                Some(to) => jumps!(to),
                                None => (at, shape) = (at + 1, one.behind),
                            }
                            let mut left = one.k;
                            for word in words {
                                self.r[left.trailing_zeros() as usize & 15] = *word;
                                left &= left.wrapping_sub(1);
                            }
                            self.r[13] = from.wrapping_add(4 * u32::from(one.x));
                            now += 1 + u64::from(one.x) + if returns_to.is_some() { 2 } else { 0 };
                            beyond.seen_from = address_of(place);
                            continue;
                        }
                        Shape::Stm => {
                            let to = self.reg(one.a);
                            let mut left = one.k;
                            for word in several!(to, one.x) {
                                *word = self.r[left.trailing_zeros() as usize & 15];
                                left &= left.wrapping_sub(1);
                            }
                            self.set(one.a, to.wrapping_add(4 * u32::from(one.x)));
                            now += 1 + u64::from(one.x);
                            beyond.seen_from = address_of(at);
                        }
                        Shape::Ldm => {
                            let from = self.reg(one.a);
                            let words = several!(from, one.x);
                            self.set(one.a, from.wrapping_add(4 * u32::from(one.x)));
                            let mut left = one.k;
                            for word in words {
                                self.r[left.trailing_zeros() as usize & 15] = *word;
                                left &= left.wrapping_sub(1);
                            }
                            now += 1 + u64::from(one.x);
                            beyond.seen_from = address_of(at);
                        }
                        Shape::Bx => {
                            jumps!(self.reg(one.a));
                            now += 2;
                            continue;
                        }
                        Shape::Blx => {
                            let (to, link) = (self.reg(one.a), address_of(at + 1) | 1);
                            jumps!(to);
                            self.r[14] = link;
                            now += 2;
                            continue;
                        }
                        Shape::Mask => {
                            self.set(one.d, self.reg(one.a) & one.k);
                            now += 1;
                        }
                        Shape::Mul => sets!(one.d, self.reg(one.a).wrapping_mul(self.reg(one.b))),
                        Shape::Carry => sums!(one, self.c),
                        Shape::AddHigh => {
                            self.set(one.d, self.reg(one.a).wrapping_add(self.reg(one.b)));
                            now += 1;
                        }
                        Shape::AddPc => {
                            at = place_of(self.reg(one.a).wrapping_add(one.k) & !1);
                            shape = shape_at(places, at);
                            now += 2;
                            continue;
                        }
                        Shape::Cps if one.x == 0 && is_pending => break,
                        Shape::Cps => {
                            self.mask = one.x != 0;
                            now += 1;
                        }
                        Shape::Barrier => {
                            (at, shape) = (at + 2, one.behind);
                            now += 3;
                            continue;
                        }
                        Shape::Mrs => {
                            self.set(one.d, self.mask.into());
                            (at, shape) = (at + 2, one.behind);
                            now += 3;
                            continue;
                        }
                        Shape::Rev => {
                            self.set(one.d, self.reg(one.a).swap_bytes());
                            now += 1;
                        }
                        Shape::LslReg => {
                            let by = self.reg(one.a) & 0xff;
                            let value = u64::from(self.reg(one.d)) << by.min(33);
                            if by != 0 {
                                self.c = value >> 32 & 1 != 0;
                            }
                            sets!(one.d, value as u32);
                        }
                        Shape::LsrReg => {
                            let by = (self.reg(one.a) & 0xff).min(33);
                            let value = u64::from(self.reg(one.d));
                            if by != 0 {
                                self.c = value >> (by - 1) & 1 != 0;
                            }
                            sets!(one.d, (value >> by) as u32);
                        }
                        Shape::AsrImm => {
                            let value = i64::from(self.reg(one.a) as i32);
                            self.c = value >> (one.x - 1 & 63) & 1 != 0;
                            sets!(one.d, (value >> (one.x & 63)) as u32);
                        }
                        Shape::LdrReg => loads!(one, self.reg(one.a).wrapping_add(self.reg(one.b)), 0),
                        Shape::StrReg => stores!(one, self.reg(one.a).wrapping_add(self.reg(one.b)), 0),
                        Shape::LdrbReg => loads_part!(u8, one, self.reg(one.a).wrapping_add(self.reg(one.b)), 0),
                        Shape::StrbReg => stores_part!(u8, one, self.reg(one.a).wrapping_add(self.reg(one.b)), 0),
                        Shape::Ldrh => loads_part!(u16, one, self.reg(one.a).wrapping_add(one.k), 0),
                        Shape::Strh => stores_part!(u16, one, self.reg(one.a).wrapping_add(one.k), 0),
                        Shape::LdrhReg => loads_part!(u16, one, self.reg(one.a).wrapping_add(self.reg(one.b)), 0),
                        Shape::StrhReg => stores_part!(u16, one, self.reg(one.a).wrapping_add(self.reg(one.b)), 0),
                        Shape::Other => break,
                    }
                    (at, shape) = (at + 1, one.behind);
                }
            };
        }
        with_words!(execute);
        self.r[15] = address_of(at);
        let seen_from = beyond.seen_from;
        (bus.now, bus.pc) = (now, seen_from);
    }
}

#[inline(always)]
fn shape_at(places: &[Place], at: u32) -> Shape {
    places.get(at as usize).map_or(Shape::Other, |place| place.shape)
}

/// What lies beyond RAM, as far as nobody else is concerned by it. Seldom needed, so it stands apart.
struct Beyond<'a> {
    flash: &'a [u8],
    sio: &'a mut Sio,
    /// The instruction that last left memory, or moved several words.
    seen_from: u32,
}

impl Beyond<'_> {
    #[inline(never)]
    fn load(&mut self, address: u32, place: u32) -> Option<u32> {
        if !is_aligned(4, address) {
            return None;
        }
        word_in_flash(self.flash, address).or_else(|| {
            let word = self.sio.read(address.wrapping_sub(SIO_BASE))?;
            self.seen_from = address_of(place);
            Some(word)
        })
    }

    #[inline(never)]
    fn store(&mut self, address: u32, value: u32, place: u32) -> bool {
        let is_known = is_aligned(4, address) && self.sio.write(address.wrapping_sub(SIO_BASE), value);
        if is_known {
            self.seen_from = address_of(place);
        }
        is_known
    }
}

/// A word in flash; none if it is not aligned, or elsewhere.
#[inline(never)]
fn word_in_flash(flash: &[u8], address: u32) -> Option<u32> {
    let at = address.wrapping_sub(XIP_BASE) as usize;
    let word = flash.get(at..at + 4)?.first_chunk()?;
    is_aligned(4, address).then(|| u32::from_le_bytes(*word))
}
