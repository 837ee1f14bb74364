//! The image of the Pico W: Wi-Fi by a CYW43, without power saving.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod radio;

#[cfg(target_os = "none")]
mod image {
    use crate::radio::{self, Ethernet, EthernetDevice, Wiring};
    use compasso_board_rp2040::{Booted, Lamp, Parts, Thermometer, Wish, boot, watch};
    use compasso_runtime::link::DerivedMac;
    use compasso_wire::flash::page::Wifi;
    use core::pin::pin;
    use cyw43::Control;
    use embassy_executor::Spawner;
    use embassy_futures::select::{Either, select};
    use embassy_net::{Runner, Stack};
    use embassy_rp::{Peri, peripherals::WATCHDOG};
    use embassy_time::Timer;

    const ONCE: &str = "each task is spawned once";

    static LAMP: Wish = Wish::new();

    #[embassy_executor::main(executor = "embassy_rp::executor::Executor", entry = "cortex_m_rt::entry")]
    async fn main(spawner: Spawner) {
        let chip = embassy_rp::init(Default::default());
        spawner.spawn(watch_task(chip.WATCHDOG).expect(ONCE));
        while !radio::IS_COMPLETE {
            defmt::error!(
                "this image was built without the radio's firmware; to mend it: set COMPASSO_CYW43_DIR and build again"
            );
            Timer::after_secs(1).await;
        }
        let parts = Parts {
            lamp: Lamp::Remote(&LAMP),
            second: chip.PIN_14.into(),
            inside: chip.PIN_15.into(),
            flash: chip.FLASH,
            thermometer: Thermometer::new(chip.ADC, chip.ADC_TEMP_SENSOR),
        };
        let wiring = Wiring {
            power: chip.PIN_23,
            data: chip.PIN_24,
            select: chip.PIN_25,
            clock: chip.PIN_29,
            pio: chip.PIO0,
            dma: chip.DMA_CH0,
        };
        let mut starting = pin!(known(parts));
        // Only a board that is nobody lights its lamp before there is a radio to light it.
        let known = match select(&mut starting, LAMP.wait()).await {
            Either::First(known) => Some(known),
            Either::Second(_) => None,
        };
        let (device, mut control, ethernet) = radio::start(wiring).await;
        spawner.spawn(ethernet_task(ethernet).expect(ONCE));
        let mac = radio::set_up(&mut control).await;
        let (board, wifi) = match known {
            Some(known) => known,
            None => match select(starting, radio::light(control, &LAMP)).await {
                Either::First(_) => unreachable!("a board that is nobody stays so"),
            },
        };
        let (stack, network) = board.radio_network(device, mac);
        spawner.spawn(network_task(network).expect(ONCE));
        spawner.spawn(serve_task(control, wifi, stack).expect(ONCE));
        spawner.spawn(node_task(board, stack).expect(ONCE));
    }

    /// A board that knows who it is, and its network.
    async fn known(parts: Parts) -> (Booted, Wifi) {
        let mut board = boot(parts).await;
        let wifi = board.wifi().await;
        (board, wifi)
    }

    /// Not part of the main task, which has the radio's start on its stack: below that a node has no room.
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
    async fn serve_task(control: Control<'static>, wifi: Wifi, stack: Stack<'static>) {
        radio::serve(control, wifi, stack, &LAMP).await
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
        "pico-w is an image for a board. Build it with\n  \
         cargo build -p compasso-board-rp2040 --bin pico-w --target thumbv6m-none-eabi --profile firmware"
    );
    std::process::exit(2);
}
