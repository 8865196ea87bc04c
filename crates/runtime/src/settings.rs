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

pub use crate::decisions::PathMask;
pub use crate::decisions::settings::{
    DecisionLog, DecisionLogSettings, DecisionLogTo, MaskUsers, Sample,
};
pub use crate::otlp::{OtlpSettings, ResourceAttribute, ResourceAttributeError, Traces};
pub use crate::share::{Share, ShareError};
pub use entries::{Entry, command_of, read_entries};
pub use without_effect::{EffectCheck, warn_of_settings};

/// How a policy is loaded, reloaded and logged.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct PolicySettings {
    /// The policy: a file, a folder with a `policy.yaml`, or the URL of a bundle.
    ///
    /// A URL is `https:` (`http:` on a loopback address), or names an object in a store:
    /// `s3://BUCKET/PATH`, `gs://BUCKET/PATH` or `az://CONTAINER/PATH`, whose credentials are in
    /// the environment.
    #[arg(
        long,
        help_heading = "Policy",
        hide_env_values = true,
        value_name = "FILE|DIR|URL",
        default_value = "policy.yaml"
    )]
    pub policy: PolicySource,

    /// A candidate that also decides requests, without effect on answers.
    ///
    /// It decides as many requests as the machine has time for. The metric
    /// `rolegate_shadow_checks_total` counts how its decisions compare, and the log has samples of
    /// those that differ, at most five per second of each kind. At the start, files that do not
    /// load are an error; a bundle may arrive later. After that the last good version is kept.
    #[arg(long, help_heading = "Policy", hide_env_values = true, value_name = "FILE|DIR|URL")]
    pub shadow: Option<PolicySource>,

    /// How bundles are fetched.
    #[command(flatten)]
    pub bundle: BundleSettings,

    /// Interval at which files are checked for changes, besides notifications.
    ///
    /// 0 means once per hour. Do not set 0 where a symbolic link to the policy's folder is
    /// switched: that causes no notification. A folder that cannot be watched is checked every
    /// second. With `max-policy-age` or `max-keys-age`, the interval is at most half of it. TLS
    /// files are read again at this interval and on SIGHUP only.
    #[arg(
        long, help_heading = "Policy",
        value_name = "TIME",
        default_value = "5s",
        value_parser = units::duration
    )]
    pub poll_interval: Duration,

    /// Time that a policy may fail to load until the active one is stale.
    ///
    /// It counts from the first failure in this process; 0 means never. The log, `/readyz` and a
    /// metric report a stale policy; `on-stale` says whether it is used.
    #[arg(
        long, help_heading = "Policy",
        value_name = "TIME",
        default_value = "0",
        value_parser = units::duration
    )]
    pub max_policy_age: Duration,

    /// Age at which fetched keys are stale.
    ///
    /// 0 means never. Keys are fetched at least twice in this time, but at most once per second.
    /// The log, `/readyz` and a metric report stale keys; `on-stale` says whether they are used.
    #[arg(
        long, help_heading = "Policy",
        value_name = "TIME",
        default_value = "0",
        value_parser = units::duration
    )]
    pub max_keys_age: Duration,

    /// What happens with a stale policy or stale keys.
    #[arg(long, help_heading = "Policy", value_enum, default_value_t = OnStale::Keep)]
    pub on_stale: OnStale,

    /// Maximum time that a start waits for keys, a bundle and an inventory.
    ///
    /// The start waits for the first attempt to fetch each of them. Until then no request is
    /// answered. Tokens get 401 while their keys are missing.
    #[arg(long, help_heading = "Policy", value_name = "TIME", default_value = "3s", value_parser = units::duration)]
    pub keys_wait: Duration,

    /// The issuers whose keys are fetched before rolegate is ready for the first time.
    ///
    /// After `keys-wait`, requests are answered anyway. Once rolegate was ready, missing keys no
    /// longer matter: an issuer that fails, or a new one, must not take all instances out of
    /// service.
    #[arg(long, help_heading = "Policy", value_enum, default_value_t = KeysNeeded::None)]
    pub keys_needed: KeysNeeded,

    /// Whether the inventory of a search cluster is needed to be ready for the first time.
    ///
    /// Without an inventory, a pattern in a request is permitted only where one pattern of a role
    /// covers it, and an alias only by its own name. With `false`, instances become ready even
    /// while the cluster is down. A later failure does not matter.
    #[arg(
        long, help_heading = "Policy",
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
    /// A bundle at a URL. The URL is checked only when it is loaded, because an error about a
    /// setting would show its secrets.
    Bundle(KeyUrl),
}

