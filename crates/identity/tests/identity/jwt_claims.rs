//! The claims of a token (RFC 7519, 4.1; RFC 8725, 3.8 to 3.12): times, audience, issuer, subject.

use std::path::Path;
use std::time::Duration;

use document::Place;
use identity::{Credentials, CredentialsError, FetchedKeys, Limits, LocalCache, Subject};
use policy::model::{
    ClaimPath, ClaimValue, Issuer, ListedRole, RequiredClaim, RolesFromToken, Separator,
};
use serde_json::{Value, json};

use crate::settings::*;
use crate::signer::{bearer, claims, claims_with, header, jwk, set, signed, signed_text};

fn test_issuer() -> Issuer {
    issuer(file(&set(&[jwk("ES256")])))
}

fn subject_under(issuer: Issuer, claims: &Value) -> Result<Subject, CredentialsError> {
    authenticate(&compile(&tokens_of(issuer)), &bearer(&signed("ES256", &header("ES256"), claims)))
}

fn with(name: &str, value: Value) -> Result<Subject, CredentialsError> {
    subject_under(test_issuer(), &claims_with(name, Some(value)))
}

fn without(name: &str) -> Result<Subject, CredentialsError> {
    subject_under(test_issuer(), &claims_with(name, None))
}

/// RFC 7519, 4.1.4: a token is not accepted at `exp` or later; the clock skew is added to it.
#[test]
fn an_expired_token_is_invalid() {
    for (exp, expected) in [
        (NOW + 1, None),
        (NOW - 59, None),
        (NOW - 60, Some(CredentialsError::Expired)),
        (0, Some(CredentialsError::Expired)),
    ] {
        assert_eq!(with("exp", json!(exp)).err(), expected, "{exp}");
    }
    assert_eq!(with("exp", json!(NOW as f64 - 59.5)).err(), None, "a fraction is valid");
    assert_eq!(with("exp", json!(NOW as f64 - 60.5)).err(), Some(CredentialsError::Expired));
    let mut strict = test_issuer();
    strict.clock_skew = Duration::ZERO;
    assert_eq!(
        subject_under(strict.clone(), &claims_with("exp", Some(json!(NOW)))).err(),
        Some(CredentialsError::Expired)
    );
    assert!(subject_under(strict, &claims_with("exp", Some(json!(NOW + 1)))).is_ok());
}

/// A clock that cannot be read is at the end of time: `runtime/src/clock.rs`.
#[test]
fn every_token_has_expired_at_the_end_of_time() {
    for exp in [json!(NOW), json!(u64::MAX), json!(1e300)] {
        let token = bearer(&signed("ES256", &header("ES256"), &claims_with("exp", Some(exp))));
        let result =
            authenticate_at(&compile(&tokens_of(test_issuer())), token.as_bytes(), Duration::MAX);
        assert_eq!(result.err(), Some(CredentialsError::Expired));
    }
}

/// RFC 7519, 4.1.5.
#[test]
fn a_token_before_its_nbf_or_iat_is_invalid() {
    for (nbf, expected) in
        [(0, None), (NOW + 60, None), (NOW + 61, Some(CredentialsError::NotYetValid))]
    {
        assert_eq!(with("nbf", json!(nbf)).err(), expected, "{nbf}");
        assert_eq!(with("iat", json!(nbf)).err(), expected, "an `iat` of {nbf}");
    }
}

fn require<const N: usize>(path: &[&str], values: [ClaimValue; N]) -> RequiredClaim {
    let path = ClaimPath(path.iter().map(|name| (*name).into()).collect());
    RequiredClaim { path, values: values.into() }
}

