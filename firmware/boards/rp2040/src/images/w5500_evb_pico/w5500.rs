//! The W5500 Ethernet controller of the W5500-EVB-Pico, on SPI0.

use crate::stamping::{StampedLine, WatchedBus};
use embassy_net_wiznet::{Device, Runner, State, chip};
use embassy_rp::{
    Peri, bind_interrupts, dma,
    gpio::{Input, Level, Output, Pull},
    peripherals::{DMA_CH0, DMA_CH1, PIN_16, PIN_17, PIN_18, PIN_19, PIN_20, PIN_21, SPI0},
    spi::{self, Async, Spi},
};
use embassy_time::Delay;
use embedded_hal_bus::spi::ExclusiveDevice;
use static_cell::ConstStaticCell;

bind_interrupts!(struct Irqs {
    DMA_IRQ_0 => dma::InterruptHandler<DMA_CH0>, dma::InterruptHandler<DMA_CH1>;
});

/// The controller is specified to 33.3 MHz; the bus divides its 125 MHz by four.
const SPI_HZ: u32 = 33_000_000;
/// So many frames wait on their way up, and on their way down.
const FRAMES_RECEIVED: usize = 4;
const FRAMES_SENDING: usize = 4;

const _: () = assert!(FRAMES_RECEIVED < compasso_runtime::stamps::FRAMES_MAX);

type Bus = WatchedBus<ExclusiveDevice<Spi<'static, SPI0, Async>, Output<'static>, Delay>>;
type Line = StampedLine<Input<'static>>;

/// What moves the frames: wants a task of its own.
pub type Ethernet = Runner<'static, chip::W5500, Bus, Line, Output<'static>>;
/// What the network stack sees.
pub type EthernetDevice = Device<'static>;

static STATE: ConstStaticCell<State<FRAMES_RECEIVED, FRAMES_SENDING>> = ConstStaticCell::new(State::new());

/// Where the board has its controller.
pub struct Wiring {
    /// The bus.
    pub spi: Peri<'static, SPI0>,
    /// From the controller.
    pub miso: Peri<'static, PIN_16>,
    /// Chip select.
    pub select: Peri<'static, PIN_17>,
    /// The bus's clock.
    pub clock: Peri<'static, PIN_18>,
    /// To the controller.
    pub mosi: Peri<'static, PIN_19>,
    /// Resets it.
    pub reset: Peri<'static, PIN_20>,
    /// It has something.
    pub interrupt: Peri<'static, PIN_21>,
    /// Moves bytes out.
    pub send: Peri<'static, DMA_CH0>,
    /// Moves bytes in.
    pub receive: Peri<'static, DMA_CH1>,
}

/// Brings the controller up under this address.
pub async fn start(wiring: Wiring, mac: [u8; 6]) -> (EthernetDevice, Ethernet) {
    let mut config = spi::Config::default();
    config.frequency = SPI_HZ;
    let spi = Spi::new(wiring.spi, wiring.clock, wiring.mosi, wiring.miso, wiring.send, wiring.receive, Irqs, config);
    let Ok(bus) = ExclusiveDevice::new(spi, Output::new(wiring.select, Level::High), Delay);
    let interrupt = StampedLine(Input::new(wiring.interrupt, Pull::Up));
    let reset = Output::new(wiring.reset, Level::High);
    match embassy_net_wiznet::new(mac, STATE.take(), WatchedBus::new(bus), interrupt, reset).await {
        Ok(started) => started,
        Err(_) => panic!("there is no W5500 on SPI0: is this a W5500-EVB-Pico?"),
    }
}
