//! HTTP connection managers: paths, the order of filters, and filter chains of upgrades.

use document::View;

use crate::authorizer::{Authorizer, Config};
use crate::filter::{Discovered, type_of};
use crate::filters::Filters;
use crate::{Findings, Kind, authorizer, credentials, get_or_self, routes};

/// The setting for `%2F` and `%5C` in a path.
const SLASHES: &str = "path_with_escaped_slashes_action";

pub(crate) const UNESCAPED_SLASHES: &str =
    "Envoy decodes `%2F` and `%5C` before rolegate sees the path, which would deny them";

#[derive(Debug)]
pub(crate) struct Manager<'n> {
    pub(crate) view: View<'n>,
    filters: Filters<'n>,
    /// Upgrades with their own list of filters; empty if `filters` do not authorize.
    upgrades: Vec<(View<'n>, Filters<'n>)>,
}

impl<'n> Manager<'n> {
    pub(crate) fn new(view: &View<'n>, discovered: &Discovered<'n>) -> Self {
        let filters = Filters::new(&view.list("http_filters"), discovered);
        let upgrades = if filters.authorize() { upgrades(view, discovered) } else { Vec::new() };
        Self { view: view.clone(), filters, upgrades }
    }

    /// All filters that authorize, including filters for upgrades.
    pub(crate) fn authorizers(&self) -> impl Iterator<Item = &Authorizer<'n>> {
        let upgrades = self.upgrades.iter().flat_map(|(_, filters)| filters.authorizers());
        self.filters.authorizers().chain(upgrades)
    }

    /// Whether requests that do not upgrade are authorized.
    pub(crate) fn authorizes(&self) -> bool {
        self.filters.authorize()
    }

    /// Reports unsafe, broken and slow settings around a filter that authorizes. `routes` are the
    /// routes outside of connection managers.
    pub(crate) fn lint(&self, routes: &[&View<'n>], findings: &mut Findings) {
        lint_paths(&self.view, true, findings);
        let mut own_routes = routes::of_manager(&self.view, routes);
        own_routes.push(&self.view);
        let routes: Vec<&View<'_>> = routes.iter().copied().chain([&self.view]).collect();
        self.filters.lint(&routes, &own_routes, findings);
        self.filters.lint_preflights(&own_routes, findings);
        self.filters.lint_stalled_bodies(findings);
        let services: Vec<View<'_>> =
            self.filters.authorizers().filter_map(Authorizer::grpc_service).collect();
        for (upgrade, filters) in &self.upgrades {
            filters.lint(&routes, &own_routes, findings);
            for service in filters.authorizers().filter_map(Authorizer::grpc_service) {
                authorizer::lint_service(&service, &services, findings);
            }
            lint_upgrade(upgrade, filters, findings);
        }
        self.lint_metadata(findings);
        credentials::lint(&self.view, findings);
        if !self.view.is_true("use_remote_address") {
            findings.add_kind(&self.view, Kind::ClientAddress);
        }
        self.lint_certificates(findings);
        self.lint_bodies(findings);
    }

    /// Reports a header with certificates that clients write themselves. `use_remote_address` says
    /// that no proxy is in front.
    fn lint_certificates(&self, findings: &mut Findings) {
        const FORWARDING: [&str; 4] = ["FORWARD_ONLY", "1", "ALWAYS_FORWARD_ONLY", "4"];
        let Some(details) = self.view.get("forward_client_cert_details") else { return };
        let text = details.text().unwrap_or_default();
        if self.view.is_true("use_remote_address")
            && FORWARDING.iter().any(|forwarding| text.eq_ignore_ascii_case(forwarding))
        {
            findings.add_kind(&details, Kind::ClientCertificateHeader);
        }
    }

    /// Reports METADATA frames beside a dynamic module: such a frame makes Envoy forget that the
    /// module has stopped the request.
    fn lint_metadata(&self, findings: &mut Findings) {
        if !self.authorizers().any(|authorizer| matches!(authorizer.config, Config::Module(_))) {
            return;
        }
        for protocol in ["http2", "http3"] {
            let setting = self.view.get(&format!("{protocol}_protocol_options/allow_metadata"));
            if let Some(setting) = setting.filter(|setting| setting.boolean() == Some(true)) {
                findings.add_kind(&setting, Kind::MetadataFrames);
            }
        }
    }

    /// Reports bodies that are sent without need, or needed and not sent. Only routes to search
    /// clusters need bodies, and announce them.
    fn lint_bodies(&self, findings: &mut Findings) {
        let are_announced = routes::announce_bodies(&self.view);
        // Not the filters for upgrades: a WebSocket has no body that Envoy could wait for.
        for authorizer in self.filters.authorizers() {
            let Config::ExtAuthz(config) = &authorizer.config else { continue };
            match config.get("with_request_body") {
                Some(bodies) if !are_announced && self.view.get("route_config").is_some() => {
                    findings.add_kind(&bodies, Kind::BufferedBodies);
                }
                None if are_announced && !routes::have_bodies_sent(&self.view) => {
                    let message = "a route says that Envoy sends each body, but \
                                   `with_request_body` is not set: rolegate decides about \
                                   requests to a search cluster as if they had none";
                    let fix = "with_request_body: { max_request_bytes: 10485760, \
                               allow_partial_message: false, pack_as_bytes: true }";
                    findings.add(&authorizer.view, Kind::MissingBodies, message, fix);
                }
                Some(_) | None => {}
            }
        }
        let first = self.filters.authorizers().next();
        if are_announced && first.and_then(Authorizer::grpc_service).is_some() {
            routes::lint_unsent_bodies(&self.view, findings);
        }
    }
}

