//! Envoy's RBAC filter.

use document::View;

use super::{cel, claims};
use crate::Options;
use crate::address::{self, Address};
use crate::expr::{Expr, Notes as _, reason};
use crate::header::{self, HeaderMatch, HeaderTest};
use crate::lower::{Alternative, Original};
use crate::matcher;
use crate::note::Effect;
use crate::sources::{ANY_ISSUER, Kind, Source, Sources};
use crate::text_matcher::{self, Matcher};

const UNKNOWN_MATCHER: &str = "unknown matcher";

/// Adds the conditions of a filter.
pub(crate) fn read(filter: &View<'_>, options: &Options, original: &mut Original) {
    const KNOWN: &str = "@type rules rules_stat_prefix shadow_rules shadow_matcher \
                         shadow_rules_stat_prefix track_per_rule_stats matcher";
    for shadow in ["shadow_rules", "shadow_matcher"].iter().filter_map(|key| filter.get(key)) {
        let message = "shadow rules decide nothing and are not imported: try a policy with \
                       `rolegate serve --shadow`";
        original.notes.push(shadow.note(Effect::Same, message));
    }
    if let Some(condition) = filter.unknown_fields(KNOWN) {
        original.require(filter, "unknown", condition);
    }
    match (filter.get("rules"), filter.get("matcher")) {
        // Envoy ignores `rules` beside `matcher`.
        (_, Some(matcher)) => {
            let condition = matcher.inexpressible("matcher trees are not imported");
            original.require(&matcher, "matcher", condition);
        }
        (Some(rules), None) => self::rules(&rules, options, original),
        // Without rules the filter allows every request.
        (None, None) => original.require(filter, "no rules", Expr::always()),
    }
}

fn rules(rules: &View<'_>, options: &Options, original: &mut Original) {
    if let Some(condition) = rules.unknown_fields("action policies audit_logging_options") {
        original.require(rules, "unknown", condition);
    }
    let policies = rules.get("policies");
    let mut alternatives = Vec::new();
    for (name, policy) in policies.iter().flat_map(View::entries_as_written) {
        let condition = self::policy(&policy, options, &original.sources);
        alternatives.push(Alternative::new(&policy, &name, condition));
    }
    // The loop leaves out policies without a value.
    if let Some(policies) =
        policies.filter(|policies| !policies.is_mapping() || policies.lacks_a_value())
    {
        let condition = policies.inexpressible("policies are expected here, each with its name");
        alternatives.push(Alternative::new(&policies, "policies", condition));
    }
    match rules.get("action").map_or("ALLOW", |action| action.text().unwrap_or_default()) {
        "ALLOW" | "0" => original.allow.push(alternatives),
        "DENY" | "1" => {
            original.deny.extend(alternatives);
            original.require(rules, "not denied", Expr::always());
        }
        "LOG" | "2" => {
            let message = "`LOG` decides nothing and is not imported";
            original.notes.push(rules.note(Effect::Same, message));
            original.require(rules, "logged", Expr::always());
        }
        _ => {
            let condition = rules.inexpressible("unknown action");
            original.require(rules, "unknown", condition);
        }
    }
}

fn policy(policy: &View<'_>, options: &Options, sources: &Sources) -> Expr {
    let reader = Reader { options, sources };
    let mut conditions = Vec::new();
    for key in ["permissions", "principals"] {
        let rules = policy.list(key);
        conditions.push(if rules.is_empty() {
            // Envoy does not start with such a policy. An empty match would be unsafe in a `DENY`
            // policy.
            policy.inexpressible(format!("`{key}` are expected here"))
        } else {
            Expr::any(rules.iter().map(|rule| reader.rule(rule)))
        });
    }
    match (policy.get("condition"), policy.get("checked_condition/expr")) {
        (None, None) => {}
        (Some(condition), None) | (None, Some(condition)) => {
            conditions.push(cel::condition(&condition, sources));
        }
        (Some(condition), Some(_)) => {
            conditions.push(condition.inexpressible("two conditions in CEL"));
        }
    }
    let fields = match policy.get("checked_condition") {
        Some(checked) if checked.get("expr").is_none() => "permissions principals condition",
        _ => "permissions principals condition checked_condition",
    };
    conditions.extend(policy.unknown_fields(fields));
    Expr::All(conditions)
}

