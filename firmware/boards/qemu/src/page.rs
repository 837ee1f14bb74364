//! The board's side of the page that it shares with the stage.

use compasso_wire::{
    NodeConfig,
    config::Stored,
    limits::CONFIG_MAX,
    page::{
        ANCHOR_COUNT_AT, ANCHOR_NS_AT, CONFIG_AT, CONFIG_BYTES_AT, CONFIG_MAGIC, PAGE_LEN, REPORT_AT, REPORT_MAGIC,
        RING_ADDRESS_AT, STORED_COUNT_AT, STORED_SLOT_LEN, STORED_SLOTS_AT,
    },
};
use core::{
    ptr,
    sync::atomic::{Ordering, fence},
};

/// Where the page lies: the beginning of PSRAM. `memory.x` keeps everything else away from it.
pub const PAGE_ADDRESS: usize = 0x2100_0000;
/// What is wrong with the configuration.
#[derive(Clone, Copy, defmt::Format)]
pub enum Unusable {
    /// The stage wrote none.
    Missing,
    /// It is longer than any configuration.
    Oversized,
    /// It is not what this image calls a configuration.
    Malformed,
    /// The node is not among its own members.
    NotAMember,
}

/// The page. There is one.
pub struct Page {
    anchors: u32,
    stored: u32,
}

impl Page {
    /// Takes the page over and declares an earlier life's report void.
    ///
    /// # Safety
    /// To be called once: the page has one owner.
    pub unsafe fn take() -> Page {
        let page = Page { anchors: 0, stored: 0 };
        page.write(REPORT_AT, 0);
        page.write(ANCHOR_COUNT_AT, 0);
        page.write(STORED_COUNT_AT, 0);
        page
    }

    /// Reads who this board is.
    pub fn config(&self) -> Result<NodeConfig, Unusable> {
        if self.read(CONFIG_AT) != CONFIG_MAGIC {
            return Err(Unusable::Missing);
        }
        let length = self.read(CONFIG_AT + 4) as usize;
        let mut buffer = [0; CONFIG_MAX];
        let bytes = buffer.get_mut(..length).ok_or(Unusable::Oversized)?;
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = self.read_byte(CONFIG_BYTES_AT + index);
        }
        let config: NodeConfig = postcard::from_bytes(bytes).map_err(|_| Unusable::Malformed)?;
        match config.members.contains(&config.me) {
            true => Ok(config),
            false => Err(Unusable::NotAMember),
        }
    }

    /// Declares the report valid.
    pub fn publish(&mut self, ring_address: usize) {
        self.write(RING_ADDRESS_AT, ring_address as u32);
        fence(Ordering::Release);
        self.write(REPORT_AT, REPORT_MAGIC);
    }

    /// Writes the unbent counter down, for the host to compare with its own clock. It is read between the two
    /// counts: whoever still sees the earlier count knows that it was not read yet.
    pub fn anchor(&mut self, read_ns: impl FnOnce() -> u64) {
        self.write(ANCHOR_COUNT_AT, self.anchors.wrapping_add(1)); // Odd: being written.
        fence(Ordering::SeqCst);
        let raw_ns = read_ns();
        self.write(ANCHOR_NS_AT, raw_ns as u32);
        self.write(ANCHOR_NS_AT + 4, (raw_ns >> 32) as u32);
        fence(Ordering::Release);
        self.anchors = self.anchors.wrapping_add(2);
        self.write(ANCHOR_COUNT_AT, self.anchors);
    }

    /// Keeps what must outlive this life, in the slot that does not hold the newest record.
    pub fn store(&mut self, stored: &Stored) {
        let mut buffer = [0; STORED_SLOT_LEN - 4];
        let bytes: &[u8] = match postcard::to_slice(stored, &mut buffer) {
            Ok(bytes) => bytes,
            Err(_) => unreachable!("a slot has room for the largest record"),
        };
        self.stored = self.stored.wrapping_add(1);
        let slot = STORED_SLOTS_AT + (self.stored % 2) as usize * STORED_SLOT_LEN;
        self.write(slot, bytes.len() as u32);
        for (word, chunk) in bytes.chunks(4).enumerate() {
            let mut padded = [0; 4];
            padded.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
            self.write(slot + 4 + 4 * word, u32::from_le_bytes(padded));
        }
        fence(Ordering::Release);
        self.write(STORED_COUNT_AT, self.stored);
    }

    fn read(&self, offset: usize) -> u32 {
        assert!(offset + 4 <= PAGE_LEN && offset.is_multiple_of(4));
        // SAFETY: aligned and within the page, where no Rust object lies; volatile, as the stage
        // writes it too.
        unsafe { ptr::read_volatile((PAGE_ADDRESS + offset) as *const u32) }
    }

    fn read_byte(&self, offset: usize) -> u8 {
        assert!(offset < PAGE_LEN);
        // SAFETY: as in `read`.
        unsafe { ptr::read_volatile((PAGE_ADDRESS + offset) as *const u8) }
    }

    fn write(&self, offset: usize, value: u32) {
        assert!(offset + 4 <= PAGE_LEN && offset.is_multiple_of(4));
        // SAFETY: as in `read`, and `take` makes this the only writer on the board.
        unsafe { ptr::write_volatile((PAGE_ADDRESS + offset) as *mut u32, value) }
    }
}
