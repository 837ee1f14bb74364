//! The event queue, the network, and the scenario's steps.

use crate::{
    board::{Caused, Life},
    host::Host,
};
use compasso_checker::{Event, Fault, NetworkStats, TraceEvent, scenario_event};
use compasso_node::Input;
use compasso_scenario::{
    Action, Scenario,
    faults::{Dice, Fate, Faults, Sides, sides},
    mix,
};
use compasso_wire::{
    Duration, Instant, Key, NodeId,
    config::{Stored, TimeSource},
    message::Command,
};
use std::collections::BTreeMap;

/// Boards are switched on within this time of each other.
const BOOT_SPREAD_NS: u64 = 50_000_000;

/// A node that wakes more often than this without time passing would spin on a board.
const WAKES_AT_ONCE_MAX: u32 = 1000;

/// Whoever watches is told after so many happenings: often enough for a bar, too rarely to cost anything.
const WATCH_EVERY: u64 = 4096;

/// What a simulated run leaves behind.
pub struct Run {
    /// Every event, in the order in which they happened.
    pub trace: Vec<TraceEvent>,
    /// What the network did.
    pub network: NetworkStats,
}

/// What is due at some time.
enum Due {
    Boot { position: usize },
    Datagram { to: usize, bytes: Vec<u8> },
    ToHost { host: usize, bytes: Vec<u8> },
    Wake { position: usize, generation: u64 },
    Step(usize),
    StopWorkload,
}

#[derive(Default)]
struct Board {
    life: Option<Life>,
    incarnation: u32,
    stored: Stored,
    paused: bool,
    /// What arrived while it was paused.
    waiting: Vec<Vec<u8>>,
    /// Counts wake-ups that were asked for; only the latest counts.
    generation: u64,
    /// How often it was woken at the same instant.
    wakes_at_once: u32,
}

struct World<'a> {
    scenario: &'a Scenario,
    key: Key,
    now_ns: u64,
    due: BTreeMap<(u64, u64), Due>,
    order: u64,
    boards: Vec<Board>,
    dice: Dice,
    faults: Faults,
    sides: Sides,
    /// Those that serve true time.
    hosts: Vec<Host>,
    trace: Vec<TraceEvent>,
    stage_seq: u64,
    network: NetworkStats,
    #[cfg(feature = "sabotage")]
    missing: Vec<compasso_node::defences::Defence>,
}

/// Performs a scenario in simulated time.
#[must_use]
pub fn perform(scenario: &Scenario) -> Run {
    World::new(scenario).perform_all(&mut |_, _| true)
}

/// Performs a scenario, and says now and then how far it is and how many events there are. Once the answer
/// is false the run ends, without its end.
#[must_use]
pub fn perform_watched(scenario: &Scenario, watch: &mut dyn FnMut(Duration, usize) -> bool) -> Run {
    World::new(scenario).perform_all(watch)
}

/// Performs a scenario with nodes that lack these defences.
#[cfg(feature = "sabotage")]
#[must_use]
pub fn perform_without(scenario: &Scenario, missing: &[compasso_node::defences::Defence]) -> Run {
    let mut world = World::new(scenario);
    world.missing = missing.to_vec();
    world.perform_all(&mut |_, _| true)
}

fn nanos(span: Duration) -> u64 {
    span.0 * 1000
}

impl<'a> World<'a> {
    fn perform_all(self, watch: &mut dyn FnMut(Duration, usize) -> bool) -> Run {
        let mut world = self;
        let scenario = world.scenario;
        world.tell(scenario_event(scenario, "sim"));
        let mut dice = fastrand::Rng::with_seed(mix(&[scenario.seed, 11]));
        for position in 0..scenario.ids.len() {
            world.schedule(dice.u64(0..BOOT_SPREAD_NS), Due::Boot { position });
        }
        for (step, at) in scenario.steps.iter().map(|step| step.at).enumerate() {
            world.schedule(nanos(at), Due::Step(step));
        }
        world.schedule(nanos(scenario.stop_requests_at()), Due::StopWorkload);
        let end = nanos(scenario.duration);
        let mut happened = 0_u64;
        while let Some((at, due)) = world.next(end) {
            world.now_ns = at;
            world.happen(due);
            happened += 1;
            if happened.is_multiple_of(WATCH_EVERY) && !watch(Duration(at / 1000), world.trace.len()) {
                return Run { trace: world.trace, network: world.network };
            }
        }
        world.now_ns = end;
        world.tell(Event::End);
        Run { trace: world.trace, network: world.network }
    }

