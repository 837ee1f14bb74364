//! `compasso compare`: every algorithm of a family on one workload, measured beside the book.

mod book;
mod chart;
mod clock;
mod deadlock;
mod election;
mod mutex;
mod observe;
mod stage;
mod table;

use crate::{
    cli::CompareArgs,
    outcome::{Outcome, Talk},
};
use chart::{Panel, Series};
use compasso_checker::many;
use compasso_scenario::Scenario;
use mutex::{Load, Slack};
use observe::Observed;
use serde_json::{Value, json};
use stage::{Stage, Trouble};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The chart shows these, and what was asked for.
const CHARTED: [u16; 5] = [3, 5, 9, 16, 25];
/// No cluster is larger.
const NODES_MAX: u16 = 64;
/// One host emulates no more boards than this in real time.
const BOARDS_MAX: u16 = 16;
/// One message time, for mutual exclusion: simulated boards think in no time, emulated ones do not.
const MESSAGE_MS: (u64, u64) = (1, 5);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    Mutex,
    Election,
    Clock,
    Deadlock,
}

impl Family {
    fn parse(name: &str) -> Result<Family, String> {
        match name {
            "mutex" => Ok(Family::Mutex),
            "election" => Ok(Family::Election),
            "deadlock" => Ok(Family::Deadlock),
            "clock" => Ok(Family::Clock),
            _ => Err(format!("compare {name}: expected a family, one of: mutex, election, clock, deadlock")),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Family::Mutex => "mutex",
            Family::Election => "election",
            Family::Clock => "clock",
            Family::Deadlock => "deadlock",
        }
    }

    /// With fewer nodes its formulas mean nothing, and why.
    fn least(self) -> (u16, &'static str) {
        match self {
            Family::Mutex | Family::Clock => (2, ""),
            Family::Election => (3, ": where the coordinator of two dies, nobody is left to elect with"),
            Family::Deadlock => (3, ": a transaction takes two resources, and none that is at home with itself"),
        }
    }
}

/// What was measured of one family.
struct Compared {
    rows: Vec<Value>,
    table: String,
    /// Runs in which a promise was broken.
    broken: Vec<Scenario>,
    disagreeing: Vec<String>,
    /// Where requests starved.
    starved: Vec<String>,
}

/// Compares a family's algorithms.
pub fn compare(args: &CompareArgs) -> Outcome {
    let talk = Talk { json: args.json, quiet: args.quiet };
    match prepare(talk, args) {
        Ok((family, stage)) => match perform(talk, args, family, &stage) {
            Ok(outcome) => outcome,
            Err(trouble) => talk.fail(trouble.outcome, &trouble.line),
        },
        Err(trouble) => talk.fail(trouble.outcome, &trouble.line),
    }
}

/// Rows, each with its number of nodes, and what was observed to make them.
type Rows<R> = Result<(Vec<(u16, R)>, Vec<Observed>), Trouble>;

fn prepare(talk: Talk, args: &CompareArgs) -> Result<(Family, Stage), Trouble> {
    let bad = |line: String| Trouble { outcome: Outcome::BadInput, line };
    let family = Family::parse(&args.family).map_err(bad)?;
    let most = match args.on.as_str() {
        "sim" => NODES_MAX,
        "qemu" | "rp2040" => BOARDS_MAX,
        "boards" => {
            let known = "sim, qemu, rp2040";
            return Err(bad(format!("--on {}: a known name, but this version compares only on: {known}", args.on)));
        }
        other => return Err(bad(format!("--on {other}: expected a stage, one of: sim, qemu, rp2040"))),
    };
    let (least, why) = family.least();
    if !(least..=most).contains(&args.nodes) {
        let (stage, why) = (&args.on, if args.nodes < least { why } else { "" });
        return Err(bad(format!("--nodes {}: expected {least} to {most} nodes on {stage}{why}", args.nodes)));
    }
    let stage = match args.on.as_str() {
        "qemu" => Stage::boards(talk)?,
        "rp2040" => Stage::rp2040(talk)?,
        _ => Stage::Sim,
    };
    Ok((family, stage))
}

