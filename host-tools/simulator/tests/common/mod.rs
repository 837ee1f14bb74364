//! Scenarios for the simulator's tests.
#![allow(dead_code, reason = "each test uses its own part")]

use compasso_checker::{Event, TraceEvent};
use compasso_scenario::Scenario;
use std::fmt::Write;

/// The shipped concert.
pub fn concert(seed: u64) -> Scenario {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/concert.toml");
    Scenario::load(path).unwrap().with_seed(seed)
}

/// A scenario of five nodes with these steps.
pub fn scenario(seed: u64, seconds: u64, network: &str, workload: &str, steps: &str) -> Scenario {
    let text = format!(
        "name = \"test\"\nnodes = 5\nseed = {seed}\nduration = \"{seconds}s\"\n\
         [clock]\nsync = \"cristian\"\nskew_ppm = {{ uniform = 60 }}\n\
         [election]\nalgorithm = \"bully\"\n\
         [mutex]\nalgorithm = \"token-ring\"\nworkload = {workload}\n\
         [network]\n{network}\n{steps}"
    );
    Scenario::parse(&text, "test").unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Crashes, returns, pauses, partitions and lost tokens, when and to whom the seed decides.
pub fn storm(seed: u64, election: &str, mutex: &str) -> Scenario {
    let sections = format!(
        "[clock]\nsync = \"cristian\"\nskew_ppm = {{ uniform = 60 }}\n\
         [mutex]\nalgorithm = \"{mutex}\"\nworkload = {{ every = \"100ms\", hold = \"5ms\" }}\n"
    );
    storm_of(seed, election, &sections)
}

/// The same weather for whatever these sections perform; without turns no token is lost. With an even seed a fault
/// may begin before the one before it is over.
pub fn storm_of(seed: u64, election: &str, sections: &str) -> Scenario {
    let mut dice = fastrand::Rng::with_seed(seed);
    let mut steps = String::new();
    let (mut at_ms, mut over_ms) = (3000, 3000);
    // Until when each node, and the network, has its fault.
    let (mut nodes_ms, mut network_ms) = ([0; 5], 0);
    for _ in 0..6 {
        at_ms += dice.u64(500..3000);
        let lasts = dice.u64(300..4500);
        let first = dice.u16(0..5);
        let is_well = |id: &u16| nodes_ms[usize::from(*id)] < at_ms;
        let Some(id) = (0..5).map(|next| (first + next) % 5).find(is_well) else { continue };
        let kinds = if sections.contains("[mutex]") { 4 } else { 3 };
        let (begin, end) = match dice.u8(0..kinds) {
            kind @ 0..2 => {
                nodes_ms[usize::from(id)] = at_ms + lasts;
                let (begin, end) = if kind == 0 { ("crash", "restart") } else { ("pause", "resume") };
                (format!("{begin} = {id}"), format!("{end} = {id}"))
            }
            2 if network_ms >= at_ms => continue,
            2 => {
                network_ms = at_ms + lasts;
                let mut ids = [0, 1, 2, 3, 4];
                dice.shuffle(&mut ids);
                let (one, other) = ids.split_at(dice.usize(1..4));
                (format!("partition = [{one:?}, {other:?}]"), "heal = true".to_owned())
            }
            _ => ("drop_token = true".to_owned(), String::new()),
        };
        for (at, action) in [(at_ms, begin), (at_ms + lasts, end)] {
            if !action.is_empty() {
                write!(steps, "[[step]]\nat = \"{at}ms\"\n{action}\n").unwrap();
            }
        }
        over_ms = over_ms.max(at_ms + lasts);
        if !seed.is_multiple_of(2) {
            at_ms = over_ms;
        }
    }
    let seconds = over_ms / 1000 + 16;
    let text = format!(
        "name = \"storm\"\nnodes = 5\nseed = {seed}\nduration = \"{seconds}s\"\n\
         [election]\nalgorithm = \"{election}\"\n{sections}\
         [network]\ndelay = \"200us..5ms\"\nloss = 0.05\nduplicate = 0.02\nreorder = 0.05\n{steps}"
    );
    Scenario::parse(&text, "storm").unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// How many events are of this sort.
pub fn count(trace: &[TraceEvent], wanted: impl Fn(&Event) -> bool) -> usize {
    trace.iter().filter(|event| wanted(&event.event)).count()
}

/// One election with one mutual exclusion: the coordinator dies and returns.
pub fn matrix(election: &str, mutex: &str, network: &str) -> Scenario {
    matrix_of(election, mutex, &["cs"], network)
}

/// The same with turns at each of these.
pub fn matrix_of(election: &str, mutex: &str, resources: &[&str], network: &str) -> Scenario {
    let detector = if network.contains("#perfect") { "perfect" } else { "eventually-perfect" };
    let text = format!(
        "name = \"matrix\"\nnodes = 5\nseed = 3\nduration = \"24s\"\n\
         [clock]\nsync = \"cristian\"\nskew_ppm = {{ uniform = 60 }}\n\
         [election]\nalgorithm = \"{election}\"\ndetector = \"{detector}\"\n\
         [mutex]\nalgorithm = \"{mutex}\"\nresources = {resources:?}\n\
         workload = {{ every = \"150ms\", hold = \"5ms\" }}\n\
         [[step]]\nat = \"6s\"\ncrash = 4\n[[step]]\nat = \"11s\"\nrestart = 4\n\
         [network]\n{network}\n"
    );
    Scenario::parse(&text, "matrix").unwrap_or_else(|error| panic!("{error}\n{text}"))
}
