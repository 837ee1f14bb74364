//! Observations as log lines, for people. Nothing reads these lines but eyes: the trace is data.

use compasso_wire::Observation;

/// On the host nobody listens.
#[cfg(not(target_os = "none"))]
pub fn line(_observation: &Observation) {}

/// One line for each observation: milestones as `info`, traffic as `debug` and `trace`.
#[cfg(target_os = "none")]
pub fn line(observation: &Observation) {
    use compasso_wire::{Event, NodeId, Refusal};
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
        Event::View { term, number, members } => {
            let size = members.len() as u32;
            defmt::info!("view {=u32} of term {=u64}: {=u32} members", number, term.counter(), size);
        }
        Event::Suspect { id } => defmt::info!("suspect {=u16}", id.0),
        Event::Trust { id } => defmt::info!("trust {=u16}", id.0),
        Event::Sync { source, offset_us, rtt_us, error_us, bound_us } => defmt::info!(
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
        Event::Overflow { queue, count } => defmt::warn!("overflow of {=str}, {=u32} so far", queue.as_str(), count),
    }
}
