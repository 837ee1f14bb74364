//! Traces, the properties they must keep, and the summary.
