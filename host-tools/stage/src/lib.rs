//! The QEMU stage: real firmware on emulated boards, a virtual network between them, and the
//! collector of everything they report.
//!
//! [`setup`] prepares the machine, [`qemu::perform`] runs a scenario on it; [`mod@perform`] does so on any
//! [`Boards`]; the other modules are their parts.

pub mod anchor;
mod awake;
pub mod board;
pub mod budget;
pub mod capture;
pub mod collect;
pub mod frame;
pub mod host;
pub mod memory;
pub mod network;
pub mod outcome;
pub mod perform;
pub mod qemu;
pub mod ram;
pub mod rtt;
pub mod scratch;
pub mod setup;
pub mod switch;
pub mod uf2;
pub mod watch;

pub use outcome::{Failure, Options, Progress, RunOutput, StageError, interrupt_flag};
pub use perform::Boards;
pub use qemu::perform;
