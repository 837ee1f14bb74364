//! Performs a scenario on emulated boards, in real time.
//!
//! All boards boot; when each has said so the scenario's clock starts and its steps are carried
//! out; requests stop a little before the end; when every request has been served, or the limit
//! is reached, all boards are stopped in one moment and their memories read out. A slow machine
//! makes this longer, not wrong.

use crate::{
    board::{Board, Machine},
    collect::Collector,
    frame::{self, FRAME_MAX},
    host::Host,
    outcome::{Doing, Failure, Options, Progress, RunOutput, StageError},
    rtt::Image,
    scratch::Scratch,
    setup::EnvironmentError,
    switch::Switch,
    watch::Watcher,
};
use compasso_checker::{Event, Fault, scenario_event_begun};
use compasso_scenario::{
    Action, Scenario,
    faults::{Faults, Sides, sides},
};
use compasso_wire::{
    Key, NodeId,
    config::{Stored, TimeSource},
    message::Command,
};
use std::{
    collections::BTreeMap,
    fs, io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// Boards that have not said `boot` by then never will.
pub const BOOT_MAX: Duration = Duration::from_secs(60);
/// How long after the end open requests are waited for.
pub const DRAIN_MAX: Duration = Duration::from_secs(20);
/// How often processes are looked after when nothing arrives.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Performs a scenario. Call it from the thread that stays: boards end with the thread that booted them.
///
/// # Errors
/// If the stage itself failed: then there is no verdict to be had.
pub fn perform(
    scenario: &Scenario,
    options: &Options,
    progress: &mut dyn FnMut(&Progress),
) -> Result<RunOutput, StageError> {
    let scratch = Scratch::new(scenario.ids.len()).doing("making a folder for the boards")?;
    let mut stage = Stage::open(scenario, options, scratch.path())?;
    stage.run(progress)?;
    stage.close()
}

/// What outlives a node's lives.
struct Seat {
    board: Option<Board>,
    incarnation: u32,
    stored: Stored,
    rate_ppb: i32,
}

struct Stage<'s> {
    scenario: &'s Scenario,
    machine: Machine,
    interrupted: Arc<AtomicBool>,
    key: Key,
    cluster: u32,
    started: Instant,
    switch: Switch,
    watcher: Watcher,
    host: Host,
    collector: Collector,
    seats: Vec<Seat>,
    workload_stopped: bool,
    /// True time when the stage's clock was at zero, if the host serves that.
    tai_origin_us: Option<i64>,
    /// Everything was performed: the trace may say that it ended as planned.
    is_complete: bool,
    looked_at: Duration,
    refused: BTreeMap<&'static str, u64>,
    failures: Vec<Failure>,
    overdue: Option<String>,
}

