//! Bytes on the SPI bus, and the DMA that brings and takes them.

use super::{Bus, Stop, spi::DEPTH, wires};

const REQUEST_SEND: u32 = 16;
const REQUEST_RECEIVE: u32 = 17;
const REQUEST_ALWAYS: u32 = 0x3f;

impl Bus {
    /// Does what has happened until now on the SPI bus and in the PIO.
    pub(super) fn catch_up(&mut self) {
        self.feed(self.now);
        while self.spi.next_shift_at().is_some_and(|at| at <= self.now) {
            let Some((byte, at)) = self.spi.shifted() else { break };
            let answer = self.device.exchange(at, byte);
            self.spi.answered(answer);
            self.drain();
            self.spi.start(at);
            self.feed(at);
        }
        self.catch_up_pio();
    }

    /// When a DMA channel will be done with the SPI bus: earlier than that nobody need look.
    pub(super) fn transfer_at(&self) -> u64 {
        let Some(shift_at) = self.spi.next_shift_at() else { return u64::MAX };
        let after = |shifts: u64| shift_at + shifts.saturating_sub(1) * self.spi.cycles_per_byte();
        let sent = self.dma.serving(REQUEST_SEND).map(|number| {
            let room = (DEPTH - self.spi.queued()) as u64;
            after(u64::from(self.dma.channels[number].left).saturating_sub(room).max(1))
        });
        let received = self.dma.serving(REQUEST_RECEIVE).map(|number| after(self.dma.channels[number].left.into()));
        [sent, received].into_iter().flatten().min().unwrap_or(u64::MAX)
    }

    /// A channel may have been started: memory is copied at once, what is not modelled stops the board.
    pub(super) fn dma_started(&mut self) {
        for number in 0..self.dma.channels.len() {
            let channel = self.dma.channels[number];
            if !channel.is_busy() {
                continue;
            }
            match channel.request() {
                REQUEST_SEND | REQUEST_RECEIVE if channel.size() == 1 => {}
                wires::REQUEST_SEND | wires::REQUEST_RECEIVE if channel.size() == 4 => {}
                REQUEST_ALWAYS => self.copy(number),
                _ => self.stop(Stop::Unmodelled { address: channel.write, written: Some(channel.request()) }),
            }
        }
        self.catch_up();
    }

    fn copy(&mut self, number: usize) {
        while self.dma.channels[number].left > 0 {
            let channel = self.dma.channels[number];
            match channel.size() {
                1 => {
                    let value = self.load8(channel.read);
                    self.store8(channel.write, value);
                }
                2 => {
                    let value = self.load16(channel.read);
                    self.store16(channel.write, value);
                }
                _ => {
                    let value = self.load32(channel.read);
                    self.store32(channel.write, value);
                }
            }
            self.dma.channels[number].step();
            if self.stop.is_some() {
                return;
            }
        }
        self.dma.finish(number);
    }

    fn feed(&mut self, at: u64) {
        let Some(number) = self.dma.serving(REQUEST_SEND) else { return };
        while self.spi.wants() {
            let byte = self.load8(self.dma.channels[number].read);
            self.spi.push(at, byte);
            self.dma.channels[number].step();
            if self.dma.channels[number].left == 0 {
                self.dma.finish(number);
                return;
            }
        }
    }

    fn drain(&mut self) {
        let Some(number) = self.dma.serving(REQUEST_RECEIVE) else { return };
        while let Some(byte) = self.spi.offer() {
            let to = self.dma.channels[number].write;
            if !self.put8(to, byte) {
                self.stop(Stop::Nowhere { address: to });
            }
            self.dma.channels[number].step();
            if self.dma.channels[number].left == 0 {
                self.dma.finish(number);
                return;
            }
        }
    }
}
