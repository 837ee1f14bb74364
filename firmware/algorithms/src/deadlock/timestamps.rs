//! Deadlock prevention by timestamps: every wait points the same way in time, so no circle can close.
//! Wait-die: an older transaction waits for a younger one; a younger one gives up and tries again.
//! Wound-wait: an older transaction makes the younger holder give up; a younger one waits.
//! Nobody starves: whoever gives up keeps the time of its first attempt, and becomes the oldest in the end.

use compasso_wire::locks::Age;

/// What becomes of a request for a resource that another transaction holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The requester waits.
    Wait,
    /// The requester gives up.
    Die,
    /// The requester waits, and the holder gives up.
    Wound,
}

/// "The older waits, the younger dies."
#[must_use]
pub fn wait_die(requester: Age, holder: Age) -> Verdict {
    if requester < holder { Verdict::Wait } else { Verdict::Die }
}

/// "The older wounds, the younger waits."
#[must_use]
pub fn wound_wait(requester: Age, holder: Age) -> Verdict {
    if requester < holder { Verdict::Wound } else { Verdict::Wait }
}

#[cfg(test)]
mod tests {
    use super::*;
    use compasso_wire::NodeId;

    #[test]
    fn the_older_waits_or_wounds_and_the_younger_dies_or_waits() {
        let age = |stamp, node| Age { stamp, node: NodeId(node) };
        let (old, young) = (age(10, 9), age(20, 1));
        assert_eq!((wait_die(old, young), wait_die(young, old)), (Verdict::Wait, Verdict::Die));
        assert_eq!((wound_wait(old, young), wound_wait(young, old)), (Verdict::Wound, Verdict::Wait));
        assert_eq!(wait_die(age(10, 1), age(10, 2)), Verdict::Wait, "of two that began together the lower id is older");
    }
}
