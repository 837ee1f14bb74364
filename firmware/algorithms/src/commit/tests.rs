//! Two-phase commit with settlement through views that come and go: random orders of delivery, crashes
//! and returns, each view in force at different times on different nodes.

use super::{Settlement, TwoPhase, settlement, two_phase};
use crate::{Algorithm, Context, Delays, Members, Output, mutex::testing::Random};
use compasso_wire::{
    Duration, Instant, NodeId, NodeSet,
    commit::{CommitMemory, CommitMessage as Message, CommitRecord, Decision, Progress, TransactionId},
};
use std::collections::{BTreeMap, VecDeque};

const NODES: usize = 5;

#[derive(Clone, Copy, PartialEq)]
struct View {
    epoch: u32,
    members: NodeSet,
    leader: NodeId,
}

struct Node {
    memory: CommitMemory,
    /// Nothing while it is switched off.
    life: Option<Life>,
}

struct Life {
    two_phase: TwoPhase,
    settlement: Settlement,
    view: Option<View>,
    /// Accepted, and to be in force here at any moment.
    next: Option<View>,
    serial: u32,
}

impl Life {
    fn new(memory: CommitMemory) -> Life {
        let (two_phase, settlement) = (TwoPhase::new(memory.doubt), Settlement::new(memory));
        Life { two_phase, settlement, view: None, next: None, serial: 0 }
    }
}

/// Several nodes, what is on its way between them, and what they said.
struct World {
    nodes: Vec<Node>,
    links: BTreeMap<(usize, usize), VecDeque<(u32, Message)>>,
    epoch: u32,
    random: Random,
    /// The textbook's coordinator, which announces at once.
    bare: bool,
    votes: BTreeMap<(TransactionId, usize), bool>,
    decisions: BTreeMap<(TransactionId, usize), Decision>,
    committed: usize,
}

enum Act {
    TwoPhase(two_phase::Command),
    Settlement(settlement::Command),
    Message(NodeId, Message),
    Timeout,
}

impl World {
    fn new(seed: u64) -> World {
        let node = || Node { memory: CommitMemory::default(), life: Some(Life::new(CommitMemory::default())) };
        World {
            nodes: (0..NODES).map(|_| node()).collect(),
            links: BTreeMap::new(),
            epoch: 0,
            random: Random(seed << 20),
            bare: false,
            votes: BTreeMap::new(),
            decisions: BTreeMap::new(),
            committed: 0,
        }
    }

    /// A majority of the living agree on a view; it is in force at its leader first.
    fn change_view(&mut self) {
        let mut live: Vec<usize> = (0..NODES).filter(|at| self.nodes[*at].life.is_some()).collect();
        if live.len() <= NODES / 2 {
            return;
        }
        for at in (1..live.len()).rev() {
            live.swap(at, self.random.below(at + 1));
        }
        let room = live.len() - NODES / 2;
        live.truncate(NODES / 2 + 1 + self.random.below(room));
        self.epoch += 1;
        let mut members = NodeSet::EMPTY;
        live.iter().for_each(|at| members.insert(*at));
        let leader = live[0];
        let view = View { epoch: self.epoch, members, leader: NodeId(leader as u16) };
        for at in live {
            self.nodes[at].life.as_mut().unwrap().next = Some(view);
        }
        self.install(leader);
    }

    fn install(&mut self, at: usize) {
        let Some(view) = self.nodes[at].life.as_mut().and_then(|life| life.next.take()) else { return };
        // What a node had still to say in earlier views is given up, or was under way already.
        for ((from, _), link) in &mut self.links {
            if *from == at && self.random.below(2) == 0 {
                link.clear();
            }
        }
        let life = self.nodes[at].life.as_mut().unwrap();
        life.view = Some(view);
        life.serial = 0;
        life.two_phase = TwoPhase::new(life.settlement.memory().doubt);
        self.act(at, Act::Settlement(settlement::Command::Begin { epoch: view.epoch }));
    }

    fn crash(&mut self, at: usize) {
        self.nodes[at].life = None;
        self.links.retain(|(from, to), _| *to != at && *from != at);
    }

    fn boot(&mut self, at: usize) {
        if self.nodes[at].life.is_none() {
            self.nodes[at].life = Some(Life::new(self.nodes[at].memory));
        }
    }

    fn begin(&mut self, at: usize) {
        let Some(life) = &mut self.nodes[at].life else { return };
        let Some(view) = life.view.filter(|view| view.leader == NodeId(at as u16)) else { return };
        if life.two_phase.is_idle() && life.settlement.is_open() {
            life.serial += 1;
            let transaction = TransactionId::new(view.epoch, life.serial);
            self.act(at, Act::TwoPhase(two_phase::Command::Begin { transaction }));
        }
    }

