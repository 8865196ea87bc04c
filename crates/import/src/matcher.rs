//! String matchers for a path, a host or a method, as conditions.

use document::View;
use policy::pattern::{Pattern, Scope};

use crate::Options;
use crate::expr::{Expr, Notes as _};
use crate::paths::{self, PathSet};
use crate::term::Literal;
use crate::text_matcher::Matcher;

/// The condition that the path without its query matches.
pub(crate) fn path(
    view: &View<'_>,
    matcher: &Matcher,
    ignore_case: bool,
    options: &Options,
) -> Expr {
    let PathSet { patterns, difference } = paths::matching(matcher, ignore_case);
    let over = within(patterns);
    match difference {
        None => over,
        Some(difference) if difference.is_acceptable => {
            view.nearly(over.clone(), over, options.allow_wider, difference.message)
        }
        Some(difference) => view.between(within(Some(difference.under)), over, difference.message),
    }
}

/// The condition that the path matches one of these patterns; `None` for any path.
fn within(patterns: Option<Vec<Pattern>>) -> Expr {
    patterns.map_or_else(Expr::always, |patterns| Expr::Is(Literal::Paths(patterns)))
}

/// The condition that `:path`, which includes the query, matches.
pub(crate) fn path_with_query(
    view: &View<'_>,
    matcher: &Matcher,
    ignore_case: bool,
    options: &Options,
) -> Expr {
    let over = match matcher {
        Matcher::Any => return Expr::always(),
        Matcher::Prefix(text) if !text.contains('?') => {
            return path(view, matcher, ignore_case, options);
        }
        Matcher::Exact(text) | Matcher::Prefix(text) => {
            let before_query = text.split('?').next().unwrap_or_default().to_owned();
            within(paths::matching(&Matcher::Exact(before_query), ignore_case).patterns)
        }
        Matcher::Suffix(_) | Matcher::Contains(_) | Matcher::Regex(_) | Matcher::Template(_) => {
            Expr::always()
        }
    };
    view.between(Expr::never(), over, "`:path` includes the query, on which no rule depends")
}

/// The condition that `:authority` matches.
pub(crate) fn host(view: &View<'_>, matcher: &Matcher, options: &Options) -> Expr {
    let scope = match matcher {
        Matcher::Any => return Expr::always(),
        Matcher::Exact(text) => host_scope(text),
        Matcher::Prefix(text) if text.ends_with(':') => host_scope(text),
        Matcher::Suffix(text) => match text.strip_prefix('.').and_then(host_scope) {
            Some(Scope::Exact(name)) => Some(Scope::Below(name)),
            _ => None,
        },
        Matcher::Prefix(_) | Matcher::Contains(_) | Matcher::Regex(_) | Matcher::Template(_) => {
            None
        }
    };
    let Some(scope) = scope else {
        return view.inexpressible("rolegate compares whole hosts, or the end of hosts after `*.`");
    };
    let hosts = Expr::Is(Literal::Hosts(vec![scope]));
    let message = "rolegate ignores the port and the case of hosts";
    view.nearly(hosts.clone(), hosts, options.allow_wider, message)
}

/// A host without its port; `None` if no request can have it.
fn host_scope(text: &str) -> Option<Scope> {
    let mut lowered = Vec::new();
    let host = policy::canonical::host(text.as_bytes(), &mut lowered).ok()?;
    let host = std::str::from_utf8(host).ok()?;
    (!host.is_empty()).then(|| Scope::Exact(host.into()))
}

/// The methods that approximate a condition on a part of a method's name.
const STANDARD_METHODS: [&str; 8] =
    ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"];

fn is_method(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-')
}

/// The condition that the method matches.
pub(crate) fn method(view: &View<'_>, matcher: &Matcher, ignore_case: bool) -> Expr {
    let mut under: Vec<String> = STANDARD_METHODS.map(str::to_owned).into();
    match matcher {
        Matcher::Any => return Expr::always(),
        Matcher::Exact(text) if ignore_case => {
            under.retain(|method| *method == text.to_ascii_uppercase());
        }
        Matcher::Exact(text) if is_method(text) => {
            return Expr::Is(Literal::Methods(vec![text.clone()]));
        }
        Matcher::Prefix(text) => under.retain(|method| method.starts_with(&**text)),
        Matcher::Suffix(text) => under.retain(|method| method.ends_with(&**text)),
        Matcher::Contains(text) => under.retain(|method| method.contains(&**text)),
        Matcher::Regex(regex) => {
            let regex = regex.trim_start_matches('^').trim_end_matches('$');
            let inner = regex.strip_prefix('(').and_then(|inner| inner.strip_suffix(')'));
            let methods: Vec<&str> = inner.unwrap_or(regex).split('|').collect();
            if methods.iter().all(|method| is_method(method)) {
                let methods = methods.into_iter().map(str::to_owned).collect();
                return Expr::Is(Literal::Methods(methods));
            }
            under.clear();
        }
        Matcher::Exact(_) | Matcher::Template(_) => under.clear(),
    }
    let under = Expr::Is(Literal::Methods(under));
    view.between(under, Expr::always(), "a rule names whole methods, in upper case")
}
