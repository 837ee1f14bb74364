//! When datagrams arrived and left, as near to the wire as the board can tell.
//!
//! A stamp is taken far below the stack, which knows nothing of it. So it travels beside the frame:
//! the device says when the next frame that it hands up arrived ([`Stamps::frame_arrived`]), the
//! link notes that with the datagram inside ([`Stamps::packet_passed`]), and whoever receives the
//! datagram asks ([`Stamps::take`]).
//!
//! A device that can tell also says when a frame left ([`Stamps::frame_left`]), and whoever sent what was inside asks for
//! that afterwards ([`Stamps::poll_left`]).
//!
//! Promises: a stamp is never before its datagram's arrival, because what a clock is set by must not
//! look better than it is. Every doubt makes it later: a frame without a stamp is stamped when it
//! passes the link, a datagram that is not found when it is handled. For the same reason departures are never told too late: every
//! doubt makes them earlier, and one that is forgotten is not told.

use crate::{PACKETS_QUEUED, neighbours::ETHERNET_HEADER_LEN};
use compasso_node::Tag;
use compasso_wire::{Instant, address};
use core::cell::RefCell;
use embassy_sync::blocking_mutex::{Mutex, raw::CriticalSectionRawMutex};
use heapless::Deque;

/// So many frames may wait between a device and the link.
pub const FRAMES_MAX: usize = 16;

/// So many departures wait to be asked for; then the oldest is forgotten.
const LEFT_MAX: usize = 4;

/// The stamps on their way up. There is one for each network device.
pub struct Stamps(Mutex<CriticalSectionRawMutex, RefCell<Inner>>);

struct Inner {
    frames: Deque<Instant, FRAMES_MAX>,
    datagrams: Deque<(Tag, Instant), PACKETS_QUEUED>,
    left: Deque<(Tag, Instant), LEFT_MAX>,
}

impl Stamps {
    /// None yet.
    #[must_use]
    pub const fn new() -> Stamps {
        Stamps(Mutex::new(RefCell::new(Inner { frames: Deque::new(), datagrams: Deque::new(), left: Deque::new() })))
    }

    /// The device hands up a frame that arrived then, after those that it announced before.
    pub fn frame_arrived(&self, at: Instant) {
        self.with(|inner| {
            if inner.frames.push_back(at).is_err() {
                // Frames that lost their stamps take those of later frames, until none are left.
                inner.frames.clear();
            }
        });
    }

    /// An IP packet goes up to the stack.
    pub fn packet_passed(&self, now: Instant, packet: &[u8]) {
        self.with(|inner| {
            let at = inner.frames.pop_front().unwrap_or(now);
            let Some(key) = payload(packet).and_then(key) else { return };
            if inner.datagrams.is_full() {
                inner.datagrams.pop_front();
            }
            let _ = inner.datagrams.push_back((key, at)); // There is room.
        });
    }

    /// When this datagram arrived, if that is known. Asked in the order of arrival.
    #[must_use]
    pub fn take(&self, datagram: &[u8]) -> Option<Instant> {
        let wanted = key(datagram)?;
        self.with(|inner| {
            let before = inner.datagrams.iter().position(|(key, _)| *key == wanted)?;
            for _ in 0..before {
                inner.datagrams.pop_front(); // The stack has dropped it.
            }
            inner.datagrams.pop_front().map(|(_, at)| at)
        })
    }

    /// The device has sent the frame with the datagram that ends so, or sends it right now: not before `at`.
    pub fn frame_left(&self, tag: Tag, at: Instant) {
        self.with(|inner| {
            if inner.left.is_full() {
                inner.left.pop_front();
            }
            let _ = inner.left.push_back((tag, at)); // There is room.
        });
    }

    /// The end of a datagram that has left, and when: the oldest that was not asked for.
    #[must_use]
    pub fn poll_left(&self) -> Option<(Tag, Instant)> {
        self.with(|inner| inner.left.pop_front())
    }

    fn with<R>(&self, f: impl FnOnce(&mut Inner) -> R) -> R {
        self.0.lock(|inner| f(&mut inner.borrow_mut()))
    }
}

/// How the datagram in a frame ends, if it holds one of ours.
#[must_use]
pub fn tag_in(frame: &[u8]) -> Option<Tag> {
    payload(frame.get(ETHERNET_HEADER_LEN..)?).and_then(key)
}

impl Default for Stamps {
    fn default() -> Stamps {
        Stamps::new()
    }
}

fn key(datagram: &[u8]) -> Option<Tag> {
    datagram.last_chunk().copied()
}

