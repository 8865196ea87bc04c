//! The filter that authorizes requests: `ext_authz`, or rolegate's own library.

use std::time::Duration;

use document::View;

use crate::filter::{Filter, configured, type_of};
use crate::values::{LINT_DUMP, unless_off};
use crate::{Findings, Kind};

const EXT_AUTHZ: &str = "envoy.extensions.filters.http.ext_authz.v3.ExtAuthz";
const MODULE: &str = "envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilter";

/// The shortest timeout that is enough for the hash of a password.
const SHORTEST: Duration = Duration::from_secs(1);
/// The longest timeout that a person waits for.
const LONGEST: Duration = Duration::from_secs(10);

/// A filter that authorizes requests.
#[derive(Debug)]
pub(crate) struct Authorizer<'n> {
    /// The filter with its name.
    pub(crate) filter: View<'n>,
    /// Its configuration.
    pub(crate) by: By<'n>,
    /// Whether a matcher decides if it runs.
    has_matcher: bool,
}

/// How a filter authorizes.
#[derive(Debug)]
pub(crate) enum By<'n> {
    /// `ext_authz` over gRPC.
    ExtAuthz(View<'n>),
    /// `ext_authz` over plain HTTP.
    HttpService(View<'n>),
    /// rolegate's library.
    Module(View<'n>),
    /// One of these, as it seems: its configuration comes from elsewhere, as this says.
    Unseen(View<'n>),
}

impl<'n> Authorizer<'n> {
    /// What authorizes requests by this filter, or configuration of one: one for each configuration that may run.
    pub(crate) fn of(filter: &Filter<'n>) -> Vec<Self> {
        let of = |by, has_matcher| Self { filter: filter.view.clone(), by, has_matcher };
        if let Some(elsewhere) = &filter.unseen {
            // Which library it is, its configuration would say.
            let is_one = filter.possible_types().iter().any(|kind| [EXT_AUTHZ, MODULE].contains(kind));
            let by_default = filter.default.as_ref().and_then(By::of).filter(|_| is_one);
            let unseen = is_one.then(|| of(By::Unseen(elsewhere.clone()), false));
            return unseen.into_iter().chain(by_default.map(|(by, matcher)| of(by, matcher))).collect();
        }
        if filter.configs.is_empty() {
            return By::of(&filter.view).map(|(by, matcher)| of(by, matcher)).into_iter().collect();
        }
        // A default does not make a filter of another type one that authorizes.
        if !filter.configs.iter().any(|config| By::of(config).is_some()) {
            return Vec::new();
        }
        filter.all_configs().filter_map(By::of).map(|(by, matcher)| of(by, matcher)).collect()
    }

    /// `ext_authz`'s configuration.
    fn ext_authz(&self) -> Option<&View<'n>> {
        match &self.by {
            By::ExtAuthz(config) | By::HttpService(config) => Some(config),
            By::Module(_) | By::Unseen(_) => None,
        }
    }

    /// How checks are sent.
    pub(crate) fn grpc_service(&self) -> Option<View<'n>> {
        self.ext_authz()?.get("grpc_service")
    }
}

impl<'n> By<'n> {
    /// If this is the configuration of a filter that authorizes, and whether a matcher decides if that runs.
    fn of(config: &View<'n>) -> Option<(Self, bool)> {
        let (config, has_matcher) = configured(config)?;
        let kind = type_of(&config)?;
        // A `TypedStruct` has the fields under `value`.
        let inner = config.get("type_url").and_then(|_| config.get("value"));
        let config = inner.unwrap_or(config);
        let by = match kind {
            EXT_AUTHZ if config.get("http_service").is_some() => Self::HttpService(config),
            EXT_AUTHZ => Self::ExtAuthz(config),
            MODULE if is_ours(&config) => Self::Module(config),
            _ => return None,
        };
        Some((by, has_matcher))
    }
}

fn is_ours(config: &View<'_>) -> bool {
    let texts = [config.at(&["dynamic_module_config", "name"]), config.get("filter_name")];
    texts.into_iter().flatten().any(|name| name.text() == Some("rolegate"))
}

/// Reports what is wrong with the filter itself.
pub(crate) fn lint(authorizer: &Authorizer<'_>, findings: &mut Findings) {
    lint_presence(authorizer, findings);
    match &authorizer.by {
        By::Module(config) => lint_module(config, findings),
        By::Unseen(elsewhere) => {
            let message = "the configuration of this filter is not in this file, but comes from elsewhere: whether it authorizes \
                           each request cannot be seen";
            findings.add(elsewhere, Kind::UnseenFilter, message, LINT_DUMP);
        }
        By::HttpService(config) => {
            lint_http_service(&config.get("http_service").unwrap_or_else(|| config.clone()), findings);
            lint_ext_authz(config, findings);
        }
        By::ExtAuthz(config) => {
            lint_ext_authz(config, findings);
            lint_headers(config, findings);
            lint_bodies(config, findings);
            lint_timeout(config, findings);
            lint_retries(config, findings);
        }
    }
}

fn lint_http_service(service: &View<'_>, findings: &mut Findings) {
    let message = "checks are sent without gRPC, and rolegate answers each with 405, or 415 for a `POST`: every request is denied";
    let fix = "grpc_service: { timeout: 2s, envoy_grpc: { cluster_name: rolegate } }";
    findings.add(service, Kind::HttpService, message, fix);
}

/// Reports what is wrong with the `check_settings` of a route, whose filter sends checks to one of these services.
pub(crate) fn lint_route(settings: &View<'_>, services: &[View<'_>], findings: &mut Findings) {
    if let Some(service) = settings.get("http_service") {
        lint_http_service(&service, findings);
    }
    lint_timeout(settings, findings);
    lint_retries(settings, findings);
    if let Some(service) = settings.get("grpc_service") {
        lint_service(&service, services, findings);
    }
}

