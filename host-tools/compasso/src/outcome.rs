//! How a call ends, and how it says so.

use serde_json::{Value, json};
use std::io::{ErrorKind, Write};

/// How a call ended. Where several apply, the one with the higher rank counts: a broken stage
/// never poses as a verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Every promise was kept.
    Held,
    /// A property was violated, or an expectation missed.
    Violated,
    /// Bad usage or input.
    BadInput,
    /// The environment lacks something or failed.
    Environment,
    /// A node crashed that no step crashed.
    NodeCrashed,
    /// The run did not end in time.
    Overdue,
}

impl Outcome {
    /// The exit status.
    pub fn status(self) -> u8 {
        match self {
            Outcome::Held => 0,
            Outcome::Violated => 1,
            Outcome::BadInput => 2,
            Outcome::Environment => 3,
            Outcome::NodeCrashed => 4,
            Outcome::Overdue => 5,
        }
    }

    fn rank(self) -> u8 {
        match self {
            Outcome::Held => 0,
            Outcome::Violated => 1,
            Outcome::Overdue => 2,
            Outcome::NodeCrashed => 3,
            Outcome::Environment => 4,
            Outcome::BadInput => 5,
        }
    }

    /// The one of both that counts.
    pub fn or(self, other: Outcome) -> Outcome {
        if other.rank() > self.rank() { other } else { self }
    }
}

/// Who listens.
#[derive(Clone, Copy, Debug)]
pub struct Talk {
    /// A machine reads stdout: one document, everything human on stderr.
    pub json: bool,
    /// Nothing but the verdict.
    pub quiet: bool,
}

impl Talk {
    /// Something a person may want to know.
    pub fn say(self, line: &str) {
        if !self.quiet {
            anstream::eprintln!("{line}");
        }
    }

    /// The result for a person: on stdout, unless a machine reads there.
    pub fn show(self, text: &str) {
        if self.json {
            anstream::eprintln!("{text}");
        } else {
            print(&format!("{text}\n"));
        }
    }

    /// The result for a machine.
    pub fn document(self, value: &Value) {
        if self.json {
            print(&format!("{value:#}\n"));
        }
    }

    /// One clear line on stderr, and a document where a machine listens.
    pub fn fail(self, outcome: Outcome, line: &str) -> Outcome {
        anstream::eprintln!("compasso: {line}");
        self.document(&failure(outcome, line));
        outcome
    }
}

/// Writes to stdout. A reader that has gone away is no error; a full disk ends the call.
pub fn print(text: &str) {
    let mut out = anstream::stdout();
    if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush())
        && error.kind() != ErrorKind::BrokenPipe
    {
        eprintln!("compasso: cannot write to stdout: {error}");
        std::process::exit(i32::from(Outcome::Environment.status()));
    }
}

/// The document of a call that has no result.
pub fn failure(outcome: Outcome, line: &str) -> Value {
    json!({ "error": line, "exit": outcome.status() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_stage_never_poses_as_a_verdict() {
        let ranked = [Outcome::Held, Outcome::Violated, Outcome::Overdue, Outcome::NodeCrashed, Outcome::Environment];
        for (at, lower) in ranked.iter().enumerate() {
            for higher in &ranked[at..] {
                assert_eq!(lower.or(*higher), *higher);
                assert_eq!(higher.or(*lower), *higher);
            }
        }
        assert_eq!(ranked.map(Outcome::status), [0, 1, 5, 4, 3]);
    }
}
