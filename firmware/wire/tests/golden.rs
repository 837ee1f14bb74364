//! The worked example of `docs/wire.md`, byte by byte. If this test changes, so must the document and
//! the changelog's **Wire** section and, once a version is released, the protocol's version.

use compasso_wire::{
    Body, ClusterTime, Duration, Fence, Header, Instant, Key, Leap, Lists, NodeId, NodeSet, Opened, Payload,
    ResourceId, RingList, Term, Vector, VectorEntry,
    cache::{CacheMessage, Cached},
    commit::{CommitMemory, CommitMessage, CommitRecord, Decision, Progress, TransactionId},
    config::Stored,
    limits::{
        BODY_MAX, CONFIG_MAX, DATAGRAM_MAX, HEADER_MAX, HOST_HEADER_MAX, MEMBERS_MAX, OBSERVATION_MAX, TAG_LEN,
        TELEMETRY_BODY_MAX, TELEMETRY_MAX,
    },
    locks::{Age, Hop, LockMessage, ResourceSet},
    make::MakeMessage,
    message::{
        Challenge, Command, ElectionMessage, Heartbeat, HeartbeatAck, MutexMessage, Stream, Telemetry, TimeKnown,
    },
    open,
    page::STORED_SLOT_LEN,
    seal, seal_with_lists,
};
use serde::Serialize;

/// Everything before the tag, field by field.
const CONTENT: &[(&str, &str)] = &[
    ("01", "protocol version 1"),
    ("4d", "cluster 77"),
    ("03", "sender 3"),
    ("01", "incarnation 1"),
    ("ac02", "sequence number 300"),
    ("00", "no snapshot yet"),
    ("e807", "Lamport time 1000"),
    ("05", "a vector of five entries, (incarnation, count) each"),
    ("010c", "node 0: 1, 12"),
    ("0109", "node 1: 1, 9"),
    ("01c801", "node 2: 1, 200"),
    ("0129", "node 3: 1, 41"),
    ("0000", "node 4: nothing known"),
    ("07", "body 7: Ordered"),
    ("01", "for the receiver's life 1"),
    ("02", "index 2"),
    ("01", "floor 1"),
    ("01", "payload 1: Mutex"),
    ("00", "resource 0"),
    ("03", "epoch 3"),
    ("00", "message 0: Token"),
    ("8201", "serial 130"),
];

const TAG: &str = "eeee1a6e155225e930a74a2ae0f208b4";

fn header() -> Header {
    let entries = [(1, 12), (1, 9), (1, 200), (1, 41), (0, 0)];
    let vector = Vector(entries.map(|(incarnation, count)| VectorEntry { incarnation, count }).into_iter().collect());
    Header { cluster: 77, sender: NodeId(3), incarnation: 1, sequence: 300, snapshot: 0, lamport: 1000, vector }
}

fn body() -> Body<'static> {
    let message = MutexMessage::Token { serial: 130 };
    let payload = Payload::Mutex { resource: ResourceId(0), epoch: 3, message };
    Body::Ordered { life: 1, index: 2, floor: 1, payload }
}

#[test]
fn the_example_of_the_document_is_what_a_node_sends() {
    let key = Key(core::array::from_fn(|byte| byte as u8));
    let mut buffer = [0; DATAGRAM_MAX];
    let datagram = seal(&key, &header(), NodeId(4), &body(), &mut buffer);
    let content: String = CONTENT.iter().map(|(bytes, _)| *bytes).collect();
    assert_eq!(hex(datagram), content + TAG);
    let opened = open(&key, 77, NodeId(4), |id| id == NodeId(3), datagram);
    assert_eq!(opened, Ok(Opened { header: header(), body: body(), rest: &[] }));
}

