//! Time: clocks that drift, and how to bring them together.

pub mod asking;
pub mod berkeley;
pub mod cristian;
pub mod disciplined;
pub mod make;
pub mod software_clock;
pub mod utc;

pub use asking::Asking;
pub use berkeley::Berkeley;
pub use cristian::Cristian;
pub use disciplined::{Disciplined, Ensemble};
pub use software_clock::SoftwareClock;
pub use utc::{LeapTable, Utc};
