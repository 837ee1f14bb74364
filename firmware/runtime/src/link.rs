//! Ethernet without questions: an IP device whose frames find their way by known MAC addresses.
//!
//! With ARP one datagram to a dead peer blocks the socket for seconds. Here the receiver's MAC
//! address is known or learned (see [`crate::neighbours`]), so embassy-net sees a plain IP medium and
//! nothing ever waits for a neighbour.

use crate::{
    neighbours::{ARP_LEN, ETHERNET_HEADER_LEN, Frame, Mac, Neighbours, Question},
    now,
    stamps::Stamps,
};
use core::{cell::Cell, task::Context};
use embassy_net_driver::{Capabilities, Driver, HardwareAddress, LinkState, RxToken, TxToken};

/// An Ethernet device seen as an IP device.
pub struct DerivedMac<D> {
    ethernet: D,
    neighbours: Neighbours,
    asked: Cell<Option<Question>>,
    stamps: &'static Stamps,
}

impl<D: Driver> DerivedMac<D> {
    /// Wraps the device of the board with this IPv4 address. The device must already listen to
    /// the MAC address that follows from it; it may put in `stamps` when its frames arrived.
    pub fn new(ethernet: D, ipv4: [u8; 4], stamps: &'static Stamps) -> DerivedMac<D> {
        DerivedMac { ethernet, neighbours: Neighbours::derived(ipv4), asked: Cell::new(None), stamps }
    }

    /// Wraps a radio, whose MAC address is its own.
    pub fn radio(ethernet: D, ipv4: [u8; 4], mac: Mac, stamps: &'static Stamps) -> DerivedMac<D> {
        DerivedMac { ethernet, neighbours: Neighbours::learned(ipv4, mac), asked: Cell::new(None), stamps }
    }
}

impl<D: Driver> Driver for DerivedMac<D> {
    type RxToken<'a>
        = Received<'a, D::RxToken<'a>>
    where
        Self: 'a;
    type TxToken<'a>
        = Sending<'a, D::TxToken<'a>>
    where
        Self: 'a;

    fn receive(&mut self, cx: &mut Context<'_>) -> Option<(Self::RxToken<'_>, Self::TxToken<'_>)> {
        // The stack asks again after every frame, so a question is answered at once; or, without
        // room for the answer, never: it will be asked again.
        if let Some(question) = self.asked.take()
            && let Some(token) = self.ethernet.transmit(cx)
        {
            token.consume(ETHERNET_HEADER_LEN + ARP_LEN, |frame| self.neighbours.answer(question, frame));
        }
        let (rx, tx) = self.ethernet.receive(cx)?;
        let (neighbours, asked) = (&self.neighbours, &self.asked);
        Some((Received { token: rx, neighbours, asked, stamps: self.stamps }, Sending { token: tx, neighbours }))
    }

    fn transmit(&mut self, cx: &mut Context<'_>) -> Option<Self::TxToken<'_>> {
        let neighbours = &self.neighbours;
        self.ethernet.transmit(cx).map(|token| Sending { token, neighbours })
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
pub struct Received<'a, T> {
    token: T,
    neighbours: &'a Neighbours,
    asked: &'a Cell<Option<Question>>,
    stamps: &'static Stamps,
}

impl<T: RxToken> RxToken for Received<'_, T> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, f: F) -> R {
        self.token.consume(|frame| {
            // An empty frame is a device's way to say that there was none after all.
            if !frame.is_empty() {
                self.stamps.packet_passed(now(), frame.get(ETHERNET_HEADER_LEN..).unwrap_or(&[]));
            }
            match self.neighbours.look(frame) {
                Frame::Ipv4 => return f(frame.get_mut(ETHERNET_HEADER_LEN..).unwrap_or(&mut [])),
                Frame::Asks(question) => self.asked.set(Some(question)),
                Frame::Other => {}
            }
            f(&mut []) // The stack takes an empty packet for nothing.
        })
    }
}

/// Room for a frame to send.
pub struct Sending<'a, T> {
    token: T,
    neighbours: &'a Neighbours,
}

