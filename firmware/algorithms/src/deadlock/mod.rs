//! Deadlock: what is done when transactions that hold some resources wait for others.
//!
//! A deadlock needs four conditions: mutual exclusion, hold and wait, no preemption, circular wait. A
//! transaction that waits for several resources needs all of them (AND model). Each resource has a home, whose
//! [`LockTable`] says who holds it and who waits. The strategies:
//!
//! | strategy | file | takes away |
//! |---|---|---|
//! | ignore | | nothing |
//! | detect | [`probe`] | no preemption, once a deadlock is found |
//! | prevent by order | [`order`] | circular wait |
//! | wait-die, wound-wait | [`timestamps`] | circular wait, by preemption |
//! | avoid | [`avoid`] | grants that could lead to one |

pub mod avoid;
pub mod lock_table;
pub mod order;
pub mod probe;
pub mod timestamps;

pub use lock_table::{Answer, LockTable, Say};
pub use probe::{Heard, Probe, Prober, Standing};
