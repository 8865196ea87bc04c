//! HTTP connection managers: paths, the order of filters, and which requests pass other filters.

use document::View;

use crate::authorizer::{Authorizer, By};
use crate::filter::{Discovered, type_of};
use crate::filters::Filters;
use crate::{Findings, Kind, authorizer, credentials, routes};

/// The setting for `%2F` and `%5C` in a path.
const SLASHES: &str = "path_with_escaped_slashes_action";

pub(crate) const UNESCAPED_SLASHES: &str =
    "Envoy decodes `%2F` and `%5C` before rolegate sees the path, which would deny them";

#[derive(Debug)]
pub(crate) struct Manager<'n> {
    pub(crate) view: View<'n>,
    filters: Filters<'n>,
    /// Lists of filters of their own, for requests that upgrade to another protocol; none without
    /// authorization here.
    upgrades: Vec<(View<'n>, Filters<'n>)>,
}

impl<'n> Manager<'n> {
    pub(crate) fn new(view: &View<'n>, discovered: &Discovered<'n>) -> Self {
        let filters = Filters::new(&view.list("http_filters"), discovered);
        let mut upgrades = view.list("upgrade_configs");
        upgrades.retain(|upgrade| filters.authorize() && !upgrade.list("filters").is_empty());
        let upgrades = upgrades.into_iter().map(|upgrade| {
            let own = Filters::new(&upgrade.list("filters"), discovered);
            (upgrade, own)
        });
        Self { view: view.clone(), upgrades: upgrades.collect(), filters }
    }

