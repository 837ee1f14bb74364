//! Ethernet frames of the virtual network: addresses, and the host's UDP in and out.
//!
//! Every MAC is derived from the IP address, so nobody ever has to ask for one.

use compasso_wire::address::{HOST_IPV4, PORT, mac, member_ipv4};
use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice};

/// Longest frame that is forwarded: an Ethernet frame without its check sequence.
pub const FRAME_MAX: usize = 1514;

/// Where a frame is going.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Destination {
    /// To the member at this position.
    Member(usize),
    /// To the host.
    Host,
    /// To everybody.
    All,
    /// To nobody here.
    Unknown,
}

/// Reads the destination off a frame.
#[must_use]
pub fn destination(frame: &[u8], members: usize) -> Destination {
    let Some(to) = frame.first_chunk::<6>() else { return Destination::Unknown };
    if to[0] & 1 == 1 {
        return Destination::All;
    }
    if *to == mac(HOST_IPV4) {
        return Destination::Host;
    }
    match *to {
        [2, 0, 0, 0, high, low] => match usize::from(u16::from_be_bytes([high, low])) {
            number @ 1.. if number <= members => Destination::Member(number - 1),
            _ => Destination::Unknown,
        },
        _ => Destination::Unknown,
    }
}

/// The frame that carries `datagram` from the host to a member.
#[must_use]
pub fn from_host(position: usize, datagram: &[u8]) -> Vec<u8> {
    let to = member_ipv4(position);
    let builder = PacketBuilder::ethernet2(mac(HOST_IPV4), mac(to)).ipv4(HOST_IPV4, to, 64).udp(PORT, PORT);
    let mut frame = Vec::with_capacity(builder.size(datagram.len()));
    if let Err(error) = builder.write(&mut frame, datagram) {
        unreachable!("a datagram fits a frame: {error}");
    }
    frame
}

/// The datagram in a frame for the host, if it is one.
#[must_use]
pub fn to_host(frame: &[u8]) -> Option<&[u8]> {
    let packet = SlicedPacket::from_ethernet(frame).ok()?;
    let Some(NetSlice::Ipv4(ip)) = &packet.net else { return None };
    if ip.header().destination() != HOST_IPV4 {
        return None;
    }
    match packet.transport {
        Some(TransportSlice::Udp(udp)) if udp.destination_port() == PORT => Some(udp.payload()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_finds_its_member_and_only_members_are_found() {
        assert_eq!(member_ipv4(0), [10, 77, 0, 1]);
        assert_eq!(member_ipv4(299), [10, 77, 1, 44]);
        let frame = from_host(4, b"hello");
        assert_eq!(destination(&frame, 5), Destination::Member(4));
        assert_eq!(destination(&frame, 4), Destination::Unknown);
        assert_eq!(destination(&mac(HOST_IPV4), 5), Destination::Host);
        assert_eq!(destination(&[0xff; 14], 5), Destination::All);
        assert_eq!(destination(&[2, 0, 0], 5), Destination::Unknown);
        assert_eq!(destination(&[2, 0, 0, 0, 0, 0], 5), Destination::Unknown);
    }

    #[test]
    fn the_host_reads_what_is_meant_for_it() {
        let builder = PacketBuilder::ethernet2(mac(member_ipv4(0)), mac(HOST_IPV4))
            .ipv4(member_ipv4(0), HOST_IPV4, 64)
            .udp(PORT, PORT);
        let mut frame = Vec::new();
        builder.write(&mut frame, b"report").unwrap();
        assert_eq!(to_host(&frame), Some(&b"report"[..]));
        assert_eq!(to_host(&from_host(1, b"not for the host")), None);
        for length in 0..frame.len() {
            assert_eq!(to_host(&frame[..length]), None, "cut at {length}");
        }
    }
}
