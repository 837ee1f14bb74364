//! The virtual switch: forwards frames between boards and host, badly if asked to, and records them.
//!
//! What becomes of a frame is decided in `network.rs`. Promise: a full kernel queue (ten datagrams)
//! delays a frame and never loses it. Faults and partitions may change at any time.

use crate::{
    frame::FRAME_MAX,
    network::{Counters, Network},
};
use compasso_scenario::faults::{Faults, Sides};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
    io::{self, ErrorKind},
    os::unix::net::UnixDatagram,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
    time::{Duration, Instant, SystemTime},
};

/// Frames that wait for one board beyond this are given up and counted: a board that is paused
/// for long would otherwise fill the host's memory.
pub const BACKLOG_MAX: usize = 4096;
/// A full queue is tried again after this time, and after twice that, up to [`RETRY_MAX`].
const RETRY_MIN: Duration = Duration::from_micros(100);
const RETRY_MAX: Duration = Duration::from_millis(4);
/// How often the switch looks for changed settings when nothing else happens.
const IDLE: Duration = Duration::from_millis(20);
/// Frames read from one port before the others get their turn.
const BURST: usize = 32;

struct Shared {
    network: Network,
    unplugged: Vec<usize>,
    stopped: bool,
}

/// A running switch. Dropping it stops it.
pub struct Switch {
    shared: Arc<Mutex<Shared>>,
    host: UnixDatagram,
    folder: PathBuf,
    thread: Option<JoinHandle<io::Result<()>>>,
}

/// The socket that a board's network device listens on.
#[must_use]
pub fn board_socket(folder: &Path, position: usize) -> PathBuf {
    folder.join(format!("n{position}"))
}

/// The socket of the switch that a board's network device sends to.
#[must_use]
pub fn switch_socket(folder: &Path, position: usize) -> PathBuf {
    folder.join(format!("s{position}"))
}

impl Switch {
    /// Starts a switch for `names.len()` boards, with its sockets in `folder`.
    ///
    /// # Errors
    /// If a socket or the recording cannot be made.
    pub fn start(folder: &Path, names: &[String], seed: u64, capture: Option<&Path>) -> io::Result<Switch> {
        let network = Network::new(names, seed, capture)?;
        let (host, inner) = UnixDatagram::pair()?;
        host.set_nonblocking(false)?;
        let mut ports = Vec::new();
        for position in 0..names.len() {
            let path = switch_socket(folder, position);
            let _ = std::fs::remove_file(&path);
            ports.push(Port::new(UnixDatagram::bind(path)?, Some(board_socket(folder, position)))?);
        }
        ports.push(Port::new(inner, None)?);
        let shared = Arc::new(Mutex::new(Shared { network, unplugged: Vec::new(), stopped: false }));
        let engine = Engine {
            shared: Arc::clone(&shared),
            ports,
            due: BinaryHeap::new(),
            order: 0,
            started: (Instant::now(), SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()),
        };
        let thread = std::thread::Builder::new().name("switch".into()).spawn(move || engine.run())?;
        Ok(Switch { shared, host, folder: folder.to_owned(), thread: Some(thread) })
    }

    /// Where the sockets are.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Changes how bad the network is.
    pub fn set_faults(&self, faults: Faults) {
        self.shared().network.faults = faults;
    }

    /// Divides the network: which side each position is on. Empty: it is whole.
    pub fn set_sides(&self, sides: Sides) {
        self.shared().network.sides = sides;
    }

    /// Forgets what waits for a board that is gone.
    pub fn unplug(&self, position: usize) {
        self.shared().unplugged.push(position);
    }

