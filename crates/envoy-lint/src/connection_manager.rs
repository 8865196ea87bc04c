//! HTTP connection managers: paths, the order of filters, and which requests pass other filters.

use policy::document::View;

use crate::authorizer::{Authorizer, By};
use crate::filter::{Discovered, Filter};
use crate::{Findings, Kind, authorizer, rewrites, route_cache, routes};

/// Filters that may run before authorization: they answer preflights, login pages or deny, or they only count.
const MAY_BE_FIRST: [&str; 13] = [
    "admission_control",
    "bandwidth_limit",
    "cors",
    "csrf",
    "fault",
    "grpc_stats",
    "istio",
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
    filters: Filters<'n>,
    /// Lists of filters of their own, for requests that upgrade to another protocol; none without authorization here.
    upgrades: Vec<(View<'n>, Filters<'n>)>,
}

/// A list of filters that a request passes.
#[derive(Debug)]
struct Filters<'n> {
    all: Vec<Filter<'n>>,
    /// Those that authorize, each with its position.
    authorizers: Vec<(usize, Authorizer<'n>)>,
    /// Those of the router, behind all.
    of_router: Vec<Filter<'n>>,
}

impl<'n> Filters<'n> {
    fn of(all: &[View<'n>], discovered: &Discovered<'n>) -> Self {
        let all: Vec<Filter<'n>> = all.iter().map(|view| Filter::of(view, discovered)).collect();
        let found = all.iter().enumerate();
        let mut authorizers: Vec<(usize, Authorizer<'n>)> = found
            .flat_map(|(at, filter)| Authorizer::of(filter).into_iter().map(move |one| (at, one)))
            .collect();
        // Beside a filter that speaks gRPC, one that speaks plain HTTP is another authorization service.
        let is_http = |(_, filter): &(usize, Authorizer<'n>)| matches!(filter.by, By::HttpService(_));
        if !authorizers.iter().all(is_http) {
            authorizers.retain(|filter| !is_http(filter));
        }
        let of_router = all.iter().flat_map(Filter::all_configs);
        let of_router = of_router.flat_map(|config| config.list("upstream_http_filters"));
        let of_router = of_router.map(|view| Filter::of(&view, discovered)).collect();
        Self { all, authorizers, of_router }
    }

    fn authorizers(&self) -> impl Iterator<Item = &Authorizer<'n>> {
        self.authorizers.iter().map(|(_, filter)| filter)
    }

    /// Reports filters before the first that authorizes, unless they are off in all of these `routes`.
    fn lint_early(&self, routes: &[&View<'_>], findings: &mut Findings) {
        let Some((position, authorizer)) = self.authorizers.first() else { return };
        let own = authorizer.filter.text_of("name").unwrap_or("rolegate");
        for filter in self.all.iter().take(*position) {
            let (name, kind) = (filter.name(), filter.kind());
            if MAY_BE_FIRST.contains(&kind) {
                continue;
            }
            let is_off = filter.view.is_true("disabled");
            if is_off && !routes.iter().any(|routes| routes::enable(routes, name)) {
                continue;
            }
            if kind == "jwt_authn" && forwards_tokens(filter) {
                continue;
            }
            let effect = match kind {
                "jwt_authn" => {
                    "it removes the token that rolegate needs, unless each of its providers has `forward: true`"
                }
                "health_check" => "it answers requests itself",
                _ => "it acts on requests that are not authorized, or changes what rolegate sees",
            };
            let condition = if is_off { ", where a route enables it" } else { "" };
            let message = format!("`{name}` runs before `{own}`{condition}: {effect}");
            findings.add(&filter.view, Kind::EarlyFilter, message, format!("move `{name}` behind `{own}`"));
        }
    }

    /// Reports filters behind the first that authorizes that change the path, the method or the host.
    fn lint_rewrites(&self, findings: &mut Findings) {
        let first = self.authorizers.first().map_or(usize::MAX, |(position, _)| *position);
        for filter in self.all.iter().skip(first).chain(&self.of_router) {
            rewrites::lint_filter(filter, findings);
        }
    }
}

impl<'n> Filters<'n> {
    /// Reports filters behind the first that authorizes, or that itself, which may choose another route than one of these `routes` for
    /// a request, where these have configurations of a filter that authorizes.
    fn lint_cleared_routes(&self, routes: &[&View<'_>], findings: &mut Findings) {
        let differs = |filter: &&Authorizer<'_>| {
            let name = filter.filter.text_of("name").unwrap_or_default();
            routes.iter().any(|routes| routes::differ(routes, name))
        };
        let Some(own) = self.authorizers().find(differs).and_then(|own| own.filter.text_of("name")) else {
            return;
        };
        let first = self.authorizers.first().map_or(usize::MAX, |(position, _)| *position);
        for (at, filter) in self.all.iter().enumerate().skip(first) {
            let by_routes = routes.iter().flat_map(|routes| routes::filter_configs(routes, &[filter.name()]));
            let by_routes: Vec<View<'_>> = by_routes.map(|(_, config)| config).collect();
            let is_off =
                filter.view.is_true("disabled") && by_routes.iter().all(|config| config.is_true("disabled"));
            // Of the library, it is known that it clears none.
            let is_library = self
                .authorizers
                .iter()
                .any(|(position, own)| *position == at && matches!(own.by, By::Module(_) | By::Unseen(_)));
            if is_off || is_library {
                continue;
            }
            let by_route =
                || by_routes.into_iter().find(|config| route_cache::may_clear_by(filter, Some(config)));
            let at = if route_cache::may_clear(filter) { Some(filter.view.clone()) } else { by_route() };
            let Some(at) = at else { continue };
            let message = format!(
                "`{}` may have Envoy choose another route for a request that is authorized, and routes have configurations of \
                 `{own}`: the request is authorized as its first route says, and goes to another",
                filter.name()
            );
            let fix = format!(
                "keep its route (without `clearRouteCache` and `clear_route_cache`), or give no route a configuration of `{own}`"
            );
            findings.add(&at, Kind::ClearedRoute, message, fix);
        }
    }
}

impl<'n> Manager<'n> {
    pub(crate) fn of(view: &View<'n>, discovered: &Discovered<'n>) -> Self {
        let filters = Filters::of(&view.list("http_filters"), discovered);
        let mut upgrades = view.list("upgrade_configs");
        upgrades.retain(|upgrade| !filters.authorizers.is_empty() && !upgrade.list("filters").is_empty());
        let upgrades = upgrades.into_iter().map(|upgrade| {
            let own = Filters::of(&upgrade.list("filters"), discovered);
            (upgrade, own)
        });
        Self { view: view.clone(), upgrades: upgrades.collect(), filters }
    }

    /// All filters that authorize, also those for requests that upgrade.
    pub(crate) fn authorizers(&self) -> impl Iterator<Item = &Authorizer<'n>> {
        self.filters.authorizers().chain(self.upgrades.iter().flat_map(|(_, own)| own.authorizers()))
    }

    /// The first filter that authorizes.
    pub(crate) fn authorizer(&self) -> Option<&Authorizer<'n>> {
        self.filters.authorizers().next()
    }

    /// Reports what is wrong around the filter. Where there is none, nothing is.
    /// `other_routes` are those outside of a connection manager.
    pub(crate) fn lint(&self, other_routes: &[&View<'n>], findings: &mut Findings) {
        if self.authorizer().is_none() {
            return;
        }
        self.lint_paths(findings);
        let routes: Vec<&View<'_>> = [&self.view].into_iter().chain(other_routes.iter().copied()).collect();
        self.filters.lint_early(&routes, findings);
        self.filters.lint_rewrites(findings);
        let mut own = routes::of_manager(&self.view, other_routes);
        own.push(&self.view);
        self.filters.lint_cleared_routes(&own, findings);
        self.upgrades.iter().for_each(|(_, filters)| filters.lint_cleared_routes(&own, findings));
        self.lint_upgrades(&routes, findings);
        self.lint_metadata(findings);
        if !self.view.is_true("use_remote_address") {
            let message = "the address of the client is the one in `x-forwarded-for`, which clients choose unless a trusted \
                           proxy in front of Envoy sets it";
            findings.add(&self.view, Kind::ClientAddress, message, "use_remote_address: true");
        }
    }

    /// Envoy forgets that its filter of libraries has stopped a request when a frame of metadata passes that filter.
    fn lint_metadata(&self, findings: &mut Findings) {
        if !self.authorizers().any(|authorizer| matches!(authorizer.by, By::Module(_))) {
            return;
        }
        for options in ["http2_protocol_options", "http3_protocol_options"] {
            let options = self.view.get(options).filter(|options| options.is_true("allow_metadata"));
            if let Some(setting) = options.and_then(|options| options.get("allow_metadata")) {
                let message = "a request whose password is hashed may wait until its timeout, although it is allowed, if a METADATA frame \
                               arrives meanwhile and nothing after it";
                findings.add(&setting, Kind::MetadataFrames, message, "allow_metadata: false");
            }
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
        if let Some(action) = action.filter(|action| !action.text().is_some_and(keeps_slashes)) {
            let message =
                "Envoy decodes `%2F` and `%5C` before rolegate sees the path, which would deny them";
            findings.add(&action, Kind::UnescapedSlashes, message, format!("{setting}: REJECT_REQUEST"));
        }
    }

    /// Requests that upgrade to another protocol can have a list of filters of their own.
    fn lint_upgrades(&self, routes: &[&View<'_>], findings: &mut Findings) {
        let services: Vec<View<'_>> =
            self.filters.authorizers().filter_map(Authorizer::grpc_service).collect();
        for (upgrade, filters) in &self.upgrades {
            filters.lint_early(routes, findings);
            filters.lint_rewrites(findings);
            for service in filters.authorizers().filter_map(Authorizer::grpc_service) {
                authorizer::lint_service(&service, &services, findings);
            }
            if !filters.authorizers.is_empty() {
                continue;
            }
            let protocol = upgrade.text_of("upgrade_type").unwrap_or_default();
            let at = upgrade.get("filters").unwrap_or_else(|| upgrade.clone());
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
        // Not those for upgrades: a WebSocket has no body that Envoy could wait for.
        for authorizer in self.filters.authorizers() {
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
                    let message = "a route says that Envoy sends each body, but `with_request_body` is not set: rolegate decides \
                                   about requests to a search cluster as if they had none";
                    let fix = "with_request_body: { max_request_bytes: 10485760, allow_partial_message: false, pack_as_bytes: true }";
                    findings.add(&authorizer.filter, Kind::MissingBodies, message, fix);
                }
                Some(_) | None => {}
            }
        }
        if says && self.authorizer().is_some_and(|authorizer| authorizer.grpc_service().is_some()) {
            routes::lint_unsent_bodies(&self.view, findings);
        }
    }
}

/// Whether this action for escaped slashes, by its name or its number in Envoy, decodes none.
fn keeps_slashes(action: &str) -> bool {
    const SAFE: [&str; 6] =
        ["IMPLEMENTATION_SPECIFIC_DEFAULT", "0", "KEEP_UNCHANGED", "1", "REJECT_REQUEST", "2"];
    SAFE.iter().any(|safe| action.eq_ignore_ascii_case(safe))
}

/// A fix of several lines, below the `fix:` of a message.
fn indented(fix: &str) -> String {
    fix.replace('\n', "\n         ")
}

/// Whether `jwt_authn` only denies: each of its providers leaves the token in the request.
fn forwards_tokens(jwt_authn: &Filter<'_>) -> bool {
    let mut configs = jwt_authn.all_configs().peekable();
    configs.peek().is_some() && jwt_authn.unseen.is_none() && configs.all(forwards_each_token)
}

fn forwards_each_token(config: &View<'_>) -> bool {
    let providers = config.get("providers");
    let providers = providers.map(|providers| providers.entries()).unwrap_or_default();
    !providers.is_empty() && providers.iter().all(|(_, provider)| provider.is_true("forward"))
}
