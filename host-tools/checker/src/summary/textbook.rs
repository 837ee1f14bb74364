//! What Cristian's algorithm would have shown by the exchanges that a disciplined clock made.
//!
//! The node's own client is asked and answered: [`TRIES`] make a round, the quickest answer of a round counts, and a
//! software clock is slewed to it. It gets what the disciplined clock asked for and no more: four answers a second
//! before the lock, then one a second, so that its rounds take seconds where a burst of its own takes milliseconds.
//! What it does with bursts of its own, a run with `sync = "cristian"` shows.
//!
//! [`TRIES`]: compasso_algorithms::time::cristian::TRIES

use crate::{
    index::Trace,
    trace::{Event, TraceEvent},
};
use compasso_algorithms::{
    Algorithm, Context, Delays, Members, Output,
    time::{
        Cristian, SoftwareClock,
        cristian::{Measured, TimeCommand, TimeMessage},
    },
};
use compasso_wire::{ClusterTime, Duration, Instant, NO_LISTS, NodeId};

/// No try is given up: what was lost is not in the trace.
const PATIENCE: Delays = Delays { trans: Duration(1 << 40), process: Duration(0) };

/// What it would have shown at each of a life's events that have a true and a cluster time.
pub(super) fn readings(trace: &Trace<'_>, stream: &[usize]) -> Vec<Option<i64>> {
    let mut textbook = Textbook { client: Cristian::new(), clock: SoftwareClock::Unset };
    let mut was: Option<bool> = None;
    let known = stream.iter().map(|index| trace.event(*index)).filter(|event| event.true_us.is_some());
    let shown = known.filter_map(|event| {
        let (now, cluster) = (Instant(event.hw_us? as u64), event.cluster_us?);
        if let Event::Sync { course: Some(course), .. } = event.event {
            // What was measured is told as the distance from what was shown before; but a clock that is set, by its
            // first exchange, or forward at its lock, shows another time in this line.
            let is_set_forward = was == Some(false) && course.locked;
            let was_set = was.replace(course.locked).is_some();
            if !is_set_forward {
                textbook.exchange(event, now, cluster, was_set);
            }
        }
        Some(textbook.clock.read(now).map(|shown| shown.0))
    });
    shown.collect()
}

struct Textbook {
    client: Cristian,
    clock: SoftwareClock,
}

impl Textbook {
    /// An exchange of the disciplined clock, which shows `cluster`, and was set before.
    fn exchange(&mut self, event: &TraceEvent, now: Instant, cluster: i64, was_set: bool) {
        let Event::Sync { offset_us, rtt_us, source: Some(source), .. } = event.event else { return };
        let Some(me) = event.node_id().filter(|me| *me != source) else { return };
        let Some(members) = Members::new(&[NodeId(me), NodeId(source)], NodeId(me)) else { return };
        let served = if was_set { cluster + offset_us } else { cluster };
        let echo = Instant(now.0.saturating_sub(rtt_us));
        let server = Some(NodeId(source));
        self.at(echo, &members, |client, cx| {
            client.handle_command(TimeCommand::Follow { server, every: Duration::ZERO }, cx);
            client.handle_timeout(cx);
        });
        let left = ClusterTime(served - (rtt_us / 2) as i64);
        let reply = TimeMessage::Reply { echo, cluster: left, handling: Duration::ZERO, error_us: 0 };
        self.at(now, &members, |client, cx| client.handle_message(NodeId(source), reply, cx));
    }

    fn at(
        &mut self,
        now: Instant,
        members: &Members,
        act: impl FnOnce(&mut Cristian, &mut Context<'_, TimeMessage, Measured>),
    ) {
        let mut output = Output::default();
        let (view, leader) = (members.all(), members.me());
        let lists = &NO_LISTS;
        act(
            &mut self.client,
            &mut Context {
                now,
                members,
                view,
                leader,
                lamport: 0,
                random: 0,
                delays: PATIENCE,
                lists,
                output: &mut output,
            },
        );
        for measured in &output.events {
            let served = ClusterTime(measured.cluster.0 + now.since(measured.at).0 as i64);
            match self.clock.read(now) {
                None => self.clock.set(now, served),
                Some(shown) => drop(self.clock.correct(now, served.0 - shown.0)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::parse_line;

    /// Node 1, whose crystal is exact and whose clock shows its hardware time, asks node 2 twice a second: what each
    /// answer said of the time, and how long it took.
    fn life(answers: &[(i64, u64)], forward_at: Option<usize>) -> Vec<TraceEvent> {
        let line = |(at, (offset_us, rtt_us)): (usize, &(i64, u64))| {
            let (seq, now) = (at + 1, (at + 1) * 500_000);
            let locked = forward_at.is_some_and(|forward| at >= forward);
            let text = format!(
                "{{\"node\":1,\"seq\":{seq},\"hw_us\":{now},\"cluster_us\":{now},\"true_us\":{now},\"event\":\"sync\",\
                 \"source\":2,\"offset_us\":{offset_us},\"rtt_us\":{rtt_us},\"error_us\":9,\"bound_us\":9,\"rate_ppb\":0,\
                 \"behind_us\":9,\"ahead_us\":9,\"slow_ppb\":0,\"fast_ppb\":0,\"locked\":{locked}}}"
            );
            parse_line(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
        };
        answers.iter().enumerate().map(line).collect()
    }

    fn shown(events: &[TraceEvent]) -> Vec<Option<i64>> {
        let trace = Trace::new(events, None);
        let ahead = |(at, shown): (usize, Option<i64>)| shown.map(|shown| shown - (at as i64 + 1) * 500_000);
        readings(&trace, &trace.streams[&(1, 1)]).into_iter().enumerate().map(ahead).collect()
    }

    #[test]
    fn the_quickest_of_eight_answers_sets_the_clock_and_the_next_eight_slew_it() {
        let mut answers = vec![(900, 3_000); 17];
        answers[3] = (40, 500);
        answers[12] = (60, 500);
        let shown = shown(&life(&answers, None));
        assert_eq!(shown[..7], [None; 7], "a round is not over");
        assert_eq!(shown[7..16], [Some(40); 9], "also while it begins to be slewed");
        assert!(matches!(shown[16], Some(59..=60)), "{:?}, to a microsecond", shown[16]);
    }

    #[test]
    fn the_exchange_that_set_the_clock_forward_is_left_out() {
        let mut answers = vec![(900, 3_000); 9];
        answers[2] = (7_000, 1); // Of which the clock's step is a part.
        answers[8] = (40, 500);
        let shown = shown(&life(&answers, Some(2)));
        assert_eq!((shown[7], shown[8]), (None, Some(40)), "one answer less, and so one exchange later");
    }
}
