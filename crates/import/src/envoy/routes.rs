//! Envoy's routes: the requests that they match, and their `typed_per_filter_config`.

use document::View;

use crate::Options;
use crate::expr::{Expr, Notes as _};
use crate::lower::{Alternative, Original};
use crate::matcher;
use crate::note::Effect;
use crate::text_matcher::{self, Matcher};

/// Denies the requests of routes that configure filters with these names: such a configuration may
/// be stricter, and is not imported.
pub(crate) fn read(manager: &View<'_>, names: &[&str], options: &Options, original: &mut Original) {
    if manager.get("rds").is_some() || manager.get("scoped_routes").is_some() {
        let message = "routes from a control plane may configure the filters: check their \
                       `typed_per_filter_config`";
        original.notes.push(manager.note(Effect::Same, message));
    }
    deny_configured(manager, &Expr::always(), names, options, original);
}

fn deny_configured(
    view: &View<'_>,
    route: &Expr,
    names: &[&str],
    options: &Options,
    original: &mut Original,
) {
    let own = view.get("match").filter(|_| view.get("typed_per_filter_config").is_some());
    let own = own.map(|route| self::route(&route, options));
    let route = own.as_ref().unwrap_or(route);
    for (key, value) in view.entries() {
        if key != "typed_per_filter_config" {
            deny_configured(&value, route, names, options, original);
            continue;
        }
        for (name, config) in value.entries_as_written() {
            // The key is the name of a filter. Some versions of Envoy also accept the name of the
            // filter's extension, which `names` may lack. So the type counts, too.
            if names.contains(&&*name) || super::has_type(&config, &super::IMPORTED) {
                let message = "the configuration of a filter for a route is not imported: every \
                               request of the route is denied";
                let note = config.between(Expr::always(), Expr::always(), message);
                let condition = Expr::All(vec![route.clone(), note]);
                original.deny.push(Alternative::new(&config, "per route", condition));
            }
        }
    }
    for item in view.items() {
        deny_configured(&item, route, names, options, original);
    }
}

/// `RouteMatch`.
pub(crate) fn route(route: &View<'_>, options: &Options) -> Expr {
    const PATH: &str = "a path is expected here";
    let ignore_case =
        route.get("case_sensitive").is_some_and(|value| value.boolean() != Some(true));
    let mut fields = route.entries();
    fields.retain(|(key, _)| key != "case_sensitive");
    // Envoy does not start with a route that has no path. If it matched everything here, later
    // routes would have no effect.
    if fields.is_empty() {
        return route.inexpressible(PATH);
    }
    Expr::all(fields.iter().map(|(key, value)| {
        let path = |matcher: &Matcher| matcher::path(value, matcher, ignore_case, options);
        let field = match key.as_str() {
            "prefix" | "safe_regex" => text_matcher::field(key, value),
            "path" => text_matcher::field("exact", value),
            "path_separated_prefix" => text_matcher::field("prefix", value),
            _ => return value.inexpressible("only the path of a route is imported"),
        };
        match field {
            None => value.inexpressible(PATH),
            Some(Matcher::Prefix(text)) if key == "path_separated_prefix" => {
                let below = Matcher::Prefix(format!("{text}/"));
                Expr::any([path(&Matcher::Exact(text)), path(&below)])
            }
            // An empty prefix matches every path.
            Some(matcher) => path(&matcher),
        }
    }))
}
