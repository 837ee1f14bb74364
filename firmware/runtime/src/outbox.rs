//! Observations on their way to the collector: batches, a window, and going back when it is silent.
//!
//! Batches are numbered by their first record. Up to [`WINDOW_BYTES`] may be on their way; if the
//! collector acknowledges nothing for [`ANSWER_AFTER`], everything from the first record that is
//! not acknowledged is sent again (go-back-N), and until it answers only one batch at a time
//! knocks. Nothing here waits: with the collector away the ring fills up and counts.

use crate::ring::{Cursor, Ring};
use compasso_wire::{
    Duration, Instant, Observation,
    limits::{OBSERVATION_MAX, TELEMETRY_MAX},
};

/// A batch leaves at the latest so long after its first record.
pub const FLUSH_AFTER: Duration = Duration::from_millis(50);

/// A batch leaves at once when so many bytes wait.
pub const FLUSH_BYTES: usize = TELEMETRY_MAX * 6 / 10;

/// So long the collector may be silent before its batches are sent again.
pub const ANSWER_AFTER: Duration = Duration::from_millis(200);

/// So many bytes of the ring may be on their way.
pub const WINDOW_BYTES: usize = 8 * TELEMETRY_MAX;

/// What goes into one telemetry datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Batch<'b> {
    /// Index of its first record.
    pub first: u32,
    /// How many records it has.
    pub count: u16,
    /// The records, one after the other.
    pub records: &'b [u8],
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Collector {
    /// Every batch is acknowledged.
    Idle,
    /// Batches are on their way.
    Owing { answer_by: Instant },
    /// It did not answer: one batch at a time knocks.
    Silent { knock_at: Instant },
}

/// The sending end of a telemetry ring.
pub struct Outbox<'r, const N: usize> {
    ring: &'r Ring<N>,
    /// The first record that has not been sent since the last going back.
    unsent: Cursor,
    /// When that record must leave, if there is one.
    flush_at: Option<Instant>,
    collector: Collector,
}

