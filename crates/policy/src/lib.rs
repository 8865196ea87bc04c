//! What a policy is and what it means.
//!
//! Read in this order: [`model`] (the policy as plain data, every value in it valid), [`pattern`] (what a rule
//! matches), [`reference`] (the meaning of a policy, slow and obvious), [`canonical`] (the one reading of a path that
//! rules and requests are compared in), then the parser ([`load`]) with its [`problem`]s, and [`cases`].
//!
//! This crate does no I/O: the bytes of a policy's files come from a [`Files`] that the caller provides.

pub mod canonical;
pub mod cases;
pub mod generate;
mod key_url;
mod load;
pub mod model;
pub mod pattern;
pub mod problem;
pub mod reference;
mod report;
mod yaml;

pub use key_url::KeyUrl;
pub use load::{Files, Loaded, MapFiles, Source, htpasswd, load, load_with};
pub use model::Policy;
pub use problem::{Place, Problem, Severity};
