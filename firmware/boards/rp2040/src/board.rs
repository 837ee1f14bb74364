//! From reset to the node: who am I, which life is this, and then run behind whatever device the
//! image has.

use crate::{
    crash, identity,
    lamp::{Lamp, Panel},
    memory,
    storage::Storage,
    thermometer::Thermometer,
};
use compasso_node::Node;
use compasso_runtime::{
    Board, Buffers, Clocks, SOCKETS_MAX, link::DerivedMac, network_config, ring::Ring, run, signals::Signals,
    stamps::Stamps,
};
use compasso_wire::{
    Instant, NodeConfig, address,
    config::Stored,
    flash::{
        log::Log,
        page::{Unusable, Wifi},
    },
};
use core::mem::MaybeUninit;
use embassy_net::{Runner, Stack, StackResources};
use embassy_net_driver::Driver;
use embassy_rp::{
    Peri,
    gpio::AnyPin,
    peripherals::{FLASH, WATCHDOG},
    watchdog::Watchdog,
};
use embassy_time::{Duration, Timer};
use static_cell::{ConstStaticCell, StaticCell};

/// How many bytes of observations wait for the collector.
const RING_LEN: usize = 32 * 1024;
/// A program that feeds nobody for so long hangs.
const WATCHDOG_PATIENCE: Duration = Duration::from_secs(5);
const WATCHDOG_FED_EVERY: Duration = Duration::from_secs(1);

/// When frames arrived: a device that can tell puts it here.
pub static STAMPS: Stamps = Stamps::new();
/// Where whoever reads the board's memory from outside finds it.
#[unsafe(export_name = "COMPASSO_RING")]
static RING: Ring<RING_LEN> = Ring::new();
static BUFFERS: ConstStaticCell<Buffers> = ConstStaticCell::new(Buffers::new());
static CONFIG: StaticCell<NodeConfig> = StaticCell::new();
static NODE: StaticCell<Node> = StaticCell::new();
static SOCKETS: StaticCell<StackResources<SOCKETS_MAX>> = StaticCell::new();

defmt::timestamp!("{=u64:us}", embassy_time::Instant::now().as_micros());

/// What of the chip every image gives to the board.
pub struct Parts {
    /// The lamp.
    pub lamp: Lamp,
    /// Rises with every second of cluster time.
    pub second: Peri<'static, AnyPin>,
    /// High inside the critical section.
    pub inside: Peri<'static, AnyPin>,
    /// Holds who this is and what it promised.
    pub flash: Peri<'static, FLASH>,
    /// How warm the chip is.
    pub thermometer: Thermometer,
}

/// A board that knows who it is.
pub struct Booted {
    config: &'static NodeConfig,
    ipv4: [u8; 4],
    hardware: Hardware,
}

/// Reads who this board is and begins its next life: nothing has been sent before that is stored. A
/// board that is nobody stays here, blinks and says so.
pub async fn boot(parts: Parts) -> Booted {
    memory::guard();
    crash::report();
    let mut panel = Panel::new(parts.lamp, parts.second, parts.inside);
    let config = match identity::read() {
        Ok(config) => CONFIG.init(config),
        Err(why) => refuse(panel.lamp(), why).await,
    };
    let mut log = Log::open(Storage::new(parts.flash));
    assert!(log.begin_life(config).is_ok(), "the flash is worn out: this board may never speak again");
    let Some(ipv4) = address::ipv4(&config.members, config.me) else {
        unreachable!("the configuration was checked");
    };
    let (me, incarnation) = (config.me.0, config.incarnation);
    defmt::info!("node {=u16} at 10.77.{=u8}.{=u8}, life {=u32}", me, ipv4[2], ipv4[3], incarnation);
    Booted { config, ipv4, hardware: Hardware { panel, log, thermometer: parts.thermometer } }
}

