//! Which decisions are logged and where, and which parts are masked.

use std::path::PathBuf;
use std::str::FromStr;

use authorizer::Reason;
use clap::{Args, ValueEnum};

use super::path_mask::PathMask;
use crate::share::Share;
use crate::units;

/// The settings of the decision log.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
#[command(next_help_heading = "Decision log")]
pub struct DecisionLogSettings {
    /// Which decisions are logged, as one JSON object per line.
    ///
    /// Errors are no decisions: a metric counts them.
    #[arg(id = "decision-log", long = "decision-log", value_enum, default_value_t = DecisionLog::Denied)]
    pub which: DecisionLog,

    /// Where decisions go: `file`, `otlp` or both (`file,otlp`).
    #[arg(
        id = "decision-log-to",
        long = "decision-log-to",
        value_enum,
        value_name = "TO",
        default_value = "file",
        value_delimiter = ','
    )]
    pub to: Vec<DecisionLogTo>,

    /// The file that decisions are appended to.
    ///
    /// If it is renamed or removed, it is created again with the next line.
    #[arg(
        id = "decision-log-file",
        long = "decision-log-file",
        value_name = "FILE",
        default_value = "/dev/stdout"
    )]
    pub file: PathBuf,

    /// Size at which the file is renamed to FILE.1, FILE.1 to FILE.2 and so on.
    ///
    /// By default it is never renamed.
    #[arg(id = "decision-log-max-size", long = "decision-log-max-size", value_name = "SIZE", value_parser = units::size)]
    pub max_size: Option<usize>,

    /// Number of renamed files that are kept, at least 1.
    #[arg(id = "decision-log-keep", long = "decision-log-keep", value_name = "N", default_value = "5", value_parser = units::positive_count)]
    pub keep: u16,

    /// Shares of decisions that are logged, such as `allowed=0.01`.
    ///
    /// NAME is `allowed`, `denied`, or a reason for denials (`bad_password=0.1`), which wins over
    /// `denied`. SHARE is a number from 0 to 1. Without a share, all decisions that `decision-log`
    /// selects are logged.
    #[arg(
        id = "decision-log-sample",
        long = "decision-log-sample",
        value_name = "NAME=SHARE",
        value_delimiter = ','
    )]
    pub sample: Vec<Sample>,

    /// Paths whose segments in braces are logged as `*`, such as `/people/{id}`.
    ///
    /// Paths below them are masked as well.
    #[arg(
        id = "decision-log-mask-path",
        long = "decision-log-mask-path",
        value_name = "PATH",
        value_delimiter = ','
    )]
    pub mask_paths: Vec<PathMask>,

    /// The text that is logged in place of user names.
    #[arg(id = "decision-log-mask-users", long = "decision-log-mask-users", value_enum, default_value_t = MaskUsers::Off)]
    pub mask_users: MaskUsers,

    /// File with the key of the hashes of users, at least 16 bytes.
    ///
    /// Without it each process has a random key, so hashes of different processes differ.
    #[arg(id = "decision-log-mask-key", long = "decision-log-mask-key", value_name = "FILE")]
    pub mask_key: Option<PathBuf>,
}

/// Which decisions are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DecisionLog {
    /// No decisions.
    Off,
    /// Denials: all answers that do not allow, with a status from 400 to 503.
    Denied,
    /// All decisions.
    All,
}

/// Where decisions go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DecisionLogTo {
    /// To a file, or standard output.
    File,
    /// To an OpenTelemetry collector, as log records.
    Otlp,
}

/// How users are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MaskUsers {
    /// Their names.
    Off,
    /// A keyed hash of each name: lines of one user can be found, and nobody without the key can
    /// tell whose they are.
    Hash,
    /// Nothing.
    Drop,
}

/// The share of some decisions that is logged: `allowed`, `denied`, or the name of a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    name: &'static str,
    share: Share,
}

/// The name of the share of requests that are allowed.
const ALLOWED: &str = "allowed";
/// The name of the share of denials with any reason.
const DENIED: &str = "denied";

