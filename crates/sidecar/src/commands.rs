//! The commands that read a policy, say something about it and end.

mod check;
mod serve;

pub use check::check;
pub use serve::serve;
