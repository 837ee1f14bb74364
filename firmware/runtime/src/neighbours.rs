//! Who has which MAC address, without asking anybody.
//!
//! A member's address follows from its IP address ([`address::mac`]) wherever boards can choose
//! their own. What cannot choose is learned from its own frames: the host, and on a radio, whose
//! address is burnt in, everybody; until then such frames go to all. Others may ask by ARP, and
//! are answered.

use compasso_wire::{address, limits::MEMBERS_MAX};
use core::cell::Cell;

/// An Ethernet address.
pub type Mac = [u8; 6];

/// Destination, source, type.
pub const ETHERNET_HEADER_LEN: usize = 14;
/// Length of an ARP packet over Ethernet and IPv4.
pub const ARP_LEN: usize = 28;

const EVERYBODY: Mac = [0xff; 6];
const ETHERTYPE_AT: usize = 12;
const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];
const ETHERTYPE_ARP: [u8; 2] = [0x08, 0x06];
/// Ethernet, IPv4, lengths of both addresses; then request or reply.
const ARP_KIND: [u8; 6] = [0x00, 0x01, 0x08, 0x00, 6, 4];
const ARP_REQUEST: [u8; 2] = [0x00, 0x01];
const ARP_REPLY: [u8; 2] = [0x00, 0x02];
/// Where an IPv4 header holds source and destination.
const IPV4_SOURCE_AT: usize = 12;
const IPV4_DESTINATION_AT: usize = 16;

/// Somebody asked for our address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Question {
    mac: Mac,
    ipv4: [u8; 4],
}

/// What a received frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Frame {
    /// An IPv4 packet.
    Ipv4,
    /// A question for us.
    Asks(Question),
    /// Nothing of ours.
    Other,
}

/// The addresses of a network with derived or learned ones.
pub struct Neighbours {
    mac: Mac,
    ipv4: [u8; 4],
    /// On a radio nobody can choose its address.
    is_radio: bool,
    host: Cell<Mac>,
    members: [Cell<Mac>; MEMBERS_MAX],
}

impl Neighbours {
    /// The neighbours of the board with this IPv4 address, which has the MAC address that follows
    /// from it.
    #[must_use]
    pub fn derived(ipv4: [u8; 4]) -> Neighbours {
        let members = core::array::from_fn(|position| Cell::new(address::mac(address::member_ipv4(position))));
        let host = Cell::new(address::mac(address::HOST_IPV4));
        Neighbours { mac: address::mac(ipv4), ipv4, is_radio: false, host, members }
    }

    /// The neighbours of the board with this IPv4 address and a radio with this MAC address.
    #[must_use]
    pub fn learned(ipv4: [u8; 4], mac: Mac) -> Neighbours {
        let members = [const { Cell::new(EVERYBODY) }; MEMBERS_MAX];
        Neighbours { mac, ipv4, is_radio: true, host: Cell::new(EVERYBODY), members }
    }

    /// Looks at a frame that arrived, and learns from it.
    pub fn look(&self, frame: &[u8]) -> Frame {
        let Some((header, packet)) = frame.split_first_chunk::<ETHERNET_HEADER_LEN>() else { return Frame::Other };
        let [_, _, _, _, _, _, source @ .., _, _] = *header;
        match header.get(ETHERTYPE_AT..) {
            Some(kind) if kind == ETHERTYPE_IPV4 => {
                if let Some(ipv4) = chunk(packet, IPV4_SOURCE_AT) {
                    self.learn(ipv4, source);
                }
                Frame::Ipv4
            }
            Some(kind) if kind == ETHERTYPE_ARP => self.asks(packet).map_or(Frame::Other, Frame::Asks),
            Some(_) | None => Frame::Other,
        }
    }

    /// The header of the frame for an IPv4 packet.
    #[must_use]
    pub fn header(&self, packet: &[u8]) -> [u8; ETHERNET_HEADER_LEN] {
        let destination = chunk(packet, IPV4_DESTINATION_AT).map_or(EVERYBODY, |ipv4| self.mac_of(ipv4));
        self.frame_to(destination, ETHERTYPE_IPV4)
    }

    /// Writes the answer's frame.
    pub fn answer(&self, question: Question, frame: &mut [u8]) {
        let header = self.frame_to(question.mac, ETHERTYPE_ARP);
        let addresses = self.mac.into_iter().chain(self.ipv4).chain(question.mac).chain(question.ipv4);
        let bytes = header.into_iter().chain(ARP_KIND).chain(ARP_REPLY).chain(addresses);
        frame.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
    }

    fn asks(&self, packet: &[u8]) -> Option<Question> {
        let (kind, rest) = packet.split_first_chunk::<6>()?;
        let (operation, rest) = rest.split_first_chunk::<2>()?;
        let (mac, rest) = rest.split_first_chunk::<6>()?;
        let is_for_us = chunk::<4>(rest, 10)? == self.ipv4;
        let is_request = *kind == ARP_KIND && *operation == ARP_REQUEST;
        Some(Question { mac: *mac, ipv4: chunk(rest, 0)? }).filter(|_| is_for_us && is_request)
    }

