//! HTTP connection managers: paths, the order of filters, and which requests pass other filters.

use policy::document::View;

use crate::authorizer::{Authorizer, By};
use crate::{Findings, Kind, routes};

/// Filters that may run before authorization: they answer preflights, login pages or deny, or they only count.
const MAY_BE_FIRST: [&str; 12] = [
    "admission_control",
    "bandwidth_limit",
    "cors",
    "csrf",
    "fault",
    "grpc_stats",
    "local_ratelimit",
    "oauth2",
    "on_demand",
    "rate_limit_quota",
    "ratelimit",
    "rbac",
];

/// A connection manager.
#[derive(Debug)]
pub(crate) struct Manager<'n> {
    pub(crate) view: View<'n>,
    filters: Vec<View<'n>>,
    /// The filters that authorize, each with its position.
    authorizers: Vec<(usize, Authorizer<'n>)>,
}

impl<'n> Manager<'n> {
    pub(crate) fn of(view: &View<'n>) -> Self {
        let filters = view.list("http_filters");
        let found = filters.iter().enumerate();
        let mut authorizers: Vec<(usize, Authorizer<'n>)> =
            found.filter_map(|(at, filter)| Some((at, Authorizer::of(filter)?))).collect();
        // Beside a filter that speaks gRPC, one that speaks plain HTTP is another authorization service.
        let is_http = |(_, filter): &(usize, Authorizer<'n>)| matches!(filter.by, By::HttpService(_));
        if !authorizers.iter().all(is_http) {
            authorizers.retain(|filter| !is_http(filter));
        }
        Self { view: view.clone(), filters, authorizers }
    }

    pub(crate) fn authorizers(&self) -> impl Iterator<Item = &Authorizer<'n>> {
        self.authorizers.iter().map(|(_, filter)| filter)
    }

    /// The first filter that authorizes.
    pub(crate) fn authorizer(&self) -> Option<&Authorizer<'n>> {
        self.authorizers().next()
    }

    /// Reports what is wrong around the filter. Where there is none, nothing is.
    pub(crate) fn lint(&self, has_route_tables: bool, findings: &mut Findings) {
        let Some((position, authorizer)) = self.authorizers.first() else { return };
        self.lint_paths(findings);
        self.lint_early_filters(*position, authorizer, findings);
        self.lint_upgrades(findings);
        if !self.view.is_true("use_remote_address") {
            let message = "the address of the client is the one in `x-forwarded-for`, which clients choose unless a trusted \
                           proxy in front of Envoy sets it";
            findings.add(&self.view, Kind::ClientAddress, message, "use_remote_address: true");
        }
        let elsewhere = self.view.get("rds").or_else(|| self.view.get("scoped_routes"));
        if let Some(elsewhere) = elsewhere.filter(|_| !has_route_tables) {
            let message =
                "the routes are not in this file: whether one turns authorization off cannot be seen";
            let fix = "lint what `/config_dump` of Envoy's admin page prints";
            findings.add(&elsewhere, Kind::UnseenRoutes, message, fix);
        }
    }

    fn lint_paths(&self, findings: &mut Findings) {
        let paths = [
            ("normalize_path", Kind::UnnormalizedPath, "dot segments and percent-encoding"),
            ("merge_slashes", Kind::UnmergedSlashes, "adjacent slashes"),
        ];
        for (setting, kind, what) in paths {
            if !self.view.is_true(setting) {
                let at = self.view.get(setting).unwrap_or_else(|| self.view.clone());
                let message = format!(
                    "the application gets the path with its {what} as the client sent it, not the one that was authorized"
                );
                findings.add(&at, kind, message, format!("{setting}: true"));
            }
        }
        let setting = "path_with_escaped_slashes_action";
        let action = self.view.get(setting);
        if let Some(action) =
            action.filter(|action| action.text().is_some_and(|text| text.starts_with("UNESCAPE")))
        {
            let message =
                "Envoy decodes `%2F` and `%5C` before rolegate sees the path, which would deny them";
            findings.add(&action, Kind::UnescapedSlashes, message, format!("{setting}: REJECT_REQUEST"));
        }
    }

