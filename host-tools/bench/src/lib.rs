//! The disciplined clock beside its peers: the same stamps for everybody, and one table.
//! `compasso bench clock` runs it; see `docs/algorithms/disciplined-clock.md`.

pub mod families;
pub mod limits;
pub mod measure;
pub mod peer;
pub mod peers;
pub mod pictures;
pub mod run;
pub mod svg;
pub mod table;
