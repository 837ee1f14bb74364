//! The token's guardian: the coordinator notices that the token is lost.
//! Promise: a token that nobody in the view has is reported lost.
//! Assumes that every member of the view answers in the end; who does not is left out by the next view.
//!
//! A token on its way may be missed: its receiver answers before it arrives, its sender after. That
//! costs a regeneration too many and breaks nothing: a lost token is replaced by a new view, in which
//! the old one means nothing, and which begins only when nobody is inside.

use crate::context::{Context, Delays};
use compasso_wire::{Duration, Instant, NodeSet};

/// "Who has the token?", to every member of the view.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Census {
    /// Which count.
    pub round: u32,
}

/// Nobody has the token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lost;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    /// Not the coordinator, without authority, or there is no token to guard.
    Bystander,
    /// The token was seen lately; look for it then.
    Watching { count_at: Instant },
    /// Who of `missing` has not answered yet?
    Counting { round: u32, missing: NodeSet, ask_again_at: Instant },
}

/// One node's part in guarding one token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Guardian {
    role: Role,
    round: u32,
    /// How long a token may stay out of sight before it is looked for.
    patience: Duration,
}

type Cx<'a> = Context<'a, Census, Lost>;

impl Guardian {
    /// A guardian that guards nothing yet.
    #[must_use]
    pub fn new(patience: Duration) -> Guardian {
        Guardian { role: Role::Bystander, round: 0, patience }
    }

    /// This node is the coordinator with authority over a view with a token; or it is not any more.
    pub fn appoint(&mut self, appointed: bool, cx: &Cx<'_>) {
        self.role = if appointed { self.watching(cx) } else { Role::Bystander };
    }

    /// The token is here.
    pub fn saw(&mut self, cx: &Cx<'_>) {
        if self.role != Role::Bystander {
            self.role = self.watching(cx);
        }
    }

    /// A member's answer to the census.
    pub fn handle_reply(&mut self, position: usize, round: u32, custody: bool, cx: &mut Cx<'_>) {
        let Role::Counting { round: current, missing, .. } = &mut self.role else { return };
        if *current != round || !missing.contains(position) {
            return;
        }
        missing.remove(position);
        if custody {
            self.role = self.watching(cx);
        } else if missing.is_empty() {
            self.role = self.watching(cx);
            cx.emit(Lost);
        }
    }

    /// Acts on every deadline at or before `cx.now`.
    pub fn handle_timeout(&mut self, cx: &mut Cx<'_>) {
        match self.role {
            Role::Watching { count_at } if cx.now >= count_at => {
                self.round += 1;
                self.ask(self.round, cx.view, cx);
            }
            Role::Counting { round, missing, ask_again_at } if cx.now >= ask_again_at => self.ask(round, missing, cx),
            Role::Bystander | Role::Watching { .. } | Role::Counting { .. } => {}
        }
    }

    /// When to call [`Self::handle_timeout`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self.role {
            Role::Bystander => None,
            Role::Watching { count_at } => Some(count_at),
            Role::Counting { ask_again_at, .. } => Some(ask_again_at),
        }
    }

    fn watching(&self, cx: &Cx<'_>) -> Role {
        Role::Watching { count_at: cx.now + self.patience }
    }

    /// Asks everybody in the set; the node answers its own question without sending it.
    fn ask(&mut self, round: u32, missing: NodeSet, cx: &mut Cx<'_>) {
        self.role = Role::Counting { round, missing, ask_again_at: cx.now + again(cx.delays) };
        let members = cx.members;
        for id in members.of(missing) {
            cx.send(id, Census { round });
        }
    }
}

fn again(delays: Delays) -> Duration {
    delays.answer()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Members, Output};
    use compasso_wire::{NO_LISTS, NodeId};

    fn with(now: u64, act: impl FnOnce(&mut Cx<'_>)) -> Output<Census, Lost> {
        let members = Members::new(&[0, 1, 2].map(NodeId), NodeId(2)).unwrap();
        let mut output = Output::default();
        let delays = Delays { trans: Duration(1000), process: Duration(100) };
        act(&mut Context {
            now: Instant(now),
            members: &members,
            view: members.all(),
            leader: NodeId(2),
            lamport: 0,
            random: 0,
            delays,
            lists: &NO_LISTS,
            output: &mut output,
        });
        output
    }

    fn counting() -> Guardian {
        let mut guardian = Guardian::new(Duration(10_000));
        with(0, |cx| guardian.appoint(true, cx));
        assert!(with(9_999, |cx| guardian.handle_timeout(cx)).messages.is_empty());
        assert_eq!(with(10_000, |cx| guardian.handle_timeout(cx)).messages.len(), 3);
        guardian
    }

    #[test]
    fn a_token_that_nobody_has_is_lost_once_everybody_has_said_so() {
        let mut guardian = counting();
        for position in [0, 1, 1] {
            assert!(with(10_001, |cx| guardian.handle_reply(position, 1, false, cx)).events.is_empty());
        }
        assert_eq!(with(10_001, |cx| guardian.handle_reply(2, 1, false, cx)).events.len(), 1);
    }

    #[test]
    fn a_token_that_somebody_has_is_watched_on() {
        let mut guardian = counting();
        with(10_001, |cx| guardian.handle_reply(0, 1, true, cx));
        for position in [1, 2] {
            assert!(with(10_001, |cx| guardian.handle_reply(position, 1, false, cx)).events.is_empty());
        }
        assert_eq!(guardian.poll_timeout(), Some(Instant(20_001)));
    }

    #[test]
    fn who_does_not_answer_is_asked_again_and_an_old_answer_counts_for_nothing() {
        let mut guardian = counting();
        with(10_001, |cx| guardian.handle_reply(0, 1, false, cx));
        assert_eq!(with(12_100, |cx| guardian.handle_timeout(cx)).messages.len(), 2);
        assert!(with(12_101, |cx| guardian.handle_reply(1, 7, false, cx)).events.is_empty());
        assert_eq!(guardian.poll_timeout(), Some(Instant(14_200)));
        with(12_102, |cx| guardian.appoint(false, cx));
        assert_eq!(guardian.poll_timeout(), None);
    }
}
