//! Turns: one resource's algorithm, its guardian, and the application's wish to enter.
//!
//! An entry is a lease with a fence. The algorithm says whose turn it is; a node enters only while
//! its membership lease is valid and its view is not about to change, shows its fence to the
//! resource's keeper, and leaves when the keeper has answered. If its lease ends inside, it is inside
//! no more: it asks the keeper once more, and a refusal is reported as `fenced`.

use compasso_algorithms::{
    Algorithm, Members,
    mutex::{Guardian, Mutex},
};
use compasso_wire::{
    Duration, Fence, Instant,
    config::{MutexChoice, Timing},
};
use core::num::NonZeroU64;
use heapless::Deque;

/// Requests that may wait behind the present one.
pub const WAITING_MAX: usize = 8;

/// A request to be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wish {
    /// Time inside.
    pub hold: Duration,
    /// The request's Lamport time, if a script wants it to be exactly this.
    pub lamport: Option<NonZeroU64>,
}

/// Where the application stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Client {
    /// Outside, and content.
    Outside,
    /// Wants to enter and then to stay so long.
    Wanting {
        /// Time inside.
        hold: Duration,
        /// Lamport time of the request.
        stamp: u64,
    },
    /// It is its turn, but it may not be inside yet.
    Admitted {
        /// Time inside.
        hold: Duration,
        /// Lamport time of the request.
        stamp: u64,
        /// The entry's fence.
        fence: Fence,
    },
    /// Inside.
    Inside {
        /// The entry's fence.
        fence: Fence,
        /// When the work is done.
        leave_at: Instant,
        /// When the keeper is asked again; nothing once it has answered.
        ask_at: Option<Instant>,
        /// The lease as it was last reported.
        lease_until: Option<Instant>,
    },
    /// The lease ended inside; the keeper decides what the work was worth.
    Overdue {
        /// The entry's fence.
        fence: Fence,
        /// When the keeper is asked again.
        ask_at: Instant,
    },
}

/// One resource, as one node sees it.
pub struct Turn {
    /// Whose turn it is.
    pub mutex: Mutex,
    /// The token's guardian.
    pub guardian: Guardian,
    /// The application.
    pub client: Client,
    /// Requests that wait behind the present one.
    pub waiting: Deque<Wish, WAITING_MAX>,
    /// Lose the token when it is next here.
    pub drop_token: bool,
}

impl Turn {
    /// A resource that nobody here wants.
    #[must_use]
    pub fn new(choice: &MutexChoice, members: &Members, timing: &Timing) -> Turn {
        Turn {
            mutex: Mutex::new(choice, members, timing.token_rest),
            guardian: Guardian::new(timing.lease),
            client: Client::Outside,
            waiting: Deque::new(),
            drop_token: false,
        }
    }

    /// Whether somebody is inside here.
    #[must_use]
    pub fn is_inside(&self) -> bool {
        matches!(self.client, Client::Inside { .. })
    }

    /// When something is due, and why; the algorithm only where it goes on by itself.
    pub fn timeouts(&self, takes_turns: bool) -> impl Iterator<Item = (Instant, &'static str)> + '_ {
        let mutex = self.mutex.poll_timeout().filter(|_| takes_turns).map(|at| (at, "mutual exclusion"));
        let guardian = self.guardian.poll_timeout().map(|at| (at, "guardian"));
        [mutex, guardian, self.client_timeout()].into_iter().flatten()
    }

    fn client_timeout(&self) -> Option<(Instant, &'static str)> {
        match self.client {
            Client::Outside | Client::Wanting { .. } | Client::Admitted { .. } => None,
            Client::Inside { leave_at, ask_at, lease_until, .. } => {
                let work = match ask_at {
                    Some(ask_at) => (ask_at, "ask the keeper"),
                    None => (leave_at, "leave"),
                };
                match lease_until {
                    Some(until) if until < work.0 => Some((until, "lease ends")),
                    Some(_) | None => Some(work),
                }
            }
            Client::Overdue { ask_at, .. } => Some((ask_at, "ask the keeper")),
        }
    }
}
