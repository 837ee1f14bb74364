//! What the clock shows: never less than before, whatever the servo learns.
//!
//! Readings lie on straight pieces. A new piece begins where the last one is, runs faster or slower until
//! the correction is done, and then at the estimated rate; what is left over by rounding is part of the next
//! difference, so nothing drifts. It begins a moment after the exchange that caused it: whoever reads
//! between the arrival and its handling is on the old piece in both cases.

use super::fixed::{HOUR_US, mul};
use compasso_wire::Instant;

/// An exchange is handled within this time from its arrival.
pub(super) const HANDLED_WITHIN_US: u64 = 10_000;

/// No rate differs more from the crystal's, corrections included. µs/s.
const SLEW_MAX: i64 = 500;

/// A correction may always use this much of it.
const SLEW_MIN: i64 = 100;

/// A correction that is small enough takes a quarter of a second.
const SLEW_US: u64 = 250_000;

/// An offset of a thousand years is found in so many rounds, to a microsecond.
const ROUNDS: usize = 8;

/// 2⁶⁰ by a million: from µs/s, q32, to a share, q52.
const SHARE: i64 = (1 << 60) / 1_000_000;

/// A straight piece, with a bend where its correction is complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Piece {
    from: u64,
    /// Shown then, µs; and the fraction, q32.
    shown_us: i64,
    fraction_q32: i64,
    /// The estimated rate, as a share. q52.
    rate_q52: i64,
    /// What is added to it for so long.
    slew_q52: i64,
    slew_us: u64,
}

impl Piece {
    const NONE: Piece = Piece { from: 0, shown_us: 0, fraction_q32: 0, rate_q52: 0, slew_q52: 0, slew_us: 0 };

    /// Whole microseconds and their fraction, q32.
    fn read(&self, now: u64) -> (i64, i64) {
        let age = (now.wrapping_sub(self.from) as i64).max(0);
        let slewed = age.min(self.slew_us as i64);
        let gained = mul::<20>(age, self.rate_q52)
            .saturating_add(mul::<20>(slewed, self.slew_q52))
            .saturating_add(self.fraction_q32);
        let whole = self.shown_us.wrapping_add(age).wrapping_add(gained >> 32);
        (whole, gained & i64::from(u32::MAX))
    }

    fn at(&self, now: u64) -> Piece {
        let (shown_us, fraction_q32) = self.read(now);
        let slewed = (now.wrapping_sub(self.from) as i64).max(0) as u64;
        Piece { from: now, shown_us, fraction_q32, slew_us: self.slew_us.saturating_sub(slewed), ..*self }
    }
}

/// The readings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shown {
    is_set: bool,
    before: Piece,
    piece: Piece,
}

impl Shown {
    pub(super) const UNSET: Shown = Shown { is_set: false, before: Piece::NONE, piece: Piece::NONE };

    pub(super) fn is_set(&self) -> bool {
        self.is_set
    }

    /// Whole microseconds and their fraction, q32.
    pub(super) fn read(&self, now: Instant) -> Option<(i64, i64)> {
        let is_before = (now.0.wrapping_sub(self.piece.from) as i64) < 0;
        self.is_set.then(|| if is_before { self.before.read(now.0) } else { self.piece.read(now.0) })
    }

    /// The last piece has not begun then: there is no room for another.
    pub(super) fn is_bending(&self, now: Instant) -> bool {
        self.is_set && (now.0.wrapping_sub(self.piece.from) as i64) < 0
    }

    /// What is still to be made up for, µs; its sign is lost on purpose: whoever asks wants a distance.
    pub(super) fn pending_us(&self, now: Instant) -> u64 {
        let of = |piece: &Piece| {
            let age = (now.0.wrapping_sub(piece.from) as i64).max(0) as u64;
            let left = piece.slew_us.saturating_sub(age);
            (mul::<52>(left as i64, piece.slew_q52).unsigned_abs() + u64::from(left > 0), piece.from)
        };
        let ((before, _), (last, from)) = (of(&self.before), of(&self.piece));
        let is_before = (now.0.wrapping_sub(from) as i64) < 0;
        // Before the bend, what the old piece had in mind may be given up, and the new one's is to come.
        if is_before { before.saturating_add(last) } else { last }
    }