fn perform(talk: Talk, args: &CompareArgs, family: Family, stage: &Stage) -> Result<Outcome, Trouble> {
    let nodes = args.nodes;
    let compared = match family {
        Family::Mutex => compare_mutex(talk, nodes, stage)?,
        Family::Election => compare_election(talk, nodes, stage)?,
        Family::Clock => compare_clock(talk, nodes, stage)?,
        Family::Deadlock => compare_deadlock(talk, nodes, stage)?,
    };
    let mut outcome = if compared.broken.is_empty() { Outcome::Held } else { Outcome::Violated };
    let interrupted = stage.interrupted();
    let svg = args.svg.clone().unwrap_or_else(|| PathBuf::from(format!("runs/compare-{}.svg", family.name())));
    if !talk.quiet {
        talk.show(compared.table.trim_end());
    }
    for disagreeing in &compared.disagreeing {
        talk.say(&format!("≠ the book   {disagreeing}"));
    }
    for line in &compared.starved {
        talk.say(&format!("starved      {line}"));
    }
    for scenario in &compared.broken {
        let file = format!("runs/{}.toml", scenario.name);
        write(Path::new(&file), &scenario.to_toml())?;
        anstream::eprintln!("compasso: a promise was broken: cargo compasso run {file} --on {}", stage.name());
    }
    if !interrupted {
        let drawn = match family {
            Family::Mutex => chart_mutex(talk, nodes)?,
            Family::Election => chart_election(talk, nodes)?,
            Family::Clock => chart_clock(talk, nodes)?,
            Family::Deadlock => chart_deadlock(talk, nodes)?,
        };
        write(&svg, &drawn)?;
        talk.say(&format!("chart over N written to {}", svg.display()));
    }
    if talk.quiet && !talk.json {
        let agreed = compared.disagreeing.is_empty();
        talk.show(if agreed { "as the book says" } else { "not as the book says" });
    }
    if interrupted && compared.rows.is_empty() {
        outcome = outcome.or(Outcome::Overdue);
    }
    talk.document(&json!({
        "family": family.name(),
        "nodes": nodes,
        "stage": stage.name(),
        "hardening": true,
        "rows": compared.rows,
        "svg": (!interrupted).then(|| svg.display().to_string()),
        "interrupted": interrupted,
        "exit": outcome.status(),
    }));
    Ok(outcome)
}

fn write(file: &Path, text: &str) -> Result<(), Trouble> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(file, text)).map_err(|error| Trouble {
        outcome: Outcome::Environment,
        line: format!("cannot write {}: {error}", file.display()),
    })
}

fn bug(line: String) -> Trouble {
    Trouble { outcome: Outcome::Environment, line: format!("a scenario of the comparison itself is wrong: {line}") }
}

/// The runs of mutual exclusion with so many nodes.
fn mutex_rows(talk: Talk, counts: &[u16], stage: &Stage, message_ms: u64) -> Rows<mutex::Row> {
    let mut names = Vec::new();
    let mut scenarios = Vec::new();
    for nodes in counts {
        for algorithm in ["none"].into_iter().chain(mutex::ALGORITHMS) {
            for load in mutex::loads(algorithm) {
                scenarios.push(mutex::scenario(algorithm, *nodes, *load, message_ms).map_err(bug)?);
                names.push((*nodes, algorithm, *load));
            }
        }
    }
    let observed = stage.perform(talk, "mutual exclusion", &scenarios)?;
    let find = |nodes: u16, algorithm: &str, load: Load| {
        let at = names.iter().position(|name| *name == (nodes, algorithm, load))?;
        observed.get(at)?.as_ref()
    };
    let mut rows = Vec::new();
    for nodes in counts {
        for algorithm in mutex::ALGORITHMS {
            let run = |load| find(*nodes, algorithm, load).map(|run| (run, find(*nodes, "none", load)));
            let full = run(Load::Full);
            let complete = full.is_some() || !mutex::loads(algorithm).contains(&Load::Full);
            if let Some(low) = run(Load::Low).filter(|_| complete) {
                rows.push((*nodes, mutex::row(algorithm, *nodes, low, full)));
            }
        }
    }
    Ok((rows, observed.into_iter().flatten().collect()))
}

