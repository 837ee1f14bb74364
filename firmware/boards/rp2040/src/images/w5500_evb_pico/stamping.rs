//! When the W5500's frames arrived: its interrupt line says so, and the bus says which frame it was.
//!
//! The driver waits for the line and then reads one frame. Between its waiting and its waking lie
//! the executor and whatever else it has to do, so the waker itself takes the time: it is called by
//! the pin's interrupt. And the driver may give up waiting and begin anew, so a frame is counted
//! when its reading begins, which no driver can do without clearing the controller's interrupt.
//!
//! A frame that arrives while another is read is stamped when the driver waits again: late, never
//! early.
//!
//! And when frames left: the bus sees which one is written into the controller, and the command that sends it. That no
//! frame leaves before its own command is the controller's promise.

use compasso_board_rp2040::STAMPS;
use compasso_node::Tag;
use compasso_runtime::stamps::tag_in;
use compasso_wire::Instant;
use core::{
    cell::Cell,
    future::poll_fn,
    pin::pin,
    ptr,
    task::{Context, RawWaker, RawWakerVTable, Waker},
};
use critical_section::Mutex;
use embassy_sync::waitqueue::AtomicWaker;
use embedded_hal::{digital::ErrorType as PinErrorType, spi::ErrorType as BusErrorType};
use embedded_hal_async::{
    digital::Wait,
    spi::{Operation, SpiDevice},
};

/// When the line first fell since a frame was last read.
static FELL_AT: Mutex<Cell<Option<Instant>>> = Mutex::new(Cell::new(None));
/// The driver.
static WAITING: AtomicWaker = AtomicWaker::new();

/// The interrupt line, which takes the time when it falls.
pub struct StampedLine<P>(pub P);

impl<P: PinErrorType> PinErrorType for StampedLine<P> {
    type Error = P::Error;
}

impl<P: Wait> Wait for StampedLine<P> {
    async fn wait_for_low(&mut self) -> Result<(), P::Error> {
        // SAFETY: the table keeps the contract of a waker: its functions are thread-safe, and
        // there is no data.
        let waker = unsafe { Waker::from_raw(stamping()) };
        let mut wait = pin!(self.0.wait_for_low());
        poll_fn(|cx| {
            WAITING.register(cx.waker());
            wait.as_mut().poll(&mut Context::from_waker(&waker))
        })
        .await
    }

    async fn wait_for_high(&mut self) -> Result<(), P::Error> {
        self.0.wait_for_high().await
    }

    async fn wait_for_rising_edge(&mut self) -> Result<(), P::Error> {
        self.0.wait_for_rising_edge().await
    }

    async fn wait_for_falling_edge(&mut self) -> Result<(), P::Error> {
        self.0.wait_for_falling_edge().await
    }

    async fn wait_for_any_edge(&mut self) -> Result<(), P::Error> {
        self.0.wait_for_any_edge().await
    }
}

/// A waker that takes the time and then wakes the driver.
fn stamping() -> RawWaker {
    static TABLE: RawWakerVTable = RawWakerVTable::new(|_| stamping(), |_| line_fell(), |_| line_fell(), |_| ());
    RawWaker::new(ptr::null(), &TABLE)
}

fn line_fell() {
    critical_section::with(|cs| {
        let fell_at = FELL_AT.borrow(cs);
        fell_at.set(fell_at.get().or_else(|| Some(now())));
    });
    WAITING.wake();
}

/// The bus, which notices that a frame is read, and that one is sent.
pub struct WatchedBus<B> {
    bus: B,
    /// How the datagram ends that was written into the controller.
    writing: Option<Tag>,
}

impl<B> WatchedBus<B> {
    /// Watches this bus.
    pub fn new(bus: B) -> WatchedBus<B> {
        WatchedBus { bus, writing: None }
    }
}

impl<B: BusErrorType> BusErrorType for WatchedBus<B> {
    type Error = B::Error;
}

impl<B: SpiDevice> SpiDevice for WatchedBus<B> {
    async fn transaction(&mut self, operations: &mut [Operation<'_, u8>]) -> Result<(), B::Error> {
        if is_interrupt_cleared(operations) {
            let fell_at = critical_section::with(|cs| FELL_AT.borrow(cs).take());
            STAMPS.frame_arrived(fell_at.unwrap_or_else(now));
        }
        if let Some(frame) = written_to_send(operations) {
            self.writing = tag_in(frame);
        } else if is_sent(operations)
            && let Some(tag) = self.writing.take()
        {
            STAMPS.frame_left(tag, now());
        }
        self.bus.transaction(operations).await?;
        if is_nothing_received(operations) {
            critical_section::with(|cs| FELL_AT.borrow(cs).set(None)); // It was no frame.
        }
        Ok(())
    }
}

// Registers of socket 0, by address; the control byte names the socket's block and the direction.
const COMMAND: [u8; 2] = [0x00, 0x01];
const INTERRUPT: [u8; 2] = [0x00, 0x02];
const RECEIVED_LEN: [u8; 2] = [0x00, 0x26];
const READ_SOCKET_0: [u8; 1] = [0b0000_1000];
const WRITE_SOCKET_0: [u8; 1] = [0b0000_1100];
const WRITE_SENDING: [u8; 1] = [0b0001_0100];
const INTERRUPT_RECEIVED: u8 = 1 << 2;
const SEND: u8 = 0x20;

/// The frame that is put where frames to send lie.
fn written_to_send<'a>(operations: &'a [Operation<'_, u8>]) -> Option<&'a [u8]> {
    match operations {
        [Operation::Write(_), Operation::Write(control), Operation::Write(frame)] if **control == WRITE_SENDING => {
            Some(frame)
        }
        _ => None,
    }
}

fn is_sent(operations: &[Operation<'_, u8>]) -> bool {
    match operations {
        [Operation::Write(address), Operation::Write(control), Operation::Write([command])] => {
            **address == COMMAND && **control == WRITE_SOCKET_0 && *command == SEND
        }
        _ => false,
    }
}

fn is_interrupt_cleared(operations: &[Operation<'_, u8>]) -> bool {
    match operations {
        [Operation::Write(address), Operation::Write(control), Operation::Write([bits])] => {
            **address == INTERRUPT && **control == WRITE_SOCKET_0 && bits & INTERRUPT_RECEIVED != 0
        }
        _ => false,
    }
}

fn is_nothing_received(operations: &[Operation<'_, u8>]) -> bool {
    match operations {
        [Operation::Write(address), Operation::Write(control), Operation::TransferInPlace([0, 0])] => {
            **address == RECEIVED_LEN && **control == READ_SOCKET_0
        }
        _ => false,
    }
}

fn now() -> Instant {
    Instant(embassy_time::Instant::now().as_micros())
}
