//! Envoy's RBAC filter.

use document::View;

use crate::Options;
use crate::expr::{Expr, Notes as _, reason};
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
    for condition in ["condition", "checked_condition"].iter().filter_map(|key| policy.get(key)) {
        conditions.push(condition.inexpressible("a condition in CEL cannot be expressed"));
    }
    conditions.extend(
        policy.unknown_fields("permissions principals condition checked_condition cel_config"),
    );
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
        if let Some(unknown) = known.and_then(|known| value.unknown_fields(known)) {
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
            "source_ip" | "direct_remote_ip" | "remote_ip" => reason::CLIENT_ADDRESS,
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
        let mut condition = None;
        for (key, value) in header.entries() {
            let matcher = match key.as_str() {
                "name" | "invert_match" => continue,
                "treat_missing_header_as_empty" if value.boolean() == Some(false) => continue,
                "present_match" if value.boolean() == Some(true) => Some((Matcher::Any, false)),
                "string_match" => text_matcher::string_matcher(&value),
                key => {
                    let matcher = key.strip_suffix("_match");
                    let matcher = matcher.and_then(|key| text_matcher::field(key, &value));
                    matcher.map(|matcher| (matcher, false))
                }
            };
            if matcher.is_none() || condition.is_some() {
                return value.inexpressible(UNKNOWN_MATCHER);
            }
            condition = matcher;
        }
        // Without a matcher, the header must be present.
        let (matcher, ignore_case) = condition.unwrap_or((Matcher::Any, false));
        let expr = match name.as_str() {
            ":method" => matcher::method(header, &matcher, ignore_case),
            ":path" => matcher::path_with_query(header, &matcher, ignore_case, self.options),
            // rolegate always ignores the case of hosts. A note says so.
            ":authority" | "host" => matcher::host(header, &matcher, self.options),
            _ => self.user_header(header, &name, &matcher, ignore_case),
        };
        inverted(header, "invert_match", expr)
    }

    /// The header to which `basic_auth` writes the user name. Unless that filter ran before, the
    /// client controls the header.
    fn user_header(
        &self,
        header: &View<'_>,
        name: &str,
        matcher: &Matcher,
        ignore_case: bool,
    ) -> Expr {
        let source = self.sources.all.iter().position(|source| match &source.kind {
            Kind::Basic { header, .. } => {
                header.as_deref() == Some(name) && !source.verified.is_never()
            }
            Kind::Jwt(_) => false,
        });
        let Some(source) = source else { return header.inexpressible(reason::HEADER) };
        match matcher {
            // `Bob` is another user than `bob`.
            Matcher::Exact(user) if !ignore_case => {
                self.sources.use_claim_as_user(header, source, &["sub"], user)
            }
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

    /// Claims. `jwt_authn` writes them to the provider's `payload_in_metadata`.
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
        const PATTERN: &str = "a grant names users and groups exactly, not by a pattern";
        const UNKNOWN_VALUE: &str = "rolegate does not compare claims with such a value";
        let entries = value.entries();
        let [(key, matcher)] = entries.as_slice() else {
            return value.inexpressible("exactly one condition is expected here");
        };
        match key.as_str() {
            "or_match" => matcher.combined("value_matchers", |matchers| {
                Expr::any(matchers.iter().map(|value| self.claim_value(value, source, claim)))
            }),
            "string_match" => match text_matcher::string_matcher(matcher) {
                Some((Matcher::Exact(text), false)) if claim == ["iss"] => {
                    match self.sources.all.get(source).and_then(Source::issuer) {
                        Some(issuer) if issuer.issuer == text => {
                            self.sources.any_verified(value, source)
                        }
                        _ => Expr::never(),
                    }
                }
                Some((Matcher::Exact(text), false)) => {
                    self.sources.use_claim_as_user(value, source, claim, &text)
                }
                Some((Matcher::Any, _)) if claim == ["sub"] => {
                    self.sources.use_any_subject(value, source)
                }
                _ => value.inexpressible(PATTERN),
            },
            "list_match" => {
                let item = matcher.get("one_of");
                let text = item.as_ref().and_then(|item| item.get("string_match"));
                let (Some(item), Some(text)) = (item, text) else {
                    return value.inexpressible(UNKNOWN_VALUE);
                };
                let unknown = matcher
                    .unknown_fields("one_of")
                    .or_else(|| item.unknown_fields("string_match"));
                unknown.unwrap_or_else(|| match text_matcher::string_matcher(&text) {
                    Some((Matcher::Exact(text), false)) => {
                        self.sources.use_claim_as_groups(value, source, claim, &text)
                    }
                    _ => value.inexpressible(PATTERN),
                })
            }
            _ => value.inexpressible(UNKNOWN_VALUE),
        }
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