#[test]
fn a_token_without_a_required_claim_is_invalid() {
    let text = |text: &str| ClaimValue::Text(text.into());
    let (yes, one) = (ClaimValue::Boolean(true), ClaimValue::Integer(1));
    let invalid = Some(CredentialsError::WrongClaim);
    for (required, claim, expected) in [
        (require(&["azp"], [text("web"), text("mobile")]), json!("mobile"), None),
        (require(&["azp"], [text("web")]), json!("Web"), invalid),
        (require(&["azp"], [text("web")]), json!(["cli", "web"]), None),
        (require(&["azp"], [text("web")]), json!(["cli", ["web"]]), invalid),
        (require(&["azp"], [text("web")]), json!([]), invalid),
        (require(&["azp"], [text("web")]), json!(null), invalid),
        (require(&["azp"], [yes.clone()]), json!(true), None),
        (require(&["azp"], [yes.clone()]), json!("true"), invalid),
        (require(&["azp"], [text("true")]), json!(true), invalid),
        (require(&["azp"], [one.clone(), yes]), json!(1), None),
        (require(&["azp"], [one.clone()]), json!(1.0), invalid),
        (require(&["azp"], [one]), json!("1"), invalid),
        (require(&["azp", "id"], [text("web")]), json!({ "id": "web" }), None),
        (require(&["azp", "id"], [text("web")]), json!("web"), invalid),
        (require(&["other"], [text("web")]), json!("web"), invalid),
    ] {
        let issuer = Issuer { require: vec![required.clone()], ..test_issuer() };
        let claims = claims_with("azp", Some(claim.clone()));
        assert_eq!(subject_under(issuer, &claims).err(), expected, "{required:?} {claim}");
    }
    let both = vec![require(&["azp"], [text("web")]), require(&["acr"], [text("2")])];
    let issuer = Issuer { require: both, ..test_issuer() };
    let claims = claims_with("azp", Some(json!("web")));
    assert_eq!(subject_under(issuer, &claims).err(), invalid, "each claim is required");
}

/// A token without `exp` is invalid; the others may be missing.
#[test]
fn a_token_without_exp_is_invalid() {
    assert_eq!(without("exp").err(), Some(CredentialsError::MalformedClaims));
    assert!(without("iat").is_ok());
}

/// CVE-2026-25537 (`jsonwebtoken` before 10.3): a string or null is not the same as absent.
#[test]
fn times_that_are_not_numbers_are_invalid() {
    for name in ["exp", "nbf", "iat"] {
        for value in [
            json!(null),
            json!("1900000000"),
            json!(""),
            json!(true),
            json!([1_900_000_000]),
            json!({}),
        ] {
            assert_eq!(
                with(name, value.clone()).err(),
                Some(CredentialsError::MalformedClaims),
                "{name} {value}"
            );
        }
    }
}

#[test]
fn extreme_times_do_not_overflow() {
    let text = |exp: &str| claims().to_string().replace(&(NOW + 300).to_string(), exp);
    let with_text = |claims: &str| {
        authenticate(
            &compile(&tokens_of(test_issuer())),
            &bearer(&signed_text("ES256", &header("ES256").to_string(), claims)),
        )
    };
    for far in ["18446744073709551615", "1e300", "99999999999999999999999", "1.5e10"] {
        assert!(with_text(&text(far)).is_ok(), "{far}");
    }
    for past in ["-1", "-1e300", "-9223372036854775808", "0.5", "1e-300", "-0.0"] {
        assert_eq!(with_text(&text(past)).err(), Some(CredentialsError::Expired), "{past}");
    }
    for garbage in ["1e999", "NaN", "Infinity", "0x7fffffff", "01", "1."] {
        assert_eq!(
            with_text(&text(garbage)).err(),
            Some(CredentialsError::MalformedToken),
            "{garbage}"
        );
    }
    assert_eq!(with("nbf", json!(1e300)).err(), Some(CredentialsError::NotYetValid));
    assert_eq!(with("nbf", json!(u64::MAX)).err(), Some(CredentialsError::NotYetValid));
    assert!(with("nbf", json!(-1e300)).is_ok());
}

