//! What boards and stage reported, in the order collected; at the end it becomes the trace.
//!
//! True time is filled in last: each board's anchor improves until the very end of the run.

use crate::{
    anchor::{self, Anchor, Reading},
    host::Batch,
    ram::Journal,
    watch::LifeKey,
};
use compasso_checker::{Event, TraceEvent};
use compasso_scenario::Names;
use compasso_wire::{Observation, telemetry::Event as Seen};
use std::{collections::BTreeMap, time::Duration};

/// Who knows when a board's clock showed something.
pub trait TrueTime {
    /// The true time, in microseconds, at which a life's clock showed `hw_us`; the reading is the latest known.
    fn true_us(&self, key: LifeKey, reading: &Reading, hw_us: u64) -> Option<i64>;

    /// How far it may be off between two lives, where that was measured.
    fn tolerance_us(&self) -> Option<i64>;
}

impl TrueTime for BTreeMap<LifeKey, Anchor> {
    fn true_us(&self, key: LifeKey, reading: &Reading, hw_us: u64) -> Option<i64> {
        self.get(&key).and_then(|anchor| anchor.true_us(reading, hw_us))
    }

    fn tolerance_us(&self) -> Option<i64> {
        anchor::tolerance_us(self)
    }
}

/// The collector of one run.
#[derive(Debug)]
pub struct Collector {
    names: Names,
    items: Vec<Item>,
    lives: BTreeMap<LifeKey, Life>,
    /// What crystals that were bent anew add to the doubt about true time.
    bent_us: i64,
}

#[derive(Debug)]
enum Item {
    Stage { at: Duration, event: Event },
    Node { key: LifeKey, reading: Reading, observation: Box<Observation> },
}

#[derive(Debug, Default)]
struct Life {
    reading: Option<Reading>,
    /// The first reading of the present rate, and the rate before it.
    bent: Option<(Reading, i32)>,
    missed: u32,
    has_booted: bool,
    requests: u64,
    exits: u64,
}

impl Life {
    /// How wrong an event may be bent back by this reading, because another rate may have held until after it.
    fn bent_us(&self, reading: &Reading, hw_us: u64) -> i64 {
        let Some((first, rate_ppb)) = self.bent.filter(|(first, _)| hw_us < first.hw_us) else { return 0 };
        let span_us = i128::from(reading.hw_us - hw_us.min(reading.hw_us));
        (span_us * i128::from(first.rate_ppb.abs_diff(rate_ppb))).unsigned_abs().div_ceil(1_000_000_000) as i64
    }
}

impl Collector {
    /// A collector of what such nodes say.
    #[must_use]
    pub fn new(names: &Names) -> Collector {
        Collector { names: names.clone(), items: Vec::new(), lives: BTreeMap::new(), bent_us: 0 }
    }

    /// How many events were collected.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether nothing was collected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// What is performed: the first line of the trace, whenever it becomes known.
    pub fn headline(&mut self, event: Event) {
        self.items.insert(0, Item::Stage { at: Duration::ZERO, event });
    }

    /// The stage did or learned something.
    pub fn stage(&mut self, at: Duration, event: Event) {
        self.items.push(Item::Stage { at, event });
    }

    /// Takes a batch from a living board.
    pub fn batch(&mut self, at: Duration, position: usize, batch: Batch) {
        let key = (position, batch.incarnation);
        let life = self.lives.entry(key).or_default();
        let before = life.reading.replace(batch.reading).filter(|before| before.rate_ppb != batch.reading.rate_ppb);
        if let Some(before) = before {
            life.bent = Some((batch.reading, before.rate_ppb));
        }
        self.take(at, key, batch.reading, batch.observations, batch.missed);
    }

    /// Takes what a dead board left behind, from record `next` on; `rate_ppb` bent its crystal at boot.
    pub fn journal(&mut self, at: Duration, key: LifeKey, rate_ppb: i32, journal: Journal, next: u32) {
        let reading = self.lives.entry(key).or_default().reading.unwrap_or(Reading::at_boot(rate_ppb));
        let known = next.saturating_sub(journal.first) as usize;
        let fresh = journal.observations.into_iter().skip(known).collect();
        self.take(at, key, reading, fresh, journal.missed);
    }

    /// Whether the boot of this life was collected.
    #[must_use]
    pub fn has_booted(&self, key: LifeKey) -> bool {
        self.lives.get(&key).is_some_and(|life| life.has_booted)
    }

    /// How many requests of this life have not come out of the critical section yet.
    #[must_use]
    pub fn open_requests(&self, key: LifeKey) -> u64 {
        self.lives.get(&key).map_or(0, |life| life.requests.saturating_sub(life.exits))
    }

    /// Makes the trace.
    #[must_use]
    pub fn finish(self, clock: &impl TrueTime) -> Vec<TraceEvent> {
        let mut trace = Vec::with_capacity(self.items.len());
        let mut stage_seq = 0;
        let tolerance_us = clock.tolerance_us().map(|us| us + self.bent_us);
        for item in self.items {
            trace.push(match item {
                Item::Stage { at, mut event } => {
                    if let (Event::Scenario(line), Some(us)) = (&mut event, tolerance_us) {
                        line.insert("tolerance_us".to_owned(), us.into());
                    }
                    stage_seq += 1;
                    TraceEvent::stage(stage_seq, Some(at.as_micros() as i64), event)
                }
                Item::Node { key, reading, observation } => {
                    let true_us = clock.true_us(key, &reading, observation.hw.0);
                    TraceEvent::from_observation(self.names.ids[key.0], key.1, &observation, true_us, &self.names)
                }
            });
        }
        trace
    }

