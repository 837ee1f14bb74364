//! The embassy side: socket, timer, telemetry around one node.
