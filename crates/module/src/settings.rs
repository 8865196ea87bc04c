//! The configuration of the filter and of a route, as JSON: Envoy passes a `Struct` or a string as such.
//!
//! Settings that `rolegate serve` also has, have the same name and values. Only these are accepted.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use runtime::settings::{
    BundleSettings, DecisionLog, DecisionLogSettings, KeysNeeded, MaskUsers, OnStale, OtlpSettings, PathMask,
    PolicySettings, PolicySource, ResourceAttribute, Sample, Share,
};
use serde::Deserialize;
use server::AdminAddress;

mod values;

/// The configuration of a filter.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct FilterSettings {
    /// The policy: a file, a folder that contains a `policy.yaml`, or the URL of a bundle.
    #[serde(deserialize_with = "values::source")]
    pub(crate) policy: PolicySource,
    /// A shadow policy: a candidate that decides requests as well, as many as the machine has time for, without effect on the answer.
    #[serde(default, deserialize_with = "values::optional_source")]
    shadow: Option<PolicySource>,
    /// Address of the admin listener, or `off`.
    #[serde(default = "off", deserialize_with = "values::admin")]
    pub(crate) admin: AdminAddress,
    /// Whether the admin listener serves the console, a page for people on call.
    #[serde(default)]
    pub(crate) console: bool,
    /// Names that browsers may use for the console besides `localhost` and loopback addresses.
    #[serde(default, deserialize_with = "values::some")]
    pub(crate) console_host: Vec<String>,
    /// Interval at which the policy's files are checked for changes, in addition to notifications of the system.
    #[serde(default = "five_seconds", deserialize_with = "values::duration")]
    poll_interval: Duration,
    /// Age at which the last good policy counts as stale, while newer files cannot be loaded; 0 means never.
    #[serde(default, deserialize_with = "values::duration")]
    max_policy_age: Duration,
    /// Age at which fetched keys count as stale, while they cannot be fetched again; 0 means never.
    #[serde(default, deserialize_with = "values::duration")]
    max_keys_age: Duration,
    /// What happens with a policy or keys that are stale.
    #[serde(default)]
    on_stale: Stale,
    /// Maximum time that Envoy's main thread waits for the first attempt to fetch keys, a bundle and the inventory of a search cluster, before the configuration is used.
    #[serde(default = "three_seconds", deserialize_with = "values::duration")]
    pub(crate) keys_wait: Duration,
    /// Whether the inventory of a search cluster must be fetched before `/readyz` reports ready for the first time.
    #[serde(default = "yes")]
    inventory_needed: bool,
    /// Number of threads that hash passwords; 0 means half the cores, at least 1 and at most 8.
    #[serde(default)]
    pub(crate) hash_threads: u16,
    /// Maximum number of passwords that wait to be hashed.
    #[serde(default = "queue", deserialize_with = "values::positive_count")]
    pub(crate) hash_queue: u16,
    /// Maximum time that a request waits for the verification of its password; then it is denied with 503.
    #[serde(default = "two_seconds", deserialize_with = "values::positive_duration")]
    pub(crate) hash_timeout: Duration,
    /// Maximum size of a body that a decision depends on, in bytes; a larger one gets 413. It is buffered as a whole.
    #[serde(default = "ten_mebibytes", deserialize_with = "values::size")]
    pub(crate) max_request_body: usize,
    /// Which decisions are logged, as one JSON object per line.
    #[serde(default, deserialize_with = "values::log")]
    decision_log: Log,
    /// Where they go.
    #[serde(default = "to_file", deserialize_with = "values::some")]
    decision_log_to: Vec<LogTo>,
    /// The file that they are appended to.
    #[serde(default = "standard_output")]
    decision_log_file: PathBuf,
    /// Size at which the file is renamed and a new one begun.
    #[serde(default, deserialize_with = "values::optional_size")]
    decision_log_max_size: Option<usize>,
    /// Number of renamed files that are kept.
    #[serde(default = "five_files", deserialize_with = "values::positive_count")]
    decision_log_keep: u16,
    /// Shares of decisions that are logged.
    #[serde(default, deserialize_with = "values::some")]
    decision_log_sample: Vec<Sample>,
    /// Paths whose segments in braces are masked.
    #[serde(default, deserialize_with = "values::some")]
    decision_log_mask_path: Vec<PathMask>,
    /// What is logged of users.
    #[serde(default, deserialize_with = "values::users")]
    decision_log_mask_users: Users,
    /// File with the key of the hashes of users.
    #[serde(default, deserialize_with = "values::optional_path")]
    decision_log_mask_key: Option<PathBuf>,
    /// Whether spans are sent to a collector.
    #[serde(default, deserialize_with = "values::traces")]
    traces: bool,
    /// Share of the requests without a trace that begin one.
    #[serde(default = "none", deserialize_with = "values::share")]
    trace_ratio: Share,
    /// URL of the collector.
    #[serde(default, deserialize_with = "values::optional_text")]
    otlp_endpoint: Option<String>,
    /// File with the only certificate authorities that the collector is trusted by.
    #[serde(default, deserialize_with = "values::optional_path")]
    otlp_ca: Option<PathBuf>,
    /// File with headers for the collector.
    #[serde(default, deserialize_with = "values::optional_path")]
    otlp_headers: Option<PathBuf>,
    /// Maximum time that the collector may take to answer.
    #[serde(default = "ten_seconds", deserialize_with = "values::answer_time")]
    otlp_timeout: Duration,
    /// Maximum number of records that are sent at once.
    #[serde(default = "batch_size", deserialize_with = "values::positive_count")]
    otlp_batch_size: u16,
    /// The `service.name` of what is sent.
    #[serde(default = "service_name")]
    otlp_service_name: String,
    /// Further attributes of the resource.
    #[serde(default, deserialize_with = "values::some")]
    otlp_resource: Vec<ResourceAttribute>,
    /// Whether requests get dynamic metadata in the namespace `rolegate`, for access logs and later filters.
    #[serde(default)]
    pub(crate) metadata: bool,
    /// Files with public keys, one of which must have signed each bundle.
    #[serde(default, deserialize_with = "values::one_or_more")]
    bundle_public_key: Vec<PathBuf>,
    /// Interval at which the bundle server is asked for a new one.
    #[serde(default = "one_minute", deserialize_with = "values::duration")]
    bundle_interval: Duration,
    /// Folder that keeps the last good bundle.
    #[serde(default, deserialize_with = "values::optional_path")]
    bundle_cache: Option<PathBuf>,
    /// File with certificate authorities, in PEM: only a bundle server with a certificate of one of these is trusted.
    #[serde(default, deserialize_with = "values::optional_path")]
    bundle_ca: Option<PathBuf>,
    /// File with credentials for the bundle server.
    #[serde(default, deserialize_with = "values::optional_path")]
    bundle_credentials: Option<PathBuf>,
    /// Maximum size of the files in a bundle.
    #[serde(default = "sixty_four_mebibytes", deserialize_with = "values::size")]
    bundle_max_size: usize,
}

