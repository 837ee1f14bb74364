//! Observations as log lines, for people. Nothing reads these lines but eyes: the trace is data.

use compasso_wire::Observation;

/// On the host nobody listens.
#[cfg(not(target_os = "none"))]
pub fn line(_observation: &Observation) {}

/// One line for each observation: milestones as `info`, traffic as `debug` and `trace`.
#[cfg(target_os = "none")]
pub fn line(observation: &Observation) {
    use compasso_wire::{Event, NodeId, Refusal, commit::Decision};
    // A version or a transaction: the epoch above, a serial below.
    let upper = |number: u64| (number >> 32) as u32;
    let lower = |number: u64| number as u32;
    match observation.event {
        Event::Boot { incarnation } => defmt::info!("boot, incarnation {=u32}", incarnation),
        Event::Send { to, kind, id, again } => {
            defmt::trace!("send {=str} #{=u32} to {=u16}, again {=bool}", kind.as_str(), id, to.0, again);
        }
        Event::Recv { from, incarnation, kind, id } => {
            defmt::trace!("recv {=str} #{=u32} from {=u16}/{=u32}", kind.as_str(), id, from.0, incarnation);
        }
        Event::Drop { from, reason } => {
            // Who sent it is only what the datagram claims, if anything.
            let claimed = from.unwrap_or(NodeId::HOST).0;
            let reason_str = reason.as_str();
            match reason {
                // What lost, late and repeated datagrams bring about.
                Refusal::Replayed
                | Refusal::PastLife
                | Refusal::Unproven
                | Refusal::Misaddressed
                | Refusal::Duplicate
                | Refusal::Early => defmt::debug!("drop of a datagram from {=u16}: {=str}", claimed, reason_str),
                Refusal::Oversized
                | Refusal::Malformed
                | Refusal::Version { .. }
                | Refusal::Foreign
                | Refusal::NotAMember(_)
                | Refusal::Forged
                | Refusal::Unexpected => defmt::warn!("drop of a datagram from {=u16}: {=str}", claimed, reason_str),
            }
        }
        Event::Request { resource } => defmt::debug!("request of resource {=u8}", resource.0),
        Event::CsEnter { resource, fence, lease_us } => defmt::info!(
            "cs_enter resource {=u8}, fence {=u32}.{=u64}, lease {=u64} us",
            resource.0,
            fence.epoch(),
            fence.serial(),
            lease_us.unwrap_or(0)
        ),
        Event::CsRenew { resource, fence, lease_us } => defmt::debug!(
            "cs_renew resource {=u8}, fence {=u32}.{=u64}, lease {=u64} us",
            resource.0,
            fence.epoch(),
            fence.serial(),
            lease_us
        ),
        Event::CsExit { resource, fence } => {
            defmt::info!("cs_exit resource {=u8}, fence {=u32}.{=u64}", resource.0, fence.epoch(), fence.serial());
        }
        Event::Fenced { resource, fence } => {
            defmt::warn!("fenced off resource {=u8}, fence {=u32}.{=u64}", resource.0, fence.epoch(), fence.serial());
        }
        Event::ElectionStart { term } => {
            defmt::info!("election_start, term {=u64}.{=u16}", term.counter(), term.claimant().0);
        }
        Event::Leader { id, term } => {
            defmt::info!("leader {=u16}, term {=u64}.{=u16}", id.0, term.counter(), term.claimant().0);
        }
        Event::View { term, number, epoch, members } => {
            let size = members.len() as u32;
            defmt::info!(
                "view {=u32} of term {=u64}, epoch {=u32}: {=u32} members",
                number,
                term.counter(),
                epoch,
                size
            );
        }
        Event::Suspect { id } => defmt::info!("suspect {=u16}", id.0),
        Event::Trust { id } => defmt::info!("trust {=u16}", id.0),
        Event::Sync { source, offset_us, rtt_us, error_us, bound_us, .. } => defmt::info!(
            "sync with {=u16}: offset {=i64} us, rtt {=u32} us, error {=u32} us, bound {=u32} us",
            source.0,
            offset_us,
            rtt_us,
            error_us,
            bound_us
        ),
        Event::Token { resource, epoch, serial } => {
            defmt::debug!("token of resource {=u8}: {=u32}.{=u64}", resource.0, epoch, serial);
        }
        Event::TokenRegenerated { resource, epoch } => {
            defmt::info!("token_regenerated for resource {=u8}, epoch {=u32}", resource.0, epoch);
        }
        Event::TokenDropped { resource, epoch } => {
            defmt::info!("token_dropped of resource {=u8}, epoch {=u32}", resource.0, epoch);
        }
        Event::RequestRefused { resource, lamport } => {
            defmt::warn!("request_refused of resource {=u8}: Lamport time {=u64} has passed", resource.0, lamport);
        }
        Event::Wait { on, resource } => defmt::debug!("wait for {=u16} and resource {=u8}", on.0, resource.0),
        Event::Withdraw { resource } => defmt::debug!("withdraw from resource {=u8}", resource.0),
        Event::Deadlock { victim, .. } => defmt::info!("deadlock, victim {=u16}", victim.0),
        Event::Abandon { reason } => defmt::info!("abandon: {=str}", reason.as_str()),
        Event::Snapshot { id, .. } => defmt::info!("snapshot {=u32}", id),
        Event::SnapshotMessage { id, from, kind, .. } => {
            defmt::debug!("snapshot {=u32}: {=str} from {=u16} on its way", id, kind.as_str(), from.0);
        }
        Event::SnapshotDone { id } => defmt::info!("snapshot_done {=u32}", id),
        Event::SnapshotAborted { id } => defmt::info!("snapshot_aborted {=u32}", id),
        Event::Label { label } => defmt::info!("label {=u16}", label),
        Event::Falseticker { source, lies } => defmt::warn!("falseticker {=u16}, lies {=bool}", source.0, lies),
        Event::Utc { seconds, leap } => defmt::info!("utc {=i64}, inserted {=bool}", seconds, leap),
        Event::Read { version, cached } => {
            defmt::trace!("read {=u32}.{=u32}, cached {=bool}", upper(version), lower(version), cached);
        }
        Event::Writing { version } => defmt::debug!("writing {=u32}.{=u32}", upper(version), lower(version)),
        Event::Written { version, expired } => {
            defmt::info!("written {=u32}.{=u32}, a lease ran out {=bool}", upper(version), lower(version), expired);
        }
        Event::Transaction { transaction, .. } => {
            defmt::info!("transaction {=u32}.{=u32}", upper(transaction.0), lower(transaction.0));
        }
        Event::Voted { transaction, yes } => {
            defmt::debug!("voted on {=u32}.{=u32}: {=bool}", upper(transaction.0), lower(transaction.0), yes);
        }
        Event::Decided { transaction, decision } => {
            let commit = decision == Decision::Commit;
            defmt::info!("decided {=u32}.{=u32}, commit {=bool}", upper(transaction.0), lower(transaction.0), commit);
        }
        Event::Edited { file } => defmt::info!("edited file {=u8}", file),
        Event::Built { file, raw, synchronized, logical, .. } => defmt::info!(
            "built file {=u8}: raw {=bool}, synchronized {=bool}, logical {=bool}",
            file,
            raw,
            synchronized.unwrap_or(raw),
            logical
        ),
        Event::Temperature { milli_celsius } => defmt::info!("temperature {=i32} m°C", milli_celsius),
        Event::Overflow { queue, count } => defmt::warn!("overflow of {=str}, {=u32} so far", queue.as_str(), count),
    }
}
