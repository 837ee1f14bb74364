//! From reset to the node: who am I, start the clock and the network, run.

use crate::{
    clock,
    lan9118::Lan9118,
    machine::{self, Exit},
    page::Page,
};
use compasso_node::Node;
use compasso_runtime::{
    Board, Buffers, Clocks, SOCKETS_MAX, link::DerivedMac, network_config, ring::Ring, run, signals::Signals,
    stamps::Stamps,
};
use compasso_wire::{NodeConfig, address, config::Stored};
use core::cell::RefCell;
use cortex_m_rt::entry;
use critical_section::Mutex;
use embassy_executor::raw;
use embassy_net::{Runner, Stack, StackResources};
use static_cell::{ConstStaticCell, StaticCell};

/// How many bytes of observations wait for the collector.
const RING_LEN: usize = 64 * 1024;

type Network = DerivedMac<&'static mut Lan9118>;

static STAMPS: Stamps = Stamps::new();
static RING: Ring<RING_LEN> = Ring::new();
static BUFFERS: ConstStaticCell<Buffers> = ConstStaticCell::new(Buffers::new());
static DEVICE: ConstStaticCell<Lan9118> = ConstStaticCell::new(Lan9118::new(&STAMPS));
static PAGE: Mutex<RefCell<Option<Page>>> = Mutex::new(RefCell::new(None));
static CONFIG: StaticCell<NodeConfig> = StaticCell::new();
static NODE: StaticCell<Node> = StaticCell::new();
static SOCKETS: StaticCell<StackResources<SOCKETS_MAX>> = StaticCell::new();
static EXECUTOR: StaticCell<raw::Executor> = StaticCell::new();

defmt::timestamp!("{=u64:us}", clock::clocks().hw.0);

#[entry]
fn start() -> ! {
    machine::guard_stack();
    // SAFETY: the program begins here, once.
    let mut page = unsafe { Page::take() };
    let config = match page.config() {
        Ok(config) => &*CONFIG.init(config),
        Err(why) => {
            defmt::error!("no usable configuration in the shared page: {}", why);
            machine::exit(Exit::Configuration)
        }
    };
    clock::start(config.rate_ppb);
    page.store(&config.stored); // What earlier lives promised stays readable from the first moment.

    let Some(ipv4) = address::ipv4(&config.members, config.me) else {
        unreachable!("the configuration was checked");
    };
    let device = DEVICE.take();
    device.start(address::mac(ipv4));
    let (stack, runner) = embassy_net::new(
        DerivedMac::new(device, ipv4, &STAMPS),
        network_config(ipv4),
        SOCKETS.init_with(StackResources::new),
        u64::from(config.seed),
    );
    // From here on the device keeps what arrives.
    page.publish(&raw const RING as usize);
    critical_section::with(|cs| PAGE.replace(cs, Some(page)));
    let node = make_node(config);
    defmt::info!("node {=u16} at 10.77.{=u8}.{=u8}, {=i32} ppb", config.me.0, ipv4[2], ipv4[3], config.rate_ppb);

    let executor = EXECUTOR.init_with(|| raw::Executor::new(core::ptr::null_mut()));
    let spawner = executor.spawner();
    match (network_task(runner), node_task(node, config, stack)) {
        (Ok(network), Ok(node)) => {
            spawner.spawn(network);
            spawner.spawn(node);
        }
        (Err(_), _) | (_, Err(_)) => unreachable!("each task is spawned once"),
    }
    loop {
        // SAFETY: only this loop polls, and `__pender` does not.
        unsafe { executor.poll() };
        with_page(|page| page.anchor(clock::raw_ns));
        machine::sleep();
    }
}

/// A function of its own, so that the copies of a node that its making takes leave the stack.
#[inline(never)]
fn make_node(config: &NodeConfig) -> &'static mut Node {
    let now = clock::clocks().hw;
    let node = NODE.init_with(|| Node::new(config, now));
    node.start(now);
    node
}

#[embassy_executor::task]
async fn network_task(mut runner: Runner<'static, Network>) {
    runner.run().await
}

#[embassy_executor::task]
async fn node_task(node: &'static mut Node, config: &'static NodeConfig, stack: Stack<'static>) {
    run(node, config, stack, &STAMPS, &mut Emulated, &RING, BUFFERS.take()).await
}

struct Emulated;

impl Board for Emulated {
    /// Emulators take turns on the host's processors, and cold ones are slower than warm ones.
    const STAMPS_BLURRED_US: u32 = 40;

    fn store(&mut self, stored: &Stored) {
        with_page(|page| page.store(stored));
    }

    fn set_rate_ppb(&mut self, ppb: i32) {
        clock::set_rate_ppb(ppb);
    }

    fn rate_ppb(&self) -> i32 {
        clock::rate_ppb()
    }

    fn clocks(&self) -> Clocks {
        clock::clocks()
    }

    fn show(&mut self, _signals: Signals) {}
}

fn with_page(f: impl FnOnce(&mut Page)) {
    critical_section::with(|cs| match PAGE.borrow_ref_mut(cs).as_mut() {
        Some(page) => f(page),
        None => unreachable!("the page is taken before anything runs"),
    });
}
