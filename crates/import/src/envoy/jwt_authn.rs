//! Envoy's filter `jwt_authn`: issuers of tokens, and on which paths it requires one.

use super::requirement::Requirement;
use document::View;

use crate::Options;
use crate::expr::{Expr, Notes as _, reason};
use crate::lower::Original;
use crate::note::Effect;
use crate::sources::{Issuer, Keys, Kind};
use crate::tokens::{self, Unaccepted};

/// Adds the providers as identity sources.
pub(crate) fn providers(filter: &View<'_>, options: &Options, original: &mut Original) {
    let providers = filter.named_entries_of("providers");
    for (name, provider) in providers {
        tokens::note_headers(&provider, &["forward_payload_header", "claim_to_headers"], original);
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
    if let Some(unknown) = provider.besides(KNOWN).into_iter().next() {
        return Err((unknown, "this limit on tokens cannot be expressed"));
    }
    let issuer = tokens::issuer(provider, original)?.to_owned();
    let audiences = tokens::audiences(provider, options)?;
    tokens::read_from_authorization(provider, "value_prefix", original)?;
    let wrong_keys = "keys are read from an `https` URL, a file or `inline_string`";
    let keys = keys(provider).ok_or_else(|| (provider.clone(), wrong_keys))?;
    let clock_skew = provider.get("clock_skew_seconds").map(|seconds| match seconds.text() {
        Some(text) => Ok(format!("{text}s")),
        None => Err((seconds, "a number of seconds is expected here")),
    });
    let clock_skew = clock_skew.transpose()?;
    let payload = provider.text_of("payload_in_metadata").map(str::to_owned);
    Ok(Issuer { issuer, audiences, keys, clock_skew, payload })
}

fn keys(provider: &View<'_>) -> Option<Keys> {
    if let Some(url) = provider.get("remote_jwks/http_uri/uri") {
        return url
            .text()
            .filter(|url| tokens::is_key_url(url))
            .map(|url| Keys::Url(url.to_owned()));
    }
    let local = provider.get("local_jwks")?;
    match (local.text_of("inline_string"), local.text_of("filename")) {
        (Some(key_set), None) => Some(Keys::Inline(key_set.to_owned())),
        (None, Some(file)) => Some(Keys::File(file.to_owned())),
        _ => None,
    }
}

/// Adds on which paths a token is required: the first rule whose route matches decides.
pub(crate) fn requirements(filter: &View<'_>, options: &Options, original: &mut Original) {
    const KNOWN: &str = "@type providers rules requirement_map filter_state_rules bypass_cors_preflight \
                         strip_failure_response stat_prefix";
    let mut alternatives = Vec::new();
    let mut earlier: Vec<Expr> = Vec::new();
    // Where Envoy knows the claims of the tokens of each source.
    let mut verified: Vec<Vec<Expr>> = original.sources.all.iter().map(|_| Vec::new()).collect();
    let requirements = filter.named_entries_of("requirement_map");
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
        let condition = match (&requirement, rule.get("requirement_name")) {
            (Some(requirement), _) => requirement.condition.clone(),
            (None, Some(name)) => name.inexpressible("a requirement that is not known"),
            (None, None) => Expr::always(),
        };
        // Envoy does not start with both, or with another field.
        let requires_key =
            if rule.get("requires").is_some() { "requires" } else { "requirement_name" };
        let condition = rule.unknown(&format!("match {requires_key}")).unwrap_or(condition);
        let here: Vec<Expr> =
            earlier.iter().cloned().map(Expr::negated).chain([route.clone()]).collect();
        for (source, verified) in verified.iter_mut().enumerate() {
            let here = || Expr::All(here.clone());
            verified.extend(requirement.as_ref().and_then(|known| known.verified(source, here())));
        }
        let condition = Expr::All(here.into_iter().chain([condition.negated()]).collect());
        alternatives.push(super::unnamed(rule, "jwt_authn", condition));
        earlier.push(route);
    }
    if let Some(rules) = filter.get("filter_state_rules") {
        let condition = rules.inexpressible(reason::FILTER_STATE);
        alternatives.push(super::unnamed(&rules, "jwt_authn", condition));
    }
    let all_paths = rules
        .iter()
        .filter_map(|rule| rule.get("match"))
        .any(|route| route.entries().len() == 1 && route.text_of("prefix") == Some("/"));
    if let Some(preflight) = filter.get("bypass_cors_preflight") {
        let message = "preflight requests of CORS need a token, too: less is allowed";
        original.notes.push(preflight.note(Effect::Stricter, message));
    }
    for unknown in filter.besides(KNOWN) {
        let condition = unknown.inexpressible("a field that is not known");
        alternatives.push(super::unnamed(&unknown, "jwt_authn", condition));
    }
    for (source, verified) in verified.into_iter().enumerate() {
        if !original
            .sources
            .all
            .get(source)
            .is_some_and(|source| matches!(source.kind, Kind::Jwt(_)))
        {
            continue;
        }
        let is_exact = |condition: &&Expr| !matches!(condition, Expr::Between { .. });
        let is_everywhere = verified.iter().filter(is_exact).count() == earlier.len() && all_paths;
        let mut condition = Expr::any(verified);
        if options.allow_wider && !is_everywhere {
            let message = "rolegate verifies tokens on every path, also where no rule of `jwt_authn` requires one";
            condition = filter.nearly(Expr::always(), condition, true, message);
        }
        original.sources.verify(source, condition);
    }
    original.deny.extend(alternatives);
}
