//! Delivery: the reliable, ordered channels that the textbook takes for granted.
//!
//! From each sender's life to each receiver's life runs a stream of numbered messages. A message
//! is repeated until it is acknowledged or has outlived its use; the receiver takes each once and
//! in order. The stream ends with either life: what an earlier life was told is lost with it.

use compasso_wire::{Body, Duration, Instant, Payload, Refusal, limits::MEMBERS_MAX};
use heapless::Vec;

/// Messages that may await acknowledgement, over all peers.
pub const PENDING_MAX: usize = 2 * MEMBERS_MAX;

/// A repeat waits at least so long, ...
const REPEAT_MIN: Duration = Duration::from_millis(10);
/// ... at first so long, ...
const REPEAT_FIRST: Duration = Duration::from_millis(40);
/// ... and at most so long.
const REPEAT_MAX: Duration = Duration::from_millis(400);

#[derive(Clone, Debug)]
struct Pending {
    to: usize,
    index: u32,
    payload: Payload,
    /// Not worth repeating after this.
    until: Option<Instant>,
    send_at: Instant,
    first_sent: Option<Instant>,
    tries: u8,
}

#[derive(Clone, Copy, Debug)]
struct Channel {
    /// The peer's life that our stream leads to; 0 while it is unknown.
    life: u32,
    next_out: u32,
    next_in: u32,
    /// Smoothed round trip; 0 while unknown.
    round_trip: Duration,
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
    channels: Vec<Channel, MEMBERS_MAX>,
    pending: Vec<Pending, PENDING_MAX>,
}

impl Delivery {
    /// Empty channels to `count` members.
    #[must_use]
    pub fn new(count: usize) -> Delivery {
        let channel = Channel { life: 0, next_out: 0, next_in: 0, round_trip: Duration::ZERO };
        Delivery { channels: (0..count.min(MEMBERS_MAX)).map(|_| channel).collect(), pending: Vec::new() }
    }

    /// Puts a message into the stream to `to`, to be repeated until `until`. False if too many wait.
    #[must_use]
    pub fn send(&mut self, to: usize, payload: Payload, now: Instant, until: Option<Instant>) -> bool {
        let Some(channel) = self.channels.get_mut(to) else { return false };
        let pending = Pending { to, index: channel.next_out, payload, until, send_at: now, first_sent: None, tries: 0 };
        let fits = self.pending.push(pending).is_ok();
        if fits {
            channel.next_out += 1;
        }
        fits
    }

