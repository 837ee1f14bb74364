//! Messages, identifiers, time types, codec and authentication.
//!
//! One datagram is `header ‖ body ‖ tag`, all of it postcard except the 16-byte tag.
//! `docs/wire.md` describes it byte by byte; this crate is what boards and host share.
#![cfg_attr(not(test), no_std)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::indexing_slicing))]
#![deny(clippy::wildcard_enum_match_arm)]

pub mod address;
pub mod auth;
pub mod cache;
pub mod codec;
pub mod command;
pub mod commit;
pub mod config;
pub mod election;
pub mod flash;
pub mod ids;
pub mod limits;
pub mod lists;
pub mod locks;
pub mod make;
pub mod message;
pub mod mutex;
pub mod page;
pub mod replay;
pub mod telemetry;
pub mod time;

pub use auth::Key;
pub use codec::{Opened, Refusal, open, peek_sender, seal, seal_with_lists};
pub use config::NodeConfig;
pub use heapless;
pub use ids::{Fence, NodeId, NodeSet, ResourceId, Term};
pub use lists::{Lists, NO_LISTS, RingList};
pub use message::{Body, Header, Kind, Payload, Vector, VectorEntry};
pub use telemetry::{Event, Observation};
pub use time::{ClusterTime, Duration, Instant, Interval, Leap};