/// Reports checks that go elsewhere than to each of these services.
pub(crate) fn lint_service(service: &View<'_>, services: &[View<'_>], findings: &mut Findings) {
    let Some(target) = target(service) else { return };
    if services.iter().filter_map(self::target).all(|other| other.text() != target.text()) {
        let name = target.text().unwrap_or_default();
        let message = format!(
            "the checks of these requests go to `{name}`, and those of others do not: rolegate does not decide about all"
        );
        let fix = "leave this out; accept it if this is a rolegate, too";
        findings.add(&target, Kind::OtherService, message, fix);
    }
}

/// Where a `GrpcService` is.
fn target<'n>(service: &View<'n>) -> Option<View<'n>> {
    let paths = [["envoy_grpc", "cluster_name"], ["google_grpc", "target_uri"]];
    paths.iter().find_map(|path| service.at(path))
}

/// Whether the filter runs for each request.
fn lint_presence(authorizer: &Authorizer<'_>, findings: &mut Findings) {
    let filter = &authorizer.filter;
    if let Some(disabled) = unless_off(filter, "disabled") {
        let message =
            "the filter is off, except on routes that enable it: other requests pass without authorization";
        findings.add(&disabled, Kind::DisabledFilter, message, "disabled: false");
    }
    if let Some(optional) = unless_off(filter, "is_optional") {
        findings.report(&optional, Kind::OptionalFilter);
    }
    if authorizer.has_matcher {
        let message =
            "a matcher decides for which requests the filter runs: the others pass without authorization";
        let fix = "configure the filter without `ExtensionWithMatcher`, and allow what is for everyone to `anyone` in the policy";
        findings.add(filter, Kind::ConditionalFilter, message, fix);
    }
    let default = filter.at(&["config_discovery", "default_config"]);
    if let Some(other) = default.filter(|config| By::of(config).is_none()) {
        let message =
            "until Envoy has the configuration of this filter, requests pass this one, without authorization";
        let fix = "leave this out: without a default, no request passes until then";
        findings.add(&other, Kind::ConditionalFilter, message, fix);
    }
    let Some(config) = authorizer.ext_authz() else { return };
    if denies_others(config) {
        return;
    }
    let conditions = ["filter_enabled", "filter_enabled_metadata"].map(|key| config.get(key));
    let [enabled, by_metadata] = conditions;
    for condition in enabled.filter(|enabled| !is_always(enabled)).into_iter().chain(by_metadata) {
        let message = "only some requests are authorized: the others pass";
        findings.add(&condition, Kind::ConditionalFilter, message, "leave this out");
    }
}

