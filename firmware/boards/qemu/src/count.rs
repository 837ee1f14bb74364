//! Counts what a node costs on this processor: instructions by kind of message, and stack.
//!
//! Not a board of a run but a program beside it, for `compasso budget`: three real nodes in one
//! memory, a script instead of a network, and an emulator whose time is counted instructions. First
//! the protocol's script, then one for each algorithm. The same script takes the same instructions
//! every time, so a budget can hold each number.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod counting;
#[cfg(target_os = "none")]
mod registers;
#[cfg(target_os = "none")]
mod semihosting;

/// On the host there is nothing to run.
#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!(
        "compasso-count is an image for an emulated board. Build it with\n  \
         cargo build -p compasso-board-qemu --bin compasso-count --target thumbv6m-none-eabi --profile firmware\n\
         or let `cargo compasso budget` build and run it."
    );
    std::process::exit(2);
}
