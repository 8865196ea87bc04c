//! Which decisions are logged, where, and what of them is masked.

use std::path::PathBuf;
use std::str::FromStr;

use authorizer::Reason;

use super::path_mask::PathMask;
use crate::share::Share;

/// The settings of the decision log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionLogSettings {
    /// Which decisions are logged.
    pub which: DecisionLog,
    /// Whether they are appended to a file.
    pub to_file: bool,
    /// Whether they are exported over OTLP.
    pub to_otlp: bool,
    /// The file that they are appended to; `/dev/stdout` and `/dev/stderr` are this process's own.
    pub file: PathBuf,
    /// The size at which the file is renamed and a new one begun, in bytes; 0 means never.
    pub max_size: usize,
    /// How many renamed files are kept.
    pub keep: u16,
    /// Which share of them is logged; without an entry all are.
    pub sample: Vec<Sample>,
    /// Paths with segments that are masked.
    pub mask_paths: Vec<PathMask>,
    /// What is logged of users.
    pub mask_users: MaskUsers,
    /// The file with the key of the hashes of users; without one, each process has a random key.
    pub mask_key: Option<PathBuf>,
}

/// Which decisions are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecisionLog {
    /// No decisions.
    Off,
    /// Denials: all answers that do not allow, with a status from 400 to 503.
    Denied,
    /// All decisions.
    All,
}

/// What is logged of users.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MaskUsers {
    /// Their names.
    #[default]
    Off,
    /// A keyed hash of each name.
    Hash,
    /// Nothing.
    Drop,
}

/// The share of some decisions that is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    of: Sampled,
    share: Share,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sampled {
    Allowed,
    Denied,
    Reason(&'static str),
}

impl DecisionLogSettings {
    /// No log.
    #[must_use]
    pub fn off() -> Self {
        Self::to_standard_output(DecisionLog::Off)
    }

    /// These decisions on standard output, whole.
    #[must_use]
    pub fn to_standard_output(which: DecisionLog) -> Self {
        Self {
            which,
            to_file: true,
            to_otlp: false,
            file: "/dev/stdout".into(),
            max_size: 0,
            keep: 5,
            sample: Vec::new(),
            mask_paths: Vec::new(),
            mask_users: MaskUsers::Off,
            mask_key: None,
        }
    }

    /// Whether any decisions are exported over OTLP.
    pub(crate) fn exports(&self) -> bool {
        self.to_otlp && self.which != DecisionLog::Off
    }

    /// Whether there is a share of decisions that are not logged.
    pub(crate) fn samples_unlogged(&self) -> bool {
        match self.which {
            DecisionLog::Off => !self.sample.is_empty(),
            DecisionLog::Denied => self.sample.iter().any(|sample| sample.of == Sampled::Allowed),
            DecisionLog::All => false,
        }
    }

    /// The share of decisions with this reason (`None` if they allow) that is logged. A reason's own share wins over that
    /// of all denials.
    pub(super) fn share(&self, reason: Option<&str>) -> Share {
        let of = |wanted: &dyn Fn(Sampled) -> bool| {
            self.sample.iter().find(|sample| wanted(sample.of)).map(|sample| sample.share)
        };
        let share = match reason {
            None => of(&|of| of == Sampled::Allowed),
            Some(reason) => of(&|of| matches!(of, Sampled::Reason(name) if name == reason))
                .or_else(|| of(&|of| of == Sampled::Denied)),
        };
        share.unwrap_or(Share::ALL)
    }
}

/// Why a text is no [`Sample`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SampleError {
    /// Not a name and a number.
    #[error("not a share: write one such as `allowed=0.01`, from 0 to 1 with at most six decimals")]
    Share,
    /// Neither a decision nor a reason.
    #[error("not about `allowed`, `denied` or a reason of a denial{}", .0.map(|close| format!(": did you mean `{close}`?")).unwrap_or_default())]
    Unknown(Option<&'static str>),
}

impl FromStr for Sample {
    type Err = SampleError;

    fn from_str(text: &str) -> Result<Self, SampleError> {
        let (name, share) = text.split_once('=').ok_or(SampleError::Share)?;
        let of = match name.trim() {
            "allowed" => Sampled::Allowed,
            "denied" => Sampled::Denied,
            name => {
                let names = || Reason::all().map(Reason::name);
                let known = names().find(|known| *known == name);
                let close = || document::closest(name, names().chain(["allowed", "denied"]));
                Sampled::Reason(known.ok_or_else(|| SampleError::Unknown(close()))?)
            }
        };
        Ok(Self { of, share: share.trim().parse().map_err(|_| SampleError::Share)? })
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
