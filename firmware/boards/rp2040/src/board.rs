//! From reset to the node: who am I, and then run behind whatever device the image has.

use crate::{crash, identity, memory};
use compasso_node::Node;
use compasso_runtime::{Board, Clocks, SOCKETS_MAX, link::DerivedMac, network_config, run};
use compasso_wire::{Instant, NodeConfig, address, config::Stored};
use embassy_net::{Runner, Stack, StackResources};
use embassy_net_driver::Driver;
use embassy_rp::{
    Peri,
    gpio::{AnyPin, Level, Output},
};
use embassy_time::Timer;
use static_cell::StaticCell;

static CONFIG: StaticCell<NodeConfig> = StaticCell::new();
static NODE: StaticCell<Node> = StaticCell::new();
static SOCKETS: StaticCell<StackResources<SOCKETS_MAX>> = StaticCell::new();

defmt::timestamp!("{=u64:us}", embassy_time::Instant::now().as_micros());

/// What of the chip every image gives to the board.
pub struct Parts {
    /// The lamp.
    pub led: Peri<'static, AnyPin>,
}

/// A board that knows who it is.
pub struct Booted {
    config: &'static NodeConfig,
    /// Its address.
    pub ipv4: [u8; 4],
}

/// Reads who this board is. A board that is nobody stays here, blinks and says so.
pub async fn boot(parts: Parts) -> Booted {
    memory::guard_boot();
    crash::report();
    let config = match identity::read() {
        Ok(config) => &*CONFIG.init(config),
        Err(_) => refuse(parts).await,
    };
    let Some(ipv4) = address::ipv4(&config.members, config.me) else {
        unreachable!("the configuration was checked");
    };
    Booted { config, ipv4 }
}

async fn refuse(parts: Parts) -> ! {
    let mut led = Output::new(parts.led, Level::Low);
    loop {
        defmt::error!("not provisioned: this board is nobody; to mend it: compasso provision --node N");
        led.toggle();
        Timer::after_millis(500).await;
    }
}

impl Booted {
    /// The MAC address that the device must listen to.
    #[must_use]
    pub fn mac(&self) -> [u8; 6] {
        address::mac(self.ipv4)
    }

    /// The network on a device. The runner wants a task of its own.
    pub fn network<D: Driver>(&self, device: D) -> (Stack<'static>, Runner<'static, DerivedMac<D>>) {
        embassy_net::new(
            DerivedMac::new(device, self.ipv4),
            network_config(self.ipv4),
            SOCKETS.init_with(StackResources::new),
            u64::from(self.config.seed),
        )
    }

    /// Runs the node for ever, from when the network is there.
    pub async fn run(self, stack: Stack<'static>) -> ! {
        stack.wait_link_up().await;
        let node = make_node(self.config);
        defmt::info!("node {=u16} at 10.77.{=u8}.{=u8}", self.config.me.0, self.ipv4[2], self.ipv4[3]);
        // SAFETY: there is one board, and it is gone now.
        let memory = unsafe { memory::claim() };
        run(node, self.config, stack, &mut Rp2040, &memory.ring, &mut memory.buffers).await
    }
}

/// A function of its own, so that the copies of a node that its making takes leave the stack.
#[inline(never)]
fn make_node(config: &NodeConfig) -> &'static mut Node {
    let now = now();
    let node = NODE.init_with(|| Node::new(config, now));
    node.start(now);
    node
}

struct Rp2040;

impl Board for Rp2040 {
    fn store(&mut self, _stored: &Stored) {}

    fn set_rate_ppb(&mut self, _ppb: i32) {}

    fn rate_ppb(&self) -> i32 {
        0
    }

    fn clocks(&self) -> Clocks {
        let hw = now();
        Clocks { hw, raw_ns: hw.0 * 1000 }
    }
}

fn now() -> Instant {
    Instant(embassy_time::Instant::now().as_micros())
}
