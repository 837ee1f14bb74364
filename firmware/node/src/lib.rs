//! One node: the algorithms composed, with the layers that a real network needs.
//!
//! | layer | file | what it adds |
//! |---|---|---|
//! | session | [`session`] | only the present life of a peer is believed, each datagram once |
//! | delivery | [`delivery`] | messages are repeated until acknowledged, taken once and in order |
//! | membership | [`membership`] | views that a majority accepted, leases, authority |
//! | turns | [`turns`] | an entry is a lease with a fence that a keeper checks |
//! | journal | [`journal`] | logical clocks, and every event stamped with them |
//!
//! # Order of calls
//! After every [`Node::handle`] the driver drains, in this order: [`Node::poll_effect`] (what must
//! be stored is stored before anything is sent), [`Node::poll_observation`], then
//! [`Node::poll_transmit`] until it returns nothing, fetching the observations again after each
//! datagram and before it leaves; then it sleeps until [`Node::poll_timeout`] or the next input.
//! A spurious time-out does nothing. A driver that knows when a datagram really left may say so afterwards, by
//! [`Node::handle_departure`].
#![cfg_attr(not(test), no_std)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::indexing_slicing))]
#![deny(clippy::wildcard_enum_match_arm)]

mod averaging;
mod cache;
mod clock;
mod commit;
pub mod defences;
pub mod delivery;
mod departures;
mod disciplining;
pub mod journal;
mod leading;
mod locks;
mod make;
pub mod membership;
mod mutex;
mod node;
mod pace;
mod receive;
pub mod session;
mod signs;
mod snapshots;
mod timekeeping;
mod transmit;
pub mod turns;
mod utc;
pub mod workload;

pub use departures::Tag;
pub use node::{Effect, Input, Node};
pub use transmit::Transmit;

/// The example in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