#[test]
fn every_body_has_the_number_of_the_document() {
    let (term, resource, fence, at) = (Term(9), ResourceId(0), Fence(5), Instant(1));
    let challenge = Challenge { incarnation: 1, count: 1 };
    let heartbeat = Heartbeat {
        term,
        view: 1,
        epoch: 1,
        members: NodeSet::first(5),
        installed: true,
        sent: at,
        lease: None,
        life: 1,
        has_time: true,
        fences: [fence].into_iter().collect(),
    };
    let ack = HeartbeatAck {
        term,
        view: 1,
        epoch: 1,
        busy: false,
        custody: ResourceSet::default(),
        echo: at,
        renewal: at,
        votes: true,
        time: TimeKnown::Time,
        fences: [fence].into_iter().collect(),
    };
    let telemetry = Telemetry { first: 0, count: 0, missed: 0, hw: at, raw_ns: 0, rate_ppb: 0, records: &[] };
    assert_numbered(&[
        Body::Challenge(challenge),
        Body::Proof(challenge),
        Body::Heartbeat(heartbeat),
        Body::HeartbeatAck(ack),
        Body::TimeRequest { sent: at },
        Body::TimeReply {
            echo: at,
            cluster: ClusterTime(-1),
            handling_us: 1,
            sent: at,
            error_us: 2,
            certain_us: 3,
            leaves_us: 4,
            is_set: true,
            leap: Some(Leap { at: ClusterTime(5), by: 1 }),
        },
        Body::Plain(Payload::Election(ElectionMessage::Election { term })),
        body(),
        Body::Ack { stream: Stream::Work, life: 1, next: 1 },
        Body::Census { epoch: 1, round: 1, resource },
        Body::CensusReply { epoch: 1, round: 1, resource, custody: false },
        Body::Access { resource, fence },
        Body::AccessReply { resource, fence, accepted: true },
        Body::Alive,
        Body::Telemetry(telemetry),
        Body::TelemetryAck { next: 1 },
        Body::Command { index: 0, command: Command::Elect },
        Body::CommandAck { next: 1 },
        Body::Correction { polled: at, offset_us: -5, rtt_us: 9, error_us: 1 },
    ]);
}

#[test]
fn every_message_of_an_algorithm_has_the_number_of_the_document() {
    let (term, id, stamp, serial) = (Term(9), NodeId(1), 8, 4);
    let list = RingList::default();
    assert_numbered(&[
        ElectionMessage::Election { term },
        ElectionMessage::Answer { term },
        ElectionMessage::Coordinator { term },
        ElectionMessage::ListElection { term, list },
        ElectionMessage::ListCoordinator { term, leader: id, list },
        ElectionMessage::Candidate { term, id },
        ElectionMessage::Elected { term, id },
        ElectionMessage::Probe { term, id, round: 0, hops: 1, clockwise: true },
        ElectionMessage::Reply { term, id, round: 0, clockwise: true },
    ]);
    assert_numbered(&[
        MutexMessage::Token { serial },
        MutexMessage::Request { stamp },
        MutexMessage::NumberedRequest { number: 1 },
        MutexMessage::ListToken { serial },
        MutexMessage::Grant { stamp, serial },
        MutexMessage::Denied { stamp },
        MutexMessage::Acknowledge { stamp },
        MutexMessage::Ok { stamp },
        MutexMessage::Deferred { stamp },
        MutexMessage::Release { stamp, serial },
        MutexMessage::Inquire { stamp },
        MutexMessage::Yield { stamp },
        MutexMessage::Fail { stamp },
    ]);
    assert_numbered(&[
        Payload::Election(ElectionMessage::Election { term }),
        Payload::Mutex { resource: ResourceId(0), epoch: 1, message: MutexMessage::Token { serial } },
        Payload::Locks { epoch: 1, message: LockMessage::Victim { wait: 1 } },
        Payload::Cache { epoch: 1, message: CacheMessage::Read { question: 1 } },
        Payload::Commit { epoch: 1, message: CommitMessage::Prepare { transaction: TransactionId(1) } },
        Payload::Marker { epoch: 1, snapshot: 1 },
        Payload::Labelled { label: 1 },
        Payload::Make(MakeMessage::Ask { file: 0, number: 1 }),
    ]);
}