    /// What the switch has done so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.shared().network.counters
    }

    /// Sends a frame from the host.
    ///
    /// # Errors
    /// If the switch has stopped.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        self.host.send(frame).map(drop)
    }

    /// Waits up to `patience` for a frame to the host.
    ///
    /// # Errors
    /// If the switch has stopped.
    pub fn receive<'b>(&self, patience: Duration, buffer: &'b mut [u8; FRAME_MAX]) -> io::Result<Option<&'b [u8]>> {
        self.host.set_read_timeout(Some(patience.max(Duration::from_micros(1))))?;
        match self.host.recv(buffer) {
            Ok(length) => Ok(Some(&buffer[..length])),
            Err(error) if is_transient(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Stops the switch and ends the recording.
    ///
    /// # Errors
    /// If the recording could not be written.
    pub fn stop(mut self) -> io::Result<Counters> {
        self.join()?;
        Ok(self.counters())
    }

    fn join(&mut self) -> io::Result<()> {
        self.shared().stopped = true;
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(io::Error::other("the virtual switch panicked; please report this")),
            None => Ok(()),
        }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        lock(&self.shared)
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        let _ = self.join();
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

struct Port {
    socket: UnixDatagram,
    /// Where to send; none for the connected socket of the host.
    peer: Option<PathBuf>,
    backlog: VecDeque<Vec<u8>>,
    retry_at: Instant,
    retry_after: Duration,
}

enum Sent {
    Gone,
    Full,
    Yes,
}

impl Port {
    fn new(socket: UnixDatagram, peer: Option<PathBuf>) -> io::Result<Port> {
        socket.set_nonblocking(true)?;
        Ok(Port { socket, peer, backlog: VecDeque::new(), retry_at: Instant::now(), retry_after: RETRY_MIN })
    }

    fn send(&self, frame: &[u8]) -> Sent {
        let sent = match &self.peer {
            Some(peer) => self.socket.send_to(frame, peer),
            None => self.socket.send(frame),
        };
        match sent {
            Ok(_) => Sent::Yes,
            // ENOBUFS has no kind of its own; it passes like a full queue.
            Err(error) if is_transient(&error) || error.raw_os_error() == Some(105) => Sent::Full,
            Err(_) => Sent::Gone,
        }
    }

    /// Sends as much of the backlog as the kernel takes. Returns how many frames found nobody.
    fn flush(&mut self, now: Instant) -> u64 {
        let mut gone = 0;
        while let Some(frame) = self.backlog.front() {
            match self.send(frame) {
                Sent::Full => {
                    self.retry_at = now + self.retry_after;
                    self.retry_after = (self.retry_after * 2).min(RETRY_MAX);
                    return gone;
                }
                Sent::Gone => gone += 1,
                Sent::Yes => self.retry_after = RETRY_MIN,
            }
            self.backlog.pop_front();
        }
        gone
    }
}

/// When, the how-manieth (so that equal times keep their order), to which port, what.
type Due = Reverse<(Instant, u64, usize, Vec<u8>)>;

struct Engine {
    shared: Arc<Mutex<Shared>>,
    ports: Vec<Port>,
    due: BinaryHeap<Due>,
    order: u64,
    started: (Instant, Duration),
}

impl Engine {
    fn run(mut self) -> io::Result<()> {
        // Linux lets a sleeper lie for 50 us more unless it is asked not to.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        let mut buffer = [0; FRAME_MAX];
        loop {
            let ready = self.wait()?;
            let shared = Arc::clone(&self.shared);
            let mut shared = lock(&shared);
            if shared.stopped {
                return shared.network.finish().map(drop);
            }
            for position in std::mem::take(&mut shared.unplugged) {
                self.ports[position].backlog.clear();
            }
            for port in ready {
                for _ in 0..BURST {
                    match self.ports[port].socket.recv(&mut buffer) {
                        Ok(length) => self.forward(&mut shared.network, port, &buffer[..length]),
                        Err(_) => break,
                    }
                }
            }
            self.deliver(&mut shared.network.counters);
        }
    }

    /// Sleeps until a frame arrives or is due; returns the ports that have something.
    fn wait(&self) -> io::Result<Vec<usize>> {
        let now = Instant::now();
        let due = self.due.peek().map(|Reverse((at, ..))| *at);
        let retry = self.ports.iter().filter(|port| !port.backlog.is_empty()).map(|port| port.retry_at).min();
        let until = [due, retry].into_iter().flatten().min().unwrap_or(now + IDLE).min(now + IDLE);
        let patience = until.saturating_duration_since(now);
        let timeout = Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: i64::from(patience.subsec_nanos()) };
        let mut fds: Vec<PollFd<'_>> = self.ports.iter().map(|port| PollFd::new(&port.socket, PollFlags::IN)).collect();
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready = |(port, fd): (usize, &PollFd<'_>)| fd.revents().contains(PollFlags::IN).then_some(port);
        Ok(fds.iter().enumerate().filter_map(ready).collect())
    }

    fn forward(&mut self, network: &mut Network, from: usize, frame: &[u8]) {
        let now = Instant::now();
        let at = self.started.1 + now.duration_since(self.started.0);
        network.forward(at, from, frame, |to, after| {
            self.order += 1;
            self.due.push(Reverse((now + after, self.order, to, frame.to_vec())));
        });
    }

    fn deliver(&mut self, counters: &mut Counters) {
        let now = Instant::now();
        while self.due.peek().is_some_and(|Reverse((at, ..))| *at <= now) {
            let Some(Reverse((_, _, to, frame))) = self.due.pop() else { break };
            let port = &mut self.ports[to];
            if port.backlog.len() >= BACKLOG_MAX {
                counters.overrun += 1;
            } else {
                port.backlog.push_back(frame);
            }
        }
        for port in &mut self.ports {
            if port.retry_at <= now {
                counters.undelivered += port.flush(now);
            }
        }
    }
}

#[cfg(test)]
#[path = "switch_tests.rs"]
mod tests;
