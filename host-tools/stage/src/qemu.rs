//! The boards in QEMU: a process each, a switch between them, in real time.

use crate::{
    anchor::Anchor,
    awake::Awake,
    board::{Board, Machine},
    frame::FRAME_MAX,
    network::Counters,
    outcome::{Doing, Options, Progress, RunOutput, StageError},
    perform::{Boards, Remains, perform_on},
    rtt::Image,
    scratch::Scratch,
    setup::EnvironmentError,
    switch::Switch,
    watch::{LifeKey, Watcher},
};
use compasso_scenario::{
    Scenario,
    faults::{Faults, Sides},
};
use compasso_wire::{Key, NodeConfig};
use std::{
    collections::BTreeMap,
    fs, io,
    path::Path,
    time::{Duration, Instant},
};

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
    let boards = Processes::open(scenario, options, scratch.path())?;
    let (mut key, mut cluster) = ([0; 16], [0; 4]);
    getrandom::fill(&mut key)
        .and_then(|()| getrandom::fill(&mut cluster))
        .map_err(io::Error::other)
        .doing("making a fresh key")?;
    let secret = (Key(key), u32::from_le_bytes(cluster));
    perform_on(boards, scenario, secret, &options.interrupted, progress)
}

struct Processes {
    machine: Machine,
    started: Instant,
    switch: Switch,
    watcher: Watcher,
    boards: Vec<Option<Board>>,
    _awake: Awake,
}

impl Processes {
    fn open(scenario: &Scenario, options: &Options, folder: &Path) -> Result<Processes, StageError> {
        let logs = options.out.join("nodes");
        fs::create_dir_all(&logs).doing("making the run's folder")?;
        let elf = fs::read(&options.image).doing("reading the image")?;
        let image = Image::parse(&elf).map_err(|what| EnvironmentError::new(what, "cargo clean, and try again"))?;
        let log_paths = scenario.ids.iter().map(|id| logs.join(format!("{id}.log"))).collect();
        let names: Vec<String> = scenario.ids.iter().map(|id| format!("node {id}")).collect();
        let capture = options.out.join("network.pcapng");
        let switch =
            Switch::start(folder, &names, scenario.seed, Some(&capture)).doing("starting the virtual switch")?;
        switch.set_faults(Faults::from(&scenario.network));
        let started = Instant::now();
        Ok(Processes {
            machine: Machine { qemu: options.qemu.clone(), image: options.image.clone(), folder: folder.to_owned() },
            started,
            switch,
            watcher: Watcher::start(image, log_paths, started).doing("starting the watcher")?,
            boards: scenario.ids.iter().map(|_| None).collect(),
            _awake: Awake::ask(),
        })
    }
}

impl Boards for Processes {
    type Clock = BTreeMap<LifeKey, Anchor>;

    const NAME: &'static str = "qemu";

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn boot(&mut self, position: usize, config: &NodeConfig) -> Result<(), StageError> {
        let board = Board::boot(&self.machine, position, config).doing("starting the emulator")?;
        self.watcher.begin((position, config.incarnation), board.ram().try_clone().doing("reading a board's memory")?);
        self.boards[position] = Some(board);
        Ok(())
    }

    fn incarnation(&self, position: usize) -> Option<u32> {
        self.boards[position].as_ref().map(Board::incarnation)
    }

    fn kill(&mut self, position: usize) -> Result<Option<Remains>, StageError> {
        let Some(board) = self.boards[position].take() else { return Ok(None) };
        let (incarnation, rate_ppb) = (board.incarnation(), board.rate_ppb());
        let left = board.kill().doing("reading a dead board's memory")?;
        self.switch.unplug(position);
        let last_lines = self.watcher.end((position, incarnation));
        Ok(Some(Remains { incarnation, rate_ppb, journal: left.journal, stored: left.stored, last_lines }))
    }

    fn ended(&mut self, position: usize) -> Option<String> {
        self.boards[position].as_mut().and_then(Board::ended)
    }

    fn set_paused(&mut self, position: usize, paused: bool) -> bool {
        let Some(board) = &mut self.boards[position] else { return false };
        if paused { board.pause() } else { board.resume() }.is_ok()
    }

    fn is_paused(&self, position: usize) -> bool {
        self.boards[position].as_ref().is_some_and(Board::is_paused)
    }

    /// The emulator's counter is exact: the image bends it.
    fn bend(&mut self, _position: usize, _ppb: i32) -> bool {
        false
    }

    fn set_sides(&mut self, sides: Sides) {
        self.switch.set_sides(sides);
    }

    fn send(&mut self, frame: &[u8]) -> Result<(), StageError> {
        self.switch.send(frame).doing("speaking to the switch")
    }

    fn receive(&mut self, patience: Duration) -> Result<Option<Vec<u8>>, StageError> {
        let mut buffer = [0; FRAME_MAX];
        let frame = self.switch.receive(patience, &mut buffer).doing("listening to the switch")?;
        Ok(frame.map(<[u8]>::to_vec))
    }

    fn close(self) -> Result<(Counters, Self::Clock), StageError> {
        let network = self.switch.stop().doing("recording the network")?;
        let anchors = self.watcher.stop().doing("writing the nodes' logs")?;
        Ok((network, anchors))
    }
}
