//! clock-bound: a clock's interval contains the time of its reference.

use crate::{bounds::Claim, findings::Findings, index::Trace, trace::HOST};

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
            let source = if claim.source == HOST || trace.setting.host_origin_us.is_some() {
                "true time".to_owned()
            } else {
                format!("the clock of {}", claim.source)
            };
            findings.violation(
                "clock-bound",
                event.at_us(),
                super::unique([node, claim.source].into_iter().filter(|id| *id != HOST)),
                format!("{source} was {outside} us outside the interval of {node}, which claimed {} us", claim.half_us),
                trace.names(&[claim.sync, claim.index]),
            );
        }
    }
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
