//! The filter that authorizes requests: `ext_authz`, or rolegate's own library.

use std::time::Duration;

use document::View;

use crate::filter::{Filter, fields_of, type_of, without_matcher};
use crate::{Findings, Kind, LINT_DUMP, get_or_self, is_among};

const EXT_AUTHZ: &str = "envoy.extensions.filters.http.ext_authz.v3.ExtAuthz";
const MODULE: &str = "envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilter";

pub(crate) const FAILS_OPEN: &str =
    "a request passes whenever Envoy gets no decision: while rolegate restarts, or after a timeout";
pub(crate) const HTTP_SERVICE: &str = "checks are sent without gRPC, and rolegate answers each \
    with 405, or 415 for a `POST`: every request is denied";
pub(crate) const STATUS_ON_ERROR: &str = "an error is answered with 403 and looks like a denial";
pub(crate) const CLOSED_MODULE: &str =
    "Envoy can unload the dynamic module while its threads run, and crash";
pub(crate) const HIDDEN_HEADERS: &str = "headers that rolegate does not see cannot be checked or \
    removed: a client can send one that the application reads as an identity header";
pub(crate) const HIDDEN_HEADERS_FIX: &str = "leave this out: rolegate then sees every header";

/// Enough for hashing a password.
const MIN_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a person may wait while rolegate hangs.
pub(crate) const MAX_TIMEOUT: Duration = Duration::from_secs(10);

/// A filter that authorizes, and a configuration that it may have.
#[derive(Debug)]
pub(crate) struct Authorizer<'n> {
    pub(crate) view: View<'n>,
    pub(crate) config: Config<'n>,
    /// Whether a matcher decides if the filter runs.
    has_matcher: bool,
}

