//! clock-bound: a clock's interval contains the time of its reference, and its UTC is that of its cluster time.

use crate::{
    findings::Findings,
    index::Trace,
    intervals::Claim,
    trace::{Event, Fault, is_host},
};

/// What TAI is ahead of UTC before any leap second that a run announces.
const TAI_MINUS_UTC_S: i64 = 37;

pub(super) fn check(trace: &Trace<'_>, claims: &[Claim], findings: &mut Findings) {
    let mut decided = 0;
    let mut told = None;
    for claim in claims {
        let Some(outside) = claim.outside_us else { continue };
        decided += 1;
        // One interval that is too narrow is wrong at every event until the next synchronization.
        if outside > 0 && told != Some(claim.sync) {
            told = Some(claim.sync);
            let event = trace.event(claim.index);
            let node = event.node_id().unwrap_or_default();
            let source = if is_host(claim.source) || trace.setting.host_origin_us.is_some() {
                "true time".to_owned()
            } else {
                format!("the clock of {}", claim.source)
            };
            findings.violation(
                "clock-bound",
                event.at_us(),
                super::unique([node, claim.source].into_iter().filter(|id| !is_host(*id))),
                format!("{source} was {outside} us outside the interval of {node}, which claimed {} us", claim.half_us),
                trace.names(&[claim.sync, claim.index]),
            );
        }
    }
    utc(trace, findings);
    findings.decided("clock-bound", decided);
    let undecided = claims.len() as u64 - decided;
    let reason = match (trace.setting.clock.as_deref(), claims.is_empty()) {
        (Some("none"), true) => "no clock synchronization in this run",
        (_, true) => "the trace has no intervals",
        (_, false) => "the trace does not tell what the reference showed then",
    };
    if claims.is_empty() || undecided > 0 {
        findings.not_checked("clock-bound", reason, undecided.max(1));
    }
}

/// Who has not heard of a leap second is wrong by that one, and by no more.
fn utc(trace: &Trace<'_>, findings: &mut Findings) {
    let (mut least, mut most) = (TAI_MINUS_UTC_S, TAI_MINUS_UTC_S);
    for (_, fault) in &trace.faults {
        if let Fault::Leap(by) = fault {
            (least, most) = (least + by.min(&0), most + by.max(&0));
        }
    }
    for (index, event) in trace.events.iter().enumerate() {
        let (Event::Utc { seconds, leap }, Some(shown)) = (&event.event, event.cluster_us) else { continue };
        let Some(node) = event.node_id() else { continue };
        let ahead = shown.div_euclid(1_000_000) - seconds - i64::from(*leap);
        if !(least..=most).contains(&ahead) {
            let detail =
                format!("UTC of {node} is {ahead} s behind its cluster time, and TAI is {most} s ahead of UTC");
            findings.violation("clock-bound", event.at_us(), vec![node], detail, trace.names(&[index]));
        }
    }
}
