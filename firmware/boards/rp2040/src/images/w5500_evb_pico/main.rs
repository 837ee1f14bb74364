//! The image of the W5500-EVB-Pico: Ethernet by a W5500, the board for tight claims about clocks.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod stamping;
#[cfg(target_os = "none")]
mod w5500;

#[cfg(target_os = "none")]
mod image {
    use crate::w5500::{self, Ethernet, EthernetDevice, Wiring};
    use compasso_board_rp2040::{Booted, Lamp, Parts, Thermometer, boot, watch};
    use compasso_runtime::link::DerivedMac;
    use embassy_executor::Spawner;
    use embassy_net::{Runner, Stack};
    use embassy_rp::{
        Peri,
        gpio::{Level, Output},
        peripherals::WATCHDOG,
    };

    const ONCE: &str = "each task is spawned once";

    #[embassy_executor::main(executor = "embassy_rp::executor::Executor", entry = "cortex_m_rt::entry")]
    async fn main(spawner: Spawner) {
        let chip = embassy_rp::init(Default::default());
        let parts = Parts {
            lamp: Lamp::Pin(Output::new(chip.PIN_25, Level::Low)),
            second: chip.PIN_14.into(),
            inside: chip.PIN_15.into(),
            flash: chip.FLASH,
            thermometer: Thermometer::new(chip.ADC, chip.ADC_TEMP_SENSOR),
        };
        spawner.spawn(watch_task(chip.WATCHDOG).expect(ONCE));
        let board = boot(parts).await;
        let wiring = Wiring {
            spi: chip.SPI0,
            miso: chip.PIN_16,
            select: chip.PIN_17,
            clock: chip.PIN_18,
            mosi: chip.PIN_19,
            reset: chip.PIN_20,
            interrupt: chip.PIN_21,
            send: chip.DMA_CH0,
            receive: chip.DMA_CH1,
        };
        let (device, ethernet) = w5500::start(wiring, board.mac()).await;
        let (stack, network) = board.network(device);
        spawner.spawn(ethernet_task(ethernet).expect(ONCE));
        spawner.spawn(network_task(network).expect(ONCE));
        spawner.spawn(node_task(board, stack).expect(ONCE));
    }

    /// Not part of the main task, whose frame would lie above it: below that a node has little room.
    #[embassy_executor::task]
    async fn node_task(board: Booted, stack: Stack<'static>) {
        board.run(stack).await
    }

    #[embassy_executor::task]
    async fn watch_task(watchdog: Peri<'static, WATCHDOG>) {
        watch(watchdog).await
    }

    #[embassy_executor::task]
    async fn ethernet_task(ethernet: Ethernet) {
        ethernet.run().await
    }

    #[embassy_executor::task]
    async fn network_task(mut network: Runner<'static, DerivedMac<EthernetDevice>>) {
        network.run().await
    }
}

/// On the host there is nothing to run.
#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!(
        "w5500-evb-pico is an image for a board. Build it with\n  \
         cargo build -p compasso-board-rp2040 --bin w5500-evb-pico --target thumbv6m-none-eabi --profile firmware"
    );
    std::process::exit(2);
}
