//! Berkeley: nobody has the true time; the coordinator asks everybody, averages, and tells each node what
//! its clock lacks.
//! Promise: clocks come together, whatever true time is; one that is far from the rest pulls nobody.
//! Assumes that somebody coordinates (an election names the next one), and that the delay of the
//! quickest try is about symmetric.
//!
//! The coordinator relates every clock to its own hardware clock, so that nothing that is being slewed
//! meanwhile, its own clock included, disturbs the differences. It sends corrections and not times: a
//! correction stays right however long it travels.

use crate::context::{Algorithm, Context};
use compasso_wire::{ClusterTime, Duration, Instant, NodeId, NodeSet, limits::MEMBERS_MAX};
use heapless::Vec;

/// Questions to each node in one round; the answer with the shortest round trip counts.
pub const TRIES: u8 = 4;

/// A clock farther than this from the median is left out of the average, and corrected all the same.
pub const OUTLIER_US: i64 = 50_000;

/// The same while no clock was ever set: then they show whatever they show at boot.
pub const OUTLIER_UNSET_US: i64 = 10_000_000;

/// What coordinator and nodes say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BerkeleyMessage {
    /// "What does your clock show?" The time of sending is stamped when it leaves.
    Poll,
    /// A node's answer.
    Answer {
        /// The coordinator's hardware time when the poll left.
        echo: Instant,
        /// What the node's clock showed when the answer left.
        shown: ClusterTime,
        /// The node's hardware time then.
        sent: Instant,
        /// How long the node kept the poll.
        handling: Duration,
        /// The clock was set before: a newcomer's clock counts only among newcomers.
        is_set: bool,
    },
    /// "Your clock lacked so much when you answered."
    Correction {
        /// The node's hardware time of that answer.
        polled: Instant,
        /// What to add.
        offset_us: i64,
        /// Round trip of poll and answer.
        rtt: Duration,
    },
}

/// What the coordinator is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BerkeleyCommand {
    /// Coordinate from now on.
    Lead {
        /// From one round to the next.
        every: Duration,
    },
    /// Somebody else does.
    Retire,
}

/// The coordinator's own part of a round's result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Averaged {
    /// What its own clock lacks.
    pub offset_us: i64,
    /// How many other clocks went into the average.
    pub counted: u16,
    /// How many were too far from the median.
    pub left_out: u16,
}

/// A clock, as far ahead of the coordinator's hardware clock as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reading {
    /// The difference.
    pub ahead_us: i64,
    /// The clock was set before.
    pub is_set: bool,
}

/// What a round's readings come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Average {
    /// Where all clocks should be, ahead of the coordinator's hardware clock.
    pub ahead_us: i64,
    /// How many clocks went into it.
    pub counted: u16,
    /// How many were too far from the median.
    pub left_out: u16,
}

/// The average of the clocks that count: those that were set before, or all if none was; without those
/// that are farther from the median than the threshold. Nothing without a reading.
#[must_use]
pub fn average(readings: &[Reading]) -> Option<Average> {
    let any_set = readings.iter().any(|reading| reading.is_set);
    let outlier_us = if any_set { OUTLIER_US } else { OUTLIER_UNSET_US };
    average_within(readings, outlier_us)
}

/// [`average`] with another threshold.
#[must_use]
pub fn average_within(readings: &[Reading], outlier_us: i64) -> Option<Average> {
    let any_set = readings.iter().any(|reading| reading.is_set);
    let mut clocks: Vec<i64, MEMBERS_MAX> =
        readings.iter().filter(|reading| reading.is_set || !any_set).map(|reading| reading.ahead_us).collect();
    clocks.sort_unstable();
    let median = *clocks.get(clocks.len().checked_sub(1)? / 2)?;
    let is_near = |far: &i64| far.unsigned_abs() <= outlier_us.unsigned_abs();
    let near = || clocks.iter().map(|clock| clock.saturating_sub(median)).filter(is_near);
    let counted = near().count();
    let mean = near().sum::<i64>() / i64::try_from(counted).ok()?.max(1);
    Some(Average {
        ahead_us: median.saturating_add(mean),
        counted: counted as u16,
        left_out: (clocks.len() - counted) as u16,
    })
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Answered {
    reading: Reading,
    polled: Instant,
    rtt_us: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Off,
    Waiting { poll_at: Instant },
    Polling { began: Instant, asked: Instant, tries_left: u8, awaited: NodeSet, answer_by: Instant },
}

/// The coordinator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Berkeley {
    state: State,
    every: Duration,
    own: Reading,
    /// Somebody's clock is set: an average of newcomers only would begin another time beside it.
    needs_set: bool,
    answers: Vec<Option<Answered>, MEMBERS_MAX>,
}

impl Berkeley {
    /// A node that does not coordinate.
    #[must_use]
    pub fn new() -> Berkeley {
        let own = Reading { ahead_us: 0, is_set: false };
        Berkeley { state: State::Off, every: Duration::ZERO, own, needs_set: false, answers: Vec::new() }
    }

