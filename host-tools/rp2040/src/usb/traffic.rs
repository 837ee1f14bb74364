//! What a network driver does once a device is set up: frames into blocks, blocks into frames, and whether there is a
//! network at all.

use super::{enumeration::Enumeration, ntb};
use std::{collections::VecDeque, mem::take};

/// So many frames wait for the bus; a host loses the rest.
const FRAMES_MAX: usize = 100;

const NOTIFICATION: u8 = 0xa1;
const NETWORK_CONNECTION: u8 = 0x00;
const NOTE_HEAD_LEN: usize = 8;

/// Frames on their way, in both directions.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    has_carrier: bool,
    note: Vec<u8>,
    waiting: VecDeque<Vec<u8>>,
    /// The block on its way to the device, and how much of it is there.
    block: Vec<u8>,
    brought: usize,
    sequence: u16,
    /// The block on its way from the device.
    collected: Vec<u8>,
    departed: VecDeque<(u64, Vec<u8>)>,
    delivered: Option<u64>,
    dropped: u64,
    broken_blocks: u64,
}

impl Traffic {
    /// Whether the device has said that the network is connected.
    #[must_use]
    pub fn has_carrier(&self) -> bool {
        self.has_carrier
    }

    /// When the last block was with the device, all of it.
    #[must_use]
    pub fn delivered(&self) -> Option<u64> {
        self.delivered
    }

    /// Blocks of the device that nobody understands.
    #[must_use]
    pub fn broken_blocks(&self) -> u64 {
        self.broken_blocks
    }

    /// Frames that found no room or no network.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Nothing that was on its way is on its way any more, except what has arrived here.
    pub fn forget(&mut self) {
        *self = Traffic {
            departed: take(&mut self.departed),
            dropped: self.dropped + self.waiting.len() as u64,
            broken_blocks: self.broken_blocks,
            ..Traffic::default()
        };
    }

    /// A frame for the device.
    pub fn send(&mut self, frame: &[u8]) {
        if !self.has_carrier || self.waiting.len() == FRAMES_MAX {
            self.dropped += 1;
            return;
        }
        self.waiting.push_back(frame.to_vec());
    }

    /// A block for the device, whatever is in it, in the place of the next one.
    pub fn send_block(&mut self, block: Vec<u8>) {
        (self.block, self.brought) = (block, 0);
    }

    /// When the next frame of the device is there.
    #[must_use]
    pub fn departs_at(&self) -> u64 {
        self.departed.front().map_or(u64::MAX, |(at, _)| *at)
    }

    /// A frame that the device has sent, and when its last packet was over.
    pub fn departed(&mut self, now: u64) -> Option<(u64, Vec<u8>)> {
        self.departed.pop_front_if(|(at, _)| *at <= now)
    }

    /// Whether anything is to be brought.
    #[must_use]
    pub fn has_more(&self) -> bool {
        !self.block.is_empty() || !self.waiting.is_empty()
    }

    /// The next packet to bring.
    pub fn packet(&mut self, met: &Enumeration) -> Vec<u8> {
        if self.block.is_empty() {
            self.fill_block(met);
        }
        let end = self.block.len().min(self.brought + met.function.packet_len);
        self.block[self.brought..end].to_vec()
    }

    /// The next block: as many frames as the device wants in one, and a length that ends it.
    fn fill_block(&mut self, met: &Enumeration) {
        let Some(parameters) = met.parameters else { return };
        let (mut block, frames) = ntb::build(self.waiting.make_contiguous(), self.sequence, &parameters);
        self.waiting.drain(..frames);
        self.sequence = self.sequence.wrapping_add(1);
        if block.len().is_multiple_of(met.function.packet_len) && block.len() < parameters.out_max {
            block.push(0); // A short packet says that it is over.
        }
        (self.block, self.brought) = (block, 0);
    }

    /// So much of the packet was brought, by then.
    pub fn went(&mut self, len: usize, at: u64) {
        self.brought += len;
        if self.brought == self.block.len() {
            self.block.clear();
            (self.brought, self.delivered) = (0, Some(at));
        }
    }