/// The text that should name a policy is empty: a script may have left a variable unset.
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
    /// Files with Ed25519 public keys (PEM), one of which must have signed each bundle.
    ///
    /// Without it, any bundle of the server is accepted, signed or not. The files are read again at
    /// each fetch.
    #[arg(
        id = "bundle-public-key",
        long = "bundle-public-key",
        value_name = "FILE",
        value_delimiter = ','
    )]
    pub public_keys: Vec<PathBuf>,

    /// Time between two fetches of the bundle, up to a tenth less at random.
    ///
    /// After a failure the next fetch follows after 1 s, 2 s, 4 s and so on, up to 60 s or this
    /// interval; after a bundle that is not accepted, after this interval. An answer may take as
    /// long as the interval, at least 5 s and at most 60 s.
    #[arg(id = "bundle-interval", long = "bundle-interval", value_name = "TIME", default_value = "60s", value_parser = units::duration)]
    pub interval: Duration,

    /// Folder that keeps the last good bundle, for a start without the server.
    ///
    /// The user of rolegate must own the folder. The cached bundle has mode 0600 and is verified
    /// again when it is used. A restart that can read the folder accepts no older bundle. Several
    /// processes with the same `bundle-public-key` and `bundle-max-size` may share a folder.
    #[arg(id = "bundle-cache", long = "bundle-cache", value_name = "DIR")]
    pub cache: Option<PathBuf>,

    /// File with the only certificate authorities (PEM) that are trusted for bundles.
    ///
    /// They are also the only ones for servers that give credentials for a store. By default the
    /// authorities of the system are trusted.
    #[arg(id = "bundle-ca", long = "bundle-ca", value_name = "FILE")]
    pub ca: Option<PathBuf>,

    /// File with `USER:PASSWORD` or a bearer token for an `https:` URL.
    ///
    /// The file is read again at each fetch.
    #[arg(id = "bundle-credentials", long = "bundle-credentials", value_name = "FILE")]
    pub credentials: Option<PathBuf>,

    /// Maximum size of a bundle, unpacked.
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
    /// The settings of the shadow policy, if any. It never becomes unavailable, and nothing waits
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
    /// No keys: instances become ready even while an issuer is down, and only its tokens get 401.
    #[default]
    None,
    /// The keys of at least one issuer, if there are any: a rollout stops where no issuer can be
    /// reached.
    Any,
    /// The keys of every issuer: an issuer that is down keeps all new instances from becoming
    /// ready.
    All,
}

/// How passwords are hashed.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
#[command(next_help_heading = "Limits")]
pub struct HashingSettings {
    /// Number of threads that hash passwords; 0 means half the cores, from 1 to 8.
    ///
    /// The threads have niceness 5. Each takes as much memory as its hash demands: 19 MiB for a
    /// hash of `rolegate hash-password`.
    #[arg(long, value_name = "N", default_value = "0", value_parser = units::count)]
    pub hash_threads: u16,

    /// Maximum number of passwords that wait to be hashed, at least 1.
    ///
    /// When the queue is full, some passwords get 503: first those of the client network (an IPv4
    /// address or an IPv6 /64) with the most wrong passwords recently.
    #[arg(long, value_name = "N", default_value = "256", value_parser = units::positive_count)]
    pub hash_queue: u16,
}
