//! The settings of the decision log.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use runtime::settings::{self, DecisionLogSettings, PathMask, Sample};
use runtime::units;

/// The settings of the decision log.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct DecisionLogArgs {
    /// Which decisions are logged, as one JSON object per line. Errors are no decisions: they are only counted.
    #[arg(long, env = "ROLEGATE_DECISION_LOG", value_enum, default_value_t = DecisionLog::Denied)]
    pub decision_log: DecisionLog,

    /// Where they go: to `decision-log-file` (`file`), to `otlp-endpoint` (`otlp`), or to both (`file,otlp`).
    #[arg(
        long,
        env = "ROLEGATE_DECISION_LOG_TO",
        value_enum,
        value_name = "TO",
        default_value = "file",
        value_delimiter = ','
    )]
    pub decision_log_to: Vec<DecisionLogTo>,

    /// The file that decisions are appended to. If it is renamed or removed, it is created again.
    #[arg(long, env = "ROLEGATE_DECISION_LOG_FILE", value_name = "FILE", default_value = "/dev/stdout")]
    pub decision_log_file: PathBuf,

    /// Size at which that file is renamed to FILE.1, and that to FILE.2 and so on. By default it is never.
    #[arg(long, env = "ROLEGATE_DECISION_LOG_MAX_SIZE", value_name = "SIZE", value_parser = units::size)]
    pub decision_log_max_size: Option<usize>,

    /// Number of renamed files that are kept, at least 1.
    #[arg(long, env = "ROLEGATE_DECISION_LOG_KEEP", value_name = "N", default_value = "5", value_parser = units::positive_count)]
    pub decision_log_keep: u16,

    /// Share of decisions that is logged, from 0 to 1: `allowed=0.01`, `denied=0.5` (of denials with any reason), or of one reason, which wins
    /// over `denied`: `bad_password=0.1`. Repeat the flag or separate them by commas. Of the decisions that `--decision-log`
    /// selects, those without a share are all logged.
    #[arg(long, env = "ROLEGATE_DECISION_LOG_SAMPLE", value_name = "NAME=SHARE", value_delimiter = ',')]
    pub decision_log_sample: Vec<Sample>,

    /// Path whose segments in braces are logged as `*`, such as `/people/{id}`, also in paths below. Repeat the flag or
    /// separate them by commas.
    #[arg(long, env = "ROLEGATE_DECISION_LOG_MASK_PATH", value_name = "PATH", value_delimiter = ',')]
    pub decision_log_mask_path: Vec<PathMask>,

    /// What is logged of users.
    #[arg(long, env = "ROLEGATE_DECISION_LOG_MASK_USERS", value_enum, default_value_t = MaskUsers::Off)]
    pub decision_log_mask_users: MaskUsers,

    /// File with the key of the hashes of users, at least 16 bytes. Without it, each process has a random one, so hashes of
    /// different processes differ.
    #[arg(long, env = "ROLEGATE_DECISION_LOG_MASK_KEY", value_name = "FILE")]
    pub decision_log_mask_key: Option<PathBuf>,
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

/// What is logged of users.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MaskUsers {
    /// Their names.
    Off,
    /// A keyed hash of each name: lines of one user can be found, and nobody without the key can tell whose they are.
    Hash,
    /// Nothing.
    Drop,
}

impl DecisionLogArgs {
    pub(super) fn settings(&self) -> DecisionLogSettings {
        DecisionLogSettings {
            which: match self.decision_log {
                DecisionLog::Off => settings::DecisionLog::Off,
                DecisionLog::Denied => settings::DecisionLog::Denied,
                DecisionLog::All => settings::DecisionLog::All,
            },
            to_file: self.decision_log_to.contains(&DecisionLogTo::File),
            to_otlp: self.decision_log_to.contains(&DecisionLogTo::Otlp),
            file: self.decision_log_file.clone(),
            max_size: self.decision_log_max_size.unwrap_or(0),
            keep: self.decision_log_keep,
            sample: self.decision_log_sample.clone(),
            mask_paths: self.decision_log_mask_path.clone(),
            mask_users: match self.decision_log_mask_users {
                MaskUsers::Off => settings::MaskUsers::Off,
                MaskUsers::Hash => settings::MaskUsers::Hash,
                MaskUsers::Drop => settings::MaskUsers::Drop,
            },
            mask_key: self.decision_log_mask_key.clone(),
        }
    }
}