impl<'r, const N: usize> Outbox<'r, N> {
    /// The outbox of a ring that nobody else writes.
    #[must_use]
    pub fn new(ring: &'r Ring<N>) -> Outbox<'r, N> {
        Outbox { ring, unsent: ring.head(), flush_at: None, collector: Collector::Idle }
    }

    /// Takes an observation in, or counts it as missed.
    pub fn record(&mut self, now: Instant, observation: &Observation) {
        let mut buffer = [0; OBSERVATION_MAX];
        match postcard::to_slice(observation, &mut buffer) {
            Ok(record) => self.push(now, record),
            // A named limit was too small: the gap is counted, and the trace says so.
            Err(_) => {
                self.ring.miss();
            }
        }
    }

    /// The collector has every record before `next`.
    pub fn acknowledged(&mut self, now: Instant, next: u32) {
        let before = self.ring.tail();
        self.ring.release_before(next);
        let tail = self.ring.tail();
        if tail == before {
            return; // It repeats itself: what it lacks is sent again when its time is over.
        }
        // An answer to what was sent before the last going back may be ahead of `unsent`.
        if tail.bytes_since(before) > self.unsent.bytes_since(before) {
            self.unsent = tail;
            self.flush_at = self.flush_after(now);
        }
        self.collector = match self.unsent == tail {
            true => Collector::Idle,
            false => Collector::Owing { answer_by: now + ANSWER_AFTER },
        };
    }

    /// The next batch to send now, written into `into`.
    #[must_use]
    pub fn poll_batch<'b>(&mut self, now: Instant, into: &'b mut [u8; TELEMETRY_MAX]) -> Option<Batch<'b>> {
        match self.collector {
            Collector::Owing { answer_by: by } | Collector::Silent { knock_at: by } if by <= now => {
                self.unsent = self.ring.tail();
                self.flush_at = Some(now);
                self.collector = Collector::Silent { knock_at: now };
            }
            Collector::Idle | Collector::Owing { .. } | Collector::Silent { .. } => {}
        }
        if self.batch_at()? > now {
            return None;
        }
        let first = self.unsent.record;
        let mut written = 0;
        while let Some(room) = into.get_mut(written..)
            && let Some((length, next)) = self.ring.read(self.unsent, room)
        {
            written += length;
            self.unsent = next;
        }
        self.flush_at = self.flush_after(now);
        self.collector = match self.collector {
            Collector::Idle => Collector::Owing { answer_by: now + ANSWER_AFTER },
            owing @ Collector::Owing { .. } => owing,
            Collector::Silent { .. } => Collector::Silent { knock_at: now + ANSWER_AFTER },
        };
        let count = self.unsent.record.wrapping_sub(first) as u16;
        Some(Batch { first, count, records: into.get(..written)? })
    }

    /// When to ask for a batch again.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let patience = match self.collector {
            Collector::Idle => None,
            Collector::Owing { answer_by: by } | Collector::Silent { knock_at: by } => Some(by),
        };
        self.batch_at().into_iter().chain(patience).min()
    }

    /// How many observations did not get into the ring.
    #[must_use]
    pub fn missed(&self) -> u32 {
        self.ring.missed()
    }

    fn push(&mut self, now: Instant, record: &[u8]) {
        // What no batch could carry would block all that follow.
        if record.len() > TELEMETRY_MAX {
            self.ring.miss();
        } else if self.ring.push(record) && self.flush_at.is_none() {
            self.flush_at = Some(now + FLUSH_AFTER);
        }
    }

    /// When the next batch may leave: at once if it is worth it, never while the window is shut.
    fn batch_at(&self) -> Option<Instant> {
        let flush_at = self.flush_at?;
        let underway = self.unsent.bytes_since(self.ring.tail());
        let is_open = match self.collector {
            Collector::Idle | Collector::Owing { .. } => underway < WINDOW_BYTES,
            Collector::Silent { .. } => underway == 0,
        };
        let waiting = self.ring.head().bytes_since(self.unsent);
        is_open.then_some(if waiting >= FLUSH_BYTES { Instant(0) } else { flush_at })
    }

    fn flush_after(&self, now: Instant) -> Option<Instant> {
        (self.unsent != self.ring.head()).then_some(now + FLUSH_AFTER)
    }
}