/// Reads permissions and principals. Their common fields mean the same.
struct Reader<'r> {
    options: &'r Options,
    sources: &'r Sources,
}

impl Reader<'_> {
    fn rule(&self, rule: &View<'_>) -> Expr {
        let entries = rule.entries();
        let [(key, value)] = entries.as_slice() else {
            return rule.inexpressible("exactly one condition is expected here");
        };
        let known = match key.as_str() {
            "url_path" => Some("path"),
            "uri_template" => Some("name typed_config"),
            "sourced_metadata" => Some("metadata_matcher metadata_source"),
            _ => None,
        };
        if let Some(unknown) = known.and_then(|fields| value.unknown_fields(fields)) {
            return unknown;
        }
        let reason = match key.as_str() {
            "any" if value.boolean() == Some(true) => return Expr::always(),
            "and_rules" => return self.combined(value, "rules", Expr::All),
            "or_rules" => return self.combined(value, "rules", Expr::any),
            "and_ids" => return self.combined(value, "ids", Expr::All),
            "or_ids" => return self.combined(value, "ids", Expr::any),
            "not_rule" | "not_id" => return self.rule(value).negated(),
            "header" => return self.header(value),
            "url_path" => {
                if let Some(path) = value.get("path")
                    && let Some((matcher, ignore_case)) = text_matcher::string_matcher(&path)
                {
                    return matcher::path(&path, &matcher, ignore_case, self.options);
                }
                UNKNOWN_MATCHER
            }
            "uri_template" => return self.template(value),
            "metadata" => return self.metadata(value),
            "sourced_metadata" => {
                let source = value.get("metadata_source");
                let source = source.map_or("DYNAMIC", |source| source.text().unwrap_or_default());
                if let Some(matcher) = value.get("metadata_matcher")
                    && ["DYNAMIC", "0"].contains(&source)
                {
                    return self.metadata(&matcher);
                }
                "rolegate does not see metadata of routes"
            }
            "authenticated" => reason::CERTIFICATE,
            "source_ip" => return self.address(value, Address::Connection),
            "direct_remote_ip" => return self.address(value, Address::Peer),
            "remote_ip" => return self.address(value, Address::Client),
            "destination_ip" | "destination_port" | "destination_port_range" => {
                reason::SERVER_ADDRESS
            }
            "requested_server_name" => "a rule does not depend on the SNI",
            "filter_state" => reason::FILTER_STATE,
            _ => reason::OTHER,
        };
        value.inexpressible(reason)
    }

    /// Combines the conditions under this key.
    fn combined(&self, set: &View<'_>, key: &str, combine: fn(Vec<Expr>) -> Expr) -> Expr {
        set.combined(key, |rules| combine(rules.iter().map(|rule| self.rule(rule)).collect()))
    }

    /// `CidrRange`.
    fn address(&self, range: &View<'_>, address: Address) -> Expr {
        if let Some(unknown) = range.unknown_fields("address_prefix prefix_len") {
            return unknown;
        }
        // Without a length, the range has all addresses.
        let length = range.get("prefix_len");
        let length = length
            .as_ref()
            .map_or(Some("0"), |length| length.text().or_else(|| length.text_of("value")));
        let (Some(prefix), Some(length)) = (range.text_of("address_prefix"), length) else {
            return range.inexpressible("a network is expected here");
        };
        address::condition(range, address, (prefix, Some(length)), self.sources, self.options)
    }

    fn template(&self, extension: &View<'_>) -> Expr {
        let config = extension.get("typed_config");
        let config = config.map(|config| config.get("value").unwrap_or(config));
        let template = config.as_ref().and_then(|config| config.get("path_template"));
        let (Some(config), Some(template)) = (config, template) else {
            return extension.inexpressible(UNKNOWN_MATCHER);
        };
        config.unknown_fields("@type path_template").unwrap_or_else(|| {
            let text = template.text().unwrap_or_default().to_owned();
            matcher::path(&template, &Matcher::Template(text), false, self.options)
        })
    }

    /// `HeaderMatcher`.
    fn header(&self, header: &View<'_>) -> Expr {
        let name = header.text_of("name").unwrap_or_default().to_ascii_lowercase();
        let (mut test, mut is_inverted, mut is_empty_if_missing) = (None, false, false);
        for (key, value) in header.entries() {
            match (key.as_str(), value.boolean()) {
                ("name", _) => {}
                ("invert_match", Some(inverts)) => is_inverted = inverts,
                ("invert_match", None) => {
                    return value.inexpressible("`invert_match` must be `true` or `false`");
                }
                ("treat_missing_header_as_empty", Some(is_empty)) => is_empty_if_missing = is_empty,
                (key, boolean) => match header_test(key, &value, boolean) {
                    Some(found) if test.is_none() => test = Some(found),
                    _ => return value.inexpressible(UNKNOWN_MATCHER),
                },
            }
        }
        // Without a matcher, the header must be present.
        let test = test.unwrap_or(HeaderTest::Present(true));
        let source = self.user_source(&name);
        let is_always_there = [":method", ":path", ":authority", "host"].contains(&&*name);
        if source.is_none() && !is_always_there {
            let wanted = HeaderMatch { test, is_inverted, is_empty_if_missing };
            return header::condition(header, &name, &wanted, self.sources);
        }
        let (matcher, ignore_case) = match test {
            HeaderTest::Text(matcher, ignore_case) if !is_empty_if_missing => {
                (matcher, ignore_case)
            }
            HeaderTest::Present(true) if !is_empty_if_missing => (Matcher::Any, false),
            _ => return header.inexpressible(UNKNOWN_MATCHER),
        };
        let expr = match (name.as_str(), source) {
            (":method", _) => matcher::method(header, &matcher, ignore_case),
            (":path", _) => matcher::path_with_query(header, &matcher, ignore_case, self.options),
            (_, Some(source)) => self.user_header(header, source, &matcher, ignore_case),
            // rolegate always ignores the case of hosts. A note says so.
            (_, None) => matcher::host(header, &matcher, self.options),
        };
        if is_inverted { expr.negated() } else { expr }
    }

    /// The index of the `basic_auth` source, if its filter writes the name of the user to this
    /// header. `None` if that filter did not run before this one: then the client controls the
    /// header.
    fn user_source(&self, name: &str) -> Option<usize> {
        self.sources.all.iter().position(|source| match &source.kind {
            Kind::Basic { header, .. } => {
                header.as_deref() == Some(name) && !source.verified.is_never()
            }
            Kind::Jwt(_) => false,
        })
    }

    fn user_header(
        &self,
        header: &View<'_>,
        source: usize,
        matcher: &Matcher,
        ignore_case: bool,
    ) -> Expr {
        match matcher {
            // `Bob` is another user than `bob`.
            Matcher::Exact(user) if !ignore_case => self.sources.user(header, source, user),
            Matcher::Any => self.sources.any_verified(header, source),
            _ => header.inexpressible("a grant names users exactly, not by a pattern"),
        }
    }

    /// `MetadataMatcher`.
    fn metadata(&self, metadata: &View<'_>) -> Expr {
        let expr = if metadata.text_of("filter") == Some("envoy.filters.http.jwt_authn") {
            self.claims(metadata)
        } else {
            metadata.inexpressible("of the metadata, rolegate sees only the claims of tokens")
        };
        inverted(metadata, "invert", expr)
    }

    /// A condition on claims. `jwt_authn` writes the claims of a token to the metadata, under the
    /// key in `payload_in_metadata` of the provider.
    fn claims(&self, metadata: &View<'_>) -> Expr {
        let path = metadata.list("path");
        if let Some(unknown) = path.iter().find_map(|segment| segment.unknown_fields("key")) {
            return unknown;
        }
        let keys: Option<Vec<&str>> = path.iter().map(|segment| segment.text_of("key")).collect();
        let keys = keys.unwrap_or_default();
        let (Some((payload, claim)), Some(value)) = (keys.split_first(), metadata.get("value"))
        else {
            return metadata.inexpressible("a path of claims is expected here");
        };
        if claim.is_empty() {
            return metadata.inexpressible("a claim is expected here");
        }
        if let Some(unknown) = metadata.unknown_fields("filter path value invert") {
            return unknown;
        }
        let sources =
            self.sources.indices_of_issuers(|issuer| issuer.payload.as_deref() == Some(payload));
        if sources.is_empty() {
            let message = "no provider of the filter `jwt_authn` here writes these claims";
            return self.sources.missing_issuer(metadata, ANY_ISSUER, message);
        }
        Expr::any(sources.into_iter().map(|source| self.claim_value(&value, source, claim)))
    }

    /// `ValueMatcher`.
    fn claim_value(&self, value: &View<'_>, source: usize, claim: &[&str]) -> Expr {
        let entries = value.entries();
        let [(key, matcher)] = entries.as_slice() else {
            return value.inexpressible(claims::ONE_EXPECTED);
        };
        if key == "or_match" {
            return matcher.combined("value_matchers", |matchers| {
                Expr::any(matchers.iter().map(|value| self.claim_value(value, source, claim)))
            });
        }
        match (key.as_str(), claims::text(matcher)) {
            ("string_match", Some((Matcher::Exact(text), false))) if claim == ["iss"] => {
                return match self.sources.all.get(source).and_then(Source::issuer) {
                    Some(issuer) if issuer.issuer == text => {
                        self.sources.any_verified(value, source)
                    }
                    _ => Expr::never(),
                };
            }
            ("string_match", Some((Matcher::Exact(text), false))) if claim == ["sub"] => {
                return self.sources.user(value, source, &text);
            }
            // rolegate answers 401 to a token without a subject.
            ("string_match", Some((Matcher::Any, _))) if claim == ["sub"] => {
                return self.sources.any_verified(value, source);
            }
            _ => {}
        }
        if let Some(name) = claims::listed(key, matcher)
            && let Some(groups) = self.sources.use_claim_as_groups(value, source, claim, &name)
        {
            return groups;
        }
        match claims::condition(value, claim) {
            Ok((when, doubt)) => self.sources.claims_condition(value, source, when, doubt),
            Err(inexpressible) => inexpressible,
        }
    }
}

