//! Boards in lock-step on true time, and the network between them.
//!
//! Boards meet only through the network, and no frame arrives sooner than the lookahead after
//! it left. So all boards run that far, one after the other, without missing anything of each
//! other: the result does not depend on the order, and the same seed gives the same run, bit by bit.

use crate::{
    board::{Board, Cause, End},
    bus::Stop,
    cpu::Fault,
    crystal::Crystal,
    flash::Flash,
    image::Image,
    probe::{Probe, remembered},
};
use compasso_scenario::{
    Scenario,
    faults::{Faults, Sides},
    mix,
};
use compasso_stage::{
    StageError,
    anchor::Reading,
    collect::TrueTime,
    memory,
    network::{Counters, Network},
    outcome::Doing,
    perform::{Boards, Remains},
    rtt::Log,
    watch::LifeKey,
};
use compasso_wire::{
    NodeConfig,
    config::Stored,
    flash::{PAGES_AT, SECTOR_LEN, page},
};
use std::{
    cell::Cell,
    collections::{BTreeMap, VecDeque},
    io,
    path::Path,
    rc::Rc,
    time::Duration,
};

/// Two cables and a switch between them take at least so long.
const WIRE_NS: u64 = 20_000;
/// A frame to or from the host takes so long, whatever the scenario does to the boards' frames.
const HOST_NS: u64 = 200_000;
/// The power of boards that are switched on together comes up within this time.
const POWER_UP_NS: u64 = 50_000_000;
/// Logs are taken so often: long before their buffers are full.
const LOG_EVERY_NS: u64 = 20_000_000;
/// The first life of a board that was just provisioned.
const FIRST_LIFE: u32 = 1;

struct Seat<'i> {
    board: Option<Board>,
    /// What stays while the board is off; none before it was provisioned.
    flash: Option<Flash>,
    crystal: Crystal,
    ppb: i32,
    incarnation: u32,
    lives: u32,
    log: Log<'i>,
}

/// The boards and their network.
pub struct World<'i> {
    image: &'i Image,
    seed: u64,
    now_ns: u64,
    lookahead_ns: u64,
    logged_ns: u64,
    seats: Vec<Seat<'i>>,
    network: Network,
    /// What is on its way: when, the how-manieth, to which port.
    due: BTreeMap<(u64, u64), (usize, Vec<u8>)>,
    order: u64,
    for_host: VecDeque<Vec<u8>>,
    crystals: Crystals,
    deepest_stack: Rc<Cell<u32>>,
    refused: Option<io::Error>,
}

/// How every life's crystal related to true time.
#[derive(Debug, Default)]
pub struct Crystals {
    lives: BTreeMap<LifeKey, Crystal>,
}

impl TrueTime for Crystals {
    fn true_us(&self, key: LifeKey, _reading: &Reading, hw_us: u64) -> Option<i64> {
        let cycles = hw_us * crate::bus::CYCLES_PER_US;
        self.lives.get(&key).map(|crystal| (crystal.true_ns(cycles) / 1000) as i64)
    }

    /// It is the stage's own: nothing had to be measured.
    fn tolerance_us(&self) -> Option<i64> {
        None
    }
}

