//! How far a long run is: a bar on a terminal, a few lines elsewhere.

use crate::outcome::Talk;
use compasso_checker::many;
use compasso_scenario::{Action, Step, format_duration};
use compasso_stage::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::{Duration, Instant};

/// What takes less needs no bar.
pub const BAR_AFTER: Duration = Duration::from_secs(2);

/// Shows the progress of one performance.
pub struct Display {
    bar: ProgressBar,
    talk: Talk,
    /// When a bar is worth its while, if it is not at once.
    from: Option<Instant>,
}

impl Display {
    /// A bar, unless nobody wants to see one.
    pub fn new(talk: Talk, title: &str) -> Display {
        let bar = ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr());
        if talk.quiet {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        if let Ok(style) = ProgressStyle::with_template("{prefix} {wide_bar} {msg}") {
            bar.set_style(style);
        }
        bar.set_prefix(title.to_owned());
        Display { bar, talk, from: None }
    }

    /// A bar, once what it shows has taken two seconds.
    pub fn later(talk: Talk, title: &str) -> Display {
        let display = Display::new(talk, title);
        display.bar.set_draw_target(ProgressDrawTarget::hidden());
        Display { from: Some(Instant::now() + BAR_AFTER), ..display }
    }

    /// Takes one report.
    pub fn show(&self, progress: &Progress) {
        let due = self.from.is_some_and(|from| from <= Instant::now());
        if due && !self.talk.quiet && self.bar.is_hidden() {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        match progress {
            Progress::Booting { booted, of } => self.bar.set_message(format!("{booted} of {of} boards have booted")),
            Progress::Running { at, of, events } => {
                self.bar.set_length(of.as_millis() as u64);
                self.bar.set_position(at.as_millis() as u64);
                self.bar.set_message(format!(
                    "{} of {} s, {}",
                    at.as_secs(),
                    of.as_secs(),
                    many(*events as u64, "event")
                ));
            }
            // A workload's steps are many, and nobody announces them.
            Progress::Performed(Step { action: Action::Edit { .. } | Action::Build { .. }, .. }) => {}
            Progress::Performed(step) => {
                let line = format!("  at {:>6}: {}", format_duration(step.at), describe(&step.action));
                self.note(&line);
            }
            Progress::Draining { open } => self.bar.set_message(format!("waiting for the last {open} requests")),
        }
    }

    /// Says a line above the bar.
    pub fn note(&self, line: &str) {
        note(&self.bar, self.talk, line);
    }

    /// Takes the bar away.
    pub fn finish(self) {
        self.bar.finish_and_clear();
    }
}

/// Says a line above a bar, or without one.
pub fn note(bar: &ProgressBar, talk: Talk, line: &str) {
    if bar.is_hidden() {
        talk.say(line);
    } else {
        bar.println(line);
    }
}

fn describe(action: &Action) -> String {
    match action {
        Action::Crash(id) => format!("node {id} is killed"),
        Action::Restart(id) => format!("node {id} boots again"),
        Action::Pause(id) => format!("node {id} is stopped"),
        Action::Resume(id) => format!("node {id} goes on"),
        Action::Partition(sides) => format!("the network is split: {sides:?}"),
        Action::Heal => "the network is whole again".to_owned(),
        Action::Lock { node, hold, .. } => format!("node {node} asks to enter for {}", format_duration(*hold)),
        Action::Elect(id) => format!("node {id} calls an election"),
        Action::SetSkew { node, ppm } => format!("node {node}'s crystal is bent to {ppm} ppm"),
        Action::DropToken => "the token is thrown away".to_owned(),
        Action::Acquire { node, .. } => format!("node {node} asks for resources"),
        Action::Release { node, .. } => format!("node {node} gives resources back"),
        Action::Claims { node, .. } => format!("node {node} says what it will need"),
        Action::Snapshot { node, number } => format!("node {node} takes snapshot {number}"),
        Action::Label { node, .. } => format!("node {node} notes a label"),
        Action::Send { from, to, .. } => format!("node {from} sends a label to {to}"),
        Action::Leap(by) => format!("a leap second is announced: {by:+}"),
        Action::TimeServer { host, serves } => {
            let how = if *serves { "again" } else { "no more" };
            format!("{} serves time {how}", host.map_or("the host".to_owned(), |host| format!("host {host}")))
        }
        Action::Lie { host, lie } => format!("host {host} {lie}"),
        Action::Read(node) => format!("node {node} reads the cached value"),
        Action::Write(node) => format!("node {node} writes the cached value"),
        Action::Transaction { .. } => "a transaction begins".to_owned(),
        Action::Edit { node, .. } => format!("node {node} saves a source"),
        Action::Build { node, .. } => format!("node {node} builds an object"),
    }
}
