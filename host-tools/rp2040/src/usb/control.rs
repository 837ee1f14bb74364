//! A control transfer: a request, perhaps data one way or the other, and a packet that says that it is done.

use super::{enumeration::Request, host::Packet};
use crate::bus::usb::Pipe;

/// Of endpoint 0.
const PACKET_LEN: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Setup,
    Data,
    Status,
}

/// A transfer that is under way.
#[derive(Clone, Debug)]
pub struct Control {
    request: Request,
    stage: Stage,
    got: Vec<u8>,
    sent: usize,
    is_odd: bool,
    /// It begins then.
    pub not_before: u64,
    /// Then it has failed.
    pub patience_at: u64,
}

impl Control {
    /// A transfer that begins then, and fails at that time.
    #[must_use]
    pub fn new(request: Request, not_before: u64, patience_at: u64) -> Control {
        Control { request, stage: Stage::Setup, got: Vec::new(), sent: 0, is_odd: true, not_before, patience_at }
    }

    /// Its next packet.
    #[must_use]
    pub(super) fn wants(&self) -> Packet {
        let is_in = self.request.is_in() && !self.request.is_empty();
        match self.stage {
            Stage::Setup => Packet::Setup(self.request.setup),
            // The status goes against the data.
            Stage::Data | Stage::Status if is_in == (self.stage == Stage::Data) => Packet::In(Pipe::to_host(0), 0),
            Stage::Data => {
                let end = self.request.data.len().min(self.sent + PACKET_LEN);
                Packet::Out(Pipe::from_host(0), self.request.data[self.sent..end].to_vec(), self.is_odd)
            }
            Stage::Status => Packet::Out(Pipe::from_host(0), Vec::new(), true),
        }
    }

    /// The device has heard the request.
    pub fn begun(&mut self) {
        self.stage = if self.request.is_empty() { Stage::Status } else { Stage::Data };
    }

    /// A packet came; what the transfer has brought, if it is over.
    pub fn came(&mut self, bytes: &[u8], is_odd: bool) -> Option<Vec<u8>> {
        if is_odd != self.is_odd && self.stage == Stage::Data {
            return None; // It was here before.
        }
        if self.stage == Stage::Status {
            return Some(Vec::new());
        }
        self.is_odd = !self.is_odd;
        self.got.extend(bytes);
        if bytes.len() < PACKET_LEN || self.got.len() >= self.request.len() {
            self.stage = Stage::Status;
        }
        None
    }

    /// A packet went; what the transfer has brought, if it is over.
    pub fn went(&mut self) -> Option<Vec<u8>> {
        if self.stage == Stage::Status {
            return Some(std::mem::take(&mut self.got));
        }
        self.is_odd = !self.is_odd;
        self.sent = self.request.data.len().min(self.sent + PACKET_LEN);
        if self.sent == self.request.data.len() {
            self.stage = Stage::Status;
        }
        None
    }
}
