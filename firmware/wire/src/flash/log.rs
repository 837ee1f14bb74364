//! What a board must remember over a restart, appended to flash: no power cut loses it.
//!
//! The log is a circle of sectors. Each record holds everything ([`Memory`]) and begins a page of
//! its own, so that every page is programmed once between two erasures. The newest whole record
//! counts. The next one goes behind it, or to the next sector, which is erased first: never the
//! one with the newest record. So at every moment the old record or the new one is whole.
//!
//! Wear: a sector takes about 100 000 erasures and sixteen short records between two of them, so
//! the log outlasts some 25 million records. A node stores when a term, an epoch, a cached version or a
//! transaction changes.

use super::{HEADER_LEN, LOG_SECTORS, PROGRAM_LEN, SECTOR_LEN, record};
use crate::{
    NodeConfig, NodeId,
    config::Stored,
    limits::{MEMBERS_MAX, RESOURCES_MAX},
};
use serde::{Deserialize, Serialize};

/// Marks a record ("CMPM").
pub const MAGIC: u32 = u32::from_le_bytes(*b"CMPM");
/// How many pages the longest record takes.
const RECORD_PAGES: usize = RECORD_MAX.div_ceil(PROGRAM_LEN);
const RECORD_MAX: usize = HEADER_LEN + 120 + 5 * RESOURCES_MAX + 10 * MEMBERS_MAX;
const SECTOR_PAGES: usize = SECTOR_LEN / PROGRAM_LEN;
const LOG_PAGES: usize = LOG_SECTORS * SECTOR_PAGES;

/// What a board remembers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Memory {
    /// The life that wrote this.
    pub incarnation: u32,
    /// In this cluster.
    pub cluster: u32,
    /// As this node.
    pub me: NodeId,
    /// What it promised.
    pub stored: Stored,
}

/// The flash of the log. Places count pages from the log's beginning.
pub trait Flash {
    /// Reads a page.
    fn read(&self, page: usize, into: &mut [u8; PROGRAM_LEN]);
    /// Makes the sector that begins with this page blank: all ones.
    fn erase(&mut self, page: usize);
    /// Turns ones of a page into zeros.
    fn program(&mut self, page: usize, bytes: &[u8; PROGRAM_LEN]);
}

/// No sector keeps what is written to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WornOut;

#[derive(Clone, Copy)]
struct Place {
    number: u32,
    first: usize,
    pages: usize,
}

/// The log, and where its newest record is.
pub struct Log<F> {
    flash: F,
    newest: Option<Place>,
    memory: Option<Memory>,
}

impl<F: Flash> Log<F> {
    /// Finds the newest record.
    pub fn open(flash: F) -> Log<F> {
        let mut log = Log { flash, newest: None, memory: None };
        let mut page = 0;
        while page < LOG_PAGES {
            page += match log.read(page) {
                Some((place, memory)) => {
                    if log.newest.is_none_or(|newest| newest.number < place.number) {
                        (log.newest, log.memory) = (Some(place), Some(memory));
                    }
                    place.pages
                }
                None => 1,
            };
        }
        log
    }

    /// Begins a life of the configured node: what earlier lives promised, and an incarnation that
    /// none of them had. Both are stored when this returns.
    ///
    /// # Errors
    /// If the flash is worn out: then nothing may be sent.
    pub fn begin_life(&mut self, config: &mut NodeConfig) -> Result<(), WornOut> {
        if let Some(memory) = self.memory {
            config.incarnation = config.incarnation.max(memory.incarnation.saturating_add(1));
            // As somebody else it promised nothing to this cluster.
            if (memory.cluster, memory.me) == (config.cluster, config.me) {
                config.stored = memory.stored;
            }
        }
        let (incarnation, cluster, me) = (config.incarnation, config.cluster, config.me);
        self.append(Memory { incarnation, cluster, me, stored: config.stored })?;
        self.prepare_sector();
        Ok(())
    }

