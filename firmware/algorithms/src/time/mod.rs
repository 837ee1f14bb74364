//! Time: clocks that drift, and how to bring them together.

pub mod cristian;
pub mod software_clock;

pub use cristian::Cristian;
pub use software_clock::SoftwareClock;
