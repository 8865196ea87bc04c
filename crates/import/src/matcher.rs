//! Conditions that a string matcher matches a path, a host or a method.

use policy::pattern::{Pattern, Scope};

use document::View;

use crate::Options;
use crate::expr::{Expr, Notes as _};
use crate::paths::{self, PathSet};
use crate::term::Literal;
use crate::text_matcher::Matcher;

/// The condition that the path, without its query, is matched.
pub(crate) fn path(
    view: &View<'_>,
    matcher: &Matcher,
    ignore_case: bool,
    options: &Options,
) -> Expr {
    let PathSet { patterns, difference } = path_set(matcher, ignore_case);
    let over = within(patterns);
    match difference {
        None => over,
        Some(difference) if difference.is_acceptable => {
            view.nearly(over.clone(), over, options.allow_wider, difference.message)
        }
        Some(difference) => view.between(within(Some(difference.under)), over, difference.message),
    }
}

fn path_set(matcher: &Matcher, ignore_case: bool) -> PathSet {
    let set = paths::matching(matcher);
    if ignore_case { set.without_case() } else { set }
}

/// The condition that the path matches one of these patterns, if there are any.
fn within(patterns: Option<Vec<Pattern>>) -> Expr {
    patterns.map_or_else(Expr::always, |patterns| Expr::Is(Literal::Paths(patterns)))
}

/// The condition that the path with its query is matched, as `:path` is.
pub(crate) fn path_with_query(
    view: &View<'_>,
    matcher: &Matcher,
    ignore_case: bool,
    options: &Options,
) -> Expr {
    let before_query = |text: &str| text.split('?').next().unwrap_or_default().to_owned();
    let over = match matcher {
        Matcher::Any => return Expr::always(),
        Matcher::Prefix(text) if !text.contains('?') => {
            return path(view, matcher, ignore_case, options);
        }
        Matcher::Exact(text) | Matcher::Prefix(text) => {
            within(path_set(&Matcher::Exact(before_query(text)), ignore_case).patterns)
        }
        Matcher::Suffix(_) | Matcher::Contains(_) | Matcher::Regex(_) | Matcher::Template(_) => {
            Expr::always()
        }
    };
    view.between(Expr::never(), over, "`:path` has the query, on which no rule depends")
}

/// The condition that the host is matched, as `:authority` is.
pub(crate) fn host(view: &View<'_>, matcher: &Matcher, options: &Options) -> Expr {
    const MESSAGE: &str = "rolegate compares hosts with any port and in any case";
    let scope = match matcher {
        Matcher::Any => return Expr::always(),
        Matcher::Exact(text) => scope(text),
        Matcher::Prefix(text) if text.ends_with(':') => scope(text),
        Matcher::Suffix(text) => match text.strip_prefix('.').and_then(scope) {
            Some(Scope::Exact(name)) => Some(Scope::Below(name)),
            _ => None,
        },
        Matcher::Prefix(_) | Matcher::Contains(_) | Matcher::Regex(_) | Matcher::Template(_) => {
            None
        }
    };
    let Some(scope) = scope else {
        return view.inexpressible("rolegate compares whole hosts, and `*.` at their front");
    };
    let hosts = Expr::Is(Literal::Hosts(vec![scope]));
    view.nearly(hosts.clone(), hosts, options.allow_wider, MESSAGE)
}

/// A host without its port; `None` if no request can have it.
fn scope(text: &str) -> Option<Scope> {
    let mut lowered = Vec::new();
    let host = policy::canonical::host(text.as_bytes(), &mut lowered).ok()?;
    let host = std::str::from_utf8(host).ok()?;
    (!host.is_empty()).then(|| Scope::Exact(host.into()))
}

/// The methods that are registered and common, for conditions on parts of their names.
pub(crate) const METHODS: [&str; 8] =
    ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"];

/// The condition that the method is matched.
pub(crate) fn method(view: &View<'_>, matcher: &Matcher, ignore_case: bool) -> Expr {
    let is_method = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-')
    };
    let one_of = |methods: Vec<String>| Expr::Is(Literal::Methods(methods));
    match matcher {
        Matcher::Any => return Expr::always(),
        Matcher::Exact(text) if is_method(text) && !ignore_case => {
            return one_of(vec![text.clone()]);
        }
        Matcher::Regex(regex) => {
            let inner = regex.trim_start_matches('^').trim_end_matches('$');
            let inner =
                inner.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')).unwrap_or(inner);
            let methods: Vec<String> = inner.split('|').map(str::to_owned).collect();
            if methods.iter().all(|method| is_method(method)) {
                return one_of(methods);
            }
        }
        Matcher::Exact(_)
        | Matcher::Prefix(_)
        | Matcher::Suffix(_)
        | Matcher::Contains(_)
        | Matcher::Template(_) => {}
    }
    let matches = |method: &&&str| match matcher {
        Matcher::Exact(text) => **method == text.to_ascii_uppercase() && ignore_case,
        Matcher::Prefix(text) => method.starts_with(text.as_str()),
        Matcher::Suffix(text) => method.ends_with(text.as_str()),
        Matcher::Contains(text) => method.contains(text.as_str()),
        Matcher::Any | Matcher::Regex(_) | Matcher::Template(_) => false,
    };
    let under = METHODS.iter().filter(matches).map(|method| (*method).to_owned()).collect();
    view.between(one_of(under), Expr::always(), "a rule names whole methods, in upper case")
}
