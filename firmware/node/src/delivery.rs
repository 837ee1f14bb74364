//! Delivery: the reliable, ordered channels that the textbook takes for granted.
//!
//! From each sender's life to each receiver's life run two streams of numbered messages: one for
//! elections, which must get through when everything else waits, and one for the rest. A message
//! is repeated until it is acknowledged or has outlived its use; the receiver takes each once and
//! in order. A stream ends with either life: what an earlier life was told is lost with it.

use compasso_wire::{
    Body, Duration, Instant, Payload, Refusal,
    limits::MEMBERS_MAX,
    message::{ElectionMessage, Stream},
};
use heapless::Vec;

/// Messages that may await acknowledgement, over all peers.
pub const PENDING_MAX: usize = 2 * MEMBERS_MAX + 32;

/// A repeat waits at least so long, ...
const REPEAT_MIN: Duration = Duration::from_millis(10);
/// ... at first so long, ...
const REPEAT_FIRST: Duration = Duration::from_millis(40);
/// ... and at most so long.
const REPEAT_MAX: Duration = Duration::from_millis(400);

#[derive(Clone, Copy, Debug)]
struct Pending {
    to: usize,
    index: u32,
    payload: Payload,
    /// Not worth repeating after this.
    until: Instant,
    send_at: Instant,
    /// Means something only after the first try.
    sent: Instant,
    tries: u8,
    /// How often it was repeated since it could have been taken: each time it waits longer.
    backoff: u8,
    /// When it last left; means something only after the first try.
    left: Instant,
    /// It was reported as not acknowledged in time.
    reported: bool,
}

impl Pending {
    fn first_sent(&self) -> Option<Instant> {
        (self.tries > 0).then_some(self.sent)
    }
}

/// After every other instant.
const FOR_EVER: Instant = Instant(u64::MAX);

/// Which of the two streams a message belongs to.
#[must_use]
pub fn stream(payload: &Payload) -> Stream {
    match payload {
        Payload::Election(_) => Stream::Election,
        Payload::Mutex { .. }
        | Payload::Locks { .. }
        | Payload::Cache { .. }
        | Payload::Commit { .. }
        | Payload::Marker { .. }
        | Payload::Labelled { .. }
        | Payload::Make(_) => Stream::Work,
    }
}

