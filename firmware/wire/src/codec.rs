//! Datagram to bytes and back. Whatever arrives, the answer is a message or a named refusal.

use crate::{
    auth::{Key, Nonce},
    ids::NodeId,
    limits::{DATAGRAM_MAX, MEMBERS_MAX, TAG_LEN},
    message::{Body, Header, Vector},
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

/// What the sender writes, in this order. The version stands alone in front, so that any later
/// version can still be told apart.
#[derive(Serialize, Deserialize)]
struct Written<'a> {
    cluster: u32,
    sender: NodeId,
    incarnation: u32,
    sequence: u32,
    lamport: u64,
    vector: Vector,
    #[serde(borrow)]
    body: Body<'a>,
}

#[derive(Serialize)]
struct Writing<'h, 'b, 'a> {
    cluster: u32,
    sender: NodeId,
    incarnation: u32,
    sequence: u32,
    lamport: u64,
    vector: &'h Vector,
    body: &'b Body<'a>,
}

/// A datagram whose tag is right.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Opened<'a> {
    /// From whom and when.
    pub header: Header,
    /// What it says.
    pub body: Body<'a>,
}

/// Writes one datagram into `buffer` and puts the tag under it.
///
/// # Panics
/// If `buffer` is shorter than [`DATAGRAM_MAX`]: the limits guarantee that a message fits, so a
/// short buffer is the caller's error.
#[must_use]
pub fn seal<'b>(key: &Key, header: &Header, body: &Body<'_>, buffer: &'b mut [u8]) -> &'b [u8] {
    assert!(buffer.len() >= DATAGRAM_MAX, "the buffer must hold the largest datagram");
    let writing = Writing {
        cluster: header.cluster,
        sender: header.sender,
        incarnation: header.incarnation,
        sequence: header.sequence,
        lamport: header.lamport,
        vector: &header.vector,
        body,
    };
    let (version, rest) = buffer.split_at_mut(1);
    version.fill(VERSION);
    let written = match postcard::to_slice(&writing, rest) {
        Ok(bytes) => 1 + bytes.len(),
        Err(_) => unreachable!("limits.rs leaves room for every message"),
    };
    let (datagram, rest) = buffer.split_at_mut(written);
    let tag = key.tag(nonce(header), datagram);
    for (to, from) in rest.iter_mut().zip(tag) {
        *to = from;
    }
    buffer.get(..written + TAG_LEN).unwrap_or(&[])
}

/// Reads one datagram. Form and membership come first, cryptography last: it costs the most.
///
/// # Errors
/// The first reason to refuse it.
pub fn open<'a>(
    key: &Key,
    cluster: u32,
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
    let (written, left) = postcard::take_from_bytes::<Written>(rest).map_err(|_| Refusal::Malformed)?;
    if written.cluster != cluster {
        return Err(Refusal::Foreign);
    }
    if !is_known(written.sender) {
        return Err(Refusal::NotAMember(written.sender));
    }
    let header = Header {
        cluster: written.cluster,
        sender: written.sender,
        incarnation: written.incarnation,
        sequence: written.sequence,
        lamport: written.lamport,
        vector: written.vector,
    };
    if !key.verifies(nonce(&header), content, tag) {
        return Err(Refusal::Forged);
    }
    // Only now do we know that our own software wrote it; leftovers are a mistake, not an attack.
    if !left.is_empty() || header.vector.0.len() > MEMBERS_MAX {
        return Err(Refusal::Malformed);
    }
    Ok(Opened { header, body: written.body })
}

/// Whom a datagram names as its sender, for the record of a refusal. Nothing is verified.
#[must_use]
pub fn peek_sender(datagram: &[u8]) -> Option<NodeId> {
    let (_, rest) = datagram.split_first()?;
    let (_cluster, rest) = postcard::take_from_bytes::<u32>(rest).ok()?;
    postcard::take_from_bytes::<NodeId>(rest).ok().map(|(sender, _)| sender)
}

fn nonce(header: &Header) -> Nonce {
    Nonce { sender: header.sender, incarnation: header.incarnation, sequence: header.sequence }
}
