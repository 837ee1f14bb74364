//! Ethernet without questions: an IP device whose frames find their way by derived MAC addresses.
//!
//! With ARP one datagram to a dead peer blocks the socket for seconds. Here the receiver's MAC
//! address follows from its IP address (see [`compasso_wire::address`]), so embassy-net sees a
//! plain IP medium and nothing ever waits for a neighbour.

use crate::{now, stamps::Stamps};
use compasso_wire::address;
use core::task::Context;
use embassy_net_driver::{Capabilities, Driver, HardwareAddress, LinkState, RxToken, TxToken};

/// Destination, source, type.
pub const ETHERNET_HEADER_LEN: usize = 14;

const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];
/// Where an IPv4 header holds the destination.
const IPV4_DESTINATION_AT: usize = 16;

/// An Ethernet device seen as an IP device.
pub struct DerivedMac<D> {
    ethernet: D,
    mac: [u8; 6],
    stamps: &'static Stamps,
}

impl<D: Driver> DerivedMac<D> {
    /// Wraps the device of the board with this IPv4 address. The device must already listen to
    /// the MAC address that follows from it; it may put in `stamps` when its frames arrived.
    pub fn new(ethernet: D, ipv4: [u8; 4], stamps: &'static Stamps) -> DerivedMac<D> {
        DerivedMac { ethernet, mac: address::mac(ipv4), stamps }
    }
}

impl<D: Driver> Driver for DerivedMac<D> {
    type RxToken<'a>
        = Received<D::RxToken<'a>>
    where
        Self: 'a;
    type TxToken<'a>
        = Sending<D::TxToken<'a>>
    where
        Self: 'a;

    fn receive(&mut self, cx: &mut Context<'_>) -> Option<(Self::RxToken<'_>, Self::TxToken<'_>)> {
        let (mac, stamps) = (self.mac, self.stamps);
        let (rx, tx) = self.ethernet.receive(cx)?;
        Some((Received { token: rx, stamps }, Sending { token: tx, mac }))
    }

    fn transmit(&mut self, cx: &mut Context<'_>) -> Option<Self::TxToken<'_>> {
        let mac = self.mac;
        self.ethernet.transmit(cx).map(|token| Sending { token, mac })
    }

    fn link_state(&mut self, cx: &mut Context<'_>) -> LinkState {
        self.ethernet.link_state(cx)
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = self.ethernet.capabilities();
        capabilities.max_transmission_unit -= ETHERNET_HEADER_LEN;
        capabilities
    }

    fn hardware_address(&self) -> HardwareAddress {
        HardwareAddress::Ip
    }
}

/// A frame that arrived.
pub struct Received<T> {
    token: T,
    stamps: &'static Stamps,
}

impl<T: RxToken> RxToken for Received<T> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, f: F) -> R {
        self.token.consume(|frame| {
            // An empty frame is a device's way to say that there was none after all.
            if !frame.is_empty() {
                self.stamps.packet_passed(now(), frame.get(ETHERNET_HEADER_LEN..).unwrap_or(&[]));
            }
            match frame.split_first_chunk_mut::<ETHERNET_HEADER_LEN>() {
                Some((header, packet)) if header.ends_with(&ETHERTYPE_IPV4) => f(packet),
                // Whatever else there is on an Ethernet; the stack takes an empty packet for nothing.
                _ => f(&mut []),
            }
        })
    }
}

/// Room for a frame to send.
pub struct Sending<T> {
    token: T,
    mac: [u8; 6],
}

impl<T: TxToken> TxToken for Sending<T> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        self.token.consume(ETHERNET_HEADER_LEN + len, |frame| {
            let Some((header, packet)) = frame.split_first_chunk_mut::<ETHERNET_HEADER_LEN>() else {
                unreachable!("the device gives as much room as was asked for");
            };
            let result = f(packet);
            let destination = packet
                .get(IPV4_DESTINATION_AT..)
                .and_then(|rest| rest.first_chunk::<4>())
                .map_or([0xff; 6], |ipv4| address::mac(*ipv4));
            let bytes = destination.into_iter().chain(self.mac).chain(ETHERTYPE_IPV4);
            for (to, from) in header.iter_mut().zip(bytes) {
                *to = from;
            }
            result
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static STAMPS: Stamps = Stamps::new();

    struct Wire(Vec<u8>);
    impl RxToken for Wire {
        fn consume<R, F: FnOnce(&mut [u8]) -> R>(mut self, f: F) -> R {
            f(&mut self.0)
        }
    }
    impl TxToken for &mut Wire {
        fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
            self.0.resize(len, 0);
            f(&mut self.0)
        }
    }

    #[test]
    fn a_packet_travels_in_a_frame_to_the_derived_address() {
        let mut wire = Wire(Vec::new());
        let me = address::member_ipv4(4);
        Sending { token: &mut wire, mac: address::mac(me) }.consume(24, |packet| {
            packet[IPV4_DESTINATION_AT..20].copy_from_slice(&address::HOST_IPV4);
            packet[20..].copy_from_slice(b"data");
        });
        assert_eq!(wire.0[..6], [2, 0, 0, 0, 255, 254]);
        assert_eq!(wire.0[6..12], [2, 0, 0, 0, 0, 5]);
        assert_eq!(Received { token: wire, stamps: &STAMPS }.consume(|packet| packet[20..].to_vec()), b"data");
    }

    #[test]
    fn frames_that_are_not_ip_look_empty() {
        for frame in [vec![0; 60], vec![8, 0], Vec::new()] {
            assert!(Received { token: Wire(frame), stamps: &STAMPS }.consume(|packet| packet.is_empty()));
        }
    }
}