/// `policies/README.md`: `max_age` requires `iat`.
#[test]
fn a_token_older_than_max_age_is_invalid() {
    let mut settings = test_issuer();
    settings.max_age = Some(Duration::from_secs(100));
    let of = |iat: Option<Value>| subject_under(settings.clone(), &claims_with("iat", iat)).err();
    assert_eq!(of(Some(json!(NOW - 159))), None);
    assert_eq!(of(Some(json!(NOW - 160))), Some(CredentialsError::TooOld));
    assert_eq!(of(Some(json!(-5))), Some(CredentialsError::TooOld));
    assert_eq!(of(None), Some(CredentialsError::MalformedClaims));
}

/// RFC 7519, 4.1.1 and RFC 8725, 3.8: byte for byte.
#[test]
fn an_unknown_issuer_is_invalid() {
    let others = [
        json!("https://id.example.com/"),
        json!("https://ID.example.com"),
        json!("http://id.example.com"),
        json!(""),
        json!([ISSUER]),
        json!(null),
        json!({ "iss": ISSUER }),
        json!(format!("{ISSUER} ")),
    ];
    for iss in others {
        assert_eq!(with("iss", iss.clone()).err(), Some(CredentialsError::UnknownIssuer), "{iss}");
    }
    assert_eq!(without("iss").err(), Some(CredentialsError::UnknownIssuer));
}

/// RFC 7519, 4.1.3 and RFC 8725, 3.9: one string or a list of them, byte for byte.
#[test]
fn another_audience_is_invalid() {
    for aud in [json!("people"), json!("other"), json!(["x", "people"]), json!(["other", "people"])]
    {
        assert!(with("aud", aud.clone()).is_ok(), "{aud}");
    }
    for aud in [
        json!("People"),
        json!(""),
        json!("people "),
        json!("people other"),
        json!([]),
        json!(["x"]),
    ] {
        assert_eq!(with("aud", aud.clone()).err(), Some(CredentialsError::WrongAudience), "{aud}");
    }
    for aud in [
        json!(null),
        json!(1),
        json!(["people", 1]),
        json!([["people"]]),
        json!({ "people": true }),
    ] {
        assert_eq!(
            with("aud", aud.clone()).err(),
            Some(CredentialsError::MalformedClaims),
            "{aud}"
        );
    }
    assert_eq!(without("aud").err(), Some(CredentialsError::WrongAudience));
}

/// The user is a string without control characters, so that headers and logs can carry it.
#[test]
fn a_token_without_a_valid_user_is_invalid() {
    for sub in [
        json!(""),
        json!(null),
        json!(7),
        json!(["carol"]),
        json!("ca\nrol"),
        json!("carol\u{0}"),
        json!("\u{7f}"),
        json!("\u{9b}x"),
    ] {
        assert_eq!(
            with("sub", sub.clone()).err(),
            Some(CredentialsError::MalformedClaims),
            "{sub}"
        );
    }
    assert_eq!(without("sub").err(), Some(CredentialsError::MalformedClaims));
    assert_eq!(&*with("sub", json!("zoë at home")).unwrap().user, "zoë at home");
}

fn names(list: &[std::sync::Arc<str>]) -> Vec<&str> {
    list.iter().map(|name| &**name).collect()
}

#[test]
fn groups_are_a_list_or_a_string_with_spaces() {
    for (claim, expected) in [
        (json!(["a", "b c"]), vec!["a", "b c"]),
        (json!("a b  c "), vec!["a", "b", "c"]),
        (json!([]), vec![]),
        (json!(""), vec![]),
    ] {
        assert_eq!(names(&with("groups", claim.clone()).unwrap().groups), expected, "{claim}");
    }
    assert!(without("groups").unwrap().groups.is_empty());
}