    /// The peer lives, in this life. A new one ends both streams and all that was in them.
    pub fn peer_lives(&mut self, peer: usize, life: u32) {
        let Some(channel) = self.channels.get_mut(peer) else { return };
        if channel.life != 0 && channel.life != life {
            *channel = Channel { life, next_out: 0, next_in: 0, round_trip: channel.round_trip };
            self.pending.retain(|pending| pending.to != peer);
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

    /// The peer has everything before `next`. Returns how long the newest of it took, if it was
    /// sent once only.
    pub fn handle_ack(&mut self, peer: usize, next: u32, now: Instant) -> Option<Duration> {
        let took = self
            .pending
            .iter()
            .filter(|pending| pending.to == peer && pending.index + 1 == next && pending.tries == 1)
            .find_map(|pending| pending.first_sent)
            .map(|sent| now.since(sent));
        self.pending.retain(|pending| pending.to != peer || pending.index >= next);
        if let (Some(took), Some(channel)) = (took, self.channels.get_mut(peer)) {
            channel.round_trip = match channel.round_trip {
                Duration::ZERO => took,
                known => Duration((known.0 * 7 + took.0) / 8),
            };
        }
        took
    }

    /// Takes message `index` of the peer's stream, if it is the next one. `floor`: the sender has
    /// given up everything before it.
    ///
    /// # Errors
    /// [`Refusal::Duplicate`] or [`Refusal::Early`]; both are acknowledged all the same.
    pub fn take(&mut self, peer: usize, index: u32, floor: u32) -> Result<(), Refusal> {
        let channel = self.channels.get_mut(peer).ok_or(Refusal::Unexpected)?;
        channel.next_in = channel.next_in.max(floor);
        if index < channel.next_in {
            return Err(Refusal::Duplicate);
        }
        if index > channel.next_in {
            return Err(Refusal::Early);
        }
        channel.next_in += 1;
        Ok(())
    }

    /// What to acknowledge to the peer.
    #[must_use]
    pub fn next_in(&self, peer: usize) -> u32 {
        self.channels.get(peer).map_or(0, |channel| channel.next_in)
    }

    /// The next message that is due to leave, for the first time or again.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Departure> {
        self.pending.retain(|pending| pending.until.is_none_or(|until| now < until));
        let at = self.pending.iter().position(|pending| pending.send_at <= now)?;
        let to = self.pending.get(at)?.to;
        let channel = *self.channels.get(to)?;
        let floor = self.pending.iter().filter(|other| other.to == to).map(|other| other.index).min()?;
        let pending = self.pending.get_mut(at)?;
        let repeat = match channel.round_trip {
            Duration::ZERO => REPEAT_FIRST,
            known => known.times(4).max(REPEAT_MIN),
        };
        let again = pending.tries > 0;
        pending.send_at = now + repeat.times(1 << pending.tries.min(6)).min(REPEAT_MAX);
        pending.tries = pending.tries.saturating_add(1);
        pending.first_sent.get_or_insert(now);
        let body = Body::Ordered { life: channel.life, index: pending.index, floor, payload: pending.payload.clone() };
        Some(Departure { to, body, again })
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
        Payload::Mutex(ResourceId(0), MutexMessage::Token { epoch: 1, serial })
    }

    fn index(departure: &Departure) -> (u32, u32) {
        let Body::Ordered { index, floor, .. } = departure.body else { panic!("{departure:?}") };
        (index, floor)
    }

    #[test]
    fn a_message_is_repeated_until_acknowledged_and_never_after() {
        let mut delivery = Delivery::new(2);
        assert!(delivery.send(1, token(1), Instant(0), None));
        assert!(!delivery.poll_transmit(Instant(0)).unwrap().again);
        assert_eq!(delivery.poll_transmit(Instant(39_999)), None);
        assert!(delivery.poll_transmit(Instant(40_000)).unwrap().again);
        assert_eq!(delivery.handle_ack(1, 1, Instant(41_000)), None, "a repeat tells nothing of the round trip");
        assert_eq!(delivery.poll_timeout(), None);
        assert!(delivery.send(1, token(2), Instant(50_000), None));
        delivery.poll_transmit(Instant(50_000)).unwrap();
        assert_eq!(delivery.handle_ack(1, 2, Instant(53_000)), Some(Duration(3000)));
    }

    #[test]
    fn each_message_is_taken_once_and_in_order() {
        let mut delivery = Delivery::new(2);
        assert_eq!(delivery.take(1, 1, 0), Err(Refusal::Early));
        assert_eq!(delivery.take(1, 0, 0), Ok(()));
        assert_eq!(delivery.take(1, 0, 0), Err(Refusal::Duplicate));
        assert_eq!(delivery.take(1, 1, 0), Ok(()));
        assert_eq!(delivery.take(1, 9, 9), Ok(()), "the sender gave up what lies between");
        assert_eq!(delivery.next_in(1), 10);
    }

    #[test]
    fn what_has_outlived_its_use_is_skipped_and_the_floor_says_so() {
        let mut delivery = Delivery::new(2);
        assert!(delivery.send(1, token(1), Instant(0), Some(Instant(50))));
        assert!(delivery.send(1, token(2), Instant(0), None));
        assert_eq!(index(&delivery.poll_transmit(Instant(0)).unwrap()), (0, 0));
        assert_eq!(index(&delivery.poll_transmit(Instant(50)).unwrap()), (1, 1));
    }

    #[test]
    fn a_new_life_of_the_peer_ends_the_stream() {
        let mut delivery = Delivery::new(2);
        delivery.peer_lives(1, 1);
        assert!(delivery.send(1, token(1), Instant(0), None));
        delivery.peer_lives(1, 1);
        assert!(delivery.is_pending(|_| true));
        delivery.peer_lives(1, 2);
        assert!(!delivery.is_pending(|_| true));
        assert!(delivery.send(1, token(2), Instant(0), None));
        assert_eq!(index(&delivery.poll_transmit(Instant(0)).unwrap()), (0, 0));
    }

    #[test]
    fn a_full_channel_refuses() {
        let mut delivery = Delivery::new(2);
        for serial in 0..PENDING_MAX as u32 {
            assert!(delivery.send(1, token(serial), Instant(0), None));
        }
        assert!(!delivery.send(1, token(0), Instant(0), None));
    }
}
