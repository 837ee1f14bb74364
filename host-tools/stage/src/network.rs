//! What becomes of a frame: the heart of the virtual switch, without sockets and without a clock.
//!
//! Promise: frames to and from the host are never harmed.

use crate::{
    capture::Capture,
    frame::{self, Destination},
};
use compasso_scenario::faults::{Dice, Fate, Faults, Sides};
use std::{io, path::Path, time::Duration};

/// What the network has done so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Frames that boards sent to boards.
    pub datagrams: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Of those, lost on purpose.
    pub lost: u64,
    /// Delivered twice on purpose.
    pub duplicated: u64,
    /// Held back on purpose for later ones to pass.
    pub reordered: u64,
    /// Stopped by a partition.
    pub blocked: u64,
    /// Sent to a board that was not there.
    pub undelivered: u64,
    /// Given up because too many waited for one board.
    pub overrun: u64,
    /// Frames to and from the host.
    pub host_frames: u64,
}

/// The network between boards and host. Ports are numbered by position; the last one is the host's.
pub struct Network {
    /// How bad it is.
    pub faults: Faults,
    /// How it is divided.
    pub sides: Sides,
    /// What it has done so far.
    pub counters: Counters,
    members: usize,
    /// Addresses that boards did not choose.
    stations: Vec<Option<[u8; 6]>>,
    dice: Dice,
    capture: Option<Capture>,
    capture_failed: Option<io::Error>,
}

impl Network {
    /// A network of boards with these names, recorded if a file is given.
    ///
    /// # Errors
    /// If the recording cannot be made.
    pub fn new(names: &[String], seed: u64, capture: Option<&Path>) -> io::Result<Network> {
        let mut interfaces = names.to_vec();
        interfaces.push("host".into());
        Ok(Network {
            faults: Faults::default(),
            sides: Sides::new(),
            counters: Counters::default(),
            members: names.len(),
            stations: vec![None; names.len()],
            dice: Dice::new(seed),
            capture: capture.map(|path| Capture::create(path, &interfaces)).transpose()?,
            capture_failed: None,
        })
    }

    /// The host's port.
    #[must_use]
    pub fn host(&self) -> usize {
        self.members
    }

    /// The board at this position has an address of its own.
    pub fn set_station(&mut self, position: usize, mac: [u8; 6]) {
        self.stations[position] = Some(mac);
    }

    /// A frame of the host, which has asked for the addresses that boards did not choose.
    #[must_use]
    pub fn readdressed(&self, frame: &[u8]) -> Vec<u8> {
        let mut frame = frame.to_vec();
        if let Destination::Member(position) = frame::destination(&frame, self.members)
            && let Some(mac) = self.stations[position]
        {
            frame[..6].copy_from_slice(&mac);
        }
        frame
    }

    /// Decides what becomes of a frame that came in at a port, so long after 1970: says to which
    /// ports it goes, and after how long; to and from the host at once.
    pub fn forward(&mut self, at: Duration, from: usize, frame: &[u8], mut deliver: impl FnMut(usize, Duration)) {
        let host = self.members;
        let station = |mac: &[u8; 6]| self.stations.iter().position(|station| *station == Some(*mac));
        let known = frame.first_chunk().and_then(station).map(Destination::Member);
        let targets = match known.unwrap_or_else(|| frame::destination(frame, host)) {
            Destination::Member(position) => position..position + 1,
            Destination::Host => host..host + 1,
            Destination::All => 0..host + 1,
            Destination::Unknown => 0..0,
        };
        let mut comment = if targets.is_empty() { Some("to nobody here") } else { None };
        for to in targets.filter(|to| *to != from) {
            if from == host || to == host {
                self.counters.host_frames += 1;
                deliver(to, Duration::ZERO);
                continue;
            }
            self.counters.datagrams += 1;
            self.counters.bytes += frame.len() as u64;
            match self.dice.decide(&self.faults, &self.sides, from, to) {
                Fate::Blocked => {
                    self.counters.blocked += 1;
                    comment = Some("blocked by the partition");
                }
                Fate::Lost => {
                    self.counters.lost += 1;
                    comment = Some("lost");
                }
                Fate::Arrives { after, held_back, again_after } => {
                    deliver(to, after);
                    if held_back {
                        self.counters.reordered += 1;
                        comment = Some("held back");
                    }
                    if let Some(again_after) = again_after {
                        self.counters.duplicated += 1;
                        comment = Some("delivered twice");
                        deliver(to, again_after);
                    }
                }
            }
        }
        if let Some(Err(error)) = self.capture.as_mut().map(|capture| capture.record(at, from, frame, comment)) {
            self.capture = None;
            self.capture_failed = Some(error);
        }
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// If it could not be written.
    pub fn finish(&mut self) -> io::Result<Counters> {
        match (self.capture_failed.take(), self.capture.take()) {
            (Some(error), _) => return Err(error),
            (None, Some(capture)) => capture.finish()?,
            (None, None) => {}
        }
        Ok(self.counters)
    }
}
