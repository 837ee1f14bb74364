//! What boards say over the network: the host's end of the protocol on a real socket.

use crate::{
    Fleet,
    cut::{self, Life},
};
use compasso_checker::{Event, TraceEvent, scenario_event};
use compasso_scenario::{Names, Scenario};
use compasso_stage::{collect::Collector, host::Host, setup::EnvironmentError};
use compasso_wire::{NodeId, message::Command};
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::UdpSocket,
    time::{Duration, Instant},
};

/// A board that was not heard for so long is no longer there: one that lives sends heartbeats, and tells.
pub const SILENT_AFTER: Duration = Duration::from_secs(2);
/// The longest datagram that is looked at.
const LENGTH_MAX: usize = 2048;

/// Collects what a fleet's boards report, and gives them commands.
pub struct Station<'f> {
    fleet: &'f Fleet,
    socket: UdpSocket,
    host: Host,
    collector: Collector,
    started: Instant,
    heard: BTreeMap<u16, (u32, Duration)>,
    seen: BTreeSet<Life>,
    refused: BTreeMap<&'static str, u64>,
}

impl<'f> Station<'f> {
    /// Opens the host's socket, in a life of the host that no earlier one had.
    ///
    /// # Errors
    /// If the machine does not have the host's address, or that life cannot be stored.
    pub fn open(fleet: &'f Fleet, scenario: &Scenario) -> Result<Station<'f>, EnvironmentError> {
        let bind = fleet.bind;
        let socket = UdpSocket::bind(bind).map_err(|error| {
            let mend = match error.kind() {
                io::ErrorKind::AddrNotAvailable => format!("ip address add {}/16 dev DEVICE", bind.ip()),
                io::ErrorKind::AddrInUse => {
                    format!("end whatever else listens there: ss -ulpn sport = :{}", bind.port())
                }
                _ => format!("choose another address as host.bind in {}", fleet.file),
            };
            EnvironmentError::new(format!("cannot listen at {bind}: {error}"), mend)
        })?;
        let counter = fleet.counter();
        let incarnation = counter.next().map_err(|error| {
            let path = counter.path().display();
            EnvironmentError::new(format!("{path}: {error}"), format!("make the folder of {path} writable"))
        })?;
        let names = Names { ids: fleet.ids(), ..scenario.names.clone() };
        Ok(Station {
            fleet,
            socket,
            host: Host::joining(fleet.key.clone(), fleet.cluster_of(scenario), &fleet.members(), incarnation),
            collector: Collector::new(&names),
            started: Instant::now(),
            heard: BTreeMap::new(),
            seen: BTreeSet::new(),
            refused: BTreeMap::new(),
        })
    }

    /// Since it was opened.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// The host, to serve time and to learn whether commands were carried out.
    pub fn host(&mut self) -> &mut Host {
        &mut self.host
    }

    /// How many events were collected.
    #[must_use]
    pub fn events(&self) -> usize {
        self.collector.len()
    }

    /// The boards that were heard a moment ago, and in which life.
    #[must_use]
    pub fn talking(&self) -> BTreeMap<u16, u32> {
        let since = self.now().saturating_sub(SILENT_AFTER);
        let heard = self.heard.iter().filter(|(_, (_, at))| *at >= since);
        heard.map(|(node, (inc, _))| (*node, *inc)).collect()
    }

    /// All boards were reset: whoever was heard before is not there any more.
    pub fn forget_heard(&mut self) {
        self.heard.clear();
    }

    /// Every life that anything was collected of.
    #[must_use]
    pub fn lives(&self) -> &BTreeSet<Life> {
        &self.seen
    }

    /// Whether the node's boot into this life was collected.
    #[must_use]
    pub fn has_booted(&self, node: u16, incarnation: u32) -> bool {
        self.position(node).is_some_and(|position| self.collector.has_booted((position, incarnation)))
    }

    /// How many requests of living boards are open.
    #[must_use]
    pub fn open_requests(&self) -> u64 {
        let open = |(node, inc): (u16, u32)| {
            self.position(node).map_or(0, |position| self.collector.open_requests((position, inc)))
        };
        self.talking().into_iter().map(open).sum()
    }

    /// Datagrams that were refused, by reason.
    #[must_use]
    pub fn refused(&self) -> &BTreeMap<&'static str, u64> {
        &self.refused
    }

    /// The stage did or learned something.
    pub fn note(&mut self, event: Event) {
        let now = self.now();
        self.collector.stage(now, event);
    }

    /// Gives a node a command.
    pub fn command(&mut self, node: u16, command: Command) {
        let now = self.now();
        self.host.command(now, NodeId(node), command);
    }

    /// Serves the network for so long.
    ///
    /// # Errors
    /// If the socket fails.
    pub fn pump(&mut self, patience: Duration) -> io::Result<()> {
        let until = self.now() + patience;
        let mut buffer = [0; LENGTH_MAX];
        loop {
            self.transmit();
            let now = self.now();
            if now >= until {
                return Ok(());
            }
            let wake_at = self.host.poll_timeout().map_or(until, |at| at.min(until));
            // No time at all would mean for ever.
            let wait = wake_at.saturating_sub(now).max(Duration::from_micros(100));
            self.socket.set_read_timeout(Some(wait))?;
            match self.socket.recv_from(&mut buffer) {
                Ok((length, _)) => self.take(&buffer[..length]),
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
            self.host.handle_timeout(self.started.elapsed());
        }
    }

    /// Makes the trace: what a scenario line tells, all that was collected, and what is known to be missing.
    #[must_use]
    pub fn finish(mut self, scenario: &Scenario, is_complete: bool) -> Vec<TraceEvent> {
        let talking: BTreeSet<Life> = self.talking().into_iter().collect();
        self.collector.headline(scenario_event(scenario, "boards"));
        if is_complete {
            let now = self.now();
            self.collector.stage(now, Event::End);
        }
        // No board knows true time, and the host sees only when datagrams arrive: the trace has none.
        let mut trace = cut::consistent(self.collector.finish(&BTreeMap::new()), &talking);
        cut::declare_gaps(&mut trace, &talking);
        trace
    }

    fn take(&mut self, datagram: &[u8]) {
        let now = self.now();
        if let Err(refusal) = self.host.handle(now, datagram) {
            *self.refused.entry(refusal.as_str()).or_default() += 1;
        }
        while let Some(batch) = self.host.poll_batch() {
            let node = batch.node.0;
            self.heard.insert(node, (batch.incarnation, now));
            if !batch.observations.is_empty() {
                self.seen.insert((node, batch.incarnation));
            }
            if let Some(position) = self.position(node) {
                self.collector.batch(now, position, batch);
            }
        }
    }

    fn transmit(&mut self) {
        while let Some((to, datagram)) = self.host.poll_transmit() {
            if let Some(board) = self.fleet.board(to.0) {
                // A board that cannot be reached now is a datagram lost, and the protocol repeats it.
                let _ = self.socket.send_to(&datagram, board.address);
            }
        }
    }

    fn position(&self, node: u16) -> Option<usize> {
        self.fleet.boards.iter().position(|board| board.node == node)
    }
}

/// Nothing came, or a board that is switched off refused what was sent to it.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{
        ConnectionRefused, ConnectionReset, HostUnreachable, Interrupted, NetworkUnreachable, TimedOut, WouldBlock,
    };
    [ConnectionRefused, ConnectionReset, HostUnreachable, Interrupted, NetworkUnreachable, TimedOut, WouldBlock]
        .contains(&error.kind())
}
