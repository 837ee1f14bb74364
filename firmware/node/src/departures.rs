//! When questions and answers about the time really left.
//!
//! A datagram is stamped before it is sealed, and leaves after that: how long after is nobody's promise. A board
//! that can tell says so afterwards. A question's departure is then known exactly, as nobody but the asker needs it. An
//! answer carries its stamp, and is gone: it says beside it how long such answers take at least, but for a few.

use crate::node::Node;
use compasso_wire::{Body, Duration, Instant, NodeId};
use heapless::Deque;

/// The end of a datagram, which is the end of its authentication tag: no two are alike.
pub type Tag = [u8; 8];

/// Datagrams that may be on their way to the wire, or whose departure may still be asked for. More are forgotten: then
/// their stamps count.
const REMEMBERED: usize = 4;

/// What takes longer waited for something: so much is believed.
const LEAVES_MAX: Duration = Duration::from_millis(10);

/// Nothing is said of answers before so many have left: the first ones are the slowest. The rule begins with the least.
const FIRST: u8 = 8;

/// The part by which an answer that takes longer corrects the rule, and sixteen times as much by one that takes less: most
/// answers take longer. None is to come before it left.
const LONGER: u32 = 512;
const SHORTER: u32 = LONGER / 16;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    Question,
    Answer,
}

/// A datagram about the time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Sent {
    tag: Tag,
    to: NodeId,
    stamped: Instant,
    what: What,
    /// From its stamp to its departure, if that is known.
    took_us: Option<u32>,
}

/// What is known of departures.
#[derive(Default)]
pub(crate) struct Departures {
    sent: Deque<Sent, REMEMBERED>,
    /// What few answers take less than. µs, q4.
    leaves_q4: u32,
    /// So many answers have left, up to [`FIRST`].
    answers: u8,
}

impl Departures {
    /// A datagram with this stamp and this end is on its way.
    pub(crate) fn note(&mut self, to: NodeId, body: &Body<'_>, stamped: Instant, datagram: &[u8]) {
        let what = if matches!(body, Body::TimeRequest { .. }) {
            What::Question
        } else if matches!(body, Body::TimeReply { .. }) {
            What::Answer
        } else {
            return;
        };
        let Some(tag) = datagram.last_chunk() else { return };
        if self.sent.is_full() {
            self.sent.pop_front();
        }
        let _ = self.sent.push_back(Sent { tag: *tag, to, stamped, what, took_us: None }); // There is room.
    }

    fn left(&mut self, tag: Tag, at: Instant) {
        let Some(sent) = self.sent.iter_mut().find(|sent| sent.tag == tag) else { return };
        let took_us = at.since(sent.stamped).min(LEAVES_MAX).0 as u32;
        sent.took_us = Some(took_us);
        if sent.what == What::Answer {
            self.learn(took_us << 4);
        }
    }

    fn learn(&mut self, took_q4: u32) {
        let known = self.leaves_q4;
        if self.answers < FIRST {
            self.leaves_q4 = if self.answers == 0 { took_q4 } else { known.min(took_q4) };
            self.answers += 1;
        } else if took_q4 > known {
            self.leaves_q4 += known / LONGER + 1;
        } else {
            self.leaves_q4 -= known / SHORTER;
        }
    }

    /// When the question to this server with this stamp left, if that is known.
    pub(crate) fn of(&self, to: NodeId, stamped: Instant) -> Option<Instant> {
        let is_it = |sent: &&Sent| sent.what == What::Question && (sent.to, sent.stamped) == (to, stamped);
        let took_us = self.sent.iter().find(is_it)?.took_us?;
        Some(stamped + Duration(took_us.into()))
    }

    /// How long answers take from their stamp to the wire at least, but for a few; nothing if nobody can tell.
    pub(crate) fn leaves_us(&self) -> u32 {
        if self.answers < FIRST { 0 } else { self.leaves_q4 >> 4 }
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

    const SERVER: NodeId = NodeId(2);

    #[test]
    fn a_question_left_when_the_board_says_so_and_nobody_knows_when_if_it_says_nothing() {
        let mut departures = Departures::default();
        departures.note(SERVER, &question(100), Instant(100), &TAG);
        departures.note(SERVER, &question(200), Instant(200), &OTHER);
        departures.left(TAG, Instant(170));
        assert_eq!(departures.of(SERVER, Instant(100)), Some(Instant(170)));
        assert_eq!(departures.of(NodeId(3), Instant(100)), None, "asked of somebody else");
        assert_eq!(departures.of(SERVER, Instant(200)), None, "nobody said");
        assert_eq!(departures.of(SERVER, Instant(300)), None, "never asked");
        for later in 0..REMEMBERED as u64 {
            departures.note(SERVER, &question(300 + later), Instant(300 + later), &[3 + later as u8; 8]);
        }
        departures.left(TAG, Instant(170));
        assert_eq!(departures.of(SERVER, Instant(100)), None, "forgotten");
    }

    #[test]
    fn two_questions_with_one_stamp_are_told_apart() {
        let mut departures = Departures::default();
        for (tag, to, left) in [(TAG, SERVER, 120), (OTHER, NodeId::HOST, 250)] {
            departures.note(to, &question(100), Instant(100), &tag);
            departures.left(tag, Instant(left));
        }
        assert_eq!(departures.of(SERVER, Instant(100)), Some(Instant(120)));
        assert_eq!(departures.of(NodeId::HOST, Instant(100)), Some(Instant(250)));
    }

    #[test]
    fn answers_say_how_long_most_of_them_take_at_least() {
        let mut departures = Departures::default();
        for number in 0..4000_usize {
            if number < usize::from(FIRST) {
                assert_eq!(departures.leaves_us(), 0, "too few to tell");
            }
            let took = [9_000, 90, 95, 130, 60][number % 5];
            departures.note(SERVER, &answer(), Instant(5), &TAG);
            departures.left(TAG, Instant(5 + took));
            departures.sent.clear();
            assert!(number < 8 || (50..=75).contains(&departures.leaves_us()), "{number}: {}", departures.leaves_us());
        }
        departures.note(SERVER, &Body::Alive, Instant(5), &TAG);
        assert!(departures.sent.is_empty(), "nothing else matters");
    }
}
