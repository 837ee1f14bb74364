//! The place for which the algorithms of mutual exclusion compete: one image runs them all.

use super::{
    Central, Command, Cx, Event, Lamport, Maekawa, MaekawaPlain, RicartAgrawala, SuzukiKasami, TokenRing, Voting,
    VotingSets,
};
use crate::{context::Algorithm, members::Members};
use compasso_wire::{
    Duration, Instant, Lists, NodeId, NodeSet, config::MutexChoice, limits::MEMBERS_MAX, message::MutexMessage,
};
use heapless::Vec;

/// One node's part in the algorithm of the scenario's choice, for one resource and one view.
// A resource has one of these for good: there is nothing to gain from a smaller small one.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Mutex {
    /// Nobody takes turns: whoever asks is never answered.
    None,
    /// One server, the coordinator.
    Central(Central),
    /// Decentralised voting.
    Voting(Voting),
    /// Lamport 1978.
    Lamport(Lamport),
    /// Ricart-Agrawala.
    RicartAgrawala(RicartAgrawala),
    /// A token on a ring.
    TokenRing(TokenRing),
    /// A token with sequence numbers.
    SuzukiKasami(SuzukiKasami),
    /// Maekawa's voting sets, without care for deadlock.
    MaekawaPlain(MaekawaPlain),
    /// Maekawa's voting sets, deadlock free.
    Maekawa(Maekawa),
}

/// The algorithm inside, whichever it is; `$none` where there is none.
macro_rules! delegate {
    ($mutex:expr, $algorithm:ident => $act:expr, $none:expr) => {
        match $mutex {
            Mutex::None => $none,
            Mutex::Central($algorithm) => $act,
            Mutex::Voting($algorithm) => $act,
            Mutex::Lamport($algorithm) => $act,
            Mutex::RicartAgrawala($algorithm) => $act,
            Mutex::TokenRing($algorithm) => $act,
            Mutex::SuzukiKasami($algorithm) => $act,
            Mutex::MaekawaPlain($algorithm) => $act,
            Mutex::Maekawa($algorithm) => $act,
        }
    };
}

impl Mutex {
    /// The chosen algorithm at the beginning of a view; an idle ring token rests for `token_rest`.
    #[must_use]
    pub fn new(choice: &MutexChoice, members: &Members, token_rest: Duration) -> Mutex {
        let voting_sets = |given: &Option<Vec<NodeSet, MEMBERS_MAX>>| VotingSets::new(given.as_deref(), members);
        match choice {
            MutexChoice::None => Mutex::None,
            MutexChoice::Central => Mutex::Central(Central::new()),
            MutexChoice::Voting { replicas } => Mutex::Voting(Voting::new(*replicas)),
            MutexChoice::Lamport => Mutex::Lamport(Lamport::new()),
            MutexChoice::RicartAgrawala { by_priority, answers_deferred } => {
                Mutex::RicartAgrawala(RicartAgrawala::new(*by_priority, *answers_deferred))
            }
            MutexChoice::TokenRing => Mutex::TokenRing(TokenRing::new(token_rest)),
            MutexChoice::SuzukiKasami => Mutex::SuzukiKasami(SuzukiKasami::new()),
            MutexChoice::MaekawaPlain { sets } => Mutex::MaekawaPlain(MaekawaPlain::new(voting_sets(sets))),
            MutexChoice::Maekawa { sets } => Mutex::Maekawa(Maekawa::new(voting_sets(sets))),
        }
    }

    /// Whether there is a token, which can be lost.
    #[must_use]
    pub fn uses_token(&self) -> bool {
        self.token().is_some()
    }

    /// Whether the token is here.
    #[must_use]
    pub fn has_token(&self) -> bool {
        self.token() == Some(true)
    }

    /// Whether requests of a view are granted in happened-before order (ME3).
    #[must_use]
    pub fn promises_order(&self) -> bool {
        if let Mutex::RicartAgrawala(algorithm) = self {
            algorithm.promises_order()
        } else {
            matches!(self, Mutex::Lamport(_))
        }
    }

    /// Whether the token is here; nothing where there is none.
    fn token(&self) -> Option<bool> {
        if let Mutex::TokenRing(algorithm) = self {
            Some(algorithm.has_token())
        } else if let Mutex::SuzukiKasami(algorithm) = self {
            Some(algorithm.has_token())
        } else {
            None
        }
    }
}

impl Algorithm for Mutex {
    type Message = MutexMessage;
    type Command = Command;
    type Event = Event;

    fn handle_command(&mut self, command: Command, cx: &mut Cx<'_>) {
        delegate!(self, algorithm => algorithm.handle_command(command, cx), ());
    }

    fn handle_message(&mut self, from: NodeId, message: MutexMessage, cx: &mut Cx<'_>) {
        delegate!(self, algorithm => algorithm.handle_message(from, message, cx), ());
    }

    fn handle_timeout(&mut self, cx: &mut Cx<'_>) {
        delegate!(self, algorithm => algorithm.handle_timeout(cx), ());
    }

    fn poll_timeout(&self) -> Option<Instant> {
        delegate!(self, algorithm => algorithm.poll_timeout(), None)
    }