/// Upgrades of a connection manager with their own list of filters.
fn upgrades<'n>(manager: &View<'n>, discovered: &Discovered<'n>) -> Vec<(View<'n>, Filters<'n>)> {
    let upgrades = manager.list("upgrade_configs").into_iter();
    let upgrades = upgrades.map(|upgrade| (upgrade.list("filters"), upgrade));
    upgrades
        .filter(|(filters, _)| !filters.is_empty())
        .map(|(filters, upgrade)| (upgrade, Filters::new(&filters, discovered)))
        .collect()
}

pub(crate) fn is_manager(config: &View<'_>) -> bool {
    type_of(config)
        .is_some_and(|kind| kind.ends_with(".http_connection_manager.v3.HttpConnectionManager"))
}

/// Reports unsafe settings that a patch of an `EnvoyFilter` merges into a connection manager.
pub(crate) fn lint_merged(
    settings: &View<'_>,
    discovered: &Discovered<'_>,
    findings: &mut Findings,
) {
    lint_paths(settings, false, findings);
    credentials::lint(settings, findings);
    for (upgrade, filters) in upgrades(settings, discovered) {
        lint_upgrade(&upgrade, &filters, findings);
    }
}

/// Reports settings about paths. `is_complete`: whether a missing setting has its default, off.
fn lint_paths(settings: &View<'_>, is_complete: bool, findings: &mut Findings) {
    for (key, kind, part) in [
        ("normalize_path", Kind::UnnormalizedPath, "dot segments and percent-encoding"),
        ("merge_slashes", Kind::UnmergedSlashes, "adjacent slashes"),
    ] {
        if !settings.is_true(key) && (is_complete || settings.get(key).is_some()) {
            let message = format!(
                "the application gets the path with its {part} as the client sent it, not the one \
                 that was authorized"
            );
            findings.add(&get_or_self(settings, key), kind, message, format!("{key}: true"));
        }
    }
    if let Some(action) = settings.get(SLASHES) {
        lint_slashes(&action, findings);
    }
}

/// Reports an action (name or number) that decodes escaped slashes.
fn lint_slashes(action: &View<'_>, findings: &mut Findings) {
    const SAFE: [&str; 6] =
        ["IMPLEMENTATION_SPECIFIC_DEFAULT", "0", "KEEP_UNCHANGED", "1", "REJECT_REQUEST", "2"];
    let text = action.text().unwrap_or_default();
    if !SAFE.iter().any(|safe| text.eq_ignore_ascii_case(safe)) {
        let fix = format!("{SLASHES}: REJECT_REQUEST");
        findings.add(action, Kind::UnescapedSlashes, UNESCAPED_SLASHES, fix);
    }
}

/// Reports the action for escaped slashes that a static runtime sets where this connection manager
/// does not.
pub(crate) fn lint_runtime(manager: &View<'_>, runtime: &View<'_>, findings: &mut Findings) {
    let action = manager.text_of(SLASHES).unwrap_or("0");
    if action == "0" || action.eq_ignore_ascii_case("IMPLEMENTATION_SPECIFIC_DEFAULT") {
        let value = runtime_value(runtime, &format!("http_connection_manager.{SLASHES}"));
        value.iter().for_each(|value| lint_slashes(value, findings));
    }
}

/// The value of a dotted name. Its parts may be keys of nested mappings.
fn runtime_value<'n>(runtime: &View<'n>, name: &str) -> Option<View<'n>> {
    runtime.get(name).or_else(|| {
        let entries = runtime.entries_as_written();
        entries.iter().find_map(|(key, value)| {
            runtime_value(value, name.strip_prefix(&**key)?.strip_prefix('.')?)
        })
    })
}

fn lint_upgrade(upgrade: &View<'_>, filters: &Filters<'_>, findings: &mut Findings) {
    if filters.authorize() {
        return;
    }
    let protocol = upgrade.text_of("upgrade_type").unwrap_or_default();
    let message = format!(
        "requests that upgrade to `{protocol}` pass these filters only, without authorization"
    );
    let fix = "leave `filters` out, so that they pass `http_filters`";
    findings.add(&get_or_self(upgrade, "filters"), Kind::UpgradeFilters, message, fix);
}