/// The configuration of a route or virtual host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RouteSettings {
    /// `disabled: true`: its requests are not authorized.
    Disabled,
    /// Another policy.
    Policy(Box<FilterSettings>),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Stale {
    #[default]
    Keep,
    #[serde(alias = "deny")]
    Unavailable,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Log {
    Off,
    #[default]
    Denied,
    All,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogTo {
    File,
    Otlp,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Users {
    #[default]
    Off,
    Hash,
    Drop,
}

impl FilterSettings {
    /// Reads the configuration of a filter.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub(crate) fn read(config: &[u8]) -> Result<Self, String> {
        if config.is_empty() {
            return Err("`filter_config` is missing: it needs at least `policy`".to_owned());
        }
        let mut json = serde_json::Deserializer::from_slice(config);
        let settings = serde_path_to_error::deserialize(&mut json).map_err(explained)?;
        json.end().map_err(|error| error.to_string())?;
        Ok(settings)
    }

    /// Those about how the policy is kept current.
    pub(crate) fn of_policy(&self) -> PolicySettings {
        PolicySettings {
            policy: self.policy.clone(),
            shadow: self.shadow.clone(),
            bundle: BundleSettings {
                public_keys: self.bundle_public_key.clone(),
                interval: self.bundle_interval,
                cache: self.bundle_cache.clone(),
                ca: self.bundle_ca.clone(),
                credentials: self.bundle_credentials.clone(),
                max_size: self.bundle_max_size,
            },
            poll_interval: self.poll_interval,
            max_policy_age: self.max_policy_age,
            max_keys_age: self.max_keys_age,
            on_stale: match self.on_stale {
                Stale::Keep => OnStale::Keep,
                Stale::Unavailable => OnStale::Unavailable,
            },
            keys_needed: KeysNeeded::None,
            inventory_needed: self.inventory_needed,
            otlp: OtlpSettings {
                traces: self.traces,
                trace_ratio: self.trace_ratio,
                endpoint: self.otlp_endpoint.clone(),
                ca: self.otlp_ca.clone(),
                headers: self.otlp_headers.clone(),
                timeout: self.otlp_timeout,
                batch_size: self.otlp_batch_size,
                service_name: self.otlp_service_name.clone(),
                resource: self.otlp_resource.clone(),
            },
            decision_log: DecisionLogSettings {
                which: match self.decision_log {
                    Log::Off => DecisionLog::Off,
                    Log::Denied => DecisionLog::Denied,
                    Log::All => DecisionLog::All,
                },
                to_file: self.decision_log_to.contains(&LogTo::File),
                to_otlp: self.decision_log_to.contains(&LogTo::Otlp),
                file: self.decision_log_file.clone(),
                max_size: self.decision_log_max_size.unwrap_or(0),
                keep: self.decision_log_keep,
                sample: self.decision_log_sample.clone(),
                mask_paths: self.decision_log_mask_path.clone(),
                mask_users: match self.decision_log_mask_users {
                    Users::Off => MaskUsers::Off,
                    Users::Hash => MaskUsers::Hash,
                    Users::Drop => MaskUsers::Drop,
                },
                mask_key: self.decision_log_mask_key.clone(),
            },
        }
    }
}

impl FromStr for LogTo {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        match text {
            "file" => Ok(Self::File),
            "otlp" => Ok(Self::Otlp),
            _ => Err("not one of `file` and `otlp`"),
        }
    }
}

/// What is wrong with the settings of a route that Envoy has not turned into JSON, as 1.38 does with those of a filter only.
const AS_BYTES: &str = "this Envoy does not read the `Struct` of a route: write its `filter_config` as a \
    `google.protobuf.StringValue` with JSON";

impl RouteSettings {
    /// Reads the configuration of a route.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub(crate) fn read(config: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Disabled {
            disabled: bool,
        }
        match serde_json::from_slice(config) {
            Ok(Disabled { disabled: true }) => Ok(Self::Disabled),
            Ok(Disabled { disabled: false }) => {
                Err("`disabled: false` says nothing: leave it out, or name a `policy`".to_owned())
            }
            Err(_) => match FilterSettings::read(config) {
                Ok(settings) => Ok(Self::Policy(Box::new(settings))),
                // A `Struct` in the format of protocol buffers begins with its first field.
                Err(_) if config.starts_with(b"\n") => Err(AS_BYTES.to_owned()),
                Err(problem) => Err(problem),
            },
        }
    }
}