    /// Whether this node coordinates.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.state != State::Off
    }

    /// What the coordinator's own clock shows; to be told before each input. `needs_set` while some
    /// other node is known to have a clock that is set.
    pub fn tell_own(&mut self, own: Reading, needs_set: bool) {
        self.own = own;
        self.needs_set = needs_set;
    }

    fn poll(&mut self, began: Instant, tries_left: u8, cx: &mut Cx<'_>) {
        let mut awaited = cx.view;
        awaited.remove(cx.members.my_position());
        if awaited.is_empty() || tries_left == 0 {
            return self.conclude(cx);
        }
        for position in awaited.iter() {
            if let Some(id) = cx.members.id(position) {
                cx.send(id, BerkeleyMessage::Poll);
            }
        }
        let answer_by = cx.now + cx.delays.answer();
        self.state = State::Polling { began, asked: cx.now, tries_left: tries_left - 1, awaited, answer_by };
    }

    fn conclude(&mut self, cx: &mut Cx<'_>) {
        self.state = State::Waiting { poll_at: cx.now + self.every };
        let mut readings: Vec<Reading, MEMBERS_MAX> = Vec::new();
        let answered = self.answers.iter().flatten().map(|answered| answered.reading);
        for reading in core::iter::once(self.own).chain(answered) {
            let _full = readings.push(reading); // There are no more members than room.
        }
        let is_vague = self.needs_set && !readings.iter().any(|reading| reading.is_set);
        let Some(average) = average(&readings).filter(|_| readings.len() > 1 && !is_vague) else { return };
        cx.emit(Averaged {
            offset_us: average.ahead_us.saturating_sub(self.own.ahead_us),
            counted: average.counted,
            left_out: average.left_out,
        });
        for (position, answered) in self.answers.iter().enumerate() {
            if let (Some(answered), Some(id)) = (answered, cx.members.id(position)) {
                let offset_us = average.ahead_us.saturating_sub(answered.reading.ahead_us);
                let rtt = Duration(u64::from(answered.rtt_us));
                cx.send(id, BerkeleyMessage::Correction { polled: answered.polled, offset_us, rtt });
            }
        }
    }
}

impl Default for Berkeley {
    fn default() -> Berkeley {
        Berkeley::new()
    }
}

type Cx<'a> = Context<'a, BerkeleyMessage, Averaged>;

impl Algorithm for Berkeley {
    type Message = BerkeleyMessage;
    type Command = BerkeleyCommand;
    type Event = Averaged;

    fn handle_command(&mut self, command: BerkeleyCommand, cx: &mut Cx<'_>) {
        match command {
            BerkeleyCommand::Lead { every } => {
                self.every = every;
                if self.state == State::Off {
                    self.state = State::Waiting { poll_at: cx.now };
                }
            }
            BerkeleyCommand::Retire => self.state = State::Off,
        }
    }

    fn handle_message(&mut self, from: NodeId, message: BerkeleyMessage, cx: &mut Cx<'_>) {
        let BerkeleyMessage::Answer { echo, shown, sent, handling, is_set } = message else { return };
        let State::Polling { began, asked, tries_left, mut awaited, answer_by } = self.state else { return };
        let Some(position) = cx.members.position(from) else { return };
        if echo < began || echo > cx.now {
            return; // An answer to an earlier round.
        }
        let rtt_us = u32::try_from(cx.now.since(echo).0.saturating_sub(handling.0)).unwrap_or(u32::MAX);
        let now_shown = shown.0.saturating_add(i64::from(rtt_us / 2));
        let reading = Reading { ahead_us: now_shown.saturating_sub(cx.now.0 as i64), is_set };
        if let Some(answer) = self.answers.get_mut(position)
            && answer.is_none_or(|quicker| rtt_us < quicker.rtt_us || is_set != quicker.reading.is_set)
        {
            *answer = Some(Answered { reading, polled: sent, rtt_us });
        }
        if echo >= asked {
            awaited.remove(position);
        }
        self.state = State::Polling { began, asked, tries_left, awaited, answer_by };
        if awaited.is_empty() {
            self.poll(began, tries_left, cx);
        }
    }

