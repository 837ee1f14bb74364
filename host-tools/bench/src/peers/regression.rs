//! Regression in the style of FTSP (Maróti et al., 2004): a line through the last eight offsets, least squares.
//! FTSP stamps one way below the medium access; here the offsets are those of whole exchanges, both ways halved.

use crate::{
    families::{Exchange, Trace},
    peer::{Contender, Fine, Peer},
};
use std::collections::VecDeque;

const POINTS: usize = 8;

#[derive(Clone)]
struct Regression {
    /// The counter, and how far the reference is ahead of it.
    points: VecDeque<(u64, f64)>,
}

/// The contender.
pub fn ftsp() -> Contender {
    Contender {
        name: "ftsp",
        parameters: format!("least squares over {POINTS} points"),
        make: |_: &Trace| Box::new(Regression { points: VecDeque::with_capacity(POINTS) }),
        rival: false,
    }
}

impl Peer for Regression {
    fn exchange(&mut self, exchange: &Exchange) {
        if self.points.len() == POINTS {
            self.points.pop_front();
        }
        let ahead = exchange.middle_half_us() as f64 / 2.0 - exchange.h4 as f64;
        self.points.push_back((exchange.h4, ahead));
    }

    fn fork(&self) -> Option<Box<dyn Peer>> {
        Some(Box::new(self.clone()))
    }

    fn read(&mut self, tick: u64) -> Option<Fine> {
        let newest = self.points.back()?.0;
        let since = |at: u64| at as f64 - newest as f64;
        let count = self.points.len() as f64;
        let (sum_x, sum_y) = self.points.iter().fold((0.0, 0.0), |(x, y), (at, ahead)| (x + since(*at), y + ahead));
        let (mean_x, mean_y) = (sum_x / count, sum_y / count);
        let (mut xx, mut xy) = (0.0, 0.0);
        for (at, ahead) in &self.points {
            xx += (since(*at) - mean_x).powi(2);
            xy += (since(*at) - mean_x) * (ahead - mean_y);
        }
        let slope = if xx > 0.0 { xy / xx } else { 0.0 };
        Some(Fine::from_us(tick as f64 + mean_y + slope * (since(tick) - mean_x)))
    }
}
