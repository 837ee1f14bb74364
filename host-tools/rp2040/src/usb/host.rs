//! The host at the other end of the cable: it notices the device, gets to know it, and then carries
//! frames to and from it, one packet after the other on a bus of 12 Mbit/s.
//!
//! A host asks again and again until a device has a packet, or room for one. Here nothing happens
//! between the moment at which the device becomes ready and the next one at which the host would have
//! asked: those moments lie on a grid ([`ASKS_EVERY`]). Every millisecond begins with a packet that
//! marks a frame, and no packet crosses the end of one.

use super::{
    control::Control,
    enumeration::{Enumeration, Next},
    ntb,
};
use crate::bus::{
    CYCLES_PER_US,
    usb::{Answer, Controller, Pipe},
};
use std::collections::VecDeque;

const MS: u64 = 1000 * CYCLES_PER_US;
const FRAME: u64 = MS;
/// A device that is not ready is asked again after this time.
const ASKS_EVERY: u64 = 10 * CYCLES_PER_US;
/// Of 12 Mbit/s.
const BITS_PER_US: u64 = 12;
/// Around the bytes of a packet: token, its own head and tail, the answer, and two turns of the bus.
const OVERHEAD_BITS: u64 = 102;
/// The last packet of a frame is over so long before its end.
const FRAME_GAP: u64 = 3 * CYCLES_PER_US;

/// A plug may still move.
const DEBOUNCE: u64 = 100 * MS;
const PLUGGED_WITHIN: u64 = 20 * MS;
const RESET: u64 = 50 * MS;
const RECOVERY: u64 = 10 * MS;
/// A bus on which nothing happens for so long is suspended.
const SUSPENDED_AFTER: u64 = 3 * MS;
/// A transfer that takes longer has failed, and everything begins anew.
const CONTROL_PATIENCE: u64 = 5000 * MS;
/// So often; then the host gives up.
const TRIES: u32 = 4;
/// Notifications are not asked for less often, in milliseconds.
const NOTES_EVERY_MAX: u8 = 128;
/// So many frames wait for the bus; a host loses the rest.
const FRAMES_MAX: usize = 100;

const NOTIFICATION: u8 = 0xa1;
const NETWORK_CONNECTION: u8 = 0x00;
const NOTE_HEAD_LEN: usize = 8;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// There is no device, or it does not show.
    Away,
    /// It has just shown.
    Debouncing,
    Resetting,
    Recovering,
    /// It is being got to know.
    Asking,
    Pausing,
    /// Frames are carried.
    Running,
}

/// A packet on the bus.
#[derive(Clone, Debug)]
pub(super) enum Packet {
    /// Begins a control transfer.
    Setup([u8; 8]),
    /// Asked for; so long.
    In(Pipe, usize),
    /// Brought; whether it is an odd one.
    Out(Pipe, Vec<u8>, bool),
}

/// What becomes of a plugged-in device.
#[derive(Clone, Debug)]
pub struct Host {
    is_plugged: bool,
    phase: Phase,
    /// When the phase is over, where time decides.
    until: u64,
    suspends_at: u64,
    /// Where frames of a millisecond begin, in cycles.
    offset: u64,
    plugged_within: u64,
    tries: u32,
    met: Enumeration,
    control: Option<Control>,
    /// The packet on the bus, and when it is over.
    flight: Option<(Packet, u64)>,
    free_at: u64,
    /// Which pipes have an odd packet next.
    odd: [bool; 32],
    was_in: bool,
    notes_at: u64,
    note: Vec<u8>,
    has_carrier: bool,
    waiting: VecDeque<Vec<u8>>,
    /// The block on its way to the device, and how much of it is there.
    block: Vec<u8>,
    brought: usize,
    sequence: u16,
    /// The block on its way from the device.
    collected: Vec<u8>,
    departed: VecDeque<(u64, Vec<u8>)>,
    dropped: u64,
    broken_blocks: u64,
    delivered: Option<u64>,
    gave_up: Option<String>,
}

