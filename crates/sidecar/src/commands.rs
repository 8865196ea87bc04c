//! The commands of `rolegate`, one file each.

mod body;
mod bundle;
mod caller;
mod check;
mod completions;
mod decision_lines;
mod diff;
mod explain;
mod fetched;
mod hash_password;
mod health;
mod import;
mod loaded;
mod logged;
mod replay;
mod schema;
mod serve;
mod suggest;
mod test;
mod what_can;
mod who_can;

pub(crate) use bundle::bundle;
pub(crate) use check::check;
pub(crate) use completions::completions;
pub(crate) use diff::diff;
pub(crate) use explain::explain;
pub(crate) use hash_password::hash_password;
pub(crate) use health::health;
pub(crate) use import::import;
pub(crate) use replay::replay;
pub(crate) use schema::schema;
pub(crate) use serve::serve;
pub(crate) use suggest::suggest;
pub(crate) use test::test;
pub(crate) use what_can::what_can;
pub(crate) use who_can::who_can;
