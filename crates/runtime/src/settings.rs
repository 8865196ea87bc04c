//! The settings about a policy. Each is declared once, here: flags of `rolegate serve`,
//! environment, settings file, the configuration of the module, help and JSON Schema all come from
//! these structs.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};
use policy::KeyUrl;

use crate::units;

mod entries;
mod without_effect;

pub use crate::decisions::path_mask::PathMask;
pub use crate::decisions::settings::{
    DecisionLog, DecisionLogSettings, DecisionLogTo, MaskUsers, Sample,
};
pub use crate::otlp::{OtlpSettings, ResourceAttribute, ResourceAttributeError, Traces};
pub use crate::share::{Share, ShareError};
pub use entries::{Entry, command_of, read_entries};
pub use without_effect::{WithoutEffect, warn_of_settings};

/// How a policy is loaded, reloaded and logged.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct PolicySettings {
    /// The policy: a file, a folder that contains a `policy.yaml`, or the URL of a bundle
    /// (`rolegate bundle --help`): `https:` (`http:` on a loopback address), or an object in a
    /// store, `s3://BUCKET/PATH`, `gs://BUCKET/PATH` or `az://CONTAINER/PATH`, whose credentials
    /// are in the environment.
    #[arg(
        long,
        hide_env_values = true,
        value_name = "FILE|DIR|URL",
        default_value = "policy.yaml"
    )]
    pub policy: PolicySource,

    /// A shadow policy (the candidate), to try it before it counts: a file, a folder or a URL like
    /// `--policy`. It decides requests as well, as many as the machine has time for, and never
    /// changes an answer. The metric `rolegate_shadow_checks_total` counts how they compare:
    /// `would_allow` and `would_deny` are other answers, `other_rule` is the same answer by another
    /// rule or for another reason, `unknown_caller` a caller that the candidate does not accept,
    /// `not_compared` a request that was denied before its caller was known, or that came before a
    /// candidate was loaded. The log has samples of `would_allow`, `would_deny` and
    /// `unknown_caller`, with `--log-level debug` also of `other_rule`, at most five per second of
    /// each. At the start, files that do not load are an error; a bundle may arrive later. Later,
    /// its last good version is kept.
    #[arg(long, hide_env_values = true, value_name = "FILE|DIR|URL")]
    pub shadow: Option<PolicySource>,

    /// How bundles are fetched.
    #[command(flatten)]
    pub bundle: BundleSettings,

    /// Interval at which the policy's files are checked for changes, in addition to notifications
    /// of the system. 0 relies on the notifications, and checks once per hour. A folder that cannot
    /// be watched is checked every second, whatever the interval. With `--max-policy-age` or
    /// `--max-keys-age`, the interval is at most half of it. The TLS files are read again at
    /// `--poll-interval` only (with 0, once per hour) and on SIGHUP.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "5s",
        value_parser = units::duration
    )]
    pub poll_interval: Duration,

    /// How long newer files (or a bundle) may fail to load until the last good policy counts as
    /// stale; 0 means never. It counts from the first failure in this process. A stale policy is
    /// reported by a log line and a metric, and used further, unless `--on-stale unavailable` ends
    /// its use.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "0",
        value_parser = units::duration
    )]
    pub max_policy_age: Duration,

    /// Age at which fetched keys count as stale, while they cannot be fetched again; 0 means never.
    /// Stale keys are reported, and used further, unless `--on-stale unavailable` ends their use.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "0",
        value_parser = units::duration
    )]
    pub max_keys_age: Duration,

    /// What happens with a policy or fetched keys that are stale.
    #[arg(long, value_enum, default_value_t = OnStale::Keep)]
    pub on_stale: OnStale,

    /// Maximum time that the start waits for the first attempt to fetch keys, a bundle and the
    /// inventory of a search cluster (the names of its indices, aliases and data streams). Until
    /// then the process is not ready, and answers no request. Tokens get 401 as long as their keys
    /// are missing.
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = units::duration)]
    pub keys_wait: Duration,

    /// Which issuers' keys must be fetched before /readyz and gRPC health checks report ready for
    /// the first time. Once they have, missing keys no longer matter: an issuer that fails, or a
    /// new one, must not take all instances out of service.
    #[arg(long, value_enum, default_value_t = KeysNeeded::None)]
    pub keys_needed: KeysNeeded,

    /// Whether the inventory of a search cluster must be fetched before /readyz and gRPC health
    /// checks report ready for the first time. Without an inventory, a pattern in a request is
    /// permitted only where one pattern of a role covers it, and an alias only by its own name. A
    /// later failure does not matter.
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        default_value_t = true,
        default_missing_value = "true",
        action = ArgAction::Set
    )]
    pub inventory_needed: bool,

    /// Which decisions are logged, where and how.
    #[command(flatten)]
    pub decision_log: DecisionLogSettings,

    /// The collector that spans, and the decision log, are exported to.
    #[command(flatten)]
    pub otlp: OtlpSettings,
}

