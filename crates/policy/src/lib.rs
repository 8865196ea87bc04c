//! Policies: their data model, their meaning, and their parser.
//!
//! Read in this order: [`model`] (the policy as plain data, in which every value is valid),
//! [`pattern`] (the actions, scopes and resources of rules), [`mod@reference`] (the reference
//! evaluator: slow, and written to be obviously right), [`canonical`] (the form in which paths and
//! hosts are compared with rules), then [`load()`]: it reads the files as YAML (by the crate
//! [`document`]), parses them, resolves names and reports [`Problem`](document::Problem)s, with
//! `hints` for keys of other systems. [`cases`] has the test cases of a policy, and [`written`]
//! writes values as YAML.
//!
//! This crate does no I/O: the caller provides the bytes of a policy's files as a [`Files`].

pub mod canonical;
pub mod cases;
mod hints;
pub mod ids;
mod json;
mod key_url;
pub mod model;
mod parse;
pub mod pattern;
pub mod reference;
pub mod written;

pub use key_url::KeyUrl;
pub use model::Policy;
pub use parse::unresolved::{NameRef, UnresolvedGrant};
pub use parse::{Loaded, Parsed, api_keys, htpasswd, load, parse};
pub use reference::{AccessRequest, Decision};
