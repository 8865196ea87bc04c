//! The commands of `rolegate`, each in its own file, and the helpers that they share.

pub(crate) mod bundle;
pub(crate) mod check;
mod cluster_usage;
pub(crate) mod completions;
mod decision_lines;
mod denials;
pub(crate) mod diff;
mod edited_file;
pub(crate) mod explain;
mod fetched;
pub(crate) mod hash_password;
pub(crate) mod health;
pub(crate) mod import;
mod input;
pub(crate) mod lint_envoy;
mod logged;
pub(crate) mod new_api_key;
mod new_file;
pub(crate) mod passwd;
mod policy_files;
pub(crate) mod replay;
mod request;
pub(crate) mod schema;
pub(crate) mod suggest;
pub(crate) mod test;
pub(crate) mod what_can;
pub(crate) mod who_can;
