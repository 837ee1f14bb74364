//! `compasso report`: the page of a run, made again from its folder.

use crate::{
    cli::ReportArgs,
    outcome::{Outcome, Talk},
};
use compasso_checker::{TraceEvent, trace::read_file};
use serde_json::{Value, json};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// The page's name in a run's folder.
const NAME: &str = "report.html";

/// Makes the report of a recorded run.
pub fn report(args: &ReportArgs) -> Outcome {
    let talk = Talk { json: args.json, quiet: args.quiet };
    let (trace, summary) = match read(&args.run) {
        Ok(read) => read,
        Err(line) => return talk.fail(Outcome::BadInput, &line),
    };
    match write(&args.run, &trace, &summary) {
        Ok(page) => {
            talk.document(&json!({ "report": page.display().to_string(), "exit": Outcome::Held.status() }));
            talk.show(&format!("written to {}", page.display()));
            Outcome::Held
        }
        Err(error) => {
            talk.fail(Outcome::Environment, &format!("cannot write {}: {error}", args.run.join(NAME).display()))
        }
    }
}

/// Writes the page into a run's folder.
pub fn write(folder: &Path, trace: &[TraceEvent], summary: &Value) -> io::Result<PathBuf> {
    let page = folder.join(NAME);
    fs::write(&page, compasso_report::report(trace, summary))?;
    Ok(page)
}

fn read(run: &Path) -> Result<(Vec<TraceEvent>, Value), String> {
    if !run.is_dir() {
        return Err(format!("{}: expected the folder of a run, like runs/concert-7-sim", run.display()));
    }
    let trace = read_file(run.join("trace.jsonl")).map_err(|error| error.to_string())?;
    let file = run.join("summary.json");
    let bytes = fs::read(&file).map_err(|error| format!("{}: cannot be read: {error}", file.display()))?;
    let summary: Value = serde_json::from_slice(&bytes)
        .map_err(|error| format!("{}:{}: expected one JSON document: {error}", file.display(), error.line()))?;
    match &summary {
        Value::Object(map) if map.contains_key("violations") => Ok((trace, summary)),
        _ => Err(format!("{}: expected the summary of a run", file.display())),
    }
}
