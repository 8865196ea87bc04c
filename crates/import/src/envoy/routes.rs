//! Routes of Envoy: which requests they match, and which have a configuration of the filters of their own.

use crate::Options;
use crate::expr::Expr;
use crate::lower::Original;
use crate::matcher;
use crate::text_matcher::Matcher;
use crate::view::{Notes as _, View};

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
    let all = route.entries().into_iter().map(|(key, value)| {
        let text = || value.text().unwrap_or_default().to_owned();
        let ignore_case = route.get("case_sensitive").is_some_and(|value| value.boolean() != Some(true));
        let matcher = match key.as_str() {
            "case_sensitive" => return Expr::always(),
            "prefix" => Matcher::Prefix(text()),
            "path" => Matcher::Exact(text()),
            "path_separated_prefix" => {
                let exact = matcher::path(&value, &Matcher::Exact(text()), ignore_case, options);
                let below =
                    matcher::path(&value, &Matcher::Prefix(format!("{}/", text())), ignore_case, options);
                return Expr::any(vec![exact, below]);
            }
            "safe_regex" => Matcher::Regex(value.text_of("regex").unwrap_or_default().to_owned()),
            _ => return value.inexpressible("of a route, only the path is imported"),
        };
        // An empty prefix matches every path.
        let matcher = if matcher == Matcher::Prefix(String::new()) { Matcher::Any } else { matcher };
        matcher::path(&value, &matcher, ignore_case, options)
    });
    Expr::All(all.collect())
}