/// A message that goes round a ring: its sender must learn of a dead successor, also in the textbook
/// form, so it is always acknowledged.
fn goes_round(payload: &Payload) -> bool {
    match payload {
        Payload::Mutex { .. }
        | Payload::Locks { .. }
        | Payload::Cache { .. }
        | Payload::Commit { .. }
        | Payload::Marker { .. }
        | Payload::Labelled { .. }
        | Payload::Make(_) => false,
        Payload::Election(message) => match message {
            ElectionMessage::Election { .. } | ElectionMessage::Answer { .. } | ElectionMessage::Coordinator { .. } => {
                false
            }
            ElectionMessage::ListElection { .. }
            | ElectionMessage::ListCoordinator { .. }
            | ElectionMessage::Candidate { .. }
            | ElectionMessage::Elected { .. }
            | ElectionMessage::Probe { .. }
            | ElectionMessage::Reply { .. } => true,
        },
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Positions {
    next_out: u32,
    next_in: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Peer {
    /// The peer's life that our streams lead to; 0 while it is unknown.
    life: u32,
    election: Positions,
    work: Positions,
    /// Smoothed round trip; 0 while unknown.
    round_trip: Duration,
}

impl Peer {
    fn positions(&mut self, stream: Stream) -> &mut Positions {
        match stream {
            Stream::Election => &mut self.election,
            Stream::Work => &mut self.work,
        }
    }
}

/// A message of the channel that is ready to leave.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Departure {
    /// Position of the receiver.
    pub to: usize,
    /// What leaves.
    pub body: Body<'static>,
    /// It left before.
    pub again: bool,
}

/// All channels of one node.
pub struct Delivery {
    channels: Vec<Peer, MEMBERS_MAX>,
    pending: Vec<Pending, PENDING_MAX>,
    /// False: the textbook's channel, on which a message is sent once and bare.
    repeats: bool,
}

impl Delivery {
    /// Empty channels to `count` members, which repeat or not.
    #[must_use]
    pub fn new(count: usize, repeats: bool) -> Delivery {
        Delivery {
            channels: (0..count.min(MEMBERS_MAX)).map(|_| Peer::default()).collect(),
            pending: Vec::new(),
            repeats,
        }
    }

    /// Puts a message into the stream to `to`, to be repeated until `until`. False if too many wait.
    #[must_use]
    pub fn send(&mut self, to: usize, payload: Payload, now: Instant, until: Option<Instant>) -> bool {
        let Some(channel) = self.channels.get_mut(to) else { return false };
        let positions = channel.positions(stream(&payload));
        let pending = Pending {
            to,
            index: positions.next_out,
            payload,
            until: until.unwrap_or(FOR_EVER),
            send_at: now,
            sent: now,
            tries: 0,
            backoff: 0,
            left: now,
            reported: false,
        };
        let fits = self.pending.push(pending).is_ok();
        if fits {
            positions.next_out += 1;
        }
        fits
    }

    /// The peer lives, in this life. A new one ends both streams and all that was in them, but for
    /// what is meant for the new life already: that begins the new stream.
    pub fn peer_lives(&mut self, peer: usize, life: u32, is_for_new_life: impl Fn(&Payload) -> bool) {
        let Some(channel) = self.channels.get_mut(peer) else { return };
        if channel.life != 0 && channel.life != life {
            *channel = Peer { life, round_trip: channel.round_trip, ..Peer::default() };
            self.pending.retain(|pending| pending.to != peer || is_for_new_life(&pending.payload));
            for pending in self.pending.iter_mut().filter(|pending| pending.to == peer) {
                let positions = channel.positions(stream(&pending.payload));
                pending.index = positions.next_out;
                positions.next_out += 1;
                (pending.tries, pending.backoff) = (0, 0);
            }
        } else {
            channel.life = life;
        }
    }

    /// Gives up what is on its way to `peer`.
    pub fn abandon(&mut self, peer: usize) {
        self.pending.retain(|pending| pending.to != peer);
    }

    /// Gives up every such message.
    pub fn abandon_where(&mut self, is_void: impl Fn(&Payload) -> bool) {
        self.pending.retain(|pending| !is_void(&pending.payload));
    }

    /// Whether such a message is on its way and not known to have arrived.
    #[must_use]
    pub fn is_pending(&self, wanted: impl Fn(&Payload) -> bool) -> bool {
        self.pending.iter().any(|pending| wanted(&pending.payload))
    }

    /// The peer has everything of that stream before `next`. Returns how long the newest of it took, if it was
    /// sent once only; or how long one took that was reported as not acknowledged in time: that was wrong, and
    /// whoever reckons with the round trip must learn of one that is too long rather than of none.
    pub fn handle_ack(&mut self, peer: usize, of: Stream, next: u32, now: Instant) -> Option<Duration> {
        let arrived = |pending: &&Pending| {
            pending.to == peer && stream(&pending.payload) == of && pending.index < next && pending.tries > 0
        };
        let since_first = |pending: &Pending| now.since(pending.sent);
        let arrived = || self.pending.iter().filter(arrived);
        let took = arrived().find(|pending| pending.index + 1 == next && pending.tries == 1).map(since_first);
        let late = arrived().filter(|pending| pending.reported).map(since_first).max();
        let newest = arrived().max_by_key(|pending| pending.index).map(|pending| pending.left);
        self.pending.retain(|pending| pending.to != peer || stream(&pending.payload) != of || pending.index >= next);
        if let (Some(took), Some(channel)) = (took, self.channels.get_mut(peer)) {
            channel.round_trip = match channel.round_trip {
                Duration::ZERO => took,
                known => Duration((known.0 * 7 + took.0) / 8),
            };
        }
        self.follow_up(peer, of, next, newest, now);
        took.max(late)
    }

    /// The message that the peer lacks came too early or not at all, if it left before what the peer took last, or as
    /// long ago as a message and its answer take: it leaves again at once. If each waited for its own repeat, one
    /// message would get through in each such time; if all left again, they would overtake each other again.
    fn follow_up(&mut self, peer: usize, of: Stream, next: u32, newest: Option<Instant>, now: Instant) {
        let round_trip = self.channels.get(peer).map_or(Duration::ZERO, |channel| channel.round_trip);
        let lacking = self.pending.iter_mut().find(|pending| {
            pending.to == peer && stream(&pending.payload) == of && pending.index == next && pending.tries > 0
        });
        let Some(pending) = lacking else { return };
        let overdue = round_trip > Duration::ZERO && now >= pending.left + round_trip;
        if overdue || newest.is_some_and(|newest| pending.left < newest) {
            pending.send_at = now;
            pending.backoff = 0;
        }
    }

    /// Takes message `index` of the peer's stream, if it is the next one. `floor`: the sender has
    /// given up everything before it.
    ///
    /// # Errors
    /// [`Refusal::Duplicate`] or [`Refusal::Early`]; both are acknowledged all the same.
    pub fn take(&mut self, peer: usize, of: Stream, index: u32, floor: u32) -> Result<(), Refusal> {
        let positions = self.channels.get_mut(peer).ok_or(Refusal::Unexpected)?.positions(of);
        positions.next_in = positions.next_in.max(floor);
        if index < positions.next_in {
            return Err(Refusal::Duplicate);
        }
        if index > positions.next_in {
            return Err(Refusal::Early);
        }
        positions.next_in += 1;
        Ok(())
    }

    /// What to acknowledge of the peer's stream.
    #[must_use]
    pub fn next_in(&self, peer: usize, of: Stream) -> u32 {
        self.channels.get(peer).copied().map_or(0, |mut peer| peer.positions(of).next_in)
    }

    /// The next message that is due to leave, for the first time or again.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Departure> {
        self.pending.retain(|pending| now < pending.until);
        let at = self.pending.iter().position(|pending| pending.send_at <= now)?;
        if !self.repeats && !goes_round(&self.pending.get(at)?.payload) {
            let Pending { to, payload, .. } = self.pending.remove(at);
            return Some(Departure { to, body: Body::Plain(payload), again: false });
        }
        let (to, of) = self.pending.get(at).map(|pending| (pending.to, stream(&pending.payload)))?;
        let channel = *self.channels.get(to)?;
        let ours = self.pending.iter().filter(|other| other.to == to && stream(&other.payload) == of);
        let floor = ours.map(|other| other.index).min()?;
        let pending = self.pending.get_mut(at)?;
        let repeat = match channel.round_trip {
            Duration::ZERO => REPEAT_FIRST,
            known => known.times(4).max(REPEAT_MIN),
        };
        let again = pending.tries > 0;
        pending.send_at = now + repeat.times(1 << pending.backoff.min(6)).min(REPEAT_MAX);
        pending.backoff = pending.backoff.saturating_add(1);
        pending.tries = pending.tries.saturating_add(1);
        pending.left = now;
        if !again {
            pending.sent = now;
        }
        let body = Body::Ordered { life: channel.life, index: pending.index, floor, payload: pending.payload };
        Some(Departure { to, body, again })
    }

    /// A peer that has not acknowledged an election's message within `patience`; each message is
    /// reported once.
    pub fn poll_unacknowledged(&mut self, now: Instant, patience: Duration) -> Option<usize> {
        let overdue = self.pending.iter_mut().find(|pending| {
            let late = pending.first_sent().is_some_and(|sent| now >= sent + patience);
            late && !pending.reported && matches!(pending.payload, Payload::Election(_))
        })?;
        overdue.reported = true;
        Some(overdue.to)
    }

    /// When [`Self::poll_unacknowledged`] has something next.
    #[must_use]
    pub fn unacknowledged_at(&self, patience: Duration) -> Option<Instant> {
        let waiting = self.pending.iter().filter(|pending| !pending.reported);
        let elections = waiting.filter(|pending| matches!(pending.payload, Payload::Election(_)));
        elections.filter_map(Pending::first_sent).min().map(|sent| sent + patience)
    }

    /// When [`Self::poll_transmit`] has something next.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.pending.iter().map(|pending| pending.send_at).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use compasso_wire::{ResourceId, message::MutexMessage};

    fn token(serial: u32) -> Payload {
        Payload::Mutex { resource: ResourceId(0), epoch: 1, message: MutexMessage::Token { serial: u64::from(serial) } }
    }

    fn index(departure: &Departure) -> (u32, u32) {
        let Body::Ordered { index, floor, .. } = departure.body else { panic!("{departure:?}") };
        (index, floor)
    }

    #[test]
    fn a_message_is_repeated_until_acknowledged_and_never_after() {
        let mut delivery = Delivery::new(2, true);
        assert!(delivery.send(1, token(1), Instant(0), None));
        assert!(!delivery.poll_transmit(Instant(0)).unwrap().again);
        assert_eq!(delivery.poll_transmit(Instant(39_999)), None);
        assert!(delivery.poll_transmit(Instant(40_000)).unwrap().again);
        assert_eq!(
            delivery.handle_ack(1, Stream::Work, 1, Instant(41_000)),
            None,
            "a repeat tells nothing of the round trip"
        );
        assert_eq!(delivery.poll_timeout(), None);
        assert!(delivery.send(1, token(2), Instant(50_000), None));
        delivery.poll_transmit(Instant(50_000)).unwrap();
        assert_eq!(delivery.handle_ack(1, Stream::Work, 2, Instant(53_000)), Some(Duration(3000)));
    }

    #[test]
    fn what_came_too_early_leaves_again_as_soon_as_the_gap_is_closed() {
        let mut delivery = Delivery::new(2, true);
        for (serial, at) in [(0, 0), (1, 30_000), (2, 30_000), (3, 30_000)] {
            assert!(delivery.send(1, token(serial), Instant(at), None));
            assert_eq!(index(&delivery.poll_transmit(Instant(at)).unwrap()).0, serial);
        }
        // The first was lost, and the others came too early.
        assert_eq!(index(&delivery.poll_transmit(Instant(40_000)).unwrap()).0, 0);
        assert_eq!(delivery.handle_ack(1, Stream::Work, 1, Instant(41_000)), None);
        assert_eq!(index(&delivery.poll_transmit(Instant(41_000)).unwrap()).0, 1);
        assert_eq!(delivery.poll_transmit(Instant(41_000)), None, "the others would come too early again");
        assert_eq!(delivery.handle_ack(1, Stream::Work, 2, Instant(42_000)), None);
        assert_eq!(index(&delivery.poll_transmit(Instant(42_000)).unwrap()).0, 2);
    }

    #[test]
    fn what_is_on_its_way_behind_what_has_just_arrived_is_left_alone() {
        let mut delivery = Delivery::new(2, true);
        for (serial, at) in [(0, 0), (1, 1_000)] {
            assert!(delivery.send(1, token(serial), Instant(at), None));
            delivery.poll_transmit(Instant(at)).unwrap();
        }
        assert_eq!(delivery.handle_ack(1, Stream::Work, 1, Instant(1_500)), Some(Duration(1_500)));
        assert_eq!(delivery.poll_transmit(Instant(1_500)), None);
    }

    #[test]
    fn an_acknowledgement_after_a_report_tells_how_long_to_wait() {
        let mut delivery = Delivery::new(2, true);
        let call = Payload::Election(ElectionMessage::Election { term: compasso_wire::Term(1) });
        assert!(delivery.send(1, call, Instant(0), None));
        delivery.poll_transmit(Instant(0)).unwrap();
        delivery.poll_transmit(Instant(40_000)).unwrap();
        assert_eq!(delivery.poll_unacknowledged(Instant(90_000), Duration(90_000)), Some(1));
        assert_eq!(delivery.handle_ack(1, Stream::Election, 1, Instant(130_000)), Some(Duration(130_000)));
    }

    #[test]
    fn each_message_is_taken_once_and_in_order() {
        let mut delivery = Delivery::new(2, true);
        assert_eq!(delivery.take(1, Stream::Work, 1, 0), Err(Refusal::Early));
        assert_eq!(delivery.take(1, Stream::Work, 0, 0), Ok(()));
        assert_eq!(delivery.take(1, Stream::Work, 0, 0), Err(Refusal::Duplicate));
        assert_eq!(delivery.take(1, Stream::Work, 1, 0), Ok(()));
        assert_eq!(delivery.take(1, Stream::Work, 9, 9), Ok(()), "the sender gave up what lies between");
        assert_eq!(delivery.next_in(1, Stream::Work), 10);
    }

    #[test]
    fn what_has_outlived_its_use_is_skipped_and_the_floor_says_so() {
        let mut delivery = Delivery::new(2, true);
        assert!(delivery.send(1, token(1), Instant(0), Some(Instant(50))));
        assert!(delivery.send(1, token(2), Instant(0), None));
        assert_eq!(index(&delivery.poll_transmit(Instant(0)).unwrap()), (0, 0));
        assert_eq!(index(&delivery.poll_transmit(Instant(50)).unwrap()), (1, 1));
    }

    #[test]
    fn an_election_passes_by_what_else_is_held_up() {
        let mut delivery = Delivery::new(2, true);
        assert_eq!(delivery.take(1, Stream::Work, 1, 0), Err(Refusal::Early));
        assert_eq!(delivery.take(1, Stream::Election, 0, 0), Ok(()));
        assert_eq!((delivery.next_in(1, Stream::Work), delivery.next_in(1, Stream::Election)), (0, 1));
    }

    #[test]
    fn a_new_life_of_the_peer_ends_the_stream() {
        let mut delivery = Delivery::new(2, true);
        delivery.peer_lives(1, 1, |_| false);
        assert!(delivery.send(1, token(1), Instant(0), None));
        delivery.peer_lives(1, 1, |_| false);
        assert!(delivery.is_pending(|_| true));
        delivery.peer_lives(1, 2, |_| false);
        assert!(!delivery.is_pending(|_| true));
        assert!(delivery.send(1, token(2), Instant(0), None));
        assert_eq!(index(&delivery.poll_transmit(Instant(0)).unwrap()), (0, 0));
    }

    #[test]
    fn the_textbooks_channel_sends_once_and_forgets() {
        let mut delivery = Delivery::new(2, false);
        assert!(delivery.send(1, token(1), Instant(0), None));
        assert_eq!(delivery.poll_transmit(Instant(0)).unwrap().body, Body::Plain(token(1)));
        assert_eq!(delivery.poll_timeout(), None);
    }

    #[test]
    fn a_full_channel_refuses() {
        let mut delivery = Delivery::new(2, true);
        for serial in 0..PENDING_MAX as u32 {
            assert!(delivery.send(1, token(serial), Instant(0), None));
        }
        assert!(!delivery.send(1, token(0), Instant(0), None));
    }
}
