//! PIO0 on its pins, with the network device at their other end and DMA behind its queues.

use super::{Bus, Stop, gpio::Gpio, pio::machine::Pins};
use crate::device::Device;

/// What DMA channels wait for: room in the first machine's queue, or a word from it.
pub const REQUEST_SEND: u32 = 0;
/// See [`REQUEST_SEND`].
pub const REQUEST_RECEIVE: u32 = 4;
const PIO0: u32 = 0x5020_0000;

/// The pins, and the device that is wired to them.
pub struct Wires<'b> {
    pub gpio: &'b mut Gpio,
    pub device: &'b mut Device,
}

impl Wires<'_> {
    /// The device sees how pins have moved since, and may drive its own in turn.
    pub fn moved(&mut self, at: u64, before: u32) {
        let levels = self.gpio.levels();
        if levels != before {
            self.device.pins_moved(at, before ^ levels, levels);
            if let Some((pin, high)) = self.device.driven_pin() {
                self.gpio.drive(pin, high);
            }
        }
    }
}

impl Pins for Wires<'_> {
    fn levels(&self) -> u32 {
        self.gpio.levels()
    }

    fn drive(&mut self, at: u64, out: u32, enable: u32) {
        let before = self.gpio.levels();
        self.gpio.drive_by_pio(out, enable);
        self.moved(at, before);
    }
}

impl Bus {
    /// Does what the state machine has done until now.
    pub(super) fn catch_up_pio(&mut self) {
        if !self.pio.is_used() {
            return;
        }
        let mut sender = self.dma.serving(REQUEST_SEND);
        let mut receiver = self.dma.serving(REQUEST_RECEIVE);
        let mut at = self.now; // Whoever has just started a channel.
        loop {
            while let Some(number) = sender.filter(|_| self.pio.wants()) {
                let word = self.load32(self.dma.channels[number].read);
                self.pio.push(at, word);
                sender = self.moved_on(number);
            }
            while let Some(number) = receiver
                && let Some(word) = self.pio.pop(at)
            {
                let to = self.dma.channels[number].write;
                if !self.put32(to, word) {
                    self.stop(Stop::Nowhere { address: to });
                }
                receiver = self.moved_on(number);
            }
            let mut wires = Wires { gpio: &mut self.gpio, device: &mut self.device };
            match self.pio.step(self.now, &mut wires) {
                Some(executed_at) => at = executed_at,
                None => break,
            }
        }
        if self.pio.is_unmodelled() {
            self.stop(Stop::Unmodelled { address: PIO0, written: None });
        }
    }

    /// When a DMA channel or an interrupt may depend on the state machine: earlier nobody need look.
    pub(super) fn pio_at(&self) -> u64 {
        if !self.pio.is_used() {
            return u64::MAX;
        }
        let left = |request: u32| self.dma.serving(request).map(|number| self.dma.channels[number].left);
        self.pio.next_at(left(REQUEST_SEND), left(REQUEST_RECEIVE))
    }

    /// A channel has moved one more; none if that was its last.
    fn moved_on(&mut self, number: usize) -> Option<usize> {
        self.dma.channels[number].step();
        if self.dma.channels[number].left > 0 {
            return Some(number);
        }
        self.dma.finish(number);
        None
    }
}
