//! Settings that have no effect because of another setting, or of the policy. An operator who sets
//! them relies on them, so the log warns at the start. It is no error: servers with different
//! policies may share their settings.

use policy::Policy;
use policy::model::Keys;

use super::{
    BundleSettings, DecisionLog, DecisionLogSettings, DecisionLogTo, KeysNeeded, MaskUsers,
    OnStale, OtlpSettings, PolicySettings, PolicySource, Traces,
};
use crate::share::Share;

/// A setting, whether it is set and has no effect, and why it then has none.
pub type EffectCheck = (&'static str, bool, &'static str);

/// Warns of the settings that have no effect.
pub fn warn_of_settings(checks: impl IntoIterator<Item = EffectCheck>) {
    for (setting, is_without_effect, why) in checks {
        if is_without_effect {
            tracing::warn!("`{setting}` has no effect: {why}");
        }
    }
}

impl PolicySettings {
    /// Warns of settings that have no effect because of other settings.
    pub fn warn(&self) {
        let has_max_age = !self.max_policy_age.is_zero() || !self.max_keys_age.is_zero();
        let is_unused = self.on_stale == OnStale::Unavailable && !has_max_age;
        let why = "nothing becomes stale without `max-policy-age` or `max-keys-age`";
        warn_of_settings([("on-stale: unavailable", is_unused, why)]);
        let mut sources = [Some(&self.policy), self.shadow.as_ref()].into_iter().flatten();
        if !sources.any(|source| matches!(source, PolicySource::Bundle(_))) {
            warn_of_settings(bundle_checks(&self.bundle));
        }
        warn_of_settings(decision_log_checks(&self.decision_log));
        warn_of_settings(otlp_checks(&self.otlp, self.decision_log.exports()));
    }

    /// Warns of settings that have no effect on these policies, which were loaded at the start.
    pub(crate) fn warn_on<'p>(&self, policies: impl IntoIterator<Item = &'p Policy>) {
        let mut issuers = policies.into_iter().flat_map(|policy| &policy.identity.jwt);
        if !issuers.any(|issuer| matches!(issuer.keys, Keys::Url { .. })) {
            let why = "no keys of the policy have a URL";
            warn_of_settings([
                ("max-keys-age", !self.max_keys_age.is_zero(), why),
                ("keys-needed", self.keys_needed != KeysNeeded::None, why),
            ]);
        }
    }
}

fn bundle_checks(settings: &BundleSettings) -> [EffectCheck; 6] {
    let default = BundleSettings::default();
    let why = "it is about bundles, and the policy is a file";
    [
        ("bundle-public-key", settings.public_keys != default.public_keys, why),
        ("bundle-interval", settings.interval != default.interval, why),
        ("bundle-cache", settings.cache != default.cache, why),
        ("bundle-ca", settings.ca != default.ca, why),
        ("bundle-credentials", settings.credentials != default.credentials, why),
        ("bundle-max-size", settings.max_size != default.max_size, why),
    ]
}

/// The masks are not checked: they also apply to spans, to the console and to the samples of a
/// shadow policy.
fn decision_log_checks(settings: &DecisionLogSettings) -> Vec<EffectCheck> {
    let default = DecisionLogSettings::off();
    let is_set = [
        ("decision-log-to", settings.to != default.to),
        ("decision-log-sample", settings.sample != default.sample),
        ("decision-log-file", settings.file != default.file),
        ("decision-log-max-size", settings.max_size != default.max_size),
        ("decision-log-keep", settings.keep != default.keep),
    ];
    let checks = is_set
        .into_iter()
        .filter_map(|(setting, is_set)| Some((setting, is_set, reason(settings, setting)?)));
    let is_key_unused = settings.mask_key.is_some() && settings.mask_users != MaskUsers::Hash;
    let unhashed = "no user is hashed without `decision-log-mask-users: hash`";
    checks.chain([("decision-log-mask-key", is_key_unused, unhashed)]).collect()
}

/// Why a setting of the decision log has no effect; `None` if it has an effect.
fn reason(settings: &DecisionLogSettings, setting: &str) -> Option<&'static str> {
    let is_standard = settings.is_standard_stream();
    match setting {
        _ if settings.which == DecisionLog::Off => Some("`decision-log` is `off`"),
        "decision-log-sample" => settings
            .samples_unlogged()
            .then_some("`decision-log` leaves out the decisions that it is about"),
        "decision-log-to" => None,
        _ if !settings.to.contains(&DecisionLogTo::File) => {
            Some("`decision-log-to` is only `otlp`")
        }
        "decision-log-max-size" if is_standard => {
            Some("`decision-log-file` is not a file that is renamed")
        }
        "decision-log-keep" if is_standard || settings.max_size.is_none() => {
            Some("no file is renamed without `decision-log-max-size`")
        }
        _ => None,
    }
}

fn otlp_checks(settings: &OtlpSettings, exports_log: bool) -> Vec<EffectCheck> {
    let default = OtlpSettings::off();
    let has_ratio = settings.trace_ratio != Share::NONE && settings.traces == Traces::Off;
    let mut checks = vec![("trace-ratio", has_ratio, "no spans are sent without `traces: otlp`")];
    if settings.traces == Traces::Off && !exports_log {
        let why = "nothing is sent without `traces: otlp` or `decision-log-to: otlp`";
        checks.extend([
            ("otlp-endpoint", settings.endpoint != default.endpoint, why),
            ("otlp-ca", settings.ca != default.ca, why),
            ("otlp-headers", settings.headers != default.headers, why),
            ("otlp-timeout", settings.timeout != default.timeout, why),
            ("otlp-batch-size", settings.batch_size != default.batch_size, why),
            ("otlp-service-name", settings.service_name != default.service_name, why),
            ("otlp-resource", settings.resource != default.resource, why),
        ]);
    }
    checks
}