#[test]
fn every_message_of_a_service_has_the_number_of_the_document() {
    let (node, resource, version, value, question) = (NodeId(1), ResourceId(0), 1, 2, 3);
    let (age, held) = (Age { stamp: 8, node }, ResourceSet(1));
    let path = [Hop { node, wait: 1 }].into_iter().collect();
    assert_numbered(&[
        LockMessage::Register { held, age, ticket: 1 },
        LockMessage::Request { resource, age, ticket: 1 },
        LockMessage::Grant { resource, ticket: 1, serial: 1 },
        LockMessage::Wait { resource, ticket: 1, holder: node },
        LockMessage::Die { resource, ticket: 1 },
        LockMessage::Wound { resource, ticket: 1 },
        LockMessage::Release { resource, ticket: 1 },
        LockMessage::Claim { resources: held },
        LockMessage::Probe { resource, round: 1, confirming: false, path, youngest: age },
        LockMessage::Victim { wait: 1 },
    ]);
    assert_numbered(&[
        CacheMessage::Known { version, value },
        CacheMessage::Read { question },
        CacheMessage::Copy { question, version, value, until: ClusterTime(5) },
        CacheMessage::Write { question, value },
        CacheMessage::Store { version, value },
        CacheMessage::Stored { version },
        CacheMessage::Invalidate { version },
        CacheMessage::Invalidated { version },
        CacheMessage::Written { question, version, writer: node },
    ]);
    assert_numbered(&[
        MakeMessage::Ask { file: 0, number: 1 },
        MakeMessage::Source { file: 0, number: 1, saved: None },
    ]);
    let (transaction, decision, participants) = (TransactionId(1), Decision::Commit, NodeSet::first(2));
    assert_numbered(&[
        CommitMessage::Prepare { transaction },
        CommitMessage::Vote { transaction, yes: true },
        CommitMessage::Store { transaction, decision, participants },
        CommitMessage::Stored { transaction },
        CommitMessage::Decide { transaction, decision },
        CommitMessage::Known(None),
        CommitMessage::Ask { transaction },
        CommitMessage::Told { transaction, decision: Some(decision) },
        CommitMessage::Done { transaction },
    ]);
}

#[test]
fn lists_follow_their_message_as_in_the_document() {
    let (term, leader, list) = (Term(9), NodeId(3), RingList::default());
    let ids = Lists { names: [3, 17, 1].into_iter().collect(), ..Lists::default() };
    let token = Lists { served: [0, 300, 2].into_iter().collect(), names: [2, 0].into_iter().collect() };
    let message = MutexMessage::ListToken { serial: 130 };
    let ordered = |payload| Body::Ordered { life: 1, index: 2, floor: 1, payload };
    let key = Key(core::array::from_fn(|byte| byte as u8));
    for (payload, lists, bytes) in [
        (Payload::Election(ElectionMessage::ListElection { term, list }), &ids, "0701020100030903031101"),
        (Payload::Election(ElectionMessage::ListCoordinator { term, leader, list }), &ids, "070102010004090303031101"),
        (Payload::Mutex { resource: ResourceId(1), epoch: 3, message }, &token, "070102010101030382010300ac0202020200"),
    ] {
        let mut buffer = [0; DATAGRAM_MAX];
        let datagram = seal_with_lists(&key, &header(), NodeId(4), &ordered(payload), lists, &mut buffer);
        let content = hex(&datagram[..datagram.len() - TAG_LEN]);
        assert!(content.ends_with(bytes), "{content}");
        let opened = open(&key, 77, NodeId(4), |_| true, datagram).unwrap();
        assert_eq!((&opened.lists(), opened.body), (lists, ordered(payload)));
        let bare = seal(&key, &header(), NodeId(4), &ordered(payload), &mut buffer);
        assert_eq!(open(&key, 77, NodeId(4), |_| true, bare).map(|opened| opened.lists()), Ok(Lists::default()));
    }
}