/// As the security plugin of a search cluster reads a string.
#[test]
fn groups_may_be_a_string_with_commas() {
    let mut issuer = test_issuer();
    issuer.claims.separator = Separator::Commas;
    for (claim, expected) in [
        (json!("billing admins, b ,,c"), vec!["billing admins", "b", "c"]),
        (json!(["a,b"]), vec!["a,b"]),
        (json!("a,admins\u{a0}"), vec!["a", "admins\u{a0}"]),
        (json!(","), vec![]),
    ] {
        let subject = subject_under(issuer.clone(), &claims_with("groups", Some(claim.clone())));
        assert_eq!(names(&subject.unwrap().groups), expected, "{claim}");
    }
}

/// Fail closed: a `deny` rule may apply to a group that the malformed claim would have named.
#[test]
fn groups_of_another_type_are_invalid() {
    for claim in [
        json!(null),
        json!(1),
        json!({ "a": 1 }),
        json!(["a", 1]),
        json!([["a"]]),
        json!([""]),
        json!(["a\n"]),
        json!("a\tb"),
    ] {
        assert_eq!(
            with("groups", claim.clone()).err(),
            Some(CredentialsError::MalformedClaims),
            "{claim}"
        );
    }
}

/// Fail closed, as for the claim itself: the names may be where the policy does not look for them.
#[test]
fn groups_within_a_value_of_another_type_are_invalid() {
    let mut settings = test_issuer();
    settings.claims.groups = Some(path(&["a", "1", "c", "groups"]));
    let groups = |outermost: Value| {
        let subject = subject_under(settings.clone(), &claims_with("a", Some(outermost)));
        subject.map(|subject| subject.groups.len())
    };
    let wrong = [json!(null), json!(true), json!(5), json!("suspended")];
    for value in wrong.iter().chain(&[json!(["suspended"]), json!([])]) {
        for claim in [json!([0, { "c": value }]), json!({ "1": { "c": value } }), json!([0, value])]
        {
            assert_eq!(groups(claim.clone()), Err(CredentialsError::MalformedClaims), "{claim}");
        }
    }
    for claim in wrong {
        assert_eq!(groups(claim.clone()), Err(CredentialsError::MalformedClaims), "{claim}");
    }
    for claim in [json!({}), json!([]), json!([0]), json!({ "1": {} }), json!([0, { "c": {} }])] {
        assert_eq!(groups(claim.clone()), Ok(0), "{claim}");
    }
    assert_eq!(groups(json!([0, { "c": { "groups": ["x", "y"] } }])), Ok(2));
    assert_eq!(subject_under(settings, &claims_with("a", None)).unwrap().groups.len(), 0);
}

/// OpenID Connect Core 5.6.2, and Microsoft Entra for a user in many groups. Fail closed: a `deny`
/// rule may apply to a group that is not in the token.
#[test]
fn groups_that_are_elsewhere_are_invalid() {
    let under = |groups: &[&str], more: Value| {
        let mut settings = test_issuer();
        settings.claims.groups = Some(path(groups));
        let mut claims = claims_with("groups", None);
        claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        subject_under(settings, &claims).map(|subject| subject.groups.len())
    };
    let sources = json!({ "src1": { "endpoint": "https://graph.example.com/getMemberObjects" } });
    let named = |name: &str| json!({ "_claim_names": { name: "src1" }, "_claim_sources": sources });
    let malformed = Err(CredentialsError::MalformedClaims);
    for (groups, more, expected) in [
        (["groups"].as_slice(), named("groups"), malformed),
        (&["groups"], json!({ "_claim_names": { "groups": null } }), malformed),
        (&["org", "groups"], named("org"), malformed),
        (&["org", "groups"], json!({ "org": {}, "_claim_names": { "org": "src1" } }), malformed),
        (&["groups"], json!({ "hasgroups": true }), malformed),
        (&["groups"], json!({ "hasgroups": "true" }), malformed),
        (&["groups"], json!({ "hasgroups": null }), Ok(0)),
        (&["groups"], json!({ "hasgroups": false }), Ok(0)),
        (&["groups"], json!({ "hasgroups": "false" }), Ok(0)),
        (&["teams"], json!({ "hasgroups": true }), Ok(0)),
        (&["org", "groups"], json!({ "hasgroups": true }), Ok(0)),
        (&["groups"], named("address"), Ok(0)),
        (&["org", "groups"], named("groups"), Ok(0)),
        (&["groups"], json!({ "_claim_names": {} }), Ok(0)),
        (&["groups"], json!({ "_claim_names": "groups" }), Ok(0)),
        (&["groups"], json!({ "groups": ["a"], "hasgroups": true }), Ok(1)),
        (&["groups"], json!({ "groups": ["a"], "_claim_names": { "groups": "src1" } }), Ok(1)),
    ] {
        assert_eq!(under(groups, more.clone()), expected, "{groups:?}: {more}");
    }
}

