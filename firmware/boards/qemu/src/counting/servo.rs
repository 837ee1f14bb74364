//! What the disciplined clock costs: thousands of exchanges on a network that jitters, is congested and changes,
//! and a crystal that leaps. Most are usual; the dearest is what a board must have time for.

use super::counter::Counter;
use compasso_algorithms::time::{Disciplined, disciplined::Exchange};
use compasso_wire::{ClusterTime, Instant};
use heapless::Vec;

const EXCHANGES: usize = 3000;
/// The reference shows this much more than the hardware clock.
const AHEAD_US: u64 = 5_000_000_000;
/// From then on the crystal runs faster by this share: 1/20,000.
const LEAPS_AT: usize = 2000;
const LEAP_SHARE: u64 = 20_000;

/// Instructions of one exchange.
pub struct Cost {
    /// Of 99 in 100 no more.
    pub usual: u64,
    /// Of all of them.
    pub dearest: u64,
    /// Of one reading.
    pub read: u64,
}

/// Performs the exchanges.
pub fn count(counter: &Counter) -> Cost {
    let mut clock = Disciplined::default();
    let mut dice: u32 = 2463534242;
    let mut delay = |usual_us: u64| {
        dice ^= dice << 13;
        dice ^= dice >> 17;
        dice ^= dice << 5;
        // The more leading zeros, the rarer: delays that fade about exponentially.
        let fraction = u64::from(dice & 0xff);
        150 + usual_us * (u64::from(dice.leading_zeros()) * 256 + fraction) / 256
    };
    let mut counts: Vec<u32, EXCHANGES> = Vec::new();
    let mut read = 0;
    for index in 0..EXCHANGES {
        let is_busy = index % 300 > 250;
        let (there, back) = (delay(60), delay(if is_busy { 2000 } else { 90 }));
        let true_us = (index as u64 + 1) * 1_000_000;
        let leapt = true_us.saturating_sub(LEAPS_AT as u64 * 1_000_000) / LEAP_SHARE;
        let asked = true_us + true_us / 25_000 + leapt; // 40 ppm fast
        let received = ClusterTime((true_us + there + AHEAD_US) as i64);
        let answered = ClusterTime((true_us + there + 40 + AHEAD_US) as i64);
        let arrived = Instant(asked + there + 40 + back);
        let exchange =
            Exchange { asked: Instant(asked), received, answered, arrived, error_us: 0, certain_us: 0, leaves_us: 0 };
        let (count, _) = counter.count(|| clock.exchange(&exchange));
        assert!(counts.push(u32::try_from(count).unwrap_or(u32::MAX)).is_ok(), "there is room for every count");
        let (count, _) = counter.count(|| clock.interval(arrived));
        read = count.max(read);
    }
    counts.sort_unstable();
    let at = |index: usize| counts.get(index).copied().map_or(0, u64::from);
    Cost { usual: at(EXCHANGES * 99 / 100), dearest: at(EXCHANGES - 1), read }
}
