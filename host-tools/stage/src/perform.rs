//! Performs a scenario on boards, whatever they are made of and whatever time they live in.
//!
//! All boards boot; when each has said so the scenario's clock starts and its steps are carried
//! out; requests stop a little before the end; when every request has been served, or the limit
//! is reached, all boards are stopped in one moment and their memories read out. A slow machine
//! makes this longer, not wrong.

use crate::{
    collect::{Collector, TrueTime},
    frame,
    host::Host,
    network::Counters,
    outcome::{Failure, Progress, RunOutput, StageError},
    ram::Journal,
    setup::EnvironmentError,
    watch::LifeKey,
};
use compasso_checker::{Event, Fault, scenario_event_begun};
use compasso_scenario::{
    Action, Scenario,
    faults::{Sides, sides},
};
use compasso_wire::{
    Key, NodeConfig, NodeId,
    config::{Stored, TimeSource},
    message::Command,
};
use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

/// Boards that have not said `boot` by then never will.
pub const BOOT_MAX: Duration = Duration::from_secs(60);
/// How long after the end open requests are waited for.
pub const DRAIN_MAX: Duration = Duration::from_secs(20);
/// How often boards are looked after when nothing arrives.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The boards of a stage by their position in the ring, the network between them, and their time.
pub trait Boards {
    /// What the boards' clocks showed, in true time.
    type Clock: TrueTime;

    /// What the stage is called.
    const NAME: &'static str;

    /// The stage's time: real or not, it is what everything here is measured by.
    fn now(&self) -> Duration;

    /// Switches a board on. What it is to know is in the configuration, except what it knows by itself.
    ///
    /// # Errors
    /// If it cannot be started.
    fn boot(&mut self, position: usize, config: &NodeConfig) -> Result<(), StageError>;

    /// Which life of a board this is, if it is on.
    fn incarnation(&self, position: usize) -> Option<u32>;

    /// Ends a board's life at once, as a power cut would. None if it is not on.
    ///
    /// # Errors
    /// If what it leaves behind cannot be read.
    fn kill(&mut self, position: usize) -> Result<Option<Remains>, StageError>;

    /// Why a board has ended by itself, if it has. It must still be killed.
    fn ended(&mut self, position: usize) -> Option<String>;

    /// Stops a board's processor while its crystal runs on, or lets it go on. False if it is not on.
    fn set_paused(&mut self, position: usize, paused: bool) -> bool;

    /// Whether a board stands still.
    fn is_paused(&self, position: usize) -> bool;

    /// A board's crystal is off by so much from now on. False if the node itself must be told.
    fn bend(&mut self, position: usize, ppb: i32) -> bool;

    /// Divides the network.
    fn set_sides(&mut self, sides: Sides);

    /// Sends a frame from the host.
    ///
    /// # Errors
    /// If the network is gone.
    fn send(&mut self, frame: &[u8]) -> Result<(), StageError>;

    /// Waits so long for a frame to the host.
    ///
    /// # Errors
    /// If the network is gone.
    fn receive(&mut self, patience: Duration) -> Result<Option<Vec<u8>>, StageError>;

    /// Everything is over, and every board was killed.
    ///
    /// # Errors
    /// If recording or logs could not be written.
    fn close(self) -> Result<(Counters, Self::Clock), StageError>;
}

/// What a dead board leaves behind.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Remains {
    /// Which life it was.
    pub incarnation: u32,
    /// How its crystal was bent at boot, in parts per billion, as far as its own clock knows.
    pub rate_ppb: i32,
    /// Records that the collector had not acknowledged.
    pub journal: Journal,
    /// What it promised to remember; none if it stored nothing in this life, or remembers by itself.
    pub stored: Option<Stored>,
    /// The last lines of its log.
    pub last_lines: Vec<String>,
}