    fn new(scenario: &'a Scenario) -> World<'a> {
        // A simulated key protects nothing, but the same bytes must come out of the same seed.
        let halves = [mix(&[scenario.seed, 12]), mix(&[scenario.seed, 13])];
        let mut key = [0; 16];
        for (to, from) in key.iter_mut().zip(halves.iter().flat_map(|half| half.to_le_bytes())) {
            *to = from;
        }
        let hosts = if scenario.clock.source == TimeSource::Host { usize::from(scenario.clock.hosts) } else { 0 };
        let cluster = scenario.node_config(scenario.ids[0], 1, Stored::default(), Key(key)).cluster;
        World {
            scenario,
            hosts: (0..hosts).map(|number| Host::new(scenario, number, Key(key), cluster)).collect(),
            key: Key(key),
            now_ns: 0,
            due: BTreeMap::new(),
            order: 0,
            boards: scenario.ids.iter().map(|_| Board::default()).collect(),
            dice: Dice::new(mix(&[scenario.seed, 14])),
            faults: Faults::from(&scenario.network),
            sides: Sides::new(),
            trace: Vec::new(),
            stage_seq: 0,
            network: NetworkStats::default(),
            #[cfg(feature = "sabotage")]
            missing: Vec::new(),
        }
    }

    fn schedule(&mut self, at_ns: u64, due: Due) {
        self.order += 1;
        self.due.insert((at_ns, self.order), due);
    }

    fn next(&mut self, end_ns: u64) -> Option<(u64, Due)> {
        let ((at, _), due) = self.due.pop_first()?;
        (at <= end_ns).then_some((at, due))
    }

    fn tell(&mut self, event: Event) {
        self.stage_seq += 1;
        self.trace.push(TraceEvent::stage(self.stage_seq, Some((self.now_ns / 1000) as i64), event));
    }

    fn happen(&mut self, due: Due) {
        match due {
            Due::Boot { position } => self.boot(position),
            Due::Datagram { to, bytes } => self.arrive(to, bytes),
            Due::ToHost { host, bytes } => self.ask_host(host, &bytes),
            Due::Wake { position, generation } => {
                let board = &self.boards[position];
                if board.generation == generation && !board.paused {
                    self.input(position, Input::Timeout);
                }
            }
            Due::Step(step) => self.perform(step),
            Due::StopWorkload => {
                for position in 0..self.boards.len() {
                    self.input(position, Input::Command(Command::StopWorkload));
                }
            }
        }
    }

    fn boot(&mut self, position: usize) {
        let board = &mut self.boards[position];
        board.incarnation += 1;
        let id = self.scenario.ids[position];
        let config = self.scenario.node_config(id, board.incarnation, board.stored, self.key.clone());
        let mut life = Life::boot(&config, self.now_ns);
        #[cfg(feature = "sabotage")]
        self.missing.iter().for_each(|missing| life.node_mut().sabotage(*missing));
        let caused = life.drain(self.now_ns, Instant(0));
        board.life = Some(life);
        board.paused = false;
        board.waiting.clear();
        self.took(position, caused);
    }

    fn input(&mut self, position: usize, input: Input<'_>) {
        let now_ns = self.now_ns;
        if let Some(life) = &mut self.boards[position].life {
            let caused = life.handle(now_ns, input);
            self.took(position, caused);
        }
    }

    /// Carries out what an input caused, and asks to be woken for the next deadline.
    fn took(&mut self, position: usize, caused: Caused) {
        let true_us = Some((self.now_ns / 1000) as i64);
        let id = self.scenario.ids[position];
        let board = &mut self.boards[position];
        board.stored = caused.stored.unwrap_or(board.stored);
        board.generation += 1;
        let (generation, incarnation) = (board.generation, board.incarnation);
        let wake_ns = board.life.as_ref().and_then(Life::wake_ns);
        for observation in &caused.observations {
            let event = TraceEvent::from_observation(id, incarnation, observation, true_us, &self.scenario.names);
            self.trace.push(event);
        }
        for (to, bytes) in caused.departures {
            self.depart(position, to, bytes);
        }
        if let Some((at, reason)) = wake_ns {
            let board = &mut self.boards[position];
            board.wakes_at_once = if at <= self.now_ns { board.wakes_at_once + 1 } else { 0 };
            assert!(board.wakes_at_once < WAKES_AT_ONCE_MAX, "node {id} spins, waiting for: {reason}");
            self.schedule(at.max(self.now_ns), Due::Wake { position, generation });
        }
    }

    fn depart(&mut self, from: usize, to: u16, bytes: Vec<u8>) {
        let Some(to) = self.scenario.ids.iter().position(|id| *id == to) else {
            let number = NodeId(to).host_number().unwrap_or(0);
            if let Some(host) = self.hosts.get_mut(number) {
                let at = self.now_ns + host.delay_ns();
                self.schedule(at, Due::ToHost { host: number, bytes });
            }
            return;
        };
        self.network.datagrams += 1;
        self.network.bytes += bytes.len() as u64;
        match self.dice.decide(&self.faults, &self.sides, from, to) {
            Fate::Blocked | Fate::Lost => self.network.lost += 1,
            Fate::Arrives { after, held_back, again_after } => {
                self.network.reordered += u64::from(held_back);
                self.network.duplicated += u64::from(again_after.is_some());
                for after in [Some(after), again_after].into_iter().flatten() {
                    let at = self.now_ns + after.as_nanos() as u64;
                    self.schedule(at, Due::Datagram { to, bytes: bytes.clone() });
                }
            }
        }
    }

    fn ask_host(&mut self, host: usize, bytes: &[u8]) {
        let Some(host) = self.hosts.get_mut(host) else { return };
        if let Some((to, bytes)) = host.answer(self.now_ns, bytes) {
            let at = self.now_ns + host.delay_ns();
            let to = self.position(to);
            self.schedule(at, Due::Datagram { to, bytes });
        }
    }

    fn arrive(&mut self, to: usize, bytes: Vec<u8>) {
        let board = &mut self.boards[to];
        if board.paused {
            board.waiting.push(bytes);
        } else {
            self.input(to, Input::Datagram(&bytes));
        }
    }

    fn position(&self, id: u16) -> usize {
        // The scenario was checked: every id it names is configured.
        self.scenario.ids.iter().position(|other| *other == id).unwrap_or(0)
    }

    fn perform(&mut self, step: usize) {
        let action = self.scenario.steps[step].action.clone();
        match action {
            Action::Crash(id) => {
                self.tell(Event::Fault(Fault::Crash(id)));
                let position = self.position(id);
                self.boards[position].life = None;
            }
            Action::Restart(id) => {
                self.tell(Event::Fault(Fault::Restart(id)));
                self.boot(self.position(id));
            }
            Action::Pause(id) => {
                self.tell(Event::Fault(Fault::Pause(id)));
                let position = self.position(id);
                self.boards[position].paused = true;
            }
            Action::Resume(id) => {
                self.tell(Event::Fault(Fault::Resume(id)));
                self.resume(self.position(id));
            }
            Action::Partition(groups) => {
                self.sides = sides(&self.scenario.ids, &groups);
                self.tell(Event::Fault(Fault::Partition(groups)));
            }
            Action::Heal => {
                self.sides = Sides::new();
                self.tell(Event::Fault(Fault::Heal));
            }
            Action::SetSkew { node, ppm } => {
                self.tell(Event::Fault(Fault::SetSkew { node, ppm }));
            }
            Action::Leap(by) => {
                let leap = self.scenario.leap(&self.scenario.steps[step]);
                self.hosts.iter_mut().for_each(|host| host.server.leap = leap);
                self.tell(Event::Fault(Fault::Leap(by.into())));
            }
            Action::TimeServer { host, serves } => {
                let named = |number: usize| host.is_none_or(|host| usize::from(host) == number);
                for (_, host) in self.hosts.iter_mut().enumerate().filter(|(number, _)| named(*number)) {
                    host.server.serves = serves;
                }
                self.tell(Event::Fault(Fault::TimeServer { host, serves }));
            }
            Action::Lie { host, lie } => {
                let now = Duration(self.now_ns / 1000);
                if let Some(host) = self.hosts.get_mut(usize::from(host)) {
                    host.server.lie(now, lie);
                }
                self.tell(Event::Fault(Fault::Lie { host, lie }));
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
            | Action::Transaction { .. } => {}
            Action::DropToken => {
                self.tell(Event::Fault(Fault::DropToken));
                // The lowest live node loses it when it next comes by.
                let live = |position: &usize| self.boards[*position].life.is_some();
                if let Some(position) = (0..self.boards.len()).filter(live).min_by_key(|at| self.scenario.ids[*at]) {
                    self.input(position, Input::Command(Command::DropToken));
                }
            }
        }
        for (id, command) in self.scenario.commands(&self.scenario.steps[step]) {
            self.input(self.position(id), Input::Command(command));
        }
    }

    fn resume(&mut self, position: usize) {
        self.boards[position].paused = false;
        let waiting = std::mem::take(&mut self.boards[position].waiting);
        self.input(position, Input::Timeout);
        for bytes in waiting {
            self.input(position, Input::Datagram(&bytes));
        }
    }
}