    /// All filters that authorize, also those for requests that upgrade.
    pub(crate) fn authorizers(&self) -> impl Iterator<Item = &Authorizer<'n>> {
        self.filters
            .authorizers()
            .chain(self.upgrades.iter().flat_map(|(_, own)| own.authorizers()))
    }

    /// Whether requests that do not upgrade are authorized.
    pub(crate) fn authorizes(&self) -> bool {
        self.filters.authorize()
    }

    /// Reports what is wrong around the filter. Where there is none, nothing is.
    /// `other_routes` are those outside of a connection manager.
    pub(crate) fn lint(&self, other_routes: &[&View<'n>], findings: &mut Findings) {
        if !self.authorizes() {
            return;
        }
        lint_paths(&self.view, true, findings);
        let routes: Vec<&View<'_>> =
            [&self.view].into_iter().chain(other_routes.iter().copied()).collect();
        self.filters.lint_early(&routes, findings);
        self.filters.lint_rewrites(&routes, findings);
        let mut own = routes::of_manager(&self.view, other_routes);
        own.push(&self.view);
        self.filters.lint_cleared_routes(&own, findings);
        self.upgrades.iter().for_each(|(_, filters)| filters.lint_cleared_routes(&own, findings));
        self.lint_upgrades(&routes, findings);
        self.lint_metadata(findings);
        self.filters.lint_preflights(&own, findings);
        self.filters.lint_stalled_bodies(findings);
        credentials::lint(&self.view, findings);
        if !self.view.is_true("use_remote_address") {
            findings.report(&self.view, Kind::ClientAddress);
        }
    }

    /// Envoy forgets that its filter of libraries has stopped a request when a frame of metadata
    /// passes that filter.
    fn lint_metadata(&self, findings: &mut Findings) {
        if !self.authorizers().any(|authorizer| matches!(authorizer.by, By::Module(_))) {
            return;
        }
        for path in
            ["http2_protocol_options/allow_metadata", "http3_protocol_options/allow_metadata"]
        {
            if let Some(setting) =
                self.view.get(path).filter(|setting| setting.boolean() == Some(true))
            {
                findings.report(&setting, Kind::MetadataFrames);
            }
        }
    }

    /// Requests that upgrade to another protocol can have a list of filters of their own.
    fn lint_upgrades(&self, routes: &[&View<'_>], findings: &mut Findings) {
        let services: Vec<View<'_>> =
            self.filters.authorizers().filter_map(Authorizer::grpc_service).collect();
        for (upgrade, filters) in &self.upgrades {
            filters.lint_early(routes, findings);
            filters.lint_rewrites(routes, findings);
            for service in filters.authorizers().filter_map(Authorizer::grpc_service) {
                authorizer::lint_service(&service, &services, findings);
            }
            if !filters.authorize() {
                lint_upgrade(upgrade, findings);
            }
        }
    }

    /// Bodies are for search clusters, whose routes say that they are sent.
    pub(crate) fn lint_bodies(&self, findings: &mut Findings) {
        let says = routes::say_that_bodies_are_sent(&self.view);
        // Not those for upgrades: a WebSocket has no body that Envoy could wait for.
        for authorizer in self.filters.authorizers() {
            let By::ExtAuthz(config) = &authorizer.by else { continue };
            match config.get("with_request_body") {
                Some(bodies) if !says && self.view.get("route_config").is_some() => {
                    findings.report(&bodies, Kind::BufferedBodies);
                }
                None if says && !routes::have_bodies_sent(&self.view) => {
                    let message = "a route says that Envoy sends each body, but `with_request_body` is not set: rolegate decides \
                                   about requests to a search cluster as if they had none";
                    let fix = "with_request_body: { max_request_bytes: 10485760, allow_partial_message: false, pack_as_bytes: true }";
                    findings.add(&authorizer.filter, Kind::MissingBodies, message, fix);
                }
                Some(_) | None => {}
            }
        }
        if says && self.filters.authorizers().next().and_then(Authorizer::grpc_service).is_some() {
            routes::lint_unsent_bodies(&self.view, findings);
        }
    }
}

pub(crate) fn is_manager(config: &View<'_>) -> bool {
    type_of(config)
        .is_some_and(|kind| kind.ends_with(".http_connection_manager.v3.HttpConnectionManager"))
}

/// Reports settings that are merged into a connection manager with the filter.
pub(crate) fn lint_merged(
    settings: &View<'_>,
    discovered: &Discovered<'_>,
    findings: &mut Findings,
) {
    lint_paths(settings, false, findings);
    credentials::lint(settings, findings);
    for upgrade in settings.list("upgrade_configs") {
        let filters = upgrade.list("filters");
        if !filters.is_empty() && !Filters::new(&filters, discovered).authorize() {
            lint_upgrade(&upgrade, findings);
        }
    }
}

/// Reports settings about paths. `are_all`: whether settings that are not among them are off.
fn lint_paths(settings: &View<'_>, are_all: bool, findings: &mut Findings) {
    let paths = [
        ("normalize_path", Kind::UnnormalizedPath, "dot segments and percent-encoding"),
        ("merge_slashes", Kind::UnmergedSlashes, "adjacent slashes"),
    ];
    for (key, kind, what) in paths {
        let setting = settings.get(key);
        if !settings.is_true(key) && (are_all || setting.is_some()) {
            let at = setting.unwrap_or_else(|| settings.clone());
            let message = format!(
                "the application gets the path with its {what} as the client sent it, not the one that was authorized"
            );
            findings.add(&at, kind, message, format!("{key}: true"));
        }
    }
    let action = settings.get(SLASHES);
    if let Some(action) = action.filter(|action| !action.text().is_some_and(keeps_slashes)) {
        lint_slashes(&action, findings);
    }
}

fn lint_slashes(action: &View<'_>, findings: &mut Findings) {
    findings.add(
        action,
        Kind::UnescapedSlashes,
        UNESCAPED_SLASHES,
        format!("{SLASHES}: REJECT_REQUEST"),
    );
}

/// Reports the action for escaped slashes that a static runtime sets where this connection manager
/// does not.
pub(crate) fn lint_runtime(manager: &View<'_>, runtime: &View<'_>, findings: &mut Findings) {
    let action = manager.text_of(SLASHES).unwrap_or("0");
    let is_default =
        action == "0" || action.eq_ignore_ascii_case("IMPLEMENTATION_SPECIFIC_DEFAULT");
    let value = runtime_value(runtime, &format!("http_connection_manager.{SLASHES}"));
    if let Some(value) =
        value.filter(|value| is_default && !value.text().is_some_and(keeps_slashes))
    {
        lint_slashes(&value, findings);
    }
}

/// The value of this name, whose parts may be keys of mappings inside of each other.
fn runtime_value<'n>(runtime: &View<'n>, name: &str) -> Option<View<'n>> {
    runtime.get(name).or_else(|| {
        let entries = runtime.named_entries();
        entries.iter().find_map(|(key, value)| {
            runtime_value(value, name.strip_prefix(&**key)?.strip_prefix('.')?)
        })
    })
}

fn lint_upgrade(upgrade: &View<'_>, findings: &mut Findings) {
    let protocol = upgrade.text_of("upgrade_type").unwrap_or_default();
    let at = upgrade.get("filters").unwrap_or_else(|| upgrade.clone());
    let message = format!(
        "requests that upgrade to `{protocol}` pass these filters only, without authorization"
    );
    let fix = "leave `filters` out, so that they pass `http_filters`";
    findings.add(&at, Kind::UpgradeFilters, message, fix);
}

/// Whether this action for escaped slashes, by its name or its number in Envoy, decodes none.
fn keeps_slashes(action: &str) -> bool {
    const SAFE: [&str; 6] =
        ["IMPLEMENTATION_SPECIFIC_DEFAULT", "0", "KEEP_UNCHANGED", "1", "REJECT_REQUEST", "2"];
    SAFE.iter().any(|safe| action.eq_ignore_ascii_case(safe))
}
