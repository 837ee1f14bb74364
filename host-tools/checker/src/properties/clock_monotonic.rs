//! clock-monotonic: within one life of a node its cluster clock never runs backwards, nor does its UTC,
//! in which 23:59:60 comes after 23:59:59 and before the next day.

use crate::{findings::Findings, index::Trace, trace::Event};

pub(super) fn check(trace: &Trace<'_>, findings: &mut Findings) {
    let mut readings = 0;
    for ((node, _), stream) in &trace.streams {
        let mut last: Option<(usize, i64)> = None;
        let mut last_utc: Option<(usize, (i64, bool))> = None;
        for index in stream.iter().copied() {
            let event = trace.event(index);
            if let Event::Utc { seconds, leap } = event.event {
                if let Some((before, told)) = last_utc
                    && (seconds, leap) <= told
                {
                    let detail = format!("UTC of {node} was {} and then {}", utc(told), utc((seconds, leap)));
                    let events = trace.names(&[before, index]);
                    findings.violation("clock-monotonic", event.at_us(), vec![*node], detail, events);
                }
                last_utc = Some((index, (seconds, leap)));
            }
            let Some(now) = event.cluster_us else { continue };
            readings += 1;
            if let Some((before, shown)) = last
                && now < shown
            {
                findings.violation(
                    "clock-monotonic",
                    event.at_us(),
                    vec![*node],
                    format!("the cluster clock of {node} showed {shown} us and then {now} us"),
                    trace.names(&[before, index]),
                );
            }
            last = Some((index, now));
        }
    }
    findings.decided("clock-monotonic", readings);
    if readings == 0 {
        let none = trace.setting.clock.as_deref() == Some("none");
        let reason = if none { "no clock synchronization in this run" } else { "no event shows cluster time" };
        findings.not_checked("clock-monotonic", reason, 1);
    }
}

/// A second of UTC as people write it: the day counted from 1970, then the time of day.
fn utc((seconds, leap): (i64, bool)) -> String {
    let (day, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    format!("day {day} {:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60 + i64::from(leap))
}
