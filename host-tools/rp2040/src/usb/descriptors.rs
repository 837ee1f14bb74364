//! The network function in a device's configuration descriptor, if it is all there.

use crate::bus::usb::Pipe;

const INTERFACE: u8 = 4;
const ENDPOINT: u8 = 5;
const OF_CLASS: u8 = 0x24;

/// Class, subclass and protocol of the interface that controls the function, and of that with the frames.
const CONTROL: [u8; 2] = [0x02, 0x0d];
const DATA: [u8; 3] = [0x0a, 0x00, 0x01];
/// What the driver wants to read about it: header, union, Ethernet, NCM.
const WANTED: [u8; 4] = [0x00, 0x06, 0x0f, 0x1a];
const UNION: u8 = 0x06;
const ETHERNET: u8 = 0x0f;

const BULK: u8 = 2;
const INTERRUPT: u8 = 3;

/// Where everything is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Function {
    /// The interface that controls it.
    pub control: u8,
    /// The interface with the frames.
    pub data: u8,
    /// Its setting that has endpoints.
    pub data_setting: u8,
    /// The string with the address of the host's end.
    pub mac: u8,
    /// The longest frame.
    pub frame_max: u16,
    /// Notifications come from here; asked for every so many milliseconds.
    pub notes: Pipe,
    /// That many.
    pub notes_every: u8,
    /// Frames from the device.
    pub frames_in: Pipe,
    /// Frames to it.
    pub frames_out: Pipe,
    /// The longest packet with frames.
    pub packet_len: usize,
}

impl Default for Function {
    fn default() -> Function {
        let none = Pipe::to_host(0);
        Function {
            control: 0,
            data: 0,
            data_setting: 0,
            mac: 0,
            frame_max: 0,
            notes: none,
            notes_every: 1,
            frames_in: none,
            frames_out: Pipe::from_host(0),
            packet_len: 64,
        }
    }
}

/// Finds the function.
///
/// # Errors
/// What is missing.
pub fn function(configuration: &[u8]) -> Result<Function, String> {
    let mut found = Function::default();
    let mut interface = [0; 5];
    let mut read = Vec::new();
    let mut pipes = [false; 3];
    let mut rest = configuration;
    while let Some((part, after)) = rest.split_at_checked(rest.first().copied().unwrap_or(0).into()) {
        rest = after;
        match *part {
            [] | [_] => break,
            [_, INTERFACE, number, setting, _, class, subclass, protocol, ..] => {
                interface = [number, setting, class, subclass, protocol];
            }
            [_, OF_CLASS, kind, ..] if interface[2..4] == CONTROL => {
                read.push(kind);
                match *part {
                    [_, _, UNION, control, data, ..] => (found.control, found.data) = (control, data),
                    [_, _, ETHERNET, mac, _, _, _, _, low, high, ..] => {
                        (found.mac, found.frame_max) = (mac, u16::from_le_bytes([low, high]));
                    }
                    _ => {}
                }
            }
            [_, ENDPOINT, address, kind, low, high, every, ..] => {
                let pipe = Pipe { endpoint: address & 0xf, is_in: address & 0x80 != 0 };
                match (kind & 3, pipe.is_in) {
                    (INTERRUPT, true) if interface[2..4] == CONTROL => {
                        (found.notes, found.notes_every, pipes[0]) = (pipe, every, true);
                    }
                    (BULK, true) if interface[2..] == DATA => (found.frames_in, pipes[1]) = (pipe, true),
                    (BULK, false) if interface[2..] == DATA => (found.frames_out, pipes[2]) = (pipe, true),
                    _ => return Err(format!("an endpoint {address:#04x} that nobody asked for")),
                }
                if interface[2..] == DATA {
                    (found.data_setting, found.packet_len) = (interface[1], u16::from_le_bytes([low, high]).into());
                }
            }
            _ => {}
        }
    }
    let missing = WANTED.into_iter().find(|kind| !read.contains(kind));
    match missing {
        Some(kind) => Err(format!("it has no NCM function: a descriptor of kind {kind:#04x} is missing")),
        None if pipes != [true; 3] => Err("its NCM function lacks an endpoint".into()),
        None if found.data_setting == 0 => Err("its frames cannot be switched off".into()),
        None if found.frame_max < 1514 => Err(format!("its frames have at most {} bytes", found.frame_max)),
        None => Ok(found),
    }
}
