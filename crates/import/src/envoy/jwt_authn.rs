//! Envoy's filter `jwt_authn`: issuers of tokens, and on which paths it requires one.

use crate::Options;
use crate::expr::Expr;
use crate::lower::Original;
use crate::note::Effect;
use crate::sources::{Issuer, Keys, Kind, Sources};
use crate::view::View;

/// Adds the providers as identity sources.
pub(crate) fn providers(filter: &View<'_>, options: &Options, original: &mut Original) {
    let providers = filter.get("providers").map(|providers| providers.named_entries()).unwrap_or_default();
    for (name, provider) in providers {
        match issuer(&provider, options, original) {
            Ok(issuer) => _ = original.sources.add(&name, Kind::Jwt(issuer)),
            Err((at, message)) => {
                let message = format!("{message}: tokens of this provider are not accepted");
                original.notes.push(at.note(Effect::Stricter, message));
            }
        }
    }
}

/// The issuer of a provider, or the field that cannot be expressed and why.
fn issuer<'n>(
    provider: &View<'n>,
    options: &Options,
    original: &mut Original,
) -> Result<Issuer, (View<'n>, &'static str)> {
    const KNOWN: [&str; 17] = [
        "issuer",
        "audiences",
        "remote_jwks",
        "local_jwks",
        "forward",
        "from_headers",
        "from_params",
        "from_cookies",
        "forward_payload_header",
        "pad_forward_payload_header",
        "payload_in_metadata",
        "clock_skew_seconds",
        "jwt_cache_config",
        "claim_to_headers",
        "clear_route_cache",
        "require_expiration",
        "failed_status_in_metadata",
    ];
    if let Some(unknown) = provider.besides(&KNOWN).into_iter().next() {
        return Err((unknown, "this limit on tokens cannot be expressed"));
    }
    let here = || provider.clone();
    let issuer = provider.text_of("issuer").filter(|issuer| !issuer.is_empty());
    let issuer = issuer.ok_or((here(), "tokens of any issuer cannot be expressed"))?;
    let known =
        |source: &crate::sources::Source| matches!(&source.kind, Kind::Jwt(other) if other.issuer == issuer);
    if original.sources.all.iter().any(known) {
        return Err((here(), "another provider has this issuer"));
    }
    let mut audiences: Vec<String> =
        provider.texts_of("audiences").unwrap_or_default().into_iter().map(str::to_owned).collect();
    if audiences.is_empty() {
        audiences.clone_from(&options.audiences);
    }
    if audiences.is_empty() {
        return Err((
            here(),
            "tokens for any audience cannot be expressed (`--audience` gives those to accept)",
        ));
    }
    let reads_authorization = |header: &View<'_>| {
        header.text_of("name").is_some_and(|name| name.eq_ignore_ascii_case("authorization"))
            && header.text_of("value_prefix").is_some_and(|prefix| prefix.trim_end() == "Bearer")
    };
    let places = ["from_headers", "from_params", "from_cookies"].map(|key| provider.list(key));
    let is_default = places.iter().all(Vec::is_empty);
    if !is_default && !places.iter().flatten().any(reads_authorization) {
        return Err((here(), "tokens in another place than `Authorization: Bearer` are not read"));
    }
    for place in places.iter().flatten().filter(|place| !reads_authorization(place)) {
        original
            .notes
            .push(place.note(Effect::Stricter, "tokens are read from `Authorization: Bearer` only"));
    }
    for key in ["forward_payload_header", "claim_to_headers"] {
        if let Some(header) = provider.get(key) {
            let message =
                "headers for the application are not imported: write `allow_response: { set_headers: … }`";
            original.notes.push(header.note(Effect::Same, message));
        }
    }
    let keys =
        keys(provider).ok_or((here(), "keys are read from an `https` URL, a file or `inline_string`"))?;
    let clock_skew = provider.text_of("clock_skew_seconds").map(|seconds| format!("{seconds}s"));
    let payload = provider.text_of("payload_in_metadata").map(str::to_owned);
    Ok(Issuer { issuer: issuer.to_owned(), audiences, keys, clock_skew, payload })
}

fn keys(provider: &View<'_>) -> Option<Keys> {
    if let Some(url) = provider.at(&["remote_jwks", "http_uri", "uri"]) {
        let url = url.text()?;
        let is_local = ["http://127.0.0.1", "http://localhost", "http://[::1]"];
        let is_safe = url.starts_with("https://") || is_local.iter().any(|start| url.starts_with(start));
        return is_safe.then(|| Keys::Url(url.to_owned()));
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
    let mut alternatives = Vec::new();
    let mut earlier: Vec<Expr> = Vec::new();
    for rule in filter.list("rules") {
        let route =
            rule.get("match").map_or_else(Expr::always, |route| super::routes::route(&route, options));
        let named = rule.get("requirement_name").and_then(|name| {
            filter
                .get("requirement_map")?
                .named_entries()
                .into_iter()
                .find(|(key, _)| Some(key.as_str()) == name.text())
        });
        let requirement = match (rule.get("requires"), rule.get("requirement_name"), named) {
            (Some(requires), _, _) => requirement(filter, &requires, &original.sources),
            (None, Some(_), Some((_, requires))) => requirement(filter, &requires, &original.sources),
            (None, Some(name), None) => name.inexpressible("a requirement that is not known"),
            (None, None, _) => Expr::always(),
        };
        let others = earlier.iter().cloned().map(Expr::negated);
        let condition = Expr::All(others.chain([route.clone(), requirement.negated()]).collect());
        alternatives.push(super::unnamed(&rule, "jwt_authn", condition));
        earlier.push(route);
    }
    if let Some(rules) = filter.get("filter_state_rules") {
        let condition = rules.inexpressible("filter state is not known to rolegate");
        alternatives.push(super::unnamed(&rules, "jwt_authn", condition));
    }
    original.deny.extend(alternatives);
    original.allow.push(vec![super::unnamed(filter, "jwt_authn", Expr::always())]);
}

/// `JwtRequirement`.
fn requirement(filter: &View<'_>, requires: &View<'_>, sources: &Sources) -> Expr {
    let provider =
        |view: &View<'_>, name: &str| match sources.all.iter().position(|source| source.name == name) {
            Some(source) => sources.any_of(view, source),
            None => view.inexpressible("tokens of this provider are not accepted"),
        };
    let entries = requires.entries();
    let Some((key, value)) = entries.first() else { return Expr::always() };
    let all = || value.list("requirements").iter().map(|one| requirement(filter, one, sources)).collect();
    match key.as_str() {
        "provider_name" => provider(value, value.text().unwrap_or_default()),
        "requires_any" => any_of(value, all(), sources),
        "requires_all" => Expr::All(all()),
        "allow_missing" | "allow_missing_or_failed" | "extract_only_without_validation" => Expr::always(),
        _ => value.inexpressible("this requirement cannot be expressed"),
    }
}

/// One of these: any caller, if all identity sources are among them.
fn any_of(value: &View<'_>, all: Vec<Expr>, sources: &Sources) -> Expr {
    let named: std::collections::BTreeSet<&str> =
        value.list("requirements").iter().filter_map(|one| one.text_of("provider_name")).collect();
    if sources.all.iter().all(|source| named.contains(&*source.name)) && !sources.all.is_empty() {
        return Expr::caller(crate::expr::Caller::Authenticated);
    }
    Expr::any(all)
}