    /// A packet came, by then.
    pub fn came(&mut self, bytes: Vec<u8>, at: u64, met: &Enumeration) {
        let is_short = bytes.len() < met.function.packet_len;
        self.collected.extend(bytes);
        if !is_short && self.collected.len() < met.parameters.map_or(0, |parameters| parameters.in_max) {
            return;
        }
        let block = take(&mut self.collected);
        match ntb::parse(&block) {
            Ok(frames) if self.has_carrier => {
                self.departed.extend(frames.into_iter().map(|frame| (at, frame.to_vec())));
            }
            Ok(frames) => self.dropped += frames.len() as u64,
            Err(_) => self.broken_blocks += 1,
        }
    }

    /// A piece of a notification came.
    pub fn noted(&mut self, bytes: &[u8]) {
        self.note.extend(bytes);
        let [kind, note, value, _, _, _, low, high, ..] = *self.note else { return };
        if self.note.len() < NOTE_HEAD_LEN + usize::from(u16::from_le_bytes([low, high])) {
            return;
        }
        if (kind, note) == (NOTIFICATION, NETWORK_CONNECTION) {
            self.has_carrier = value != 0;
        }
        self.note.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usb::ntb::Parameters;

    fn met() -> Enumeration {
        let parameters = Parameters {
            in_max: 2048,
            out_max: 2048,
            out_divisor: 4,
            out_remainder: 0,
            out_alignment: 4,
            out_frames: 0,
        };
        let mut met = Enumeration::new(1);
        met.parameters = Some(parameters);
        met
    }

    fn connected() -> Traffic {
        let mut traffic = Traffic::default();
        traffic.send(&[1; 60]);
        assert_eq!((traffic.dropped(), traffic.has_more()), (1, false), "nobody has said that there is a network");
        traffic.noted(&[0xa1, 0, 1, 0, 1, 0, 0, 0]);
        traffic
    }

    #[test]
    fn a_speed_is_told_in_pieces_and_changes_nothing() {
        let mut traffic = connected();
        for piece in [&[0xa1, 0x2a, 0, 0, 1, 0, 8, 0][..], &[0; 8], &[0xa1, 0, 0, 0, 1, 0, 0, 0]] {
            assert!(traffic.has_carrier());
            traffic.noted(piece);
        }
        assert!(!traffic.has_carrier(), "the last one says that it is gone");
    }

    #[test]
    fn a_block_ends_with_a_short_packet() {
        let (mut traffic, met) = (connected(), met());
        traffic.send(&[1; 128 - 28]);
        let mut lens = Vec::new();
        while traffic.has_more() {
            let len = traffic.packet(&met).len();
            traffic.went(len, 7);
            lens.push(len);
        }
        assert_eq!((lens, traffic.delivered()), (vec![64, 64, 1], Some(7)));
    }

    #[test]
    fn frames_come_out_of_a_block_when_its_last_packet_is_there() {
        let (mut traffic, met) = (connected(), met());
        let (block, _) = ntb::build(&[vec![5; 100], vec![6; 61]], 0, &met.parameters.unwrap());
        for (at, packet) in block.chunks(64).enumerate() {
            assert_eq!(traffic.departed(100), None);
            traffic.came(packet.to_vec(), at as u64, &met);
        }
        assert_eq!((traffic.departs_at(), traffic.departed(2)), (3, None));
        assert_eq!(traffic.departed(3), Some((3, vec![5; 100])));
        assert_eq!(traffic.departed(3), Some((3, vec![6; 61])));
    }

    #[test]
    fn a_host_keeps_no_more_frames_than_it_has_room_for() {
        let mut traffic = connected();
        for _ in 0..FRAMES_MAX + 5 {
            traffic.send(&[1; 60]);
        }
        assert_eq!(traffic.dropped(), 1 + 5);
        traffic.forget();
        assert_eq!((traffic.dropped(), traffic.has_more()), (1 + 5 + FRAMES_MAX as u64, false));
    }
}
