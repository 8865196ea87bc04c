//! The tests of this crate, in one program.

mod cel;
mod language;
mod limits;
