//! The token's guardian: notices that the token is lost, and makes a new one with a higher epoch.
//! Promise: at most one token of each epoch, and none of an older epoch is accepted once a newer
//! one exists.
//! Assumes a coordinator whose view holds a majority, and that whoever is not in the view has no
//! valid lease: the membership installs a view only after the leases of those left out have ended.
//!
//! The coordinator asks every member of its view whether it has the token (a *census*). A token on
//! its way can be missed by one census: the receiver answers before it arrives, the sender after.
//! But it cannot be missed by two in a row that saw the same highest serial: had it moved between
//! them, the serial would have grown; had it been under way during both, its sender, which keeps
//! custody until it learns of the arrival, would have answered for it in the first. So two empty
//! counts with one serial mean that it is lost. Every member then promises (a *seal*) to accept no
//! token below the new epoch, and only then is the new token made.

use crate::context::{Context, Delays};
use compasso_wire::{Duration, Fence, Instant, NodeSet, Term, message::TokenSighting};

/// What the guardian asks the view's members, by broadcast.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Question {
    /// Who has seen the token?
    Census {
        /// Which count.
        round: u32,
    },
    /// Accept no token below this epoch any more.
    Seal {
        /// The epoch that is about to begin.
        epoch: u32,
    },
}

/// What the guardian tells its node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// Make a token of this epoch, here.
    Make {
        /// The epoch.
        epoch: u32,
        /// There was one before: this one replaces it.
        replaces: bool,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    /// Not the coordinator, or without authority.
    Bystander,
    /// The token was seen lately; look again at that time.
    Watching { seen: Fence, count_at: Instant },
    /// Counting: who of `missing` has not answered yet.
    Counting {
        round: u32,
        missing: NodeSet,
        highest: Fence,
        custody: bool,
        before: Option<Fence>,
        ask_again_at: Instant,
    },
    /// Sealing: who of `missing` has not promised yet.
    Sealing { epoch: u32, missing: NodeSet, replaces: bool, ask_again_at: Instant },
}

/// One node's part in guarding one token: its own promises, and the coordinator's work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Guardian {
    seen: Fence,
    sealed: u32,
    /// To whom the seal was promised: the same asker may ask again.
    sealed_for: Term,
    role: Role,
    round: u32,
    /// How long a token may stay out of sight before it is looked for.
    patience: Duration,
}

type Cx<'a> = Context<'a, Question, Event>;

impl Guardian {
    /// A node that promised in an earlier life to accept no token below `sealed`.
    #[must_use]
    pub fn new(sealed: u32, patience: Duration) -> Guardian {
        Guardian {
            seen: Fence::new(sealed, 0),
            sealed,
            sealed_for: Term::ZERO,
            role: Role::Bystander,
            round: 0,
            patience,
        }
    }

    /// Whether this token may be accepted: it is no repeat, and of no epoch that has been replaced.
    #[must_use]
    pub fn admits(&self, token: Fence) -> bool {
        token.epoch() >= self.sealed && token > self.seen
    }

    /// A token with these numbers is here, or has just left for the next node.
    pub fn saw(&mut self, token: Fence) {
        self.seen = self.seen.max(token);
    }

    /// The lowest epoch that this node still accepts: what must be remembered over a restart.
    #[must_use]
    pub fn sealed(&self) -> u32 {
        self.sealed
    }

    /// The answer to a census, given whether the token is in this node's hands.
    #[must_use]
    pub fn sighting(&self, custody: bool) -> TokenSighting {
        TokenSighting { seen: self.seen.max(Fence::new(self.sealed, 0)), custody }
    }

    /// Promises the leader of `term` not to accept tokens below `epoch`, unless that much or more
    /// is already promised to another.
    pub fn seal(&mut self, epoch: u32, term: Term) -> bool {
        if epoch > self.sealed {
            self.sealed = epoch;
            self.sealed_for = term;
        }
        epoch == self.sealed && term == self.sealed_for
    }

    /// A newer token than those below `epoch` is known to exist.
    pub fn retire(&mut self, epoch: u32) {
        self.sealed = self.sealed.max(epoch);
    }

