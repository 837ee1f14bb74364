//! What a performance needs, how far it is, and what it leaves behind.

use crate::{network::Counters, setup::EnvironmentError};
use compasso_checker::{NetworkStats, TraceEvent};
use compasso_scenario::Step;
use std::{
    collections::BTreeMap,
    fmt, io,
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

/// Where and with what to perform.
#[derive(Clone, Debug)]
pub struct Options {
    /// The emulator.
    pub qemu: PathBuf,
    /// The image.
    pub image: PathBuf,
    /// The run's folder: gets `network.pcapng` and `nodes/<id>.log`.
    pub out: PathBuf,
    /// Set by whoever wants the run to end early: see [`interrupt_flag`].
    pub interrupted: Arc<AtomicBool>,
}

/// How far the performance is.
#[derive(Clone, PartialEq, Debug)]
pub enum Progress {
    /// Boards are booting.
    Booting {
        /// So many have.
        booted: usize,
        /// Of so many.
        of: usize,
    },
    /// The scenario runs.
    Running {
        /// Since it started.
        at: Duration,
        /// So long it lasts.
        of: Duration,
        /// Events collected so far.
        events: usize,
    },
    /// A step was carried out.
    Performed(Step),
    /// The last requests are waited for.
    Draining {
        /// So many are open.
        open: u64,
    },
}

/// A board that ended without being told to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// Which.
    pub node: u16,
    /// In which life.
    pub incarnation: u32,
    /// Exit status or signal.
    pub reason: String,
    /// The last lines of its log.
    pub last_lines: Vec<String>,
}

/// What a performance leaves behind.
#[derive(Clone, PartialEq, Debug)]
pub struct RunOutput {
    /// The trace, in the order collected.
    pub events: Vec<TraceEvent>,
    /// What the network did.
    pub network: Counters,
    /// Datagrams to the host that were refused, by reason.
    pub refused: BTreeMap<&'static str, u64>,
    /// Boards that ended by themselves: exit status 4.
    pub failures: Vec<Failure>,
    /// Why the run did not end in time, if it did not: exit status 5.
    pub overdue: Option<String>,
    /// It was ended early on request.
    pub interrupted: bool,
    /// From the first boot to the last event.
    pub lasted: Duration,
}

/// Why there is no result at all. Exit status 3.
#[derive(Debug)]
pub enum StageError {
    /// The machine lacks something.
    Environment(EnvironmentError),
    /// A file or socket failed.
    Files {
        /// Doing what.
        doing: &'static str,
        /// The cause.
        cause: io::Error,
    },
}

impl fmt::Display for StageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StageError::Environment(error) => error.fmt(f),
            StageError::Files { doing, cause } => {
                write!(f, "{doing} failed: {cause}; is the disk full or not writable?")
            }
        }
    }
}

impl std::error::Error for StageError {}

impl From<EnvironmentError> for StageError {
    fn from(error: EnvironmentError) -> StageError {
        StageError::Environment(error)
    }
}

impl From<Counters> for NetworkStats {
    fn from(counters: Counters) -> NetworkStats {
        NetworkStats {
            datagrams: counters.datagrams,
            bytes: counters.bytes,
            lost: counters.lost + counters.blocked,
            duplicated: counters.duplicated,
            reordered: counters.reordered,
        }
    }
}

/// Says what failed.
pub trait Doing<T> {
    /// An error becomes the stage's, with what was being done.
    ///
    /// # Errors
    /// If it was one.
    fn doing(self, what: &'static str) -> Result<T, StageError>;
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, what: &'static str) -> Result<T, StageError> {
        self.map_err(|cause| StageError::Files { doing: what, cause })
    }
}

/// A flag that Ctrl-C and SIGTERM set. The second Ctrl-C ends the tool at once.
///
/// # Errors
/// If the handlers cannot be installed.
pub fn interrupt_flag() -> io::Result<Arc<AtomicBool>> {
    use signal_hook::{consts::signal, flag};
    let set = Arc::new(AtomicBool::new(false));
    for name in [signal::SIGINT, signal::SIGTERM] {
        // In this order: the first signal arms the shutdown, the second one finds it armed.
        flag::register_conditional_shutdown(name, 130, Arc::clone(&set))?;
        flag::register(name, Arc::clone(&set))?;
    }
    Ok(set)
}