/// A board that is nobody says nothing to anybody. The lamp tells a reader of the manual why.
async fn refuse(lamp: &mut Lamp, why: Unusable) -> ! {
    let reason = match why {
        Unusable::Missing => "there is no configuration page in flash",
        Unusable::Malformed => "the configuration page is from another version",
        Unusable::NotAMember => "the configuration page does not list this node among the members",
        Unusable::NoWifi => "the configuration page names no Wi-Fi network",
    };
    loop {
        defmt::error!("this board is nobody: {=str}; to mend it: compasso provision --node N", reason);
        lamp.blink(why as u32 + 2).await;
    }
}

impl Booted {
    /// The MAC address that the device must listen to.
    #[must_use]
    pub fn mac(&self) -> [u8; 6] {
        address::mac(self.ipv4)
    }

    /// Where the node lives.
    #[must_use]
    pub fn ipv4(&self) -> [u8; 4] {
        self.ipv4
    }

    /// Which Wi-Fi network to join. A board that does not know stays here, blinks and says so.
    pub async fn wifi(&mut self) -> Wifi {
        match identity::read_wifi() {
            Ok(wifi) => wifi,
            Err(why) => refuse(self.hardware.panel.lamp(), why).await,
        }
    }

    /// The network on a device with the MAC address of [`Booted::mac`]. The runner wants a task of its own.
    pub fn network<D: Driver>(&self, device: D) -> (Stack<'static>, Runner<'static, DerivedMac<D>>) {
        self.network_on(DerivedMac::new(device, self.ipv4, &STAMPS))
    }

    /// The network on a radio with its own MAC address. The runner wants a task of its own.
    pub fn radio_network<D: Driver>(
        &self,
        device: D,
        mac: [u8; 6],
    ) -> (Stack<'static>, Runner<'static, DerivedMac<D>>) {
        self.network_on(DerivedMac::radio(device, self.ipv4, mac, &STAMPS))
    }

    fn network_on<D: Driver>(&self, link: DerivedMac<D>) -> (Stack<'static>, Runner<'static, DerivedMac<D>>) {
        embassy_net::new(
            link,
            network_config(self.ipv4),
            SOCKETS.init_with(StackResources::new),
            u64::from(self.config.seed),
        )
    }

    /// Runs the node for ever, from when the network is there.
    pub async fn run(mut self, stack: Stack<'static>) -> ! {
        stack.wait_link_up().await;
        let node = make_node(NODE.uninit(), self.config);
        run(node, self.config, stack, &STAMPS, &mut self.hardware, &RING, BUFFERS.take()).await
    }
}

/// Restarts a board whose tasks no longer get their turn. Wants a task of its own.
pub async fn watch(watchdog: Peri<'static, WATCHDOG>) -> ! {
    let mut watchdog = Watchdog::new(watchdog);
    watchdog.pause_on_debug(true);
    watchdog.start(WATCHDOG_PATIENCE);
    loop {
        Timer::after(WATCHDOG_FED_EVERY).await;
        watchdog.feed(WATCHDOG_PATIENCE);
    }
}

/// A function of its own, so that the node is made in its place, and what that takes leaves the stack.
#[inline(never)]
fn make_node(slot: &'static mut MaybeUninit<Node>, config: &NodeConfig) -> &'static mut Node {
    let now = now();
    let node = slot.write(Node::new(config, now));
    node.start(now);
    node
}

struct Hardware {
    panel: Panel,
    log: Log<Storage>,
    thermometer: Thermometer,
}

impl Board for Hardware {
    fn store(&mut self, stored: &Stored) {
        assert!(self.log.store(stored).is_ok(), "the flash is worn out: this board may promise nothing more");
    }

    /// Nobody bends a real crystal.
    fn set_rate_ppb(&mut self, _ppb: i32) {}

    fn rate_ppb(&self) -> i32 {
        0
    }

    fn clocks(&self) -> Clocks {
        let hw = now();
        Clocks { hw, raw_ns: hw.0 * 1000 }
    }

    fn show(&mut self, signals: Signals) {
        self.panel.show(signals);
    }

    fn milli_celsius(&mut self) -> Option<i32> {
        self.thermometer.milli_celsius()
    }
}

fn now() -> Instant {
    Instant(embassy_time::Instant::now().as_micros())
}