    fn lists(&self, message: &MutexMessage) -> Lists {
        delegate!(self, algorithm => algorithm.lists(message), Lists::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutex::testing::{Random, Room, members, three_sets};
    use std::vec::Vec;

    fn correct(count: usize) -> [MutexChoice; 10] {
        let sets = (count == 3).then(three_sets);
        [
            MutexChoice::Central,
            MutexChoice::Voting { replicas: count as u16 },
            MutexChoice::Voting { replicas: 3 },
            MutexChoice::Lamport,
            MutexChoice::RicartAgrawala { by_priority: false, answers_deferred: false },
            MutexChoice::RicartAgrawala { by_priority: false, answers_deferred: true },
            MutexChoice::TokenRing,
            MutexChoice::SuzukiKasami,
            MutexChoice::Maekawa { sets: None },
            MutexChoice::Maekawa { sets },
        ]
    }

    fn make(choice: &MutexChoice, ids: &[u16]) -> impl Fn(NodeId) -> Mutex {
        move |id| Mutex::new(choice, &members(ids, id), Duration::from_millis(20))
    }

    fn room(choice: &MutexChoice, ids: &[u16]) -> Room<Mutex> {
        Room::new(ids, make(choice, ids))
    }

    fn shuffled_ids(count: usize, random: &mut Random) -> Vec<u16> {
        let mut ids: Vec<u16> = (0..count as u16).map(|id| id * 3 + 1).collect();
        for at in (1..count).rev() {
            ids.swap(at, random.below(at + 1));
        }
        ids
    }

    /// The room itself asserts that there are never two inside, that serials grow from entry to
    /// entry, and that everybody is served.
    #[test]
    fn whatever_the_order_of_delivery_one_at_a_time_enters_and_everybody_does() {
        for count in 2..=9 {
            for choice in correct(count) {
                for seed in 0..200 {
                    let mut random = Random(seed * 1000 + count as u64);
                    let ids = shuffled_ids(count, &mut random);
                    let mut room = room(&choice, &ids);
                    room.label = format!("{choice:?}, {count} nodes, seed {seed}");
                    room.storm(seed, 3);
                    assert_eq!(room.entries.len(), 3 * count);
                    if room.node(ids[0]).promises_order() {
                        assert!(room.entries.is_sorted_by_key(|entry| (entry.stamp, entry.id)), "{}", room.label);
                    }
                }
            }
        }
    }

    #[test]
    fn the_same_holds_in_a_view_without_some_of_the_members() {
        for count in 5..=9 {
            for choice in correct(count) {
                for seed in 0..50 {
                    let mut random = Random(seed * 1000 + count as u64);
                    let ids = shuffled_ids(count, &mut random);
                    let absent = ids[random.below(count)];
                    let mut room = Room::in_view(&ids, &[absent], make(&choice, &ids));
                    room.label = format!("{choice:?}, {count} nodes less one, seed {seed}");
                    room.storm(seed, 3);
                    assert_eq!(room.entries.len(), 3 * (count - 1));
                }
            }
        }
    }

    #[test]
    fn some_order_of_delivery_breaks_priorities_and_some_deadlocks_the_plain_maekawa() {
        let by_priority = MutexChoice::RicartAgrawala { by_priority: true, answers_deferred: false };
        let broken = (0..200).filter(|seed| {
            let mut room = room(&by_priority, &[0, 1, 2, 3]);
            room.tolerant = true;
            room.storm(*seed, 3);
            room.most_inside > 1
        });
        assert!(broken.count() > 0);
        let stuck = (0..200).filter(|seed| {
            let mut room = room(&MutexChoice::MaekawaPlain { sets: Some(three_sets()) }, &[0, 1, 2]);
            room.tolerant = true;
            room.storm(*seed, 3);
            assert!(room.most_inside <= 1, "ME1 holds all the same");
            room.entries.len() < 9
        });
        assert!(stuck.count() > 0);
    }

    #[test]
    fn a_message_of_another_algorithm_changes_nothing() {
        let foreign = |choice: &MutexChoice, message: &MutexMessage| match message {
            MutexMessage::Token { .. } => *choice != MutexChoice::TokenRing,
            MutexMessage::NumberedRequest { .. } => *choice != MutexChoice::SuzukiKasami,
            MutexMessage::Acknowledge { .. } => *choice != MutexChoice::Lamport,
            MutexMessage::Ok { .. } | MutexMessage::Deferred { .. } => {
                !matches!(choice, MutexChoice::RicartAgrawala { .. })
            }
            MutexMessage::Denied { .. } => !matches!(choice, MutexChoice::Voting { .. }),
            MutexMessage::Inquire { .. } | MutexMessage::Yield { .. } | MutexMessage::Fail { .. } => {
                !matches!(choice, MutexChoice::Maekawa { .. })
            }
            MutexMessage::Request { .. }
            | MutexMessage::ListToken { .. }
            | MutexMessage::Grant { .. }
            | MutexMessage::Release { .. } => false,
        };
        let messages = [
            MutexMessage::Token { serial: 3 },
            MutexMessage::NumberedRequest { number: 1 },
            MutexMessage::Acknowledge { stamp: 1 },
            MutexMessage::Ok { stamp: 1 },
            MutexMessage::Deferred { stamp: 1 },
            MutexMessage::Denied { stamp: 1 },
            MutexMessage::Inquire { stamp: 1 },
            MutexMessage::Yield { stamp: 1 },
            MutexMessage::Fail { stamp: 1 },
        ];
        for choice in correct(3) {
            for message in messages.iter().filter(|message| foreign(&choice, message)) {
                let mut room = room(&choice, &[0, 1, 2]);
                room.request(0);
                let before = (room.node(0).clone(), room.sent.len());
                room.message(0, 1, *message);
                assert_eq!((room.node(0), room.sent.len()), (&before.0, before.1), "{choice:?} {message:?}");
            }
        }
    }

    #[test]
    fn one_token_exists_where_there_is_one() {
        for choice in correct(4) {
            let room = room(&choice, &[0, 1, 2, 3]);
            let holders = room.live().filter(|(_, node)| node.has_token()).count();
            assert_eq!(holders, usize::from(room.node(0).uses_token()));
        }
    }
}
