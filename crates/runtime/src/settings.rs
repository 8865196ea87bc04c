//! What a user chooses about how a policy is kept current.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use policy::KeyUrl;

mod without_effect;

pub use crate::decisions::path_mask::PathMask;
pub use crate::decisions::settings::{DecisionLog, DecisionLogSettings, MaskUsers, Sample};
pub use crate::otlp::{OtlpSettings, ResourceAttribute, ResourceAttributeError};
pub use crate::share::{Share, ShareError};
pub use without_effect::{WithoutEffect, warn_of_settings};

/// How a policy is loaded, reloaded and logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicySettings {
    /// The policy.
    pub policy: PolicySource,
    /// A candidate that decides requests as well, as many as the machine has time for, without effect on the answer.
    pub shadow: Option<PolicySource>,
    /// How bundles are fetched.
    pub bundle: BundleSettings,
    /// Interval at which the files are checked for changes, in addition to notifications of the system. Zero relies on the
    /// notifications, and checks once per hour; a folder that cannot be watched is then checked every second.
    pub poll_interval: Duration,
    /// Age at which the last good policy counts as stale, while newer files cannot be loaded; zero means never.
    pub max_policy_age: Duration,
    /// Age at which fetched keys count as stale, while they cannot be fetched again; zero means never.
    pub max_keys_age: Duration,
    /// What happens with a policy or keys that are stale.
    pub on_stale: OnStale,
    /// Which issuers' keys must be fetched before the process is ready for the first time.
    pub keys_needed: KeysNeeded,
    /// Whether the inventory of a search cluster must be fetched before the process is ready for the first time.
    pub inventory_needed: bool,
    /// Which decisions are logged, where and how.
    pub decision_log: DecisionLogSettings,
    /// The collector that spans, and the decision log, are exported to.
    pub otlp: OtlpSettings,
}

/// Where a policy is loaded from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicySource {
    /// A file, or a folder that contains a `policy.yaml`.
    Path(PathBuf),
    /// A bundle at a URL. Whether the URL may be fetched is found out when it is loaded: an error about a setting would show it.
    Bundle(KeyUrl),
}

/// The text that should name a policy is empty, as that of a variable which was to be set by a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is empty: name a file, a folder or a URL")]
pub struct EmptySource;

impl FromStr for PolicySource {
    type Err = EmptySource;

    fn from_str(text: &str) -> Result<Self, EmptySource> {
        if text.is_empty() {
            return Err(EmptySource);
        }
        Ok(if text.contains("://") { Self::Bundle(text.into()) } else { Self::Path(text.into()) })
    }
}

impl fmt::Display for PolicySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.display().fmt(f),
            Self::Bundle(url) => url.fmt(f),
        }
    }
}

/// How bundles are fetched and verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleSettings {
    /// Files with public keys in PEM, one of which must have signed each bundle; with none, no signature is verified.
    pub public_keys: Vec<PathBuf>,
    /// Interval between two fetches.
    pub interval: Duration,
    /// The folder that keeps the last good bundle for a restart.
    pub cache: Option<PathBuf>,
    /// A file with certificate authorities, in PEM: only a server with a certificate of one of these is trusted.
    pub ca: Option<PathBuf>,
    /// A file with `user:password` or a bearer token for the server of an `https:` URL.
    pub credentials: Option<PathBuf>,
    /// Maximum size of the files in a bundle, in bytes.
    pub max_size: usize,
}

impl Default for BundleSettings {
    fn default() -> Self {
        Self {
            public_keys: Vec::new(),
            interval: Duration::from_secs(60),
            cache: None,
            ca: None,
            credentials: None,
            max_size: 64 << 20,
        }
    }
}

impl PolicySettings {
    /// Those of the shadow policy, if there is one. It never becomes unavailable, and nothing waits for its keys.
    pub(crate) fn of_shadow(&self) -> Option<Self> {
        self.shadow.clone().map(|policy| Self {
            policy,
            shadow: None,
            on_stale: OnStale::Keep,
            keys_needed: KeysNeeded::None,
            inventory_needed: false,
            decision_log: DecisionLogSettings::off(),
            otlp: OtlpSettings::off(),
            ..self.clone()
        })
    }
}

/// What happens when the policy or fetched keys exceed their maximum staleness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnStale {
    /// They are still used; a log line and the status report it.
    Keep,
    /// With a stale policy every check gets an error; tokens whose keys are stale are denied.
    Unavailable,
}

/// Which issuers' keys must be fetched before the process is ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeysNeeded {
    /// None.
    #[default]
    None,
    /// Those of at least one issuer, if there are any.
    Any,
    /// Those of every issuer.
    All,
}
