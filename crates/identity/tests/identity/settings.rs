//! Policies' identity settings, and what comes of a header under them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use identity::{Authenticator, CredentialsError, FetchedKeys, Identified, Known, Subject, Time};
use policy::model::{Basic, BasicUser, ClaimPath, Claims, Identity, Issuer, Keys, Secret};
use policy::problem::{Place, Problem};

/// What is attached in these tests: the user's name once more.
pub(crate) type Auth = Authenticator<String>;

/// Of the password `wonderland`, cheap to check.
pub(crate) const BCRYPT: &str = "$2b$04$abcdefghijklmnopqrstuujZkTwHUiJ9XdZPwKfcfDo7dMp5DjlTu";

pub(crate) const ISSUER: &str = "https://id.example.com";
pub(crate) const AUDIENCE: &str = "people";
/// What the clock shows in these tests.
pub(crate) const NOW: u64 = 1_800_000_000;

pub(crate) fn now() -> Time {
    Duration::from_secs(NOW)
}

pub(crate) fn place() -> Place {
    Place::start_of(Path::new("policy.yaml"))
}

pub(crate) fn basic(users: &[(&str, &str)]) -> Identity {
    let user = |(name, hash): &(&str, &str)| BasicUser {
        name: Arc::from(*name),
        password: Some(Secret(Arc::from(*hash))),
        groups: vec![Arc::from("staff")],
        at: place(),
    };
    let basic = Basic {
        realm: "people".into(),
        users: users.iter().map(user).collect(),
        verify: true,
        user_prefix: "".into(),
        group_prefix: "".into(),
        at: place(),
    };
    Identity { basic: Some(basic), jwt: Vec::new() }
}

pub(crate) fn issuer(keys: Keys) -> Issuer {
    Issuer {
        issuer: ISSUER.into(),
        audiences: vec![AUDIENCE.into(), "other".into()],
        keys,
        claims: Claims {
            user: path(&["sub"]),
            roles: Some(path(&["realm_access", "roles"])),
            groups: Some(path(&["groups"])),
        },
        clock_skew: Duration::from_secs(60),
        required_type: None,
        max_age: None,
        roles_from_token: true,
        user_prefix: "".into(),
        group_prefix: "".into(),
        at: place(),
    }
}

pub(crate) fn path(names: &[&str]) -> ClaimPath {
    ClaimPath(names.iter().map(|name| Box::from(*name)).collect())
}

pub(crate) fn file(jwks: &serde_json::Value) -> Keys {
    Keys::File { path: "jwks.json".into(), bytes: jwks.to_string().into_bytes().into(), at: place() }
}

pub(crate) fn url(url: &str) -> Keys {
    Keys::Url { url: url.into(), refresh: Duration::from_secs(300), at: place() }
}

pub(crate) fn tokens_of(issuer: Issuer) -> Identity {
    Identity { basic: None, jwt: vec![issuer] }
}

pub(crate) fn compile(settings: &Identity) -> Auth {
    Auth::compile(settings, &FetchedKeys::new(), None).unwrap().0
}

/// The problems of settings that do not compile.
pub(crate) fn errors(settings: &Identity) -> Vec<Problem> {
    Auth::compile(settings, &FetchedKeys::new(), None).err().unwrap()
}

/// The warnings of settings that compile.
pub(crate) fn warnings(settings: &Identity) -> Vec<Problem> {
    Auth::compile(settings, &FetchedKeys::new(), None).unwrap().1
}

/// Who a header says it is, with the password hashed on the spot.
pub(crate) fn ask(auth: &Auth, header: &str) -> Result<Subject, CredentialsError> {
    ask_at(auth, header.as_bytes(), now()).map(|known| known.subject.clone())
}

pub(crate) fn ask_at(auth: &Auth, header: &[u8], now: Time) -> Result<Arc<Known<String>>, CredentialsError> {
    let identified = match auth.identify(Some(header), now, attach) {
        Identified::Pending(check) => auth.finish(&check.run(), now, attach).unwrap(),
        decided => decided,
    };
    match identified {
        Identified::Known(known) => Ok(known),
        Identified::Invalid(refusal) => Err(refusal),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn attach(subject: &Subject) -> String {
    subject.user.to_string()
}

/// The header of these credentials.
pub(crate) fn header(credentials: impl AsRef<[u8]>) -> String {
    use base64::Engine as _;
    format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(credentials))
}

/// Whether this header would cost a hash: it is not remembered.
pub(crate) fn is_pending(auth: &Auth, header: &str) -> bool {
    matches!(auth.identify(Some(header.as_bytes()), now(), attach), Identified::Pending(_))
}