    fn take(&mut self, at: Duration, key: LifeKey, reading: Reading, observations: Vec<Observation>, missed: u32) {
        let life = self.lives.entry(key).or_default();
        for observation in observations {
            match observation.event {
                Seen::Boot { .. } => life.has_booted = true,
                Seen::Request { .. } => life.requests += 1,
                Seen::CsExit { .. } => life.exits += 1,
                _ => {}
            }
            self.bent_us = self.bent_us.max(life.bent_us(&reading, observation.hw.0));
            self.items.push(Item::Node { key, reading, observation: Box::new(observation) });
        }
        if missed > life.missed {
            let newly = u64::from(missed - life.missed);
            life.missed = missed;
            let event = Event::Gap { of: self.names.ids[key.0], inc: key.1, missed: newly };
            self.items.push(Item::Stage { at, event });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use compasso_wire::{Fence, Instant, NodeId, ResourceId, Vector};

    const KEY: LifeKey = (1, 2);
    const CS: ResourceId = ResourceId(0);

    fn observation(seq: u32, event: Seen) -> Observation {
        Observation {
            seq,
            lamport: 1,
            vector: Vector::default(),
            hw: Instant(u64::from(seq) * 1000),
            cluster: None,
            event,
        }
    }

    fn batch(observations: Vec<Observation>, missed: u32) -> Batch {
        let reading = Reading { hw_us: 10_000, raw_ns: 10_000_000, rate_ppb: 0 };
        Batch { node: NodeId(9), incarnation: 2, reading, missed, observations }
    }

    #[test]
    fn true_time_comes_from_the_final_anchor() {
        let mut collector = Collector::new(&Names { ids: vec![4, 9], ..Names::default() });
        collector.stage(Duration::from_micros(5), Event::End);
        collector.batch(Duration::ZERO, 1, batch(vec![observation(1, Seen::Boot { incarnation: 2 })], 0));
        assert!(collector.has_booted(KEY) && !collector.has_booted((0, 1)));
        let mut anchor = Anchor::default();
        anchor.observe((2_990_000, 3_010_000), 0);
        let trace = collector.finish(&BTreeMap::from([(KEY, anchor)]));
        assert_eq!((trace[0].true_us, trace[0].seq, trace[0].node_id()), (Some(5), 1, None));
        assert_eq!((trace[1].true_us, trace[1].inc, trace[1].node_id()), (Some(4_000), 2, Some(9)));
    }

    #[test]
    fn the_scenario_line_tells_how_well_true_time_is_known_also_of_a_crystal_that_was_bent() {
        let anchor = || {
            let mut anchor = Anchor::default();
            anchor.observe((2_990_000, 3_010_000), 0);
            BTreeMap::from([(KEY, anchor)])
        };
        let told = |rate_ppb: i32| {
            let mut collector = Collector::new(&Names { ids: vec![4, 9], ..Names::default() });
            collector.headline(Event::Scenario(serde_json::Map::new()));
            collector.batch(Duration::ZERO, 1, batch(Vec::new(), 0));
            let mut bent = batch(vec![observation(1, Seen::Boot { incarnation: 2 })], 0);
            bent.reading.rate_ppb = rate_ppb;
            collector.batch(Duration::ZERO, 1, bent);
            match collector.finish(&anchor()).swap_remove(0).event {
                Event::Scenario(line) => line["tolerance_us"].as_i64().unwrap(),
                event => panic!("{event:?}"),
            }
        };
        let unbent_us = anchor::tolerance_us(&anchor()).unwrap();
        assert_eq!(told(0), unbent_us);
        assert_eq!(told(-1_000_000), unbent_us + 9, "a thousandth of the 9 ms from the event to the reading");
    }

    #[test]
    fn a_journal_continues_where_the_batches_ended() {
        let mut collector = Collector::new(&Names { ids: vec![4, 9], ..Names::default() });
        collector.batch(Duration::ZERO, 1, batch(vec![observation(1, Seen::Request { resource: CS })], 0));
        assert_eq!(collector.open_requests(KEY), 1);
        let exit = Seen::CsExit { resource: CS, fence: Fence(1) };
        let journal = Journal {
            first: 0,
            observations: vec![observation(1, Seen::Request { resource: CS }), observation(2, exit)],
            missed: 0,
        };
        collector.journal(Duration::ZERO, KEY, 0, journal, 1);
        assert_eq!(collector.len(), 2, "the first record came by datagram");
        assert_eq!(collector.open_requests(KEY), 0);
    }

    #[test]
    fn what_was_missed_is_a_counted_gap() {
        let mut collector = Collector::new(&Names { ids: vec![4, 9], ..Names::default() });
        for missed in [0, 3, 3, 5] {
            collector.batch(Duration::ZERO, 1, batch(Vec::new(), missed));
        }
        let gaps: Vec<Event> = collector.finish(&BTreeMap::new()).into_iter().map(|line| line.event).collect();
        assert_eq!(gaps, [Event::Gap { of: 9, inc: 2, missed: 3 }, Event::Gap { of: 9, inc: 2, missed: 2 }]);
    }
}