/// Whether requests for which the filter is off are denied, and no runtime key changes it.
fn denies_others(config: &View<'_>) -> bool {
    let deny = config.get("deny_at_disable");
    deny.is_some_and(|deny| deny.is_true("default_value") && deny.get("runtime_key").is_none())
}

/// Whether a `RuntimeFractionalPercent` is 100 % by default, and no runtime key changes it.
fn is_always(enabled: &View<'_>) -> bool {
    let default = enabled.get("default_value");
    let numerator = default.as_ref().and_then(|value| value.text_of("numerator")?.parse::<u32>().ok());
    let whole = match default.as_ref().and_then(|value| value.text_of("denominator")).unwrap_or("HUNDRED") {
        "HUNDRED" => 100,
        "TEN_THOUSAND" => 10_000,
        _ => 1_000_000,
    };
    enabled.get("runtime_key").is_none() && numerator.is_some_and(|numerator| numerator >= whole)
}

fn lint_module(config: &View<'_>, findings: &mut Findings) {
    let module = config.get("dynamic_module_config");
    if !module.as_ref().is_some_and(|module| module.is_true("do_not_close")) {
        let message = "Envoy can unload the library while its threads run, and crash";
        let at = module.unwrap_or_else(|| config.clone());
        findings.add(
            &at,
            Kind::ClosedModule,
            message,
            "dynamic_module_config: { name: rolegate, do_not_close: true }",
        );
    }
}

/// What checks over gRPC and over HTTP have in common.
fn lint_ext_authz(config: &View<'_>, findings: &mut Findings) {
    if let Some(open) = unless_off(config, "failure_mode_allow") {
        let message =
            "a request passes whenever Envoy gets no decision: while rolegate restarts, or after a timeout";
        findings.add(&open, Kind::FailsOpen, message, "failure_mode_allow: false");
    }
    if let Some(shadow) = unless_off(config, "shadow_mode") {
        findings.report(&shadow, Kind::ShadowMode);
    }
    if let Some(rules) = config.get("decoder_header_mutation_rules") {
        lint_mutation_rules(&rules, findings);
    }
    if let Some(limit) =
        config.get("max_denied_response_body_bytes").filter(|limit| limit.text() != Some("0"))
    {
        findings.report(&limit, Kind::TruncatedDenials);
    }
    let fix = "status_on_error: { code: ServiceUnavailable }";
    match config.get("status_on_error") {
        None => {
            let message = "an error is answered with 403 and looks like a denial";
            findings.add(config, Kind::StatusOnError, message, fix);
        }
        Some(status) if !status.text_of("code").is_some_and(is_server_error) => {
            let message =
                "the answer to an error is not a 5xx: clients and alerts do not take it for an error";
            findings.add(&status, Kind::StatusOnError, message, fix);
        }
        Some(_) => {}
    }
    if !config.is_true("validate_mutations") {
        findings.report(config, Kind::UnvalidatedMutations);
    }
}

/// What `HeaderMutationRules` keep rolegate from changing: identity headers, and the `:path` of a search request that is
/// reduced to the permitted indices. What they allow by default is all that a policy without warnings changes.
fn lint_mutation_rules(rules: &View<'_>, findings: &mut Findings) {
    let limits = ["disallow_all", "disallow_system", "disallow_expression"];
    let limits = limits.iter().filter_map(|key| unless_off(rules, key));
    for limit in limits {
        let (kind, message) = if rules.is_true("disallow_is_error") {
            let message = "a request gets 500 if rolegate sets or removes a header that this disallows";
            (Kind::RejectedMutations, message)
        } else {
            let message = "Envoy ignores that rolegate sets or removes these headers: the application gets identity headers \
                           that a client has forged";
            (Kind::IgnoredMutations, message)
        };
        findings.add(&limit, kind, message, "leave this out");
    }
}

