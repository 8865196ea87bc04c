//! The common parts of Envoy's and Istio's configurations of tokens.

use document::View;

use crate::Options;
use crate::expr::Notes as _;
use crate::lower::Original;
use crate::note::Effect;
use crate::sources::Kind;

/// The field that cannot be expressed, and why. Tokens of its issuer are not accepted.
pub(crate) type Unaccepted<'n> = (View<'n>, &'static str);

/// The issuer of a provider, which no other has.
pub(crate) fn issuer<'n>(
    provider: &View<'n>,
    original: &Original,
) -> Result<&'n str, Unaccepted<'n>> {
    let issuer = provider.text_of("issuer").filter(|issuer| !issuer.is_empty());
    let issuer = issuer.ok_or((provider.clone(), "tokens of any issuer cannot be expressed"))?;
    let same = |kind: &Kind| matches!(kind, Kind::Jwt(other) if other.issuer == issuer);
    if original.sources.all.iter().any(|source| same(&source.kind)) {
        return Err((provider.clone(), "another provider has this issuer"));
    }
    Ok(issuer)
}

/// Its audiences, or those of the options where it names none.
pub(crate) fn audiences<'n>(
    provider: &View<'n>,
    options: &Options,
) -> Result<Vec<String>, Unaccepted<'n>> {
    let named = provider.texts_of("audiences");
    let at = || provider.get("audiences").unwrap_or_else(|| provider.clone());
    let named = named.ok_or_else(|| (at(), "a list of audiences is expected here"))?;
    let audiences: Vec<String> = named.into_iter().map(str::to_owned).collect();
    match (audiences.is_empty(), options.audiences.is_empty()) {
        (false, _) => Ok(audiences),
        (true, false) => Ok(options.audiences.clone()),
        (true, true) => {
            let message =
                "tokens for any audience cannot be expressed (`--audience` gives those to accept)";
            Err((provider.clone(), message))
        }
    }
}

/// Checks that tokens are read from `Authorization: Bearer`, and notes where they are read from,
/// too.
pub(crate) fn read_from_authorization<'n>(
    provider: &View<'n>,
    prefix: &str,
    original: &mut Original,
) -> Result<(), Unaccepted<'n>> {
    let is_authorization = |header: &View<'_>| {
        header.text_of("name").is_some_and(|name| name.eq_ignore_ascii_case("authorization"))
            && header.text_of(prefix).is_some_and(|prefix| prefix.trim_end() == "Bearer")
    };
    let places =
        ["from_headers", "from_params", "from_cookies"].map(|key| provider.list(key)).concat();
    original.sources.are_elsewhere |= !places.iter().all(is_authorization);
    if !places.is_empty() && !places.iter().any(is_authorization) {
        return Err((
            provider.clone(),
            "tokens in another place than `Authorization: Bearer` are not read",
        ));
    }
    for place in places.iter().filter(|place| !is_authorization(place)) {
        original.notes.push(place.note(
            Effect::Stricter,
            "tokens are read from `Authorization: Bearer` only: less is allowed",
        ));
    }
    Ok(())
}

/// Notes that a field which sets headers for the application is not imported. The original also
/// removes these headers from what clients send, so that an application believes them.
pub(crate) fn note_headers(provider: &View<'_>, keys: &[&str], original: &mut Original) {
    for header in keys.iter().filter_map(|key| provider.get(key)) {
        let message = "headers for the application are not imported: remove what clients send in them, or write \
                       `allow_response: { set_headers: … }`";
        original.notes.push(header.note(Effect::Unexpected, message));
    }
}

/// Whether rolegate fetches keys from this URL.
pub(crate) fn is_key_url(url: &str) -> bool {
    let local = ["http://127.0.0.1", "http://localhost", "http://[::1]"];
    url.starts_with("https://") || local.iter().any(|start| url.starts_with(start))
}

/// Notes why tokens of a provider are not accepted.
pub(crate) fn note_unaccepted(
    provider: &View<'_>,
    (at, message): Unaccepted<'_>,
    original: &mut Original,
) {
    let message = format!("{message}: nothing is allowed by tokens of this issuer");
    original.notes.push(at.note(Effect::Stricter, message));
    original.sources.unaccepted.push(provider.text_of("issuer").unwrap_or_default().to_owned());
}
