//! Who is really there: a sender's life is believed only after it has answered a challenge.
//!
//! The tag proves that a datagram was once made with the cluster's key, not that it is fresh. A
//! receiver that has just booted has no window to tell repeats by, and whoever recorded the
//! network could play an old life to it. So a life that is new here is refused until its sender
//! has repeated a number that was never used before. From then on a window tells repeats.

use compasso_wire::{
    Duration, Header, Instant, Refusal,
    limits::{HOSTS_MAX, MEMBERS_MAX},
    message::Challenge,
    replay::ReplayWindow,
};
use heapless::Vec;

/// A challenge is repeated at least once in so many of the first pauses.
const PAUSE_MAX: u64 = 32;

/// Members and hosts.
const PEERS_MAX: usize = MEMBERS_MAX + HOSTS_MAX;

/// One peer, as far as it has proven itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Peer {
    /// Nothing is believed.
    Stranger,
    /// This life is the present one.
    Proven { incarnation: u32, window: ReplayWindow },
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    peer: Peer,
    open: Option<Open>,
}

/// A challenge that was not answered yet.
#[derive(Clone, Copy, Debug)]
struct Open {
    challenge: Challenge,
    again_at: Instant,
    pause: Duration,
}

/// What a proof changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Proven {
    /// The first life of this peer that we know.
    First,
    /// It has begun a new life since we last heard of it.
    Reborn,
    /// Nothing: the life was already proven.
    Same,
}

/// The sessions with every member and, last, with the hosts.
#[derive(Clone, Debug)]
pub struct Sessions {
    slots: Vec<Slot, PEERS_MAX>,
    incarnation: u32,
    challenges: u32,
    /// From one challenge to the same peer to the next.
    every: Duration,
}

impl Sessions {
    /// Sessions with `count` peers, none of them proven, for a challenger in its life `incarnation`.
    #[must_use]
    pub fn new(count: usize, incarnation: u32, every: Duration) -> Sessions {
        let slot = Slot { peer: Peer::Stranger, open: None };
        Sessions { slots: (0..count.min(PEERS_MAX)).map(|_| slot).collect(), incarnation, challenges: 0, every }
    }

    /// The life of the peer in `slot` that has proven itself.
    #[must_use]
    pub fn incarnation(&self, slot: usize) -> Option<u32> {
        match self.slots.get(slot)?.peer {
            Peer::Stranger => None,
            Peer::Proven { incarnation, .. } => Some(incarnation),
        }
    }

    /// Whether a datagram of this life and number may be taken.
    ///
    /// # Errors
    /// The reason why not. After [`Refusal::Unproven`] the sender should be challenged.
    pub fn admit(&mut self, slot: usize, header: &Header) -> Result<(), Refusal> {
        let slot = self.slots.get_mut(slot).ok_or(Refusal::NotAMember(header.sender))?;
        match &mut slot.peer {
            Peer::Proven { incarnation, window } if *incarnation == header.incarnation => {
                if window.take(header.sequence) { Ok(()) } else { Err(Refusal::Replayed) }
            }
            Peer::Proven { incarnation, .. } if *incarnation > header.incarnation => Err(Refusal::PastLife),
            Peer::Proven { .. } | Peer::Stranger => Err(Refusal::Unproven),
        }
    }

    /// Believes a life that is new here without asking, and says what that changed: for executions in which
    /// nobody may say anything but what the script asks for.
    pub fn trust(&mut self, slot: usize, header: &Header) -> Option<Proven> {
        let slot = self.slots.get_mut(slot)?;
        let proven = match slot.peer {
            Peer::Stranger => Proven::First,
            Peer::Proven { incarnation, .. } if incarnation < header.incarnation => Proven::Reborn,
            Peer::Proven { .. } => return None,
        };
        slot.peer = Peer::Proven { incarnation: header.incarnation, window: ReplayWindow::starting_after(0) };
        Some(proven)
    }

    /// A challenge for the peer, unless one was sent a moment ago. One that was not answered is sent
    /// again as it was, ever more rarely: on a slow network its answer may still be on its way.
    pub fn challenge(&mut self, slot: usize, now: Instant) -> Option<Challenge> {
        let slot = self.slots.get_mut(slot)?;
        let (challenge, pause) = match slot.open {
            Some(open) if now < open.again_at => return None,
            Some(open) => (open.challenge, open.pause.times(2).min(self.every.times(PAUSE_MAX))),
            None => {
                self.challenges += 1;
                (Challenge { incarnation: self.incarnation, count: self.challenges }, self.every)
            }
        };
        slot.open = Some(Open { challenge, again_at: now + pause, pause });
        Some(challenge)
    }

