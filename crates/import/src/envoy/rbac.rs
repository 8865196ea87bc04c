//! Envoy's RBAC filter.

use document::View;

use crate::Options;
use crate::expr::{Expr, Notes as _, reason};
use crate::lower::{Alternative, Original};
use crate::matcher;
use crate::note::Effect;
use crate::sources::{Kind, Sources};
use crate::text_matcher::{self, Matcher};

const UNKNOWN_MATCHER: &str = "a matcher that is not known";

/// Adds the conditions of a filter.
pub(crate) fn read(filter: &View<'_>, options: &Options, original: &mut Original) {
    const KNOWN: &str = "@type rules rules_stat_prefix shadow_rules shadow_matcher shadow_rules_stat_prefix \
                         track_per_rule_stats matcher";
    for key in ["shadow_rules", "shadow_matcher"] {
        if let Some(shadow) = filter.get(key) {
            let message = "shadow rules decide nothing and are not imported: try a policy by `rolegate serve --shadow`";
            original.notes.push(shadow.note(Effect::Same, message));
        }
    }
    if let Some(unknown) = filter.unknown(KNOWN) {
        original.allow.push(vec![super::unnamed(filter, "unknown", unknown)]);
    }
    match (filter.get("rules"), filter.get("matcher")) {
        // Envoy ignores `rules` beside it.
        (_, Some(matcher)) => {
            let condition = matcher.inexpressible("matcher trees are not imported");
            original.allow.push(vec![super::unnamed(&matcher, "matcher", condition)]);
        }
        (Some(rules), None) => self::rules(&rules, options, original),
        // Without rules the filter allows every request.
        (None, None) => {
            original.allow.push(vec![super::unnamed(filter, "no rules", Expr::always())])
        }
    }
}

fn rules(rules: &View<'_>, options: &Options, original: &mut Original) {
    if let Some(unknown) = rules.unknown("action policies audit_logging_options") {
        original.allow.push(vec![super::unnamed(rules, "unknown", unknown)]);
    }
    let policies = rules.get("policies");
    let named = policies.as_ref().map(View::named_entries).unwrap_or_default();
    let mut alternatives: Vec<Alternative> = named
        .iter()
        .map(|(name, policy)| {
            super::unnamed(policy, name, self::policy(policy, options, &original.sources))
        })
        .collect();
    if let Some(policies) =
        policies.filter(|policies| !policies.is_mapping() || policies.lacks_a_value())
    {
        let condition = policies.inexpressible("policies are expected here, each with its name");
        alternatives.push(super::unnamed(&policies, "policies", condition));
    }
    let alone = |name: &str, condition| vec![super::unnamed(rules, name, condition)];
    match rules.get("action").map_or("ALLOW", |action| action.text().unwrap_or_default()) {
        "ALLOW" | "0" => original.allow.push(alternatives),
        "DENY" | "1" => {
            original.deny.extend(alternatives);
            original.allow.push(alone("not denied", Expr::always()));
        }
        "LOG" | "2" => {
            original
                .notes
                .push(rules.note(Effect::Same, "`LOG` decides nothing and is not imported"));
            original.allow.push(alone("logged", Expr::always()));
        }
        _ => original
            .allow
            .push(alone("unknown", rules.inexpressible("an action that is not known"))),
    }
}

fn policy(policy: &View<'_>, options: &Options, sources: &Sources) -> Expr {
    let reader = Reader { options, sources };
    let one_of = |key: &str| match policy.list(key).as_slice() {
        // Envoy does not start with such a policy. It is not one that matches nothing, because it
        // could be a denial.
        [] => policy.inexpressible(format!("`{key}` are expected here")),
        all => Expr::any(all.iter().map(|one| reader.rule(one)).collect()),
    };
    let mut conditions = vec![one_of("permissions"), one_of("principals")];
    for condition in ["condition", "checked_condition"].iter().filter_map(|key| policy.get(key)) {
        conditions.push(condition.inexpressible("a condition in CEL cannot be expressed"));
    }
    conditions
        .extend(policy.unknown("permissions principals condition checked_condition cel_config"));
    Expr::All(conditions)
}

