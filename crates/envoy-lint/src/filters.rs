//! Lists of HTTP filters: filters that run before authorization, and filters that change an
//! authorized request.

use document::View;

use crate::authorizer::{Authorizer, Config};
use crate::filter::{Discovered, Filter};
use crate::{Findings, Kind, is_among, rewrites, route_cache, routes};

/// Filters that may run before authorization: they answer preflights, serve login pages, deny, or
/// only count.
const MAY_BE_FIRST: &str = "\
    admission_control bandwidth_limit cors csrf fault grpc_stats istio local_ratelimit \
    oauth2 on_demand rate_limit_quota ratelimit rbac";

#[derive(Debug)]
pub(crate) struct Filters<'n> {
    filters: Vec<Filter<'n>>,
    /// The filters that authorize, each with its position.
    authorizers: Vec<(usize, Authorizer<'n>)>,
    /// The router's `upstream_http_filters`, which run behind all other filters.
    router: Vec<Filter<'n>>,
}

impl<'n> Filters<'n> {
    pub(crate) fn new(views: &[View<'n>], discovered: &Discovered<'n>) -> Self {
        let filters: Vec<Filter<'n>> =
            views.iter().map(|view| Filter::new(view, discovered)).collect();
        let mut authorizers = Vec::new();
        for (position, filter) in filters.iter().enumerate() {
            let configured = Authorizer::all_in(filter).into_iter();
            authorizers.extend(configured.map(|authorizer| (position, authorizer)));
        }
        // Beside any other authorizer, a filter that uses plain HTTP is for another authorization
        // service.
        let is_http = |filter: &Authorizer<'n>| matches!(filter.config, Config::HttpService(_));
        if !authorizers.iter().all(|(_, filter)| is_http(filter)) {
            authorizers.retain(|(_, filter)| !is_http(filter));
        }
        let router = filters.iter().flat_map(Filter::all_configs);
        let router = router.flat_map(|config| config.list("upstream_http_filters"));
        let router = router.map(|view| Filter::new(&view, discovered)).collect();
        Self { filters, authorizers, router }
    }

    pub(crate) fn authorize(&self) -> bool {
        !self.authorizers.is_empty()
    }

    pub(crate) fn authorizers(&self) -> impl Iterator<Item = &Authorizer<'n>> {
        self.authorizers.iter().map(|(_, filter)| filter)
    }

    /// The position and the name of the first filter that authorizes.
    fn first_authorizer(&self) -> Option<(usize, &'n str)> {
        let (position, authorizer) = self.authorizers.first()?;
        Some((*position, authorizer.view.text_of("name").unwrap_or("rolegate")))
    }

