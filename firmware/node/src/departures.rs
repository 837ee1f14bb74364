//! When questions and answers about the time really left.
//!
//! A datagram is stamped before it is sealed, and leaves after that: how long after is nobody's promise. A board
//! that can tell says so afterwards. A question's departure is then known exactly, as nobody but the asker needs it. An
//! answer carries its stamp, and is gone: it says beside it how long such answers take as a rule.

use crate::node::Node;
use compasso_wire::{Body, Duration, Instant};
use heapless::Deque;

/// The end of a datagram, which is the end of its authentication tag: no two are alike.
pub type Tag = [u8; 8];

/// Datagrams that may be on their way to the wire, or whose departure may still be asked for. More are forgotten: then
/// their stamps count.
const REMEMBERED: usize = 4;

/// What takes longer waited for something: so much is believed.
const LEAVES_MAX: Duration = Duration::from_millis(10);

/// The part by which an answer that takes longer corrects the rule, and four times as much by one that takes less: four of
/// five take longer. The quick ones tell the time, and none is to come before it left.
const LONGER: u32 = 128;
const SHORTER: u32 = LONGER / 4;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    Question,
    Answer,
}

/// A datagram about the time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Sent {
    tag: Tag,
    stamped: Instant,
    what: What,
    /// From its stamp to its departure, as far as is known.
    took_us: u32,
}

/// What is known of departures.
#[derive(Default)]
pub(crate) struct Departures {
    sent: Deque<Sent, REMEMBERED>,
    /// What one of five answers takes at most. µs, q4.
    leaves_q4: u32,
}

impl Departures {
    /// A datagram with this stamp and this end is on its way.
    pub(crate) fn note(&mut self, body: &Body<'_>, stamped: Instant, datagram: &[u8]) {
        let what = match body {
            Body::TimeRequest { .. } => What::Question,
            Body::TimeReply { .. } => What::Answer,
            _ => return,
        };
        let Some(tag) = datagram.last_chunk() else { return };
        if self.sent.is_full() {
            self.sent.pop_front();
        }
        let _ = self.sent.push_back(Sent { tag: *tag, stamped, what, took_us: 0 }); // There is room.
    }

    fn left(&mut self, tag: Tag, at: Instant) {
        let Some(sent) = self.sent.iter_mut().find(|sent| sent.tag == tag) else { return };
        sent.took_us = at.since(sent.stamped).min(LEAVES_MAX).0 as u32;
        if sent.what == What::Answer {
            let took_us = sent.took_us;
            self.learn(took_us);
        }
    }

    fn learn(&mut self, took_us: u32) {
        let took_q4 = took_us << 4;
        match self.leaves_q4 {
            0 => self.leaves_q4 = took_q4,
            known if took_q4 > known => self.leaves_q4 += known / LONGER + 1,
            known => self.leaves_q4 -= known / SHORTER,
        }
    }

    /// When the question with this stamp left: then, if nobody knows better.
    pub(crate) fn of(&self, stamped: Instant) -> Instant {
        let is_it = |sent: &&Sent| sent.what == What::Question && sent.stamped == stamped;
        stamped + Duration(self.sent.iter().find(is_it).map_or(0, |sent| sent.took_us.into()))
    }

    /// How long answers take from their stamp to the wire, as a rule.
    pub(crate) fn leaves_us(&self) -> u32 {
        self.leaves_q4 >> 4
    }
}

impl Node {
    /// Stamps of arrivals and departures are off by about so much on this board and those that it speaks to. None, if
    /// this is never called.
    pub fn blur_stamps(&mut self, by_us: u32) {
        if let Some(clock) = self.clock.disciplined_mut() {
            clock.blur(by_us);
        }
    }

    /// A datagram that ends so left the board at `at`, and not before. Boards that cannot tell never call this.
    pub fn handle_departure(&mut self, tag: Tag, at: Instant) {
        self.time.departures.left(tag, at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAG: Tag = [1; 8];
    const OTHER: Tag = [2; 8];

    fn question(sent: u64) -> Body<'static> {
        Body::TimeRequest { sent: Instant(sent) }
    }

    fn answer() -> Body<'static> {
        Body::TimeReply {
            echo: Instant(0),
            cluster: compasso_wire::ClusterTime(0),
            handling_us: 0,
            sent: Instant(0),
            error_us: 0,
            certain_us: 0,
            leaves_us: 0,
            is_set: true,
            leap: None,
        }
    }

    #[test]
    fn a_question_left_when_the_board_says_so_and_else_when_it_was_stamped() {
        let mut departures = Departures::default();
        departures.note(&question(100), Instant(100), &TAG);
        departures.note(&question(200), Instant(200), &OTHER);
        departures.left(TAG, Instant(170));
        assert_eq!(departures.of(Instant(100)), Instant(170));
        assert_eq!(departures.of(Instant(200)), Instant(200), "nobody said");
        assert_eq!(departures.of(Instant(300)), Instant(300), "never asked");
        for later in 0..REMEMBERED as u64 {
            departures.note(&question(300 + later), Instant(300 + later), &[3 + later as u8; 8]);
        }
        assert_eq!(departures.of(Instant(100)), Instant(100), "forgotten");
        departures.left(TAG, Instant(170));
        assert_eq!(departures.of(Instant(100)), Instant(100), "too late");
    }

    #[test]
    fn answers_say_how_long_at_least_most_of_them_take() {
        let mut departures = Departures::default();
        assert_eq!(departures.leaves_us(), 0, "nobody can tell");
        for number in 0..800_u64 {
            let took = [60, 90, 95, 130, 9_000][number as usize % 5];
            departures.note(&answer(), Instant(number), &TAG);
            departures.left(TAG, Instant(number + took));
            departures.sent.clear();
        }
        assert!((55..92).contains(&departures.leaves_us()), "{}", departures.leaves_us());
        departures.note(&Body::Alive, Instant(5), &TAG);
        assert!(departures.sent.is_empty(), "nothing else matters");
    }
}