    /// The first hardware time, as far as is known now, at which the clock shows at least this.
    pub(super) fn when(&self, shown_us: i64) -> Option<Instant> {
        let reads = |at: u64| self.read(Instant(at)).map(|(shown, _)| shown);
        let mut at = self.piece.from;
        // No rate is farther from the crystal's than 500 ppm: each round leaves a two-thousandth.
        for _ in 0..ROUNDS {
            let missing = shown_us.saturating_sub(reads(at)?);
            if missing == 0 {
                break;
            }
            at = at.saturating_add_signed(missing);
        }
        while reads(at)? < shown_us {
            at = at.checked_add(1)?;
        }
        Some(Instant(at))
    }

    /// Sets the clock at first, or forward, to run at this rate (µs/s, q32) from then on.
    pub(super) fn set(&mut self, now: Instant, shown_us: i64, fraction_q32: i64, rate_q32: i64) {
        let rate_q52 = mul::<40>(rate_q32, SHARE);
        let piece = Piece { from: now.0, shown_us, fraction_q32, rate_q52, ..Piece::NONE };
        self.before = if self.is_set { self.piece } else { piece };
        (self.piece, self.is_set) = (piece, true);
    }

    /// When a piece that an exchange causes begins.
    pub(super) fn begins(arrived: Instant) -> Instant {
        Instant(arrived.0.wrapping_add(HANDLED_WITHIN_US))
    }

    /// The piece that is to be read at `begins`, from there on; one that is yet to begin stays where it begins.
    fn from(&self, begins: Instant) -> Piece {
        let is_early = (begins.0.wrapping_sub(self.piece.from) as i64) < 0;
        self.piece.at(if is_early { self.piece.from } else { begins.0 })
    }

    /// Goes on with this piece. Where it takes the place of one that is yet to begin, what is read until then stays.
    fn bend(&mut self, piece: Piece) {
        if piece.from != self.piece.from {
            self.before = self.piece;
        }
        self.piece = piece;
    }

    /// From `begins` on, runs at this rate (µs/s, q32); a correction under way is finished.
    pub(super) fn go_on(&mut self, begins: Instant, rate_q32: i64) {
        let mut piece = self.from(begins);
        piece.rate_q52 = mul::<40>(rate_q32.clamp(-(SLEW_MAX << 32), SLEW_MAX << 32), SHARE);
        self.bend(piece);
    }

    /// From `begins` on, runs at this rate (µs/s, q32) and makes up for what is missing (µs, q24).
    pub(super) fn follow(&mut self, begins: Instant, rate_q32: i64, missing_q24: i64) {
        let mut piece = self.from(begins);
        let rate_q32 = rate_q32.clamp(-(SLEW_MAX << 32), SLEW_MAX << 32);
        let room = (SLEW_MAX - (rate_q32.abs() >> 32) - 1).max(SLEW_MIN);
        // µs in a quarter of a second, as µs/s.
        let wanted_q32 = missing_q24.clamp(-(1 << 50), 1 << 50) << 10;
        let slew_q32 = wanted_q32.clamp(-(room << 32), room << 32);
        piece.rate_q52 = mul::<40>(rate_q32, SHARE);
        piece.slew_q52 = mul::<40>(slew_q32, SHARE);
        piece.slew_us = if slew_q32 == wanted_q32 {
            SLEW_US
        } else {
            ((missing_q24.unsigned_abs() >> 24).min(HOUR_US) * 1_000_000) / room as u64
        };
        self.bend(piece);
    }
}
