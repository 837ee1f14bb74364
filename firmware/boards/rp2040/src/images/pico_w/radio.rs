//! The CYW43 radio of the Pico W, on a bus that a PIO drives.
//!
//! Its own firmware is not Compasso's: `build.rs` takes it from where the user put it, and an
//! image that was built without it says so and goes no further.

use compasso_board_rp2040::Wish;
use compasso_wire::flash::page::Wifi;
use cyw43::{A4, Aligned, Control, JoinOptions, NetDriver, PowerManagementMode, Runner, SpiBus, State};
use cyw43_pio::{DEFAULT_CLOCK_DIVIDER, PioSpi};
use embassy_futures::select::{Either, select};
use embassy_net::Stack;
use embassy_rp::{
    Peri, bind_interrupts, dma,
    gpio::{Level, Output},
    peripherals::{DMA_CH0, PIN_23, PIN_24, PIN_25, PIN_29, PIO0},
    pio::{self, Pio},
};
use embassy_time::{Duration, Timer, with_timeout};
use static_cell::StaticCell;

bind_interrupts!(struct Irqs {
    PIO0_IRQ_0 => pio::InterruptHandler<PIO0>;
    DMA_IRQ_0 => dma::InterruptHandler<DMA_CH0>;
});

/// The radio's own program, regulatory data and calibration.
mod blobs {
    include!(concat!(env!("OUT_DIR"), "/radio.rs"));
}

/// The lamp hangs on a pin of the radio.
const LAMP_PIN: u8 = 0;
const JOIN_AGAIN_AFTER: Duration = Duration::from_secs(2);

/// What moves the frames: wants a task of its own.
pub type Ethernet = Runner<'static, SpiBus<Output<'static>, PioSpi<'static, PIO0, 0>>>;
/// What the network stack sees.
pub type EthernetDevice = NetDriver<'static>;

static STATE: StaticCell<State> = StaticCell::new();

/// Where the board has its radio.
pub struct Wiring {
    /// Switches it on.
    pub power: Peri<'static, PIN_23>,
    /// Data in both directions.
    pub data: Peri<'static, PIN_24>,
    /// Chip select.
    pub select: Peri<'static, PIN_25>,
    /// The bus's clock.
    pub clock: Peri<'static, PIN_29>,
    /// Drives the bus.
    pub pio: Peri<'static, PIO0>,
    /// Moves bytes.
    pub dma: Peri<'static, DMA_CH0>,
}

/// Whether the radio's firmware is in this image.
pub const IS_COMPLETE: bool = blobs::IS_COMPLETE;

/// Switches the radio on.
pub async fn start(wiring: Wiring) -> (EthernetDevice, Control<'static>, Ethernet) {
    let power = Output::new(wiring.power, Level::Low);
    let select = Output::new(wiring.select, Level::High);
    let mut pio = Pio::new(wiring.pio, Irqs);
    let dma = dma::Channel::new(wiring.dma, Irqs);
    let bus =
        PioSpi::new(&mut pio.common, pio.sm0, DEFAULT_CLOCK_DIVIDER, pio.irq0, select, wiring.data, wiring.clock, dma);
    let firmware: &Aligned<A4, [u8]> = &blobs::FIRMWARE;
    let nvram: &Aligned<A4, [u8]> = &blobs::NVRAM;
    cyw43::new(STATE.init_with(State::new), power, bus, firmware, nvram).await
}

/// Sets the radio up; its MAC address. The radio's task must be running.
pub async fn set_up(control: &mut Control<'static>) -> [u8; 6] {
    control.init(blobs::CLM.as_slice()).await;
    // A radio that saves power answers a ping when it wakes up: 200 ms later.
    control.set_power_management(PowerManagementMode::None).await;
    control.address().await
}

/// Serves the lamp of a board that joins no network.
pub async fn light(mut control: Control<'static>, lamp: &'static Wish) -> ! {
    loop {
        control.gpio_set(LAMP_PIN, lamp.wait().await).await;
    }
}

/// Belongs to the network, again and again, and serves the lamp meanwhile.
pub async fn serve(mut control: Control<'static>, wifi: Wifi, stack: Stack<'static>, lamp: &'static Wish) -> ! {
    loop {
        join(&mut control, &wifi).await;
        // The stack hears of the link a little later than we do.
        if with_timeout(JOIN_AGAIN_AFTER, stack.wait_link_up()).await.is_ok() {
            while let Either::First(is_on) = select(lamp.wait(), stack.wait_link_down()).await {
                control.gpio_set(LAMP_PIN, is_on).await;
            }
        }
        defmt::warn!("lost the Wi-Fi network {=str}", wifi.ssid.as_str());
    }
}

async fn join(control: &mut Control<'static>, wifi: &Wifi) {
    let options = match wifi.passphrase.as_str() {
        "" => JoinOptions::new_open(),
        passphrase => JoinOptions::new(passphrase.as_bytes()),
    };
    while control.join(&wifi.ssid, options.clone()).await.is_err() {
        defmt::warn!("cannot join the Wi-Fi network {=str}", wifi.ssid.as_str());
        Timer::after(JOIN_AGAIN_AFTER).await;
    }
}
