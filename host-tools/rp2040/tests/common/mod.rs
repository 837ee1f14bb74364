//! The real image, built as a run builds it.

use compasso_stage::setup::{self, BoardKind, Needs};
use std::path::PathBuf;

/// Builds the reference board's image.
#[allow(dead_code, reason = "every test file is a crate of its own")]
pub fn image() -> PathBuf {
    image_of(BoardKind::W5500EvbPico)
}

/// Builds a board's image.
pub fn image_of(board: BoardKind) -> PathBuf {
    let toolchain = setup::ensure(&Needs { compiler: true, emulator: false }).unwrap_or_else(|error| panic!("{error}"));
    toolchain.build_image(board).unwrap_or_else(|error| panic!("{error}"))
}
