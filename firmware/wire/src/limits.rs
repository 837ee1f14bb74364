//! Every capacity of the protocol, by name. Full means refused and counted.

/// How many nodes one cluster may have.
///
/// The one parameter of all capacities: set `COMPASSO_MEMBERS_MAX` in the environment of the
/// build to run a larger simulation. Boards keep the default, which fits one Ethernet frame.
pub const MEMBERS_MAX: usize = match option_env!("COMPASSO_MEMBERS_MAX") {
    Some(text) => parse(text),
    None => 64,
};

/// For how many named resources a cluster may take turns.
pub const TURNS_MAX: usize = 8;

/// How many may be locked in transactions: what a deadlock's circle can be made of.
pub const LOCKS_MAX: usize = 8;

/// How many named resources there may be in all.
pub const RESOURCES_MAX: usize = TURNS_MAX + LOCKS_MAX;

/// How many files the nodes of a scenario may save and build.
pub const FILES_MAX: usize = 8;

/// How many servers of true time there may be: the host, and others beside it.
pub const HOSTS_MAX: usize = 3;

/// Length of the authentication tag in bytes.
pub const TAG_LEN: usize = 16;

/// Longest encoded header: version, cluster, sender, incarnation, sequence number,
/// number of the latest snapshot, Lamport time, and a vector with one (incarnation, count) entry a member.
pub const HEADER_MAX: usize = 1 + 5 + 3 + 5 + 5 + 5 + 10 + 3 + MEMBERS_MAX * 10;

/// Longest header of a datagram to or from the host, which carries no vector.
pub const HOST_HEADER_MAX: usize = HEADER_MAX - MEMBERS_MAX * 10;

/// Longest encoded body between nodes: fixed fields, a set of members, a fence for each resource that is taken in turns,
/// and a list of all members.
pub const BODY_MAX: usize = 64 + 11 * MEMBERS_MAX.div_ceil(64) + 10 * TURNS_MAX + 8 * MEMBERS_MAX;

/// Most bytes of observations that one telemetry datagram carries: several small ones, or the
/// largest.
pub const TELEMETRY_MAX: usize = if OBSERVATION_MAX > 1024 { OBSERVATION_MAX } else { 1024 };

/// Longest encoded telemetry body: its fixed fields and the records.
pub const TELEMETRY_BODY_MAX: usize = 48 + TELEMETRY_MAX;

/// Longest datagram.
pub const DATAGRAM_MAX: usize = TAG_LEN
    + if HEADER_MAX + BODY_MAX > HOST_HEADER_MAX + TELEMETRY_BODY_MAX {
        HEADER_MAX + BODY_MAX
    } else {
        HOST_HEADER_MAX + TELEMETRY_BODY_MAX
    };

/// Longest encoded configuration page: fixed fields; an id, a voting set and the outcome of the last
/// transaction for each member.
pub const CONFIG_MAX: usize = 320 + 24 * MEMBERS_MAX;

/// Longest encoded observation.
pub const OBSERVATION_MAX: usize = 80 + 10 * MEMBERS_MAX;

/// Payload of one unfragmented UDP datagram over Ethernet.
pub const UDP_PAYLOAD_MAX: usize = 1472;

const _: () = assert!(MEMBERS_MAX >= 2 && MEMBERS_MAX <= 4096);
const _: () = assert!(
    MEMBERS_MAX > 64 || DATAGRAM_MAX <= UDP_PAYLOAD_MAX,
    "a cluster of boards must fit its largest datagram into one frame"
);

const fn parse(text: &str) -> usize {
    let mut rest = text.as_bytes();
    let mut value = 0;
    while let [digit, tail @ ..] = rest {
        assert!(digit.is_ascii_digit(), "COMPASSO_MEMBERS_MAX must be a number");
        value = value * 10 + (*digit - b'0') as usize;
        rest = tail;
    }
    value
}
