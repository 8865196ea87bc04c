//! A rule of an `AuthorizationPolicy`: from whom, to which operations, and when.

use document::View;

use crate::Options;
use crate::expr::{Expr, Notes as _, reason};
use crate::matcher;
use crate::sources::{Kind, Sources};
use crate::text_matcher::Matcher;

/// About another value than a list. Kubernetes refuses it, unlike Envoy, which takes it
/// for the only item.
const LIST_EXPECTED: &str = "a list is expected here";

/// The condition of a rule: one of `from`, one of `to` and all of `when` hold.
pub(crate) fn condition(rule: &View<'_>, options: &Options, sources: &Sources) -> Expr {
    if !rule.is_mapping() {
        // Not a rule without conditions, which is `{}`.
        return rule.inexpressible("a rule is expected here");
    }
    let reader = Reader { options, sources };
    let mut all = Vec::new();
    for (list, inner) in [("from", "source"), ("to", "operation")] {
        let one = |item: &View<'_>| match item.get(inner).filter(View::is_mapping) {
            Some(value) => {
                Expr::All(item.unknown(inner).into_iter().chain([reader.fields(&value)]).collect())
            }
            None => item.inexpressible(format!("`{inner}` is expected here")),
        };
        match items(rule, list) {
            Ok(items) if items.is_empty() => {}
            Ok(items) => all.push(Expr::any(items.iter().map(one).collect())),
            Err(wrong) => all.push(wrong),
        }
    }
    match items(rule, "when") {
        Ok(items) => all.extend(items.iter().map(|when| reader.when(when))),
        Err(wrong) => all.push(wrong),
    }
    all.extend(rule.unknown("from to when"));
    Expr::All(all)
}

/// The items of a list under a key. Another value there cannot be expressed: it is not the same as
/// none, which would be no condition.
pub(super) fn items<'n>(view: &View<'n>, key: &str) -> Result<Vec<View<'n>>, Expr> {
    match view.get(key) {
        None => Ok(Vec::new()),
        Some(list) if list.is_list() => Ok(list.items()),
        Some(other) => Err(other.inexpressible(LIST_EXPECTED)),
    }
}

struct Reader<'r> {
    options: &'r Options,
    sources: &'r Sources,
}

