//! Scenario files: one experiment, performed on every stage.
