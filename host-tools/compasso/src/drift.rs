//! `compasso drift`: how the bare crystals of a run's boards drift, as a table, JSON and plots.

use crate::{
    cli::{DriftArgs, RunArgs},
    outcome::{Outcome, Talk},
    run,
};
use compasso_checker::{
    drift::{Against, Drift, drift},
    trace::read_file,
};
use serde_json::json;
use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

/// Where a performance for this is kept if nobody says otherwise.
const FOLDER: &str = "runs/drift";

/// Measures a recorded run, or performs one first.
pub fn drift_of(args: &DriftArgs) -> Outcome {
    let talk = Talk { json: args.json, quiet: args.quiet };
    let folder = match (&args.on, &args.what) {
        (None, Some(run)) => run.clone(),
        (None, None) => {
            return talk.fail(Outcome::BadInput, "expected the folder of a run, or --on STAGE to perform one");
        }
        (Some(stage), scenario) => {
            let out = args.out.clone().unwrap_or_else(|| PathBuf::from(FOLDER));
            let performed = run::run(&RunArgs {
                image: None,
                scenario: scenario.clone(),
                on: vec![stage.clone()],
                fleet: args.fleet.clone(),
                seed: args.seed,
                out: Some(out.clone()),
                json: false,
                quiet: true,
            });
            if !matches!(performed, Outcome::Held | Outcome::Violated) {
                return performed;
            }
            out
        }
    };
    let trace = match read_file(folder.join("trace.jsonl")) {
        Ok(trace) => trace,
        Err(error) => return talk.fail(Outcome::BadInput, &error.to_string()),
    };
    let found = drift(&trace);
    if found.is_empty() {
        let line = format!("{}: no board tells its hardware time beside another one", folder.display());
        return talk.fail(Outcome::BadInput, &line);
    }
    let (offsets, deviations) = (folder.join("drift.svg"), folder.join("allan.svg"));
    for (file, text) in [(&offsets, offset_plot(&found)), (&deviations, allan_plot(&found))] {
        if let Err(error) = fs::write(file, text) {
            return talk.fail(Outcome::Environment, &format!("cannot write {}: {error}", file.display()));
        }
    }
    talk.document(&json!({
        "boards": found,
        "plots": [offsets.display().to_string(), deviations.display().to_string()],
        "exit": Outcome::Held.status(),
    }));
    talk.show(&table(&found, &folder));
    Outcome::Held
}

fn table(found: &[Drift], folder: &Path) -> String {
    let mut out = String::from(" board  life  against     seconds        rate, ppm             Allan deviation, ppm\n");
    for drift in found {
        let against = match drift.against {
            Against::TrueTime => "true time",
            Against::Reference => "reference",
        };
        let shown = drift.allan.iter().filter(|allan| [1, 10, 100, 1000].contains(&allan.span_s));
        let allan: Vec<String> =
            shown.map(|allan| format!("{} s: {:.2e}", allan.span_s, allan.deviation_ppm)).collect();
        let _ = writeln!(
            out,
            "{:>6}  {:>4}  {against}  {:>9.1}  {:>9.3} ± {:<9.4}  {}",
            drift.node,
            drift.incarnation,
            drift.seconds,
            drift.ppm,
            drift.plus_minus_ppm,
            allan.join("  ")
        );
    }
    let _ = write!(out, "± 95 %, if what strays from the line does so by chance; plots in {}/", folder.display());
    out
}

const COLOURS: [&str; 8] = ["#0b6e99", "#c2410c", "#3f7d20", "#7c3aed", "#b45309", "#be185d", "#0f766e", "#525252"];
/// Left, top, width and height of what is plotted.
const FRAME: (f64, f64, f64, f64) = (80.0, 40.0, 640.0, 320.0);
/// Points of one line; more would not be seen.
const POINTS_MAX: usize = 1000;

/// Lines in one frame, in the units of `x` and `y`.
fn plot(title: &str, x_label: &str, y_label: &str, lines: &[(String, Vec<(f64, f64)>)], logarithmic: bool) -> String {
    let all = || lines.iter().flat_map(|(_, points)| points.iter().copied());
    let range = |part: fn((f64, f64)) -> f64| {
        let (low, high) = all().map(part).fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(v), high.max(v)));
        if high > low { (low, high) } else { (low - 1.0, low + 1.0) }
    };
    let ((x0, x1), (y0, y1)) = (range(|point| point.0), range(|point| point.1));
    let (left, top, width, height) = FRAME;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 860 420\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"860\" height=\"420\" fill=\"#fff\"/>\n<text x=\"{left}\" y=\"24\" font-size=\"16\">{title}</text>\n\
         <rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\" fill=\"none\" stroke=\"#999\"/>\n"
    );
    let said = |value: f64| if logarithmic { format!("{:.2e}", 10_f64.powf(value)) } else { format!("{value:.1}") };
    for (x, y, anchor, text) in [
        (left, top + height + 18.0, "start", said(x0)),
        (left + width, top + height + 18.0, "end", said(x1)),
        (left + width / 2.0, top + height + 36.0, "middle", x_label.to_owned()),
        (left - 6.0, top + height, "end", said(y0)),
        (left - 6.0, top + 10.0, "end", said(y1)),
        (left - 6.0, top + height / 2.0, "end", y_label.to_owned()),
    ] {
        let _ = writeln!(svg, "<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\">{text}</text>");
    }
    for (index, (name, points)) in lines.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let every = points.len().div_ceil(POINTS_MAX).max(1);
        let at = |(x, y): (f64, f64)| {
            format!("{:.1},{:.1}", left + (x - x0) / (x1 - x0) * width, top + (y1 - y) / (y1 - y0) * height)
        };
        let path: Vec<String> = points.iter().copied().step_by(every).map(at).collect();
        let _ = writeln!(svg, "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\"/>", path.join(" "));
        let y = top + 14.0 + 16.0 * index as f64;
        let _ = writeln!(svg, "<text x=\"{}\" y=\"{y}\" fill=\"{colour}\">{name}</text>", left + width + 10.0);
    }
    svg + "</svg>\n"
}

fn name(drift: &Drift) -> String {
    match drift.incarnation {
        1 => format!("board {}", drift.node),
        life => format!("board {}, life {life}", drift.node),
    }
}

fn offset_plot(found: &[Drift]) -> String {
    let lines: Vec<_> = found
        .iter()
        .map(|drift| {
            let zero = drift.points.first().map_or(0.0, |point| point.1);
            (name(drift), drift.points.iter().map(|(at, offset)| (*at, offset - zero)).collect())
        })
        .collect();
    plot("Raw offset since the first reading", "seconds", "µs", &lines, false)
}

fn allan_plot(found: &[Drift]) -> String {
    let lines: Vec<_> = found
        .iter()
        .map(|drift| {
            let shown = drift.allan.iter().filter(|allan| allan.deviation_ppm > 0.0);
            let points = shown.map(|allan| ((allan.span_s as f64).log10(), allan.deviation_ppm.log10()));
            (name(drift), points.collect())
        })
        .filter(|(_, points): &(String, Vec<_>)| !points.is_empty())
        .collect();
    plot("Overlapping Allan deviation", "seconds", "ppm", &lines, true)
}
