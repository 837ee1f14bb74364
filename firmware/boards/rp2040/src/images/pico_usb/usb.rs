//! Ethernet over the USB port (CDC-NCM): the board is a network adapter of the host, which bridges.

use crate::{
    arrivals::Arrivals,
    ethernet::{Ethernet, FRAME_MAX, HostWatch},
};
use embassy_net_driver_channel as channel;
use embassy_rp::{
    Peri, bind_interrupts,
    peripherals::USB,
    usb::{Driver, InterruptHandler},
};
use embassy_usb::{
    Builder, Config, UsbDevice,
    class::cdc_ncm::{CdcNcmClass, State},
};
use static_cell::{ConstStaticCell, StaticCell};

bind_interrupts!(struct Irqs {
    // The time first: the other one clears what it is read from.
    USBCTRL_IRQ => Arrivals, InterruptHandler<USB>;
});

/// So many frames wait on their way up, and on their way down.
const FRAMES_RECEIVED: usize = 4;
const FRAMES_SENDING: usize = 4;
/// Of a full-speed bulk endpoint.
const PACKET_LEN: u16 = 64;
/// For anybody's use in one's own lab (pid.codes): a product would have its own.
const VENDOR: u16 = 0x1209;
const PRODUCT: u16 = 0x0001;

/// The USB device: wants a task of its own.
pub type Bus = UsbDevice<'static, Driver<'static, USB>>;
/// What the network stack sees.
pub type EthernetDevice = channel::Device<'static, FRAME_MAX>;

static DESCRIPTORS: ConstStaticCell<[[u8; 256]; 3]> = ConstStaticCell::new([[0; 256]; 3]);
static CONTROL: ConstStaticCell<[u8; 128]> = ConstStaticCell::new([0; 128]);
static CLASS: StaticCell<State<'static>> = StaticCell::new();
static HOST: ConstStaticCell<HostWatch> = ConstStaticCell::new(HostWatch::new());
static FRAMES: ConstStaticCell<channel::State<FRAME_MAX, FRAMES_RECEIVED, FRAMES_SENDING>> =
    ConstStaticCell::new(channel::State::new());

/// Makes the board an adapter, with this address on the board's side. What moves the frames wants a
/// task of its own, and so does the bus.
pub fn start(usb: Peri<'static, USB>, mac: [u8; 6]) -> (EthernetDevice, Ethernet, Bus) {
    let mut config = Config::new(VENDOR, PRODUCT);
    config.manufacturer = Some("Compasso");
    config.product = Some("Compasso node");
    let [descriptor, capabilities, microsoft] = DESCRIPTORS.take();
    let driver = Driver::new(usb, Irqs);
    let mut builder = Builder::new(driver, config, descriptor, capabilities, microsoft, CONTROL.take());
    let class = CdcNcmClass::new(&mut builder, CLASS.init_with(State::new), host_side(mac), PACKET_LEN);
    builder.handler(HOST.take());
    let bus = builder.build();
    let (frames, device) = channel::new(FRAMES.take(), channel::driver::HardwareAddress::Ethernet(mac));
    (device, Ethernet::new(class, frames), bus)
}

/// The address of the host's end of the cable: next to the board's, and no board's.
fn host_side(mac: [u8; 6]) -> [u8; 6] {
    let [a, b, c, _, high, low] = mac;
    [a, b, c, 1, high, low]
}
