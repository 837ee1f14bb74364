//! Real boards: who they are, how they are flashed, and what they report.
//!
//! [`Fleet`] is the file that names them; [`pages`] makes the page of flash that makes a board a
//! node; [`probe`] speaks to the `probe-rs` command; [`collect`] takes what boards say over the
//! network, [`logs`] what they say to their probes; [`perform`] performs a scenario on them.

pub mod collect;
mod config;
pub mod cut;
pub mod flash;
mod key;
pub mod logs;
pub mod pages;
pub mod perform;
pub mod probe;

pub use config::{Board, Fleet};
pub use key::{Counter, create_key, read_key};