    /// Delivers the oldest message of one link, if its view is in force at the receiver.
    fn deliver(&mut self, from: usize, to: usize) {
        let Some(life) = &self.nodes[to].life else { return };
        let in_force = life.view.map_or(0, |view| view.epoch);
        let link = self.links.entry((from, to)).or_default();
        if link.front().is_none_or(|(epoch, _)| *epoch > in_force) {
            return;
        }
        if let Some((epoch, message)) = link.pop_front()
            && epoch == in_force
        {
            self.act(to, Act::Message(NodeId(from as u16), message));
        }
    }

    fn act(&mut self, at: usize, act: Act) {
        let mut todo = VecDeque::from([act]);
        while let Some(act) = todo.pop_front() {
            let ids: Vec<NodeId> = (0..NODES as u16).map(NodeId).collect();
            let members = Members::new(&ids, ids[at]).unwrap();
            let Some(Life { two_phase, settlement, view: Some(view), .. }) = &mut self.nodes[at].life else { return };
            let mut said = (Output::default(), Output::default());
            let delays = Delays { trans: Duration(1), process: Duration(1) };
            let (view, now) = (*view, Instant(u64::MAX / 2));
            macro_rules! cx {
                ($output:expr) => {
                    Context {
                        now,
                        members: &members,
                        view: view.members,
                        leader: view.leader,
                        lamport: 0,
                        random: 0,
                        delays,
                        lists: &compasso_wire::NO_LISTS,
                        output: $output,
                    }
                };
            }
            match act {
                Act::TwoPhase(command) => two_phase.handle_command(command, &mut cx!(&mut said.0)),
                Act::Settlement(command) => settlement.handle_command(command, &mut cx!(&mut said.1)),
                Act::Timeout => two_phase.handle_timeout(&mut cx!(&mut said.0)),
                Act::Message(from, message) => {
                    two_phase.handle_message(from, message, &mut cx!(&mut said.0));
                    settlement.handle_message(from, message, &mut cx!(&mut said.1));
                }
            }
            for event in &said.0.events {
                self.happened(at, *event, &mut todo);
            }
            for event in &said.1.events {
                match *event {
                    settlement::Event::Settled { transaction, decision } => {
                        todo.push_back(Act::TwoPhase(two_phase::Command::Announce { transaction, decision }));
                    }
                    settlement::Event::Learned { transaction, decision } => {
                        let leader = view.leader;
                        todo.push_back(Act::Message(leader, Message::Decide { transaction, decision }));
                    }
                }
            }
            for (to, message) in said.0.messages.into_iter().chain(said.1.messages) {
                self.links.entry((at, usize::from(to.0))).or_default().push_back((view.epoch, message));
            }
            // What must be stored is stored before anything leaves.
            self.nodes[at].memory = *self.nodes[at].life.as_ref().unwrap().settlement.memory();
        }
    }

    fn happened(&mut self, at: usize, event: two_phase::Event, todo: &mut VecDeque<Act>) {
        match event {
            two_phase::Event::Voted { transaction, yes } => {
                self.votes.insert((transaction, at), yes);
                let promise = settlement::Command::Promise { transaction, yes };
                // The promise is made at once: the vote that depends on it has not left.
                let Some(Life { settlement, view: Some(view), .. }) = &mut self.nodes[at].life else { return };
                let ids: Vec<NodeId> = (0..NODES as u16).map(NodeId).collect();
                let members = Members::new(&ids, ids[at]).unwrap();
                let mut output = Output::default();
                let mut cx = Context {
                    now: Instant(0),
                    members: &members,
                    view: view.members,
                    leader: view.leader,
                    lamport: 0,
                    random: 0,
                    delays: Delays { trans: Duration(1), process: Duration(1) },
                    lists: &compasso_wire::NO_LISTS,
                    output: &mut output,
                };
                settlement.handle_command(promise, &mut cx);
            }
            two_phase::Event::Concluded { transaction, decision } if self.bare => {
                todo.push_back(Act::TwoPhase(two_phase::Command::Announce { transaction, decision }));
            }
            two_phase::Event::Concluded { transaction, decision } => {
                todo.push_back(Act::Settlement(settlement::Command::Settle { transaction, decision }));
            }
            two_phase::Event::Decided { transaction, decision } => {
                let before = self.decisions.insert((transaction, at), decision);
                assert!(before.is_none_or(|before| before == decision), "{at} decided twice");
                self.committed += usize::from(decision == Decision::Commit);
            }
        }
    }

    fn step(&mut self) {
        let at = self.random.below(NODES);
        match self.random.below(1000) {
            0..4 => self.change_view(),
            4..7 => self.crash(at),
            7..15 => self.boot(at),
            15..100 => self.install(at),
            100..140 => self.begin(at),
            140..143 => self.act(at, Act::Timeout),
            143..146 => self.act(at, Act::TwoPhase(two_phase::Command::Refuse)),
            _ => {
                let busy = self.links.iter().filter(|(_, link)| !link.is_empty()).map(|(link, _)| *link);
                let busy: Vec<(usize, usize)> = busy.collect();
                if !busy.is_empty() {
                    let (from, to) = busy[self.random.below(busy.len())];
                    self.deliver(from, to);
                }
            }
        }
    }