// Two records may always wait together, and the count of the shortest ones fits.
const _: () = assert!(FLUSH_BYTES < TELEMETRY_MAX && TELEMETRY_MAX <= u16::MAX as usize);

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: [u8; 40] = [7; 40];
    const PER_BATCH: u32 = (TELEMETRY_MAX / RECORD.len()) as u32;

    fn ms(millis: u64) -> Instant {
        Instant(millis * 1000)
    }

    fn fill(outbox: &mut Outbox<'_, 8192>, now: Instant, count: u32) {
        for _ in 0..count {
            outbox.push(now, &RECORD);
        }
    }

    /// First record and count of every batch that leaves now.
    fn batches(outbox: &mut Outbox<'_, 8192>, now: Instant) -> Vec<(u32, u16)> {
        let mut buffer = [0; TELEMETRY_MAX];
        let mut all = Vec::new();
        while let Some(batch) = outbox.poll_batch(now, &mut buffer) {
            assert_eq!(batch.records.len(), RECORD.len() * usize::from(batch.count));
            all.push((batch.first, batch.count));
        }
        all
    }

    #[test]
    fn a_lonely_record_leaves_after_its_time_and_a_crowd_at_once() {
        let ring = Ring::new();
        let mut outbox = Outbox::new(&ring);
        assert_eq!(outbox.poll_timeout(), None);
        fill(&mut outbox, ms(10), 1);
        assert_eq!(outbox.poll_timeout(), Some(ms(60)));
        assert_eq!(batches(&mut outbox, ms(59)), []);
        assert_eq!(batches(&mut outbox, ms(60)), [(0, 1)]);
        assert_eq!(outbox.poll_timeout(), Some(ms(260)));
        fill(&mut outbox, ms(61), PER_BATCH);
        assert_eq!(outbox.poll_timeout(), Some(Instant(0)));
        assert_eq!(batches(&mut outbox, ms(61)), [(1, PER_BATCH as u16)]);
        outbox.acknowledged(ms(62), 1 + PER_BATCH);
        assert_eq!(outbox.poll_timeout(), None);
        assert_eq!(outbox.missed(), 0);
    }

    #[test]
    fn silence_brings_everything_again_from_the_first_missing_record() {
        let ring = Ring::new();
        let mut outbox = Outbox::new(&ring);
        fill(&mut outbox, ms(0), 3 * PER_BATCH);
        let first: Vec<_> = (0..3).map(|batch| (batch * PER_BATCH, PER_BATCH as u16)).collect();
        assert_eq!(batches(&mut outbox, ms(50)), first);
        outbox.acknowledged(ms(60), PER_BATCH + 1);
        assert_eq!(batches(&mut outbox, ms(259)), []);
        // One batch knocks; a split within a former batch is no obstacle.
        assert_eq!(batches(&mut outbox, ms(260)), [(PER_BATCH + 1, PER_BATCH as u16)]);
        assert_eq!(batches(&mut outbox, ms(459)), []);
        assert_eq!(batches(&mut outbox, ms(460)), [(PER_BATCH + 1, PER_BATCH as u16)]);
        // The answer opens the window again.
        outbox.acknowledged(ms(461), 2 * PER_BATCH + 1);
        assert_eq!(batches(&mut outbox, ms(511)), [(2 * PER_BATCH + 1, (PER_BATCH - 1) as u16)]);
        outbox.acknowledged(ms(512), 3 * PER_BATCH);
        assert_eq!(outbox.poll_timeout(), None);
    }

    #[test]
    fn an_answer_to_what_was_sent_before_going_back_counts() {
        let ring = Ring::new();
        let mut outbox = Outbox::new(&ring);
        fill(&mut outbox, ms(0), 3 * PER_BATCH);
        assert_eq!(batches(&mut outbox, ms(50)).len(), 3);
        assert_eq!(batches(&mut outbox, ms(250)).len(), 1);
        outbox.acknowledged(ms(251), 3 * PER_BATCH);
        assert_eq!(outbox.poll_timeout(), None);
        fill(&mut outbox, ms(252), 1);
        assert_eq!(batches(&mut outbox, ms(302)), [(3 * PER_BATCH, 1)]);
    }

    #[test]
    fn with_the_collector_away_the_window_shuts_and_the_gap_is_counted() {
        let ring = Ring::new();
        let mut outbox = Outbox::new(&ring);
        let mut sent = 0;
        for tick in 0..1000 {
            fill(&mut outbox, ms(tick), 1);
            sent += batches(&mut outbox, ms(tick)).len();
        }
        let room = 8192 / (RECORD.len() as u32 + 2);
        assert_eq!(outbox.missed(), 1000 - room);
        assert!(sent < 20, "{sent} batches into the void");
        // It comes back, and gets all that was kept, without a hole.
        let mut next = 0;
        for tick in 0..100 {
            let now = ms(2000 + 60 * tick);
            for (first, count) in batches(&mut outbox, now) {
                assert_eq!(first, next);
                next += u32::from(count);
            }
            outbox.acknowledged(now, next);
        }
        assert_eq!(next, room);
        assert_eq!(outbox.poll_timeout(), None);
    }

    #[test]
    fn what_no_batch_could_carry_is_counted_and_blocks_nothing() {
        let ring = Ring::<8192>::new();
        let mut outbox = Outbox::new(&ring);
        outbox.push(ms(0), &[0; TELEMETRY_MAX + 1]);
        assert_eq!(outbox.missed(), 1);
        outbox.push(ms(0), &[0; TELEMETRY_MAX]);
        let mut buffer = [0; TELEMETRY_MAX];
        assert_eq!(outbox.poll_batch(ms(50), &mut buffer).unwrap().records.len(), TELEMETRY_MAX);
    }
}
