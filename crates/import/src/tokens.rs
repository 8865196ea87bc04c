//! Token settings that Envoy and Istio have in common.

use document::View;

use crate::Options;
use crate::expr::Notes as _;
use crate::lower::Original;
use crate::note::Effect;

/// Why the tokens of an issuer are not accepted: a field that cannot be expressed, and the message.
pub(crate) type Unaccepted<'n> = (View<'n>, &'static str);

/// The issuer and the audiences of a provider. `options` has the audiences for a provider without
/// any. Fails if the issuer or all audiences are missing, if another provider has the same issuer,
/// or if there are fields other than `known`.
pub(crate) fn issuer_and_audiences<'n>(
    provider: &View<'n>,
    known: &str,
    options: &Options,
    original: &Original,
) -> Result<(String, Vec<String>), Unaccepted<'n>> {
    if let Some(unknown) = provider.values_except(known).into_iter().next() {
        return Err((unknown, "this limit on tokens cannot be expressed"));
    }
    let issuer = provider.text_of("issuer").filter(|issuer| !issuer.is_empty());
    let issuer = issuer.ok_or((provider.clone(), "tokens of any issuer cannot be expressed"))?;
    if !original.sources.indices_of_issuers(|i| i.issuer == issuer).is_empty() {
        return Err((provider.clone(), "another provider has this issuer"));
    }
    let Some(audiences) = provider.texts_of("audiences") else {
        let at = provider.get("audiences").unwrap_or_else(|| provider.clone());
        return Err((at, "a list of audiences is expected here"));
    };
    let mut audiences: Vec<String> = audiences.into_iter().map(str::to_owned).collect();
    if audiences.is_empty() {
        audiences.clone_from(&options.audiences);
    }
    if audiences.is_empty() {
        let message =
            "tokens for any audience cannot be expressed (`--audience` gives those to accept)";
        return Err((provider.clone(), message));
    }
    Ok((issuer.to_owned(), audiences))
}

/// Checks that the provider reads tokens from `Authorization: Bearer`, and notes other places. The
/// field `prefix_key` of a place has the text before the token.
pub(crate) fn check_token_places<'n>(
    provider: &View<'n>,
    prefix_key: &str,
    original: &mut Original,
) -> Result<(), Unaccepted<'n>> {
    let places =
        ["from_headers", "from_params", "from_cookies"].map(|key| provider.list(key)).concat();
    let (authorization, elsewhere): (Vec<_>, Vec<_>) = places.into_iter().partition(|header| {
        header.text_of("name").is_some_and(|name| name.eq_ignore_ascii_case("authorization"))
            && header.text_of(prefix_key).is_some_and(|prefix| prefix.trim_end() == "Bearer")
    });
    original.sources.tokens_may_be_elsewhere |= !elsewhere.is_empty();
    if !elsewhere.is_empty() && authorization.is_empty() {
        let message = "tokens are read from `Authorization: Bearer` only";
        return Err((provider.clone(), message));
    }
    for place in elsewhere {
        let message = "tokens are read from `Authorization: Bearer` only: less is allowed";
        original.notes.push(place.note(Effect::Stricter, message));
    }
    Ok(())
}

/// Notes that a field which sets headers for the application is not imported. The original removes
/// these headers from client requests, so an application may trust them.
pub(crate) fn note_headers(provider: &View<'_>, keys: [&str; 2], original: &mut Original) {
    for header in keys.iter().filter_map(|key| provider.get(key)) {
        let lists = header.one_or_more();
        let names = lists.iter().filter_map(|item| {
            item.text().or_else(|| item.text_of("header_name")).or_else(|| item.text_of("header"))
        });
        original.sources.set_headers.extend(names.map(str::to_ascii_lowercase));
        let message = "headers for the application are not imported: remove those that clients \
                       send, or write `allow_response: { set_headers: … }`";
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
