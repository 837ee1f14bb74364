//! DMA: twelve channels. The bus moves the data, as fast as the other end asks for it.

/// So many channels are there.
pub const CHANNELS: usize = 12;

const ENABLE: u32 = 1;
const INCREMENT_READ: u32 = 1 << 4;
const INCREMENT_WRITE: u32 = 1 << 5;
const RING_SIZE: u32 = 0xf << 6;
const QUIET: u32 = 1 << 21;
const SWAP: u32 = 1 << 22;
const SNIFF: u32 = 1 << 23;
const BUSY: u32 = 1 << 24;
const CHANNEL_MASK: u32 = (1 << CHANNELS) - 1;

/// One channel.
#[derive(Clone, Copy, Debug, Default)]
pub struct Channel {
    /// Where it reads.
    pub read: u32,
    /// Where it writes.
    pub write: u32,
    /// How many transfers are left.
    pub left: u32,
    reload: u32,
    control: u32,
    is_busy: bool,
}

impl Channel {
    /// Whether it has something to do.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// Who says when it may go on.
    #[must_use]
    pub fn request(&self) -> u32 {
        (self.control >> 15) & 0x3f
    }

    /// Bytes of one transfer.
    #[must_use]
    pub fn size(&self) -> u32 {
        1 << ((self.control >> 2) & 3)
    }

    /// Moves its addresses on by one transfer.
    pub fn step(&mut self) {
        if self.control & INCREMENT_READ != 0 {
            self.read = self.read.wrapping_add(self.size());
        }
        if self.control & INCREMENT_WRITE != 0 {
            self.write = self.write.wrapping_add(self.size());
        }
        self.left -= 1;
    }

    fn is_modelled(&self, number: usize) -> bool {
        let chain = (self.control >> 11) as usize & 0xf;
        self.control & (RING_SIZE | SWAP | SNIFF) == 0 && chain == number && self.size() <= 4
    }
}

/// The controller.
#[derive(Clone, Debug, Default)]
pub struct Dma {
    /// The channels.
    pub channels: [Channel; CHANNELS],
    raised: u32,
    enabled: [u32; 2],
    forced: [u32; 2],
}

impl Dma {
    /// The channel that serves a request, if one is busy with it.
    #[must_use]
    pub fn serving(&self, request: u32) -> Option<usize> {
        self.channels.iter().position(|channel| channel.is_busy && channel.request() == request)
    }

    /// A channel has moved everything.
    pub fn finish(&mut self, number: usize) {
        let channel = &mut self.channels[number];
        channel.is_busy = false;
        channel.left = 0;
        if channel.control & QUIET == 0 {
            self.raised |= 1 << number;
        }
    }

    /// The two interrupt lines.
    #[must_use]
    pub fn lines(&self) -> [bool; 2] {
        [0, 1].map(|line| self.status(line) != 0)
    }

    /// Reads a register.
    #[must_use]
    pub fn read(&self, offset: u32) -> Option<u32> {
        if offset < 0x40 * CHANNELS as u32 {
            let channel = &self.channels[offset as usize / 0x40];
            return Some(match register(offset) {
                Register::Read => channel.read,
                Register::Write => channel.write,
                Register::Count => channel.left,
                Register::Control => channel.control | if channel.is_busy { BUSY } else { 0 },
            });
        }
        Some(match offset {
            0x400 | 0x410 => self.raised,
            0x404 | 0x414 => self.enabled[line(offset)],
            0x408 | 0x418 => self.forced[line(offset)],
            0x40c | 0x41c => self.status(line(offset)),
            0x444 => 0, // An abort is over at once.
            0x448 => CHANNELS as u32,
            _ => return None,
        })
    }