/// A policy that reads neither roles nor groups does not need what is elsewhere.
#[test]
fn roles_that_are_elsewhere_are_invalid_where_they_count() {
    let token = claims_with("_claim_names", Some(json!({ "realm_access": "src1" })));
    let mut settings = test_issuer();
    let invalid = subject_under(settings.clone(), &token).err();
    assert_eq!(invalid, Some(CredentialsError::MalformedClaims));
    settings.roles_from_token = RolesFromToken::Only(Vec::new());
    assert!(subject_under(settings, &token).is_ok());
}

#[test]
fn roles_come_from_the_configured_claim() {
    let subject = with("realm_access", json!({ "roles": ["admin", "guest"] })).unwrap();
    assert_eq!(names(&subject.roles), ["admin", "guest"]);
    for claim in [json!({}), json!({ "Roles": ["admin"] })] {
        assert!(with("realm_access", claim.clone()).unwrap().roles.is_empty(), "{claim}");
    }
    assert_eq!(
        with("realm_access", json!({ "roles": 1 })).err(),
        Some(CredentialsError::MalformedClaims)
    );
    let mut pointer = test_issuer();
    pointer.claims.roles = Some(path(&["orgs", "1", "roles"]));
    let claims = claims_with("orgs", Some(json!([{}, { "roles": "x y" }])));
    assert_eq!(names(&subject_under(pointer, &claims).unwrap().roles), ["x", "y"]);
}

/// `policies/README.md`: a list of roles under `roles_from_token`. A claim of another type is
/// invalid all the same.
#[test]
fn only_listed_roles_count_where_roles_are_listed() {
    let mut settings = test_issuer();
    let at = Place::start_of(Path::new("policy.yaml"));
    let listed = ["auditor", "guest"].map(|name| ListedRole { name: name.into(), at: at.clone() });
    settings.roles_from_token = RolesFromToken::Only(listed.into());
    let roles = |claim: Value| {
        let subject = subject_under(settings.clone(), &claims_with("realm_access", Some(claim)));
        subject.map(|subject| subject.roles.iter().map(|role| role.to_string()).collect::<Vec<_>>())
    };
    assert_eq!(
        roles(json!({ "roles": ["admin", "guest", "Auditor"] })),
        Ok(vec!["guest".to_owned()])
    );
    assert_eq!(roles(json!({ "roles": "auditor admin" })), Ok(vec!["auditor".to_owned()]));
    assert_eq!(roles(json!({ "roles": 1 })), Err(CredentialsError::MalformedClaims));
}

/// `policies/README.md`: `roles_from_token: false` and the prefixes.
#[test]
fn roles_can_be_ignored_and_names_can_be_prefixed() {
    let mut settings = test_issuer();
    settings.roles_from_token = RolesFromToken::Only(Vec::new());
    settings.user_prefix = "id:".into();
    settings.group_prefix = "g:".into();
    let subject =
        subject_under(settings, &claims_with("realm_access", Some(json!({ "roles": ["admin"] }))))
            .unwrap();
    assert_eq!(
        (&*subject.user, names(&subject.groups), subject.roles.len()),
        ("id:carol", vec!["g:staff"], 0)
    );
}

