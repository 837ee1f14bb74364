//! Datagram to bytes and back. Whatever arrives, the answer is a message or a named refusal.

use crate::{
    auth::{Key, Nonce},
    ids::NodeId,
    limits::{DATAGRAM_MAX, TAG_LEN},
    lists::{Carries, Lists, NO_LISTS},
    message::{Body, Header, Payload, Vector},
};
use serde::{Deserialize, Serialize};

/// The protocol's version: the first byte of every datagram.
pub const VERSION: u8 = 1;

/// Why a datagram was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Refusal {
    /// Longer than any message of ours.
    Oversized,
    /// Not the form of any message of ours.
    Malformed,
    /// Another version of the protocol.
    Version {
        /// Theirs.
        theirs: u8,
    },
    /// Another cluster's.
    Foreign,
    /// From somebody who is not configured here.
    NotAMember(NodeId),
    /// The tag is not ours.
    Forged,
    /// Seen before, or too old to tell.
    Replayed,
    /// From a life that the sender has left.
    PastLife,
    /// From a life that has not yet proven to be the present one.
    Unproven,
    /// Meant for an earlier life of this node.
    Misaddressed,
    /// A repeat of a message that has been delivered.
    Duplicate,
    /// A message before it is still missing; the sender will repeat both.
    Early,
    /// Of a kind that this sender may not send, or that this mode does not speak.
    Unexpected,
}

impl Refusal {
    /// The name in the trace.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Refusal::Oversized => "oversized",
            Refusal::Malformed => "malformed",
            Refusal::Version { .. } => "version",
            Refusal::Foreign => "foreign",
            Refusal::NotAMember(_) => "not-a-member",
            Refusal::Forged => "forged",
            Refusal::Replayed => "replayed",
            Refusal::PastLife => "past-life",
            Refusal::Unproven => "unproven",
            Refusal::Misaddressed => "misaddressed",
            Refusal::Duplicate => "duplicate",
            Refusal::Early => "early",
            Refusal::Unexpected => "unexpected",
        }
    }
}

/// What follows the version, which stands alone in front so that any later one can be told apart.
#[derive(Serialize)]
struct Writing<'h, 'b, 'a> {
    header: &'h Header,
    body: &'b Body<'a>,
}

/// A datagram whose tag is right.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Opened<'a> {
    /// From whom and when.
    pub header: Header,
    /// What it says.
    pub body: Body<'a>,
    /// The lists that its message carries, as they came: see [`Opened::lists`].
    pub rest: &'a [u8],
}

impl Opened<'_> {
    /// The lists that its message carries.
    #[must_use]
    pub fn lists(&self) -> Lists {
        Lists::read(carries(&self.body), self.rest).unwrap_or_default() // They were read when it was opened.
    }
}

/// A header but for its vector, which is read where it is to stay: half a kilobyte that serde would hand on
/// from result to result costs more than the cryptography.
#[derive(Deserialize)]
struct Fixed {
    cluster: u32,
    sender: NodeId,
    incarnation: u32,
    sequence: u32,
    snapshot: u32,
    lamport: u64,
}

/// Reads one vector, as serde would, and gives back what follows it.
fn read_vector<'a>(vector: &mut Vector, bytes: &'a [u8]) -> Option<&'a [u8]> {
    let (count, mut rest) = postcard::take_from_bytes::<u32>(bytes).ok()?;
    for _ in 0..count {
        let (entry, left) = postcard::take_from_bytes(rest).ok()?;
        vector.0.push(entry).ok()?;
        rest = left;
    }
    Some(rest)
}

fn carries(body: &Body<'_>) -> Carries {
    body.payload().map_or(Carries::Nothing, Payload::carries)
}

/// Writes one datagram without lists for `to` into `buffer` and puts the tag under it.
///
/// # Panics
/// As [`seal_with_lists`].
#[must_use]
pub fn seal<'b>(key: &Key, header: &Header, to: NodeId, body: &Body<'_>, buffer: &'b mut [u8]) -> &'b [u8] {
    seal_with_lists(key, header, to, body, &NO_LISTS, buffer)
}

