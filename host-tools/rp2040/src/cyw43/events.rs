//! The radio's events, as frames of the maker's own kind.

use super::program::Mac;

/// What a radio tells while it joins a network, and when it loses it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// The access point knows it.
    Authenticated,
    /// It is linked to the access point.
    LinkUp,
    /// It has joined.
    Joined,
    /// The network that was asked for was there.
    Found,
    /// It was not.
    NotFound,
    /// Both sides have their keys.
    Keyed,
    /// They do not: most likely the passphrase is wrong.
    NoKeys,
    /// The access point is gone.
    LinkDown,
}

impl Event {
    /// The event's number.
    #[must_use]
    pub fn number(self) -> u32 {
        self.fields()[1]
    }

    /// Flags, number, status and reason.
    fn fields(self) -> [u32; 4] {
        match self {
            Event::Found => [0, 0, 0, 0],
            Event::NotFound => [0, 0, 3, 0],
            Event::Joined => [0, 1, 0, 0],
            Event::Authenticated => [0, 3, 0, 0],
            Event::LinkUp => [1, 16, 0, 0],
            Event::LinkDown => [0, 16, 0, 1],
            Event::Keyed => [0, 46, 6, 0],
            Event::NoKeys => [0, 46, 8, 15],
        }
    }
}

/// The frame that tells of an event, behind the header of a data packet.
#[must_use]
pub fn event(mac: Mac, event: Event) -> Vec<u8> {
    let [flags, number, status, reason] = event.fields();
    let mut body = vec![0x20, 0, 0, 0];
    body.extend(mac);
    body.extend(mac);
    body.extend([0x88, 0x6c]); // The maker's type; then a long subtype, a length, a version, the maker, an event.
    body.extend([0x80, 0x01, 0, 48, 0, 0x00, 0x10, 0x18, 0, 1]);
    body.extend([0, 2]);
    body.extend((flags as u16).to_be_bytes());
    for word in [number, status, reason, 0, 0] {
        body.extend(word.to_be_bytes());
    }
    body.extend(mac);
    body.extend(*b"wl0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    body.extend([0, 0]);
    body
}