/// Reads permissions and principals: the fields that both have mean the same.
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
        if let Some(unknown) = known.and_then(|known| value.unknown(known)) {
            return unknown;
        }
        let reason = match key.as_str() {
            "any" if value.boolean() == Some(true) => return Expr::always(),
            "and_rules" => return self.set(value, "rules", Expr::All),
            "or_rules" => return self.set(value, "rules", Expr::any),
            "and_ids" => return self.set(value, "ids", Expr::All),
            "or_ids" => return self.set(value, "ids", Expr::any),
            "not_rule" | "not_id" => return self.rule(value).negated(),
            "header" => return self.header(value),
            "url_path" => {
                let path = value.get("path");
                match path
                    .as_ref()
                    .and_then(|path| Some((path, text_matcher::string_matcher(path)?)))
                {
                    Some((path, (matcher, ignore_case))) => {
                        return matcher::path(path, &matcher, ignore_case, self.options);
                    }
                    None => UNKNOWN_MATCHER,
                }
            }
            "uri_template" => return self.template(value),
            "metadata" => return self.metadata(value),
            "sourced_metadata" => {
                let source = value.get("metadata_source");
                let source = source.map_or("DYNAMIC", |source| source.text().unwrap_or_default());
                match value.get("metadata_matcher") {
                    Some(matcher) if ["DYNAMIC", "0"].contains(&source) => {
                        return self.metadata(&matcher);
                    }
                    _ => "metadata of a route is not known to rolegate",
                }
            }
            "authenticated" => reason::CERTIFICATE,
            "source_ip" | "direct_remote_ip" | "remote_ip" => reason::CLIENT_ADDRESS,
            "destination_ip" | "destination_port" | "destination_port_range" => {
                reason::SERVER_ADDRESS
            }
            "requested_server_name" => "a rule does not depend on the server name of TLS",
            "filter_state" => reason::FILTER_STATE,
            _ => reason::OTHER,
        };
        value.inexpressible(reason)
    }

    /// All conditions under this key, or one of them.
    fn set(&self, set: &View<'_>, key: &str, combine: fn(Vec<Expr>) -> Expr) -> Expr {
        set.combined(key, |all| combine(all.iter().map(|one| self.rule(one)).collect()))
    }

    fn template(&self, extension: &View<'_>) -> Expr {
        let Some(config) = extension.get("typed_config") else {
            return extension.inexpressible(UNKNOWN_MATCHER);
        };
        let config = config.get("value").unwrap_or(config);
        let Some(template) = config.get("path_template") else {
            return extension.inexpressible(UNKNOWN_MATCHER);
        };
        config.unknown("@type path_template").unwrap_or_else(|| {
            let text = template.text().unwrap_or_default().to_owned();
            matcher::path(&template, &Matcher::Template(text), false, self.options)
        })
    }

    /// `HeaderMatcher`.
    fn header(&self, header: &View<'_>) -> Expr {
        let name = header.text_of("name").unwrap_or_default().to_ascii_lowercase();
        let mut known = None;
        for (key, value) in header.entries() {
            let matcher = match key.as_str() {
                "name" | "invert_match" => continue,
                "treat_missing_header_as_empty" if value.boolean() == Some(false) => continue,
                "present_match" if value.boolean() == Some(true) => Some((Matcher::Any, false)),
                "string_match" => text_matcher::string_matcher(&value),
                key => key
                    .strip_suffix("_match")
                    .and_then(|key| text_matcher::field(key, &value))
                    .map(|matcher| (matcher, false)),
            };
            if matcher.is_none() || known.is_some() {
                return value.inexpressible(UNKNOWN_MATCHER);
            }
            known = matcher;
        }
        // Without a matcher, the header must be present.
        let (matcher, ignore_case) = known.unwrap_or((Matcher::Any, false));
        let expr = match name.as_str() {
            ":method" => matcher::method(header, &matcher, ignore_case),
            ":path" => matcher::path_with_query(header, &matcher, ignore_case, self.options),
            ":authority" | "host" => matcher::host(header, &matcher, self.options),
            _ => self.user_header(header, &name, (&matcher, ignore_case)),
        };
        inverted(header, "invert_match", expr)
    }

    /// A header with the user name, which the filter `basic_auth` sets. Before this filter, it is
    /// the client's.
    fn user_header(
        &self,
        header: &View<'_>,
        name: &str,
        (matcher, ignore_case): (&Matcher, bool),
    ) -> Expr {
        let sets = |source: &crate::sources::Source| match &source.kind {
            Kind::Basic { header, .. } => {
                header.as_deref() == Some(name) && !source.verified.is_never()
            }
            Kind::Jwt(_) => false,
        };
        match (self.sources.all.iter().position(sets), matcher) {
            // `Bob` is another user than `bob`.
            (Some(source), Matcher::Exact(user)) if !ignore_case => {
                self.sources.claim_is(header, source, &["sub"], user)
            }
            (Some(source), Matcher::Any) => self.sources.any_verified(header, source),
            (Some(_), _) => header.inexpressible("a grant names whole users"),
            (None, _) => header.inexpressible(reason::HEADER),
        }
    }

    /// `MetadataMatcher`.
    fn metadata(&self, metadata: &View<'_>) -> Expr {
        let expr = if metadata.text_of("filter") == Some("envoy.filters.http.jwt_authn") {
            self.claims(metadata)
        } else {
            metadata.inexpressible("of metadata, only the claims of tokens are known to rolegate")
        };
        inverted(metadata, "invert", expr)
    }

    /// Claims, which the filter `jwt_authn` writes below the key of the provider.
    fn claims(&self, metadata: &View<'_>) -> Expr {
        let path = metadata.list("path");
        if let Some(unknown) = path.iter().find_map(|segment| segment.unknown("key")) {
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
        if let Some(unknown) = metadata.unknown("filter path value invert") {
            return unknown;
        }
        let sources = self.sources.of_payload(payload);
        if sources.is_empty() {
            let message = "no provider of the filter `jwt_authn` here writes these claims";
            return self.sources.without_issuer(metadata, "*", message);
        }
        Expr::any(
            sources.into_iter().map(|source| self.claim_value(&value, source, claim)).collect(),
        )
    }

    /// `ValueMatcher`.
    fn claim_value(&self, value: &View<'_>, source: usize, claim: &[&str]) -> Expr {
        const USERS: &str = "a grant names whole users and groups";
        let entries = value.entries();
        let [(key, matcher)] = entries.as_slice() else {
            return value.inexpressible("exactly one condition is expected here");
        };
        match key.as_str() {
            "or_match" => matcher.combined("value_matchers", |all| {
                Expr::any(all.iter().map(|one| self.claim_value(one, source, claim)).collect())
            }),
            "string_match" => match text_matcher::string_matcher(matcher) {
                Some((Matcher::Exact(text), false)) if claim == ["iss"] => {
                    self.issuer_is(value, source, &text)
                }
                Some((Matcher::Exact(text), false)) => {
                    self.sources.claim_is(value, source, claim, &text)
                }
                Some((Matcher::Any, _)) if claim == ["sub"] => {
                    self.sources.any_subject(value, source)
                }
                _ => value.inexpressible(USERS),
            },
            "list_match" => {
                let one = matcher.get("one_of");
                let text = one.as_ref().and_then(|one| one.get("string_match"));
                let (Some(one), Some(text)) = (one, text) else {
                    return value
                        .inexpressible("a claim with such a value is not known to rolegate");
                };
                let unknown = matcher.unknown("one_of").or_else(|| one.unknown("string_match"));
                unknown.unwrap_or_else(|| match text_matcher::string_matcher(&text) {
                    Some((Matcher::Exact(text), false)) => {
                        self.sources.claim_has(value, source, claim, &text)
                    }
                    _ => value.inexpressible(USERS),
                })
            }
            _ => value.inexpressible("a claim with such a value is not known to rolegate"),
        }
    }

    /// The claim `iss` is that of the provider.
    fn issuer_is(&self, value: &View<'_>, source: usize, text: &str) -> Expr {
        match self.sources.all.get(source).map(|source| &source.kind) {
            Some(Kind::Jwt(issuer)) if issuer.issuer == text => {
                self.sources.any_verified(value, source)
            }
            _ => Expr::never(),
        }
    }
}

/// A condition, or its opposite if the field under this key is true.
fn inverted(view: &View<'_>, key: &str, condition: Expr) -> Expr {
    match view.get(key).map_or(Some(false), |value| value.boolean()) {
        Some(true) => condition.negated(),
        Some(false) => condition,
        None => view.inexpressible(format!("`{key}` is `true` or `false`")),
    }
}