impl Reader<'_> {
    /// The fields of a `source` or an `operation`, all of which hold.
    fn fields(&self, view: &View<'_>) -> Expr {
        let all = view.entries().into_iter().map(|(key, values)| {
            let (negated, name) = match key.strip_prefix("not_") {
                Some(name) => (true, name),
                None => (false, key.as_str()),
            };
            self.values(&values, name, negated)
        });
        Expr::All(all.collect())
    }

    /// A condition of `when`: one of `values`, and none of `notValues`. Istio refuses one without
    /// any.
    fn when(&self, when: &View<'_>) -> Expr {
        let key = when.text_of("key").unwrap_or_default();
        let lists = [("values", false), ("not_values", true)];
        let given =
            lists.into_iter().filter_map(|(list, negated)| Some((when.get(list)?, negated)));
        let given = given.filter(|(values, _)| !values.is_list() || !values.items().is_empty());
        let mut all: Vec<Expr> =
            given.map(|(values, negated)| self.values(&values, key, negated)).collect();
        if all.is_empty() {
            all.push(when.inexpressible("`values` or `notValues` are expected here"));
        }
        all.extend(when.unknown("key values not_values"));
        Expr::All(all)
    }

    /// One of these values; an empty list is no condition.
    fn values(&self, values: &View<'_>, name: &str, negated: bool) -> Expr {
        if !values.is_list() {
            return values.inexpressible(LIST_EXPECTED);
        }
        let items = values.items();
        if items.is_empty() {
            return Expr::always();
        }
        let any = Expr::any(items.iter().map(|item| self.value(item, name)).collect());
        if negated { any.negated() } else { any }
    }

    fn value(&self, item: &View<'_>, name: &str) -> Expr {
        let Some(text) = item.text() else { return item.inexpressible("text is expected here") };
        if let Some(claim) = name.strip_prefix("request.auth.claims") {
            return self.claim(item, claim, text);
        }
        let reason = match name {
            "methods" => return matcher::method(item, &wildcard(text), false),
            "hosts" => return matcher::host(item, &wildcard(text), self.options),
            "paths" => return matcher::path(item, &path(text), false, self.options),
            "request_principals" | "request.auth.principal" => {
                return self.request_principal(item, text);
            }
            "principals" | "namespaces" | "service_accounts" | "source.principal"
            | "source.namespace" => reason::CERTIFICATE,
            "ip_blocks" | "remote_ip_blocks" | "source.ip" | "remote.ip" => reason::CLIENT_ADDRESS,
            "ports" | "destination.ip" | "destination.port" => reason::SERVER_ADDRESS,
            "request.auth.audiences" | "request.auth.presenter" => {
                "a rule does not depend on the audience and the presenter of a token"
            }
            _ if name.starts_with("request.headers") => reason::HEADER,
            _ => reason::OTHER,
        };
        item.inexpressible(reason)
    }

    /// `ISSUER/SUBJECT`, where either may be `*`. The last slash separates them.
    fn request_principal(&self, item: &View<'_>, text: &str) -> Expr {
        if text == "*" {
            return self.sources.any_token(item);
        }
        let has_wildcard = |name: &str| name != "*" && name.contains('*');
        let parts = text.rsplit_once('/');
        let Some((issuer, subject)) =
            parts.filter(|(issuer, subject)| !has_wildcard(issuer) && !has_wildcard(subject))
        else {
            return item.inexpressible("a grant names whole issuers and users");
        };
        let issuers = self.issuers(issuer);
        if issuers.is_empty() {
            let message = "no `RequestAuthentication` here accepts tokens of this issuer";
            return self.sources.without_issuer(item, issuer, message);
        }
        if issuer == "*" && subject == "*" {
            return self.sources.any_token(item);
        }
        let condition = |source: usize| match subject {
            "*" => self.sources.any_verified(item, source),
            subject => self.sources.claim_is(item, source, &["sub"], subject),
        };
        Expr::any(issuers.into_iter().map(condition).collect())
    }

    /// The sources with this issuer; all for `*`.
    fn issuers(&self, issuer: &str) -> Vec<usize> {
        self.sources.numbers(
            |kind| matches!(kind, Kind::Jwt(known) if issuer == "*" || known.issuer == issuer),
        )
    }

    /// `[name]`, or `[outer][inner]` of a nested claim. Any issuer may have given it.
    fn claim(&self, item: &View<'_>, name: &str, text: &str) -> Expr {
        let inner = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        let path: Vec<&str> = inner.unwrap_or_default().split("][").collect();
        if inner.is_none() || path.iter().any(|name| name.is_empty() || name.contains(['[', ']'])) {
            return item.inexpressible("a claim is expected here");
        }
        if path == ["iss"] {
            return self.request_principal(item, &format!("{text}/*"));
        }
        if text.starts_with('*') || text.ends_with('*') {
            return item.inexpressible("a grant names whole users and groups");
        }
        let sources = self.issuers("*");
        if sources.is_empty() {
            return self.sources.without_issuer(
                item,
                "*",
                "no `RequestAuthentication` here accepts tokens",
            );
        }
        let condition = |source| match path.as_slice() {
            ["sub"] => self.sources.claim_is(item, source, &path, text),
            _ => self.sources.claim_has(item, source, &path, text),
        };
        Expr::any(sources.into_iter().map(condition).collect())
    }
}

/// Istio's wildcards: `*` at the start or at the end of a text, or alone.
fn wildcard(text: &str) -> Matcher {
    match (text.strip_prefix('*'), text.strip_suffix('*')) {
        (Some(""), _) => Matcher::Any,
        (Some(end), _) => Matcher::Suffix(end.to_owned()),
        (None, Some(start)) => Matcher::Prefix(start.to_owned()),
        (None, None) => Matcher::Exact(text.to_owned()),
    }
}

/// A path, or a template with `{*}` and `{**}`.
fn path(text: &str) -> Matcher {
    if text.contains("{*}") || text.contains("{**}") {
        return Matcher::Template(text.replace("{**}", "**").replace("{*}", "*"));
    }
    wildcard(text)
}
