//! Tests of the hash formats.
