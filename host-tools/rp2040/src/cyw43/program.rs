//! What the radio's own program does, as far as a station goes: packets with credits over the bus,
//! commands, the events of a join, and frames by air to and from one access point.
//!
//! A command that is not known here is refused: the driver would get an answer that nobody has seen
//! a radio give. Power saving is such a command.

use super::events::{self, Event};
use crate::bus::CYCLES_PER_US;
use compasso_wire::flash::page::Wifi;
use std::collections::VecDeque;

/// An Ethernet address.
pub type Mac = [u8; 6];

/// Channels of packets.
const COMMAND: u8 = 0;
const EVENT: u8 = 1;
const DATA: u8 = 2;
/// Header of a packet, of a command, of a frame.
const PACKET_LEN: usize = 12;
const COMMAND_LEN: usize = 16;
const FRAME_LEN: usize = 4;
/// Where a packet's header has its number, and says up to which one may be sent.
const SEQUENCE_AT: usize = 4;
const CREDIT_AT: usize = 9;

/// So many frames wait for the air, and so many for the host.
const SENDING_MAX: u8 = 8;
const RECEIVED_MAX: usize = 16;
/// A command is answered after so long.
const COMMAND_TAKES: u64 = 200 * CYCLES_PER_US;
/// Finding the access point and speaking to it; agreeing on keys; waiting in vain for that.
const JOIN_TAKES: u64 = 30_000 * CYCLES_PER_US;
const KEYS_TAKE: u64 = 20_000 * CYCLES_PER_US;
const KEYS_PATIENCE: u64 = 2_500_000 * CYCLES_PER_US;
/// A frame waits for a quiet moment, has a preamble and is acknowledged; its bytes go at 65 Mbit/s.
const AIR_OVERHEAD: u64 = 100 * CYCLES_PER_US;
const CYCLES_PER_BYTE: u64 = 15;

/// An access point.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccessPoint {
    /// Its network's name.
    pub ssid: String,
    /// What it takes to join; empty: nothing.
    pub passphrase: String,
}

/// The one that every radio finds, unless somebody puts another there.
impl Default for AccessPoint {
    fn default() -> AccessPoint {
        AccessPoint { ssid: "compasso".into(), passphrase: "for emulated boards".into() }
    }
}

impl AccessPoint {
    /// What a board must know of it.
    ///
    /// # Panics
    /// If it has a longer name or passphrase than there are.
    #[must_use]
    pub fn wifi(&self) -> Wifi {
        let known = |wifi: Option<Wifi>| wifi.unwrap_or_else(|| panic!("{self:?} is no access point"));
        known((|| Some(Wifi { ssid: (*self.ssid).try_into().ok()?, passphrase: (*self.passphrase).try_into().ok()? }))())
    }
}

/// The program.
#[derive(Clone, Debug)]
pub struct Program {
    mac: Mac,
    access_point: Option<AccessPoint>,
    /// Started, and from then on at work.
    up_at: Option<u64>,
    now: u64,
    /// Packets that the host may read, and those that are not ready.
    ready: VecDeque<Vec<u8>>,
    later: VecDeque<(u64, Vec<u8>)>,
    /// Frames that go by air: when each is over.
    air: VecDeque<(u64, Vec<u8>)>,
    /// Of the next packet to the host, and from it.
    sequence: u8,
    expected: u8,
    /// The host was told that it may send up to this one.
    credit: u8,
    settings: Settings,
    /// It belongs to a network from then on.
    joined_at: Option<u64>,
    lamps: u32,
    dropped: u64,
    unmodelled: Option<String>,
}

/// What the host has set.
#[derive(Clone, Debug, Default)]
struct Settings {
    is_up: bool,
    /// The regulatory data: begun, ended, and how many bytes.
    clm: (bool, bool, usize),
    has_country: bool,
    events: [u8; 24],
    ciphers: u32,
    passphrase: Vec<u8>,
}

impl Program {
    /// Not started yet; in the range of the usual access point.
    #[must_use]
    pub fn new(mac: Mac) -> Program {
        Program {
            mac,
            access_point: Some(AccessPoint::default()),
            up_at: None,
            now: 0,
            ready: VecDeque::new(),
            later: VecDeque::new(),
            air: VecDeque::new(),
            sequence: 0,
            expected: 0,
            credit: 1,
            settings: Settings::default(),
            joined_at: None,
            lamps: 0,
            dropped: 0,
            unmodelled: None,
        }
    }