/// Writes one datagram for `to` into `buffer`, with those of the lists that its message carries, and puts
/// the tag under it.
///
/// # Panics
/// If `buffer` is shorter than [`DATAGRAM_MAX`]: the limits guarantee that a message fits, so a
/// short buffer is the caller's error.
#[must_use]
pub fn seal_with_lists<'b>(
    key: &Key,
    header: &Header,
    to: NodeId,
    body: &Body<'_>,
    lists: &Lists,
    buffer: &'b mut [u8],
) -> &'b [u8] {
    assert!(buffer.len() >= DATAGRAM_MAX, "the buffer must hold the largest datagram");
    let writing = Writing { header, body };
    let (version, rest) = buffer.split_at_mut(1);
    version.fill(VERSION);
    let message = postcard::to_slice(&writing, rest).ok().map(|bytes| bytes.len());
    let lists = message.and_then(|length| lists.write(carries(body), rest.get_mut(length..)?));
    let written = match (message, lists) {
        (Some(message), Some(lists)) => 1 + message + lists,
        (_, _) => unreachable!("limits.rs leaves room for every message"),
    };
    let (datagram, rest) = buffer.split_at_mut(written);
    let tag = key.tag(nonce(header, to), datagram);
    for (to, from) in rest.iter_mut().zip(tag) {
        *to = from;
    }
    buffer.get(..written + TAG_LEN).unwrap_or(&[])
}

/// Reads one datagram that is meant for `me`. Form and membership come first, cryptography last: it costs the most.
///
/// # Errors
/// The first reason to refuse it.
pub fn open<'a>(
    key: &Key,
    cluster: u32,
    me: NodeId,
    is_known: impl Fn(NodeId) -> bool,
    datagram: &'a [u8],
) -> Result<Opened<'a>, Refusal> {
    if datagram.len() > DATAGRAM_MAX {
        return Err(Refusal::Oversized);
    }
    let (content, tag) = datagram.split_last_chunk::<TAG_LEN>().ok_or(Refusal::Malformed)?;
    let (version, rest) = content.split_first().ok_or(Refusal::Malformed)?;
    if *version != VERSION {
        return Err(Refusal::Version { theirs: *version });
    }
    // Two numbers tell most strangers apart, before the whole is read.
    let ((theirs, sender), _) = postcard::take_from_bytes::<(u32, NodeId)>(rest).map_err(|_| Refusal::Malformed)?;
    if theirs != cluster {
        return Err(Refusal::Foreign);
    }
    if !is_known(sender) {
        return Err(Refusal::NotAMember(sender));
    }
    read(key, me, content, rest, tag)
}

/// Apart, so that it stands in an image once, however many ask for it in their own way.
#[inline(never)]
fn read<'a>(
    key: &Key,
    me: NodeId,
    content: &[u8],
    message: &'a [u8],
    tag: &[u8; TAG_LEN],
) -> Result<Opened<'a>, Refusal> {
    let (fixed, rest) = postcard::take_from_bytes(message).map_err(|_| Refusal::Malformed)?;
    let Fixed { cluster, sender, incarnation, sequence, snapshot, lamport } = fixed;
    let vector = Vector::default();
    let mut header = Header { cluster, sender, incarnation, sequence, snapshot, lamport, vector };
    let rest = read_vector(&mut header.vector, rest).ok_or(Refusal::Malformed)?;
    let (body, rest) = postcard::take_from_bytes(rest).map_err(|_| Refusal::Malformed)?;
    if !key.verifies(nonce(&header, me), content, tag) {
        return Err(Refusal::Forged);
    }
    // Only now do we know that our own software wrote it; leftovers are a mistake, not an attack.
    if Lists::read(carries(&body), rest).is_none() {
        return Err(Refusal::Malformed);
    }
    Ok(Opened { header, body, rest })
}

