//! Policies: their data model, their meaning, and their parser.
//!
//! Read in this order: [`model`] (the policy as plain data, in which every value is valid), [`pattern`] (what a rule
//! matches), [`reference`] (the reference evaluator: slow, and written to be obviously right), [`canonical`] (the
//! canonical form in which paths and hosts are compared with rules), then the parser ([`load`]) with its [`problem`]s,
//! and [`cases`].
//!
//! This crate does no I/O: the caller provides the bytes of a policy's files as a [`Files`].

pub mod canonical;
pub mod cases;
pub mod decision;
pub mod ids;
mod key_url;
mod load;
pub mod model;
pub mod pattern;
pub mod problem;
pub mod reference;
mod report;
mod yaml;

pub use decision::{Decision, Question};
pub use key_url::KeyUrl;
pub use load::{Files, Loaded, MapFiles, Source, htpasswd, load, load_with};
pub use model::Policy;
pub use problem::{Place, Problem, Severity};