    /// This node is the coordinator, and its view `cx.view` is in force; or it is not any more.
    pub fn appoint(&mut self, authority: bool, cx: &mut Cx<'_>) {
        match (authority, self.role) {
            // Whoever is not in this view may have had the token: look for it at once.
            (true, Role::Bystander | Role::Watching { .. }) => {
                self.role = Role::Watching { seen: self.seen, count_at: cx.now };
            }
            // The view changed under the count: whoever left may have had the token.
            (true, Role::Counting { .. } | Role::Sealing { .. }) => self.count(None, cx),
            (false, _) => self.role = Role::Bystander,
        }
    }

    /// A member's answer to the census.
    pub fn handle_sighting(&mut self, position: usize, round: u32, sighting: TokenSighting, cx: &mut Cx<'_>) {
        if let Role::Counting { round: current, missing, highest, custody, .. } = &mut self.role
            && *current == round
            && missing.contains(position)
        {
            missing.remove(position);
            *highest = (*highest).max(sighting.seen);
            *custody |= sighting.custody;
            self.conclude(cx);
        }
    }

    /// A member's promise.
    pub fn handle_promise(&mut self, position: usize, epoch: u32, promised: bool, cx: &mut Cx<'_>) {
        if let Role::Sealing { epoch: current, missing, .. } = &mut self.role
            && *current == epoch
            && missing.contains(position)
        {
            if !promised {
                return self.count(None, cx); // It knows of a higher epoch: count again.
            }
            missing.remove(position);
            self.conclude(cx);
        }
    }

    /// Acts on every deadline at or before `cx.now`.
    pub fn handle_timeout(&mut self, cx: &mut Cx<'_>) {
        match &mut self.role {
            Role::Watching { seen, count_at } if cx.now >= *count_at => {
                if *seen == self.seen {
                    self.count(None, cx);
                } else {
                    self.role = Role::Watching { seen: self.seen, count_at: cx.now + self.patience };
                }
            }
            Role::Counting { round, missing, ask_again_at, .. } if cx.now >= *ask_again_at => {
                *ask_again_at = cx.now + ask_again(cx.delays);
                let (round, missing) = (*round, *missing);
                ask(missing, Question::Census { round }, cx);
            }
            Role::Sealing { epoch, missing, ask_again_at, .. } if cx.now >= *ask_again_at => {
                *ask_again_at = cx.now + ask_again(cx.delays);
                let (epoch, missing) = (*epoch, *missing);
                ask(missing, Question::Seal { epoch }, cx);
            }
            Role::Bystander | Role::Watching { .. } | Role::Counting { .. } | Role::Sealing { .. } => {}
        }
    }

    /// When to call [`Self::handle_timeout`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self.role {
            Role::Bystander => None,
            Role::Watching { count_at, .. } => Some(count_at),
            Role::Counting { ask_again_at, .. } | Role::Sealing { ask_again_at, .. } => Some(ask_again_at),
        }
    }

    fn count(&mut self, before: Option<Fence>, cx: &mut Cx<'_>) {
        self.round += 1;
        self.role = Role::Counting {
            round: self.round,
            missing: cx.view,
            highest: Fence::default(),
            custody: false,
            before,
            ask_again_at: cx.now + ask_again(cx.delays),
        };
        ask(cx.view, Question::Census { round: self.round }, cx);
    }

    fn conclude(&mut self, cx: &mut Cx<'_>) {
        match self.role {
            Role::Counting { missing, highest, custody, before, .. } if missing.is_empty() => {
                if custody {
                    self.role = Role::Watching { seen: self.seen, count_at: cx.now + self.patience };
                } else if before == Some(highest) {
                    let epoch = highest.epoch() + 1;
                    self.role = Role::Sealing {
                        epoch,
                        missing: cx.view,
                        replaces: highest.epoch() > 0,
                        ask_again_at: cx.now + ask_again(cx.delays),
                    };
                    ask(cx.view, Question::Seal { epoch }, cx);
                } else {
                    self.count(Some(highest), cx);
                }
            }
            Role::Sealing { epoch, missing, replaces, .. } if missing.is_empty() => {
                self.role = Role::Watching { seen: self.seen, count_at: cx.now + self.patience };
                cx.emit(Event::Make { epoch, replaces });
            }
            Role::Bystander | Role::Watching { .. } | Role::Counting { .. } | Role::Sealing { .. } => {}
        }
    }
}

fn ask_again(delays: Delays) -> Duration {
    delays.answer()
}

/// To everybody in the set; the node answers its own question without sending it.
fn ask(set: NodeSet, question: Question, cx: &mut Cx<'_>) {
    let members = cx.members;
    for id in members.of(set) {
        cx.send(id, question);
    }
}
