//! When the last packet from the host arrived: the controller's interrupt says so.
//!
//! A frame's last packet is the last one before the driver hands it up, because the controller takes
//! no other until the driver has read it. Should the next one be quicker than the task that asks, the
//! time is that one's: late, never early.

use compasso_wire::Instant;
use core::cell::Cell;
use critical_section::Mutex;
use embassy_rp::{
    interrupt::typelevel::{Handler, USBCTRL_IRQ},
    pac,
};

/// Buffers from the host, in the register that has two bits for each endpoint; without endpoint 0.
const FROM_HOST: u32 = 0xaaaa_aaa8;

static ARRIVED: Mutex<Cell<Option<Instant>>> = Mutex::new(Cell::new(None));

/// Takes the time.
pub struct Arrivals;

impl Handler<USBCTRL_IRQ> for Arrivals {
    unsafe fn on_interrupt() {
        if is_news() {
            critical_section::with(|cs| ARRIVED.borrow(cs).set(Some(now())));
        }
    }
}

/// When the packet arrived that ended the frame which was just handed up.
pub fn take() -> Instant {
    critical_section::with(|cs| {
        let arrived = ARRIVED.borrow(cs).take();
        // The controller may be ahead of its interrupt, and the time an earlier packet's.
        if is_news() { now() } else { arrived.unwrap_or_else(now) }
    })
}

fn is_news() -> bool {
    pac::USB.buff_status().read().0 & FROM_HOST != 0
}

fn now() -> Instant {
    Instant(embassy_time::Instant::now().as_micros())
}
