//! The worked example of `docs/wire.md`, byte by byte. If this test changes, so must the document and
//! the changelog's **Wire** section and, once a version is released, the protocol's version.

use compasso_wire::{
    Body, ClusterTime, Fence, Header, Instant, Key, NodeId, NodeSet, Opened, Payload, ResourceId, Term, Vector,
    VectorEntry,
    limits::{
        BODY_MAX, CONFIG_MAX, DATAGRAM_MAX, HEADER_MAX, HOST_HEADER_MAX, MEMBERS_MAX, OBSERVATION_MAX,
        TELEMETRY_BODY_MAX, TELEMETRY_MAX,
    },
    message::{Challenge, Command, ElectionMessage, Heartbeat, HeartbeatAck, MutexMessage, Telemetry, TokenSighting},
    open, seal,
};

/// Everything before the tag, field by field.
const CONTENT: &[(&str, &str)] = &[
    ("01", "protocol version 1"),
    ("4d", "cluster 77"),
    ("03", "sender 3"),
    ("01", "incarnation 1"),
    ("ac02", "sequence number 300"),
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
    ("00", "message 0: Token"),
    ("03", "epoch 3"),
    ("8201", "serial 130"),
];

const TAG: &str = "e9e6af44cd603d60c2805dae1dafea46";

fn header() -> Header {
    let entries = [(1, 12), (1, 9), (1, 200), (1, 41), (0, 0)];
    let vector = Vector(entries.map(|(incarnation, count)| VectorEntry { incarnation, count }).into_iter().collect());
    Header { cluster: 77, sender: NodeId(3), incarnation: 1, sequence: 300, lamport: 1000, vector }
}

fn body() -> Body<'static> {
    let token = MutexMessage::Token { epoch: 3, serial: 130 };
    Body::Ordered { life: 1, index: 2, floor: 1, payload: Payload::Mutex(ResourceId(0), token) }
}

#[test]
fn the_example_of_the_document_is_what_a_node_sends() {
    let key = Key(core::array::from_fn(|byte| byte as u8));
    let mut buffer = [0; DATAGRAM_MAX];
    let datagram = seal(&key, &header(), NodeId(4), &body(), &mut buffer);
    let content: String = CONTENT.iter().map(|(bytes, _)| *bytes).collect();
    assert_eq!(hex(datagram), content + TAG);
    let opened = open(&key, 77, NodeId(4), |id| id == NodeId(3), datagram);
    assert_eq!(opened, Ok(Opened { header: header(), body: body() }));
}

#[test]
fn every_body_has_the_number_of_the_document() {
    let (term, resource, fence, at) = (Term(9), ResourceId(0), Fence(5), Instant(1));
    let challenge = Challenge { incarnation: 1, count: 1 };
    let election = Payload::Election(ElectionMessage::Election { term });
    let heartbeat = Heartbeat {
        term,
        view: 1,
        members: NodeSet::first(5),
        installed: true,
        sent: at,
        lease: None,
        has_time: true,
        fences: [fence].into_iter().collect(),
    };
    let fences = [fence].into_iter().collect();
    let ack = HeartbeatAck { term, view: 1, echo: at, renewal: at, votes: true, has_time: true, fences };
    let telemetry = Telemetry { first: 0, count: 0, missed: 0, hw: at, raw_ns: 0, rate_ppb: 0, records: &[] };
    let bodies = [
        Body::Challenge(challenge),
        Body::Proof(challenge),
        Body::Heartbeat(heartbeat),
        Body::HeartbeatAck(ack),
        Body::TimeRequest { sent: at },
        Body::TimeReply { echo: at, cluster: ClusterTime(-1), handling_us: 1 },
        Body::Plain(election),
        body(),
        Body::Ack { life: 1, next: 1 },
        Body::Census { term, round: 1, resource },
        Body::CensusReply { term, round: 1, resource, sighting: TokenSighting { seen: fence, custody: false } },
        Body::Seal { term, resource, epoch: 1 },
        Body::SealReply { term, resource, epoch: 1, promised: true },
        Body::Access { resource, fence },
        Body::AccessReply { resource, fence, accepted: true },
        Body::Telemetry(telemetry),
        Body::TelemetryAck { next: 1 },
        Body::Command { index: 0, command: Command::Elect },
        Body::CommandAck { next: 1 },
    ];
    let mut buffer = [0; DATAGRAM_MAX];
    for (number, body) in bodies.iter().enumerate() {
        let bytes = postcard::to_slice(body, &mut buffer).unwrap();
        assert_eq!(usize::from(bytes[0]), number, "{body:?}");
    }
}

#[test]
fn the_capacities_are_those_of_the_document() {
    if MEMBERS_MAX == 64 {
        assert_eq!((HEADER_MAX, HOST_HEADER_MAX, BODY_MAX), (672, 32, 539));
        assert_eq!((OBSERVATION_MAX, TELEMETRY_MAX, TELEMETRY_BODY_MAX), (704, 1024, 1072));
        assert_eq!((DATAGRAM_MAX, CONFIG_MAX), (1227, 512));
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
