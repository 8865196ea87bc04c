//! The privileges of a search cluster (OpenSearch): which actions a request performs on which indices, and whether the
//! roles of its subject permit them.
//!
//! Two halves meet in [`Need`]: [`read`] reads a request (method, path, query, body) into needs, the other decides needs
//! with the cluster's own role files.

#![deny(clippy::wildcard_enum_match_arm)]

mod action;
mod body;
mod date_math;
mod expression;
mod json;
mod lookups;
mod need;
mod parameters;
mod problem;
mod reading;
mod request;
mod routes;

pub use action::Action;
pub use expression::{Expression, Options, Part, Parts, matches};
pub use need::{Need, Target};
pub use problem::Problem;
pub use reading::{Request, RequestBody};
pub use request::read;