/// The matcher in a field of a `HeaderMatcher`.
fn header_test(key: &str, value: &View<'_>, boolean: Option<bool>) -> Option<HeaderTest> {
    match key {
        "present_match" => boolean.map(HeaderTest::Present),
        "string_match" => {
            let (matcher, ignore_case) = text_matcher::string_matcher(value)?;
            Some(HeaderTest::Text(matcher, ignore_case))
        }
        "range_match" if value.is_mapping() && value.values_except("start end").is_empty() => {
            let [start, end] = ["start", "end"].map(|key| match value.get(key) {
                None => Some(0),
                Some(number) => number.text()?.parse().ok(),
            });
            Some(HeaderTest::Range(start?, end?))
        }
        key => match text_matcher::field(key.strip_suffix("_match")?, value)? {
            // Not imported: to Envoy, an empty text here matches any value.
            Matcher::Exact(text) if text.is_empty() => None,
            matcher => Some(HeaderTest::Text(matcher, false)),
        },
    }
}

/// Negates the condition if the field under this key is true.
fn inverted(view: &View<'_>, key: &str, condition: Expr) -> Expr {
    match view.get(key).map_or(Some(false), |value| value.boolean()) {
        Some(true) => condition.negated(),
        Some(false) => condition,
        None => view.inexpressible(format!("`{key}` must be `true` or `false`")),
    }
}