impl Host {
    /// A host to which the device is connected; what is left to chance comes from the seed.
    #[must_use]
    pub fn new(seed: u64) -> Host {
        Host {
            is_plugged: true,
            phase: Phase::Away,
            until: u64::MAX,
            suspends_at: u64::MAX,
            offset: seed % FRAME,
            plugged_within: (seed >> 20) % PLUGGED_WITHIN,
            tries: 0,
            met: Enumeration::new(1 + (seed >> 40) as u8 % 100),
            control: None,
            flight: None,
            free_at: 0,
            odd: [false; 32],
            was_in: false,
            notes_at: u64::MAX,
            note: Vec::new(),
            has_carrier: false,
            waiting: VecDeque::new(),
            block: Vec::new(),
            brought: 0,
            sequence: 0,
            collected: Vec::new(),
            departed: VecDeque::new(),
            dropped: 0,
            broken_blocks: 0,
            delivered: None,
            gave_up: None,
        }
    }

    /// What it knows of the device.
    #[must_use]
    pub fn met(&self) -> &Enumeration {
        &self.met
    }

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

    /// Why it wants no more of the device.
    #[must_use]
    pub fn gave_up(&self) -> Option<&str> {
        self.gave_up.as_deref()
    }

    /// The cable is plugged in or pulled out, at the host's end.
    pub fn plug(&mut self, is_plugged: bool) {
        self.is_plugged = is_plugged;
    }