    /// Everybody returns, a last view holds them all, and everything is delivered.
    fn calm(&mut self) {
        (0..NODES).for_each(|at| self.boot(at));
        self.epoch += 1;
        let view = View { epoch: self.epoch, members: NodeSet::first(NODES), leader: NodeId(4) };
        for at in (0..NODES).rev() {
            self.nodes[at].life.as_mut().unwrap().next = Some(view);
            self.install(at);
        }
        for _ in 0..20 * NODES {
            for from in 0..NODES {
                (0..NODES).for_each(|to| (0..NODES).for_each(|_| self.deliver(from, to)));
            }
        }
    }

    /// The transactions that were committed here and aborted there, or committed without a vote.
    fn split(&self) -> Option<String> {
        for ((transaction, at), decision) in &self.decisions {
            let other = self.decisions.iter().find(|((of, _), other)| of == transaction && *other != decision);
            if let Some(((_, other), _)) = other {
                return Some(format!("{transaction:?}: {decision:?} at {at}, not so at {other}"));
            }
            if *decision == Decision::Commit && self.votes.iter().any(|((of, _), yes)| of == transaction && !yes) {
                return Some(format!("{transaction:?} was committed although somebody refused"));
            }
        }
        None
    }

    fn blocked(&self) -> Vec<(TransactionId, usize)> {
        let bound = self.votes.iter().filter(|(_, yes)| **yes).map(|(key, _)| *key);
        bound.filter(|key| !self.decisions.contains_key(key)).collect()
    }
}

fn storm(seed: u64, steps: usize, bare: bool) -> World {
    let mut world = World::new(seed);
    world.bare = bare;
    world.change_view();
    for _ in 0..steps {
        world.step();
    }
    world.calm();
    world
}

#[test]
fn no_order_of_crashes_views_and_deliveries_splits_a_decision_or_leaves_anybody_blocked() {
    let (mut committed, mut aborted) = (0, 0);
    for seed in 0..1000 {
        let world = storm(seed, 3000, false);
        assert_eq!(world.split(), None, "seed {seed}");
        assert_eq!(world.blocked(), [], "seed {seed}");
        assert!(world.nodes[4].life.as_ref().unwrap().settlement.is_open(), "seed {seed}: nothing more can begin");
        committed += world.committed;
        aborted += world.decisions.len() - world.committed;
    }
    assert!(committed > 10_000 && aborted > 3_000, "{committed} committed, {aborted} aborted");
}

#[test]
fn a_decision_that_is_announced_before_a_majority_has_stored_it_is_split_in_some_order() {
    assert!((0..300).any(|seed| storm(seed, 3000, true).split().is_some()));
}

#[test]
fn a_participant_that_was_away_learns_how_its_transaction_ended() {
    for decision in [Decision::Commit, Decision::Abort] {
        let mut memory = CommitMemory::default();
        let (mine, latest) = (TransactionId::new(1, 1), TransactionId::new(2, 1));
        memory.doubt = Some(mine);
        let mut world = World::new(1);
        world.nodes[0] = Node { memory, life: None };
        for at in 1..NODES {
            let memory = &mut world.nodes[at].memory;
            let committed = decision == Decision::Commit;
            if committed && at == 2 {
                memory.outcomes.note(NodeSet::first(NODES), mine, decision);
            }
            let progress = Progress::Decided(Decision::Abort);
            let mut participants = NodeSet::first(NODES);
            participants.remove(0);
            memory.latest = Some(CommitRecord { transaction: latest, ballot: 2, participants, progress });
            world.nodes[at].life = None;
        }
        world.epoch = 2;
        world.calm();
        assert_eq!(world.decisions.get(&(mine, 0)), Some(&decision), "not known to anybody means aborted");
    }
}

#[test]
fn the_record_with_the_highest_ballot_counts_and_not_the_latest_transaction() {
    // A coordinator of view 2 began a transaction and died before anybody heard of it. View 3 committed
    // the one before, and its coordinator died when a majority had stored that.
    let (stored, unheard) = (TransactionId::new(1, 1), TransactionId::new(2, 1));
    let participants = NodeSet::first(NODES);
    let mut world = World::new(1);
    for (at, node) in world.nodes.iter_mut().enumerate() {
        let (transaction, ballot, progress) = match at {
            0 => (unheard, 2, Progress::Prepared),
            1 => (stored, 1, Progress::Prepared),
            _ => (stored, 3, Progress::Stored(Decision::Commit)),
        };
        node.memory.latest = Some(CommitRecord { transaction, ballot, participants, progress });
        node.memory.doubt = Some(transaction);
        node.life = None;
    }
    world.epoch = 3;
    world.calm();
    assert_eq!(world.decisions.get(&(unheard, 0)), Some(&Decision::Abort));
    assert!((1..NODES).all(|at| world.decisions.get(&(stored, at)) == Some(&Decision::Commit)));
}