fn compare_mutex(talk: Talk, nodes: u16, stage: &Stage) -> Result<Compared, Trouble> {
    let (message_ms, slack) = match stage {
        Stage::Sim => (MESSAGE_MS.0, Slack { messages: 0.01, delay: 0.05 }),
        Stage::Qemu(_) | Stage::Rp2040(_) => (MESSAGE_MS.1, Slack { messages: 0.05, delay: 0.5 }),
    };
    let (rows, observed) = mutex_rows(talk, &[nodes], stage, message_ms)?;
    let rows: Vec<mutex::Row> = rows.into_iter().map(|(_, row)| row).collect();
    let message_us = message_us(&observed, message_ms);
    Ok(Compared {
        table: table::mutex(&rows, nodes, stage.name(), message_us, slack),
        disagreeing: rows.iter().filter(|row| row.disagrees(slack)).map(|row| row.algorithm.to_owned()).collect(),
        starved: rows.iter().filter(|row| row.starved() > 0).map(starved).collect(),
        rows: rows.iter().map(|row| row.to_json(slack)).collect(),
        broken: broken(observed),
    })
}

fn compare_election(talk: Talk, nodes: u16, stage: &Stage) -> Result<Compared, Trouble> {
    let (rows, observed) = election_rows(talk, &[nodes], stage)?;
    let rows: Vec<election::Row> = rows.into_iter().map(|(_, row)| row).collect();
    let name = |row: &election::Row| format!("{}, {}", row.case.algorithm, row.case.name);
    Ok(Compared {
        table: table::election(&rows, nodes, stage.name(), message_us(&observed, election::MESSAGE_MS)),
        disagreeing: rows.iter().filter(|row| !row.agrees()).map(name).collect(),
        starved: Vec::new(),
        rows: rows.iter().map(election::Row::to_json).collect(),
        broken: broken(observed),
    })
}

/// The runs of every strategy with so many nodes.
fn deadlock_rows(talk: Talk, counts: &[u16], stage: &Stage, message_ms: u64) -> Rows<deadlock::Row> {
    let mut names = Vec::new();
    let mut scenarios = Vec::new();
    for nodes in counts {
        for strategy in deadlock::STRATEGIES {
            for load in [deadlock::Load::Low, deadlock::Load::Full] {
                scenarios.push(deadlock::scenario(strategy, *nodes, load, message_ms).map_err(bug)?);
            }
            names.push((*nodes, strategy));
        }
    }
    let observed = stage.perform(talk, "deadlock", &scenarios)?;
    let runs = names.into_iter().zip(observed.chunks(2));
    let rows = runs.filter_map(|((nodes, strategy), runs)| match runs {
        [Some(low), Some(full)] => Some((nodes, deadlock::row(strategy, low, full))),
        _ => None,
    });
    let rows = rows.collect();
    Ok((rows, observed.into_iter().flatten().collect()))
}

fn compare_deadlock(talk: Talk, nodes: u16, stage: &Stage) -> Result<Compared, Trouble> {
    let (message_ms, slack) = match stage {
        Stage::Sim => (MESSAGE_MS.0, 0.0),
        Stage::Qemu(_) | Stage::Rp2040(_) => (MESSAGE_MS.1, 0.3),
    };
    let (rows, observed) = deadlock_rows(talk, &[nodes], stage, message_ms)?;
    let rows: Vec<deadlock::Row> = rows.into_iter().map(|(_, row)| row).collect();
    Ok(Compared {
        starved: Vec::new(),
        table: table::deadlock(&rows, nodes, stage.name(), message_us(&observed, message_ms), slack),
        disagreeing: rows.iter().filter(|row| row.disagrees(slack)).map(|row| row.strategy.to_owned()).collect(),
        rows: rows.iter().map(|row| row.to_json(slack)).collect(),
        broken: broken(observed),
    })
}

