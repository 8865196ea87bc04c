//! Lists of HTTP filters: which run before authorization, and which change afterwards what was
//! authorized.

use document::View;

use crate::authorizer::{Authorizer, By};
use crate::filter::{Discovered, Filter};
use crate::values::is_among;
use crate::{Findings, Kind, rewrites, route_cache, routes};

/// Filters that may run before authorization: they answer preflights, login pages or deny, or they
/// only count.
const MAY_BE_FIRST: &str = "\
    admission_control bandwidth_limit cors csrf fault grpc_stats istio local_ratelimit \
    oauth2 on_demand rate_limit_quota ratelimit rbac";

#[derive(Debug)]
pub(crate) struct Filters<'n> {
    all: Vec<Filter<'n>>,
    /// Those that authorize, each with its position.
    authorizers: Vec<(usize, Authorizer<'n>)>,
    /// Those of the router, behind all.
    of_router: Vec<Filter<'n>>,
}

impl<'n> Filters<'n> {
    pub(crate) fn new(views: &[View<'n>], discovered: &Discovered<'n>) -> Self {
        let all: Vec<Filter<'n>> = views.iter().map(|view| Filter::new(view, discovered)).collect();
        let mut authorizers: Vec<(usize, Authorizer<'n>)> = Vec::new();
        for (position, filter) in all.iter().enumerate() {
            authorizers.extend(
                Authorizer::of(filter).into_iter().map(|authorizer| (position, authorizer)),
            );
        }
        // Beside a filter that speaks gRPC, one that speaks plain HTTP is another authorization
        // service.
        let is_http =
            |(_, filter): &(usize, Authorizer<'n>)| matches!(filter.by, By::HttpService(_));
        if !authorizers.iter().all(is_http) {
            authorizers.retain(|filter| !is_http(filter));
        }
        let of_router = all.iter().flat_map(Filter::all_configs);
        let of_router = of_router.flat_map(|config| config.list("upstream_http_filters"));
        let of_router = of_router.map(|view| Filter::new(&view, discovered)).collect();
        Self { all, authorizers, of_router }
    }

    pub(crate) fn authorize(&self) -> bool {
        !self.authorizers.is_empty()
    }

    pub(crate) fn authorizers(&self) -> impl Iterator<Item = &Authorizer<'n>> {
        self.authorizers.iter().map(|(_, filter)| filter)
    }

    /// The filters before the first that authorizes, and the name of that one.
    fn before_authorizer(&self) -> Option<(&[Filter<'n>], &'n str)> {
        let (position, authorizer) = self.authorizers.first()?;
        Some((self.all.get(..*position)?, authorizer.filter.text_of("name").unwrap_or("rolegate")))
    }

    /// Reports filters before the first that authorizes, unless they are off in all of these
    /// `routes`.
    pub(crate) fn lint_early(&self, routes: &[&View<'_>], findings: &mut Findings) {
        let Some((earlier, authorizer)) = self.before_authorizer() else { return };
        for filter in earlier.iter().filter(|filter| is_on(filter, routes)) {
            let (name, kind) = (filter.name(), filter.kind());
            if is_among(MAY_BE_FIRST, kind) || (kind == "jwt_authn" && forwards_tokens(filter)) {
                continue;
            }
            let effect = match kind {
                "jwt_authn" => {
                    "it removes the token that rolegate needs, unless each of its providers has `forward: true`"
                }
                "health_check" => "it answers requests itself",
                _ => "it acts on requests that are not authorized, or changes what rolegate sees",
            };
            let condition =
                if filter.view.is_true("disabled") { ", where a route enables it" } else { "" };
            let message = format!("`{name}` runs before `{authorizer}`{condition}: {effect}");
            let fix = format!("move `{name}` behind `{authorizer}`");
            findings.add(&filter.view, Kind::EarlyFilter, message, fix);
        }
    }

    /// Reports `ext_authz` beside a library.
    pub(crate) fn lint_stalled_bodies(&self, findings: &mut Findings) {
        let is_ext_authz =
            |filter: &Authorizer<'_>| matches!(filter.by, By::ExtAuthz(_) | By::HttpService(_));
        let library = self.all.iter().find(|filter| filter.kind() == "dynamic_modules");
        if let Some(library) = library.filter(|_| self.authorizers().any(is_ext_authz)) {
            findings.report(&library.view, Kind::StalledBodies);
        }
    }

    /// Reports that no filter answers preflights before the first that authorizes, where one of
    /// these `routes` has a policy for them.
    pub(crate) fn lint_preflights(&self, routes: &[&View<'_>], findings: &mut Findings) {
        let Some((earlier, authorizer)) = self.before_authorizer() else { return };
        let policy = routes.iter().find_map(|routes| routes::cors_policy(routes));
        if let Some(policy) =
            policy.filter(|_| !earlier.iter().any(|filter| filter.kind() == "cors"))
        {
            let message = format!(
                "no filter `cors` runs before `{authorizer}`: a preflight has no credentials, so it gets 401, and browsers send no request"
            );
            let fix = format!("in `http_filters`, envoy.filters.http.cors before `{authorizer}`");
            findings.add(&policy, Kind::RefusedPreflights, message, fix);
        }
    }

    /// Reports filters behind the first that authorizes that change the path, the method or the
    /// host, unless they are off in all of these `routes`.
    pub(crate) fn lint_rewrites(&self, routes: &[&View<'_>], findings: &mut Findings) {
        let Some((first, _)) = self.authorizers.first() else { return };
        let is_other = |at: usize| self.authorizers.iter().all(|(position, _)| *position != at);
        let behind = self.all.iter().enumerate().skip(*first).filter(|(at, _)| is_other(*at));
        for filter in behind.map(|(_, filter)| filter).chain(&self.of_router) {
            if is_on(filter, routes) {
                rewrites::lint_filter(filter, findings);
            }
        }
    }

    /// Reports filters from the first that authorizes on which may choose another route than one of
    /// these `routes` for a request, where these have configurations of a filter that authorizes.
    pub(crate) fn lint_cleared_routes(&self, routes: &[&View<'_>], findings: &mut Findings) {
        let names =
            || self.authorizers().filter_map(|authorizer| authorizer.filter.text_of("name"));
        let differs = |name: &&str| routes.iter().any(|routes| routes::differ(routes, name));
        let (Some((first, _)), Some(authorizer)) =
            (self.authorizers.first(), names().find(differs))
        else {
            return;
        };
        for (position, filter) in self.all.iter().enumerate().skip(*first) {
            let by_routes =
                routes.iter().flat_map(|routes| routes::filter_configs(routes, &[filter.name()]));
            let mut by_routes = by_routes.map(|(_, config)| config);
            let is_off = filter.view.is_true("disabled")
                && by_routes.clone().all(|config| config.is_true("disabled"));
            // Of the library, it is known that it clears none.
            let is_library = self.authorizers.iter().any(|(at, own)| {
                *at == position && matches!(own.by, By::Module(_) | By::Unseen(_))
            });
            if is_off || is_library {
                continue;
            }
            let at = if route_cache::may_clear(filter) {
                Some(filter.view.clone())
            } else {
                by_routes.find(|config| route_cache::may_clear_by(filter, Some(config)))
            };
            let Some(at) = at else { continue };
            let message = format!(
                "`{}` may have Envoy choose another route for a request that is authorized, and routes have configurations of \
                 `{authorizer}`: the request is authorized as its first route says, and goes to another",
                filter.name()
            );
            let fix = format!(
                "keep its route (without `clearRouteCache` and `clear_route_cache`), or give no route a configuration of `{authorizer}`"
            );
            findings.add(&at, Kind::ClearedRoute, message, fix);
        }
    }
}

/// Whether this filter runs for a request on one of these routes.
fn is_on(filter: &Filter<'_>, routes: &[&View<'_>]) -> bool {
    !filter.view.is_true("disabled")
        || routes.iter().any(|routes| routes::enable(routes, filter.name()))
}

/// Whether `jwt_authn` only denies: each of its providers leaves the token in the request.
fn forwards_tokens(jwt_authn: &Filter<'_>) -> bool {
    let forwards = |config: &View<'_>| {
        let providers = config.named_entries_of("providers");
        !providers.is_empty() && providers.iter().all(|(_, provider)| provider.is_true("forward"))
    };
    jwt_authn.unseen.is_none()
        && jwt_authn.all_configs().next().is_some()
        && jwt_authn.all_configs().all(forwards)
}
