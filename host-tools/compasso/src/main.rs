//! The compasso command.
fn main() {}
