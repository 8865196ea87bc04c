//! Envoy's filter `jwt_authn`: issuers of tokens, and the paths that require a token.

use document::View;

use super::requirement::Requirement;
use crate::Options;
use crate::expr::{Expr, Notes as _, reason};
use crate::lower::{Alternative, Original};
use crate::note::Effect;
use crate::sources::{Issuer, Keys, Kind};
use crate::tokens::{self, Unaccepted};

/// Adds the providers as identity sources.
pub(crate) fn providers(filter: &View<'_>, options: &Options, original: &mut Original) {
    for (name, provider) in filter.entries_as_written_at("providers") {
        tokens::note_headers(&provider, ["forward_payload_header", "claim_to_headers"], original);
        match issuer(&provider, options, original) {
            Ok(issuer) => _ = original.sources.add(&name, Kind::Jwt(issuer)),
            Err(unaccepted) => tokens::note_unaccepted(&provider, unaccepted, original),
        }
    }
}

fn issuer<'n>(
    provider: &View<'n>,
    options: &Options,
    original: &mut Original,
) -> Result<Issuer, Unaccepted<'n>> {
    const KNOWN: &str = "\
        issuer audiences remote_jwks local_jwks forward from_headers from_params from_cookies \
        forward_payload_header pad_forward_payload_header payload_in_metadata clock_skew_seconds \
        jwt_cache_config claim_to_headers clear_route_cache require_expiration \
        failed_status_in_metadata";
    let (issuer, audiences) = tokens::issuer_and_audiences(provider, KNOWN, options, original)?;
    tokens::check_token_places(provider, "value_prefix", original)?;
    let message = "keys are read from an `https` URL, a file or `inline_string`";
    let keys = keys(provider).ok_or_else(|| (provider.clone(), message))?;
    let clock_skew = match provider.get("clock_skew_seconds") {
        None => None,
        Some(seconds) => match seconds.text() {
            Some(text) => Some(format!("{text}s")),
            None => return Err((seconds, "a number of seconds is expected here")),
        },
    };
    let payload = provider.text_of("payload_in_metadata").map(str::to_owned);
    Ok(Issuer { issuer, audiences, keys, clock_skew, payload })
}

fn keys(provider: &View<'_>) -> Option<Keys> {
    if let Some(url) = provider.get("remote_jwks/http_uri/uri") {
        let url = url.text().filter(|url| tokens::is_key_url(url))?;
        return Some(Keys::Url(url.to_owned()));
    }
    let local = provider.get("local_jwks")?;
    match (local.text_of("inline_string"), local.text_of("filename")) {
        (Some(key_set), None) => Some(Keys::Inline(key_set.to_owned())),
        (None, Some(file)) => Some(Keys::File(file.to_owned())),
        _ => None,
    }
}

/// Denies requests that do not meet the requirement of their path. The first rule whose route
/// matches decides.
pub(crate) fn requirements(filter: &View<'_>, options: &Options, original: &mut Original) {
    const KNOWN: &str = "@type providers rules requirement_map filter_state_rules \
                         bypass_cors_preflight strip_failure_response stat_prefix";
    // The routes of the rules before the current rule. A rule decides only if none of them matches.
    let mut earlier: Vec<Expr> = Vec::new();
    // For each source, the conditions under which Envoy has verified its tokens.
    let mut verified: Vec<Vec<Expr>> = vec![Vec::new(); original.sources.all.len()];
    let requirements = filter.entries_as_written_at("requirement_map");
    let rules = filter.list("rules");
    for rule in &rules {
        let route = match rule.get("match") {
            Some(route) => super::routes::route(&route, options),
            None => rule.inexpressible("`match` is expected here"),
        };
        let name = rule.text_of("requirement_name");
        let named = requirements.iter().find(|(key, _)| Some(key.as_str()) == name);
        let requires = rule.get("requires").or_else(|| named.map(|(_, requires)| requires.clone()));
        let requirement =
            requires.map(|requires| Requirement::new(&requires, filter, &original.sources));
        // Envoy does not start if a rule has both keys, or an unknown field.
        let key = if rule.get("requires").is_some() { "requires" } else { "requirement_name" };
        let condition = match (rule.unknown_fields(&format!("match {key}")), &requirement) {
            (Some(inexpressible), _) => inexpressible,
            (None, Some(requirement)) => requirement.condition.clone(),
            (None, None) => match rule.get("requirement_name") {
                Some(name) => name.inexpressible("unknown requirement"),
                None => Expr::always(),
            },
        };
        let decides: Vec<Expr> =
            earlier.iter().cloned().map(Expr::negated).chain([route.clone()]).collect();
        if let Some(requirement) = requirement {
            for (source, verified) in verified.iter_mut().enumerate() {
                verified.extend(requirement.verified(source, Expr::All(decides.clone())));
            }
        }
        let condition = Expr::all(decides.into_iter().chain([condition.negated()]));
        original.deny.push(Alternative::new(rule, "jwt_authn", condition));
        earlier.push(route);
    }
    let state_rules = filter.get("filter_state_rules").into_iter();
    let state_rules = state_rules.map(|rules| (rules, reason::FILTER_STATE));
    let unknown =
        filter.values_except(KNOWN).into_iter().map(|field| (field, reason::UNKNOWN_FIELD));
    for (field, reason) in state_rules.chain(unknown) {
        let condition = field.inexpressible(reason);
        original.deny.push(Alternative::new(&field, "jwt_authn", condition));
    }
    if let Some(preflight) = filter.get("bypass_cors_preflight") {
        let message = "CORS preflight requests need a token, too: less is allowed";
        original.notes.push(preflight.note(Effect::Stricter, message));
    }
    let mut routes = rules.iter().filter_map(|rule| rule.get("match"));
    let all_paths =
        routes.any(|route| route.entries().len() == 1 && route.text_of("prefix") == Some("/"));
    for (source, verified) in verified.into_iter().enumerate() {
        if original.sources.all.get(source).is_none_or(|source| source.issuer().is_none()) {
            continue;
        }
        let is_exact = |condition: &&Expr| !matches!(condition, Expr::Between { .. });
        let is_everywhere = verified.iter().filter(is_exact).count() == earlier.len() && all_paths;
        let mut condition = Expr::any(verified);
        if options.allow_wider && !is_everywhere {
            let message = "rolegate verifies tokens on every path, even where no rule of \
                           `jwt_authn` requires a token";
            condition = filter.nearly(Expr::always(), condition, true, message);
        }
        original.sources.set_verified(source, condition);
    }
}
