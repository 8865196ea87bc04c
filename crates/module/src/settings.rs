//! The configuration of the filter and of a route, as JSON: Envoy passes a `Struct` as JSON, and a
//! string as it is.
//!
//! Settings that `rolegate serve` also has are declared for both in [`runtime::settings`] and
//! [`server::admin`], with the same names, values and messages. The defaults are those of `rolegate
//! serve`, but for `admin`, which is `off`.

use std::path::Path;
use std::time::Duration;

use clap::{ArgAction, Args, Command, FromArgMatches};
use document::{Place, Problem, Reader};
use runtime::settings::{Entry, HashingSettings, PolicySettings, command_of, read_entries};
use runtime::units;
use serde::Deserialize;
use server::admin::AdminSettings;

/// The configuration of a filter.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub(crate) struct FilterSettings {
    /// The policy, and how it is kept current.
    #[command(flatten)]
    pub(crate) policy: PolicySettings,

    /// The admin pages.
    #[command(flatten)]
    pub(crate) admin: AdminSettings,

    /// How passwords are hashed.
    #[command(flatten)]
    pub(crate) hashing: HashingSettings,

    /// Maximum time that a request waits for the verification of its password; then it is denied
    /// with 503.
    #[arg(long, default_value = "2s", value_parser = units::positive_duration)]
    pub(crate) hash_timeout: Duration,

    /// Maximum size of a body that a decision depends on, in bytes; a larger one gets 413. It is
    /// buffered as a whole.
    #[arg(long, default_value = "10MiB", value_parser = units::size)]
    pub(crate) max_request_body: usize,

    /// Whether requests get dynamic metadata in the namespace `rolegate`, for access logs and later
    /// filters.
    #[arg(long, default_value_t = false, action = ArgAction::Set)]
    pub(crate) metadata: bool,
}

/// The configuration of a route or virtual host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RouteSettings {
    /// `disabled: true`: its requests are not authorized.
    Disabled,
    /// Another policy.
    Policy(Box<FilterSettings>),
}

/// Why a configuration cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SettingsError {
    /// There is none.
    #[error("`filter_config` is missing: it needs at least `policy`")]
    Missing,
    /// It has these problems. Their places are not shown: Envoy has made the text from YAML.
    #[error("{}", .0.iter().map(without_place).collect::<Vec<_>>().join("; "))]
    Wrong(Vec<Problem>),
    /// The configuration of a route says neither that it is disabled nor which policy it has.
    #[error("`disabled: false` says nothing: leave it out, or name a `policy`")]
    NotDisabled,
    /// Envoy has not turned the `Struct` of a route into JSON: 1.38 does so with those of filters
    /// only.
    #[error(
        "this Envoy does not read the `Struct` of a route: write its `filter_config` as a \
         `google.protobuf.StringValue` with JSON"
    )]
    NotJson,
}

impl FilterSettings {
    /// Reads the configuration of a filter.
    ///
    /// # Errors
    /// Every problem of it.
    pub(crate) fn read(config: &[u8]) -> Result<Self, SettingsError> {
        if config.is_empty() {
            return Err(SettingsError::Missing);
        }
        let file = Path::new("filter_config");
        let mut reader = Reader::new(file.into());
        // JSON is YAML.
        let root = reader.parse(config);
        let entries =
            root.map(|root| read_entries(&mut reader, &root, "`filter_config`", &command()));
        let mut problems = reader.finish();
        let entries = entries.unwrap_or_default();
        if problems.is_empty() && entries.iter().all(|entry| entry.name != "policy") {
            problems.push(Problem::error(Place::start_of(file), "missing setting `policy`"));
        }
        if !problems.is_empty() {
            return Err(SettingsError::Wrong(problems));
        }
        let flags = entries.iter().flat_map(flags);
        let matches = command().no_binary_name(true).try_get_matches_from(flags);
        let settings = matches.and_then(|matches| Self::from_arg_matches(&matches));
        settings.map_err(|error| {
            SettingsError::Wrong(vec![Problem::error(Place::start_of(file), error.to_string())])
        })
    }
}

impl RouteSettings {
    /// Reads the configuration of a route.
    ///
    /// # Errors
    /// Every problem of it.
    pub(crate) fn read(config: &[u8]) -> Result<Self, SettingsError> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Disabled {
            disabled: bool,
        }
        match serde_json::from_slice(config) {
            Ok(Disabled { disabled: true }) => Ok(Self::Disabled),
            Ok(Disabled { disabled: false }) => Err(SettingsError::NotDisabled),
            // A `Struct` in the format of protocol buffers begins with the tag of field 1, the byte
            // 0x0A, which is also a newline. A length follows it, and no `{`.
            Err(_) if config.starts_with(b"\n") && !config.trim_ascii_start().starts_with(b"{") => {
                Err(SettingsError::NotJson)
            }
            Err(_) => Ok(Self::Policy(Box::new(FilterSettings::read(config)?))),
        }
    }
}

/// A command with a flag for each setting.
fn command() -> Command {
    command_of::<FilterSettings>().mut_arg("admin", |arg| arg.default_value("off"))
}

/// The flags that set an entry: a flag for each value.
fn flags(entry: &Entry) -> impl Iterator<Item = String> {
    entry.values.iter().map(|value| format!("--{}={value}", entry.name))
}

fn without_place(problem: &Problem) -> String {
    match &problem.help {
        Some(help) => format!("{}: {help}", problem.message),
        None => problem.message.clone(),
    }
}

#[cfg(test)]
mod tests;
