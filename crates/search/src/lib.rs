//! The privileges of a search cluster (OpenSearch): which actions a request performs on which
//! indices, and whether the roles of its subject permit them.
//!
//! [`read`] reads a request into needs: each [`Need`] is a list of actions and their [`Target`].
//! [`Privileges`], compiled from the cluster's own role files, decides whether a subject may
//! perform them. Its [`Answer`] has the [`Verdict`] and the [`Missing`] privileges, with at most
//! twenty names for each action of a need.
//!
//! The module [`explain`] is for people, and nothing that decides uses it.

#![deny(clippy::wildcard_enum_match_arm)]

mod action;
mod action_set;
mod answer;
mod body;
mod bulk;
mod compiled;
mod concrete;
pub mod config;
mod date_math;
pub mod explain;
mod expression;
mod filtering;
mod groups;
mod inventory;
mod json;
mod lookups;
mod narrow;
mod need;
mod parameters;
mod pattern;
mod problem;
mod reading;
mod request;
mod resolve;
mod routes;
mod settings;
mod steps;
mod subject;
mod tenants;

pub use action::Action;
pub use answer::{
    Answer, Filter, MAX_FILTERS, MAX_MISSING, Missing, Part as PermittedPart, Reason, Verdict,
};
pub use bulk::{DeniedItem, PermittedItems, permitted_items, with_denied};
pub use compiled::{Caller, Privileges};
pub use config::{Dashboards, SecurityConfig, is_builtin_role};
pub use expression::{Expression, Options, Part, matches};
pub use groups::ActionGroups;
pub use inventory::{Inventory, InventoryBuilder, Kind};
pub use narrow::narrowed;
pub use need::{Need, Target};
pub use parameters::deciding_query;
pub use pattern::{Pattern, RegexError};
pub use problem::Problem;
pub use reading::{Request, RequestBody};
pub use request::{depends_on_body, read};
pub use settings::EvaluationSettings;
pub use steps::Steps;
pub use subject::Subject;
