//! The system clock that a daemon steers: it runs at the counter's rate times what was set, and can be stepped.
//! Continuous to the last bit where only its rate changes, so that only steps are seen as such.

use crate::{families::Exchange, peer::Fine};
use std::collections::VecDeque;

/// How many earlier pieces are kept: a stamp is asked for after the clock was steered again.
const PIECES: usize = 8;

#[derive(Clone, Copy, Debug)]
struct Piece {
    from: u64,
    shown: i64,
    rate: f64,
}

impl Piece {
    fn read(&self, tick: u64) -> i64 {
        let ticks = tick as i64 - self.from as i64;
        self.shown + (ticks << 16) + (ticks as f64 * 65_536.0 * self.rate).floor() as i64
    }
}

/// The clock.
#[derive(Clone, Debug, Default)]
pub struct Steered {
    pieces: VecDeque<Piece>,
    /// The counter now.
    pub now: u64,
}

impl Steered {
    /// Whether it shows anything.
    pub fn is_set(&self) -> bool {
        !self.pieces.is_empty()
    }

    /// Set by hand, as at boot, to the middle of the first exchange.
    pub fn set(&mut self, exchange: &Exchange) {
        self.now = exchange.h4;
        self.add(Piece { from: exchange.h4, shown: exchange.middle_half_us() << 15, rate: 0.0 });
    }

    /// What it showed at a tick not long ago.
    pub fn read(&self, tick: u64) -> Option<Fine> {
        let piece = self.pieces.iter().rev().find(|piece| piece.from <= tick).or(self.pieces.front())?;
        Some(Fine(piece.read(tick)))
    }

    /// What it shows now; 0 before it was set.
    pub fn shown(&self) -> Fine {
        self.read(self.now).unwrap_or(Fine(0))
    }

    /// From now on it runs so much faster than the counter.
    pub fn set_rate(&mut self, rate: f64) {
        let shown = self.shown().0;
        self.add(Piece { from: self.now, shown, rate });
    }

    /// The rate that was set.
    pub fn rate(&self) -> f64 {
        self.pieces.back().map_or(0.0, |piece| piece.rate)
    }

    /// Puts it forward or back.
    pub fn step(&mut self, by_us: f64) {
        let shown = self.shown().0 + Fine::from_us(by_us).0;
        self.add(Piece { from: self.now, shown, rate: self.rate() });
    }

    fn add(&mut self, piece: Piece) {
        if self.pieces.len() == PIECES {
            self.pieces.pop_front();
        }
        self.pieces.push_back(piece);
    }
}
