//! The tests of this crate, in one program: each of its own would be linked again with all that the
//! crate uses.

mod agreement;
mod allocation;
mod conditions;
mod hostile;
mod patterns;
mod properties;
