//! The worked example of `docs/wire.md`, byte by byte. If this test changes, so must the document,
//! the changelog's **Wire** section and, unless nothing was released yet, the protocol's version.

use compasso_wire::{
    Body, Header, Key, NodeId, Opened, Payload, ResourceId, Vector, VectorEntry, limits::DATAGRAM_MAX,
    message::MutexMessage, open, seal,
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

const TAG: &str = "";

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
    let datagram = seal(&key, &header(), &body(), &mut buffer);
    let content: String = CONTENT.iter().map(|(bytes, _)| *bytes).collect();
    assert_eq!(hex(datagram), content + TAG);
    let opened = open(&key, 77, |id| id == NodeId(3), datagram);
    assert_eq!(opened, Ok(Opened { header: header(), body: body() }));
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
