//! The emulated board.
fn main() {}
