//! Measures the disciplined clock beside its peers.

fn main() {}
