//! Files: a source is saved on one board, and an object built from it on another.
//!
//! The builder asks for the source when it begins, and stamps the object with that moment.

use crate::node::Node;
use compasso_algorithms::time::make::Object;
use compasso_wire::{
    Event, Instant, NodeId, Payload, Term,
    config::{ClockChoice, TimeSource},
    limits::FILES_MAX,
    make::{MakeMessage, Shared, Stamps},
};

/// A question for a source.
#[derive(Clone, Copy, Debug)]
struct Asked {
    number: u32,
    source: NodeId,
    began: Stamps,
}

/// What a node has of one file.
#[derive(Clone, Copy, Default, Debug)]
struct File {
    saved: Option<Stamps>,
    object: Object,
    asked: Option<Asked>,
}

/// The files of a node.
#[derive(Default, Debug)]
pub(crate) struct Files {
    files: [File; FILES_MAX],
    questions: u32,
}

impl Node {
    fn stamps(&self, now: Instant) -> Stamps {
        let term = match self.config.time_source {
            TimeSource::Host => Term::default(),
            TimeSource::Coordinator => self.membership.promised(),
        };
        Stamps {
            raw_us: self.unset_clock(now).0,
            shared: self.shared_interval(now).map(|within| Shared {
                earliest: within.earliest,
                latest: within.latest,
                term,
            }),
            incarnation: self.config.incarnation,
            lamport: self.journal.stamps().0,
        }
    }

    /// Saves a source.
    pub(crate) fn edit(&mut self, now: Instant, file: u8) {
        self.record(now, Event::Edited { file });
        let stamps = self.stamps(now);
        if let Some(file) = self.files.files.get_mut(usize::from(file)) {
            file.saved = Some(stamps);
        }
    }

    /// Builds the object of a source that `source` has, if it must.
    pub(crate) fn build(&mut self, now: Instant, file: u8, source: NodeId) {
        let began = self.stamps(now);
        self.files.questions += 1;
        let number = self.files.questions;
        if let Some(file) = self.files.files.get_mut(usize::from(file)) {
            file.asked = Some(Asked { number, source, began });
        }
        self.post(now, source, Payload::Make(MakeMessage::Ask { file, number }), None);
    }

    pub(crate) fn handle_make(&mut self, now: Instant, from: NodeId, message: MakeMessage) {
        match message {
            MakeMessage::Ask { file, number } => {
                let saved = self.files.files.get(usize::from(file)).and_then(|file| file.saved);
                self.post(now, from, Payload::Make(MakeMessage::Source { file, number, saved }), None);
            }
            MakeMessage::Source { file, number, saved } => self.compare(now, from, file, number, saved),
        }
    }

    fn compare(&mut self, now: Instant, from: NodeId, file: u8, number: u32, saved: Option<Stamps>) {
        let Some(kept) = self.files.files.get_mut(usize::from(file)) else { return };
        let Some(asked) = kept.asked.take_if(|asked| asked.number == number && asked.source == from) else { return };
        let Some(saved) = saved else { return }; // Whoever rebooted has no source: there is nothing to build.
        let verdicts = kept.object.build(&saved, &asked.began);
        self.record(
            now,
            Event::Built {
                file,
                source: from,
                source_incarnation: saved.incarnation,
                edit: saved.lamport,
                raw: verdicts.raw,
                synchronized: (self.config.clock != ClockChoice::None).then_some(verdicts.synchronized),
                logical: verdicts.logical,
            },
        );
    }
}