    /// The same place, the same address, and nothing else.
    #[must_use]
    pub fn anew(&self) -> Program {
        Program { access_point: self.access_point.clone(), dropped: self.dropped, ..Program::new(self.mac) }
    }

    /// The address that was burnt in.
    #[must_use]
    pub fn mac(&self) -> Mac {
        self.mac
    }

    /// It begins, and is at work from then on.
    pub fn start(&mut self, up_at: u64) {
        self.up_at = Some(up_at);
    }

    /// From when on it is at work, if it was started.
    #[must_use]
    pub fn starts_at(&self) -> Option<u64> {
        self.up_at
    }

    /// Whether it is at work.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.up_at.is_some_and(|at| self.now >= at)
    }

    /// Whether it belongs to a network.
    #[must_use]
    pub fn is_joined(&self) -> bool {
        self.joined_at.is_some_and(|at| self.now >= at)
    }

    /// Which of its pins are high: the board's lamp is the first.
    #[must_use]
    pub fn lamps(&self) -> u32 {
        self.lamps
    }

    /// How many bytes of regulatory data it has got, if it has got all.
    #[must_use]
    pub fn clm_len(&self) -> Option<usize> {
        let (_, has_ended, length) = self.settings.clm;
        has_ended.then_some(length)
    }

    /// Another access point is there, or none. Whoever belonged to the old one is told.
    pub fn set_access_point(&mut self, access_point: Option<AccessPoint>) {
        self.access_point = access_point;
        if self.joined_at.take().is_some() {
            self.tell(self.now, Event::LinkDown);
        }
    }

    /// Time goes on.
    pub fn advance(&mut self, now: u64) {
        self.now = self.now.max(now);
        while let Some((at, _)) = self.later.front()
            && *at <= self.now
        {
            self.ready.extend(self.later.pop_front().map(|(_, packet)| packet));
        }
    }

    /// When something happens.
    #[must_use]
    pub fn next_at(&self) -> u64 {
        let later = self.later.front().map_or(u64::MAX, |(at, _)| *at);
        self.air.front().map_or(u64::MAX, |(at, _)| *at).min(later)
    }

    /// A frame that has left by now, and when. Its buffer is free again.
    pub fn departed(&mut self, now: u64) -> Option<(u64, Vec<u8>)> {
        if self.air.front().is_none_or(|(at, _)| *at > now) {
            return None;
        }
        let left = self.air.pop_front();
        self.give_credit();
        left
    }

    /// How long the packet is that waits for the host, if one does.
    #[must_use]
    pub fn waiting(&self) -> Option<usize> {
        self.ready.front().map(Vec::len)
    }

    /// The host reads a packet.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        let mut packet = self.ready.pop_front()?;
        self.credit = self.expected.wrapping_add(SENDING_MAX.saturating_sub(self.air.len() as u8));
        (packet[SEQUENCE_AT], packet[CREDIT_AT]) = (self.sequence, self.credit);
        self.sequence = self.sequence.wrapping_add(1);
        Some(packet)
    }

    /// Frames that found no room on their way to the host.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// What was asked of it that is not modelled.
    #[must_use]
    pub fn unmodelled(&self) -> Option<&str> {
        self.unmodelled.as_deref()
    }

    /// A frame arrives by air.
    pub fn receive(&mut self, frame: &[u8]) {
        let is_for_me = frame.first_chunk::<6>().is_some_and(|to| to[0] & 1 == 1 || *to == self.mac);
        if !self.is_joined() || !is_for_me {
            return;
        }
        if self.ready.len() >= RECEIVED_MAX {
            self.dropped += 1;
            return;
        }
        self.ready.push_back(packet(DATA, &[&[0x20, 0, 0, 0], frame].concat()));
    }

    /// The host wrote a packet.
    pub fn packet(&mut self, at: u64, packet: &[u8]) {
        let Some(header) = packet.first_chunk::<PACKET_LEN>().filter(|_| self.is_up()) else {
            return self.refuse(format!("a packet of {} bytes, or too early", packet.len()));
        };
        let [a, b, c, d, sequence, channel, _, begins, ..] = *header;
        let (length, check) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
        let body = packet.get(usize::from(begins)..length.into());
        let Some(body) = body.filter(|_| length == !check) else {
            return self.refuse(format!("a packet whose header is {header:02x?}"));
        };
        let credit = self.credit.wrapping_sub(self.expected);
        if sequence != self.expected || credit == 0 || credit > 0x40 {
            return self.refuse(format!("packet {sequence} instead of {}, credit {credit}", self.expected));
        }
        self.expected = self.expected.wrapping_add(1);
        match channel & 0xf {
            COMMAND => self.command(at, body),
            DATA => self.send(at, body),
            other => self.refuse(format!("a packet on channel {other}")),
        }
    }

    fn send(&mut self, at: u64, body: &[u8]) {
        let skipped = body.get(3).map_or(usize::MAX, |words| FRAME_LEN + 4 * usize::from(*words));
        let Some(frame) = body.get(skipped..) else { return self.refuse("a frame without its header".into()) };
        let begins = self.air.back().map_or(at, |(at, _)| *at).max(at);
        let is_mine = frame.get(6..12).is_some_and(|from| from == self.mac);
        // An access point hears only those that it knows, under the address that it knows.
        if self.is_joined() && is_mine {
            let over = begins + AIR_OVERHEAD + frame.len() as u64 * CYCLES_PER_BYTE;
            self.air.push_back((over, frame.to_vec()));
        }
        self.give_credit();
    }

    fn command(&mut self, at: u64, body: &[u8]) {
        let word =
            |at: usize| body.get(at..).and_then(|rest| rest.first_chunk()).map(|bytes| u32::from_le_bytes(*bytes));
        let (Some(command), Some(length)) = (word(0), word(4)) else {
            return self.refuse("a command without its header".into());
        };
        let Some(given) = body.get(COMMAND_LEN..COMMAND_LEN + length as usize) else {
            return self.refuse(format!("a command of {} bytes that says {length}", body.len()));
        };
        let is_set = body[8] & 2 != 0;
        let mut answer = body[..COMMAND_LEN + length as usize].to_vec();
        match self.obey(at, command, is_set, given) {
            Some(value) => answer[COMMAND_LEN..].iter_mut().zip(value).for_each(|(to, from)| *to = from),
            None => {
                let name = String::from_utf8_lossy(given.split(|byte| *byte == 0).next().unwrap_or(&[])).into_owned();
                return self.refuse(format!("command {command} ({name}) with {} bytes", given.len()));
            }
        }
        self.say_at(at + COMMAND_TAKES, COMMAND, &answer);
    }

    /// Does what a command wants; what it answers.
    fn obey(&mut self, at: u64, command: u32, is_set: bool, given: &[u8]) -> Option<Vec<u8>> {
        let number = given.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
        let nothing = Some(Vec::new());
        match (command, is_set, number) {
            (2, true, None) => self.settings.is_up = true,
            // A station of an infrastructure; one antenna, no power saving, any band and mode.
            (20, true, Some(1)) | (64 | 86 | 142, true, Some(0)) | (110, true, Some(1)) => {}
            // How it proves who it is: with nothing, or with WPA2 and WPA3 by passphrase.
            (22, true, Some(0 | 3)) | (165, true, Some(0 | 0x80 | 0x4_0000)) => {}
            (134, true, Some(ciphers @ (0 | 4))) => self.settings.ciphers = ciphers,
            (268, true, Some(_)) => {
                let length = u16::from_le_bytes([given[0], given[1]]);
                self.settings.passphrase = given.get(4..4 + usize::from(length))?.to_vec();
            }
            (26, true, Some(length)) => {
                let ssid = given.get(4..4 + length as usize)?;
                self.join(at, ssid);
            }
            (262, false, _) => return self.variable(given),
            (263, true, _) => return self.set_variable(given).then(Vec::new),
            _ => return None,
        }
        nothing
    }

    fn variable(&self, given: &[u8]) -> Option<Vec<u8>> {
        match given.split(|byte| *byte == 0).next()? {
            b"cur_etheraddr" => Some(self.mac.to_vec()),
            b"clmload_status" => Some(u32::from(self.clm_len().is_none()).to_le_bytes().to_vec()),
            _ => None,
        }
    }

    fn set_variable(&mut self, given: &[u8]) -> bool {
        let Some(end) = given.iter().position(|byte| *byte == 0) else { return false };
        let (name, value) = (&given[..end], &given[end + 1..]);
        let words: Vec<u32> = value.chunks_exact(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect();
        match (name, &words[..]) {
            (b"clmload", [flags, length, _, ..]) => return self.load_clm(*flags as u16, *length as usize, value),
            (b"bus:txglom", [0]) | (b"apsta", [1]) | (b"ampdu_ba_wsize" | b"ampdu_mpdu", [_]) => {}
            (b"country", [_, _, _]) => self.settings.has_country = self.clm_len().is_some(),
            (b"bsscfg:event_msgs", [0, ..]) if value.len() == 28 => self.settings.events.copy_from_slice(&value[4..]),
            (b"bsscfg:sup_wpa" | b"bsscfg:sup_wpa2_eapver" | b"bsscfg:sup_wpa_tmo", [0, _]) => {}
            (b"sae_password", [..]) if value.len() == 130 => {}
            (b"mfp", [0 | 1]) => {}
            (b"gpioout", [mask, levels]) => self.lamps = (self.lamps & !mask) | (levels & mask),
            _ => return false,
        }
        true
    }

    fn load_clm(&mut self, flags: u16, length: usize, value: &[u8]) -> bool {
        let (begins, ends) = (flags & 2 != 0, flags & 4 != 0);
        let (has_begun, has_ended, before) = self.settings.clm;
        let is_next = begins != has_begun && !has_ended && value.len() == 12 + length;
        self.settings.clm = (true, ends, before + length);
        is_next
    }

    fn join(&mut self, at: u64, ssid: &[u8]) {
        let is_ready = self.settings.is_up && self.settings.has_country;
        let (by, is_secure) = (at + JOIN_TAKES, self.settings.ciphers != 0);
        let found = self.access_point.as_ref().filter(|point| is_ready && point.ssid.as_bytes() == ssid);
        let Some(point) = found.filter(|point| point.passphrase.is_empty() != is_secure) else {
            self.joined_at = None;
            return self.tell(by, Event::NotFound);
        };
        let is_right = !is_secure || point.passphrase.as_bytes() == self.settings.passphrase;
        for event in [Event::Authenticated, Event::LinkUp, Event::Joined, Event::Found] {
            self.tell(by, event);
        }
        let keyed_at = by + KEYS_TAKE;
        self.joined_at = is_right.then_some(if is_secure { keyed_at } else { by });
        match (is_secure, is_right) {
            (false, _) => {}
            (true, true) => self.tell(keyed_at, Event::Keyed),
            (true, false) => self.tell(by + KEYS_PATIENCE, Event::NoKeys),
        }
    }

    /// The host is told of an event then, if it wants to hear of such.
    fn tell(&mut self, at: u64, event: Event) {
        let kind = event.number() as usize;
        if self.settings.events[kind / 8] & 1 << (kind % 8) == 0 {
            return;
        }
        self.say_at(at, EVENT, &events::event(self.mac, event));
    }

    /// The host may read this from then on.
    fn say_at(&mut self, at: u64, channel: u8, body: &[u8]) {
        let place = self.later.partition_point(|(due, _)| *due <= at);
        self.later.insert(place, (at, packet(channel, body)));
    }

    /// A host that is out of credit hears of new credit only if something is said to it.
    fn give_credit(&mut self) {
        if self.credit == self.expected && self.ready.is_empty() && self.air.len() < usize::from(SENDING_MAX) {
            self.ready.push_back(packet(DATA, &[]));
        }
    }

    #[cfg(test)]
    pub(super) fn joined_for_tests(&mut self) {
        self.joined_at = Some(0);
    }

    fn refuse(&mut self, what: String) {
        self.unmodelled.get_or_insert(what);
    }
}

/// A packet for the host; what changes until it is read is filled in then.
fn packet(channel: u8, body: &[u8]) -> Vec<u8> {
    let length = (PACKET_LEN + body.len()) as u16;
    let [a, b] = length.to_le_bytes();
    let [c, d] = (!length).to_le_bytes();
    [&[a, b, c, d, 0, channel, 0, PACKET_LEN as u8, 0, 0, 0, 0], body].concat()
}
