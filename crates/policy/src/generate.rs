//! Policies and requests from a seed, for tests and benchmarks.
