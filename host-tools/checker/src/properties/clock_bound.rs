//! clock-bound: a clock's interval contains the time of its reference, and its UTC is that of its cluster time.
//!
//! A disciplined clock claims two intervals. The certain one is held to whatever happens; the narrow one assumes that
//! no crystal leaps by more than it bears, and where one was bent and only the narrow one broke, it is not judged.

use crate::{
    findings::Findings,
    index::Trace,
    intervals::Claim,
    trace::{Event, Fault, is_host},
};

/// What TAI is ahead of UTC before any leap second that a run announces.
const TAI_MINUS_UTC_S: i64 = 37;

/// A crystal that was bent is proven anew within this time: until then a narrow interval may have relied on it.
const PROVEN_AGAIN_US: i64 = 600_000_000;

pub(super) fn check(trace: &Trace<'_>, claims: &[Claim], findings: &mut Findings) {
    let (mut decided, mut excused) = (0, 0);
    let mut told = None;
    for claim in claims {
        let (Some(outside), Some(certain_outside)) = (claim.outside_us, claim.certain_outside_us) else { continue };
        let at_us = trace.event(claim.index).at_us();
        if outside > 0 && certain_outside == 0 && claim.has_certain && is_bent(trace, at_us) {
            excused += 1;
            continue;
        }
        decided += 1;
        // One interval that is too narrow is wrong at every event until the next synchronization.
        if outside.max(certain_outside) > 0 && told != Some(claim.sync) {
            told = Some(claim.sync);
            violated(trace, claim, findings);
        }
    }
    utc(trace, findings);
    findings.decided("clock-bound", decided);
    let undecided = claims.len() as u64 - decided - excused;
    let reason = match (trace.setting.clock.as_deref(), claims.is_empty()) {
        (Some("none"), true) => "no clock synchronization in this run",
        (_, true) => "the trace has no intervals",
        (_, false) => "the trace does not tell what the reference showed then",
    };
    if claims.is_empty() || undecided > 0 {
        findings.not_checked("clock-bound", reason, undecided.max(1));
    }
    if excused > 0 {
        let reason = "a crystal was bent by more than the narrow interval bears; the certain one held";
        findings.not_checked("clock-bound", reason, excused);
    }
}

/// Whether some crystal was bent not long before: it may be the reference's, or that of whom the reference follows.
fn is_bent(trace: &Trace<'_>, at_us: i64) -> bool {
    let span = at_us - PROVEN_AGAIN_US..=at_us;
    trace.faults.iter().any(|(at, fault)| matches!(fault, Fault::SetSkew { .. }) && span.contains(at))
}

fn violated(trace: &Trace<'_>, claim: &Claim, findings: &mut Findings) {
    let event = trace.event(claim.index);
    let node = event.node_id().unwrap_or_default();
    let source = if is_host(claim.source) || trace.setting.host_origin_us.is_some() {
        "true time".to_owned()
    } else {
        format!("the clock of {}", claim.source)
    };
    let (outside, half, sort) = match (claim.outside_us, claim.certain_outside_us) {
        (_, Some(outside)) if outside > 0 && claim.has_certain => (outside, claim.certain_half_us, "certain interval"),
        (outside, _) => (outside.unwrap_or(0), claim.half_us, "interval"),
    };
    findings.violation(
        "clock-bound",
        event.at_us(),
        super::unique([node, claim.source].into_iter().filter(|id| !is_host(*id))),
        format!("{source} was {outside} us outside the {sort} of {node}, which claimed {half} us"),
        trace.names(&[claim.sync, claim.index]),
    );
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
