//! Boards that take long to send, and not equally long: whoever knows when its datagrams left shows the right time.

use compasso_node::{Input, Node};
use compasso_scenario::Scenario;
use compasso_wire::{Body, Duration, Event, Instant, Key, NodeConfig, NodeId, limits::DATAGRAM_MAX, open};

const KEY: Key = Key([7; 16]);
const WAY: Duration = Duration(200);
/// From the stamp to the wire: of a question, and of everything else.
const QUESTION_LEAVES: Duration = Duration(900);
const OTHERS_LEAVE: Duration = Duration(300);

struct World {
    config: NodeConfig,
    nodes: Vec<Node>,
    flying: Vec<(Instant, usize, Vec<u8>)>,
    /// Round trips that the follower's clock was corrected by.
    round_trips: Vec<u32>,
    tells: bool,
}

impl World {
    fn new(tells: bool) -> World {
        let text = "name = \"departures\"\nnodes = 2\nseed = 1\nduration = \"30s\"\n[clock]\nsync = \"disciplined\"\n";
        let scenario = Scenario::parse(text, "departures").unwrap_or_else(|error| panic!("{error}"));
        let configs = [0, 1].map(|id| scenario.node_config(id, 1, Default::default(), KEY));
        let nodes = configs.iter().map(|config| Node::new(config, Instant(0))).collect();
        World { config: configs[0].clone(), nodes, flying: Vec::new(), round_trips: Vec::new(), tells }
    }

    fn is_question(&self, from: usize, to: NodeId, datagram: &[u8]) -> bool {
        let opened = open(&KEY, self.config.cluster, to, |id| id == NodeId(from as u16), datagram);
        matches!(opened.map(|opened| opened.body), Ok(Body::TimeRequest { .. }))
    }

    fn drain(&mut self, now: Instant, from: usize) {
        while self.nodes[from].poll_effect().is_some() {}
        let mut buffer = [0; DATAGRAM_MAX];
        while let Some(transmit) = self.nodes[from].poll_transmit(now, &mut buffer) {
            let (to, datagram) = (transmit.to, transmit.datagram.to_vec());
            if to.host_number().is_some() {
                continue;
            }
            let takes = if self.is_question(from, to, &datagram) { QUESTION_LEAVES } else { OTHERS_LEAVE };
            if self.tells {
                self.nodes[from].handle_departure(*datagram.last_chunk().unwrap(), now + takes);
            }
            self.flying.push((now + takes + WAY, usize::from(to.0), datagram));
        }
        while let Some(observation) = self.nodes[from].poll_observation() {
            if let (0, Event::Sync { rtt_us, .. }) = (from, &observation.event) {
                self.round_trips.push(*rtt_us);
            }
        }
    }

    /// By how much the follower's clock is ahead of the coordinator's at the end.
    fn run(&mut self, until: Instant) -> i64 {
        for node in 0..2 {
            self.nodes[node].start(Instant(0));
            self.drain(Instant(0), node);
        }
        let mut now = Instant(0);
        while now < until {
            now += Duration(10);
            let (arrived, flying) = std::mem::take(&mut self.flying).into_iter().partition(|(at, ..)| *at <= now);
            self.flying = flying;
            let arrived: Vec<(Instant, usize, Vec<u8>)> = arrived;
            for (_, to, datagram) in arrived {
                self.nodes[to].handle(now, Input::Datagram(&datagram));
                self.drain(now, to);
            }
            for node in 0..2 {
                if self.nodes[node].poll_timeout().is_some_and(|(at, _)| at <= now) {
                    self.nodes[node].handle(now, Input::Timeout);
                    self.drain(now, node);
                }
            }
        }
        let [follower, coordinator] = [0, 1].map(|node| self.nodes[node].cluster_time(now).expect("it has the time"));
        follower.ahead_of_us(coordinator)
    }
}

#[test]
fn a_board_that_tells_departures_is_not_misled_by_how_long_they_take() {
    let until = Instant(20_000_000);
    let mut silent = World::new(false);
    let misled_us = silent.run(until);
    let mut telling = World::new(true);
    let right_us = telling.run(until);
    println!("off by {misled_us} us without departures, by {right_us} with them");
    // Half of what questions take longer than answers.
    assert!((250..=350).contains(&misled_us.abs()), "{misled_us}");
    assert!(right_us.abs() <= 20, "{right_us}");
    let least = |world: &World| *world.round_trips.iter().filter(|rtt| **rtt > 0).min().expect("it was corrected");
    let takes = |parts: &[Duration]| parts.iter().map(|part| part.0 as u32).sum::<u32>();
    let whole = takes(&[QUESTION_LEAVES, WAY, OTHERS_LEAVE, WAY]);
    assert!(least(&silent).abs_diff(whole) <= 40, "{}", least(&silent));
    // What an answer takes to leave is never known of that answer: it stays in what the intervals rest on.
    let known = takes(&[WAY, OTHERS_LEAVE, WAY]);
    assert!(least(&telling).abs_diff(known) <= 40, "{}", least(&telling));
}