    /// The peer's answer to a challenge. Its own number starts the window: nothing older is fresh.
    ///
    /// # Errors
    /// [`Refusal::Replayed`] if that challenge is not open, [`Refusal::PastLife`] if a later life
    /// has proven itself already.
    pub fn prove(&mut self, slot: usize, header: &Header, challenge: Challenge) -> Result<Proven, Refusal> {
        let slot = self.slots.get_mut(slot).ok_or(Refusal::NotAMember(header.sender))?;
        if slot.open.is_none_or(|open| open.challenge != challenge) {
            return Err(Refusal::Replayed);
        }
        let proven = match slot.peer {
            Peer::Stranger => Proven::First,
            Peer::Proven { incarnation, .. } if incarnation > header.incarnation => return Err(Refusal::PastLife),
            Peer::Proven { incarnation, .. } if incarnation == header.incarnation => Proven::Same,
            Peer::Proven { .. } => Proven::Reborn,
        };
        slot.open = None;
        if proven != Proven::Same {
            let window = ReplayWindow::starting_after(header.sequence);
            slot.peer = Peer::Proven { incarnation: header.incarnation, window };
        }
        Ok(proven)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use compasso_wire::{NodeId, Vector};

    fn header(incarnation: u32, sequence: u32) -> Header {
        Header {
            cluster: 1,
            sender: NodeId(0),
            incarnation,
            sequence,
            snapshot: 0,
            lamport: 0,
            vector: Vector::default(),
        }
    }

    fn sessions() -> Sessions {
        Sessions::new(2, 7, Duration(1000))
    }

    #[test]
    fn a_life_is_believed_only_after_it_has_answered_a_fresh_challenge() {
        let mut sessions = sessions();
        assert_eq!(sessions.admit(0, &header(1, 5)), Err(Refusal::Unproven));
        let challenge = sessions.challenge(0, Instant(0)).unwrap();
        assert_eq!(sessions.challenge(0, Instant(999)), None, "one at a time");
        assert_eq!(sessions.challenge(0, Instant(1000)), Some(challenge), "repeated as it was");
        assert_eq!(sessions.challenge(0, Instant(2999)), None, "more rarely");
        let stale = Challenge { count: challenge.count + 1, ..challenge };
        assert_eq!(sessions.prove(0, &header(1, 6), stale), Err(Refusal::Replayed));
        assert_eq!(sessions.prove(0, &header(1, 6), challenge), Ok(Proven::First));
        assert_eq!(sessions.admit(0, &header(1, 5)), Err(Refusal::Replayed), "from before the proof");
        assert_eq!(sessions.admit(0, &header(1, 7)), Ok(()));
        assert_eq!(sessions.admit(0, &header(1, 7)), Err(Refusal::Replayed));
        assert_eq!(sessions.prove(0, &header(1, 9), challenge), Err(Refusal::Replayed), "a proof counts once");
    }

    #[test]
    fn where_lives_are_trusted_a_repeat_and_a_past_life_are_refused_all_the_same() {
        let mut sessions = sessions();
        assert_eq!(sessions.trust(0, &header(1, 5)), Some(Proven::First));
        assert_eq!(sessions.trust(0, &header(1, 5)), None);
        assert_eq!(sessions.admit(0, &header(1, 5)), Ok(()));
        assert_eq!(sessions.admit(0, &header(1, 3)), Ok(()), "overtaken, and not seen before");
        assert_eq!(sessions.admit(0, &header(1, 5)), Err(Refusal::Replayed));
        assert_eq!(sessions.trust(0, &header(2, 1)), Some(Proven::Reborn));
        assert_eq!(sessions.trust(0, &header(1, 6)), None);
        assert_eq!(sessions.admit(0, &header(1, 6)), Err(Refusal::PastLife));
    }

    #[test]
    fn a_new_life_ends_the_old_one_for_good() {
        let mut sessions = sessions();
        let first = sessions.challenge(0, Instant(0)).unwrap();
        sessions.prove(0, &header(1, 1), first).unwrap();
        assert_eq!(sessions.admit(0, &header(2, 1)), Err(Refusal::Unproven));
        let second = sessions.challenge(0, Instant(5000)).unwrap();
        assert_eq!(sessions.prove(0, &header(2, 2), second), Ok(Proven::Reborn));
        assert_eq!(sessions.admit(0, &header(1, 100)), Err(Refusal::PastLife));
        let third = sessions.challenge(0, Instant(9000)).unwrap();
        assert_eq!(sessions.prove(0, &header(1, 101), third), Err(Refusal::PastLife));
        assert_eq!(sessions.incarnation(0), Some(2));
        assert_eq!(sessions.incarnation(1), None);
    }
}