/// Performs a scenario on these boards, which share a key and a cluster's number.
///
/// # Errors
/// If the stage itself failed: then there is no verdict to be had.
pub fn perform_on<B: Boards>(
    boards: B,
    scenario: &Scenario,
    (key, cluster): (Key, u32),
    interrupted: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<RunOutput, StageError> {
    let members: Vec<NodeId> = scenario.ids.iter().map(|id| NodeId(*id)).collect();
    let seat = |id: &u16| Seat { lives: 0, stored: Stored::default(), rate_ppb: ppb(scenario.skew_ppm(*id)) };
    let mut stage = Stage {
        scenario,
        boards,
        interrupted,
        host: Host::new(key.clone(), cluster, &members),
        key,
        cluster,
        collector: Collector::new(&scenario.names),
        seats: scenario.ids.iter().map(seat).collect(),
        workload_stopped: false,
        is_complete: false,
        looked_at: Duration::ZERO,
        refused: BTreeMap::new(),
        failures: Vec::new(),
        overdue: None,
    };
    stage.run(progress)?;
    stage.close()
}

/// What outlives a node's lives.
struct Seat {
    lives: u32,
    stored: Stored,
    rate_ppb: i32,
}

struct Stage<'s, B> {
    scenario: &'s Scenario,
    boards: B,
    interrupted: &'s AtomicBool,
    key: Key,
    cluster: u32,
    host: Host,
    collector: Collector,
    seats: Vec<Seat>,
    workload_stopped: bool,
    /// Everything was performed: the trace may say that it ended as planned.
    is_complete: bool,
    looked_at: Duration,
    refused: BTreeMap<&'static str, u64>,
    failures: Vec<Failure>,
    overdue: Option<String>,
}