/// Whom a datagram names as its sender, for the record of a refusal. Nothing is verified.
#[must_use]
pub fn peek_sender(datagram: &[u8]) -> Option<NodeId> {
    let (_, rest) = datagram.split_first()?;
    let (_cluster, rest) = postcard::take_from_bytes::<u32>(rest).ok()?;
    postcard::take_from_bytes::<NodeId>(rest).ok().map(|(sender, _)| sender)
}

fn nonce(header: &Header, receiver: NodeId) -> Nonce {
    Nonce { sender: header.sender, incarnation: header.incarnation, sequence: header.sequence, receiver }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ids::{Fence, NodeSet, ResourceId, Term},
        limits::{BODY_MAX, HEADER_MAX, MEMBERS_MAX, OBSERVATION_MAX, TELEMETRY_BODY_MAX, TELEMETRY_MAX, TURNS_MAX},
        message::{Command, Heartbeat, MutexMessage, Telemetry, VectorEntry},
        telemetry::{Event, Observation},
        time::{ClusterTime, Duration, Instant},
    };

    const KEY: Key = Key([7; 16]);
    const ME: NodeId = NodeId(2);

    fn header(sequence: u32) -> Header {
        let vector = Vector(
            [(1, 3), (2, 500)].map(|(incarnation, count)| VectorEntry { incarnation, count }).into_iter().collect(),
        );
        Header { cluster: 99, sender: NodeId(1), incarnation: 2, sequence, snapshot: 0, lamport: 1000, vector }
    }

    fn token() -> Body<'static> {
        Body::Ordered {
            life: 1,
            index: 2,
            floor: 1,
            payload: Payload::Mutex { resource: ResourceId(0), epoch: 3, message: MutexMessage::Token { serial: 4 } },
        }
    }

    fn known(id: NodeId) -> bool {
        id.0 < 5
    }

    #[test]
    fn what_is_sealed_opens_unchanged() {
        let mut buffer = [0; DATAGRAM_MAX];
        let datagram = seal(&KEY, &header(8), ME, &token(), &mut buffer);
        let opened = open(&KEY, 99, ME, known, datagram).unwrap();
        assert_eq!(opened, Opened { header: header(8), body: token(), rest: &[] });
        assert_eq!(peek_sender(datagram), Some(NodeId(1)));
    }

    #[test]
    fn every_refusal_has_its_own_name() {
        let mut buffer = [0; DATAGRAM_MAX];
        let good = seal(&KEY, &header(8), ME, &token(), &mut buffer).to_vec();
        let refuse = |datagram: &[u8], cluster| open(&KEY, cluster, ME, known, datagram).unwrap_err();
        assert_eq!(refuse(&good, 98), Refusal::Foreign);
        assert_eq!(refuse(&[0; DATAGRAM_MAX + 1], 99), Refusal::Oversized);
        assert_eq!(refuse(&[], 99), Refusal::Malformed);
        assert_eq!(refuse(&good[..good.len() - 20], 99), Refusal::Malformed);
        let mut newer = good.clone();
        newer[0] = 2;
        assert_eq!(refuse(&newer, 99), Refusal::Version { theirs: 2 });
        let mut forged = good.clone();
        *forged.last_mut().unwrap() ^= 1;
        assert_eq!(refuse(&forged, 99), Refusal::Forged);
        assert_eq!(open(&KEY, 99, ME, |_| false, &good).unwrap_err(), Refusal::NotAMember(NodeId(1)));
        assert_eq!(open(&Key([8; 16]), 99, ME, known, &good).unwrap_err(), Refusal::Forged);
        assert_eq!(open(&KEY, 99, NodeId(3), known, &good).unwrap_err(), Refusal::Forged, "meant for another");
    }

    #[test]
    fn no_truncation_and_no_flipped_byte_is_ever_taken_or_panics() {
        let mut buffer = [0; DATAGRAM_MAX];
        let good = seal(&KEY, &header(8), ME, &token(), &mut buffer).to_vec();
        for length in 0..good.len() {
            assert!(open(&KEY, 99, ME, known, &good[..length]).is_err());
        }
        for at in 0..good.len() {
            for change in 1..=255u8 {
                let mut bad = good.clone();
                bad[at] ^= change;
                assert!(open(&KEY, 99, ME, known, &bad).is_err(), "byte {at} ^ {change}");
            }
        }
    }

    #[test]
    fn the_largest_messages_fit_their_limits() {
        let entry = VectorEntry { incarnation: u32::MAX, count: u32::MAX };
        let vector = Vector((0..MEMBERS_MAX).map(|_| entry).collect());
        let header = Header {
            cluster: u32::MAX,
            sender: NodeId::HOST,
            incarnation: u32::MAX,
            sequence: u32::MAX,
            snapshot: u32::MAX,
            lamport: u64::MAX,
            vector: vector.clone(),
        };
        let heartbeat = Body::Heartbeat(Heartbeat {
            term: Term(u64::MAX),
            view: u32::MAX,
            epoch: u32::MAX,
            members: NodeSet::first(MEMBERS_MAX),
            installed: true,
            sent: Instant(u64::MAX),
            lease: Some(Instant(u64::MAX)),
            life: u32::MAX,
            has_time: true,
            fences: (0..TURNS_MAX).map(|_| Fence(u64::MAX)).collect(),
        });
        let token = Body::Ordered {
            life: u32::MAX,
            index: u32::MAX,
            floor: u32::MAX,
            payload: Payload::Mutex {
                resource: ResourceId(255),
                epoch: u32::MAX,
                message: MutexMessage::ListToken { serial: u64::MAX },
            },
        };
        let lists = Lists {
            served: (0..MEMBERS_MAX).map(|_| u32::MAX).collect(),
            names: (0..MEMBERS_MAX).map(|_| u16::MAX).collect(),
        };
        let telemetry = Body::Telemetry(Telemetry {
            first: u32::MAX,
            count: u16::MAX,
            missed: u32::MAX,
            hw: Instant(u64::MAX),
            raw_ns: u64::MAX,
            rate_ppb: i32::MIN,
            records: &[0; TELEMETRY_MAX],
        });
        let command = Body::Command {
            index: u32::MAX,
            command: Command::Lock { resource: ResourceId(255), hold: Duration(u64::MAX), lamport: Some(u64::MAX) },
        };
        let from_board = Header { vector: Vector::default(), ..header.clone() };
        for (header, body, limit) in [
            (&header, heartbeat, BODY_MAX),
            (&header, token, BODY_MAX),
            (&from_board, telemetry, TELEMETRY_BODY_MAX),
            (&header, command, BODY_MAX),
        ] {
            let mut buffer = vec![0; DATAGRAM_MAX];
            assert!(seal_with_lists(&KEY, header, ME, &body, &lists, &mut buffer).len() <= DATAGRAM_MAX);
            let listed = lists.write(carries(&body), &mut buffer).unwrap();
            assert!(postcard::to_slice(&body, &mut buffer).unwrap().len() + listed <= limit);
        }
        let mut buffer = vec![0; DATAGRAM_MAX];
        let observation = Observation {
            seq: u32::MAX,
            lamport: u64::MAX,
            vector: vector.clone(),
            hw: Instant(u64::MAX),
            cluster: Some(ClusterTime(i64::MIN)),
            event: Event::View {
                term: Term(u64::MAX),
                number: u32::MAX,
                epoch: u32::MAX,
                members: NodeSet::first(MEMBERS_MAX),
            },
        };
        assert!(postcard::to_slice(&observation, &mut buffer).unwrap().len() <= OBSERVATION_MAX);
        assert!(postcard::to_slice(&vector, &mut buffer).unwrap().len() + 29 <= HEADER_MAX);
    }
}
