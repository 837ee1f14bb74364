//! The image of the Pico W, built without the radio's firmware as CI builds it: what it does for somebody who
//! flashes it nevertheless.

#[path = "common/bench.rs"]
mod bench;

use bench::{Bench, SECOND};
use compasso_stage::setup::{self, BoardKind, Needs};
use std::path::PathBuf;

/// Twice the patience of its watchdog.
const LONG: u64 = 10 * SECOND;

fn image() -> PathBuf {
    let toolchain = setup::ensure(&Needs { compiler: true, emulator: false }).unwrap_or_else(|error| panic!("{error}"));
    toolchain.build_image(BoardKind::PicoW).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn without_the_radios_firmware_it_refuses_says_what_to_do_and_sends_nothing() {
    let bench = Bench::new(&image());
    let mut board = bench.board();
    let log = bench.watch(&mut board, LONG);
    assert_eq!(board.end(), None, "it ended by itself\n{log}");
    assert!(board.bus().is_watched(), "a watchdog that was fed for so long, not one that nobody started");
    assert_eq!(board.bus().departed, [], "it sent");
    let told: Vec<&str> = log.lines().filter(|line| line.contains("ERROR")).collect();
    assert_eq!(told.len(), 10, "once a second, for whoever attaches a probe later\n{log}");
    for line in told {
        assert!(line.contains("built without the radio's firmware"), "{line}");
        assert!(line.contains("to mend it: set COMPASSO_CYW43_DIR and build again"), "{line}");
    }
}
