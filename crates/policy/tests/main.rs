//! The tests of this crate, in one program: each of its own would be linked again with all that the
//! crate uses.

mod cases;
mod example;
mod htpasswd;
mod limits;
mod pages;
mod problems;
mod properties;
mod shipped;