    /// Keeps what the present life promises.
    ///
    /// # Errors
    /// If the flash is worn out: then nothing that depends on the promise may be sent.
    pub fn store(&mut self, stored: &Stored) -> Result<(), WornOut> {
        let Some(memory) = self.memory else {
            unreachable!("a life has begun");
        };
        self.append(Memory { stored: *stored, ..memory })
    }

    /// What the newest record says.
    #[must_use]
    pub fn memory(&self) -> Option<&Memory> {
        self.memory.as_ref()
    }

    /// The flash.
    pub fn flash(&mut self) -> &mut F {
        &mut self.flash
    }

    fn append(&mut self, memory: Memory) -> Result<(), WornOut> {
        let number = self.newest.map_or(0, |newest| newest.number) + 1;
        let mut bytes = [0xff; RECORD_PAGES * PROGRAM_LEN];
        let Some(length) = record::encode(MAGIC, number, &memory, &mut bytes) else {
            unreachable!("the longest record has room");
        };
        let pages = length.div_ceil(PROGRAM_LEN);
        let mut first = match self.newest {
            Some(newest) => self.after(newest, pages),
            None => 0,
        };
        // Every sector but the one with the newest record.
        for _ in 0..LOG_SECTORS - 1 {
            if first.is_multiple_of(SECTOR_PAGES) {
                self.make_blank(first);
            }
            for (page, chunk) in (first..).zip(bytes.as_chunks().0).take(pages) {
                self.flash.program(page, chunk);
            }
            let place = Place { number, first, pages };
            if self.read(first).is_some_and(|(_, read)| read == memory) {
                (self.newest, self.memory) = (Some(place), Some(memory));
                return Ok(());
            }
            first = sector_after(first);
        }
        Err(WornOut)
    }

    /// Where a record of so many pages goes: behind the newest, unless the rest of the sector is too
    /// short or power was lost there.
    fn after(&self, newest: Place, pages: usize) -> usize {
        let first = newest.first + newest.pages;
        let has_room = newest.first % SECTOR_PAGES + newest.pages + pages <= SECTOR_PAGES;
        match has_room && (first..first + pages).all(|page| self.is_blank(page)) {
            true => first,
            false => sector_after(newest.first),
        }
    }

    /// Erasing takes long: better at the beginning of a life than within it.
    fn prepare_sector(&mut self) {
        if let Some(newest) = self.newest {
            self.make_blank(sector_after(newest.first));
        }
    }

    fn make_blank(&mut self, first: usize) {
        if !(first..first + SECTOR_PAGES).all(|page| self.is_blank(page)) {
            self.flash.erase(first);
        }
    }

    fn is_blank(&self, page: usize) -> bool {
        let mut bytes = [0; PROGRAM_LEN];
        self.flash.read(page, &mut bytes);
        bytes.iter().all(|byte| *byte == 0xff)
    }

    fn read(&self, first: usize) -> Option<(Place, Memory)> {
        let mut bytes = [0; RECORD_PAGES * PROGRAM_LEN];
        let room = RECORD_PAGES.min(SECTOR_PAGES - first % SECTOR_PAGES);
        for (page, chunk) in (first..).zip(bytes.as_chunks_mut().0).take(room) {
            self.flash.read(page, chunk);
            if page == first && !chunk.starts_with(&MAGIC.to_le_bytes()) {
                return None;
            }
        }
        let (number, content) = record::decode(MAGIC, &bytes)?;
        let memory = postcard::from_bytes(content).ok()?;
        let pages = (HEADER_LEN + content.len()).div_ceil(PROGRAM_LEN);
        Some((Place { number, first, pages }, memory))
    }
}

/// The first page of the sector after the one with this page.
fn sector_after(page: usize) -> usize {
    (page / SECTOR_PAGES + 1) % LOG_SECTORS * SECTOR_PAGES
}

const _: () = assert!(LOG_SECTORS >= 2, "the newest record is never erased");
const _: () = assert!(RECORD_PAGES <= SECTOR_PAGES || MEMBERS_MAX > 64);

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
