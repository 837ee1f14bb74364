//! One thread that looks into all boards' memories: anchors a thousand times a second, logs fifty.

use crate::{
    anchor::Anchor,
    ram::Ram,
    rtt::{Image, Log},
};
use std::{
    collections::BTreeMap,
    io,
    path::PathBuf,
    sync::mpsc::{self, RecvTimeoutError},
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// How often anchors are looked at. The closest of hundreds of looks counts, so this need not be short.
const ANCHOR_EVERY: Duration = Duration::from_millis(1);
/// Logs are taken every so many looks at the anchors: long before 8 KiB are full.
const LOG_EVERY: u32 = 20;

/// A life: position in the ring, incarnation.
pub type LifeKey = (usize, u32);

enum Order {
    Begin { key: LifeKey, ram: Ram },
    End { key: LifeKey, reply: mpsc::Sender<Vec<String>> },
}

/// The running watcher.
pub struct Watcher {
    orders: mpsc::Sender<Order>,
    thread: JoinHandle<io::Result<BTreeMap<LifeKey, Anchor>>>,
}

impl Watcher {
    /// Starts watching. Anchors are relative to `started`; `logs` are the log files by position.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(image: Image, logs: Vec<PathBuf>, started: Instant) -> io::Result<Watcher> {
        let (orders, inbox) = mpsc::channel();
        let thread = std::thread::Builder::new().name("watcher".into()).spawn(move || {
            let logs = logs.iter().map(|path| Log::create(&image, path)).collect::<io::Result<Vec<_>>>()?;
            Eyes { logs, lives: BTreeMap::new(), anchors: BTreeMap::new(), started }.run(&inbox)
        })?;
        Ok(Watcher { orders, thread })
    }

    /// A board boots.
    pub fn begin(&self, key: LifeKey, ram: Ram) {
        let _ = self.orders.send(Order::Begin { key, ram }); // A watcher that failed says so at the end.
    }

    /// A board has died: takes the rest of its log and returns the last lines.
    #[must_use]
    pub fn end(&self, key: LifeKey) -> Vec<String> {
        let (reply, answer) = mpsc::channel();
        let _ = self.orders.send(Order::End { key, reply });
        answer.recv().unwrap_or_default()
    }

    /// Stops watching; returns every life's anchor.
    ///
    /// # Errors
    /// If a log could not be written.
    pub fn stop(self) -> io::Result<BTreeMap<LifeKey, Anchor>> {
        drop(self.orders);
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the watcher panicked; please report this")))
    }
}

/// What a look at a board's anchor saw.
struct Seen {
    ram: Ram,
    count: u32,
    /// Before the look: whatever follows this count was not read before then. No board lives before the host's zero.
    at_ns: u64,
}

struct Eyes<'i> {
    logs: Vec<Log<'i>>,
    lives: BTreeMap<LifeKey, Seen>,
    anchors: BTreeMap<LifeKey, Anchor>,
    started: Instant,
}

impl Eyes<'_> {
    fn run(mut self, inbox: &mpsc::Receiver<Order>) -> io::Result<BTreeMap<LifeKey, Anchor>> {
        for look in 0_u32.. {
            match inbox.recv_timeout(ANCHOR_EVERY) {
                Ok(Order::Begin { key, ram }) => {
                    self.logs[key.0].begin(key.1)?;
                    self.lives.insert(key, Seen { ram, count: 0, at_ns: 0 });
                }
                Ok(Order::End { key, reply }) => {
                    if let Some(mut seen) = self.lives.remove(&key) {
                        self.logs[key.0].end(&mut seen.ram)?;
                    }
                    let _ = reply.send(self.logs[key.0].last_lines());
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.sample();
            if look.is_multiple_of(LOG_EVERY) {
                for (key, seen) in &mut self.lives {
                    self.logs[key.0].poll(&mut seen.ram)?;
                }
            }
        }
        for (key, seen) in &mut self.lives {
            self.logs[key.0].end(&mut seen.ram)?;
        }
        Ok(self.anchors)
    }

    fn sample(&mut self) {
        for (key, seen) in &mut self.lives {
            let look_ns = self.started.elapsed().as_nanos() as u64;
            // Memory that cannot be read yet is looked at again a millisecond later.
            if let Ok(Some((count, raw_ns))) = seen.ram.anchor() {
                if count != seen.count {
                    let by_ns = self.started.elapsed().as_nanos() as u64;
                    self.anchors.entry(*key).or_default().observe((seen.at_ns, by_ns), raw_ns);
                }
                (seen.count, seen.at_ns) = (count, look_ns);
            }
        }
    }
}