impl<T: TxToken> TxToken for Sending<'_, T> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        self.token.consume(ETHERNET_HEADER_LEN + len, |frame| {
            let Some((header, packet)) = frame.split_first_chunk_mut::<ETHERNET_HEADER_LEN>() else {
                unreachable!("the device gives as much room as was asked for");
            };
            let result = f(packet);
            *header = self.neighbours.header(packet);
            result
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use compasso_wire::address;
    use core::task::Waker;
    use std::{cell::RefCell, collections::VecDeque, rc::Rc};

    static STAMPS: Stamps = Stamps::new();

    /// What is sent on it lies in `sent`; what waits in `arriving` is received.
    #[derive(Clone, Default)]
    struct Wire {
        arriving: Rc<RefCell<VecDeque<Vec<u8>>>>,
        sent: Rc<RefCell<Vec<Vec<u8>>>>,
    }
    struct Token(Wire);
    impl RxToken for Token {
        fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, f: F) -> R {
            f(&mut self.0.arriving.borrow_mut().pop_front().unwrap())
        }
    }
    impl TxToken for Token {
        fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
            let mut frame = vec![0; len];
            let result = f(&mut frame);
            self.0.sent.borrow_mut().push(frame);
            result
        }
    }
    impl Driver for Wire {
        type RxToken<'a> = Token;
        type TxToken<'a> = Token;
        fn receive(&mut self, _: &mut Context<'_>) -> Option<(Token, Token)> {
            let is_empty = self.arriving.borrow().is_empty();
            (!is_empty).then(|| (Token(self.clone()), Token(self.clone())))
        }
        fn transmit(&mut self, _: &mut Context<'_>) -> Option<Token> {
            Some(Token(self.clone()))
        }
        fn link_state(&mut self, _: &mut Context<'_>) -> LinkState {
            LinkState::Up
        }
        fn capabilities(&self) -> Capabilities {
            Capabilities::default()
        }
        fn hardware_address(&self) -> HardwareAddress {
            HardwareAddress::Ip
        }
    }

    fn receive(device: &mut DerivedMac<Wire>) -> Option<Vec<u8>> {
        let (rx, _) = device.receive(&mut Context::from_waker(Waker::noop()))?;
        Some(rx.consume(|packet| packet.to_vec()))
    }

    #[test]
    fn a_packet_travels_in_a_frame_to_the_derived_address() {
        let wire = Wire::default();
        let mut device = DerivedMac::new(wire.clone(), address::member_ipv4(4), &STAMPS);
        let token = device.transmit(&mut Context::from_waker(Waker::noop())).unwrap();
        token.consume(24, |packet| {
            packet[16..20].copy_from_slice(&address::HOST_IPV4);
            packet[20..].copy_from_slice(b"data");
        });
        let frame = wire.sent.borrow_mut().pop().unwrap();
        assert_eq!(frame[..6], [2, 0, 0, 0, 255, 254]);
        assert_eq!(frame[6..12], [2, 0, 0, 0, 0, 5]);
        wire.arriving.borrow_mut().push_back(frame);
        assert_eq!(receive(&mut device).unwrap()[20..], *b"data");
    }

    #[test]
    fn frames_that_are_not_ip_look_empty() {
        let wire = Wire::default();
        wire.arriving.borrow_mut().extend([vec![0; 60], vec![8, 0], Vec::new()]);
        let mut device = DerivedMac::new(wire, address::member_ipv4(4), &STAMPS);
        for _ in 0..3 {
            assert_eq!(receive(&mut device), Some(Vec::new()));
        }
        assert_eq!(receive(&mut device), None);
    }

    #[test]
    fn a_question_is_answered_when_the_stack_asks_for_the_next_frame() {
        let wire = Wire::default();
        let mut question = vec![0xff; 14 + 28];
        question[12..22].copy_from_slice(&[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
        question[38..].copy_from_slice(&address::member_ipv4(4));
        wire.arriving.borrow_mut().push_back(question);
        let mut device = DerivedMac::new(wire.clone(), address::member_ipv4(4), &STAMPS);
        assert_eq!(receive(&mut device), Some(Vec::new()));
        assert_eq!(receive(&mut device), None);
        assert_eq!(receive(&mut device), None);
        assert_eq!(wire.sent.borrow().len(), 1);
        assert_eq!(wire.sent.borrow()[0][20..22], [0, 2]);
    }
}