    fn lint_early_filters(&self, position: usize, authorizer: &Authorizer<'_>, findings: &mut Findings) {
        let own = authorizer.filter.text_of("name").unwrap_or("rolegate");
        for filter in self.filters.iter().take(position) {
            let (name, kind) = (filter.text_of("name").unwrap_or_default(), kind_of(filter));
            if MAY_BE_FIRST.contains(&kind) || name.starts_with("istio") || filter.is_true("disabled") {
                continue;
            }
            let effect = match kind {
                "jwt_authn" => {
                    "it removes the token that rolegate needs, unless its provider has `forward: true`"
                }
                "health_check" => "it answers requests itself",
                _ => "it acts on requests that are not authorized, or changes what rolegate sees",
            };
            let message = format!("`{name}` runs before `{own}`: {effect}");
            findings.add(filter, Kind::EarlyFilter, message, format!("move `{name}` behind `{own}`"));
        }
    }

    /// Requests that upgrade to another protocol can have a list of filters of their own.
    fn lint_upgrades(&self, findings: &mut Findings) {
        for upgrade in self.view.list("upgrade_configs") {
            let filters = upgrade.list("filters");
            if filters.is_empty() || filters.iter().any(|filter| Authorizer::of(filter).is_some()) {
                continue;
            }
            let protocol = upgrade.text_of("upgrade_type").unwrap_or_default();
            let at = upgrade.get("filters").unwrap_or(upgrade);
            let message = format!(
                "requests that upgrade to `{protocol}` pass these filters only, without authorization"
            );
            let fix = "leave `filters` out, so that they pass `http_filters`";
            findings.add(&at, Kind::UpgradeFilters, message, fix);
        }
    }

    /// Bodies are for search clusters, whose routes say that they are sent.
    pub(crate) fn lint_bodies(&self, findings: &mut Findings) {
        let says = routes::say_that_bodies_are_sent(&self.view);
        for authorizer in self.authorizers() {
            let By::ExtAuthz(config) = &authorizer.by else { continue };
            let bodies = config.get("with_request_body");
            match bodies {
                Some(bodies) if !says && self.view.get("route_config").is_some() => {
                    let message = "Envoy holds each request until its body has arrived, but rules do not depend on bodies; \
                                   and rolegate takes a body that is empty for one that was not sent, because no route \
                                   says that each is";
                    let fix = "leave `with_request_body` out, or for a search cluster add to its virtual host\n\
                               typed_per_filter_config:\n  envoy.filters.http.ext_authz:\n    \
                               \"@type\": type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute\n    \
                               check_settings: { context_extensions: { request_body: buffered } }";
                    findings.add(&bodies, Kind::BufferedBodies, message, indented(fix));
                }
                None if says && !routes::have_bodies_sent(&self.view) => {
                    let message = "a route says that Envoy sends each body, but `with_request_body` is not set: requests to a \
                                   search cluster whose bodies count are denied";
                    let fix = "with_request_body: { max_request_bytes: 10485760, allow_partial_message: false, pack_as_bytes: true }";
                    findings.add(&authorizer.filter, Kind::MissingBodies, message, fix);
                }
                Some(_) | None => {}
            }
        }
    }
}

/// A fix of several lines, below the `fix:` of a message.
fn indented(fix: &str) -> String {
    fix.replace('\n', "\n         ")
}

/// The kind of a filter, such as `cors`: a part of its configuration's type, or of its name.
fn kind_of<'n>(filter: &View<'n>) -> &'n str {
    let config = filter.get("typed_config");
    let of_type = config
        .and_then(|config| config.text_of("@type"))
        .and_then(|name| name.split_once(".filters.http."))
        .and_then(|(_, rest)| rest.split('.').next());
    of_type.unwrap_or_else(|| {
        filter.text_of("name").and_then(|name| name.rsplit('.').next()).unwrap_or_default()
    })
}
