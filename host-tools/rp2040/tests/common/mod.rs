//! The real image, built as a run builds it.

use compasso_stage::setup::{self, BoardKind, Needs};
use std::path::PathBuf;

/// Builds the image.
pub fn image() -> PathBuf {
    let toolchain = setup::ensure(&Needs { compiler: true, emulator: false }).unwrap_or_else(|error| panic!("{error}"));
    toolchain.build_image(BoardKind::W5500EvbPico).unwrap_or_else(|error| panic!("{error}"))
}