#[derive(Debug)]
pub(crate) enum Config<'n> {
    /// `ext_authz` over gRPC.
    ExtAuthz(View<'n>),
    /// `ext_authz` over plain HTTP.
    HttpService(View<'n>),
    /// rolegate's library.
    Module(View<'n>),
    /// The filter may authorize, but only a reference to its configuration is in the file.
    Unseen(View<'n>),
}

impl<'n> Authorizer<'n> {
    /// An authorizer for each possible configuration of this filter.
    pub(crate) fn all_in(filter: &Filter<'n>) -> Vec<Self> {
        let mut configs: Vec<Option<(Config<'n>, bool)>> = Vec::new();
        if let Some(unseen) = &filter.unseen {
            // A dynamic module may be rolegate's: only its configuration would tell.
            if filter.possible_types().iter().any(|kind| [EXT_AUTHZ, MODULE].contains(kind)) {
                configs.push(Some((Config::Unseen(unseen.clone()), false)));
                configs.extend(filter.default.as_ref().map(Config::parse));
            }
        } else if filter.configs.is_empty() {
            // The value may itself be a configuration, as in a patch.
            configs.push(Config::parse(&filter.view));
        } else if filter.configs.iter().any(|config| Config::parse(config).is_some()) {
            // If only the default authorizes, the filter does not count: a configuration that does
            // not authorize replaces the default.
            configs.extend(filter.all_configs().map(Config::parse));
        }
        let configs = configs.into_iter().flatten();
        configs
            .map(|(config, has_matcher)| Self { view: filter.view.clone(), config, has_matcher })
            .collect()
    }

    pub(crate) fn ext_authz(&self) -> Option<&View<'n>> {
        match &self.config {
            Config::ExtAuthz(config) | Config::HttpService(config) => Some(config),
            Config::Module(_) | Config::Unseen(_) => None,
        }
    }

    pub(crate) fn grpc_service(&self) -> Option<View<'n>> {
        self.ext_authz()?.get("grpc_service")
    }
}

impl<'n> Config<'n> {
    /// The configuration of a filter that authorizes, and whether a matcher decides if it runs.
    fn parse(config: &View<'n>) -> Option<(Self, bool)> {
        let (config, has_matcher) = without_matcher(config)?;
        let kind = type_of(&config)?;
        let config = fields_of(&config);
        let config = match kind {
            EXT_AUTHZ if config.get("http_service").is_some() => Self::HttpService(config),
            EXT_AUTHZ => Self::ExtAuthz(config),
            MODULE if is_rolegate(&config, "dynamic_module_config/name") => Self::Module(config),
            _ => return None,
        };
        Some((config, has_matcher))
    }
}

/// Whether this configuration of a library is for rolegate. The name of the library is at the path
/// `name_path`.
pub(crate) fn is_rolegate(config: &View<'_>, name_path: &str) -> bool {
    [name_path, "filter_name"].iter().any(|path| config.text_of(path) == Some("rolegate"))
}

/// Reports unsafe and broken settings of the filter itself.
pub(crate) fn lint(authorizer: &Authorizer<'_>, findings: &mut Findings) {
    lint_presence(authorizer, findings);
    match &authorizer.config {
        Config::Module(config) => {
            if !config.is_true("dynamic_module_config/do_not_close") {
                let at = get_or_self(config, "dynamic_module_config");
                let fix = "dynamic_module_config: { name: rolegate, do_not_close: true }";
                findings.add(&at, Kind::ClosedModule, CLOSED_MODULE, fix);
            }
        }
        Config::Unseen(reference) => {
            let message = "the configuration of this filter is not in this file, but comes from \
                           elsewhere: whether it authorizes each request cannot be seen";
            findings.add(reference, Kind::UnseenFilter, message, LINT_DUMP);
        }
        Config::HttpService(config) => {
            lint_http_service(config, findings);
            lint_ext_authz(config, findings);
        }
        Config::ExtAuthz(config) => {
            lint_ext_authz(config, findings);
            lint_headers(config, findings);
            lint_bodies(config, findings);
            lint_grpc_service(config, findings);
        }
    }
}

fn lint_http_service(config: &View<'_>, findings: &mut Findings) {
    if let Some(service) = config.get("http_service") {
        let fix = "grpc_service: { timeout: 2s, envoy_grpc: { cluster_name: rolegate } }";
        findings.add(&service, Kind::HttpService, HTTP_SERVICE, fix);
    }
}

/// Reports unsafe settings in the `check_settings` of a route. `services` are those of the filters:
/// the route may name another.
pub(crate) fn lint_route<'n>(settings: &View<'n>, services: &[View<'n>], findings: &mut Findings) {
    lint_http_service(settings, findings);
    lint_grpc_service(settings, findings);
    if let Some(service) = settings.get("grpc_service") {
        lint_service(&service, services, findings);
    }
}

/// Reports a filter that does not send the certificates of clients.
pub(crate) fn lint_certificate(authorizer: &Authorizer<'_>, findings: &mut Findings) {
    let Config::ExtAuthz(config) = &authorizer.config else { return };
    if !config.is_true("include_peer_certificate") {
        findings.add_kind(&authorizer.view, Kind::PartialCertificate);
    }
}

/// Reports checks that go to none of these services.
pub(crate) fn lint_service<'n>(service: &View<'n>, services: &[View<'n>], findings: &mut Findings) {
    let Some(target) = target(service) else { return };
    let mut targets = services.iter().filter_map(self::target);
    if targets.all(|t| t.text() != target.text()) {
        let name = target.text().unwrap_or_default();
        let message = format!(
            "these requests are checked by `{name}`, and others are not: rolegate does not see \
             every request"
        );
        let fix = "leave this out; or accept it if this is also a rolegate";
        findings.add(&target, Kind::OtherService, message, fix);
    }
}

/// The cluster or the address of a `GrpcService`.
fn target<'n>(service: &View<'n>) -> Option<View<'n>> {
    service.get("envoy_grpc/cluster_name").or_else(|| service.get("google_grpc/target_uri"))
}

