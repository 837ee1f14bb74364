//! The simulator stage: the same node on a seeded event queue.
