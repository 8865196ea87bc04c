//! `RequestAuthentication`: issuers of tokens.

use document::View;

use crate::Options;
use crate::expr::{Expr, reason};
use crate::lower::Original;
use crate::sources::{Issuer, Keys, Kind};
use crate::tokens::{self, Unaccepted};
use crate::write;

/// Adds the issuers as identity sources.
pub(crate) fn read(resource: &View<'_>, options: &Options, original: &mut Original) {
    let Some(spec) = resource.get("spec") else { return };
    let unknown = super::unknown_fields(&spec, "jwt_rules").into_iter().next();
    for rule in spec.list("jwt_rules") {
        let headers = ["output_payload_to_header", "output_claim_to_headers"];
        tokens::note_headers(&rule, headers, original);
        let issuer = match &unknown {
            Some(unknown) => Err((unknown.clone(), reason::UNKNOWN_FIELD)),
            None => issuer(&rule, options, original),
        };
        match issuer {
            Ok(issuer) => {
                let name = name(&issuer.issuer, original);
                let source = original.sources.add(&name, Kind::Jwt(issuer));
                original.sources.set_verified(source, Expr::always());
            }
            Err(unaccepted) => tokens::note_unaccepted(&rule, unaccepted, original),
        }
    }
}

/// A unique name for a source: the issuer without its scheme.
fn name(issuer: &str, original: &Original) -> String {
    let name = issuer.split_once("://").map_or(issuer, |(_, name)| name).trim_end_matches('/');
    write::first_free(
        |suffix| format!("{name}{suffix}"),
        |name| original.sources.all.iter().all(|source| source.name != *name),
    )
}

/// `JWTRule`.
fn issuer<'n>(
    rule: &View<'n>,
    options: &Options,
    original: &mut Original,
) -> Result<Issuer, Unaccepted<'n>> {
    const KNOWN: &str = "\
        issuer audiences jwks_uri jwks from_headers from_params from_cookies \
        output_payload_to_header output_claim_to_headers forward_original_token timeout \
        space_delimited_claims";
    let (issuer, audiences) = tokens::issuer_and_audiences(rule, KNOWN, options, original)?;
    tokens::check_token_places(rule, "prefix", original)?;
    let keys = match (rule.text_of("jwks_uri"), rule.text_of("jwks")) {
        (Some(url), None) if tokens::is_key_url(url) => Keys::Url(url.to_owned()),
        (None, Some(key_set)) => Keys::Inline(key_set.to_owned()),
        (None, None) if issuer.starts_with("https://") => Keys::Discovery,
        _ => return Err((rule.clone(), "keys are read from an `https` URL or `jwks`")),
    };
    Ok(Issuer { issuer, audiences, keys, clock_skew: None, payload: None })
}
