//! What the fuzzers run.