impl<'s> Stage<'s> {
    fn open(scenario: &'s Scenario, options: &Options, folder: &Path) -> Result<Stage<'s>, StageError> {
        let logs = options.out.join("nodes");
        fs::create_dir_all(&logs).doing("making the run's folder")?;
        let elf = fs::read(&options.image).doing("reading the image")?;
        let image = Image::parse(&elf).map_err(|what| EnvironmentError::new(what, "cargo clean, and try again"))?;
        let log_paths = scenario.ids.iter().map(|id| logs.join(format!("{id}.log"))).collect();
        let (mut key, mut cluster) = ([0; 16], [0; 4]);
        getrandom::fill(&mut key)
            .and_then(|()| getrandom::fill(&mut cluster))
            .map_err(io::Error::other)
            .doing("making a fresh key")?;
        let (key, cluster) = (Key(key), u32::from_le_bytes(cluster));
        let names: Vec<String> = scenario.ids.iter().map(|id| format!("node {id}")).collect();
        let capture = options.out.join("network.pcapng");
        let switch =
            Switch::start(folder, &names, scenario.seed, Some(&capture)).doing("starting the virtual switch")?;
        switch.set_faults(Faults::from(&scenario.network));
        let started = Instant::now();
        let members: Vec<NodeId> = scenario.ids.iter().map(|id| NodeId(*id)).collect();
        let seat = |id: &u16| Seat {
            board: None,
            incarnation: 0,
            stored: Stored::default(),
            rate_ppb: ppb(scenario.skew_ppm(*id)),
        };
        Ok(Stage {
            scenario,
            machine: Machine { qemu: options.qemu.clone(), image: options.image.clone(), folder: folder.to_owned() },
            interrupted: Arc::clone(&options.interrupted),
            host: Host::new(key.clone(), cluster, &members),
            key,
            cluster,
            started,
            switch,
            watcher: Watcher::start(image, log_paths, started).doing("starting the watcher")?,
            collector: Collector::new(&scenario.names),
            seats: scenario.ids.iter().map(seat).collect(),
            workload_stopped: false,
            tai_origin_us: None,
            is_complete: false,
            looked_at: Duration::ZERO,
            refused: BTreeMap::new(),
            failures: Vec::new(),
            overdue: None,
        })
    }

    fn run(&mut self, progress: &mut dyn FnMut(&Progress)) -> Result<(), StageError> {
        for position in 0..self.seats.len() {
            self.boot(position)?;
        }
        self.await_boot(progress)?;
        // Steps count from here, and so does the host's time: a leap second is announced as long before as planned.
        let begun_us = self.now().as_micros() as i64;
        self.collector.headline(scenario_event_begun(self.scenario, "qemu", begun_us));
        if self.scenario.clock.source == TimeSource::Host {
            self.tai_origin_us = Some(self.scenario.tai_begin_us() - begun_us);
            self.host.serve_time(self.tai_origin_us);
        }
        if self.seats.iter().all(|seat| seat.board.is_none()) {
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
            let open = self
                .running()
                .map(|(position, board)| self.collector.open_requests((position, board.incarnation())))
                .sum();
            let obeyed = self.running().all(|(_, board)| self.host.is_obeyed(board.id()));
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
        for board in self.seats.iter_mut().filter_map(|seat| seat.board.as_mut()) {
            let _ = board.pause(); // One that is gone already has nothing to stop.
        }
        let lasted = self.now();
        for position in 0..self.seats.len() {
            self.kill(position)?;
        }
        if self.is_complete {
            self.collector.stage(lasted, Event::End);
        }
        let network = self.switch.stop().doing("recording the network")?;
        let anchors = self.watcher.stop().doing("writing the nodes' logs")?;
        Ok(RunOutput {
            events: self.collector.finish(&anchors),
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
        let fault = match &step.action {
            Action::Crash(id) => {
                let position = self.position(*id);
                if self.seats[position].board.is_none() {
                    return Ok(()); // It died before by itself, and that was reported.
                }
                self.kill(position)?;
                now = self.now(); // Only now it is certain that nothing more happened there.
                Some(Fault::Crash(*id))
            }
            Action::Restart(id) => {
                self.boot(self.position(*id))?;
                Some(Fault::Restart(*id))
            }
            Action::Pause(id) => self.board(*id).and_then(|board| board.pause().ok()).map(|()| Fault::Pause(*id)),
            Action::Resume(id) => self.board(*id).and_then(|board| board.resume().ok()).map(|()| Fault::Resume(*id)),
            Action::Partition(groups) => {
                self.switch.set_sides(sides(&self.scenario.ids, groups));
                Some(Fault::Partition(groups.clone()))
            }
            Action::Heal => {
                self.switch.set_sides(Sides::new());
                Some(Fault::Heal)
            }
            Action::SetSkew { node, ppm } => {
                let position = self.position(*node);
                self.seats[position].rate_ppb = ppb(*ppm); // A crystal stays as it is over a restart.
                Some(Fault::SetSkew { node: *node, ppm: *ppm })
            }
            Action::DropToken => {
                // The token passes by everybody: one node that waits for it is enough.
                let first = self.running().map(|(_, board)| board.id()).next();
                if let Some(id) = first {
                    self.host.command(now, id, Command::DropToken);
                }
                Some(Fault::DropToken)
            }
            Action::Leap(by) => {
                if let Some(leap) = self.scenario.leap(step) {
                    self.host.announce(leap);
                }
                Some(Fault::Leap((*by).into()))
            }
            Action::TimeServer(serves) => {
                self.host.serve_time(self.tai_origin_us.filter(|_| *serves));
                Some(Fault::TimeServer(*serves))
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
        for (id, command) in self.scenario.commands(step) {
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
        seat.incarnation += 1;
        let mut config = self.scenario.node_config(id, seat.incarnation, seat.stored, self.key.clone());
        config.cluster = self.cluster;
        config.rate_ppb = seat.rate_ppb;
        let board = Board::boot(&self.machine, position, &config).doing("starting the emulator")?;
        self.watcher.begin((position, config.incarnation), board.ram().try_clone().doing("reading a board's memory")?);
        seat.board = Some(board);
        if self.workload_stopped {
            self.host.command(self.started.elapsed(), NodeId(id), Command::StopWorkload);
        }
        Ok(())
    }

    /// Ends a board's life and takes what it leaves behind; returns its last log lines.
    fn kill(&mut self, position: usize) -> Result<Vec<String>, StageError> {
        let Some(board) = self.seats[position].board.take() else { return Ok(Vec::new()) };
        let (id, key, rate_ppb) = (board.id(), (position, board.incarnation()), board.rate_ppb());
        let remains = board.kill().doing("reading a dead board's memory")?;
        let next = self.host.bury(id, key.1);
        self.switch.unplug(position);
        self.collector.journal(self.now(), key, rate_ppb, remains.journal, next);
        if let Some(stored) = remains.stored {
            self.seats[position].stored = stored;
        }
        Ok(self.watcher.end(key))
    }

    /// Serves the host's end of the network for so long, and looks after the processes.
    fn pump(&mut self, patience: Duration) -> Result<(), StageError> {
        let until = self.now() + patience;
        let mut buffer = [0; FRAME_MAX];
        loop {
            self.transmit()?;
            let now = self.now();
            let wake_at = self.host.poll_timeout().map_or(until, |at| at.min(until));
            let frame =
                self.switch.receive(wake_at.saturating_sub(now), &mut buffer).doing("listening to the switch")?;
            let now = self.now();
            if let Some(datagram) = frame.and_then(frame::to_host) {
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
            let Some(reason) = self.seats[position].board.as_mut().and_then(Board::ended) else { continue };
            let node = self.scenario.ids[position];
            let incarnation = self.seats[position].incarnation;
            let last_lines = self.kill(position)?;
            self.collector.stage(self.now(), Event::Fault(Fault::Crash(node)));
            self.failures.push(Failure { node, incarnation, reason, last_lines });
        }
        Ok(())
    }

    fn transmit(&mut self) -> Result<(), StageError> {
        while let Some((to, datagram)) = self.host.poll_transmit() {
            let frame = frame::from_host(self.position(to.0), &datagram);
            self.switch.send(&frame).doing("speaking to the switch")?;
        }
        Ok(())
    }

    fn command_all(&mut self, command: Command) {
        let now = self.now();
        let live: Vec<NodeId> = self.seats.iter().filter_map(|seat| seat.board.as_ref()).map(Board::id).collect();
        for id in live {
            self.host.command(now, id, command);
        }
    }

    fn running(&self) -> impl Iterator<Item = (usize, &Board)> {
        let boards = self.seats.iter().enumerate();
        boards
            .filter_map(|(position, seat)| Some((position, seat.board.as_ref()?)))
            .filter(|(_, board)| !board.is_paused())
    }

    fn board(&mut self, id: u16) -> Option<&mut Board> {
        let position = self.position(id);
        self.seats[position].board.as_mut()
    }

    fn is_booting(&self, position: usize) -> bool {
        let seat = &self.seats[position];
        seat.board.is_some() && !self.collector.has_booted((position, seat.incarnation))
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
        self.started.elapsed()
    }
}

fn ppb(ppm: f64) -> i32 {
    (ppm * 1000.0).round() as i32
}