/// Whether this status is a 5xx, by its number or its name in Envoy.
fn is_server_error(code: &str) -> bool {
    const NAMES: [&str; 10] = [
        "InternalServerError",
        "NotImplemented",
        "BadGateway",
        "ServiceUnavailable",
        "GatewayTimeout",
        "HTTPVersionNotSupported",
        "VariantAlsoNegotiates",
        "InsufficientStorage",
        "LoopDetected",
        "NetworkAuthenticationRequired",
    ];
    NAMES.contains(&code) || (code.len() == 3 && code.starts_with('5'))
}

fn lint_headers(config: &View<'_>, findings: &mut Findings) {
    if !config.is_true("encode_raw_headers") {
        findings.report(config, Kind::JoinedHeaders);
    }
    for key in ["allowed_headers", "disallowed_headers"] {
        let Some(list) = config.get(key) else { continue };
        let named = list.list("patterns").iter().any(is_about_authorization);
        let hidden = named == (key == "disallowed_headers");
        let message = if hidden {
            "rolegate does not see `authorization`: every caller is anonymous. And headers that it does not see cannot be \
             checked or removed"
        } else {
            "headers that rolegate does not see cannot be checked or removed: a client can send one that the application reads \
             as an identity header"
        };
        findings.add(&list, Kind::HiddenHeaders, message, "leave this out: rolegate then sees each header");
    }
}

/// Whether a `StringMatcher` matches the header `authorization`.
fn is_about_authorization(pattern: &View<'_>) -> bool {
    const NAME: &str = "authorization";
    let is = |key: &str, matches: fn(&str, &str) -> bool| {
        pattern.text_of(key).is_some_and(|text| matches(NAME, &text.to_ascii_lowercase()))
    };
    is("exact", |name, text| name == text)
        || is("prefix", |name, text| name.starts_with(text))
        || is("suffix", |name, text| name.ends_with(text))
        || is("contains", |name, text| name.contains(text))
        // What it matches is not evaluated: one that names the header is taken for one that matches it.
        || pattern.at(&["safe_regex", "regex"]).is_some_and(|regex| {
            regex.text().is_some_and(|text| text.to_ascii_lowercase().contains("auth") || text == ".*")
        })
}

fn lint_bodies(config: &View<'_>, findings: &mut Findings) {
    let Some(bodies) = config.get("with_request_body") else { return };
    if let Some(partial) = unless_off(&bodies, "allow_partial_message") {
        findings.report(&partial, Kind::PartialBodies);
    }
    if !bodies.is_true("pack_as_bytes") {
        findings.report(&bodies, Kind::BodyAsText);
    }
}

fn lint_timeout(config: &View<'_>, findings: &mut Findings) {
    let Some(service) = config.get("grpc_service") else { return };
    let (at, timeout) = match service.get("timeout") {
        None => (service, Some(Duration::from_millis(200))),
        Some(timeout) => (timeout.clone(), timeout.text().and_then(duration)),
    };
    let Some(timeout) = timeout else { return };
    if timeout.is_zero() || timeout > LONGEST {
        let message = "while rolegate hangs, each request waits this long until it is denied";
        findings.add(&at, Kind::LongTimeout, message, "timeout: 2s");
    } else if timeout < SHORTEST {
        let message = format!(
            "Envoy waits {} ms for a decision, which is too short for the first check of a password: it computes a hash",
            timeout.as_millis()
        );
        findings.add(&at, Kind::ShortTimeout, message, "timeout: 2s");
    }
}

/// A duration as Envoy writes it (`0.25s`).
pub(crate) fn duration(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(text.strip_suffix('s')?.parse().ok()?).ok()
}

fn lint_retries(config: &View<'_>, findings: &mut Findings) {
    let Some(service) = config.get("grpc_service").filter(|service| service.get("envoy_grpc").is_some())
    else {
        return;
    };
    let Some(retries) = service.get("retry_policy") else {
        findings.report(&service, Kind::NoRetries);
        return;
    };
    if retries.get("retry_back_off").is_none() {
        findings.report(&retries, Kind::SlowRetries);
    }
}
