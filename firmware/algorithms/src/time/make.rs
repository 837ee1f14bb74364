//! What comparable stamps are good for: `make` builds an object anew only if its source is younger.
//! Promise: no rebuild is missed, by synchronized stamps and by logical ones. A rebuild too many is allowed.
//! Assumes that an object is stamped with the moment when its builder began to ask for the source: whatever was
//! saved later than the copy that it got is then later than that stamp.
//!
//! Raw clocks that disagree promise nothing: that is the example in the book.

use compasso_wire::make::{Shared, Stamps};

/// Whether to build anew, by each kind of stamp.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Verdicts {
    /// By the boards' own clocks.
    pub raw: bool,
    /// By cluster time. Where the two moments cannot be told apart, it is built.
    pub synchronized: bool,
    /// By Lamport time.
    pub logical: bool,
}

/// An object: each kind of stamp has one of its own, since each builds it at other times.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Object {
    raw_us: Option<i64>,
    shared: Option<Shared>,
    lamport: Option<u64>,
    /// The life of the node that had the source.
    source: u32,
}

impl Object {
    /// Decides for a source that was saved at `saved`, and builds where it must; `began` is when the builder asked.
    pub fn build(&mut self, saved: &Stamps, began: &Stamps) -> Verdicts {
        let reborn = self.source != saved.incarnation;
        let verdicts = Verdicts {
            raw: self.raw_us.is_none_or(|object_us| saved.raw_us >= object_us),
            synchronized: !surely_before(saved.shared, self.shared),
            // A boot follows all earlier lives, but its Lamport clock begins anew.
            logical: reborn || self.lamport.is_none_or(|object| saved.lamport > object),
        };
        self.source = saved.incarnation;
        if verdicts.raw {
            self.raw_us = Some(began.raw_us);
        }
        if verdicts.synchronized {
            self.shared = began.shared;
        }
        if verdicts.logical {
            self.lamport = Some(began.lamport);
        }
        verdicts
    }
}

/// The intervals say so: they are of one time, and do not meet.
fn surely_before(one: Option<Shared>, other: Option<Shared>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.term == other.term && one.latest < other.earliest,
        (None, _) | (_, None) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use compasso_wire::{ClusterTime, Term};

    fn at(raw_us: i64, shared_us: i64, lamport: u64) -> Stamps {
        let (earliest, latest) = (ClusterTime(shared_us - 3), ClusterTime(shared_us + 3));
        Stamps { raw_us, shared: Some(Shared { earliest, latest, term: Term(7) }), incarnation: 1, lamport }
    }

    #[test]
    fn a_slow_editors_clock_makes_the_book_miss_the_rebuild_and_the_other_stamps_do_not() {
        let mut object = Object::default();
        let first = object.build(&at(2100, 2100, 10), &at(2144, 2110, 20));
        assert_eq!(first, Verdicts { raw: true, synchronized: true, logical: true });
        // The book's example: output.o was made at 2144, and output.c saved after that, at 2143 of a slower clock.
        let second = object.build(&at(2143, 2150, 31), &at(2180, 2160, 41));
        assert_eq!(second, Verdicts { raw: false, synchronized: true, logical: true });
    }

    #[test]
    fn what_was_not_saved_again_is_not_built_again() {
        let mut object = Object::default();
        let saved = at(100, 100, 10);
        object.build(&saved, &at(120, 120, 20));
        assert_eq!(
            object.build(&saved, &at(140, 140, 30)),
            Verdicts { raw: false, synchronized: false, logical: false }
        );
    }

    #[test]
    fn whoever_cannot_tell_the_two_apart_builds() {
        let mut near = Object::default();
        near.build(&at(100, 100, 10), &at(120, 104, 20));
        assert!(near.build(&at(100, 100, 10), &at(140, 140, 30)).synchronized, "the intervals meet");
        let mut object = Object::default();
        object.build(&at(100, 100, 10), &at(120, 120, 20));
        let mut other_term = at(100, 100, 10);
        other_term.shared = other_term.shared.map(|shared| Shared { term: Term(8), ..shared });
        assert!(object.build(&other_term, &at(140, 140, 30)).synchronized);
        let unset = Stamps { shared: None, ..at(100, 100, 10) };
        assert!(object.build(&unset, &at(160, 160, 40)).synchronized);
    }

    #[test]
    fn a_reborn_source_is_younger_whatever_its_lamport_clock_says() {
        let mut object = Object::default();
        object.build(&at(100, 100, 10), &at(120, 120, 20));
        let reborn = Stamps { incarnation: 2, ..at(130, 130, 3) };
        assert!(object.build(&reborn, &at(140, 140, 30)).logical);
    }
}
