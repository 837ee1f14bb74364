//! The results, for people and for machines.

use crate::{
    limits::Verdict,
    measure::{HOLDOVER_AT_S, SETTLED_S},
    peer::Contender,
    run::{Results, Row},
};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// One table a family.
#[must_use]
pub fn render(results: &[Results], seeds: &[u64], contenders: &[Contender], verdicts: &[Verdict]) -> String {
    let mut text = String::new();
    for of in results {
        let _ = writeln!(text, "\n{}: {}", of.family.name, of.family.about);
        let _ = writeln!(
            text,
            "  {:<20} {:>9} {:>9} {:>9} {:>9} {:>9} {:>10} {:>7} {:>7}   {:>26}",
            "µs",
            "median",
            "p99",
            "most",
            "there, s",
            "backward",
            "bound lies",
            "width",
            "certain",
            "holdover 60 / 600 / 1800 s"
        );
        for row in &of.rows {
            let _ = writeln!(text, "  {}", line(row));
        }
        let mut ratios = Vec::new();
        if let Some(best) = of.best_rival() {
            ratios.push(format!("{:.2} of the best peer's ({})", of.ours_over(best).unwrap_or(f64::NAN), best.peer));
        }
        if let Some(oracle) = of.row("oracle") {
            ratios.push(format!("{:.2} of the oracle's", of.ours_over(oracle).unwrap_or(f64::NAN)));
        }
        let _ = writeln!(text, "  p99 of ours is {}", ratios.join(" and "));
    }
    let _ = writeln!(
        text,
        "\nMedian over {}, errors from {SETTLED_S} s on; backward steps and lies of the bound summed up. Set up with:",
        listed(seeds)
    );
    for contender in contenders {
        let _ = writeln!(text, "  {:<20} {}", contender.name, contender.parameters);
    }
    text.push('\n');
    for verdict in verdicts {
        let mark = match (verdict.judged, verdict.held()) {
            (false, _) => "--    ",
            (true, true) => "held  ",
            (true, false) => "BROKEN",
        };
        let got = verdict.got.map_or("nothing".to_owned(), figure);
        let _ = writeln!(text, "{mark}  {:<6} {} {}: {got}", verdict.family, verdict.what, limit(verdict.limit));
    }
    text
}

fn limit(limit: f64) -> String {
    if limit == 0.0 { "= 0".to_owned() } else { format!("≤ {limit}") }
}

fn listed(seeds: &[u64]) -> String {
    match seeds {
        [] => "no seed".to_owned(),
        [one] => format!("seed {one}"),
        [first, .., last] => format!("seeds {first} to {last}"),
    }
}

fn line(row: &Row) -> String {
    let of = &row.measured;
    let none = || "-".to_owned();
    format!(
        "{:<20} {:>9} {:>9} {:>9} {:>9} {:>9} {:>10} {:>7} {:>7}   {:>26}",
        row.peer,
        figure(of.median_us),
        figure(of.p99_us),
        figure(of.max_us),
        of.converged_s.map_or("never".to_owned(), |s| format!("{s:.1}")),
        of.backward_steps,
        match (of.bound_violations, of.certain_violations) {
            (None, _) => none(),
            (Some(count), None) => count.to_string(),
            (Some(narrow), Some(certain)) => format!("{narrow} + {certain}"),
        },
        of.half_width_ratio.map_or_else(none, |ratio| format!("{ratio:.3}")),
        of.certain_ratio.map_or_else(none, |ratio| format!("{ratio:.2}")),
        of.holdover_us.map(figure).join(" / "),
    )
}

/// Three digits that count.
fn figure(value: f64) -> String {
    if !value.is_finite() {
        "∞".to_owned()
    } else if value >= 100.0 {
        format!("{value:.0}")
    } else if value >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

/// The document; `exit` is the exit status that goes with it.
#[must_use]
pub fn document(results: &[Results], seeds: &[u64], contenders: &[Contender], verdicts: &[Verdict]) -> Value {
    let family = |of: &Results| {
        json!({
            "name": of.family.name,
            "about": of.family.about,
            "rows": of.rows.iter().map(row_document).collect::<Vec<_>>(),
            "best_peer": of.best_rival().map(|best| best.peer),
            "ours_over_best_peer": of.best_rival().and_then(|best| number(of.ours_over(best)?)),
            "ours_over_oracle": of.row("oracle").and_then(|oracle| number(of.ours_over(oracle)?)),
        })
    };
    let verdict = |of: &Verdict| {
        json!({
            "family": of.family, "what": of.what, "got": of.got.and_then(number), "limit": of.limit,
            "judged": of.judged, "ok": of.held(),
        })
    };
    let parameters: Map<String, Value> =
        contenders.iter().map(|one| (one.name.to_owned(), json!(one.parameters))).collect();
    json!({
        "families": results.iter().map(family).collect::<Vec<_>>(),
        "seeds": seeds,
        "parameters": parameters,
        "verdicts": verdicts.iter().map(verdict).collect::<Vec<_>>(),
        "exit": u8::from(verdicts.iter().any(|verdict| !verdict.held())),
    })
}

fn row_document(row: &Row) -> Value {
    let of = &row.measured;
    let held = HOLDOVER_AT_S.iter().zip(of.holdover_us);
    let holdover: Map<String, Value> = held.map(|(at, us)| (at.to_string(), json!(number(us)))).collect();
    json!({
        "peer": row.peer,
        "median_us": number(of.median_us),
        "p99_us": number(of.p99_us),
        "max_us": number(of.max_us),
        "converged_s": of.converged_s,
        "backward_steps": of.backward_steps,
        "bound_violations": of.bound_violations,
        "half_width_ratio": of.half_width_ratio.and_then(number),
        "certain_violations": of.certain_violations,
        "certain_half_width_ratio": of.certain_ratio.and_then(number),
        "holdover_us": holdover,
    })
}

/// To a thousandth; JSON knows no infinity.
fn number(value: f64) -> Option<f64> {
    value.is_finite().then(|| (value * 1_000.0).round() / 1_000.0)
}
