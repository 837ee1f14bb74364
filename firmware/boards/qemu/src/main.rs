//! The emulated board: QEMU's `mps2-an385`, as far as a node needs it.
//!
//! One image is every node: who it is stands in the page that the stage shares with it
//! (`compasso_wire::page`). All RAM lies in the machine's PSRAM, which the stage backs with a
//! file: there it reads log, telemetry and clock from outside, even after the board was killed.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod board;
#[cfg(target_os = "none")]
mod clock;
#[cfg(target_os = "none")]
mod lan9118;
#[cfg(target_os = "none")]
mod machine;
#[cfg(target_os = "none")]
mod page;
#[cfg(target_os = "none")]
mod registers;
#[cfg(target_os = "none")]
mod semihosting;

/// On the host there is nothing to run.
#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!(
        "compasso-qemu is an image for an emulated board. Build it with\n  \
         cargo build -p compasso-board-qemu --target thumbv6m-none-eabi --profile firmware\n\
         or let `cargo compasso run` do that."
    );
    std::process::exit(2);
}