    fn learn(&self, ipv4: [u8; 4], mac: Mac) {
        let is_one_station = mac.first().is_some_and(|first| first & 1 == 0);
        match self.place(ipv4) {
            Some((place, is_member)) if is_one_station && (self.is_radio || !is_member) => place.set(mac),
            Some(_) | None => {}
        }
    }

    fn mac_of(&self, ipv4: [u8; 4]) -> Mac {
        self.place(ipv4).map_or(EVERYBODY, |(place, _)| place.get())
    }

    fn place(&self, ipv4: [u8; 4]) -> Option<(&Cell<Mac>, bool)> {
        match ipv4 == address::HOST_IPV4 {
            true => Some((&self.host, false)),
            false => Some((self.members.get(address::position(ipv4)?)?, true)),
        }
    }

    fn frame_to(&self, destination: Mac, kind: [u8; 2]) -> [u8; ETHERNET_HEADER_LEN] {
        let mut header = [0; ETHERNET_HEADER_LEN];
        let bytes = destination.into_iter().chain(self.mac).chain(kind);
        header.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
        header
    }
}

fn chunk<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: [u8; 4] = address::member_ipv4(4);
    const OTHER: [u8; 4] = address::member_ipv4(2);
    const STRANGE: Mac = [0x28, 0xcd, 0xc1, 1, 2, 3];

    fn packet(from: [u8; 4], to: [u8; 4]) -> Vec<u8> {
        let mut packet = vec![0; 20];
        packet[12..16].copy_from_slice(&from);
        packet[16..20].copy_from_slice(&to);
        packet
    }

    fn frame(source: Mac, kind: [u8; 2], packet: &[u8]) -> Vec<u8> {
        [&EVERYBODY[..], &source, &kind, packet].concat()
    }

    fn question(to: [u8; 4]) -> Vec<u8> {
        let arp = [&ARP_KIND[..], &ARP_REQUEST, &STRANGE, &address::HOST_IPV4, &[0; 6], &to, &[0; 18]].concat();
        frame(STRANGE, ETHERTYPE_ARP, &arp)
    }

    #[test]
    fn members_have_derived_addresses_whoever_claims_otherwise() {
        let neighbours = Neighbours::derived(ME);
        assert_eq!(neighbours.look(&frame(STRANGE, ETHERTYPE_IPV4, &packet(OTHER, ME))), Frame::Ipv4);
        let header = neighbours.header(&packet(ME, OTHER));
        assert_eq!(header[..6], [2, 0, 0, 0, 0, 3]);
        assert_eq!(header[6..], [2, 0, 0, 0, 0, 5, 8, 0]);
    }

    #[test]
    fn the_host_is_learned_from_its_frames() {
        let neighbours = Neighbours::derived(ME);
        let to_host = packet(ME, address::HOST_IPV4);
        assert_eq!(neighbours.header(&to_host)[..6], [2, 0, 0, 0, 255, 254]);
        neighbours.look(&frame(STRANGE, ETHERTYPE_IPV4, &packet(address::HOST_IPV4, ME)));
        assert_eq!(neighbours.header(&to_host)[..6], STRANGE);
    }

    #[test]
    fn on_a_radio_a_frame_goes_to_all_until_its_receiver_was_heard() {
        let neighbours = Neighbours::learned(ME, [0x28, 0xcd, 0xc1, 9, 9, 9]);
        assert_eq!(neighbours.header(&packet(ME, OTHER))[..6], EVERYBODY);
        neighbours.look(&frame(EVERYBODY, ETHERTYPE_IPV4, &packet(OTHER, ME)));
        assert_eq!(neighbours.header(&packet(ME, OTHER))[..6], EVERYBODY, "nobody is everybody");
        neighbours.look(&frame(STRANGE, ETHERTYPE_IPV4, &packet(OTHER, ME)));
        assert_eq!(neighbours.header(&packet(ME, OTHER))[..6], STRANGE);
        assert_eq!(neighbours.header(&packet(ME, OTHER))[6..12], [0x28, 0xcd, 0xc1, 9, 9, 9]);
    }

    #[test]
    fn whoever_asks_for_this_board_is_answered() {
        let neighbours = Neighbours::derived(ME);
        let Frame::Asks(asked) = neighbours.look(&question(ME)) else { panic!("it is a question") };
        let mut answer = vec![0; ETHERNET_HEADER_LEN + ARP_LEN];
        neighbours.answer(asked, &mut answer);
        let expected = [
            &STRANGE[..],
            &address::mac(ME),
            &ETHERTYPE_ARP,
            &ARP_KIND,
            &ARP_REPLY,
            &address::mac(ME),
            &ME,
            &STRANGE,
            &address::HOST_IPV4,
        ];
        assert_eq!(answer, expected.concat());
    }

    #[test]
    fn questions_for_others_answers_and_noise_are_nothing() {
        let neighbours = Neighbours::derived(ME);
        let mut reply = question(ME);
        reply[ETHERNET_HEADER_LEN + 7] = 2;
        for frame in [question(OTHER), reply, question(ME)[..40].to_vec(), vec![0; 60], vec![8, 0], Vec::new()] {
            assert_eq!(neighbours.look(&frame), Frame::Other, "{frame:?}");
        }
    }
}