/// The runs of every way to keep time with so many nodes.
fn clock_rows(talk: Talk, counts: &[u16], stage: &Stage) -> Rows<clock::Row> {
    let names: Vec<(u16, &'static str)> =
        counts.iter().flat_map(|nodes| clock::SYNCS.map(|sync| (*nodes, sync))).collect();
    let scenarios: Vec<Scenario> =
        names.iter().map(|(nodes, sync)| clock::scenario(sync, *nodes)).collect::<Result<_, _>>().map_err(bug)?;
    let observed = stage.perform(talk, "clocks", &scenarios)?;
    let mut rows = Vec::new();
    for ((nodes, sync), run) in names.iter().zip(&observed) {
        let of_these = || names.iter().zip(&observed).filter(|((other, _), _)| other == nodes);
        let without = of_these().find(|((_, sync), _)| *sync == "none").and_then(|(_, run)| run.as_ref());
        let raw = of_these().find_map(|(_, run)| Some(run.as_ref()?.summary.clock.as_ref()?.raw_spread_us));
        if let Some(run) = run {
            rows.push((*nodes, clock::row(sync, *nodes, run, without, raw.unwrap_or(0))));
        }
    }
    Ok((rows, observed.into_iter().flatten().collect()))
}

fn compare_clock(talk: Talk, nodes: u16, stage: &Stage) -> Result<Compared, Trouble> {
    let slack = match stage {
        Stage::Sim => clock::Slack { messages: 0.03, rate: 0.03 },
        Stage::Qemu(_) | Stage::Rp2040(_) => clock::Slack { messages: 0.1, rate: 0.3 },
    };
    let (rows, observed) = clock_rows(talk, &[nodes], stage)?;
    let rows: Vec<clock::Row> = rows.into_iter().map(|(_, row)| row).collect();
    Ok(Compared {
        starved: Vec::new(),
        table: table::clock(&rows, nodes, stage.name(), slack),
        disagreeing: rows.iter().filter(|row| row.disagrees(slack)).map(|row| row.sync.to_owned()).collect(),
        rows: rows.iter().map(|row| row.to_json(slack)).collect(),
        broken: broken(observed),
    })
}

fn starved(row: &mutex::Row) -> String {
    let promise = match row.algorithm {
        "voting" => "it promises a turn only with probability one",
        _ => "although it promises a turn to everybody",
    };
    format!("{}: {}; {promise}", row.algorithm, many(row.starved(), "request"))
}

/// One message time over all runs; the network's delay where nothing was sent.
fn message_us(observed: &[Observed], delay_ms: u64) -> f64 {
    let mut times: Vec<f64> = observed.iter().filter_map(|run| run.message_us).collect();
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(delay_ms as f64 * 1000.0)
}

fn broken(observed: Vec<Observed>) -> Vec<Scenario> {
    observed
        .into_iter()
        .filter(|run| mutex::broken(run) > 0 && deadlock::broken(run) > 0)
        .map(|run| run.scenario)
        .collect()
}

fn election_rows(talk: Talk, counts: &[u16], stage: &Stage) -> Rows<election::Row> {
    let cases: Vec<(u16, election::Case)> =
        counts.iter().flat_map(|nodes| election::cases(*nodes).into_iter().map(|case| (*nodes, case))).collect();
    let scenarios: Vec<Scenario> =
        cases.iter().map(|(_, case)| election::scenario(case)).collect::<Result<_, _>>().map_err(bug)?;
    let observed = stage.perform(talk, "election", &scenarios)?;
    let rows = cases.into_iter().zip(&observed);
    let rows = rows.filter_map(|((nodes, case), run)| Some((nodes, election::row(case, run.as_ref()?)))).collect();
    Ok((rows, observed.into_iter().flatten().collect()))
}

fn charted(nodes: u16) -> Vec<u16> {
    // Beyond the largest that is charted, one run takes as long as all others together.
    let mut counts: Vec<u16> = CHARTED.into_iter().chain((nodes <= 25).then_some(nodes)).collect();
    counts.sort_unstable();
    counts.dedup();
    counts
}

fn chart_mutex(talk: Talk, nodes: u16) -> Result<String, Trouble> {
    let (rows, _) = mutex_rows(talk, &charted(nodes), &Stage::Sim, MESSAGE_MS.0)?;
    let panels = [(Load::Low, "low load: one at a time"), (Load::Full, "full load: everybody always wants")];
    let panels = panels.map(|(load, title)| {
        let series = mutex::ALGORITHMS.into_iter().map(|algorithm| {
            let of = rows.iter().filter(|(_, row)| row.algorithm == algorithm);
            let points = of
                .filter_map(|(nodes, row)| mutex::charted(row, load).map(|(measured, book)| (*nodes, measured, book)));
            Series { name: algorithm.to_owned(), points: points.collect() }
        });
        Panel { title: title.to_owned(), series: series.filter(|series| !series.points.is_empty()).collect() }
    });
    Ok(chart::draw("Mutual exclusion, simulated: textbook messages per entry", "messages per entry", &panels))
}

fn chart_election(talk: Talk, nodes: u16) -> Result<String, Trouble> {
    let (rows, _) = election_rows(talk, &charted(nodes), &Stage::Sim)?;
    let shared = |row: &election::Row| row.case.name == election::SHARED;
    let panels = [(true, "the coordinator dies, the lowest notices"), (false, "best, worst, and all at once")];
    let panels = panels.map(|(of_all, title)| {
        let mut series: Vec<Series> = Vec::new();
        for (nodes, row) in rows.iter().filter(|(_, row)| shared(row) == of_all && row.messages > 0) {
            let name = if of_all {
                row.case.algorithm.to_owned()
            } else {
                format!("{}: {}", row.case.algorithm, row.case.name)
            };
            let point = (*nodes, row.messages as f64, row.book().expected.number());
            match series.iter_mut().find(|series| series.name == name) {
                Some(series) => series.points.push(point),
                None => series.push(Series { name, points: vec![point] }),
            }
        }
        Panel { title: title.to_owned(), series }
    });
    Ok(chart::draw("Election, simulated: textbook messages", "messages", &panels))
}

fn chart_deadlock(talk: Talk, nodes: u16) -> Result<String, Trouble> {
    let (rows, _) = deadlock_rows(talk, &charted(nodes), &Stage::Sim, MESSAGE_MS.0)?;
    type Value = fn(&deadlock::Row) -> Option<f64>;
    let panels: [(&str, Value); 2] = [
        ("transactions per second", |row| Some(row.per_second).filter(|rate| *rate > 0.0)),
        ("messages per transaction", |row| row.messages),
    ];
    let panels = panels.map(|(title, value)| {
        let series = deadlock::STRATEGIES.into_iter().map(|strategy| {
            let of = rows.iter().filter(|(_, row)| row.strategy == strategy);
            let points = of.filter_map(|(nodes, row)| Some((*nodes, value(row)?, None)));
            Series { name: strategy.to_owned(), points: points.collect() }
        });
        Panel { title: title.to_owned(), series: series.filter(|series| !series.points.is_empty()).collect() }
    });
    Ok(chart::draw("Deadlock, simulated: two of N resources at a time, full load", "measured", &panels))
}

fn chart_clock(talk: Talk, nodes: u16) -> Result<String, Trouble> {
    let (rows, _) = clock_rows(talk, &charted(nodes), &Stage::Sim)?;
    type Value = fn(&clock::Row) -> Option<f64>;
    let panels: [(&str, Value); 2] = [
        ("messages a node and second", |row| Some(row.rate).filter(|rate| *rate > 0.0)),
        ("error, 99 of 100, in µs", |row| row.error_us.map(|error| error.p99 as f64)),
    ];
    let panels = panels.map(|(title, value)| {
        let series = clock::SYNCS.into_iter().map(|sync| {
            let of = rows.iter().filter(|(_, row)| row.sync == sync);
            let points = of.filter_map(|(nodes, row)| Some((*nodes, value(row)?, None)));
            Series { name: sync.to_owned(), points: points.collect() }
        });
        Panel { title: title.to_owned(), series: series.filter(|series| !series.points.is_empty()).collect() }
    });
    Ok(chart::draw("Clocks, simulated: crystals off by up to 50 ppm, delays of 0.2 to 2 ms", "measured", &panels))
}