    /// Reports filters before the first authorizer, and filters behind it that change an authorized
    /// request. `routes` are all routes, `own_routes` the routes of this connection manager.
    pub(crate) fn lint(
        &self,
        routes: &[&View<'_>],
        own_routes: &[&View<'_>],
        findings: &mut Findings,
    ) {
        let Some((first, authorizer)) = self.first_authorizer() else { return };
        for filter in self.filters.iter().take(first).filter(|filter| is_on(filter, routes)) {
            lint_early(filter, authorizer, findings);
        }
        let authorizes = |at: &usize| self.authorizers.iter().any(|(position, _)| position == at);
        let later = self.filters.iter().enumerate().skip(first);
        let behind = later.clone().filter(|(at, _)| !authorizes(at)).map(|(_, filter)| filter);
        for filter in behind.chain(&self.router).filter(|filter| is_on(filter, routes)) {
            rewrites::lint_filter(filter, findings);
        }
        self.lint_cleared_routes(later, own_routes, findings);
    }

    /// Reports `ext_authz` beside a dynamic module, which need not be rolegate's.
    pub(crate) fn lint_stalled_bodies(&self, findings: &mut Findings) {
        let has_ext_authz = self.authorizers().any(|authorizer| authorizer.ext_authz().is_some());
        let module = self.filters.iter().find(|filter| filter.kind() == "dynamic_modules");
        if let Some(module) = module.filter(|_| has_ext_authz) {
            findings.add_kind(&module.view, Kind::StalledBodies);
        }
    }

    /// Reports that no filter answers preflights before the first authorizer, if a route has a CORS
    /// policy.
    pub(crate) fn lint_preflights(&self, routes: &[&View<'_>], findings: &mut Findings) {
        let Some((first, authorizer)) = self.first_authorizer() else { return };
        let Some(policy) = routes.iter().find_map(|routes| routes::cors_policy(routes)) else {
            return;
        };
        if !self.filters.iter().take(first).any(|filter| filter.kind() == "cors") {
            let message = format!(
                "no filter `cors` runs before `{authorizer}`: a preflight has no credentials, so \
                 it gets 401, and browsers send no request"
            );
            let fix = format!("in `http_filters`, envoy.filters.http.cors before `{authorizer}`");
            findings.add(&policy, Kind::RefusedPreflights, message, fix);
        }
    }

    /// Reports filters that may change the route of an authorized request, if routes configure a
    /// filter that authorizes.
    fn lint_cleared_routes<'f>(
        &self,
        filters: impl Iterator<Item = (usize, &'f Filter<'n>)>,
        routes: &[&View<'_>],
        findings: &mut Findings,
    ) where
        'n: 'f,
    {
        let differs = |name: &&str| routes.iter().any(|routes| routes::differ(routes, name));
        let mut names = self.authorizers().filter_map(|filter| filter.view.text_of("name"));
        let Some(authorizer) = names.find(differs) else { return };
        for (position, filter) in filters {
            let by_routes: Vec<(String, View<'_>)> = routes
                .iter()
                .flat_map(|view| routes::filter_configs(view, &[filter.name()]))
                .collect();
            let mut by_routes = by_routes.iter().map(|(_, config)| config);
            let is_off = filter.view.is_true("disabled")
                && by_routes.clone().all(|config| config.is_true("disabled"));
            // rolegate's module keeps the route, and an unseen filter may be this module.
            let may_be_module = self
                .authorizers
                .iter()
                .any(|(at, authorizer)| *at == position && authorizer.ext_authz().is_none());
            if is_off || may_be_module {
                continue;
            }
            let at = if route_cache::may_clear(filter) {
                Some(&filter.view)
            } else {
                by_routes.find(|config| route_cache::may_clear_by(filter, Some(config)))
            };
            let Some(at) = at else { continue };
            let message = format!(
                "`{}` may have Envoy choose another route for an authorized request, and routes \
                 configure `{authorizer}`: the request is authorized for its first route, and \
                 takes another",
                filter.name()
            );
            let fix = format!(
                "keep its route (without `clearRouteCache` and `clear_route_cache`), or give no \
                 route a configuration of `{authorizer}`"
            );
            findings.add(at, Kind::ClearedRoute, message, fix);
        }
    }
}

/// Whether this filter runs for a request on one of these routes.
fn is_on(filter: &Filter<'_>, routes: &[&View<'_>]) -> bool {
    !filter.view.is_true("disabled")
        || routes.iter().any(|routes| routes::enable(routes, filter.name()))
}

fn lint_early(filter: &Filter<'_>, authorizer: &str, findings: &mut Findings) {
    let (name, kind) = (filter.name(), filter.kind());
    if is_among(MAY_BE_FIRST, kind) || (kind == "jwt_authn" && forwards_tokens(filter)) {
        return;
    }
    let effect = match kind {
        "jwt_authn" => {
            "it removes the token that rolegate needs, unless each of its providers has \
             `forward: true`"
        }
        "health_check" => "it answers requests itself",
        _ => "it acts on requests that are not authorized, or changes what rolegate sees",
    };
    let condition = if filter.view.is_true("disabled") { ", where a route enables it" } else { "" };
    let message = format!("`{name}` runs before `{authorizer}`{condition}: {effect}");
    let fix = format!("move `{name}` behind `{authorizer}`");
    findings.add(&filter.view, Kind::EarlyFilter, message, fix);
}

/// Whether each provider of `jwt_authn` leaves the token in the request.
fn forwards_tokens(jwt_authn: &Filter<'_>) -> bool {
    let forwards = |config: &View<'_>| {
        let providers = config.entries_as_written_at("providers");
        !providers.is_empty() && providers.iter().all(|(_, provider)| provider.is_true("forward"))
    };
    jwt_authn.unseen.is_none()
        && jwt_authn.all_configs().next().is_some()
        && jwt_authn.all_configs().all(forwards)
}
