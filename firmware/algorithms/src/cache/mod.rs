//! Copies that are valid until a time: what synchronized clocks are good for.

pub mod client;
pub mod leases;
pub mod server;
#[cfg(test)]
mod tests;

pub use client::Client;
pub use leases::{Held, Leases};
pub use server::Server;

/// How the cache is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// How long a copy is valid.
    pub lease: compasso_wire::Duration,
    /// A writer asks readers to give up their copies, instead of only waiting.
    pub invalidate: bool,
    /// Every member keeps what is written, so that it outlives the server: hardening.
    pub replicates: bool,
}
