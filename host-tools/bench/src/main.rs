//! `compasso-bench clock`: measures the disciplined clock beside its peers. `compasso bench clock` calls it.

use clap::{Args, Parser, Subcommand};
use compasso_bench::{
    families::{FAMILIES, Family, LIMITED, by_name},
    limits, peers, pictures, run, table,
};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use std::{io::Write as _, path::PathBuf, process::ExitCode};

const BAD_INPUT: u8 = 2;
const ENVIRONMENT: u8 = 3;

/// Benchmarks side by side.
#[derive(Parser)]
#[command(name = "compasso-bench")]
struct Cli {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// The disciplined clock beside its peers.
    Clock(ClockArgs),
}

#[derive(Args)]
struct ClockArgs {
    /// How many seeds, from 1 on; or the first and the last one: 11-15.
    #[arg(long, default_value = "5")]
    seeds: String,
    /// Which families; `all` for all, also those without limits.
    #[arg(long, value_delimiter = ',')]
    families: Vec<String>,
    /// One JSON document on stdout.
    #[arg(long)]
    json: bool,
    /// Nothing but the verdict.
    #[arg(long, short)]
    quiet: bool,
    /// Where the pictures go.
    #[arg(long, default_value = "runs/bench-clock")]
    out: PathBuf,
}

fn main() -> ExitCode {
    let What::Clock(args) = Cli::parse().what;
    clock(&args).unwrap_or_else(|(status, line)| {
        eprintln!("compasso: {line}");
        if args.json {
            println!("{:#}", json!({ "error": line, "exit": status }));
        }
        ExitCode::from(status)
    })
}

fn clock(args: &ClockArgs) -> Result<ExitCode, (u8, String)> {
    let seeds = seeds(&args.seeds).ok_or_else(|| {
        (BAD_INPUT, format!("--seeds {}: a number from 1 to 1000 is expected, or a range like 11-15", args.seeds))
    })?;
    let families = families(&args.families).map_err(|line| (BAD_INPUT, line))?;
    std::fs::create_dir_all(&args.out).map_err(|error| (ENVIRONMENT, format!("{}: {error}", args.out.display())))?;

    let contenders = peers::all();
    let bar = if args.quiet { ProgressBar::hidden() } else { ProgressBar::new(0) };
    if let Ok(style) = ProgressStyle::with_template("bench clock {wide_bar} {pos} of {len} runs") {
        bar.set_style(style);
    }
    let lines = !args.quiet && bar.is_hidden();
    let results = run::run(&families, &seeds, &contenders, &|done, total| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
        if lines && (done * 10 / total) != ((done - 1) * 10 / total) {
            eprintln!("bench clock: {done} of {total} runs");
        }
    });
    bar.finish_and_clear();

    let verdicts = limits::judge(&results, seeds.len());
    let mut text = table::render(&results, &seeds, &contenders, &verdicts);
    for (name, picture) in pictures::draw(&results) {
        let path = args.out.join(name);
        std::fs::write(&path, picture).map_err(|error| (ENVIRONMENT, format!("{}: {error}", path.display())))?;
        text += &format!("\n{}", path.display());
    }
    let broken = verdicts.iter().filter(|verdict| !verdict.held()).count();
    text += &match broken {
        0 => "\n\nEvery limit held.".to_owned(),
        1 => "\n\n1 limit is broken.".to_owned(),
        many => format!("\n\n{many} limits are broken."),
    };
    if args.quiet {
        text = text.lines().last().unwrap_or_default().to_owned();
    }
    let document = format!("{:#}", table::document(&results, &seeds, &contenders, &verdicts));
    // A reader that has gone away is no error.
    if args.json {
        eprintln!("{text}");
        let _ = writeln!(std::io::stdout(), "{document}");
    } else {
        let _ = writeln!(std::io::stdout(), "{text}");
    }
    Ok(ExitCode::from(u8::from(broken > 0)))
}

fn seeds(text: &str) -> Option<Vec<u64>> {
    let (first, last) = match text.split_once('-') {
        Some((first, last)) => (first.parse().ok()?, last.parse().ok()?),
        None => (1, text.parse().ok()?),
    };
    (1..=1_000).contains(&(u64::checked_sub(last, first)? + 1)).then(|| (first..=last).collect())
}

fn families(names: &[String]) -> Result<Vec<&'static Family>, String> {
    if names.is_empty() {
        return Ok(FAMILIES[..LIMITED].iter().collect());
    }
    if names == ["all"] {
        return Ok(FAMILIES.iter().collect());
    }
    let named = |name: &String| {
        by_name(name).ok_or_else(|| {
            let known: Vec<&str> = FAMILIES.iter().map(|family| family.name).collect();
            format!("--families {name}: there is no such family; there are {}, and all", known.join(", "))
        })
    };
    names.iter().map(named).collect()
}