impl<B: Boards> Stage<'_, B> {
    fn run(&mut self, progress: &mut dyn FnMut(&Progress)) -> Result<(), StageError> {
        for position in 0..self.seats.len() {
            self.boot(position)?;
        }
        self.await_boot(progress)?;
        // Steps count from here, and so does the host's time: a leap second is announced as long before as planned.
        let begun_us = self.now().as_micros() as i64;
        self.collector.headline(scenario_event_begun(self.scenario, B::NAME, begun_us));
        if self.scenario.clock.source == TimeSource::Host {
            self.host.serve_time(self.scenario.tai_begin_us() - begun_us, self.scenario.clock.hosts);
        }
        if (0..self.seats.len()).all(|position| self.boards.incarnation(position).is_none()) {
            return Ok(()); // Nobody is left to perform; the failures say why.
        }
        let start = self.now();
        let duration = Duration::from_micros(self.scenario.duration.0);
        let stop_at = Duration::from_micros(self.scenario.stop_requests_at().0);
        let mut steps = self.scenario.steps.iter().peekable();
        loop {
            let at = self.now() - start;
            progress(&Progress::Running { at: at.min(duration), of: duration, events: self.collector.len() });
            if self.is_interrupted() {
                return Ok(());
            }
            while let Some(step) = steps.next_if(|step| Duration::from_micros(step.at.0) <= at) {
                self.act(step)?;
                progress(&Progress::Performed(step.clone()));
            }
            if !self.workload_stopped && at >= stop_at {
                self.workload_stopped = true;
                self.command_all(Command::StopWorkload);
            }
            if at >= duration {
                break;
            }
            let next_step = steps.peek().map(|step| Duration::from_micros(step.at.0));
            let wake_at = [next_step, Some(stop_at).filter(|stop| *stop > at), Some(duration)];
            let wake_at = wake_at.into_iter().flatten().min().unwrap_or(duration);
            self.pump(wake_at.saturating_sub(at).min(LOOK_EVERY))?;
        }
        self.drain(progress)?;
        self.is_complete = !self.is_interrupted();
        Ok(())
    }

    fn await_boot(&mut self, progress: &mut dyn FnMut(&Progress)) -> Result<(), StageError> {
        loop {
            let waiting: Vec<usize> = (0..self.seats.len()).filter(|position| self.is_booting(*position)).collect();
            progress(&Progress::Booting { booted: self.seats.len() - waiting.len(), of: self.seats.len() });
            if waiting.is_empty() || self.is_interrupted() {
                return Ok(());
            }
            if self.now() > BOOT_MAX {
                let ids: Vec<String> =
                    waiting.iter().map(|position| self.scenario.ids[*position].to_string()).collect();
                let what =
                    format!("node {} did not report within {} s of its boot", ids.join(", "), BOOT_MAX.as_secs());
                return Err(
                    EnvironmentError::new(what, "see nodes/*.log in the run's folder, and free some CPU").into()
                );
            }
            self.pump(LOOK_EVERY)?;
        }
    }

    /// Waits until every request of a board that can still act has been served. A request that is
    /// never served is for the checker to judge; a command that is never taken is the stage's failure.
    fn drain(&mut self, progress: &mut dyn FnMut(&Progress)) -> Result<(), StageError> {
        let until = self.now() + DRAIN_MAX;
        loop {
            let open = self.running().map(|key| self.collector.open_requests(key)).sum();
            let obeyed = self.running().all(|(position, _)| self.host.is_obeyed(self.id(position)));
            progress(&Progress::Draining { open });
            if (open == 0 && obeyed) || self.is_interrupted() {
                return Ok(());
            }
            if self.now() > until {
                if !obeyed {
                    self.overdue =
                        Some(format!("a node did not take its last command within {} s", DRAIN_MAX.as_secs()));
                }
                return Ok(());
            }
            self.pump(LOOK_EVERY)?;
        }
    }

    /// Stops all boards in one moment, reads them out, and makes the trace.
    fn close(mut self) -> Result<RunOutput, StageError> {
        let interrupted = self.is_interrupted();
        for position in 0..self.seats.len() {
            self.boards.set_paused(position, true); // One that is gone already has nothing to stop.
        }
        let lasted = self.now();
        for position in 0..self.seats.len() {
            self.kill(position)?;
        }
        if self.is_complete {
            self.collector.stage(lasted, Event::End);
        }
        let (network, clock) = self.boards.close()?;
        Ok(RunOutput {
            events: self.collector.finish(&clock),
            network,
            refused: self.refused,
            failures: self.failures,
            overdue: self.overdue,
            interrupted,
            lasted,
        })
    }

    fn act(&mut self, step: &compasso_scenario::Step) -> Result<(), StageError> {
        let mut now = self.now();
        let mut is_told = true;
        let fault = match &step.action {
            Action::Crash(id) => {
                if self.kill(self.position(*id))?.is_none() {
                    return Ok(()); // It died before by itself, and that was reported.
                }
                now = self.now(); // Only now it is certain that nothing more happened there.
                Some(Fault::Crash(*id))
            }
            Action::Restart(id) => {
                self.boot(self.position(*id))?;
                Some(Fault::Restart(*id))
            }
            Action::Pause(id) => self.boards.set_paused(self.position(*id), true).then_some(Fault::Pause(*id)),
            Action::Resume(id) => self.boards.set_paused(self.position(*id), false).then_some(Fault::Resume(*id)),
            Action::Partition(groups) => {
                self.boards.set_sides(sides(&self.scenario.ids, groups));
                Some(Fault::Partition(groups.clone()))
            }
            Action::Heal => {
                self.boards.set_sides(Sides::new());
                Some(Fault::Heal)
            }
            Action::SetSkew { node, ppm } => {
                let position = self.position(*node);
                self.seats[position].rate_ppb = ppb(*ppm); // A crystal stays as it is over a restart.
                is_told = !self.boards.bend(position, ppb(*ppm));
                Some(Fault::SetSkew { node: *node, ppm: *ppm })
            }
            Action::DropToken => {
                // The token passes by everybody: one node that waits for it is enough.
                let first = self.running().next();
                if let Some((position, _)) = first {
                    self.host.command(now, self.id(position), Command::DropToken);
                }
                Some(Fault::DropToken)
            }
            Action::Leap(by) => {
                if let Some(leap) = self.scenario.leap(step) {
                    self.host.announce(leap);
                }
                Some(Fault::Leap((*by).into()))
            }
            Action::TimeServer { host, serves } => {
                self.host.set_serving(*host, *serves);
                Some(Fault::TimeServer { host: *host, serves: *serves })
            }
            Action::Lie { host, lie } => {
                self.host.lie(now, *host, *lie);
                Some(Fault::Lie { host: *host, lie: *lie })
            }
            Action::Lock { .. }
            | Action::Elect(_)
            | Action::Acquire { .. }
            | Action::Release { .. }
            | Action::Claims { .. }
            | Action::Snapshot { .. }
            | Action::Label { .. }
            | Action::Send { .. }
            | Action::Edit { .. }
            | Action::Build { .. }
            | Action::Read(_)
            | Action::Write(_)
            | Action::Transaction { .. } => None,
        };
        for (id, command) in self.scenario.commands(step).into_iter().filter(|_| is_told) {
            self.host.command(now, NodeId(id), command);
        }
        if let Some(fault) = fault {
            self.collector.stage(now, Event::Fault(fault));
        }
        self.transmit()
    }

    fn boot(&mut self, position: usize) -> Result<(), StageError> {
        let id = self.scenario.ids[position];
        let seat = &mut self.seats[position];
        seat.lives += 1;
        let mut config = self.scenario.node_config(id, seat.lives, seat.stored, self.key.clone());
        config.cluster = self.cluster;
        config.rate_ppb = seat.rate_ppb;
        self.boards.boot(position, &config)?;
        if self.workload_stopped {
            self.host.command(self.boards.now(), NodeId(id), Command::StopWorkload);
        }
        Ok(())
    }

    /// Ends a board's life and takes what it leaves behind; returns which life it was and its last log lines.
    fn kill(&mut self, position: usize) -> Result<Option<(u32, Vec<String>)>, StageError> {
        let Some(remains) = self.boards.kill(position)? else { return Ok(None) };
        let key = (position, remains.incarnation);
        let next = self.host.bury(self.id(position), key.1);
        self.collector.journal(self.now(), key, remains.rate_ppb, remains.journal, next);
        if let Some(stored) = remains.stored {
            self.seats[position].stored = stored;
        }
        Ok(Some((key.1, remains.last_lines)))
    }

    /// Serves the host's end of the network for so long, and looks after the processes.
    fn pump(&mut self, patience: Duration) -> Result<(), StageError> {
        let until = self.now() + patience;
        loop {
            self.transmit()?;
            let now = self.now();
            let wake_at = self.host.poll_timeout().map_or(until, |at| at.min(until));
            let frame = self.boards.receive(wake_at.saturating_sub(now))?;
            let now = self.now();
            if let Some(datagram) = frame.as_deref().and_then(frame::to_host) {
                if let Err(refusal) = self.host.handle(now, datagram) {
                    *self.refused.entry(refusal.as_str()).or_default() += 1;
                }
                while let Some(batch) = self.host.poll_batch() {
                    let position = self.position(batch.node.0);
                    self.collector.batch(now, position, batch);
                }
            }
            self.host.handle_timeout(now);
            if now >= self.looked_at + LOOK_EVERY {
                self.looked_at = now;
                self.look_after_boards()?;
            }
            if now >= until {
                return self.transmit();
            }
        }
    }

    fn look_after_boards(&mut self) -> Result<(), StageError> {
        for position in 0..self.seats.len() {
            let Some(reason) = self.boards.ended(position) else { continue };
            let node = self.scenario.ids[position];
            let Some((incarnation, last_lines)) = self.kill(position)? else { continue };
            self.collector.stage(self.now(), Event::Fault(Fault::Crash(node)));
            self.failures.push(Failure { node, incarnation, reason, last_lines });
        }
        Ok(())
    }

    fn transmit(&mut self) -> Result<(), StageError> {
        while let Some((to, datagram)) = self.host.poll_transmit() {
            let frame = frame::from_host(self.position(to.0), &datagram);
            self.boards.send(&frame)?;
        }
        Ok(())
    }

    fn command_all(&mut self, command: Command) {
        let now = self.now();
        for position in 0..self.seats.len() {
            if self.boards.incarnation(position).is_some() {
                self.host.command(now, self.id(position), command);
            }
        }
    }

    fn running(&self) -> impl Iterator<Item = LifeKey> {
        let on = (0..self.seats.len()).filter_map(|position| Some((position, self.boards.incarnation(position)?)));
        on.filter(|(position, _)| !self.boards.is_paused(*position))
    }

    fn is_booting(&self, position: usize) -> bool {
        let life = self.boards.incarnation(position);
        life.is_some_and(|incarnation| !self.collector.has_booted((position, incarnation)))
    }

    fn id(&self, position: usize) -> NodeId {
        NodeId(self.scenario.ids[position])
    }

    fn position(&self, id: u16) -> usize {
        match self.scenario.ids.iter().position(|other| *other == id) {
            Some(position) => position,
            None => unreachable!("the scenario was checked"),
        }
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    fn now(&self) -> Duration {
        self.boards.now()
    }
}

fn ppb(ppm: f64) -> i32 {
    (ppm * 1000.0).round() as i32
}
