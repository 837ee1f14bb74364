//! clock-monotonic: within one life of a node its cluster clock never runs backwards.

use crate::{findings::Findings, index::Trace};

pub(super) fn check(trace: &Trace<'_>, findings: &mut Findings) {
    let mut readings = 0;
    for ((node, _), stream) in &trace.streams {
        let mut last: Option<(usize, i64)> = None;
        for index in stream.iter().copied() {
            let Some(now) = trace.event(index).cluster_us else { continue };
            readings += 1;
            if let Some((before, shown)) = last
                && now < shown
            {
                findings.violation(
                    "clock-monotonic",
                    trace.event(index).at_us(),
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