/// Claims take many times the memory of their text.
#[test]
fn claims_are_passed_to_attach_and_not_cached() {
    let auth = compile(&tokens_of(test_issuer()));
    let token = bearer(&signed("ES256", &header("ES256"), &claims()));
    let attach = |subject: &Subject| subject.claims["sub"].to_string();
    for _ in 0..2 {
        let mut cache = LocalCache::default();
        let known = auth.authenticate_inline(
            Some(Credentials::Authorization(token.as_bytes())),
            now(),
            &mut cache,
            attach,
        );
        let known = known.unwrap().unwrap();
        assert_eq!(known.attached, "\"carol\"");
        assert!(known.subject.claims.is_null());
    }
}

/// `SECURITY.md`, S17: `exp` and `nbf` are checked again on every hit.
#[test]
fn a_cached_token_expires() {
    let auth = compile(&tokens_of(test_issuer()));
    let mut claims = claims_with("exp", Some(json!(NOW + 300)));
    claims["nbf"] = json!(NOW);
    let token = bearer(&signed("ES256", &header("ES256"), &claims));
    let at =
        |seconds: u64| authenticate_at(&auth, token.as_bytes(), Duration::from_secs(seconds)).err();
    assert_eq!([at(NOW), at(NOW + 359), at(NOW)], [None, None, None]);
    assert_eq!(at(NOW + 360), Some(CredentialsError::Expired));
    assert_eq!(at(NOW - 61), Some(CredentialsError::NotYetValid));
    assert_eq!(at(NOW + 1), None);
}

#[test]
fn a_cached_token_is_invalid_after_max_age() {
    let mut settings = test_issuer();
    settings.max_age = Some(Duration::from_secs(100));
    let auth = compile(&tokens_of(settings));
    let token = bearer(&signed("ES256", &header("ES256"), &claims()));
    let at =
        |seconds: u64| authenticate_at(&auth, token.as_bytes(), Duration::from_secs(seconds)).err();
    assert_eq!(
        [at(NOW), at(NOW + 159), at(NOW + 160)],
        [None, None, Some(CredentialsError::TooOld)]
    );
}

#[test]
fn the_number_and_memory_of_cached_tokens_are_bounded() {
    let cached = |limits: Limits| {
        let auth = Auth::compile(&tokens_of(test_issuer()), &FetchedKeys::new(), limits).unwrap().0;
        let tokens: Vec<String> = (0..10)
            .map(|number| {
                bearer(&signed("ES256", &header("ES256"), &claims_with("jti", Some(json!(number)))))
            })
            .collect();
        assert!(tokens.iter().all(|token| authenticate(&auth, token).is_ok()));
        tokens.iter().rev().take_while(|token| !is_pending(&auth, token)).count()
    };
    assert_eq!(cached(Limits::default()), 10);
    assert_eq!(cached(Limits { tokens: 3, ..Limits::default() }), 3);
    let some = cached(Limits { token_bytes: 4_000, ..Limits::default() });
    assert!((2..10).contains(&some), "{some}");
    assert_eq!(cached(Limits { tokens: 0, ..Limits::default() }), 0);
}

/// For test cases and `explain`, which have claims but no token.
#[test]
fn claims_without_a_token_give_a_subject() {
    let auth = compile(&tokens_of(test_issuer()));
    let subject = auth
        .subject_from_claims(&json!({ "iss": ISSUER, "sub": "carol", "groups": ["staff"] }))
        .unwrap();
    assert_eq!((&*subject.user, names(&subject.groups)), ("carol", vec!["staff"]));
    assert_eq!(
        auth.subject_from_claims(&json!({ "iss": "x", "sub": "carol" })).err(),
        Some(CredentialsError::UnknownIssuer)
    );
    assert_eq!(
        auth.subject_from_claims(&json!({ "iss": ISSUER })).err(),
        Some(CredentialsError::MalformedClaims)
    );
    assert_eq!(auth.subject_from_claims(&json!([])).err(), Some(CredentialsError::MalformedClaims));
}