/// Reports why the filter may not run for each request.
fn lint_presence(authorizer: &Authorizer<'_>, findings: &mut Findings) {
    let filter = &authorizer.view;
    let message = "the filter is off, except on routes that enable it: other requests pass without \
                   authorization";
    findings.add_if_on(filter, "disabled", Kind::DisabledFilter, message, "disabled: false");
    findings.add_kind_if_on(filter, "is_optional", Kind::OptionalFilter);
    if authorizer.has_matcher {
        let message = "a matcher decides for which requests the filter runs: the others pass \
                       without authorization";
        let fix = "configure the filter without `ExtensionWithMatcher`, and allow public requests \
                   to `anyone` in the policy";
        findings.add(filter, Kind::ConditionalFilter, message, fix);
    }
    let default = filter.get("config_discovery/default_config");
    if let Some(default) = default.filter(|config| Config::parse(config).is_none()) {
        let message = "until Envoy has the configuration of this filter, requests go through this \
                       default, which does not authorize";
        let fix = "leave this out: without a default, no request passes until then";
        findings.add(&default, Kind::ConditionalFilter, message, fix);
    }
    let Some(config) = authorizer.ext_authz() else { return };
    // A runtime key could turn off `deny_at_disable`.
    let deny = config.get("deny_at_disable");
    if deny.is_some_and(|deny| deny.is_true("default_value") && deny.get("runtime_key").is_none()) {
        return;
    }
    let enabled = config.get("filter_enabled").filter(|enabled| !is_always(enabled));
    for condition in enabled.into_iter().chain(config.get("filter_enabled_metadata")) {
        let message = "only some requests are authorized: the others pass";
        findings.add(&condition, Kind::ConditionalFilter, message, "leave this out");
    }
}

/// Whether a `RuntimeFractionalPercent` is 100 % by default, and no runtime key changes it.
fn is_always(enabled: &View<'_>) -> bool {
    let numerator =
        enabled.text_of("default_value/numerator").and_then(|text| text.parse::<u32>().ok());
    let whole = match enabled.text_of("default_value/denominator").unwrap_or("HUNDRED") {
        "HUNDRED" => 100,
        "TEN_THOUSAND" => 10_000,
        _ => 1_000_000,
    };
    enabled.get("runtime_key").is_none() && numerator.is_some_and(|numerator| numerator >= whole)
}

/// Reports settings that apply to checks over gRPC and over HTTP.
fn lint_ext_authz(config: &View<'_>, findings: &mut Findings) {
    let fix = "failure_mode_allow: false";
    findings.add_if_on(config, "failure_mode_allow", Kind::FailsOpen, FAILS_OPEN, fix);
    findings.add_kind_if_on(config, "shadow_mode", Kind::ShadowMode);
    lint_mutation_rules(config, findings);
    let limit = config.get("max_denied_response_body_bytes");
    if let Some(limit) = limit.filter(|limit| limit.text() != Some("0")) {
        findings.add_kind(&limit, Kind::TruncatedDenials);
    }
    let status = config.get("status_on_error");
    let code = status.as_ref().map(|status| status.text_of("code").unwrap_or_default());
    if !code.is_some_and(is_server_error) {
        let message = if status.is_none() {
            STATUS_ON_ERROR
        } else {
            "the answer to an error is not a 5xx: clients and alerts do not see an error"
        };
        let fix = "status_on_error: { code: ServiceUnavailable }";
        findings.add(status.as_ref().unwrap_or(config), Kind::StatusOnError, message, fix);
    }
    if !config.is_true("validate_mutations") {
        findings.add_kind(config, Kind::UnvalidatedMutations);
    }
}

/// Reports `HeaderMutationRules` that keep rolegate from changing headers: identity headers, or the
/// `:path` of a search request that is reduced to the permitted indices. The default rules allow
/// every change that a policy without warnings makes.
fn lint_mutation_rules(config: &View<'_>, findings: &mut Findings) {
    let Some(rules) = config.get("decoder_header_mutation_rules") else { return };
    let is_error = rules.is_true("disallow_is_error");
    let kind = if is_error { Kind::RejectedMutations } else { Kind::IgnoredMutations };
    for key in ["disallow_all", "disallow_system", "disallow_expression"] {
        findings.add_kind_if_on(&rules, key, kind);
    }
}

