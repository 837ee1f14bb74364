//! What is performed to be counted: the protocol, then each algorithm in its place.

use super::cluster::{NODES, Piece};
use compasso_wire::{
    Body, Duration, Kind, NodeSet, Payload,
    config::{ElectionChoice, MutexChoice, Workload},
    limits::MEMBERS_MAX,
};

/// Everybody wants a turn again soon after it had one: requests meet, wait and are refused.
const BUSY: Workload = Workload { every: Duration::from_millis(16), hold: Duration::from_millis(3) };

/// The protocol around the algorithms; with bully and the token ring, whose messages are the simplest.
pub const PROTOCOL: Piece = Piece {
    name: None,
    counts: |_| true,
    election: ElectionChoice::Bully,
    mutex: MutexChoice::TokenRing,
    workload: None,
};

/// Every algorithm of the catalogue.
pub fn all() -> impl Iterator<Item = Piece> {
    let elections = [
        ("election-bully", ElectionChoice::Bully),
        ("election-ring", ElectionChoice::Ring),
        ("election-chang-roberts", ElectionChoice::ChangRoberts),
        ("election-hirschberg-sinclair", ElectionChoice::HirschbergSinclair),
        ("election-detector", ElectionChoice::Detector),
    ];
    let mutexes = [
        ("mutex-central", MutexChoice::Central),
        ("mutex-voting", MutexChoice::Voting { replicas: NODES as u16 }),
        ("mutex-lamport", MutexChoice::Lamport),
        ("mutex-ricart-agrawala", MutexChoice::RicartAgrawala { by_priority: false, answers_deferred: true }),
        ("mutex-token-ring", MutexChoice::TokenRing),
        ("mutex-suzuki-kasami", MutexChoice::SuzukiKasami),
        ("mutex-maekawa-plain", MutexChoice::MaekawaPlain { sets: sets_of_all() }),
        ("mutex-maekawa", MutexChoice::Maekawa { sets: sets_of_all() }),
    ];
    elections.into_iter().map(election).chain(mutexes.into_iter().map(mutex))
}

fn election((name, election): (&'static str, ElectionChoice)) -> Piece {
    let counts = match election {
        // It sends nothing of its own: signs of life elect.
        ElectionChoice::Detector => |body: &Body<'_>| matches!(body.kind(), Kind::Alive | Kind::Heartbeat),
        ElectionChoice::None
        | ElectionChoice::Bully
        | ElectionChoice::Ring
        | ElectionChoice::ChangRoberts
        | ElectionChoice::HirschbergSinclair => |body: &Body<'_>| matches!(body.payload(), Some(Payload::Election(_))),
    };
    Piece { name: Some(name), counts, election, mutex: MutexChoice::None, workload: None }
}

fn mutex((name, mutex): (&'static str, MutexChoice)) -> Piece {
    let counts = |body: &Body<'_>| matches!(body.payload(), Some(Payload::Mutex { .. }));
    // The plain form would deadlock where requests meet: there the script asks, for one at a time.
    let workload = if matches!(mutex, MutexChoice::MaekawaPlain { .. }) { None } else { Some(BUSY) };
    Piece { name: Some(name), counts, election: ElectionChoice::Bully, mutex, workload }
}

/// Everybody votes for everybody: where requests meet, votes must be taken back over the network.
fn sets_of_all() -> Option<heapless::Vec<NodeSet, MEMBERS_MAX>> {
    Some((0..NODES).map(|_| NodeSet::first(NODES)).collect())
}