/// Where a policy is loaded from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicySource {
    /// A file, or a folder that contains a `policy.yaml`.
    Path(PathBuf),
    /// A bundle at a URL. Whether the URL may be fetched is found out when it is loaded: an error
    /// about a setting would show it.
    Bundle(KeyUrl),
}

/// The text that should name a policy is empty, as that of a variable which was to be set by a
/// script.
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
#[derive(Args, Clone, Debug, PartialEq, Eq)]
#[command(next_help_heading = "Bundles")]
pub struct BundleSettings {
    /// File with an Ed25519 public key in PEM. Each bundle must be signed by the private key of one
    /// of the given public keys. For more than one, such as the next key, repeat the flag or
    /// separate them by commas. Without it no signature is verified: whatever bundle the server
    /// gives is accepted, signed or not.
    #[arg(
        id = "bundle-public-key",
        long = "bundle-public-key",
        value_name = "FILE",
        value_delimiter = ','
    )]
    pub public_keys: Vec<PathBuf>,

    /// Interval at which the bundle server is asked for a new one. It is up to a tenth shorter, at
    /// random.
    #[arg(id = "bundle-interval", long = "bundle-interval", value_name = "TIME", default_value = "60s", value_parser = units::duration)]
    pub interval: Duration,

    /// Folder that keeps the last good bundle, which is used at a start without the server.
    #[arg(id = "bundle-cache", long = "bundle-cache", value_name = "DIR")]
    pub cache: Option<PathBuf>,

    /// File with certificate authorities, in PEM: only a bundle server with a certificate of one of
    /// these is trusted; by default those of the system.
    #[arg(id = "bundle-ca", long = "bundle-ca", value_name = "FILE")]
    pub ca: Option<PathBuf>,

    /// File with credentials for the bundle server with an `https:` URL: `USER:PASSWORD`, or a
    /// bearer token.
    #[arg(id = "bundle-credentials", long = "bundle-credentials", value_name = "FILE")]
    pub credentials: Option<PathBuf>,

    /// Maximum size of all files in a bundle together, unpacked.
    #[arg(
        id = "bundle-max-size", long = "bundle-max-size",
        value_name = "SIZE",
        default_value = "64MiB",
        value_parser = units::size
    )]
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
    /// Those of the shadow policy, if there is one. It never becomes unavailable, and nothing waits
    /// for its keys.
    pub(crate) fn shadow_settings(&self) -> Option<Self> {
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

/// What happens with a policy or fetched keys that are stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnStale {
    /// They are still used; a log line and a metric report it.
    Keep,
    /// With a stale policy rolegate is not ready and answers every check with the gRPC status
    /// UNAVAILABLE (Envoy answers with its `status_on_error`, and lets it pass with
    /// `failure_mode_allow: true`). Tokens whose keys are stale get 401.
    Unavailable,
}

/// Which issuers' keys must be fetched before the process is ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum KeysNeeded {
    /// No keys: an issuer that is down costs only its own tokens, which get 401, even while
    /// instances restart.
    #[default]
    None,
    /// Those of at least one issuer, if there are any: a rollout stops where no issuer can be
    /// reached.
    Any,
    /// Those of every issuer: one that is down keeps every new instance from becoming ready.
    All,
}

/// How passwords are hashed.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
#[command(next_help_heading = "Limits")]
pub struct HashingSettings {
    /// Number of threads that hash passwords; 0 means half the cores, at least 1 and at most 8.
    #[arg(long, value_name = "N", default_value = "0", value_parser = units::count)]
    pub hash_threads: u16,

    /// Maximum number of passwords that wait to be hashed, at least 1. When the queue is full,
    /// passwords are denied with 503, first those from the IPv4 address, or the /64 of an IPv6
    /// address, that has sent the most wrong passwords recently.
    #[arg(long, value_name = "N", default_value = "256", value_parser = units::positive_count)]
    pub hash_queue: u16,
}
