//! Two callers of a request: a user with a token, and the actor that calls for it.

use identity::{
    Certificate, Credentials, CredentialsError, LocalCache, NotAuthenticated, Subject,
    UserCredentials, VerificationResult,
};
use policy::model::Identity;
use serde_json::{Value, json};

use crate::settings::*;
use crate::signer;

const WEB: &[u8] = b"spiffe://example.org/web";
const JOB: &[u8] = b"spiffe://example.org/job";

fn both() -> Identity {
    let text = r#"
version: 1
identity:
  basic: { verify: false }
  certificates: { from: peer, users: { "spiffe://example.org/{sa}": "svc/{sa}" } }
  combine: both
"#;
    let files = document::MapFiles::new("policy.yaml", text);
    let parsed = policy::load(&files, std::path::Path::new("policy.yaml")).unwrap();
    let keys = file(&signer::set(&[signer::jwk("ES256")]));
    Identity { jwt: vec![issuer(keys)], ..parsed.policy.identity }
}

/// The user, its actor, and the value that was attached, in a new cache of a thread.
fn check(
    auth: &Auth,
    (token, certificate): (&str, &[u8]),
    result: Option<&VerificationResult>,
) -> Result<String, NotAuthenticated> {
    let header = signer::bearer(token);
    let user = UserCredentials::Authorization(header.as_bytes());
    let sent = Credentials::Both(user, Certificate::Principal(certificate));
    let cache = &mut LocalCache::default();
    let found = auth.authenticate(Some(sent), result, now(), cache, attach_both)?;
    let caller = found.unwrap();
    assert_eq!(caller.attached, names(&caller.subject));
    Ok(caller.attached.clone())
}

fn names(subject: &Subject) -> String {
    format!("{} {}", subject.user, subject.actor.as_ref().map_or("-", |actor| &*actor.user))
}

/// Only a subject with its claims may be attached to.
fn attach_both(subject: &Subject) -> String {
    assert_eq!(subject.claims["sub"], "carol");
    names(subject)
}

fn verified(auth: &Auth, sent: (&str, &[u8])) -> VerificationResult {
    match check(auth, sent, None) {
        Err(NotAuthenticated::Pending(verification)) => verification.run(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_token_is_cached_with_its_actor() {
    let auth = compile(&both());
    let token = signer::token("ES256");
    let result = verified(&auth, (&token, WEB));
    // Nothing is cached without the certificate beside it.
    assert!(auth.cache_result(&result, now(), |_| panic!("attached without an actor")));
    assert!(matches!(check(&auth, (&token, WEB), None), Err(NotAuthenticated::Pending(_))));
    assert_eq!(check(&auth, (&token, WEB), Some(&result)).unwrap(), "carol svc/web");
    assert_eq!(check(&auth, (&token, WEB), None).unwrap(), "carol svc/web");
    // The result is about the token: it counts beside another certificate, whose user is the actor.
    assert!(matches!(check(&auth, (&token, JOB), None), Err(NotAuthenticated::Pending(_))));
    assert_eq!(check(&auth, (&token, JOB), Some(&result)).unwrap(), "carol svc/job");
    assert_eq!(check(&auth, (&token, WEB), None).unwrap(), "carol svc/web");
    assert_eq!(check(&auth, (&token, JOB), None).unwrap(), "carol svc/job");
}

#[test]
fn one_thread_keeps_callers_apart() {
    let auth = compile(&both());
    let token = signer::bearer(&signer::token("ES256"));
    let cache = &mut LocalCache::default();
    let user = UserCredentials::Authorization(token.as_bytes());
    let mut check = |sent: Credentials<'_>| {
        let caller = auth.authenticate_inline(Some(sent), now(), cache, attach_both);
        caller.map(|caller| caller.map(|caller| names(&caller.subject)))
    };
    let incomplete = Err(CredentialsError::IncompleteCredentials);
    for _ in 0..2 {
        for (certificate, actor) in [(WEB, "carol svc/web"), (JOB, "carol svc/job")] {
            let certificate = Certificate::Principal(certificate);
            assert_eq!(check(Credentials::Both(user, certificate)), Ok(Some(actor.to_owned())));
            assert_eq!(check(user.into()), incomplete);
            assert_eq!(check(Credentials::Certificate(certificate)), incomplete);
        }
        let other = Certificate::Principal(b"spiffe://example.com/web");
        assert_eq!(check(Credentials::Both(user, other)), incomplete);
        assert_eq!(check(Credentials::Certificate(other)), Ok(None));
    }
}

#[test]
fn a_wrong_token_is_refused_beside_a_certificate() {
    let auth = compile(&both());
    let expired = signer::claims_with("exp", Some(json!(NOW - 3600)));
    let expired = signer::signed("ES256", &signer::header("ES256"), &expired);
    let result = verified(&auth, (&expired, WEB));
    assert!(!auth.cache_result(&result, now(), |_| panic!("attached")));
    assert!(matches!(
        check(&auth, (&expired, WEB), Some(&result)),
        Err(NotAuthenticated::Invalid(CredentialsError::Expired))
    ));
    assert!(matches!(check(&auth, (&expired, WEB), None), Err(NotAuthenticated::Pending(_))));
}

#[test]
fn the_claim_act_names_an_actor_of_the_same_issuer() {
    let keys = || file(&signer::set(&[signer::jwk("ES256")]));
    let reading = policy::model::Issuer { act: Some(path(&["sub"])), ..issuer(keys()) };
    let prefixed = policy::model::Issuer { user_prefix: "id:".into(), ..reading.clone() };
    let check = |issuer: &policy::model::Issuer, act: Option<Value>| {
        let auth = compile(&tokens_of(issuer.clone()));
        let claims = signer::claims_with("act", act);
        let token = signer::signed("ES256", &signer::header("ES256"), &claims);
        authenticate(&auth, &signer::bearer(&token)).map(|subject| names(&subject))
    };
    let refused = Err(CredentialsError::MalformedActor);
    for (act, expected) in [
        (None, Ok("carol -")),
        (Some(json!({ "sub": "bot" })), Ok("carol bot")),
        (Some(json!({ "sub": "bot", "iss": ISSUER })), Ok("carol bot")),
        (Some(json!({ "sub": "bot", "act": { "sub": "first" } })), Ok("carol bot")),
        (Some(json!({ "sub": "bot", "iss": "https://other.example" })), refused),
        (Some(json!({ "sub": "bot", "iss": 7 })), refused),
        (Some(json!({ "client_id": "bot" })), refused),
        (Some(json!({ "sub": "" })), refused),
        (Some(json!({ "sub": "a\u{0}b" })), refused),
        (Some(json!({ "sub": ["bot"] })), refused),
        (Some(json!("bot")), refused),
        (Some(json!(["bot"])), refused),
        (Some(Value::Null), refused),
    ] {
        let checked = check(&reading, act.clone());
        assert_eq!(checked.as_deref().map_err(|error| *error), expected, "{act:?}");
        // Where the policy does not read it, it is a claim as any other.
        assert_eq!(check(&issuer(keys()), act.clone()), Ok("carol -".to_owned()), "{act:?}");
    }
    let bot = Some(json!({ "sub": "bot" }));
    assert_eq!(check(&prefixed, bot), Ok("id:carol id:bot".to_owned()));
}
