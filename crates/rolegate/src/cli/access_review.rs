//! The arguments of `rolegate access-review`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use identity::UnixTime;

use super::PublicKeys;
use super::policy::{DEFAULT, POLICY_FLAG};

/// The arguments of `access-review`.
#[derive(Args, Debug)]
pub struct AccessReviewArgs {
    /// The decision logs, one JSON line for each decision; `-` reads standard input.
    #[arg(value_name = "LOG", required = true)]
    pub(crate) logs: Vec<PathBuf>,
    /// The policy: a file, a folder that contains a `policy.yaml`, or a bundle. By default
    /// `./policy.yaml`.
    #[arg(id = POLICY_FLAG, long = "policy", env = "ROLEGATE_POLICY", value_name = "POLICY")]
    policy: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) public_keys: PublicKeys,
    /// The first day of the review (UTC), or its first time (RFC 3339). Older lines are left out.
    #[arg(long, value_name = "DATE", value_parser = day_or_time)]
    pub(crate) since: Option<UnixTime>,
    /// Output format.
    #[arg(long, visible_alias = "format", value_enum, default_value_t)]
    pub(crate) output: AccessFormat,
}

/// Output format of `access-review`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum AccessFormat {
    /// Text for people.
    #[default]
    Text,
    /// One JSON value, for programs.
    Json,
    /// Markdown, for a page or an issue.
    Markdown,
    /// A table for spreadsheets, with a line for each grant and rule.
    Csv,
}

impl AccessReviewArgs {
    /// The policy that is given, or the default.
    pub(crate) fn policy(&self) -> &Path {
        self.policy.as_deref().unwrap_or(Path::new(DEFAULT))
    }
}

fn day_or_time(text: &str) -> Result<UnixTime, &'static str> {
    let start_of_day = format!("{text}T00:00:00Z");
    policy::cases::parse_time(text)
        .or_else(|| policy::cases::parse_time(&start_of_day))
        .ok_or("not a date: write one such as `2026-01-31` or `2026-01-31T08:00:00Z`")
}