/// An error for people, with the setting that it is about. Where the text is JSON, the place in it is left out: Envoy has made
/// that text from YAML. An unknown name gets a suggestion if there is a similar one.
fn explained(error: serde_path_to_error::Error<serde_json::Error>) -> String {
    let path = error.path().to_string();
    let error = error.into_inner();
    let text = error.to_string();
    if !error.is_data() {
        return text;
    }
    let place = format!(" at line {} column {}", error.line(), error.column());
    let text = text.strip_suffix(&place).unwrap_or(&text);
    let text = text.replace(" field `", " setting `").replace("unknown variant `", "unknown value `");
    let text = text.replace("expected u16", "expected a number from 0 to 65535");
    let text = match text.split_once(", expected ") {
        // Such as "unknown setting `polling`, expected one of `policy`, `admin`".
        Some((problem, expected)) if problem.starts_with("unknown ") => {
            let name = problem.split('`').nth(1).unwrap_or_default();
            match document::closest(name, expected.split('`').skip(1).step_by(2)) {
                Some(meant) => format!("{problem}: did you mean `{meant}`?"),
                None => text,
            }
        }
        Some(_) | None => text,
    };
    // An unknown or missing setting is named already.
    if text.contains(" setting `") { text } else { format!("`{path}`: {text}") }
}

fn yes() -> bool {
    true
}

fn one_minute() -> Duration {
    BundleSettings::default().interval
}

fn sixty_four_mebibytes() -> usize {
    BundleSettings::default().max_size
}

fn off() -> AdminAddress {
    AdminAddress::Off
}

fn two_seconds() -> Duration {
    Duration::from_secs(2)
}

fn three_seconds() -> Duration {
    Duration::from_secs(3)
}

fn five_seconds() -> Duration {
    Duration::from_secs(5)
}

fn ten_mebibytes() -> usize {
    10 << 20
}

fn queue() -> u16 {
    256
}

fn to_file() -> Vec<LogTo> {
    vec![LogTo::File]
}

fn none() -> Share {
    Share::NONE
}

fn ten_seconds() -> Duration {
    OtlpSettings::off().timeout
}

fn batch_size() -> u16 {
    OtlpSettings::off().batch_size
}

fn service_name() -> String {
    OtlpSettings::off().service_name
}

fn five_files() -> u16 {
    5
}

fn standard_output() -> PathBuf {
    PathBuf::from("/dev/stdout")
}

#[cfg(test)]
mod tests;