#[test]
fn every_command_has_the_number_of_the_document() {
    assert_numbered(&[
        Command::Lock { resource: ResourceId(0), hold: Duration(5), lamport: None },
        Command::Elect,
        Command::SetRate { ppb: -1 },
        Command::DropToken,
        Command::StopWorkload,
        Command::Acquire { resources: ResourceSet(1) },
        Command::Release { resources: ResourceSet(1) },
        Command::Claims { resources: ResourceSet(1) },
        Command::Snapshot { number: 1 },
        Command::Label { label: 0 },
        Command::Send { to: NodeId(1), label: 0 },
        Command::Leap { at: ClusterTime(1), by: -1 },
        Command::Read,
        Command::Write,
        Command::Transaction,
        Command::Refuse,
        Command::Edit { file: 0 },
        Command::Build { file: 0, source: NodeId(1) },
    ]);
}

#[test]
fn fence_and_stored_record_are_those_of_the_document() {
    assert_eq!(Fence::new(3, 130), Fence(3 * (1 << 40) + 130));
    let mut buffer = [0; 32];
    let (term, cache) = (Term::new(2, NodeId(3)), Cached { version: 1, value: 300 });
    let mut stored = Stored { term, epoch: 300, cache, commit: CommitMemory::default() };
    assert_eq!(hex(postcard::to_slice(&stored, &mut buffer).unwrap()), "838008ac0201ac02000000");
    let transaction = TransactionId::new(1, 5);
    let (ballot, participants, progress) = (2, NodeSet::first(3), Progress::Stored(Decision::Abort));
    stored.commit.latest = Some(CommitRecord { transaction, ballot, participants, progress });
    stored.commit.doubt = Some(transaction);
    stored.commit.outcomes.note(NodeSet::first(1), transaction, Decision::Commit);
    let transaction = "8580808010";
    let commit = format!("01{transaction}0201070101" /* ballot 2, one word 111, stored, abort */);
    let expected = format!("838008ac0201ac02{commit}01{transaction}018b80808020");
    assert_eq!(hex(postcard::to_slice(&stored, &mut buffer).unwrap()), expected);
}

#[test]
fn a_slot_has_room_for_the_largest_stored_record() {
    let transaction = TransactionId(u64::MAX >> 1);
    let participants = NodeSet::first(MEMBERS_MAX);
    let (term, cache) = (Term(u64::MAX), Cached { version: u64::MAX, value: u64::MAX });
    let mut stored = Stored { term, epoch: u32::MAX, cache, commit: CommitMemory::default() };
    let progress = Progress::Stored(Decision::Commit);
    stored.commit.latest = Some(CommitRecord { transaction, ballot: u32::MAX, participants, progress });
    stored.commit.doubt = Some(transaction);
    stored.commit.outcomes.note(participants, transaction, Decision::Commit);
    let mut slot = [0; STORED_SLOT_LEN - 4];
    assert!(postcard::to_slice(&stored, &mut slot).is_ok());
}

#[test]
fn the_capacities_are_those_of_the_document() {
    if MEMBERS_MAX == 64 {
        assert_eq!((HEADER_MAX, HOST_HEADER_MAX, BODY_MAX), (677, 37, 667));
        assert_eq!((OBSERVATION_MAX, TELEMETRY_MAX, TELEMETRY_BODY_MAX), (720, 1024, 1072));
        assert_eq!((DATAGRAM_MAX, CONFIG_MAX), (1360, 1856));
    }
}

/// Each is encoded with its place in the list as the number of its variant.
fn assert_numbered<T: Serialize + core::fmt::Debug>(variants: &[T]) {
    let mut buffer = [0; DATAGRAM_MAX];
    for (number, variant) in variants.iter().enumerate() {
        let bytes = postcard::to_slice(variant, &mut buffer).unwrap();
        assert_eq!(usize::from(bytes[0]), number, "{variant:?}");
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
