//! Election: everybody names the same leader, the one with the highest id.
//!
//! Every election claims a **term**: higher than any that its caller has seen, and never used
//! twice, because it names its claimant. Orders of a lower term than the last elected leader's are
//! refused.

pub mod bully;
pub mod by_detector;
pub mod chang_roberts;
mod circle;
pub mod hirschberg_sinclair;
mod on_circle;
pub mod ring;
#[cfg(test)]
mod tests;

pub use bully::Bully;
pub use by_detector::ByDetector;
pub use chang_roberts::ChangRoberts;
pub use hirschberg_sinclair::HirschbergSinclair;
pub use ring::Ring;

use crate::{
    context::{Algorithm, Context},
    members::Members,
};
use compasso_wire::{Instant, NodeId, NodeSet, Term, config::ElectionChoice, message::ElectionMessage as Message};
use on_circle::OnCircle;

/// What the node asks of its election.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// Hold an election: the coordinator is dead, or this node has just come back.
    Start {
        /// Who was noticed to be dead, if anybody.
        dead: Option<NodeId>,
    },
    /// Somebody's sign of life shows that it leads in this term.
    Observe {
        /// Who.
        leader: NodeId,
        /// Of which term.
        term: Term,
    },
    /// Everybody boots knowing who leads; no election is held.
    Assume {
        /// Who.
        leader: NodeId,
        /// Of which term.
        term: Term,
    },
    /// A term this high exists: claims must be higher.
    Note {
        /// The term.
        term: Term,
    },
    /// Our message to this one was not acknowledged within `T`.
    Unreachable {
        /// Who.
        id: NodeId,
    },
    /// The failure detector suspects this one.
    Suspected {
        /// Who.
        id: NodeId,
    },
    /// The failure detector has taken its suspicion back.
    Trusted {
        /// Who.
        id: NodeId,
    },
}

/// What the election tells its node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// An election of our own began; until it ends nobody is elected.
    Started {
        /// The term we claim.
        term: Term,
    },
    /// We take part in an election that somebody else began; until it ends nobody is elected.
    Joined {
        /// The term that was claimed there.
        term: Term,
    },
    /// The election ended.
    Elected {
        /// Who leads.
        leader: NodeId,
        /// In which term.
        term: Term,
    },
}

/// The place where elections compete: one of them, chosen at run time.
// One of these exists a node, for good: there is nothing to gain from a smaller small one.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Election {
    /// The highest id, for good: elected by a detector that suspects nobody.
    None(ByDetector),
    /// Bully.
    Bully(Bully),
    /// Ring with a list.
    Ring(Ring),
    /// Chang-Roberts.
    ChangRoberts(ChangRoberts),
    /// Hirschberg-Sinclair.
    HirschbergSinclair(HirschbergSinclair),
    /// The highest of those that the failure detector trusts.
    Detector(ByDetector),
}

macro_rules! delegate {
    ($election:expr, $algorithm:ident => $act:expr) => {
        match $election {
            Election::None($algorithm) | Election::Detector($algorithm) => $act,
            Election::Bully($algorithm) => $act,
            Election::Ring($algorithm) => $act,
            Election::ChangRoberts($algorithm) => $act,
            Election::HirschbergSinclair($algorithm) => $act,
        }
    };
}

impl Election {
    /// A node that takes no part yet and knows that `seen` was claimed before.
    #[must_use]
    pub fn new(choice: ElectionChoice, seen: Term) -> Election {
        match choice {
            ElectionChoice::None => Election::None(ByDetector::new(seen)),
            ElectionChoice::Bully => Election::Bully(Bully::new(seen)),
            ElectionChoice::Ring => Election::Ring(Ring::new(seen)),
            ElectionChoice::ChangRoberts => Election::ChangRoberts(ChangRoberts::new(seen)),
            ElectionChoice::HirschbergSinclair => Election::HirschbergSinclair(HirschbergSinclair::new(seen)),
            ElectionChoice::Detector => Election::Detector(ByDetector::new(seen)),
        }
    }

    /// Whom this node names as its leader, and in which term; nobody during an election.
    #[must_use]
    pub fn leader(&self, me: NodeId) -> Option<(NodeId, Term)> {
        delegate!(self, election => election.leader(me))
    }

    /// The highest term seen: what must be remembered over a restart.
    #[must_use]
    pub fn seen(&self) -> Term {
        delegate!(self, election => election.seen())
    }

    /// Whether this node is to take over from a lower one that leads. With messages that is what an election decides;
    /// where the detector elects it is not ours to do while somebody higher lives.
    #[must_use]
    pub fn takes_over(&self, members: &Members) -> bool {
        match self {
            Election::Detector(election) => election.is_highest(members),
            Election::None(_)
            | Election::Bully(_)
            | Election::Ring(_)
            | Election::ChangRoberts(_)
            | Election::HirschbergSinclair(_) => true,
        }
    }

    /// Whose silence the election must hear of, by position.
    #[must_use]
    pub fn watches(&self, members: &Members) -> NodeSet {
        let mut watched = match self {
            Election::Detector(_) => members.all(),
            Election::None(_)
            | Election::Bully(_)
            | Election::Ring(_)
            | Election::ChangRoberts(_)
            | Election::HirschbergSinclair(_) => {
                let leader = self.leader(members.me()).and_then(|(leader, _)| members.position(leader));
                let mut set = NodeSet::EMPTY;
                leader.into_iter().for_each(|position| set.insert(position));
                set
            }
        };
        watched.remove(members.my_position());
        watched
    }
}

impl Algorithm for Election {
    type Message = Message;
    type Command = Command;
    type Event = Event;

    fn handle_command(&mut self, command: Command, cx: &mut Context<'_, Message, Event>) {
        let command = match (&*self, command) {
            // For good means: whatever anybody suspects.
            (Election::None(_), Command::Start { .. }) => Command::Start { dead: None },
            (Election::None(_), Command::Unreachable { .. } | Command::Suspected { .. } | Command::Trusted { .. }) => {
                return;
            }
            (_, command) => command,
        };
        delegate!(self, election => election.handle_command(command, cx));
    }

    fn handle_message(&mut self, from: NodeId, message: Message, cx: &mut Context<'_, Message, Event>) {
        delegate!(self, election => election.handle_message(from, message, cx));
    }

    fn handle_timeout(&mut self, cx: &mut Context<'_, Message, Event>) {
        delegate!(self, election => election.handle_timeout(cx));
    }

    fn poll_timeout(&self) -> Option<Instant> {
        delegate!(self, election => election.poll_timeout())
    }
}