impl<'i> World<'i> {
    /// The boards of a scenario, all switched off; the network is recorded and logs are written below `out`.
    ///
    /// # Errors
    /// If files cannot be made.
    pub fn new(
        scenario: &Scenario,
        image: &'i Image,
        logs: &'i compasso_stage::rtt::Image,
        out: &Path,
    ) -> io::Result<World<'i>> {
        let folder = out.join("nodes");
        std::fs::create_dir_all(&folder)?;
        let names: Vec<String> = scenario.ids.iter().map(|id| format!("node {id}")).collect();
        let mut network = Network::new(&names, scenario.seed, Some(&out.join("network.pcapng")))?;
        network.faults = Faults::from(&scenario.network);
        let seat = |id: &u16| -> io::Result<Seat<'i>> {
            Ok(Seat {
                board: None,
                flash: None,
                crystal: Crystal::new(0, 0),
                ppb: 0,
                incarnation: 0,
                lives: 0,
                log: Log::create(logs, &folder.join(format!("{id}.log")))?,
            })
        };
        Ok(World {
            image,
            seed: scenario.seed,
            now_ns: 0,
            lookahead_ns: (scenario.network.delay_min.0 * 1000).clamp(WIRE_NS, HOST_NS),
            logged_ns: 0,
            seats: scenario.ids.iter().map(seat).collect::<io::Result<_>>()?,
            network,
            due: BTreeMap::new(),
            order: 0,
            for_host: VecDeque::new(),
            crystals: Crystals::default(),
            deepest_stack: Rc::default(),
            refused: None,
        })
    }

    /// Gets the deepest stack of all lives that have ended, in bytes.
    #[must_use]
    pub fn deepest_stack(&self) -> Rc<Cell<u32>> {
        Rc::clone(&self.deepest_stack)
    }

    /// Runs until then, or until the host has something to read.
    fn advance(&mut self, until_ns: u64) {
        loop {
            self.deliver();
            if !self.for_host.is_empty() || self.now_ns >= until_ns {
                return;
            }
            let mut next = until_ns.min(self.logged_ns + LOG_EVERY_NS);
            if let Some(((at, _), _)) = self.due.first_key_value() {
                next = next.min(*at);
            }
            let awake = self.seats.iter().filter_map(Seat::wakes_ns).min().unwrap_or(u64::MAX);
            let from = awake.max(self.now_ns);
            if from < next {
                next = next.min(from + self.lookahead_ns);
                self.run(next);
            }
            self.now_ns = next;
            if self.now_ns >= self.logged_ns + LOG_EVERY_NS {
                self.logged_ns = self.now_ns;
                self.take_logs();
            }
        }
    }

    /// Every board that has something to do before then does it.
    fn run(&mut self, until_ns: u64) {
        let mut departures: Vec<(u64, usize, Vec<u8>)> = Vec::new();
        for (position, seat) in self.seats.iter_mut().enumerate() {
            let Some(board) = &mut seat.board else { continue };
            let until = seat.crystal.cycles(until_ns);
            if board.next_at() < until {
                board.run(until);
                let left = board.bus_mut().departed.drain(..);
                departures.extend(left.map(|(at, frame)| (seat.crystal.true_ns(at), position, frame)));
            }
        }
        departures.sort_by_key(|(at, position, _)| (*at, *position));
        for (at, position, frame) in departures {
            self.forward(at, until_ns, position, &frame);
        }
    }

    fn forward(&mut self, at_ns: u64, not_before_ns: u64, from: usize, frame: &[u8]) {
        let host = self.network.host();
        self.network.forward(Duration::from_nanos(at_ns), from, frame, |to, after| {
            let takes = if from == host || to == host { HOST_NS } else { (after.as_nanos() as u64).max(WIRE_NS) };
            self.order += 1;
            self.due.insert(((at_ns + takes).max(not_before_ns), self.order), (to, frame.to_vec()));
        });
    }

    fn deliver(&mut self) {
        while let Some(entry) = self.due.first_entry().filter(|entry| entry.key().0 <= self.now_ns) {
            let (to, frame) = entry.remove();
            if to == self.network.host() {
                self.for_host.push_back(frame);
                continue;
            }
            let seat = &mut self.seats[to];
            match &mut seat.board {
                Some(board) if board.end().is_none() => {
                    board.run(seat.crystal.cycles(self.now_ns));
                    board.receive(&frame);
                }
                _ => self.network.counters.undelivered += 1,
            }
        }
    }

    fn take_logs(&mut self) {
        for seat in &mut self.seats {
            let Some(board) = &mut seat.board else { continue };
            if let Err(error) = seat.log.poll(&mut Probe(board)) {
                self.refused.get_or_insert(error);
            }
        }
    }

    fn describe(&self, end: &End) -> String {
        let place = self.image.place(end.pc).unwrap_or_else(|| format!("{:#010x}", end.pc));
        let what = match &end.cause {
            Cause::Fault(Fault::Undefined) => "hard fault: an undefined instruction".to_owned(),
            Cause::Fault(Fault::Unaligned) => "hard fault: an unaligned access".to_owned(),
            Cause::Fault(Fault::State) => "hard fault: a jump to what is no code".to_owned(),
            Cause::Stop(stop) => describe_stop(stop),
        };
        let caller = self.image.place(end.lr & !1).map(|place| format!(", called from {place}")).unwrap_or_default();
        format!("{what}, at {place}{caller}")
    }
}

fn describe_stop(stop: &Stop) -> String {
    match stop {
        Stop::Unmodelled { address, written: Some(value) } => {
            format!("it wrote {value:#x} to {address:#010x}, which the model does not cover")
        }
        Stop::Unmodelled { address, written: None } => {
            format!("it read {address:#010x}, which the model does not cover")
        }
        Stop::Nowhere { address } => format!("hard fault: there is nothing at {address:#010x}"),
        Stop::Forbidden { address } => format!("hard fault: {address:#010x} is guarded; the stack has overflowed"),
        Stop::Device(what) => format!("its network device met what the model does not cover: {what}"),
        Stop::Watchdog { forced: true } | Stop::ResetRequest => "it restarted itself; its log says why".to_owned(),
        Stop::Watchdog { forced: false } => "its watchdog bit: it was not fed in time".to_owned(),
        Stop::PowerCut => "its power was cut".to_owned(),
        Stop::Rom(function) => format!("it called {function:?} of the ROM"),
    }
}