    /// The driver is taken away and comes back: the device is configured anew, without a reset.
    pub fn rebind(&mut self) {
        if self.phase == Phase::Running {
            self.met.begin_driver();
            self.forget();
            self.phase = Phase::Asking;
        }
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

    /// A frame that the device has sent, and when its last packet was over.
    pub fn departed(&mut self, now: u64) -> Option<(u64, Vec<u8>)> {
        self.departed.pop_front_if(|(at, _)| *at <= now)
    }

    /// When something happens next by itself.
    #[must_use]
    pub fn next_at(&self) -> u64 {
        let packet = self.flight.as_ref().map_or(u64::MAX, |(_, ends)| *ends);
        let control = self.control.as_ref().map_or(u64::MAX, |control| control.patience_at);
        let notes = if self.flight.is_some() { u64::MAX } else { self.notes_at };
        let departed = self.departed.front().map_or(u64::MAX, |(at, _)| *at);
        packet.min(control).min(notes).min(departed).min(self.until).min(self.suspends_at)
    }

    /// Everything happens that happens until now.
    pub fn advance(&mut self, now: u64, device: &mut Controller) {
        let is_there = self.is_plugged && device.is_attached();
        if is_there != (self.phase != Phase::Away) {
            self.comes_or_goes(now, is_there);
        }
        loop {
            match self.flight.take_if(|(_, ends)| *ends <= now) {
                Some((packet, ends)) => {
                    self.free_at = ends;
                    self.finish(packet, ends, device);
                }
                None if self.flight.is_some() => return,
                None if self.pass(now, device) => {}
                None => match self.choose(now, device) {
                    Some(packet) => self.begin(now, packet),
                    None => return,
                },
            }
        }
    }

    fn comes_or_goes(&mut self, now: u64, comes: bool) {
        *self = Host {
            is_plugged: self.is_plugged,
            met: self.met.anew(),
            dropped: self.dropped + self.waiting.len() as u64,
            broken_blocks: self.broken_blocks,
            offset: self.offset,
            departed: std::mem::take(&mut self.departed),
            gave_up: self.gave_up.take(),
            suspends_at: now + SUSPENDED_AFTER,
            ..Host::new(0)
        };
        if comes {
            (self.phase, self.until) = (Phase::Debouncing, now + DEBOUNCE + self.plugged_within);
        }
    }

    /// Whether time has brought something about.
    fn pass(&mut self, now: u64, device: &mut Controller) -> bool {
        if self.suspends_at <= now {
            self.suspends_at = u64::MAX;
            device.suspend();
            return true;
        }
        if self.control.as_ref().is_some_and(|control| control.patience_at <= now) {
            self.begins_anew(now, device);
            return true;
        }
        if let Some((_, Answer::Stall | Answer::Silence)) = self.wants_control(device) {
            self.answered(None);
            return true;
        }
        match self.phase {
            Phase::Debouncing | Phase::Resetting | Phase::Recovering | Phase::Pausing if now < self.until => false,
            Phase::Debouncing => {
                self.reset(now, device);
                true
            }
            Phase::Resetting => {
                (self.phase, self.until) = (Phase::Recovering, now + RECOVERY);
                true
            }
            Phase::Recovering | Phase::Pausing => {
                (self.phase, self.until) = (Phase::Asking, u64::MAX);
                true
            }
            Phase::Asking if self.control.is_none() && self.gave_up.is_none() => {
                self.ask(now, device);
                true
            }
            Phase::Asking | Phase::Running | Phase::Away => false,
        }
    }

    fn ask(&mut self, now: u64, device: &mut Controller) {
        match self.met.go_on() {
            Next::Ask(request) => {
                let begins = (now + FRAME - self.offset).next_multiple_of(FRAME) + self.offset - FRAME;
                self.control = Some(Control::new(request, begins, now + CONTROL_PATIENCE));
            }
            Next::Reset => self.reset(now, device),
            Next::Wait(ms) => (self.phase, self.until) = (Phase::Pausing, now + ms * MS),
            Next::Done => {
                (self.phase, self.tries) = (Phase::Running, 0);
                self.notes_at = now + self.notes_every();
            }
        }
    }

    fn reset(&mut self, now: u64, device: &mut Controller) {
        (self.phase, self.until, self.suspends_at) = (Phase::Resetting, now + RESET, u64::MAX);
        self.forget();
        device.bus_reset();
    }

    /// Nothing that was under way is under way any more.
    fn forget(&mut self) {
        self.dropped += self.waiting.len() as u64;
        self.control = None;
        (self.has_carrier, self.notes_at) = (false, u64::MAX);
        self.odd = [false; 32];
        self.note.clear();
        self.waiting.clear();
        self.block.clear();
        self.brought = 0;
        self.collected.clear();
    }

    fn begins_anew(&mut self, now: u64, device: &mut Controller) {
        self.tries += 1;
        self.met = self.met.anew();
        self.reset(now, device);
        if self.tries == TRIES {
            self.gave_up.get_or_insert("the device does not answer".into());
        }
    }

    fn notes_every(&self) -> u64 {
        let every = self.met.function.notes_every.clamp(1, NOTES_EVERY_MAX);
        MS << every.ilog2()
    }

    /// The next packet of the control transfer, and what the device answers to it.
    fn wants_control(&self, device: &Controller) -> Option<(Packet, Answer)> {
        let packet = self.control.as_ref()?.wants();
        let answer = match &packet {
            Packet::Setup(_) => Answer::Ready,
            Packet::In(pipe, _) | Packet::Out(pipe, ..) => device.answer(self.met.address(), *pipe),
        };
        Some((packet, answer))
    }

    /// The next packet for which the device is ready.
    fn choose(&mut self, now: u64, device: &mut Controller) -> Option<Packet> {
        let address = self.met.address();
        if self.phase == Phase::Asking {
            let (packet, answer) = self.wants_control(device)?;
            return (answer == Answer::Ready).then(|| sized(packet, device));
        }
        if self.phase != Phase::Running {
            return None;
        }
        let function = self.met.function;
        let is_ready = |pipe| device.answer(address, pipe) == Answer::Ready;
        if self.notes_at <= now {
            while self.notes_at <= now {
                self.notes_at += self.notes_every();
            }
            if is_ready(function.notes) {
                return Some(sized(Packet::In(function.notes, 0), device));
            }
        }
        let comes = is_ready(function.frames_in);
        let goes = (!self.block.is_empty() || !self.waiting.is_empty()) && is_ready(function.frames_out);
        match (comes, goes) {
            (true, false) => self.was_in = true,
            (true, true) => self.was_in = !self.was_in,
            (false, true) => self.was_in = false,
            (false, false) => return None,
        }
        if self.was_in {
            return Some(sized(Packet::In(function.frames_in, 0), device));
        }
        self.fill_block();
        let end = self.block.len().min(self.brought + function.packet_len);
        Some(Packet::Out(function.frames_out, self.block[self.brought..end].to_vec(), self.odd(function.frames_out)))
    }

    /// The next block: as many frames as the device wants in one, and a length that ends it.
    fn fill_block(&mut self) {
        let Some(parameters) = self.met.parameters.filter(|_| self.block.is_empty()) else { return };
        let (mut block, frames) = ntb::build(self.waiting.make_contiguous(), self.sequence, &parameters);
        self.waiting.drain(..frames);
        self.sequence = self.sequence.wrapping_add(1);
        if block.len().is_multiple_of(self.met.function.packet_len) && block.len() < parameters.out_max {
            block.push(0); // A short packet says that it is over.
        }
        (self.block, self.brought) = (block, 0);
    }

    fn begin(&mut self, now: u64, packet: Packet) {
        let len = match &packet {
            Packet::Setup(_) => 8,
            Packet::In(_, len) => *len,
            Packet::Out(_, bytes, _) => bytes.len(),
        };
        let takes = (OVERHEAD_BITS + 8 * len as u64) * CYCLES_PER_US / BITS_PER_US;
        let not_before = self.control.as_ref().map_or(0, |control| control.not_before);
        let earliest = now.max(self.free_at).max(not_before);
        let mut begins = (earliest + FRAME - self.offset).next_multiple_of(ASKS_EVERY);
        if begins % FRAME + takes + FRAME_GAP > FRAME {
            begins = begins.next_multiple_of(FRAME);
        }
        if begins.is_multiple_of(FRAME) {
            begins += ASKS_EVERY; // It begins with its mark.
        }
        self.flight = Some((packet, begins + self.offset - FRAME + takes));
    }

    fn finish(&mut self, packet: Packet, at: u64, device: &mut Controller) {
        let address = self.met.address();
        match packet {
            Packet::Setup(request) => {
                let heard = device.setup(address, request);
                match &mut self.control {
                    Some(control) if heard => control.begun(),
                    _ => self.answered(None),
                }
            }
            Packet::In(pipe, _) if device.answer(address, pipe) == Answer::Ready => {
                let (bytes, is_odd) = device.packet(pipe);
                device.taken(pipe);
                self.came(pipe, bytes, is_odd, at);
            }
            Packet::Out(pipe, bytes, is_odd) if device.answer(address, pipe) == Answer::Ready => {
                device.brought(pipe, &bytes, is_odd);
                self.went(pipe, bytes.len(), at);
            }
            // The device has changed its mind.
            Packet::In(..) | Packet::Out(..) => {}
        }
    }

    fn came(&mut self, pipe: Pipe, bytes: Vec<u8>, is_odd: bool, at: u64) {
        if pipe.endpoint == 0 {
            let over = self.control.as_mut().and_then(|control| control.came(&bytes, is_odd));
            return self.over(over);
        }
        if is_odd != self.odd(pipe) {
            return; // It was here before.
        }
        *self.odd_mut(pipe) ^= true;
        if pipe == self.met.function.notes {
            return self.noted(&bytes);
        }
        let is_short = bytes.len() < self.met.function.packet_len;
        self.collected.extend(bytes);
        if is_short || self.collected.len() >= self.met.parameters.map_or(0, |parameters| parameters.in_max) {
            self.take_block(at);
        }
    }

    fn take_block(&mut self, at: u64) {
        let block = std::mem::take(&mut self.collected);
        match ntb::parse(&block) {
            Ok(frames) if self.has_carrier => {
                self.departed.extend(frames.into_iter().map(|frame| (at, frame.to_vec())));
            }
            Ok(frames) => self.dropped += frames.len() as u64,
            Err(_) => self.broken_blocks += 1,
        }
    }

    fn went(&mut self, pipe: Pipe, len: usize, at: u64) {
        if pipe.endpoint == 0 {
            let over = self.control.as_mut().and_then(Control::went);
            return self.over(over);
        }
        *self.odd_mut(pipe) ^= true;
        self.brought += len;
        if self.brought == self.block.len() {
            self.block.clear();
            (self.brought, self.delivered) = (0, Some(at));
        }
    }

    /// A piece of a notification.
    fn noted(&mut self, bytes: &[u8]) {
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

    fn over(&mut self, answer: Option<Vec<u8>>) {
        if answer.is_some() {
            self.answered(answer);
        }
    }

    /// A control transfer is over; none: the device refused.
    fn answered(&mut self, answer: Option<Vec<u8>>) {
        self.control = None;
        if let Err(why) = self.met.answered(answer) {
            self.gave_up.get_or_insert(why);
        }
    }

    fn odd(&self, pipe: Pipe) -> bool {
        self.odd[usize::from(pipe.endpoint) * 2 + usize::from(pipe.is_in)]
    }

    fn odd_mut(&mut self, pipe: Pipe) -> &mut bool {
        &mut self.odd[usize::from(pipe.endpoint) * 2 + usize::from(pipe.is_in)]
    }
}

fn sized(packet: Packet, device: &Controller) -> Packet {
    match packet {
        Packet::In(pipe, _) => Packet::In(pipe, device.packet(pipe).0.len()),
        Packet::Setup(_) | Packet::Out(..) => packet,
    }
}
