//! A rule of an `AuthorizationPolicy`: `from`, `to` and `when`.

use document::View;

use crate::Options;
use crate::expr::{Expr, Notes as _, reason};
use crate::matcher;
use crate::sources::{ANY_ISSUER, Sources};
use crate::text_matcher::Matcher;

/// Kubernetes refuses any other value here, whereas Envoy reads a single value as the only item.
const LIST_EXPECTED: &str = "a list is expected here";

/// The condition of a rule: an item of `from`, an item of `to`, and all items of `when` hold.
pub(crate) fn condition(rule: &View<'_>, options: &Options, sources: &Sources) -> Expr {
    if !rule.is_mapping() {
        // Not a rule without conditions: that is `{}`.
        return rule.inexpressible("a rule is expected here");
    }
    let reader = Reader { options, sources };
    let mut conditions = Vec::new();
    for (list, inner) in [("from", "source"), ("to", "operation")] {
        match items(rule, list) {
            Ok(items) if items.is_empty() => {}
            Ok(items) => {
                conditions.push(Expr::any(items.iter().map(|item| reader.peer(item, inner))));
            }
            Err(wrong) => conditions.push(wrong),
        }
    }
    match items(rule, "when") {
        Ok(items) => conditions.extend(items.iter().map(|when| reader.when(when))),
        Err(wrong) => conditions.push(wrong),
    }
    conditions.extend(rule.unknown_fields("from to when"));
    Expr::All(conditions)
}

/// The items of a list under a key. An error for any other value: an absent list is no condition,
/// so it would allow more.
pub(super) fn items<'n>(view: &View<'n>, key: &str) -> Result<Vec<View<'n>>, Expr> {
    match view.get(key) {
        None => Ok(Vec::new()),
        Some(list) if list.is_list() => Ok(list.items()),
        Some(value) => Err(value.inexpressible(LIST_EXPECTED)),
    }
}

struct Reader<'r> {
    options: &'r Options,
    sources: &'r Sources,
}

impl Reader<'_> {
    /// An item of `from` or `to`: all fields of its `source` or `operation` hold.
    fn peer(&self, item: &View<'_>, inner: &str) -> Expr {
        let Some(fields) = item.get(inner).filter(View::is_mapping) else {
            return item.inexpressible(format!("`{inner}` is expected here"));
        };
        let fields = fields.entries().into_iter().map(|(key, values)| {
            let name = key.strip_prefix("not_");
            self.values(&values, name.unwrap_or(&key), name.is_some())
        });
        Expr::all(item.unknown_fields(inner).into_iter().chain([Expr::all(fields)]))
    }

    /// An item of `when`: one of `values` and none of `notValues`. Istio refuses an item without
    /// both.
    fn when(&self, when: &View<'_>) -> Expr {
        let key = when.text_of("key").unwrap_or_default();
        let mut conditions = Vec::new();
        for (list, negated) in [("values", false), ("not_values", true)] {
            if let Some(values) = when.get(list)
                && (!values.is_list() || !values.items().is_empty())
            {
                conditions.push(self.values(&values, key, negated));
            }
        }
        if conditions.is_empty() {
            conditions.push(when.inexpressible("`values` or `notValues` are expected here"));
        }
        conditions.extend(when.unknown_fields("key values not_values"));
        Expr::All(conditions)
    }

    /// One of these values, or none of them if `negated`. An empty list is no condition.
    fn values(&self, values: &View<'_>, name: &str, negated: bool) -> Expr {
        if !values.is_list() {
            return values.inexpressible(LIST_EXPECTED);
        }
        let items = values.items();
        if items.is_empty() {
            return Expr::always();
        }
        let any = Expr::any(items.iter().map(|item| self.value(item, name)));
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

    /// `ISSUER/SUBJECT`, separated by the last slash; each may be `*`.
    fn request_principal(&self, item: &View<'_>, text: &str) -> Expr {
        if text == "*" {
            return self.sources.any_token(item);
        }
        let is_whole = |name: &str| name == "*" || !name.contains('*');
        let parts = text.rsplit_once('/');
        let Some((issuer, subject)) =
            parts.filter(|(issuer, subject)| is_whole(issuer) && is_whole(subject))
        else {
            return item.inexpressible("a grant names issuers and users exactly, not by a pattern");
        };
        let issuers =
            self.sources.indices_of_issuers(|source| issuer == "*" || source.issuer == issuer);
        if issuers.is_empty() {
            let message = "no `RequestAuthentication` here accepts tokens of this issuer";
            return self.sources.missing_issuer(item, issuer, message);
        }
        if issuer == "*" && subject == "*" {
            return self.sources.any_token(item);
        }
        Expr::any(issuers.into_iter().map(|source| match subject {
            "*" => self.sources.any_verified(item, source),
            subject => self.sources.use_claim_as_user(item, source, &["sub"], subject),
        }))
    }

    /// `[name]`, or `[outer][inner]` for a nested claim, in a token of any issuer.
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
            return item.inexpressible("a grant names users and groups exactly, not by a pattern");
        }
        let sources = self.sources.indices_of_issuers(|_| true);
        if sources.is_empty() {
            let message = "no `RequestAuthentication` here accepts tokens";
            return self.sources.missing_issuer(item, ANY_ISSUER, message);
        }
        Expr::any(sources.into_iter().map(|source| match path.as_slice() {
            ["sub"] => self.sources.use_claim_as_user(item, source, &path, text),
            _ => self.sources.use_claim_as_groups(item, source, &path, text),
        }))
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
