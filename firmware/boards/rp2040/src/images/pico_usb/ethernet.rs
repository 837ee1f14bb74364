//! Frames between the host and the network stack, for as long as the host wants them.
//!
//! A host comes and goes: it resets the bus, sleeps, takes its driver away and loads another, or is
//! unplugged while the board has power from elsewhere. The USB driver tells none of that to whoever
//! waits for a packet. So a handler listens ([`HostWatch`]), and everything begins anew: the link goes
//! down, what was on its way is dropped, and when the host wants frames again it is told that the
//! network is there, which it waits for.

use crate::arrivals;
use compasso_board_rp2040::STAMPS;
use embassy_futures::select::{Either, Either3, select, select3};
use embassy_net_driver_channel::{self as channel, RxRunner, TxRunner, driver::LinkState};
use embassy_rp::{peripherals::USB, usb::Driver};
use embassy_sync::{blocking_mutex::raw::CriticalSectionRawMutex, signal::Signal};
use embassy_usb::{
    Handler,
    class::cdc_ncm::{CdcNcmClass, Receiver, Sender},
    types::InterfaceNumber,
};
use static_cell::ConstStaticCell;

/// The longest frame.
pub const FRAME_MAX: usize = 1514;
/// The longest block that the host may send. The frame that it says is in there is shorter, if the host
/// tells the truth; the class believes whatever fits into a block.
const BLOCK_MAX: usize = 2048;

/// Behind the interface that controls the only function.
const DATA_INTERFACE: u8 = 1;

static BLOCK: ConstStaticCell<[u8; BLOCK_MAX]> = ConstStaticCell::new([0; BLOCK_MAX]);
/// Whether the host wants frames; told with every change.
static WANTED: Signal<CriticalSectionRawMutex, bool> = Signal::new();

/// Listens to what the host does with the board.
pub struct HostWatch {
    is_on: bool,
    is_suspended: bool,
}

impl HostWatch {
    /// No host yet.
    pub const fn new() -> HostWatch {
        HostWatch { is_on: false, is_suspended: false }
    }

    fn tell(&self) {
        WANTED.signal(self.is_on && !self.is_suspended);
    }
}

impl Handler for HostWatch {
    fn reset(&mut self) {
        (self.is_on, self.is_suspended) = (false, false);
        self.tell();
    }

    fn configured(&mut self, configured: bool) {
        self.is_on &= configured;
        self.tell();
    }

    fn suspended(&mut self, suspended: bool) {
        self.is_suspended = suspended;
        self.tell();
    }

    /// Frames are switched on and off with their interface.
    fn set_alternate_setting(&mut self, interface: InterfaceNumber, setting: u8) {
        if u8::from(interface) == DATA_INTERFACE {
            self.is_on = setting != 0;
            self.tell();
        }
    }
}

/// What moves the frames.
pub struct Ethernet {
    sender: Sender<'static, Driver<'static, USB>>,
    receiver: Receiver<'static, Driver<'static, USB>>,
    frames: channel::Runner<'static, FRAME_MAX>,
}

impl Ethernet {
    /// Moves frames between the class and the stack.
    pub fn new(
        class: CdcNcmClass<'static, Driver<'static, USB>>,
        frames: channel::Runner<'static, FRAME_MAX>,
    ) -> Ethernet {
        let (sender, receiver) = class.split();
        Ethernet { sender, receiver, frames }
    }

    /// For ever.
    pub async fn run(self) -> ! {
        let Ethernet { mut sender, mut receiver, frames } = self;
        let (link, mut up, mut down) = frames.split();
        let block = BLOCK.take();
        let mut is_wanted = false;
        loop {
            if !is_wanted {
                is_wanted = match select(WANTED.wait(), drop_all(&mut down)).await {
                    Either::First(changed) => changed,
                    Either::Second(never) => never,
                };
                continue;
            }
            if let Either::Second(changed) = select(receiver.wait_connection(), WANTED.wait()).await {
                is_wanted = changed;
                continue;
            }
            link.set_link_state(LinkState::Up);
            let (rising, falling) = (receive(&mut receiver, &mut up, block), send(&mut sender, &mut down));
            is_wanted = match select3(WANTED.wait(), rising, falling).await {
                Either3::First(changed) => changed,
                // The driver would not wait any more: it begins anew with the host that is there.
                Either3::Second(()) | Either3::Third(()) => true,
            };
            link.set_link_state(LinkState::Down);
        }
    }
}

/// Hands up what the host sends, until the driver fails.
async fn receive(
    receiver: &mut Receiver<'static, Driver<'static, USB>>,
    up: &mut RxRunner<'static, FRAME_MAX>,
    block: &mut [u8; BLOCK_MAX],
) {
    loop {
        up.rx_buf().await; // Until there is room the host has to wait.
        let Ok(len) = receiver.read_packet(block).await else { return };
        let arrived = arrivals::take();
        if let (Some(room), Some(frame)) = (up.rx_buf().await.get_mut(..len), block.get(..len)) {
            room.copy_from_slice(frame);
            STAMPS.frame_arrived(arrived);
            up.rx_done(len);
        }
    }
}

/// Sends what comes down, until the driver fails.
async fn send(sender: &mut Sender<'static, Driver<'static, USB>>, down: &mut TxRunner<'static, FRAME_MAX>) {
    loop {
        let sent = sender.write_packet(down.tx_buf().await).await;
        down.tx_done();
        if sent.is_err() {
            return;
        }
    }
}

/// Without a host there is nobody to keep frames for: they would be old when one comes.
async fn drop_all(down: &mut TxRunner<'static, FRAME_MAX>) -> ! {
    loop {
        down.tx_buf().await;
        down.tx_done();
    }
}
