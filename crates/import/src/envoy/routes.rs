//! Routes of Envoy: which requests they match, and which have a configuration of the filters of their own.

use document::View;

use crate::Options;
use crate::expr::{Expr, Notes as _};
use crate::lower::Original;
use crate::matcher;
use crate::text_matcher::{self, Matcher};

/// Denies what routes with a configuration of these filters match: it may be stricter, and is not imported.
pub(crate) fn read(manager: &View<'_>, names: &[String], options: &Options, original: &mut Original) {
    let mut found = Vec::new();
    find(manager, None, names, options, &mut found);
    if manager.get("rds").is_some() || manager.get("scoped_routes").is_some() {
        let message =
            "routes from another server may have configurations of the filters of their own: look there";
        original.notes.push(manager.note(crate::Effect::Same, message));
    }
    for (view, route) in found {
        let message =
            "the configuration of a filter for a route is not imported: all that the route matches is denied";
        let condition = Expr::All(vec![route, view.between(Expr::always(), Expr::always(), message)]);
        original.deny.push(super::unnamed(&view, "per route", condition));
    }
}

fn find<'n>(
    view: &View<'n>,
    route: Option<&Expr>,
    names: &[String],
    options: &Options,
    found: &mut Vec<(View<'n>, Expr)>,
) {
    let own = view.get("match").filter(|_| view.get("typed_per_filter_config").is_some());
    let own = own.map(|route| self::route(&route, options));
    let route = own.as_ref().or(route);
    for (key, value) in view.entries() {
        if key != "typed_per_filter_config" {
            find(&value, route, names, options, found);
            continue;
        }
        for (name, config) in value.named_entries() {
            // Some versions of Envoy also find it by the name of the extension.
            if names.contains(&name) || super::has_type(&config, &super::is_imported_type) {
                found.push((config, route.cloned().unwrap_or_else(Expr::always)));
            }
        }
    }
    for item in view.items() {
        find(&item, route, names, options, found);
    }
}

/// `RouteMatch`.
pub(crate) fn route(route: &View<'_>, options: &Options) -> Expr {
    const PATH: &str = "a path is expected here";
    let ignore_case = route.get("case_sensitive").is_some_and(|value| value.boolean() != Some(true));
    let mut all = route.entries();
    all.retain(|(key, _)| key != "case_sensitive");
    // Envoy does not start with a route that has no path. It is not one that matches all, before which no other counts.
    if all.is_empty() {
        return route.inexpressible(PATH);
    }
    let conditions = all.into_iter().map(|(key, value)| {
        let text = match key.as_str() {
            "prefix" | "path" | "path_separated_prefix" => value.text(),
            "safe_regex" => value.text_of("regex").filter(|_| text_matcher::regex(&value).is_some()),
            _ => return value.inexpressible("of a route, only the path is imported"),
        };
        let Some(text) = text else { return value.inexpressible(PATH) };
        let condition = |matcher: &Matcher| matcher::path(&value, matcher, ignore_case, options);
        match key.as_str() {
            // An empty prefix matches every path.
            "prefix" if text.is_empty() => condition(&Matcher::Any),
            "prefix" => condition(&Matcher::Prefix(text.to_owned())),
            "path" => condition(&Matcher::Exact(text.to_owned())),
            "path_separated_prefix" => Expr::any(vec![
                condition(&Matcher::Exact(text.to_owned())),
                condition(&Matcher::Prefix(format!("{text}/"))),
            ]),
            _ => condition(&Matcher::Regex(text.to_owned())),
        }
    });
    Expr::All(conditions.collect())
}
