//! The soak: more than an hour of board time, every algorithm of the catalogue, on boards that crash, return,
//! stand still and are cut off from each other, and a network that loses, repeats and reorders.
//!
//! The weather is that of the simulator's storms, by seed; the boards are the exact image. Scenarios are spread
//! over the machine's cores. `COMPASSO_SOAK=locks cargo test --test soak -- --nocapture` performs only those whose
//! name holds that word.

mod common;
#[path = "../../simulator/tests/common/mod.rs"]
mod weather;

use compasso_checker::{Event, Fault, RunInfo, Summary, TraceEvent, judge};
use compasso_rp2040::{
    Options,
    effort::{Begun, Effort},
    perform,
};
use compasso_scenario::Scenario;
use compasso_stage::setup::BoardKind;
use std::{
    collections::BTreeMap,
    fmt::Write,
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

const BOARDS: u32 = 5;
const AT_LEAST: Duration = Duration::from_secs(3600);

/// What a scenario is about, who elects, its sections, and what it must have come to.
type Sort = (&'static str, &'static str, String, &'static str);

fn turns(mutex: &str) -> String {
    format!(
        "[clock]\nsync = \"cristian\"\nskew_ppm = {{ uniform = 60 }}\n\
         [mutex]\nalgorithm = \"{mutex}\"\nworkload = {{ every = \"150ms\", hold = \"5ms\" }}\n"
    )
}

fn locks(strategy: &str) -> String {
    format!(
        "[clock]\nskew_ppm = {{ uniform = 60 }}\n\
         [deadlock]\nstrategy = \"{strategy}\"\nresources = [\"a\", \"b\", \"c\", \"d\", \"e\"]\n\
         workload = {{ every = \"120ms\", hold = \"5ms\", several = 2 }}\n"
    )
}

fn cache(invalidate: bool, lease: &str) -> String {
    format!(
        "[clock]\nsync = \"cristian\"\nskew_ppm = [200, -200, 200, 200, -200]\n\
         [cache]\nlease = \"{lease}\"\ninvalidate = {invalidate}\nworkload = {{ read = \"40ms\", write = \"3s\" }}\n\
         [timing]\ndrift_ppm = 200\nsync_every = \"4s\"\n"
    )
}

fn clock(sync: &str, more: &str) -> String {
    format!("[clock]\n{sync}\nskew_ppm = {{ uniform = 200 }}\n{more}")
}

/// Every algorithm at least once.
fn catalogue() -> Vec<Sort> {
    const ENTRIES: &str = "violations = 0\ngaps = 0\nentries_min = 300";
    const TRANSACTIONS: &str = "violations = 0\ngaps = 0\ntransactions_min = 200";
    const HOST: &str = "[[step]]\nat = \"5s\"\nleap = 1\n[[step]]\nat = \"9s\"\ntime_server = false\n\
                        [[step]]\nat = \"14s\"\ntime_server = true\n";
    vec![
        ("turns: token-ring", "bully", turns("token-ring"), ENTRIES),
        ("turns: central", "ring", turns("central"), ENTRIES),
        ("turns: voting", "chang-roberts", turns("voting"), ENTRIES),
        ("turns: lamport", "hirschberg-sinclair", turns("lamport"), ENTRIES),
        ("turns: ricart-agrawala", "detector", turns("ricart-agrawala"), ENTRIES),
        ("turns: suzuki-kasami", "ring", turns("suzuki-kasami"), ENTRIES),
        ("turns: maekawa", "bully", turns("maekawa"), ENTRIES),
        ("snapshots", "bully", turns("token-ring"), "violations = 0\ngaps = 0\nsnapshots_min = 5"),
        ("locks: ignore", "bully", locks("ignore"), "gaps = 0"),
        ("locks: detect", "detector", locks("detect"), TRANSACTIONS),
        ("locks: prevent-order", "bully", locks("prevent-order"), TRANSACTIONS),
        ("locks: wait-die", "ring", locks("wait-die"), TRANSACTIONS),
        ("locks: wound-wait", "chang-roberts", locks("wound-wait"), TRANSACTIONS),
        ("locks: avoid", "hirschberg-sinclair", locks("avoid"), TRANSACTIONS),
        ("cache: leases", "bully", cache(false, "400ms"), "violations = 0\ngaps = 0\nreads_min = 1000\nwrites_min = 5"),
        (
            "cache: invalidate",
            "detector",
            cache(true, "3s"),
            "violations = 0\ngaps = 0\nreads_min = 1000\nwrites_min = 5",
        ),
        (
            "commit: two-phase",
            "chang-roberts",
            "[commit]\nworkload = { every = \"200ms\" }\nrefuse_one_in = 20\n".into(),
            "violations = 0\ngaps = 0\ncommits_min = 40\naborts_min = 10",
        ),
        ("clock: berkeley", "bully", clock("sync = \"berkeley\"", ""), "violations = 0\ngaps = 0"),
        ("clock: host", "bully", clock("sync = \"cristian\"\nsource = \"host\"", HOST), "violations = 0\ngaps = 0"),
        (
            "clock: make",
            "hirschberg-sinclair",
            clock("sync = \"cristian\"", "[make]\nworkload = { every = \"250ms\" }\n"),
            "violations = 0\ngaps = 0\nrebuilds_min = 40",
        ),
    ]
}

fn scenario(number: usize, (name, election, sections, expect): &Sort) -> Scenario {
    let mut text = weather::storm_of(number as u64 + 1, election, sections).to_toml();
    if *name == "snapshots" {
        for (at, id) in (2000..text_duration_ms(&text)).step_by(1500).zip((0..5).cycle()) {
            // Whoever crashes in this storm may be away when it is asked.
            if !text.contains(&format!("crash = {id}\n")) {
                write!(text, "[[step]]\nat = \"{at}ms\"\nsnapshot = {id}\n").unwrap();
            }
        }
    }
    write!(text, "[expect]\n{expect}\n").unwrap();
    Scenario::parse(&text, name).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn text_duration_ms(text: &str) -> u64 {
    Scenario::parse(text, "storm").unwrap().duration.0 / 1000
}

/// What one scenario came to.
struct Soaked {
    scenario: Scenario,
    summary: Summary,
    trace: Vec<TraceEvent>,
    complaints: Vec<String>,
    board_time: Duration,
    effort: Effort,
}

fn soak(number: usize, sort: &Sort, image: &Path) -> Soaked {
    let scenario = scenario(number, sort);
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        board: BoardKind::W5500EvbPico,
        image: image.to_owned(),
        out: folder.path().to_owned(),
        interrupted: Default::default(),
    };
    let begun = Begun::now();
    let output = perform(&scenario, &options, &mut |_| ()).unwrap_or_else(|error| panic!("{}: {error}", sort.0));
    let effort = begun.effort();
    let summary = judge(&output.events, &RunInfo::new(scenario.clone(), "rp2040", output.network.into()));
    let mut complaints: Vec<String> = output.failures.iter().map(|failure| format!("{failure:?}")).collect();
    complaints.extend(output.overdue);
    // Deadlocks that are ignored stand, and nothing else may break.
    let is_allowed = |property: &str| sort.0 == "locks: ignore" && property == "deadlock";
    let broken = summary.violations.iter().filter(|violation| !is_allowed(&violation.property));
    complaints.extend(broken.map(|violation| format!("{violation:?}")));
    if is_allowed("deadlock") && summary.violations.is_empty() {
        complaints.push("nobody stood still".into());
    }
    complaints.extend(summary.expectations.iter().filter(|expected| !expected.ok).map(|missed| format!("{missed:?}")));
    let count = |wanted: &dyn Fn(&Event) -> bool| output.events.iter().filter(|event| wanted(&event.event)).count();
    if count(&|event| matches!(event, Event::Overflow { .. })) > 0 {
        complaints.push("a queue was full".into());
    }
    if sort.0.starts_with("clock") && count(&|event| matches!(event, Event::Sync { .. })) < 100 {
        complaints.push("too few corrections of clocks".into());
    }
    Soaked { scenario, summary, trace: output.events, complaints, board_time: output.lasted * BOARDS, effort }
}

/// What all scenarios came to.
#[derive(Default)]
struct Totals {
    board_time: Duration,
    core: Duration,
    events: BTreeMap<&'static str, u64>,
    broken: Vec<String>,
}

impl Totals {
    fn add(&mut self, (name, election, ..): &Sort, soaked: &Soaked) {
        self.board_time += soaked.board_time;
        self.core += soaked.effort.core;
        let network = &soaked.summary.network;
        for (what, times) in
            [("lost", network.lost), ("duplicated", network.duplicated), ("reordered", network.reordered)]
        {
            *self.events.entry(what).or_default() += times;
        }
        for event in &soaked.trace {
            let what = match &event.event {
                Event::Fault(Fault::Crash(_)) => "crashes",
                Event::Fault(Fault::Restart(_)) => "returns",
                Event::Fault(Fault::Pause(_)) => "pauses",
                Event::Fault(Fault::Partition(_)) => "partitions",
                Event::Fault(Fault::DropToken) => "lost tokens",
                Event::CsEnter { .. } => "entries",
                Event::ElectionStart { .. } => "elections",
                _ => continue,
            };
            *self.events.entry(what).or_default() += 1;
        }
        let (boards, core) = (soaked.board_time.as_secs_f64(), soaked.effort.core.as_secs_f64());
        println!(
            "{name:<24} {election:<20} {boards:>4.0} s of boards in {core:>5.1} s of a core: {:>4.1} x  {:>6} events  {}",
            boards / core,
            soaked.summary.events,
            if soaked.complaints.is_empty() { "held" } else { "BROKEN" },
        );
        if !soaked.complaints.is_empty() {
            self.broken.push(format!("{name}: {}\n{}", soaked.complaints.join("\n"), soaked.scenario.to_toml()));
        }
    }
}

#[test]
fn an_hour_of_boards_in_storms_keeps_every_promise() {
    let image = common::image();
    let only = std::env::var("COMPASSO_SOAK").ok();
    let chosen = |sort: &Sort| only.as_ref().is_none_or(|word| sort.0.contains(word));
    let sorts: Vec<(usize, Sort)> = catalogue().into_iter().enumerate().filter(|(_, sort)| chosen(sort)).collect();
    let (next, totals) = (AtomicUsize::new(0), Mutex::new(Totals::default()));
    let begun = Instant::now();
    let work = || {
        while let Some((number, sort)) = sorts.get(next.fetch_add(1, Relaxed)) {
            let soaked = soak(*number, sort, &image);
            totals.lock().unwrap().add(sort, &soaked);
        }
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..cores).for_each(|_| drop(scope.spawn(work))));
    let Totals { board_time, core, events, broken } = totals.into_inner().unwrap();
    println!(
        "{} scenarios, {:.0} s of boards in {:.0} s of a core ({:.1} x), {:.0} s by the clock: {events:?}",
        sorts.len(),
        board_time.as_secs_f64(),
        core.as_secs_f64(),
        board_time.as_secs_f64() / core.as_secs_f64(),
        begun.elapsed().as_secs_f64(),
    );
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    if only.is_none() {
        assert!(board_time >= AT_LEAST, "{board_time:?}");
        let kinds = ["crashes", "returns", "pauses", "partitions", "lost tokens", "lost", "duplicated", "reordered"];
        assert!(kinds.iter().all(|kind| events.get(kind).is_some_and(|times| *times > 1)), "too mild: {events:?}");
    }
}
