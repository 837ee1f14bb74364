//! Keeps the host's processors from falling asleep while boards keep time.
//!
//! A processor that has dozed off takes some fifty microseconds to wake up, and wakes up for every frame: into an
//! emulator that was left alone longer later than into one that has just spoken. To the boards that is a network which
//! takes longer in one direction, and no clock can tell. Linux lets a process that may ask for better
//! (`/dev/cpu_dma_latency`, which is root's) do so as long as it keeps the file open.

use std::{
    fs::{File, OpenOptions},
    io::Write,
};

/// Processors stay awake as long as this is held, if that may be asked for.
#[derive(Debug)]
pub struct Awake {
    _asked: Option<File>,
}

impl Awake {
    /// Asks for it. Whoever may not goes on all the same: its clocks are some ten microseconds worse.
    #[must_use]
    pub fn ask() -> Awake {
        let asked = OpenOptions::new().write(true).open("/dev/cpu_dma_latency").and_then(|mut file| {
            file.write_all(&0_i32.to_ne_bytes())?; // Within so many microseconds.
            Ok(file)
        });
        Awake { _asked: asked.ok() }
    }
}