/// What the UDP datagram in an IPv4 packet carries, if it is one for us. A frame may be padded.
fn payload(packet: &[u8]) -> Option<&[u8]> {
    const UDP: u8 = 17;
    const UDP_HEADER_LEN: usize = 8;
    let header_len = usize::from(packet.first()? & 0x0f) * 4;
    let total_len = usize::from(u16::from_be_bytes(*packet.get(2..)?.first_chunk()?));
    let udp = packet.get(header_len..total_len).filter(|_| packet.get(9) == Some(&UDP))?;
    let port = u16::from_be_bytes(*udp.get(2..)?.first_chunk()?);
    udp.get(UDP_HEADER_LEN..).filter(|_| port == address::PORT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; 28];
        packet[0] = 0x45;
        packet[2..4].copy_from_slice(&(28 + payload.len() as u16).to_be_bytes());
        packet[9] = 17;
        packet[22..24].copy_from_slice(&address::PORT.to_be_bytes());
        packet.extend(payload);
        packet.extend([0; 18]); // An Ethernet frame has at least 60 bytes.
        packet
    }

    fn pass(stamps: &Stamps, now: u64, payload: &[u8]) {
        stamps.packet_passed(Instant(now), &packet(payload));
    }

    const ONE: &[u8] = b"datagram with tag 1";
    const TWO: &[u8] = b"datagram with tag 2";
    const THREE: &[u8] = b"datagram with tag 3";

    #[test]
    fn a_datagram_gets_the_stamp_of_its_frame() {
        let stamps = Stamps::new();
        stamps.frame_arrived(Instant(10));
        stamps.frame_arrived(Instant(20));
        pass(&stamps, 100, ONE);
        pass(&stamps, 101, TWO);
        assert_eq!(stamps.take(ONE), Some(Instant(10)));
        assert_eq!(stamps.take(TWO), Some(Instant(20)));
        assert_eq!(stamps.take(TWO), None, "taken once");
    }

    #[test]
    fn without_a_stamp_from_the_device_the_link_takes_one() {
        let stamps = Stamps::new();
        pass(&stamps, 100, ONE);
        assert_eq!(stamps.take(ONE), Some(Instant(100)));
    }

    #[test]
    fn a_datagram_that_the_stack_dropped_keeps_nobody_from_its_stamp() {
        let stamps = Stamps::new();
        for (at, datagram) in [(10, ONE), (20, TWO), (30, THREE)] {
            stamps.frame_arrived(Instant(at));
            pass(&stamps, 100, datagram);
        }
        assert_eq!(stamps.take(TWO), Some(Instant(20)));
        assert_eq!(stamps.take(ONE), None, "it came before, so it was dropped");
        assert_eq!(stamps.take(THREE), Some(Instant(30)));
    }

    #[test]
    fn a_packet_of_somebody_else_uses_its_own_stamp_up() {
        let stamps = Stamps::new();
        let mut other = packet(ONE);
        other[23] ^= 1; // Another port.
        for (at, packet) in [(10, &other), (20, &vec![0x45; 3]), (30, &Vec::new()), (40, &packet(TWO))] {
            stamps.frame_arrived(Instant(at));
            stamps.packet_passed(Instant(100), packet);
        }
        assert_eq!(stamps.take(ONE), None);
        assert_eq!(stamps.take(TWO), Some(Instant(40)));
    }

    #[test]
    fn departures_are_told_in_their_order_and_the_oldest_are_forgotten() {
        let stamps = Stamps::new();
        assert_eq!(stamps.poll_left(), None);
        for (at, datagram) in [(10, ONE), (20, TWO)] {
            stamps.frame_left(*datagram.last_chunk().unwrap(), Instant(at));
        }
        assert_eq!(stamps.poll_left(), Some((*ONE.last_chunk().unwrap(), Instant(10))));
        assert_eq!(stamps.poll_left(), Some((*TWO.last_chunk().unwrap(), Instant(20))));
        assert_eq!(stamps.poll_left(), None, "told once");
        for at in 0..=LEFT_MAX as u64 {
            stamps.frame_left([0; 8], Instant(at));
        }
        assert_eq!(stamps.poll_left().map(|(_, at)| at), Some(Instant(1)));
    }

    #[test]
    fn a_frame_is_known_by_the_end_of_its_datagram_if_it_is_ours() {
        let mut frame = [vec![0; ETHERNET_HEADER_LEN], packet(ONE)].concat();
        assert_eq!(tag_in(&frame), ONE.last_chunk().copied());
        frame[ETHERNET_HEADER_LEN + 23] ^= 1; // Another port.
        assert_eq!((tag_in(&frame), tag_in(&[])), (None, None));
    }

    #[test]
    fn no_stamp_is_ever_before_its_frame_however_many_are_lost() {
        let stamps = Stamps::new();
        let mut waiting = Vec::new();
        let mut now = 0;
        for burst in 1..40_u64 {
            for _ in 0..burst {
                now += 1;
                stamps.frame_arrived(Instant(now));
                waiting.push(now);
            }
            for arrived in waiting.drain(..) {
                now += 1;
                let datagram = arrived.to_be_bytes();
                pass(&stamps, now, &datagram);
                assert!(stamps.take(&datagram).is_none_or(|at| at.0 >= arrived), "burst of {burst}");
            }
        }
    }
}
