//! The algorithms: textbook rules, sans-IO.