/// Whether this status is a 5xx, by its number or its name in Envoy.
fn is_server_error(code: &str) -> bool {
    const NAMES: &str = "\
        InternalServerError NotImplemented BadGateway ServiceUnavailable GatewayTimeout \
        HTTPVersionNotSupported VariantAlsoNegotiates InsufficientStorage LoopDetected \
        NetworkAuthenticationRequired";
    is_among(NAMES, code) || (code.len() == 3 && code.starts_with('5'))
}

fn lint_headers(config: &View<'_>, findings: &mut Findings) {
    if !config.is_true("encode_raw_headers") {
        findings.add_kind(config, Kind::JoinedHeaders);
    }
    for key in ["allowed_headers", "disallowed_headers"] {
        let Some(list) = config.get(key) else { continue };
        let is_listed = list.list("patterns").iter().any(matches_authorization);
        let message = if is_listed == (key == "disallowed_headers") {
            "rolegate does not see `authorization`: every caller is anonymous, and hidden headers \
             cannot be checked or removed"
        } else {
            HIDDEN_HEADERS
        };
        findings.add(&list, Kind::HiddenHeaders, message, HIDDEN_HEADERS_FIX);
    }
}

/// Whether a `StringMatcher` matches the header `authorization`. Regular expressions are not
/// evaluated: an expression that contains `auth` is assumed to match.
fn matches_authorization(pattern: &View<'_>) -> bool {
    const NAME: &str = "authorization";
    let text = |path: &str| pattern.text_of(path).map(str::to_ascii_lowercase);
    text("exact").is_some_and(|text| NAME == text)
        || text("prefix").is_some_and(|text| NAME.starts_with(&text))
        || text("suffix").is_some_and(|text| NAME.ends_with(&text))
        || text("contains").is_some_and(|text| NAME.contains(&text))
        || text("safe_regex/regex").is_some_and(|text| text.contains("auth") || text == ".*")
}

fn lint_bodies(config: &View<'_>, findings: &mut Findings) {
    let Some(bodies) = config.get("with_request_body") else { return };
    findings.add_kind_if_on(&bodies, "allow_partial_message", Kind::PartialBodies);
    if !bodies.is_true("pack_as_bytes") {
        findings.add_kind(&bodies, Kind::BodyAsText);
    }
}

/// Reports timeouts and retries of checks.
fn lint_grpc_service(config: &View<'_>, findings: &mut Findings) {
    let Some(service) = config.get("grpc_service") else { return };
    let timeout = match service.text_of("timeout") {
        // Envoy's default.
        None if service.get("timeout").is_none() => Some(Duration::from_millis(200)),
        timeout => timeout.and_then(duration),
    };
    let (at, fix) = (get_or_self(&service, "timeout"), "timeout: 2s");
    if timeout.is_some_and(|timeout| timeout.is_zero() || timeout > MAX_TIMEOUT) {
        let message = "while rolegate hangs, each request waits this long until it is denied";
        findings.add(&at, Kind::LongTimeout, message, fix);
    } else if let Some(timeout) = timeout.filter(|timeout| *timeout < MIN_TIMEOUT) {
        let message = format!(
            "Envoy waits {} ms for a decision, which is too short for the first check of a \
             password: it computes a hash",
            timeout.as_millis()
        );
        findings.add(&at, Kind::ShortTimeout, message, fix);
    }
    if service.get("envoy_grpc").is_some() {
        match service.get("retry_policy") {
            None => findings.add_kind(&service, Kind::NoRetries),
            Some(retries) if retries.get("retry_back_off").is_none() => {
                findings.add_kind(&retries, Kind::SlowRetries);
            }
            Some(_) => {}
        }
    }
}

/// A duration as Envoy writes it (`0.25s`).
pub(crate) fn duration(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(text.strip_suffix('s')?.parse().ok()?).ok()
}