    fn handle_timeout(&mut self, cx: &mut Cx<'_>) {
        match self.state {
            State::Waiting { poll_at } if cx.now >= poll_at => {
                self.answers = (0..cx.members.count()).map(|_| None).collect();
                self.poll(cx.now, TRIES, cx);
            }
            State::Polling { began, tries_left, answer_by, .. } if cx.now >= answer_by => {
                self.poll(began, tries_left, cx);
            }
            State::Off | State::Waiting { .. } | State::Polling { .. } => {}
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match self.state {
            State::Off => None,
            State::Waiting { poll_at } => Some(poll_at),
            State::Polling { answer_by, .. } => Some(answer_by),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::World;

    const MINUTE: i64 = 60_000_000;

    fn clock(ahead_us: i64) -> Reading {
        Reading { ahead_us, is_set: true }
    }

    #[test]
    fn the_textbooks_three_clocks_are_corrected_by_5_15_and_minus_20_minutes() {
        let clocks = [3 * 60, 2 * 60 + 50, 3 * 60 + 25].map(|minutes| minutes * MINUTE);
        let average = average_within(&clocks.map(clock), 60 * MINUTE).unwrap();
        assert_eq!((average.ahead_us, average.left_out), ((3 * 60 + 5) * MINUTE, 0));
        let corrections = clocks.map(|clock| (average.ahead_us - clock) / MINUTE);
        assert_eq!(corrections, [5, 15, -20]);
    }

    #[test]
    fn a_clock_far_from_the_median_is_left_out() {
        let average = average(&[clock(0), clock(40), clock(80), clock(OUTLIER_US + 41)]).unwrap();
        assert_eq!(average, Average { ahead_us: 40, counted: 3, left_out: 1 });
    }

    #[test]
    fn a_newcomers_clock_pulls_nobody() {
        let newcomer = Reading { ahead_us: 1000, is_set: false };
        assert_eq!(average(&[clock(0), newcomer, clock(10)]).unwrap().ahead_us, 5);
        assert_eq!(average(&[newcomer, Reading { ahead_us: 0, is_set: false }]).unwrap().ahead_us, 500);
        assert_eq!(average(&[]), None);
    }

    #[test]
    fn no_reading_however_wild_overflows() {
        for wild in [i64::MIN, i64::MAX] {
            for other in [i64::MIN, 0, i64::MAX] {
                assert!(average(&[clock(wild), clock(other)]).is_some());
                assert!(average(&[clock(wild), clock(0), clock(0), clock(other)]).is_some_and(|a| a.counted > 0));
            }
        }
    }

    /// A coordinator, 2, and what it sends in a round in which the others answer at once with what
    /// `shown` says of them.
    fn round(shown: impl Fn(u16) -> Option<(i64, bool)>, own: Reading, needs_set: bool) -> World<Berkeley> {
        let mut world = World::new(&[0, 1, 2], |_| Berkeley::new());
        world.act(NodeId(2), |berkeley, _| berkeley.tell_own(own, needs_set));
        world.command(2, BerkeleyCommand::Lead { every: Duration(500_000) });
        assert!(world.pass_one_deadline(), "the first poll is due");
        for _ in 0..TRIES {
            for id in [0, 1] {
                let Some((ahead, is_set)) = shown(id) else { continue };
                let echo = world.now();
                let shown = ClusterTime(echo.0 as i64 + ahead);
                let sent = Instant(77 + u64::from(id));
                world.message(2, id, BerkeleyMessage::Answer { echo, shown, sent, handling: Duration::ZERO, is_set });
            }
            if shown(0).is_none() || shown(1).is_none() {
                assert!(world.pass_one_deadline(), "somebody is waited for");
            }
        }
        world
    }

    fn corrections(world: &World<Berkeley>) -> std::vec::Vec<(u16, i64)> {
        let correction = |(_, to, message): &(NodeId, NodeId, BerkeleyMessage)| match message {
            BerkeleyMessage::Correction { offset_us, .. } => Some((to.0, *offset_us)),
            BerkeleyMessage::Poll | BerkeleyMessage::Answer { .. } => None,
        };
        world.sent.iter().filter_map(correction).collect()
    }

    #[test]
    fn the_coordinator_sends_each_node_its_own_correction_and_not_the_time() {
        let world = round(|id| Some((if id == 0 { -10 } else { 25 }, true)), clock(0), true);
        assert_eq!(corrections(&world), [(0, 15), (1, -20)]);
        assert_eq!(world.events.first().map(|(_, averaged)| averaged.offset_us), Some(5));
    }

    #[test]
    fn who_does_not_answer_is_polled_again_and_then_left_without_a_correction() {
        let world = round(|id| (id == 0).then_some((-10, true)), clock(0), true);
        assert_eq!(corrections(&world), [(0, 5)]);
        let polls = world.sent.iter().filter(|(_, to, message)| *to == NodeId(1) && *message == BerkeleyMessage::Poll);
        assert_eq!(polls.count(), usize::from(TRIES));
    }

    #[test]
    fn a_reborn_coordinator_begins_no_time_of_its_own_beside_one_that_exists() {
        let newcomer = Reading { ahead_us: 7, is_set: false };
        let vague = round(|_| Some((30, false)), newcomer, true);
        assert_eq!((corrections(&vague).len(), vague.events.len()), (0, 0), "nobody who has the time has answered");
        let first = round(|_| Some((4, false)), newcomer, false);
        assert_eq!(corrections(&first), [(0, 1), (1, 1)], "nobody has the time: it begins with the average");
        let told = round(|id| Some((30, id == 1)), newcomer, true);
        assert_eq!(told.events.first().map(|(_, averaged)| averaged.offset_us), Some(23));
    }
}