impl DecisionLogSettings {
    /// No log.
    #[must_use]
    pub fn off() -> Self {
        Self::to_standard_output(DecisionLog::Off)
    }

    /// Logs these decisions to standard output, without masks or sampling.
    #[must_use]
    pub fn to_standard_output(which: DecisionLog) -> Self {
        Self {
            which,
            to: vec![DecisionLogTo::File],
            file: "/dev/stdout".into(),
            max_size: None,
            keep: 5,
            sample: Vec::new(),
            mask_paths: Vec::new(),
            mask_users: MaskUsers::Off,
            mask_key: None,
        }
    }

    /// Whether any decisions are written to a file.
    pub(crate) fn writes(&self) -> bool {
        self.to.contains(&DecisionLogTo::File) && self.which != DecisionLog::Off
    }

    /// Whether the file is a standard stream, which is never renamed.
    pub(crate) fn is_standard_stream(&self) -> bool {
        ["/dev/stdout", "/dev/stderr"].iter().any(|path| self.file == **path)
    }

    /// Whether any decisions are exported over OTLP.
    pub(crate) fn exports(&self) -> bool {
        self.to.contains(&DecisionLogTo::Otlp) && self.which != DecisionLog::Off
    }

    /// Whether a share is set for decisions that are not logged anyway.
    pub(crate) fn samples_unlogged(&self) -> bool {
        match self.which {
            DecisionLog::Off => !self.sample.is_empty(),
            DecisionLog::Denied => self.sample.iter().any(|sample| sample.name == ALLOWED),
            DecisionLog::All => false,
        }
    }

    /// The fraction of decisions with this reason (`None` if they allow) that is logged. The share
    /// of a reason wins over the share of all denials.
    pub(super) fn share(&self, reason: Option<&str>) -> Share {
        let names = reason.map_or([ALLOWED; 2], |reason| [reason, DENIED]);
        let find = |name| self.sample.iter().find(|sample| sample.name == name);
        names.into_iter().find_map(find).map_or(Share::ALL, |sample| sample.share)
    }
}

/// Why a text is no [`Sample`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SampleError {
    #[error("not a share: write one such as `allowed=0.01`, from 0 to 1 with at most six decimals")]
    Share,
    #[error(
        "not about `allowed`, `denied` or a reason of a denial{}",
        .0.map(|close| format!(": did you mean `{close}`?")).unwrap_or_default()
    )]
    Unknown(Option<&'static str>),
}

impl FromStr for Sample {
    type Err = SampleError;

    fn from_str(text: &str) -> Result<Self, SampleError> {
        let (name, share) = text.split_once('=').ok_or(SampleError::Share)?;
        let share = share.trim().parse().map_err(|_| SampleError::Share)?;
        let names: Vec<_> = Reason::all().map(Reason::name).chain([ALLOWED, DENIED]).collect();
        match names.iter().find(|each| **each == name.trim()) {
            Some(name) => Ok(Self { name, share }),
            None => Err(SampleError::Unknown(document::closest(name.trim(), names))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_that_of_the_reason_or_of_all_denials() {
        let share = |text: &str| text.parse::<Share>().unwrap();
        let settings = |texts: &[&str]| DecisionLogSettings {
            sample: texts.iter().map(|text| text.parse().unwrap()).collect(),
            ..DecisionLogSettings::to_standard_output(DecisionLog::All)
        };
        let some = settings(&["allowed=0.01", "denied=0.5", "bad_password=1"]);
        assert_eq!(some.share(None), share("0.01"));
        assert_eq!(some.share(Some("not_allowed")), share("0.5"));
        assert_eq!(some.share(Some("bad_password")), Share::ALL);
        assert_eq!(settings(&[]).share(Some("denied")), Share::ALL);
        for (text, expected) in [
            ("allowed", SampleError::Share),
            ("allowed=2", SampleError::Share),
            ("allow=1", SampleError::Unknown(Some("allowed"))),
            ("bad_pasword=1", SampleError::Unknown(Some("bad_password"))),
        ] {
            assert_eq!(text.parse::<Sample>().unwrap_err(), expected, "{text}");
        }
    }
}
