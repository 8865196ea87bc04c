//! A rule of an `AuthorizationPolicy`: `from`, `to` and `when`.

use document::View;

use crate::Options;
use crate::address::{self, Address};
use crate::expr::{Expr, Notes as _, reason};
use crate::header::{self, HeaderMatch, HeaderTest};
use crate::matcher;
use crate::note::Effect;
use crate::sources::{ANY_ISSUER, Sources};
use crate::text_matcher::{self, Matcher};
use crate::when::{self, Doubt, When};

/// Kubernetes refuses any other value here, whereas Envoy reads a single value as the only item.
const LIST_EXPECTED: &str = "a list is expected here";

/// The condition of a rule: an item of `from`, an item of `to`, and all items of `when` hold.
pub(crate) fn condition(rule: &View<'_>, options: &Options, sources: &Sources) -> Expr {
    if !rule.is_mapping() {
        // A rule without conditions is `{}`, so this is not one.
        return rule.inexpressible("a rule is expected here");
    }
    let reader = Reader { options, sources };
    let mut conditions = Vec::new();
    for (list, inner) in [("from", "source"), ("to", "operation")] {
        match items(rule, list) {
            Ok(items) if items.is_empty() => {}
            Ok(items) => {
                conditions.push(Expr::any(items.iter().map(|item| reader.rule_part(item, inner))));
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

/// The items of the list under a key; none if the key is absent. Any other value is an error. It
/// must not be read like an absent list, which is no condition: that would allow more.
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
    fn rule_part(&self, item: &View<'_>, inner: &str) -> Expr {
        let Some(fields) = item.get(inner).filter(View::is_mapping) else {
            return item.inexpressible(format!("`{inner}` is expected here"));
        };
        let fields = fields.entries().into_iter().map(|(key, values)| {
            let name = key.strip_prefix("not_");
            self.values(&values, name.unwrap_or(&key), name.is_some())
        });
        Expr::all(item.unknown_fields(inner).into_iter().chain([Expr::all(fields)]))
    }

    /// An item of `when`: one of `values` and none of `notValues`. Istio refuses an item with
    /// neither of these lists.
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
        if let Some(header) = name.strip_prefix("request.headers") {
            return self.header(item, header, text);
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
            "ip_blocks" | "source.ip" => return self.address(item, Address::Peer, text),
            "remote_ip_blocks" | "remote.ip" => return self.address(item, Address::Client, text),
            "ports" | "destination.ip" | "destination.port" => reason::SERVER_ADDRESS,
            "request.auth.audiences" => return self.audience(item, text),
            "request.auth.presenter" => return self.claim(item, "[azp]", text),
            _ => reason::OTHER,
        };
        item.inexpressible(reason)
    }

    fn address(&self, item: &View<'_>, address: Address, text: &str) -> Expr {
        address::condition(item, address, address::split(text), self.sources, self.options)
    }

    /// A condition on a header; `name` is `[HEADER]`. The header has the value `text`; `*` matches
    /// any value.
    fn header(&self, item: &View<'_>, name: &str, text: &str) -> Expr {
        let inner = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        let Some(name) = inner.filter(|name| !name.is_empty()).map(str::to_ascii_lowercase) else {
            return item.inexpressible("a header is expected here");
        };
        let test = match wildcard(text) {
            matcher if ["host", ":authority"].contains(&&*name) => {
                return matcher::host(item, &matcher, self.options);
            }
            Matcher::Any => HeaderTest::Present(true),
            matcher => HeaderTest::Text(matcher, false),
        };
        let wanted = HeaderMatch { test, is_inverted: false, is_empty_if_missing: false };
        header::condition(item, &name, &wanted, self.sources)
    }

    /// `ISSUER/SUBJECT`, separated by the last slash. Each may be `*`. If the issuer is not `*`,
    /// the subject may also be `START*`. A text without a slash is `*END`: the end of a subject, of
    /// any issuer.
    fn request_principal(&self, item: &View<'_>, text: &str) -> Expr {
        if text == "*" {
            return self.sources.any_token(item);
        }
        let (issuer, subject) = text.rsplit_once('/').unwrap_or(("*", text));
        let is_pattern = match text.contains('/') {
            true => issuer != "*" && is_prefix_pattern(subject),
            false => is_suffix_pattern(subject),
        };
        let is_whole = text.contains('/') && (subject == "*" || !subject.contains('*'));
        if (issuer != "*" && issuer.contains('*')) || !(is_whole || is_pattern) {
            return item.inexpressible("this pattern of issuers and users cannot be expressed");
        }
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
            subject if subject.contains('*') => {
                let claim = when::claim(&["sub"]);
                let test = text_matcher::test(&claim.value, &wildcard(subject), false);
                let when = When::all([claim.is_there].into_iter().chain(test));
                self.sources.claims_condition(item, source, when, None)
            }
            subject => self.sources.user(item, source, subject),
        }))
    }

    /// A condition on a claim in a token of any issuer; `name` is `[CLAIM]`, or `[OUTER][INNER]`
    /// for a nested claim. The claim is this text, or a list with this text.
    fn claim(&self, item: &View<'_>, name: &str, text: &str) -> Expr {
        let inner = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        let path: Vec<&str> = inner.unwrap_or_default().split("][").collect();
        if inner.is_none() || path.iter().any(|name| name.is_empty() || name.contains(['[', ']'])) {
            return item.inexpressible("a claim is expected here");
        }
        let pattern = wildcard(text);
        let is_exact = matches!(pattern, Matcher::Exact(_));
        if path == ["iss"] && (is_exact || text == "*") {
            return self.request_principal(item, &format!("{text}/*"));
        }
        let sources = self.sources.indices_of_issuers(|_| true);
        if sources.is_empty() {
            let message = "no `RequestAuthentication` here accepts tokens";
            return self.sources.missing_issuer(item, ANY_ISSUER, message);
        }
        if path == ["sub"] && is_exact {
            let users = sources.into_iter().map(|source| self.sources.user(item, source, text));
            return Expr::any(users);
        }
        let groups: Option<Vec<Expr>> = sources
            .iter()
            .filter(|_| is_exact)
            .map(|source| self.sources.use_claim_as_groups(item, *source, &path, text))
            .collect();
        if let Some(groups) = groups.filter(|groups| !groups.is_empty()) {
            return Expr::any(groups);
        }
        self.other_claim(item, &path, &pattern, &sources)
    }

    /// A condition on a claim, if it is not the claim with the groups, or if the text is a pattern.
    fn other_claim(
        &self,
        item: &View<'_>,
        path: &[&str],
        pattern: &Matcher,
        sources: &[usize],
    ) -> Expr {
        if ["scope", "permission"].map(|name| vec![name]).iter().any(|words| words == path) {
            return item.inexpressible("the words of another claim than that of the groups");
        }
        let claim = when::claim(path);
        // Istio's `*` matches any text that is not empty.
        let not_empty = Matcher::Regex(".+".to_owned());
        let pattern = if *pattern == Matcher::Any { &not_empty } else { pattern };
        let is_exact = matches!(pattern, Matcher::Exact(_));
        let tests = [&*claim.value, "x"].map(|value| text_matcher::test(value, pattern, false));
        let [Some(text), Some(listed)] = tests else {
            return item.inexpressible("this is no pattern of a claim");
        };
        let listed = When::Test(format!("{}.exists(x, {listed})", claim.value));
        let when = When::all([claim.is_there, When::any([text, listed])]);
        let message = format!(
            "a token whose claim `{}` is another text, not a list, is denied where the condition \
             decides",
            path.join(".")
        );
        let note = item.note(Effect::Unusual, message);
        let doubt = is_exact.then_some(Doubt { note, only_negated: true });
        let any = Expr::any(sources.iter().map(|source| {
            self.sources.claims_condition(item, *source, when.clone(), doubt.clone())
        }));
        if is_exact {
            return any;
        }
        // For a list, the negation of a pattern cannot be computed.
        let message = "whether no claim matches a pattern cannot be expressed";
        let note = item.note(Effect::Same, message);
        let (under, over) = (Box::new(any), Box::new(Expr::always()));
        Expr::Between { under, over, note, allow_wider_helps: false }
    }

    /// A condition on the audience of a token. It is approximated, because versions of Istio differ
    /// about tokens with several audiences.
    fn audience(&self, item: &View<'_>, text: &str) -> Expr {
        let sources = self.sources.indices_of_issuers(|_| true);
        if sources.is_empty() {
            let message = "no `RequestAuthentication` here accepts tokens";
            return self.sources.missing_issuer(item, ANY_ISSUER, message);
        }
        let claim = when::claim(&["aud"]);
        let Some(test) = text_matcher::test(&claim.value, &wildcard(text), false) else {
            return item.inexpressible("this is no pattern of an audience");
        };
        let when = When::all([claim.is_there, test]);
        let under = Expr::any(
            sources
                .into_iter()
                .map(|source| self.sources.claims_condition(item, source, when.clone(), None)),
        );
        let message = "versions of Istio differ about tokens with several audiences";
        let note = item.note(Effect::Same, message);
        let (under, over) = (Box::new(under), Box::new(self.sources.any_token(item)));
        Expr::Between { under, over, note, allow_wider_helps: false }
    }
}

/// Whether it is a text and then `*`.
fn is_prefix_pattern(text: &str) -> bool {
    text.strip_suffix('*').is_some_and(|text| !text.is_empty() && !text.contains('*'))
}

/// Whether it is `*` and then a text.
fn is_suffix_pattern(text: &str) -> bool {
    text.strip_prefix('*').is_some_and(|text| !text.is_empty() && !text.contains('*'))
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