    /// Writes a register; false if there is no such register or it asks for what is not modelled.
    pub fn write(&mut self, offset: u32, value: u32) -> bool {
        if offset < 0x40 * CHANNELS as u32 {
            let number = offset as usize / 0x40;
            let channel = &mut self.channels[number];
            match register(offset) {
                Register::Read => channel.read = value,
                Register::Write => channel.write = value,
                Register::Count => channel.reload = value,
                Register::Control => channel.control = value & !BUSY,
            }
            // The last of each four registers starts the channel.
            return offset & 0xc != 0xc || self.trigger(number);
        }
        match offset {
            0x400 | 0x410 | 0x40c | 0x41c => self.raised &= !value,
            0x404 | 0x414 => self.enabled[line(offset)] = value & CHANNEL_MASK,
            0x408 | 0x418 => self.forced[line(offset)] = value & CHANNEL_MASK,
            0x430 => return (0..CHANNELS).filter(|n| value & (1 << n) != 0).all(|n| self.trigger(n)),
            0x444 => {
                for number in (0..CHANNELS).filter(|n| value & (1 << n) != 0) {
                    self.channels[number].is_busy = false;
                    self.channels[number].left = 0;
                }
            }
            _ => return false,
        }
        true
    }

    fn trigger(&mut self, number: usize) -> bool {
        let channel = &mut self.channels[number];
        if channel.control & ENABLE == 0 || channel.is_busy {
            return true;
        }
        channel.left = channel.reload;
        channel.is_busy = true;
        let modelled = channel.is_modelled(number);
        if channel.left == 0 {
            self.finish(number);
        }
        modelled
    }

    fn status(&self, line: usize) -> u32 {
        (self.raised & self.enabled[line]) | self.forced[line]
    }
}

#[derive(Clone, Copy)]
enum Register {
    Read,
    Write,
    Count,
    Control,
}

/// Each channel's four registers stand four times in its block, each time in another order.
fn register(offset: u32) -> Register {
    match offset & 0x3f {
        0x00 | 0x14 | 0x28 | 0x3c => Register::Read,
        0x04 | 0x18 | 0x2c | 0x34 => Register::Write,
        0x08 | 0x1c | 0x24 | 0x38 => Register::Count,
        _ => Register::Control,
    }
}

fn line(offset: u32) -> usize {
    (offset as usize >> 4) & 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(dma: &mut Dma, number: u32, count: u32, control: u32) -> bool {
        let base = 0x40 * number;
        assert!(dma.write(base, 0x2000_0000) && dma.write(base + 4, 0x4003_c008) && dma.write(base + 8, count));
        dma.write(base + 0xc, control | number << 11 | ENABLE)
    }

    #[test]
    fn a_channel_is_busy_until_it_is_done_and_then_says_so() {
        let mut dma = Dma::default();
        assert!(dma.write(0x404, 1 << 2) && start(&mut dma, 2, 3, 16 << 15 | INCREMENT_READ));
        assert_eq!(dma.serving(16), Some(2));
        assert_eq!(dma.read(0x8c).unwrap() & BUSY, BUSY);
        for _ in 0..3 {
            dma.channels[2].step();
        }
        assert_eq!((dma.channels[2].read, dma.channels[2].write), (0x2000_0003, 0x4003_c008));
        dma.finish(2);
        assert_eq!((dma.serving(16), dma.lines()), (None, [true, false]));
        assert!(dma.write(0x40c, 1 << 2));
        assert_eq!(dma.lines(), [false, false]);
    }

    #[test]
    fn an_abort_leaves_nothing_behind_and_reads_as_done() {
        let mut dma = Dma::default();
        assert!(start(&mut dma, 0, 9, 17 << 15) && dma.write(0x444, 1));
        assert_eq!((dma.read(0x444), dma.read(0x0c).unwrap() & BUSY, dma.lines()), (Some(0), 0, [false; 2]));
    }

    #[test]
    fn chains_rings_and_sniffers_are_refused() {
        for control in [5 << 6, SWAP, SNIFF] {
            assert!(!start(&mut Dma::default(), 1, 1, control), "{control:#x}");
        }
    }
}