impl Seat<'_> {
    /// When the board has something to do.
    fn wakes_ns(&self) -> Option<u64> {
        match self.board.as_ref()?.next_at() {
            u64::MAX => None,
            at => Some(self.crystal.true_ns(at)),
        }
    }
}

impl Boards for World<'_> {
    type Clock = Crystals;

    const NAME: &'static str = "rp2040";

    fn now(&self) -> Duration {
        Duration::from_nanos(self.now_ns)
    }

    fn boot(&mut self, position: usize, config: &NodeConfig) -> Result<(), StageError> {
        let seat = &mut self.seats[position];
        seat.lives += 1;
        let flash = seat.flash.take().unwrap_or_else(|| provision(self.image, config));
        if seat.lives == 1 {
            seat.ppb = config.rate_ppb;
        }
        let dice = mix(&[self.seed, 11, position as u64, seat.lives.into()]);
        seat.incarnation = remembered(&flash).map_or(FIRST_LIFE, |memory| memory.incarnation + 1);
        seat.crystal = Crystal::new(self.now_ns + dice % POWER_UP_NS, seat.ppb);
        let mut board = Board::new(self.image, flash, dice);
        if let Some(mac) = board.bus_mut().with_device(|device| device.burn_in(position)) {
            self.network.set_station(position, mac);
        }
        seat.board = Some(board);
        seat.log.begin(seat.incarnation).doing("writing the nodes' logs")
    }

    fn incarnation(&self, position: usize) -> Option<u32> {
        self.seats[position].board.as_ref().map(|_| self.seats[position].incarnation)
    }

    fn kill(&mut self, position: usize) -> Result<Option<Remains>, StageError> {
        let seat = &mut self.seats[position];
        let Some(mut board) = seat.board.take() else { return Ok(None) };
        board.run(seat.crystal.cycles(self.now_ns));
        let incarnation = seat.incarnation;
        self.deepest_stack.set(self.deepest_stack.get().max(board.stack_used()));
        let probe = &mut Probe(&mut board);
        seat.log.end(probe).doing("writing the nodes' logs")?;
        let journal = memory::journal(probe, self.image.ring()).doing("reading a dead board's memory")?;
        self.crystals.lives.insert((position, incarnation), seat.crystal.clone());
        seat.flash = Some(board.power_cut());
        Ok(Some(Remains { incarnation, rate_ppb: 0, journal, stored: None, last_lines: seat.log.last_lines() }))
    }

    fn ended(&mut self, position: usize) -> Option<String> {
        let end = self.seats[position].board.as_ref()?.end()?;
        Some(self.describe(end))
    }

    fn set_paused(&mut self, position: usize, paused: bool) -> bool {
        let seat = &mut self.seats[position];
        let Some(board) = &mut seat.board else { return false };
        board.run(seat.crystal.cycles(self.now_ns));
        board.set_paused(paused);
        true
    }

    fn is_paused(&self, position: usize) -> bool {
        self.seats[position].board.as_ref().is_some_and(Board::is_paused)
    }

    fn bend(&mut self, position: usize, ppb: i32) -> bool {
        let seat = &mut self.seats[position];
        seat.ppb = ppb;
        if let Some(board) = &mut seat.board {
            board.run(seat.crystal.cycles(self.now_ns));
            seat.crystal.bend(board.now(), ppb);
        }
        true
    }

    fn set_sides(&mut self, sides: Sides) {
        self.network.sides = sides;
    }

    fn send(&mut self, frame: &[u8]) -> Result<(), StageError> {
        let frame = self.network.readdressed(frame);
        self.forward(self.now_ns, self.now_ns, self.network.host(), &frame);
        Ok(())
    }

    fn receive(&mut self, patience: Duration) -> Result<Option<Vec<u8>>, StageError> {
        if self.for_host.is_empty() {
            self.advance(self.now_ns + patience.as_nanos() as u64);
        }
        match self.refused.take() {
            Some(error) => Err(error).doing("writing the nodes' logs"),
            None => Ok(self.for_host.pop_front()),
        }
    }

    fn close(mut self) -> Result<(Counters, Crystals), StageError> {
        let network = self.network.finish().doing("recording the network")?;
        Ok((network, self.crystals))
    }
}

/// A flash with the image and the node's configuration, as `compasso provision` would leave it. The
/// board counts its lives and keeps its promises by itself, and its crystal is what it is.
fn provision(image: &Image, config: &NodeConfig) -> Flash {
    let config = NodeConfig { incarnation: FIRST_LIFE, stored: Stored::default(), rate_ppb: 0, ..config.clone() };
    let mut flash = image.flash();
    let mut sector = [0; SECTOR_LEN];
    match image.device(0).wifi() {
        Some(wifi) => page::encode_with_wifi(&config, &wifi, 1, &mut sector),
        None => page::encode(&config, 1, &mut sector),
    }
    for at in PAGES_AT {
        flash.load(at, &sector);
    }
    flash
}
